"""Other fits of the classes, against the estimators and a naive judge."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from resultant.analysis import FrozenSpace
from resultant.analysis.fits import REALIZATIONS, compare_fits
from resultant.analysis.plain import UnansweredError
from resultant.classes.finite_sample import held_out_state
from resultant.classes.realization import class_scores
from resultant.classes.statistics import ClassState
from resultant.vmf.distribution import VonMisesFisher


@pytest.mark.slow
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
    torch.manual_seed(0)
    mu = torch.nn.functional.normalize(torch.randn(5, 20, dtype=torch.float64), dim=1)
    y = torch.arange(5).repeat(60)
    train, test = (VonMisesFisher(mu[y], kappa).sample() for kappa in (120.0, 30.0))
    comparison = compare_fits(FrozenSpace.fit(train, y, test, y))
    rows = {row.name: row for row in comparison.rows}
    assert rows["held-out"].mean_gain < 0.9 * rows["mle"].mean_gain
    assert rows["held-out"].fitted == pytest.approx(rows["held-out"].seen, abs=0.01)
    assert rows["loo"].fitted > rows["loo"].seen + 0.1
    assert rows["held-out"].log_density > rows["mle"].log_density + 1


@pytest.mark.slow
def test_components_change_decisions_where_a_class_has_two() -> None:
    """Two classes of opposite components: one direction cannot tell them apart."""
    torch.manual_seed(0)
    centre = torch.eye(6, dtype=torch.float64)[[0, 0, 1, 1, 2]]
    centre = centre * torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0])[:, None].double()
    part = torch.arange(400) % 5
    z = torch.nn.functional.normalize(centre[part] + 0.2 * torch.randn(400, 6), dim=1)
    y = torch.tensor([0, 0, 1, 1, 2])[part]
    space = FrozenSpace.fit(z[:200], y[:200], z[200:], y[200:], tau=0.2)
    comparison = compare_fits(space, ["components"])
    (_, row) = comparison.rows
    assert row.components == pytest.approx(5 / 3)
    native = row.decisions[0]
    assert native.realization == "native" and native.gain > 0.2 and native.accuracy > 0.95


def test_too_few_held_out_rows(small: FrozenSpace) -> None:
    one = replace(small, test=small.test[:1], test_labels=small.test_labels[:1])
    with pytest.raises(UnansweredError, match="two held-out rows of some class, got none"):
        compare_fits(one)
