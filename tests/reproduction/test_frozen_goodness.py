"""The goodness of fit and effects of few rows against their definitions."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from frozen_data import TAU, C, P, features, fitted, rows, score, unbiased_length, vmf_rows
from resultant.vmf.tails import log_projection_tail
from resultant_reproduction.frozen import finite_sample
from resultant_reproduction.frozen.goodness import goodness_of_fit, law
from resultant_reproduction.frozen.space import FrozenSpace

F64 = torch.float64


@pytest.mark.parametrize(("p", "kappa"), [(3, 0.0), (3, 1e5), (16, 0.7), (1024, 40.0), (1024, 1e5)])
def test_distribution_of_the_cosine(p: int, kappa: float) -> None:
    peak = 2 * kappa / (p - 1 + math.hypot(p - 1, 2 * kappa))
    width = math.sqrt((1 - peak**2) / (p + kappa))
    rho = (peak + 4 * width * torch.linspace(-1, 1, 41, dtype=F64)).clamp(-1, 1)
    one, k = torch.ones((), dtype=F64), torch.tensor(kappa, dtype=F64)
    expected = log_projection_tail(rho, one, k, p, upper=False).exp()
    actual = law(rho[None], k.reshape(1), p)[0]
    torch.testing.assert_close(actual, expected, rtol=0, atol=2e-5)


@pytest.mark.slow
def test_goodness_of_fit_against_definition(small: FrozenSpace) -> None:
    actual = goodness_of_fit(small)
    x, y = torch.as_tensor(rows(small.test[:])), small.test_labels
    assert actual.classes.tolist() == list(range(C))
    assert int(actual.histogram.sum()) == len(small.test)
    one = torch.ones((), dtype=F64)
    for c in (0, 11, C - 1):
        mu, kappa = small.state.mu[c], small.state.kappa[c]
        mine = x[y == c]
        rho = mine @ mu
        expected = log_projection_tail(rho, one, kappa, P, upper=False).exp()
        expected = kstest(expected.numpy(), "uniform")
        assert float(actual.kolmogorov[c]) == pytest.approx(expected.statistic, abs=1e-4)
        assert float(actual.p_value[c]) == pytest.approx(expected.pvalue, abs=2e-3)
        assert float(actual.mean_cosine[c]) == pytest.approx(float(rho.mean()))
        across = mine - rho[:, None] * mu
        across = across / across.norm(dim=1, keepdim=True)
        squares = (across @ across.T).square()[~torch.eye(len(mine), dtype=torch.bool)]
        assert float(actual.anisotropy[c]) == pytest.approx((P - 1) * float(squares.mean()))
    assert actual.rejected == pytest.approx(float((actual.p_value < 0.05).double().mean()))
    # The same for each seed, whatever was drawn before; what is drawn next is left alone.
    torch.manual_seed(1)
    first, after = goodness_of_fit(small, seed=4), torch.rand(3)
    torch.manual_seed(1)
    assert torch.equal(after, torch.rand(3))
    assert first.to_dict() == goodness_of_fit(small, seed=4).to_dict()
    assert float(first.expected_histogram.sum()) == pytest.approx(float(first.histogram.sum()))


@pytest.mark.slow
@pytest.mark.parametrize(("kappa", "estimator"), [(550.0, "mle"), (15.0, "proco")])
def test_vmf_classes_are_rejected_as_often_as_expected(kappa: float, estimator: str) -> None:
    """The fit of few rows is rejected although all is vMF, and that is foreseen."""
    sizes = torch.logspace(math.log10(5), math.log10(300), 150).round().long()
    train = vmf_rows(kappa, 32, sizes, 5)
    test = vmf_rows(kappa, 32, torch.full((150,), 60), 6)
    actual = goodness_of_fit(FrozenSpace.fit(*train, *test, estimator=estimator))
    spread = math.sqrt(actual.expected * (1 - actual.expected) * (1 / 150 + 1 / 1000))
    assert abs(actual.rejected - actual.expected) < 3 * spread
    assert actual.rejected > 0.05 + 5 * math.sqrt(0.05 * 0.95 / 150)
    # So is how far the histogram is from flat.
    observed, expected = (h / 9000 * 20 for h in (actual.histogram, actual.expected_histogram))
    assert (observed - 1).abs().max() > 1
    torch.testing.assert_close(observed[0].double(), expected[0], rtol=0.15, atol=0)


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
