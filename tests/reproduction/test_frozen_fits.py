"""Other fits of the classes, and effects of few rows."""

import math

import numpy as np
import pytest
import torch

from classifiers.labelled import opposite
from frozen_data import TAU, features, fitted, rows, score, unbiased_length, vmf_rows
from resultant.analysis import FrozenSpace
from resultant.classes.finite_sample import held_out_state
from resultant.classes.scores import class_scores
from resultant.classes.statistics import ClassState
from resultant.vmf.distribution import VonMisesFisher
from resultant_reproduction.frozen import finite_sample
from resultant_reproduction.frozen.fits import REALIZATIONS, compare_fits


def test_rows_are_the_estimators(small: FrozenSpace) -> None:
    comparison = compare_fits(small)
    assert [row.name for row in comparison.rows] == ["mle", "corrected", "loo", "held-out"]
    labels = small.test_labels
    z = small.units("test", torch.arange(len(labels)))
    # Every second held-out row of each class.
    of_class = [(labels == c).nonzero()[:, 0] for c in range(small.num_classes)]
    rows, fitting = (torch.cat([own[i::2] for own in of_class]).sort().values for i in (1, 0))
    states: dict[str, ClassState] = {
        name: small.statistics.state(name) for name in ("mle", "corrected", "loo")
    }
    states["held-out"] = held_out_state(small.statistics, z[fitting], labels[fitting])
    assert comparison.tested == len(rows)
    base = {r: class_scores(z[rows], states["mle"], small.tau, r).argmax(1) for r in REALIZATIONS}
    for row in comparison.rows:
        state = states[row.name]
        torch.testing.assert_close(row.gains, state.resultant / small.tau)
        density = VonMisesFisher(state.mu[labels[rows]], state.kappa[labels[rows]])
        expected = float(density.log_prob(z[rows]).mean())
        assert row.log_density == pytest.approx(expected, rel=1e-5, abs=1e-5)
        for decision in row.decisions:
            best = class_scores(z[rows], state, small.tau, decision.realization).argmax(1)
            accuracy = float((best == labels[rows]).double().mean())
            assert decision.accuracy == pytest.approx(accuracy, abs=1 / len(rows))
            changed = float((best != base[decision.realization]).double().mean())
            assert decision.changed == pytest.approx(changed, abs=1 / len(rows))


def test_rows_of_a_trained_network_are_too_close() -> None:
    """Training rows of kappa 120 and new rows of kappa 30: only held-out rows show it."""
    train, test = (vmf_rows(kappa, 20, torch.full((5,), 60), 0) for kappa in (120.0, 30.0))
    comparison = compare_fits(FrozenSpace.fit(*train, *test))
    rows = {row.name: row for row in comparison.rows}
    assert rows["held-out"].mean_gain < 0.9 * rows["mle"].mean_gain
    assert rows["held-out"].fitted == pytest.approx(rows["held-out"].seen, abs=0.01)
    assert rows["loo"].fitted > rows["loo"].seen + 0.1
    assert rows["held-out"].log_density > rows["mle"].log_density + 1


def test_components_change_decisions_where_a_class_has_two() -> None:
    """Two classes of opposite components: one direction cannot tell them apart."""
    z, y = map(torch.from_numpy, opposite(80))
    space = FrozenSpace.fit(z[:200], y[:200], z[200:], y[200:], tau=0.2)
    comparison = compare_fits(space, ["components"])
    (_, row) = comparison.rows
    assert row.components == pytest.approx(5 / 3)
    native = row.decisions[0]
    assert native.realization == "native" and native.gain > 0.2 and native.accuracy > 0.95


