r"""Differences of :math:`\phi_\nu(x) = \log I_\nu(x) - \nu\log x` and of its derivatives.

The exact score is a small difference of two large values of :math:`\phi`. Nothing here subtracts
two such values: with :math:`h = x_1^2 - x_0^2` as input, every difference of the log-Debye
expansion is a product with h, as is every step of the recurrence down to a small order. The natural
variable is :math:`y = x^2`, in which :math:`\phi` and :math:`r = R_\nu(x)/x = 2\,d\phi/dy` are
smooth at zero; D below stands for :math:`2\,d/dy`.

These are plain tensor functions without autograd; `bessel` and `score` add derivatives.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from resultant.special.debye import (
    LogDebye,
    Number,
    as_tensor,
    by_order,
    divided_difference,
    expansion,
    horner,
    second_divided_difference,
    unshifted,
    unshifted_from,
)
from resultant.special.slopes import Point, half_plus_at, inner_ratio, point, r_at

# Products of this many factors of the recurrence neither overflow nor underflow in float32.
GROUP = 4
# 2**ceil(digits/2) + 1 cuts a significand in two halves whose products are exact (Dekker 1971).
SPLITTER = {torch.float64: 134217729.0, torch.float32: 4097.0}


def _dr(e: LogDebye, p0: Point, p1: Point, h: Tensor, half_plus: Tensor) -> Tensor:
    """Compute ``r(y1) - r(y0)`` at the order of the expansion; ``half_plus`` is that of p0."""
    ds = h / (p0.s + p1.s)
    de = -p0.u * ds * p1.w * divided_difference(e.weighted(1), p0.u, p1.u)
    return p1.w * p1.w * (half_plus * h * p0.w * p0.w - de) - ds * p0.g * p1.g


def _lag(e: LogDebye, x0: Tensor, x1: Tensor, p0: Point, p1: Point) -> Tensor:
    """Compute ``(dx - ds)/(dx + ds)`` for the steps from x0 to x1 and from s0 to s1."""
    return (e.order / (p0.s + x0)) * (e.order / (p1.s + x1))


def phi_difference(e: LogDebye, p0: Point, p1: Point, h: Tensor) -> tuple[Tensor, Tensor]:
    """Compute ``phi(y1) - phi(y0)`` for ``h = y1 - y0``, and ``r(y1)``."""
    ds = h / (p0.s + p1.s)
    # ds - a log(1 + x) with x = ds g0, in two parts: a factor a would scale an underflow of x, and
    # the error of a logarithm below the smallest normal number.
    x = torch.nn.functional.hardshrink(ds * p0.g, torch.finfo(ds.dtype).tiny)
    others = _corrections(e, p0, p1, ds) + (x - torch.log1p(x)) * e.order
    return _down(e, torch.addcmul(others, ds, p0.s * p0.g), p0, p1, h)


def _corrections(e: LogDebye, p0: Point, p1: Point, ds: Tensor) -> Tensor:
    """Compute the difference of ``L - log(s)/2``: summed first, so that the largest term is rounded
    into the result once."""
    bend = divided_difference(e.coefficients, p0.u, p1.u)
    return torch.addcmul(torch.log1p(ds * p0.w) * -0.5, ds * p1.u * p0.w, bend, value=-1)


def _down(e: LogDebye, phi: Tensor, p0: Point, p1: Point, h: Tensor) -> tuple[Tensor, Tensor]:
    """Continue a difference of phi from the order of the expansion down to nu, with ``r(y1)``."""
    half_plus, r1 = half_plus_at(e, p0), r_at(half_plus_at(e, p1), p1)
    if not e.shift:
        return phi, r1
    r0, dr = r_at(half_plus, p0), _dr(e, p0, p1, h, half_plus)
    # phi at the order below is phi - log r. Accumulate the product of some r1/r0 twice: as its
    # distance from one, and directly for values far from one.
    drop, steps, lower = torch.zeros_like(phi), e.steps(), torch.minimum(p0.y, p1.y)
    for first in range(0, len(steps), GROUP):
        excess, product = torch.zeros_like(phi), torch.ones_like(phi)
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
    return phi - drop, r1


def inner_ratio_difference(e: LogDebye, y0: Tensor, y1: Tensor, h: Tensor) -> Tensor:
    """Compute ``r(y1) - r(y0)`` for ``h = y1 - y0``."""
    p0, p1 = point(e, y0), point(e, y1)
    half_plus = half_plus_at(e, p0)
    dr = _dr(e, p0, p1, h, half_plus)
    r0 = r_at(half_plus, p0)
    r1 = r0 + dr
    lower = torch.minimum(y0, y1)
    for step in e.steps():
        # As in `_down`.
        df = h * torch.where(h < 0, r0, r1) + lower * dr
        r0, r1 = (step + y0 * r0).reciprocal(), (step + y1 * r1).reciprocal()
        dr = -df * r0 * r1
    return dr


def ratio_difference(e: LogDebye, x0: Tensor, x1: Tensor, h: Tensor) -> Tensor:
    """Compute ``R(x1) - R(x0)`` for ``h = x1^2 - x0^2``, exact also if both ratios are near one."""
    a = e.order
    tiny = torch.finfo(h.dtype).tiny
    p0, p1 = point(e, x0 * x0), point(e, x1 * x1)
    half_plus = half_plus_at(e, p0)
    r0, r1 = r_at(half_plus, p0), r_at(half_plus_at(e, p1), p1)
    dx = h / (x0 + x1).clamp_min(tiny)
    de = -p0.u * h / (p0.s + p1.s) * p1.w * divided_difference(e.weighted(1), p0.u, p1.u)
    dR = a * p0.g * p1.g * (dx + a * h / (x1 * p0.s + x0 * p1.s).clamp_min(tiny))
    square = p0.w * p1.w
    dR = dR - dx * square * ((a * a - x0 * x1) * square) * half_plus - x1 * p1.w * p1.w * de
    for step in e.steps():
        r0, r1 = (step + p0.y * r0).reciprocal(), (step + p1.y * r1).reciprocal()
        dR = r0 * r1 * (step * dx - x0 * x1 * dR)
    return dR


def ratio_slope_difference(e: LogDebye, y0: Tensor, y1: Tensor, h: Tensor) -> Tensor:
    """Compute ``R'(x1) - R'(x0)`` for ``h = y1 - y0``, for ends that are not far apart."""
    a, p0, p1 = e.order, point(e, y0), point(e, y1)
    e1, e2 = half_plus_at(e, p0), horner(e.weighted(2), p0.u)
    ds = h / (p0.s + p1.s)
    du = -p0.u * ds * p1.w
    first, second = (
        du * divided_difference(e.weighted(n), p0.u, p1.u) for n in (1, 2)
    )  # of e1 and e2
    square0, square1 = p0.w * p0.w, p1.w * p1.w
    both = h * square0 * square1  # w0^2 - w1^2
    # R' = a w g + (e1 + e2) w^2 - (2 e1 + e2) a^2 w^4, term by term.
    dR = -a * ds * p0.w * p1.g * (p1.w + p0.g)
    dR = dR + (first + second) * square1 - (e1 + e2) * both
    fourth = (2 * first + second) * square1 * square1 - (2 * e1 + e2) * both * (square0 + square1)
    dR = dR - a * a * fourth
    if not e.shift:
        return dR
    r0, dr = r_at(e1, p0), _dr(e, p0, p1, h, e1)
    slope0 = a * p0.w * p0.g + ((e1 + e2) - (2 * e1 + e2) * a * a * square0) * square0
    for step in e.steps():
        r1, rest0 = r0 + dr, step - y0 * slope0
        below0, below1 = (step + y0 * r0).reciprocal(), (step + y1 * r1).reciprocal()
        dr = -(h * r1 + y0 * dr) * below0 * below1
        change = h * (slope0 + dR) + y0 * dR
        dR = (below0 + below1) * dr * rest0 - below1 * below1 * change
        r0, slope0 = below0, below0 * below0 * rest0
    return dR


def _miss(p0: Point, p1: Point, ds: Tensor, square: Tensor) -> tuple[Tensor, Tensor]:
    """Compute ``u1 - u0``, and its excess over the tangent of u (see `_second_difference`)."""
    step = (ds * p0.w) ** 2 * (p0.s * p1.w) - 0.5 * square * p0.w * p0.w
    return -p0.u * ds * p1.w, p0.u * step


def _second_difference(e: LogDebye, p0: Point, p1: Point, ds: Tensor, square: Tensor) -> Tensor:
    """Compute ``phi(y1) - phi(y0)`` at the order of the expansion, minus its tangent at y0.

    The tangent in y is ``h r0/2``, with ``square = -ds^2``; the tangent in x is smaller by
    ``r0 dx^2/2``, with ``square = dx^2 - ds^2``.
    """
    du, miss = _miss(p0, p1, ds, square)
    total = 0.5 * square * p0.g - e.order * log1p_minus(ds * p0.g, (p1.s + e.order) * p0.g)
    total = total - 0.5 * log1p_minus(ds * p0.w, p1.s * p0.w) - 0.25 * square * p0.w * p0.w
    bend, tangent = second_divided_difference(e.coefficients, p0.u, p1.u)
    return total + du * du * bend + tangent * miss


def phi_second_difference(e: LogDebye, y0: Tensor, y1: Tensor, h: Tensor) -> Tensor:
    """Compute ``phi(y1) - phi(y0) - h r(y0) / 2`` for ``h = y1 - y0``, of second order in h."""
    a = e.order
    p0, p1 = point(e, y0), point(e, y1)
    ds = h / (p0.s + p1.s)
    total = _second_difference(e, p0, p1, ds, -ds * ds)
    if not e.shift:
        return total

    du, miss = _miss(p0, p1, ds, -ds * ds)
    e1, e2 = half_plus_at(e, p0), horner(e.weighted(2), p0.u)
    r0, r1 = r_at(e1, p0), r_at(half_plus_at(e, p1), p1)
    d0 = (2 * e1 + e2) * p0.w**4 - p0.w * p0.g * p0.g
    dr = _dr(e, p0, p1, h, e1)
    # The second difference of r = g - (1/2 + u L') u^2/a^2 in the same way.
    correction: list[Number] = [0.0, 0.0, 0.5, *e.weighted(1)[1:]]
    bend, tangent = second_divided_difference(correction, p0.u, p1.u)
    ddr = (ds * p0.g) ** 2 * (p1.g + 0.5 * p0.w) - (du * du * bend + tangent * miss) / (a * a)
    lower = torch.minimum(y0, y1)
    for step in e.steps():
        # First and second differences of y r, as in `_down`.
        df = h * torch.where(h < 0, r0, r1) + lower * dr
        ddf = h * torch.where(h < 0, 0.5 * h * d0, dr) + lower * ddr
        slope0 = 2 * r0 + y0 * d0
        r0, r1 = (step + y0 * r0).reciprocal(), (step + y1 * r1).reciprocal()
        dr = -df * r0 * r1
        d0 = -r0 * r0 * slope0
        ddr = -r0 * r1 * ddf - 0.5 * h * slope0 * r0 * dr
        growth = dr / r0
        near = growth.abs() < 0.5
        first = torch.where(near, log1p_minus(torch.where(near, growth, 0.0)), 0.0)
        far = (r1 / r0).log() - 0.5 * h * d0 / r0
        total = total - torch.where(near, first + ddr / r0, far)
    return total


def _corner(e: LogDebye, like: Tensor) -> Tensor:
    """Return the end of the first of two legs of a path along x at a small order.

    Beyond the corner the recurrence would lose digits, and is not needed.
    """
    return as_tensor((unshifted_from(like.dtype) ** 2 - e.nu * e.nu) ** 0.5, like)


def _along(
    step: Callable[[LogDebye, Tensor, Tensor], Tensor], nu: Number, x0: Tensor, x1: Tensor
) -> Tensor:
    """Sum a difference from x0 to x1 over the legs of the path."""

    def total(e: LogDebye) -> tuple[Tensor]:
        if not e.shift:
            return (step(e, x0, x1),)
        corner = _corner(e, x1)
        near = step(e, torch.minimum(x0, corner), torch.minimum(x1, corner))
        beyond = torch.maximum(x0, corner), torch.maximum(x1, corner)
        return (near + step(unshifted(e, x1.dtype), *beyond),)

    return by_order(nu, x1.dtype, total)[0]


def _phi_step(e: LogDebye, x0: Tensor, x1: Tensor) -> Tensor:
    p0, p1 = point(e, x0 * x0), point(e, x1 * x1)
    return phi_difference(e, p0, p1, (x1 - x0) * (x1 + x0))[0]


def phi_step(nu: Number, x0: Tensor, x1: Tensor) -> Tensor:
    """Compute ``phi(x1) - phi(x0)``, the integral of R."""
    # Upwards: far downwards, a quotient of the ends would round to zero.
    size = _along(_phi_step, nu, torch.minimum(x0, x1), torch.maximum(x0, x1))
    return torch.where(x1 < x0, -size, size)


def complement_step(nu: Number, x0: Tensor, x1: Tensor) -> Tensor:
    """Compute ``(x1 - x0) - (phi(x1) - phi(x0))``, the integral of 1 - R, with an error relative to
    its own size."""

    def step(e: LogDebye, x0: Tensor, x1: Tensor) -> Tensor:
        dx, p0, p1 = x1 - x0, point(e, x0 * x0), point(e, x1 * x1)
        h = dx * (x1 + x0)
        ds = h / (p0.s + p1.s)
        deficit = _lag(e, x0, x1, p0, p1) * (dx + ds) - _corrections(e, p0, p1, ds)
        return -_down(e, -(deficit + torch.log1p(ds * p0.g) * e.order), p0, p1, h)[0]

    return _along(step, nu, x0, x1)


def _ratio_step(e: LogDebye, x0: Tensor, x1: Tensor) -> Tensor:
    return ratio_difference(e, x0, x1, (x1 - x0) * (x1 + x0))


def ratio_step(nu: Number, x0: Tensor, x1: Tensor) -> Tensor:
    """Compute ``R(x1) - R(x0)``."""
    return _along(_ratio_step, nu, x0, x1)


def bregman(nu: float, x0: Tensor, x1: Tensor) -> Tensor:
    """Compute ``phi(x1) - phi(x0) - (x1 - x0) R(x0)``, which is never negative."""
    e = expansion(nu, x1.dtype)
    if not e.shift:
        return _bregman(e, x0, x1)
    corner, direct = _corner(e, x1), unshifted(e, x1.dtype)
    (near0, near1), (beyond0, beyond1) = (
        [bound(x, corner) for x in (x0, x1)] for bound in (torch.minimum, torch.maximum)
    )
    # The slope at x0 differs from that at the start of the other leg. Neither product is negative.
    turn = (beyond1 - beyond0) * _ratio_step(e, near0, corner)
    turn = turn + (near1 - near0) * _ratio_step(direct, beyond0, corner)
    return _bregman(e, near0, near1) + _bregman(direct, beyond0, beyond1) + turn


def _bregman(e: LogDebye, x0: Tensor, x1: Tensor) -> Tensor:
    y0, y1, dx = x0 * x0, x1 * x1, x1 - x0
    h = dx * (x1 + x0)
    if not e.shift:
        p0, p1 = point(e, y0), point(e, y1)
        ds = h / (p0.s + p1.s)
        return _second_difference(e, p0, p1, ds, _lag(e, x0, x1, p0, p1) * (dx + ds) ** 2)
    r0 = inner_ratio(e, y0)
    # The rounding error of each form is proportional to its larger term.
    near = phi_second_difference(e, y0, y1, h) + 0.5 * r0 * dx * dx
    apart = _phi_step(e, x0, x1) - x0 * r0 * dx
    return torch.where(dx.abs() < x0, near, apart)


def _halves(a: Tensor) -> tuple[Tensor, Tensor]:
    scaled = a * SPLITTER[a.dtype]
    high = scaled - (scaled - a)
    return high, a - high


def two_product(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``(p, e)``: the rounded product ``p``, and ``p + e`` the exact product."""
    p = a * b
    a1, a2 = _halves(a)
    b1, b2 = _halves(b)
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


def two_reciprocal(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``(r, e)``: the rounded ``1/a``, and ``r + e`` exact to twice the precision."""
    r = 1 / a
    p, e = two_product(a, r)
    return r, ((1 - p) - e) * r


def log1p_minus(x: Tensor, whole: Tensor | None = None) -> Tensor:
    """Compute ``log(1 + x) - x``, of second order in x; near x = -1 pass 1 + x as ``whole``."""
    z = x / (2 + x)
    z2 = z * z
    # log(1 + x) = 2 artanh(z); |x| < 1/2 makes z^2 < 1/9.
    series = horner([1 / (2 * n + 3) for n in range(16)], z2)
    log = torch.log1p(x) if whole is None else whole.log()
    return torch.where(x.abs() < 0.5, 2 * z * z2 * series - x * z, log - x)
