"""log I_nu, the ratio, its inverse and integral: against Arb, and their derivatives."""

# pyright: reportCallIssue=false, reportArgumentType=false
# Bad input is passed on purpose, and arguments are unpacked from lists.

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from flint import arb as ball
from hypothesis import given, settings, strategies as st
from torch.autograd import gradcheck

from reference import arb, tables
from resultant import bessel_ratio, bessel_ratio_integral, bessel_ratio_inverse, log_bessel_i
from resultant._core.limits import LIMITS
from resultant.special import compiled
from resultant.special.ratio import complement, ratio

Function = Callable[[torch.Tensor], torch.Tensor]

PRECISION = {torch.float64: 1e-14, torch.float32: 2e-6}
LOG_PRECISION = {torch.float64: 1e-14, torch.float32: 5e-6}
DTYPES = list(PRECISION)

# Orders on both sides of every change of formula: the shift, and the number of terms.
ORDERS = [0.0, 0.25, 0.5, 1.0, 5.5, 11.5, 12.0, 12.5, 29.5, 30.0, 30.5, 63.0, 511.0, 32767.0]


def as_orders(nu: float, dtype: torch.dtype) -> list[float | torch.Tensor]:
    """Return the order as a number and as a tensor: two ways through the expansion."""
    return [nu, torch.tensor([nu], dtype=dtype)]


@pytest.mark.usefixtures("with_and_without_kernel")
@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_against_arb(dtype: torch.dtype) -> None:
    """The ratio, log I, the inverse of the ratio and, in float64, the derivatives of the ratio."""
    back_bar = 5e-15 if dtype == torch.float64 else 2e-6
    for nu, table in tables.bessels():
        x = torch.tensor(table["x"], dtype=dtype)
        for order in as_orders(nu, dtype):
            r = bessel_ratio(order, x)
            error = np.abs(r.double().numpy() / table["ratio"] - 1)
            assert (error <= PRECISION[dtype]).all(), nu
            log = log_bessel_i(order, x).double().numpy()
            scale = np.maximum(1, np.abs(table["log"]))
            assert (np.abs(log - table["log"]) <= LOG_PRECISION[dtype] * scale).all(), nu
            back = bessel_ratio_inverse(order, r).double().numpy()
            condition = table["ratio"] / (table["first"] * table["x"])
            defined = r.numpy() < 1  # a ratio that rounds to one determines no concentration
            error = np.abs(back / table["x"] - 1) / np.maximum(condition, 1)
            assert (error[defined] <= back_bar).all(), nu
            assert np.isinf(back[~defined]).all()
            # The smaller nu, the smaller R' relative to its terms.
            bar = 1e-13 if nu >= 1 else 1e-12
            for n, name in ((1, "first"), (2, "second")) if dtype == torch.float64 else ():
                error = np.abs(ratio(order, x, n).numpy() / table[name] - 1)
                assert (error <= (bar if n == 1 else 10 * bar)).all(), nu


@pytest.mark.slow
@given(nu=st.floats(0, 4000, width=32), x=st.floats(-6, 5).map(lambda e: float(np.float32(10**e))))
@settings(max_examples=60, deadline=None)
def test_anywhere_against_arb(nu: float, x: float) -> None:
    log, r, _, _ = arb.bessel(nu, x)
    for order in as_orders(nu, torch.float64):
        assert abs(float(bessel_ratio(order, x)) / r - 1) <= 1e-14
        assert abs(float(log_bessel_i(order, x)) - log) <= 1e-14 * max(1, abs(log))


@pytest.mark.usefixtures("with_and_without_kernel")
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_logarithm_at_order_zero(dtype: torch.dtype) -> None:
    """The error is relative to the logarithm itself, down to where it is x^2/4."""
    x = torch.cat([torch.logspace(-7, 5, 80), torch.tensor([1e-3, 0.01])]).to(dtype)
    exact = torch.tensor([arb.bessel(0.0, float(v))[0] for v in x], dtype=torch.float64)
    for order in (*as_orders(0.0, dtype), torch.zeros(len(x), dtype=dtype)):
        error = (log_bessel_i(order, x).double() / exact - 1).abs().max()
        assert error <= (2e-14 if dtype == torch.float64 else 5e-6)
    mixed = torch.tensor([0.0, 0.5, 0.0, 40.0], dtype=dtype)
    together = log_bessel_i(mixed, torch.full((), 0.01, dtype=dtype))
    single = [log_bessel_i(n, torch.tensor(0.01, dtype=dtype)) for n in mixed.tolist()]
    torch.testing.assert_close(together, torch.stack(single))