@pytest.mark.parametrize("most", [500, 25])
def test_support_against_definition(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every draw by itself, of classes as large as asked for and of those cut to some rows."""
    monkeypatch.setattr(finite_sample, "MOST_ROWS", most)
    x, y = features(torch.tensor([60, 30, 45, 20]))
    space = FrozenSpace.fit(x, y, *features(torch.full((4,), 2), seed=1))
    sizes, draws = (4, 9, 15), 6
    actual = finite_sample.support_curve(space, sizes, draws=draws, seed=3)
    assert actual.classes.tolist() == [0, 1, 2], "the last has fewer than 30 rows"
    cut = max(most, 30)
    assert actual.reference_rows.tolist() == [min(n, cut) - 15 for n in (60, 30, 45)]
    generator, unit = torch.Generator().manual_seed(3), rows(x)
    torch.randperm(3, generator=generator)  # which classes: all of them
    values = np.zeros((3, draws, len(sizes), 5))
    for c in range(3):
        own = np.flatnonzero((y == c).numpy())
        own = np.sort(own[torch.randperm(len(own), generator=generator).numpy()[:cut]])
        for d in range(draws):
            drawn = own[torch.randperm(len(own), generator=generator).numpy()]
            A, mu = unbiased_length(unit[drawn[15:]])
            for k, n in enumerate(sizes):
                R = np.linalg.norm(unit[drawn[:n]].mean(0))
                corrected, direction = unbiased_length(unit[drawn[:n]])
                angle = math.degrees(math.acos(direction @ mu))
                expected = math.sqrt(A**2 + (1 - A**2) / n) - A
                values[c, d, k] = abs(R - A), R - A, expected, abs(corrected - A), angle
    ours = actual.error, actual.bias, actual.predicted_bias, actual.corrected_error
    ours = torch.stack([*ours, actual.direction_degrees], 1)
    np.testing.assert_allclose(ours, values.mean((0, 1)), rtol=1e-9)
    np.testing.assert_allclose(actual.error_sd, values[..., 0].mean(1).std(0, ddof=1), rtol=1e-9)


def test_self_inclusion_against_refits() -> None:
    counts = torch.tensor([20, 12, 6, 1])
    x, y = features(counts)
    identities = torch.arange(len(y))
    identities[(y == 1).nonzero().squeeze(1)] = torch.arange(12) // 2
    test = features(torch.full((4,), 2), seed=1)
    space = FrozenSpace.fit(x, y, *test, identities=identities)
    result = finite_sample.self_inclusion(space)
    assert result.classes.tolist() == [0, 1, 2] and result.queries.tolist() == [20, 12, 6]
    unit = rows(x)
    for place, c in enumerate((0, 1, 2)):
        own = np.flatnonzero((y == c).numpy())
        n = len(own)
        mu, kappa = fitted(unit[own])
        exact, leading, history = [], [], []
        for i in own:
            rest = own[own != i]
            included = score(unit[i] @ mu, kappa, TAU)
            other, k = fitted(unit[rest])
            exact.append(included - score(unit[i] @ other, k, TAU))
            means = unit[own].mean(0) - unit[rest].mean(0)
            leading.append(unit[i] @ means / TAU)
            others = own[identities[own].numpy() != int(identities[i])]
            other, k = fitted(unit[others])
            history.append(included - score(unit[i] @ other, k, TAU))
        assert float(result.exact[place]) == pytest.approx(np.mean(exact), rel=1e-6)
        assert float(result.exact_sd[place]) == pytest.approx(np.std(exact, ddof=1), rel=1e-6)
        assert float(result.leading[place]) == pytest.approx(np.mean(leading), rel=1e-9)
        assert float(result.leading_sd[place]) == pytest.approx(np.std(leading, ddof=1), rel=1e-9)
        # With the unbiased A the mean over a whole class is the prediction, exactly.
        assert float(result.predicted[place]) == pytest.approx(np.mean(leading), rel=1e-9)
        assert n == int(result.count[place]) and result.history is not None
        assert float(result.history[place]) == pytest.approx(np.mean(history), rel=1e-6)
    assert result.history is not None
    torch.testing.assert_close(result.history[[0, 2]], result.exact[[0, 2]])
    assert float(result.history[1]) != pytest.approx(float(result.exact[1]), rel=1e-3)
    alone = FrozenSpace.fit(x, y, *test, identities=torch.arange(len(y)))
    assert finite_sample.self_inclusion(alone).history is None
    few = finite_sample.self_inclusion(space, most=9)
    assert few.queries.tolist() == [3, 3, 3]
