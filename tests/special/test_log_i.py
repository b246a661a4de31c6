"""log I and its scaled form: large orders near the zero of log I, and all arguments."""

import math
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from reference import arb
from resultant import bessel_ratio, log_bessel_i, log_bessel_ie


def log_debye(nu: float, x: float) -> Any:
    """log I by the Debye expansion (DLMF 10.41.3) in 100 digits, for orders from 1000 on."""
    with mpmath.workdps(100):
        n, v = mpmath.mpf(nu), mpmath.mpf(x)
        s = mpmath.sqrt(n * n + v * v)
        u = n / s
        terms = [
            (3 * u - 5 * u**3) / 24,
            (81 * u**2 - 462 * u**4 + 385 * u**6) / 1152,
            (30375 * u**3 - 369603 * u**5 + 765765 * u**7 - 425425 * u**9) / 414720,
        ]
        series = 1 + sum(term / n**k for k, term in enumerate(terms, 1))
        log = s + n * mpmath.log(v / (n + s)) - mpmath.log(2 * mpmath.pi * s) / 2
        return log + mpmath.log(series)


@pytest.mark.parametrize("nu", [1e3, 1e7, 1e9, 1e11])
def test_large_orders_in_float32(nu: float) -> None:
    """Up to the largest order, from the smallest x to those whose square overflows."""
    x = torch.cat([torch.logspace(-37, 38, 151), torch.tensor([1.2e-38, 0.5 * nu, 0.7 * nu])])
    with mpmath.workdps(100):
        exact = [[log_debye(nu + i, v) for i in (0, 1)] for v in x.tolist()]
        logs = torch.tensor([float(a) for a, _ in exact], dtype=torch.float64)
        ratios = torch.tensor([float(mpmath.exp(b - a)) for a, b in exact], dtype=torch.float64)
    for order in (nu, torch.tensor([nu])):
        error = (log_bessel_i(order, x) - logs).abs() / logs.abs().clamp_min(1)
        assert error.max() <= 5e-6
        error = (bessel_ratio(order, x) - ratios).abs()
        assert (error <= 2e-6 * ratios + torch.finfo(torch.float32).tiny).all()


@pytest.mark.usefixtures("with_and_without_kernel")
@pytest.mark.parametrize("nu", [40.0, 1023.0, 32767.0, 2e5, 6.6e7, 1e12])
def test_near_its_zero(nu: float) -> None:
    """log I passes zero near x = 0.66 nu, where terms of the size of nu cancel."""
    zero = 0.6627434193491816 * nu
    root = zero + math.log(2 * math.pi * 1.2 * nu) / 2 / 1.81
    points = (zero, zero + 5.322954, zero * (1 + 1e-7), zero * (1 - 1e-6))
    for x in (zero, root, root + 0.5, root - 0.25) if nu < 1e5 else points:
        truth = arb.bessel(nu, x)[0] if nu < 1e5 else float(log_debye(nu, x))
        assert abs(truth) < 10 or nu > 1e5
        for order in (nu, torch.tensor(nu, dtype=torch.float64)):
            error = abs(float(log_bessel_i(order, x)) - truth)
            assert error <= 1e-14 * max(1, abs(truth)), (nu, x)


@pytest.mark.usefixtures("with_and_without_kernel")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_orders_of_a_tensor(dtype: torch.dtype) -> None:
    """An order plus a small number may be rounded to another order."""
    most = 36 if dtype == torch.float32 else 96
    nu = torch.tensor([2.0**k for k in range(18, most, 3)], dtype=dtype)
    x = (nu * 0.6627439).to(dtype)
    bar = 5e-6 if dtype == torch.float32 else 1e-14
    for n, v, log, r in zip(nu, x, log_bessel_i(nu, x), bessel_ratio(nu, x), strict=True):
        truth = float(log_debye(float(n), float(v)))
        assert abs(float(log) - truth) <= bar * max(1, abs(truth)), float(n)
        # R < x/(nu + sqrt(nu^2 + x^2)), an Amos bound that is sharp to 1/nu.
        s = math.hypot(float(n), float(v))
        assert abs(float(r) / (float(v) / (float(n) + s)) - 1) <= 3 / float(n) + bar


@pytest.mark.usefixtures("with_and_without_kernel")
def test_scaled_against_arb() -> None:
    for nu in (0.0, 0.25, 0.5, 2.5, 11.5, 12.0, 29.5, 30.0, 63.0, 511.0):
        # Both sides of the change of formula, at 1.5 times the smallest order.
        x = np.array([1e-30, 1e-3, 0.99, 1.01, 3.5, 17.9, 18.1, 44.9, 45.1, 300.0, 4e4])
        x = x.astype(np.float32).astype(np.float64)
        truth = np.array([arb.log_ie(nu, v) for v in x])
        for dtype, bar in ((torch.float32, 5e-6), (torch.float64, 1e-14)):
            for order in (nu, torch.tensor([nu], dtype=dtype)):
                value = log_bessel_ie(order, torch.tensor(x, dtype=dtype)).double().numpy()
                assert (abs(value - truth) <= bar * np.maximum(1, abs(truth))).all(), nu


def test_scaled_at_the_ends() -> None:
    assert float(log_bessel_ie(0.0, 0.0)) == 0
    assert float(log_bessel_ie(2.0, 0.0)) == -math.inf
    for dtype in (torch.float32, torch.float64):
        most = torch.tensor(torch.finfo(dtype).max, dtype=dtype)
        expected = -0.5 * (math.log(2 * math.pi) + math.log(float(most)))
        for nu in (0.0, 3.5, 1e5):
            assert abs(float(log_bessel_ie(nu, most)) / expected - 1) <= torch.finfo(dtype).eps


def test_scaled_derivatives() -> None:
    x = torch.tensor([0.3, 2.0, 44.0, 46.0, 900.0], dtype=torch.float64, requires_grad=True)
    for nu in (0.0, 2.5, 63.0):
        assert gradcheck(lambda v: log_bessel_ie(nu, v), x, fast_mode=True)  # noqa: B023
    # nu/x - (1 - R) keeps its digits for a large x, where R rounds to one.
    (slope,) = torch.autograd.grad(log_bessel_ie(0.5, x * 1e15).sum(), x)
    torch.testing.assert_close(slope, -0.5 / x.detach(), rtol=1e-10, atol=0)