@pytest.mark.usefixtures("with_and_without_kernel")
@pytest.mark.parametrize("nu", ORDERS)
def test_integral_of_the_ratio(nu: float) -> None:
    x = torch.tensor([1e-3, 0.7, 13.0, 29.0, 31.0, 400.0, 5e4], dtype=torch.float64)
    whole = bessel_ratio_integral(nu, 0.0, x)
    for value, end in zip(whole.tolist(), x.tolist(), strict=True):
        # Arb takes seconds at large orders and arguments, which the table of scores has.
        slow = nu > 1000 and end > 50
        if (2 * nu) % 1 == 0 and 1 / (1 / end) == end and not slow:
            exact = arb.score(1.0, 0.0, 1 / end, round(2 * nu + 2))
            assert abs(value / exact[0] - 1) < 1e-14
    # Close bounds: no digit is lost, since the integrand hardly changes.
    upper = x * (1 + 1e-9)
    middle = bessel_ratio(nu, (x + upper) / 2) * (upper - x)
    torch.testing.assert_close(bessel_ratio_integral(nu, x, upper), middle, rtol=1e-13, atol=0)
    torch.testing.assert_close(
        bessel_ratio_integral(nu, x[:-1], x[1:]), whole[1:] - whole[:-1], rtol=1e-11, atol=1e-13
    )


@pytest.mark.usefixtures("with_and_without_kernel")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_integral_far_up_and_down(dtype: torch.dtype) -> None:
    """Ends so far apart, or so high, that the integral is their distance to the precision."""
    eps, most = torch.finfo(dtype).eps, torch.finfo(dtype).max
    for low, high in ((0.125, eps**-2), (0.125, most / 4), (most / 4, most / 2)):
        ends = [torch.tensor(a, dtype=dtype) for a in (low, high)]
        for nu in (63.0, torch.tensor(1.0, dtype=dtype)):
            up, down = bessel_ratio_integral(nu, *ends), bessel_ratio_integral(nu, *ends[::-1])
            torch.testing.assert_close(up, ends[1] - ends[0], rtol=4 * eps, atol=0)
            torch.testing.assert_close(down, ends[0] - ends[1], rtol=4 * eps, atol=0)


# Zero, and every order of magnitude.
POINTS = torch.tensor([0.0, 1e-3, 0.5, 11.9, 30.1, 400.0, 2e4], dtype=torch.float64)
RATIOS = torch.tensor([0.0, 0.01, 0.3, 0.7, 0.95], dtype=torch.float64)


