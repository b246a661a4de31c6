"""The normaliser, the mean resultant length and estimators of the concentration, against Arb."""

import math

import pytest
import torch

from resultant.special.ratio import ratio
from resultant.vmf import estimators
from resultant.vmf.distribution import VonMisesFisher
from resultant.vmf.estimators import concentration, log_normalizer, mean_resultant
from vmf.directions import DIMENSIONS, EPS, double, exact, exact_integral, exact_log_area

CONCENTRATIONS = (0.0, 1e-3, 0.5, 3.0, 40.0, 1e3, 1e6)


class TestNormalizer:
    @pytest.mark.parametrize("p", DIMENSIONS)
    def test_log_normalizer_against_arb(self, p: int) -> None:
        value = log_normalizer(p, double(*CONCENTRATIONS))
        for kappa, got in zip(CONCENTRATIONS, value.tolist(), strict=True):
            area, integral = exact(lambda: exact_log_area(p)), exact_integral(p, kappa)
            assert abs(got - (area + integral)) <= 8 * EPS * (abs(area) + integral)

    @pytest.mark.parametrize("p", [2, 3, 17, 128])
    def test_log_normalizer_far_out(self, p: int) -> None:
        area = exact(lambda: exact_log_area(p))
        for dtype in (torch.float64, torch.float32):
            kappa = torch.tensor([1e9, 1e12, 1e15, 1e18], dtype=dtype)
            for k, got in zip(kappa.tolist(), log_normalizer(p, kappa).tolist(), strict=True):
                expected = area + exact_integral(p, k)
                assert abs(got - expected) <= 2 * torch.finfo(dtype).eps * expected


class TestConcentration:
    @pytest.mark.parametrize("p", DIMENSIONS)
    def test_maximum_likelihood_inverts_the_mean_resultant_length(self, p: int) -> None:
        kappa = double(0.0, 0.01, 1.0, 30.0, 1e3, 1e6)
        R = mean_resultant(p, kappa)
        # Half an ulp of R near one is (A/A') of kappa.
        conditioning = kappa + R / ratio(p / 2 - 1, kappa, 1)
        assert ((concentration(p, R) - kappa).abs() <= 8 * EPS * conditioning).all()

    def test_closed_forms(self) -> None:
        R = double(0.0, 0.25, 0.9)
        torch.testing.assert_close(concentration(7, R, "proco"), 7 * R / (1 - R**2))
        torch.testing.assert_close(concentration(7, R, "banerjee"), R * (7 - R**2) / (1 - R**2))

    @pytest.mark.slow
    @pytest.mark.parametrize("estimator", estimators.ESTIMATORS)
    def test_is_infinite_at_one_and_differentiable_below(self, estimator: str) -> None:
        assert concentration(5, 1.0, estimator, n=4).item() == math.inf
        assert concentration(5, torch.tensor([1.0]), estimator, n=4).dtype == torch.float32
        R = double(0.1, 0.8).requires_grad_()
        assert torch.autograd.gradcheck(lambda r: concentration(5, r, estimator, n=40), R)


def directions(kappa: float, p: int, *shape: int) -> torch.Tensor:
    mu = torch.eye(1, p, dtype=torch.float64)[0]
    return VonMisesFisher(mu, kappa).sample(shape)


class TestEstimatorsOfSample:
    """``corrected`` and ``loo``, which know the number of vectors."""

    def test_closed_forms(self) -> None:
        R, n, p = double(0.5, 0.7, 0.9), double(9, 4, 2), 6
        U = (n * R**2 - 1) / (n - 1)
        loo = (n * R**2 - 1) / (n * (n - 2) * R**2 + 1).sqrt()
        low = double(0.3, 0.3).requires_grad_()
        for estimator, length in (("corrected", U.sqrt()), ("loo", loo)):
            expected = concentration(p, length)
            torch.testing.assert_close(concentration(p, R, estimator, n=n), expected)
            # A length below that of chance, and one vector, which keeps its length.
            kappa = concentration(p, low, estimator, n=10)
            assert kappa.tolist() == [0.0, 0.0]
            assert torch.autograd.grad(kappa.sum(), low)[0].tolist() == [0.0, 0.0]
            assert concentration(p, 0.4, estimator, n=1) == concentration(p, 0.4)

    def test_corrected_square_is_unbiased(self) -> None:
        torch.manual_seed(0)
        p, kappa, n = 20, 6.0, 5
        R = directions(kappa, p, 4000, n).mean(1).norm(dim=1)
        squares = estimators.unbiased_square(R, double(n))
        error = squares.std() / math.sqrt(len(squares))
        assert abs(squares.mean() - mean_resultant(p, kappa) ** 2) < 4 * error

    @pytest.mark.parametrize(("p", "kappa", "n"), [(64, 30.0, 8), (1000, 300.0, 20), (16, 8.0, 12)])
    def test_loo_is_the_mean_cosine_with_the_others(self, p: int, kappa: float, n: int) -> None:
        torch.manual_seed(0)
        z = directions(kappa, p, 300, n)
        total = z.sum(1, keepdim=True)
        others = torch.nn.functional.normalize(total - z, dim=-1)
        cosine = (z * others).sum(-1).mean(1)
        length = estimators.corrected_length(total.norm(dim=-1).squeeze(1) / n, double(n), "loo")
        error = (length - cosine)[length > 0].abs().mean()
        # The lengths of the others vary by about 1/(A sqrt(pn)), and the error is their variance.
        assert error < cosine.mean() / (p * n * float(mean_resultant(p, kappa)) ** 2)
        # And a new vector sees this cosine with the fitted direction, up to one more vector.
        fitted = torch.nn.functional.normalize(total[:, 0], dim=-1)
        new = (directions(kappa, p, 300) * fitted).sum(1)
        assert abs(new.mean() - length.mean()) < 0.03
