"""The normaliser, the mean resultant length and estimators of the concentration, against Arb."""

from __future__ import annotations

import math

import pytest
import torch

from resultant.special.bessel import bessel_ratio, ratio
from resultant.vmf.estimators import ESTIMATORS, concentration, log_normalizer, mean_resultant
from vmf.directions import (
    DIMENSIONS,
    EPS,
    double,
    exact,
    exact_integral,
    exact_log_area,
)

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

    def test_log_normalizer_at_zero_is_the_log_area(self) -> None:
        assert log_normalizer(2, 0.0).item() == pytest.approx(
            math.log(2 * math.pi), rel=1e-15, abs=0
        )
        assert log_normalizer(3, 0.0).item() == pytest.approx(
            math.log(4 * math.pi), rel=1e-15, abs=0
        )

    def test_log_normalizer_in_three_dimensions(self) -> None:
        kappa = torch.linspace(0.1, 30, 50, dtype=torch.float64)
        expected = (4 * math.pi * kappa.sinh() / kappa).log()
        torch.testing.assert_close(log_normalizer(3, kappa), expected, rtol=1e-14, atol=0)

    def test_its_derivative_is_the_mean_resultant_length(self) -> None:
        kappa = double(0.0, 0.3, 7.0, 200.0).requires_grad_()
        (slope,) = torch.autograd.grad(log_normalizer(12, kappa).sum(), kappa)
        torch.testing.assert_close(slope, mean_resultant(12, kappa), rtol=1e-15, atol=0)
        torch.testing.assert_close(slope, bessel_ratio(5, kappa), rtol=1e-15, atol=0)


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

    @pytest.mark.parametrize("estimator", ESTIMATORS)
    def test_is_infinite_at_one_and_differentiable_below(self, estimator: str) -> None:
        assert concentration(5, 1.0, estimator).item() == math.inf
        assert concentration(5, torch.tensor([1.0]), estimator).dtype == torch.float32
        R = double(0.1, 0.8).requires_grad_()
        assert torch.autograd.gradcheck(lambda r: concentration(5, r, estimator), R)

    def test_errors(self) -> None:
        with pytest.raises(ValueError, match=r"one of \('mle', 'proco', 'banerjee'\), got 'em'"):
            concentration(5, 0.5, "em")
        with pytest.raises(ValueError, match=r"expected R between 0 and 1, got 1\.5 at index 1"):
            concentration(5, double(0.5, 1.5))
        with pytest.raises(ValueError, match="expected p >= 2, got 1"):
            concentration(1, 0.5)
        with pytest.raises(ValueError, match="expected kappa >= 0 and finite, got -3 at index 1"):
            mean_resultant(5, double(0.5, -3.0))
        with pytest.raises(ValueError, match="expected kappa >= 0 and finite, got nan"):
            log_normalizer(5, math.nan)
