"""The inverse of the ratio from the complement, and the ratio near one."""

from __future__ import annotations

import flint
import pytest
import torch
from flint import arb as ball
from torch.autograd import gradcheck

from resultant import bessel_ratio, bessel_ratio_inverse
from resultant.special.ratio import complement


def complement_in_arb(nu: float, x: float) -> float:
    flint.ctx.prec = 4000
    n, y = ball(nu), ball(x) ** 2 / 4
    ratio = ball(x) * y.hypgeom_0f1(n + 2) / (y.hypgeom_0f1(n + 1) * (2 * n + 2))
    return float((1 - ratio).mid())


@pytest.mark.usefixtures("with_and_without_kernel")
@pytest.mark.slow
@pytest.mark.parametrize("nu", [0.0, 0.5, 7.5, 63.0, 511.0])
def test_inverse_of_the_complement(nu: float) -> None:
    for x in (1e-3, 0.7, 12.0, 300.0, 1e5):
        gap = complement_in_arb(nu, x)
        for order in (nu, torch.tensor(nu, dtype=torch.float64)):
            back = float(bessel_ratio_inverse(order, complement=gap))
            # The rounding of the complement is that of r where r is small.
            assert abs(back / x - 1) <= 1e-14 * max(1, (nu + 1) / x), (nu, x)


@pytest.mark.usefixtures("with_and_without_kernel")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_inverse_of_a_tiny_complement(dtype: torch.dtype) -> None:
    """1 - R = (nu + 1/2)/x for a large x, also where squares of x overflow."""
    gap = torch.tensor([1e-12, 1e-15, 1e-20, 1e-30, torch.finfo(dtype).tiny * 4], dtype=dtype)
    for nu in (0.5, 7.5, 100.0):
        x = bessel_ratio_inverse(nu, complement=gap)
        finite = x.isfinite()
        assert finite[:4].all()
        expected = ((nu + 0.5) / gap.double())[finite]
        torch.testing.assert_close(x.double()[finite], expected, rtol=1e-6, atol=0)
    assert torch.isinf(bessel_ratio_inverse(0.5, complement=gap * 0)).all()


def test_derivative_of_the_inverse() -> None:
    gap = torch.tensor([0.9, 0.3, 0.01], dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda g: bessel_ratio_inverse(3.5, complement=g), gap)
    back = complement(3.5, bessel_ratio_inverse(3.5, complement=gap.detach()))
    torch.testing.assert_close(back, gap.detach(), rtol=1e-14, atol=0)


@pytest.mark.parametrize("nu", [0.0, 0.0058, 0.5, 1.0])
def test_the_ratio_does_not_exceed_one(nu: float) -> None:
    x = torch.logspace(10, 300, 20_000, dtype=torch.float64)
    for order in (nu, torch.tensor(nu, dtype=torch.float64)):
        assert (bessel_ratio(order, x) <= 1).all()
