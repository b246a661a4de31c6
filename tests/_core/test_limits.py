"""The table of ranges: its ends are taken, what is beyond is refused, results at the ends hold."""

import math

import pytest
import torch

from resultant import bessel_ratio, class_scores, vmf_score
from resultant._core.limits import LIMITS, Limits
from resultant.classes import ClassState

CASES = [pytest.param(dtype, own, id=str(dtype)) for dtype, own in LIMITS.items()]


def above(value: float, dtype: torch.dtype) -> torch.Tensor:
    a = torch.tensor(value, dtype=dtype)
    return a.nextafter(torch.full_like(a, math.inf))


def below(value: float, dtype: torch.dtype) -> torch.Tensor:
    a = torch.tensor(value, dtype=dtype)
    return a.nextafter(torch.zeros_like(a))


@pytest.mark.parametrize(("dtype", "own"), CASES)
def test_scores(dtype: torch.dtype, own: Limits) -> None:
    one = torch.ones((), dtype=dtype)
    for kappa, tau in ((own.kappa, 1.0), (1.0, own.least_tau), (1.0, own.most_tau)):
        assert vmf_score(one, kappa * one, tau * one, 3).isfinite(), (kappa, tau)
    for kappa, tau, name in (
        (above(own.kappa, dtype), one, "kappa"),
        (one, below(own.least_tau, dtype), "tau"),
        (one, above(own.most_tau, dtype), "tau"),
    ):
        with pytest.raises(ValueError, match=f"expected {name} [<>]= .* in {dtype}"):
            vmf_score(one, kappa, tau, 3)
    assert vmf_score(one, one, one, int(own.order)).isfinite()
    with pytest.raises(ValueError, match="expected p <= "):
        vmf_score(one, one, one, 2 * int(own.order))


@pytest.mark.parametrize(("dtype", "own"), CASES)
def test_temperatures_of_comparisons(dtype: torch.dtype, own: Limits) -> None:
    state = ClassState(torch.eye(3), torch.ones(3), torch.ones(3))
    z = torch.eye(3, dtype=dtype)
    assert class_scores(z, state, own.least_compared_tau).isfinite().all()
    with pytest.raises(ValueError, match=r"expected tau >= "):
        class_scores(z, state, float(below(own.least_compared_tau, dtype)))


@pytest.mark.parametrize(("dtype", "own"), CASES)
@pytest.mark.parametrize("nu", [0.5, 7.0])
def test_derivatives_of_the_ratio(dtype: torch.dtype, own: Limits, nu: float) -> None:
    """R = 1 - (nu + 1/2)/x + O(1/x^2) at large x."""
    for order, x in ((1, own.first_derivative), (2, own.second_derivative)):
        at = torch.tensor(x, dtype=dtype, requires_grad=True)
        (value,) = torch.autograd.grad(bessel_ratio(nu, at), at, create_graph=True)
        if order == 2:
            (value,) = torch.autograd.grad(value, at)
        expected = (nu + 0.5) / x**2 if order == 1 else -2 * (nu + 0.5) / x**3
        assert value.item() == pytest.approx(expected, rel=1e-5), order
