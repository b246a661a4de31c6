"""The von Mises-Fisher law that is fitted to vectors: the maximum of the likelihood.

Draws have fixed seeds: an estimate further than five standard errors from what was drawn is a
failure.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from directions import STANDARD_ERRORS, axis, direction, double
from exact_vmf import seeded as seeded
from resultant.special.bessel import ratio
from resultant.vmf.distribution import VonMisesFisher
from resultant.vmf.estimators import mean_resultant


class TestFit:
    @pytest.mark.parametrize(("p", "kappa"), [(2, 5.0), (3, 1e6), (16, 40.0), (128, 300.0)])
    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
    def test_round_trip(self, p: int, kappa: float, dtype: torch.dtype) -> None:
        loc = direction(p)
        x = VonMisesFisher(loc, kappa).sample((20000,)).to(dtype)
        fitted = VonMisesFisher.fit(x)
        assert fitted.loc.dtype == fitted.concentration.dtype == dtype
        # The mean resultant length has standard error sqrt(A'/n), hence kappa 1/sqrt(n A').
        slope = ratio(p / 2 - 1, double(kappa), 1).item()
        error = 1 / math.sqrt(20000 * slope)
        assert abs(fitted.concentration.item() - kappa) < STANDARD_ERRORS * error
        # Each component across the mean has variance (A/kappa)/n over A^2, about 1/(n kappa A).
        chord = (fitted.loc.double() - loc).square().sum().item()
        assert chord < 25 * p / (20000 * kappa * mean_resultant(p, kappa).item())

    def test_is_the_maximum_of_the_likelihood(self) -> None:
        x = VonMisesFisher(direction(4), 7.0).sample((50,))
        fitted = VonMisesFisher.fit(x)
        kappa = fitted.concentration.clone().requires_grad_()
        loc = fitted.loc.clone().requires_grad_()
        value = VonMisesFisher(loc, kappa).log_prob(x).sum()
        in_loc, in_kappa = torch.autograd.grad(value, (loc, kappa))
        assert abs(in_kappa.item()) < 1e-10
        assert (in_loc - (in_loc @ loc) * loc).abs().max() < 1e-10

    def test_float32_rows_of_rounded_length(self) -> None:
        # With 1 - R = 1e-6, norms off by 6e-8 would cost the second digit.
        x = VonMisesFisher(direction(3), 1e6).sample((500,))
        exactly = VonMisesFisher.fit(x).concentration.item()
        rounded = (x * (1 + 2e-7)).float()
        assert VonMisesFisher.fit(rounded).concentration.item() == pytest.approx(
            exactly, rel=1e-3, abs=0
        )

    def test_weights_repeat_vectors(self) -> None:
        x = VonMisesFisher(direction(5), 2.0).sample((4,))
        weights = torch.tensor([1, 0, 3, 2])
        weighted = VonMisesFisher.fit(x, weights)
        repeated = VonMisesFisher.fit(x.repeat_interleave(weights, dim=0))
        torch.testing.assert_close(weighted.loc, repeated.loc)
        torch.testing.assert_close(weighted.concentration, repeated.concentration)

    def test_batches(self) -> None:
        x = VonMisesFisher(direction(4, 2, 3), 9.0).sample((30,)).movedim(0, -2)
        weights = torch.rand(3, 30)
        fitted = VonMisesFisher.fit(x, weights)
        assert fitted.batch_shape == (2, 3)
        alone = VonMisesFisher.fit(x[1, 2], weights[2])
        torch.testing.assert_close(fitted.loc[1, 2], alone.loc)
        torch.testing.assert_close(fitted.concentration[1, 2], alone.concentration)
        assert VonMisesFisher.fit(x[0, 0], weights).batch_shape == (3,)

    def test_vectors_that_sum_to_zero(self) -> None:
        fitted = VonMisesFisher.fit(torch.stack([axis(3, 1), -axis(3, 1)]))
        torch.testing.assert_close(fitted.loc, axis(3))
        assert fitted.concentration.item() == 0

    def test_errors(self) -> None:
        x = direction(4, 6)

        def raises(match: str, *args: Tensor) -> None:
            with pytest.raises(ValueError, match=match):
                VonMisesFisher.fit(*args)

        for dtype in (torch.float64, torch.float32, torch.bfloat16):
            same = direction(4).to(dtype).expand(1000, 4)
            raises(r"< 1 \(equal vectors have an unbounded maximum-likelihood", same)
        raises("unbounded", direction(65536).float().expand(7, 65536))
        raises("unbounded", x[:1])
        raises("the total weight > 0 and finite, got 0", x, torch.zeros(6))
        raises("weights >= 0 and finite, got -1 at index 2", x, double(1, 1, -1, 1, 1, 1))
        raises("weights >= 0 and finite, got nan at index 0", x, torch.full((6,), math.nan))
        raises(r"weights \[\.\.\., 6\], one per vector, got \(5,\)", x, torch.ones(5))
        long = x.clone()
        long[3] *= 2
        raises(r"\|x\| - 1 within .* of zero, got 1 at index 3", long)
        long[3] = math.nan
        raises(r"\|x\| - 1 within .* of zero, got nan at index 3", long)
        raises(r"x \[\.\.\., n, p\], n >= 1 and p >= 2, got \(4,\)", x[0])
        raises(r"x \[\.\.\., n, p\], n >= 1 and p >= 2, got \(0, 4\)", x[:0])
        raises("x of a floating dtype, got torch.int64", torch.eye(3, dtype=torch.int64))
