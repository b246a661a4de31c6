"""The goodness of fit against its definition."""

import math

import pytest
import torch
from scipy.stats import kstest

from frozen_data import C, P, rows, vmf_rows
from resultant.vmf.tails import log_projection_tail
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
