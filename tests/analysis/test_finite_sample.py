"""Effects of few rows against refits."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from frozen_data import TAU, features, fitted, rows, score
from resultant.analysis import FrozenSpace, self_inclusion, support_curve
from resultant.analysis import finite_sample as samples
from resultant.analysis.metrics import UnansweredError, plain


@pytest.mark.parametrize("most", [500, 25])
def test_support_against_definition(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every draw by itself, of classes as large as asked for and of those cut to some rows."""
    monkeypatch.setattr(samples, "MOST_ROWS", most)
    x, y = features(torch.tensor([60, 30, 45, 20]))
    space = FrozenSpace.fit(x, y, *features(torch.full((4,), 2), seed=1))
    sizes, draws = (4, 9, 15), 6
    actual = support_curve(space, sizes, draws=draws, seed=3)
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


def unbiased_length(x: np.ndarray) -> tuple[float, np.ndarray]:
    """sqrt(max(U, 0)) of unit rows, U the mean cosine of two of them, and their direction."""
    cosines = (x @ x.T)[~np.eye(len(x), dtype=bool)]
    mean = x.mean(0)
    return math.sqrt(max(cosines.mean(), 0)), mean / np.linalg.norm(mean)


def test_self_inclusion_against_refits() -> None:
    counts = torch.tensor([20, 12, 6, 1])
    x, y = features(counts)
    identities = torch.arange(len(y))
    identities[(y == 1).nonzero().squeeze(1)] = torch.arange(12) // 2
    test = features(torch.full((4,), 2), seed=1)
    space = FrozenSpace.fit(x, y, *test, identities=identities)
    result = self_inclusion(space)
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
    assert self_inclusion(alone).history is None
    few = self_inclusion(space, most=9)
    assert few.queries.tolist() == [3, 3, 3]


def test_questions_without_rows() -> None:
    x, y = features(torch.tensor([4, 4]))
    alone = FrozenSpace.fit(x[::4], y[::4], x, y)
    with pytest.raises(UnansweredError, match="expected a class of two fitting rows or more"):
        self_inclusion(alone)
    space = FrozenSpace.fit(x, y, x, y)
    for sizes, draws in (((1, 2), 10), ((), 10), ((2,), 0)):
        with pytest.raises(ValueError, match="expected sizes >= 2 and draws >= 1, got"):
            support_curve(space, sizes, draws=draws)
    with pytest.raises(UnansweredError, match="expected two classes of 6 training rows or more"):
        support_curve(space, (5, 3))


def test_results_are_numbers_names_and_tensors() -> None:
    values = {"a": (1, None), "b": torch.tensor([1.0, math.nan]), "c": math.inf}
    assert plain(values) == {"a": [1, None], "b": [1.0, None], "c": None}
    with pytest.raises(TypeError, match="expected a result of numbers, names and arrays, got set"):
        plain({1})
