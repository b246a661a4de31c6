r"""The ratio :math:`R_\nu(x) = I_{\nu+1}(x)/I_\nu(x)` and its derivatives, and differences.

The natural variable is :math:`y = x^2`, in which :math:`r = R_\nu(x)/x` is smooth at zero; D
stands for :math:`2\,d/dy`. No two values of :math:`\phi_\nu(x) = \log I_\nu(x) - \nu\log x` are
subtracted: with :math:`h = x_1^2 - x_0^2` as input, every difference of the log-Debye expansion is
a product with h, as is every step of the recurrence down to a small order.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from resultant.special import debye
from resultant.special.debye import LogDebye, Number, by_order, divided_difference, horner

# Nodes of a quadrature over half the distance to a singularity, to the precision of float64.
NODES = 12
# The leading part of log I_nu(x) vanishes at x = ZERO nu, where s = COTH nu: COTH solves
# c = coth(c) and ZERO = 1/sinh(COTH); REST is the rounding error of ZERO in a dtype.
COTH = 1.1996786402577337
ZERO = 0.6627434193491816
REST = {torch.float64: 8.155323790501267e-18, torch.float32: 2.9742705750896616e-08}
# Products of this many factors of the recurrence neither overflow nor underflow in float32.
GROUP = 4


class Point(NamedTuple):
    """The variables of an expansion of order a at one argument."""

    y: Tensor
    s: Tensor  # sqrt(a^2 + y)
    w: Tensor  # 1/s
    g: Tensor  # 1/(a + s)
    u: Tensor  # scale/s, which is a/s


def point(e: LogDebye, y: Tensor) -> Point:
    a = e.order
    s = (y + a * a).sqrt()
    w = s.reciprocal()
    return Point(y, s, w, (s + a).reciprocal(), e.scale * w)


def corrected(e: LogDebye, p: Point) -> tuple[Tensor, Tensor]:
    """Compute ``e1 = 1/2 + u L'(u)``, and r by (4)."""
    half_plus = horner([0.5, *e.weighted(1)[1:]], p.u)
    return half_plus, p.g - half_plus * p.w * p.w


def inner_ratio(e: LogDebye, y: Tensor) -> Tensor:
    """Compute r at ``y``."""
    r = corrected(e, point(e, y))[1]
    for step in e.steps():
        r = (step + y * r).reciprocal()  # (10)
    return r


