"""Effects of few rows."""

import numpy as np
import pytest
import torch

from frozen_data import TAU, features, fitted, rows, score, unbiased_length
from resultant_reproduction.frozen import finite_sample
from resultant_reproduction.frozen.space import FrozenSpace


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
    generator, unit = torch.Generator().manual_seed(3), rows(x)
    torch.randperm(3, generator=generator)  # which classes: all of them
    values = np.zeros((3, draws, len(sizes), 2))
    for c in range(3):
        own = np.flatnonzero((y == c).numpy())
        own = np.sort(own[torch.randperm(len(own), generator=generator).numpy()[:cut]])
        for d in range(draws):
            drawn = own[torch.randperm(len(own), generator=generator).numpy()]
            A, _ = unbiased_length(unit[drawn[15:]])
            for k, n in enumerate(sizes):
                R = np.linalg.norm(unit[drawn[:n]].mean(0))
                expected = np.sqrt(A**2 + (1 - A**2) / n) - A
                values[c, d, k] = abs(R - A), expected
    ours = torch.stack([actual.error, actual.predicted_bias], 1)
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