def check_derivatives(function: Function, x: torch.Tensor, eps: float = 1e-6) -> None:
    """Compare the first two derivatives with central differences, by the tolerances of gradcheck.

    The function is elementwise: all elements move at once, where gradcheck moves one at a time.
    """

    def slope(v: torch.Tensor) -> torch.Tensor:
        v = v.detach().requires_grad_()
        return torch.autograd.grad(function(v).sum(), v)[0]

    moved = x.detach().requires_grad_()
    (first,) = torch.autograd.grad(function(moved).sum(), moved, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), moved)
    for derivative, f in ((first.detach(), function), (second, slope)):
        difference = (f(x + eps) - f(x - eps)) / (2 * eps)
        torch.testing.assert_close(derivative, difference, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("nu", [*ORDERS, torch.tensor(ORDERS, dtype=torch.float64).unsqueeze(-1)])
def test_derivatives(nu: float | torch.Tensor) -> None:
    def check(function: Callable[..., torch.Tensor], x: torch.Tensor, eps: float = 1e-6) -> None:
        """All orders of a tensor at once: every order has its own row of arguments."""
        rows = x.expand(len(ORDERS), -1) if isinstance(nu, torch.Tensor) else x
        check_derivatives(lambda v: function(nu, v), rows.clone(), eps)

    check(bessel_ratio, POINTS[1:])
    check(log_bessel_i, POINTS[1:], 1e-7)
    check(lambda nu, v: bessel_ratio_inverse(nu, v) / (nu + 1), RATIOS[1:])
    if isinstance(nu, float):
        check(lambda nu, v: bessel_ratio_integral(nu, v, POINTS[2:]), POINTS[1:-1], 1e-7)
        check(lambda nu, v: bessel_ratio_integral(nu, POINTS[1:-1], v), POINTS[2:], 1e-7)


@pytest.mark.parametrize("nu", ORDERS)
def test_derivatives_of_the_ratio_at_zero(nu: float) -> None:
    """R = x/(2 (nu + 1)) + O(x^3); there are no arguments below zero for a difference."""
    x = torch.zeros((), dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(bessel_ratio(nu, x), x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)
    assert first.item() == pytest.approx(0.5 / (nu + 1), rel=1e-15) and second.item() == 0


def test_extremes() -> None:
    for dtype in DTYPES:
        huge = torch.tensor([1e20, 1e30, torch.finfo(dtype).max], dtype=dtype)
        torch.testing.assert_close(bessel_ratio(3.0, huge), torch.ones_like(huge))
        torch.testing.assert_close(log_bessel_i(3.0, huge), huge, rtol=1e-6, atol=0)
        tiny = torch.tensor([torch.finfo(dtype).tiny], dtype=dtype)
        torch.testing.assert_close(bessel_ratio(0.0, tiny), tiny / 2)
        zero = torch.zeros(1, dtype=dtype)
        assert bessel_ratio(2.5, zero) == 0 and log_bessel_i(2.5, zero) == -math.inf
        assert log_bessel_i(0.0, zero) == 0 and log_bessel_i(zero, zero) == 0
        for order in as_orders(0.0, dtype):
            torch.testing.assert_close(log_bessel_i(order, huge), huge, rtol=1e-6, atol=0)
        assert bessel_ratio_inverse(2.5, zero) == 0
        assert bessel_ratio_inverse(2.5, zero + 1) == math.inf


X = torch.tensor([1.0, 2.0])
HUGE = torch.tensor([1e11, 2e11])


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (bessel_ratio, (-1.0, X), r"nu >= 0 and finite, got -1"),
        (bessel_ratio, (math.nan, X), r"nu >= 0 and finite, got nan"),
        (bessel_ratio, (1e12, X), r"nu <= 1e\+11 in torch.float32, got 1e\+12"),
        (bessel_ratio, (1e31, 1.0), r"nu <= 1e\+30 in torch.float64, got 1e\+31"),
        (log_bessel_i, (HUGE, X), r"nu <= 1e\+11 in torch.float32, got 2e\+11 at index 1"),
        (bessel_ratio, ("3", X), r"nu to be a number or a tensor, got str"),
        (bessel_ratio, (torch.tensor([1]), X), r"nu of a floating dtype"),
        (bessel_ratio, (-X, X), r"nu >= 0 and finite, got -1 at index 0"),
        (bessel_ratio, (X.clone().requires_grad_(), X), r"nu without gradient"),
        (bessel_ratio, (1.0, X * math.nan), r"x >= 0 and finite, got nan at index 0"),
        (log_bessel_i, (1.0, X.long()), r"x of a floating dtype, got torch.int64"),
        (log_bessel_i, (1.0, [1.0]), r"x to be a tensor or number, got list"),
        (bessel_ratio_integral, (1.0, X, 1e39), r"upper within the range of torch.float32"),
        (bessel_ratio_inverse, (1.0, X), r"r between 0 and 1, got 2 at index 1"),
        (bessel_ratio_inverse, (0.5,), r"one of r and complement, got neither"),
        (bessel_ratio, (torch.ones(3), X), r"shapes that broadcast, got nu \(3,\), x \(2,\)"),
        (bessel_ratio_integral, (1.0, X.reshape(2, 1), -X), r"upper >= 0 and finite"),
    ],
)
def test_bad_input(function: Any, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=f"expected {message}"):
        function(*arguments)