def anchor(e: LogDebye, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return an x0 near the zero of log I at the order of the expansion, and log I_nu(x0) by (23);
    both are zero at nu = 0, where log I begins as x^2/4, lost in a sum of larger terms."""
    nu, order = debye.as_tensor(e.nu, like), debye.as_tensor(e.order, like)
    x0, lost = debye.two_product(order, debye.as_tensor(ZERO, like))
    s, y = order * COTH, x0 * x0
    log = horner(e.coefficients, e.scale / s) - 0.5 * torch.log(2 * math.pi * s)
    log = log - COTH / ZERO * (lost + order * REST[like.dtype])
    r, product = corrected(e, point(e, y))[1], torch.ones_like(x0)
    for step in e.steps():
        r = (step + y * r).reciprocal()
        product = product * (x0 * r)
    return torch.where(nu == 0, 0.0, x0), torch.where(nu == 0, 0.0, log - product.log())


def complement_at(e: LogDebye, p: Point, x: Tensor, e1: Tensor) -> Tensor:
    """Compute 1 - R at the order of the expansion by (7)."""
    return (e.order + e.order * e.order / (p.s + x)) * p.g + x * e1 * p.w * p.w


def ratio_value(nu: Number, x: Tensor) -> Tensor:
    """Compute R by (28) to (30), but quotients of (29) with their rounding: fewer operations."""
    y = x * x

    def value(e: LogDebye) -> tuple[Tensor]:
        e = debye.raised(e, x.dtype)
        p, a = point(e, y), debye.as_tensor(e.order, x)
        most, least, square = torch.maximum(y, a * a), torch.minimum(y, a * a), y + a * a
        lost = debye.less_square(square, p.s) + (least - (square - most)) - debye.less_square(y, x)
        f, part = p.s + a, y * p.w * p.w * corrected(e, p)[0]
        total = f - part
        low = 0.5 * p.w * lost + (a - (f - p.s)) + ((f - total) - part)
        for step in e.steps()[1:]:
            q = y / total
            f = step + q  # (29)
            low, total = ((step - f) + q) - q * low / total, f
        below, d = total.reciprocal(), debye.upper(total)
        q = debye.upper(x * below)
        return (q + ((x - q * d) - q * ((total - d) + low)) * below,)  # (30)

    return by_order(nu, x.dtype, lambda e: unshifted_if_large(value, e, y))[0]


class RatioSlopes(NamedTuple):
    """The ratio R_nu at x and its derivatives, each with an error relative to its own size."""

    r: Tensor  # R/x
    d1: Tensor  # D r
    d2: Tensor  # D D r
    complement: Tensor  # 1 - R
    first: Tensor  # R'
    second: Tensor  # R''/x, of order x^-4, times a scale that keeps it in range


def ratio_slopes(
    nu: Number, x: Tensor, y: Tensor | None = None, scale: float | Tensor = 1.0
) -> RatioSlopes:
    """Compute the slopes at ``x``, all but the complement from y = x^2; see `RatioSlopes`."""
    square = x * x if y is None else y

    def slopes(e: LogDebye) -> tuple[Tensor, ...]:
        return unshifted_if_large(lambda e: _ratio_slopes(e, x, square, scale), e, square)

    return RatioSlopes(*by_order(nu, x.dtype, slopes))


def unshifted_if_large(compute: Callable[[LogDebye], Any], e: LogDebye, y: Tensor) -> Any:
    """Compute a tensor or a tuple of tensors by the expansion, for a large ``y`` at nu itself: the
    recurrence would lose digits of all but the ratio."""
    near = compute(e)
    if not e.shift:
        return near
    is_large = y + e.nu * e.nu >= debye.unshifted_from(y.dtype) ** 2
    beyond = compute(debye.unshifted(e, y.dtype))
    if isinstance(near, Tensor):
        return torch.where(is_large, beyond, near)
    return tuple(torch.where(is_large, b, a) for a, b in zip(near, beyond, strict=True))


def _ratio_slopes(e: LogDebye, x: Tensor, y: Tensor, scale: float | Tensor) -> RatioSlopes:
    """Compute `ratio_slopes` by one expansion, without ``r + y D r``, which cancels for x >> nu."""
    a, p = e.order, point(e, y)
    square = p.w * p.w
    share = y * square  # (x/s)^2
    e1, r = corrected(e, p)
    e2, e3 = (horner(e.weighted(n), p.u) for n in (2, 3))
    both = 2 * e1 + e2
    complement = complement_at(e, p, x, e1)
    d1 = both * square * square - p.w * p.g * p.g  # (5)
    d2 = (p.w * p.g) ** 2 * (p.w + 2 * p.g) - (8 * e1 + 6 * e2 + e3) * p.w**6  # (6)
    first = a * p.w * p.g - e1 * square + share * both * square  # (8)
    # (9)
    inner = both * (1 + 2 * a * a * square) - share * (4 * e1 + 4 * e2 + e3)
    second = scale * square * p.w * (p.w * inner - a * (a + 2 * p.s) * p.g * p.g)
    for step in e.steps():
        below = (step + y * r).reciprocal()  # (10)
        rise, rest = 2 * r + y * d1, step - y * first
        # (11) for d1 and d2, (12) for first and second, (13) for the complement
        d1_below = -below * below * rise
        d2 = -2 * below * d1_below * rise - below * below * (4 * d1 + y * d2)
        turn = below * below * (2 * scale * first + y * second)
        second = 2 * scale * below * d1_below * rest - turn
        first = below * below * rest
        complement = (step - x * complement) * below
        r, d1 = below, d1_below
    return RatioSlopes(r, d1, d2, complement, first, second)


def phi_difference(e: LogDebye, y0: Tensor, y1: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """Compute ``phi(y1) - phi(y0)`` for ``h = y1 - y0``, by (15), and ``r(y1)``.

    The same stands in C in `_kernel.h` and in Triton in `score/kernel.py`: change all three.
    """
    p0, p1 = point(e, y0), point(e, y1)
    ds = h / (p0.s + p1.s)  # (14)
    # ds - a log(1 + x) with x = ds g0, in two parts: a factor a would scale an underflow of x, and
    # the error of a logarithm below the smallest normal number.
    x = torch.nn.functional.hardshrink(ds * p0.g, torch.finfo(ds.dtype).tiny)
    others = _corrections(e, p0, p1, ds) + (x - torch.log1p(x)) * e.order
    phi = torch.addcmul(others, ds, p0.s * p0.g)
    if not e.shift:
        return phi, corrected(e, p1)[1]
    drop, r1, _ = _down(e, p0, p1, h)
    return phi - drop, r1


def _corrections(e: LogDebye, p0: Point, p1: Point, ds: Tensor) -> Tensor:
    """Compute the difference of ``L - log(s)/2``, by (16), to which larger terms are added once."""
    bend = divided_difference(e.coefficients, p0.u, p1.u)
    return torch.addcmul(torch.log1p(ds * p0.w) * -0.5, ds * p1.u * p0.w, bend, value=-1)


def _down(e: LogDebye, p0: Point, p1: Point, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Come down to nu: return the drop of a difference of phi, ``r(y1)`` and ``r(y1) - r(y0)``."""
    (half_plus, r0), (_, r1) = corrected(e, p0), corrected(e, p1)
    ds = h / (p0.s + p1.s)
    de = -p0.u * ds * p1.w * divided_difference(e.weighted(1), p0.u, p1.u)
    dr = p1.w * p1.w * (half_plus * h * p0.w * p0.w - de) - ds * p0.g * p1.g  # (17)
    # (18): phi at the order below is phi - log r. Accumulate the product of some r1/r0 twice: as
    # its distance from one, and directly for values far from one.
    drop, steps, lower = torch.zeros_like(dr), e.steps(), torch.minimum(p0.y, p1.y)
    for first in range(0, len(steps), GROUP):
        excess, product = torch.zeros_like(dr), torch.ones_like(dr)
        for step in steps[first : first + GROUP]:
            # y1 r1 - y0 r0; errors of dr times the larger y would grow with every step.
            f0, df = step + p0.y * r0, h * torch.where(h < 0, r0, r1) + lower * dr
            r0, r1 = f0.reciprocal(), (step + p1.y * r1).reciprocal()
            growth = -df * r1
            dr = growth * r0
            excess = excess + (growth + excess * growth)
            product = product * (f0 * r1)
        near = (excess > -0.5) & (excess < 3)
        drop = drop + torch.where(near, torch.where(near, excess, 0.0).log1p(), product.log())
    return drop, r1, dr


def inner_ratio_difference(e: LogDebye, y0: Tensor, y1: Tensor, h: Tensor) -> Tensor:
    """Compute ``r(y1) - r(y0)`` for ``h = y1 - y0``."""
    return _down(e, point(e, y0), point(e, y1), h)[2]


def ratio_difference(e: LogDebye, x0: Tensor, x1: Tensor, h: Tensor) -> Tensor:
    """Compute ``R(x1) - R(x0)`` for ``h = x1^2 - x0^2``, exact also if both ratios are near one."""
    a = e.order
    tiny = torch.finfo(h.dtype).tiny
    p0, p1 = point(e, x0 * x0), point(e, x1 * x1)
    (half_plus, r0), (_, r1) = corrected(e, p0), corrected(e, p1)
    dx = h / (x0 + x1).clamp_min(tiny)
    de = -p0.u * h / (p0.s + p1.s) * p1.w * divided_difference(e.weighted(1), p0.u, p1.u)
    # (19)
    dR = a * p0.g * p1.g * (dx + a * h / (x1 * p0.s + x0 * p1.s).clamp_min(tiny))
    square = p0.w * p1.w
    dR = dR - dx * square * ((a * a - x0 * x1) * square) * half_plus - x1 * p1.w * p1.w * de
    for step in e.steps():
        r0, r1 = (step + p0.y * r0).reciprocal(), (step + p1.y * r1).reciprocal()
        dR = r0 * r1 * (step * dx - x0 * x1 * dR)  # (20)
    return dR


@cache
def gauss_legendre(n: int) -> list[tuple[float, float]]:
    """Return n nodes on [0, 1] with their weights."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return [(float(1 + x) / 2, float(w) / 2) for x, w in zip(nodes, weights, strict=True)]


def _second_order(bend: Callable[[Tensor], Tensor], start: Tensor, step: Tensor) -> Tensor:
    """Compute f(start + step) - f(start) - step f'(start) by (22) from ``bend = step^2 f''``, which
    has one sign, for a step of at most half the distance to the nearest singularity."""
    return sum((w * (1 - s) * bend(start + s * step) for s, w in gauss_legendre(NODES)), 0 * step)


def phi_second_difference(e: LogDebye, y0: Tensor, y1: Tensor, h: Tensor) -> Tensor:
    """Compute ``phi(y1) - phi(y0) - h r(y0) / 2`` for ``h = y1 - y0``, of second order in h."""
    near = h.abs() < 0.5 * (y0 + (e.nu + 1) ** 2)
    step = torch.where(near, h, 0.0)

    def bend(e: LogDebye, y: Tensor) -> Tensor:
        if e.shift:
            return step * step * _ratio_slopes(e, y.sqrt(), y, 1.0).d1
        # In products that neither overflow nor underflow at a large y.
        p = point(e, y)
        both = 2 * corrected(e, p)[0] + horner(e.weighted(2), p.u)
        return both * (step * p.w * p.w) ** 2 - (step * p.g) ** 2 * p.w

    def chosen(y: Tensor) -> Tensor:
        return unshifted_if_large(lambda e: bend(e, y), e, y)

    apart = phi_difference(e, y0, y1, h)[0] - 0.5 * h * inner_ratio(e, y0)
    return torch.where(near, 0.25 * _second_order(chosen, y0, step), apart)


def _along(
    step: Callable[[LogDebye, Tensor, Tensor], Tensor], nu: Number, x0: Tensor, x1: Tensor
) -> Tensor:
    """Sum a difference from x0 to x1 over the two legs of the path at a small order: beyond the
    corner the recurrence would lose digits, and is not needed."""
    # Upwards: far downwards, a quotient of the ends would round to zero.
    low, high = torch.minimum(x0, x1), torch.maximum(x0, x1)

    def total(e: LogDebye) -> tuple[Tensor]:
        if not e.shift:
            return (step(e, low, high),)
        corner = debye.as_tensor((debye.unshifted_from(x1.dtype) ** 2 - e.nu * e.nu) ** 0.5, x1)
        near = step(e, torch.minimum(low, corner), torch.minimum(high, corner))
        beyond = torch.maximum(low, corner), torch.maximum(high, corner)
        return (near + step(debye.unshifted(e, x1.dtype), *beyond),)

    size = by_order(nu, x1.dtype, total)[0]
    return torch.where(x1 < x0, -size, size)


def phi_step(nu: Number, x0: Tensor, x1: Tensor) -> Tensor:
    """Compute ``phi(x1) - phi(x0)``, the integral of R."""
    return _along(lambda e, a, b: phi_difference(e, a * a, b * b, (b - a) * (b + a))[0], nu, x0, x1)


def complement_step(nu: Number, x0: Tensor, x1: Tensor) -> Tensor:
    """Compute ``(x1 - x0) - (phi(x1) - phi(x0))``, the integral of 1 - R, to its own precision."""

    def step(e: LogDebye, x0: Tensor, x1: Tensor) -> Tensor:
        dx, p0, p1 = x1 - x0, point(e, x0 * x0), point(e, x1 * x1)
        h = dx * (x1 + x0)
        ds = h / (p0.s + p1.s)
        lag = (e.order / (p0.s + x0)) * (e.order / (p1.s + x1))  # (dx - ds)/(dx + ds), (21)
        deficit = lag * (dx + ds) - _corrections(e, p0, p1, ds) + torch.log1p(ds * p0.g) * e.order
        return deficit + _down(e, p0, p1, h)[0] if e.shift else deficit

    return _along(step, nu, x0, x1)


def ratio_step(nu: Number, x0: Tensor, x1: Tensor) -> Tensor:
    """Compute ``R(x1) - R(x0)``."""
    return _along(lambda e, a, b: ratio_difference(e, a, b, (b - a) * (b + a)), nu, x0, x1)


def bregman(nu: float, x0: Tensor, x1: Tensor) -> Tensor:
    """Compute ``phi(x1) - phi(x0) - (x1 - x0) R(x0)``, which is never negative."""
    dx, at = x1 - x0, ratio_slopes(nu, x0)
    near = dx.abs() < 0.5 * (x0 * x0 + (nu + 1) ** 2).sqrt()
    step = torch.where(near, dx, 0.0)
    close = _second_order(lambda x: step * (step * ratio_slopes(nu, x).first), x0, step)
    # Of two differences the one whose terms do not cancel.
    low = phi_step(nu, x0, x1) - dx * (x0 * at.r)
    high = dx * at.complement - complement_step(nu, x0, x1)
    return torch.where(near, close, torch.where(at.complement > 0.5, low, high))