@pytest.mark.parametrize("nu", [0.0, 0.5, 31.0, 511.0])
def test_third_derivative_of_the_ratio(nu: float) -> None:
    """The derivative of an expression of torch, against differences in 60 digits."""
    points = [0.5, 12.0, 100.0, 3000.0]

    def exact_ratio(x: Any) -> Any:
        return mpmath.besseli(nu + 1, x) / mpmath.besseli(nu, x)

    with mpmath.workdps(60):
        want = [mpmath.diff(exact_ratio, mpmath.mpf(v), 3) for v in points]
    for dtype, bar in ((torch.float64, 1e-13), (torch.float32, 1e-5)):
        for order in as_orders(nu, dtype):
            x = torch.tensor(points, dtype=dtype, requires_grad=True)
            (third,) = torch.autograd.grad(ratio(order, x, 2).sum(), x)
            for a, b in zip(third.tolist(), want, strict=True):
                assert abs(a - b) <= bar * abs(b), (nu, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_no_seam(dtype: torch.dtype) -> None:
    """Along x and along nu, the value and the derivative have jumps of rounding size only."""
    eps = torch.finfo(dtype).eps
    for nu in (0.0, 3.5, 11.5, 12.0, 29.5, 30.0):
        for centre in (8.0, 12.0, 30.0, 45.0):
            x = centre * (1 + torch.arange(-200, 201, dtype=dtype) * 4 * eps)
            for n, allowed in ((0, 30), (1, 2000)):
                v = ratio(nu, x, n)
                smooth = v[200] + (x - x[200]) * ratio(nu, x, n + 1)[200]
                assert (v / smooth - 1).abs().max() <= allowed * eps
    for edge in (12.0, 30.0, 511.0):
        nu = torch.tensor([edge * (1 - 1e-9), edge, edge * (1 + 1e-9)], dtype=torch.float64)
        a, b, c = (float(bessel_ratio(float(n), torch.tensor(25.0, dtype=dtype))) for n in nu)
        assert abs((a + c) / (2 * b) - 1) <= 30 * eps


@pytest.mark.usefixtures("with_and_without_kernel")
@pytest.mark.slow
@pytest.mark.parametrize("nu", [0.0, 0.5, 7.5, 63.0, 511.0])
def test_inverse_of_the_complement(nu: float) -> None:
    for x in (1e-3, 0.7, 12.0, 300.0, 1e5):
        (gap,) = arb._certified(lambda: [1 - ball(x) * arb._r(ball(nu), ball(x) ** 2)])  # noqa: B023
        for order in as_orders(nu, torch.float64):
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
    for order in as_orders(nu, torch.float64):
        assert (bessel_ratio(order, x) <= 1).all()


@pytest.mark.usefixtures("with_and_without_kernel")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("p", [2, 3, 17, 50, 128, 1024])
def test_ratio_is_rounded_once(p: int, dtype: torch.dtype) -> None:
    """It is the nearest float, but for values near the middle of two; without the kernel, quotients
    at small orders are rounded too."""
    generator = torch.Generator().manual_seed(p)
    x = (p * 10 ** (4 * torch.rand(200, generator=generator) - 2)).to(dtype)
    exact = torch.tensor([arb.bessel(p / 2 - 1, float(v))[1] for v in x], dtype=torch.float64)
    value, nearest, eps = bessel_ratio(p / 2 - 1, x), exact.to(dtype), torch.finfo(dtype).eps
    assert (value.double() / nearest.double() - 1).abs().max() <= 2 * eps
    if compiled._library is not None or p >= 50:
        assert (value == nearest).double().mean() >= 0.97
        torch.testing.assert_close(value, nearest, rtol=eps, atol=0)


@pytest.mark.parametrize(("dtype", "own"), LIMITS.items())
@pytest.mark.parametrize("nu", [0.5, 7.0])
def test_derivatives_of_the_ratio_up_to_the_limits(dtype: torch.dtype, own: Any, nu: float) -> None:
    """R = 1 - (nu + 1/2)/x + O(1/x^2) at large x."""
    for order, x in ((1, own.first_derivative), (2, own.second_derivative)):
        at = torch.tensor(x, dtype=dtype, requires_grad=True)
        (value,) = torch.autograd.grad(bessel_ratio(nu, at), at, create_graph=True)
        if order == 2:
            (value,) = torch.autograd.grad(value, at)
        expected = (nu + 0.5) / x**2 if order == 1 else -2 * (nu + 0.5) / x**3
        assert value.item() == pytest.approx(expected, rel=1e-5), order
