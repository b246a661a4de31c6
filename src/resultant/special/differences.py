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
from typing import NamedTuple

import torch
from torch import Tensor

from resultant.special.debye import (
    LogDebye,
    Number,
    as_tensor,
    divided_difference,
    expansion,
    far,
    horner,
    quotient,
    second_divided_difference,
    smallest_order,
)

# Products of this many factors of the recurrence neither overflow nor underflow in float32.
GROUP = 4

# Above this multiple of the smallest order, s is large enough for the expansion at nu itself.
FAR = 1.5


class _Point(NamedTuple):
    """The variables of an expansion of order a at one argument."""

    y: Tensor
    s: Tensor  # sqrt(a^2 + y)
    w: Tensor  # 1/s
    g: Tensor  # 1/(a + s)
    u: Tensor  # scale/s, which is a/s


def _point(e: LogDebye, y: Tensor) -> _Point:
    a = e.order
    s = (y + a * a).sqrt()
    w = 1 / s
    return _Point(y, s, w, 1 / (s + a), e.scale * w)


def _half_plus(e: LogDebye, p: _Point) -> Tensor:
    """Compute ``1/2 + u L'(u)``, the numerator of the correction to r."""
    return horner([0.5, *e.weighted(1)[1:]], p.u)


def _r(half_plus: Tensor, p: _Point) -> Tensor:
    return p.g - half_plus * p.w * p.w


def _dr(e: LogDebye, p0: _Point, p1: _Point, h: Tensor, half_plus: Tensor) -> Tensor:
    """Compute ``r(y1) - r(y0)`` at the order of the expansion; ``half_plus`` is that of p0."""
    ds = h / (p0.s + p1.s)
    de = -p0.u * ds * p1.w * divided_difference(e.weighted(1), p0.u, p1.u)
    return p1.w * p1.w * (half_plus * h * p0.w * p0.w - de) - ds * p0.g * p1.g


def _lag(e: LogDebye, x0: Tensor, x1: Tensor, p0: _Point, p1: _Point) -> Tensor:
    """Compute ``(dx - ds)/(dx + ds)`` for the steps from x0 to x1 and from s0 to s1."""
    return (e.order / (p0.s + x0)) * (e.order / (p1.s + x1))


def inner_ratio(e: LogDebye, y: Tensor, derivative: int = 0) -> Tensor:
    """Compute ``D^n r`` at ``y``, n = 0, 1 or 2."""
    p = _point(e, y)
    e1 = _half_plus(e, p)
    r = _r(e1, p)
    d1 = d2 = torch.zeros_like(r)
    if derivative >= 1:
        e2 = horner(e.weighted(2), p.u)
        d1 = (2 * e1 + e2) * p.w**4 - p.w * p.g * p.g
        if derivative == 2:
            e3 = horner(e.weighted(3), p.u)
            d2 = (p.w * p.g) ** 2 * (p.w + 2 * p.g) - (8 * e1 + 6 * e2 + e3) * p.w**6
    for step in e.steps():
        below = 1 / (step + y * r)
        if derivative >= 1:
            rise = 2 * r + y * d1
            d1_below = -below * below * rise
            if derivative == 2:
                d2 = -2 * below * d1_below * rise - below * below * (4 * d1 + y * d2)
            d1 = d1_below
        r = below
    return (r, d1, d2)[derivative]


class RatioSlopes(NamedTuple):
    """The ratio R_nu at x and its derivatives, each with an error relative to its own size."""

    r: Tensor  # R/x
    complement: Tensor  # 1 - R
    first: Tensor  # R'
    second: Tensor  # R''/x


def ratio_slopes(nu: Number, x: Tensor) -> RatioSlopes:
    """Compute the ratio, its complement to one, and its derivatives at ``x``.

    For x >> nu the recurrence would lose digits of all but the ratio, and is not needed.
    """
    e = expansion(nu, x.dtype)
    if not e.shift:
        return _ratio_slopes(e, x)
    smallest = smallest_order(x.dtype)
    is_far = x * x + nu * nu >= (FAR * smallest) ** 2
    if isinstance(nu, Tensor):  # some of these orders may not be small
        is_far = is_far & (nu < smallest)
        nu = nu.clamp_max(smallest)
    near, beyond = _ratio_slopes(e, x), _ratio_slopes(far(nu, x.dtype), x)
    return RatioSlopes(*(torch.where(is_far, b, a) for a, b in zip(near, beyond, strict=True)))


def _ratio_slopes(e: LogDebye, x: Tensor) -> RatioSlopes:
    """Compute `ratio_slopes` by one expansion.

    Neither the Riccati equation nor ``r + y D r`` is used: both cancel for x >> nu.
    """
    a, y = e.order, x * x
    p = _point(e, y)
    square = p.w * p.w
    share = y * square  # (x/s)^2
    e1 = _half_plus(e, p)
    e2, e3 = (horner(e.weighted(n), p.u) for n in (2, 3))
    r = _r(e1, p)
    complement = (a + a * a / (p.s + x)) * p.g + x * e1 * square
    d1 = (2 * e1 + e2) * square * square - p.w * p.g * p.g
    first = a * p.w * p.g - e1 * square + share * (2 * e1 + e2) * square
    inner = (2 * e1 + e2) * (1 + 2 * a * a * square) - share * (4 * e1 + 4 * e2 + e3)
    second = square * p.w * (p.w * inner - a * (a + 2 * p.s) * p.g * p.g)
    for step in e.steps():
        below = 1 / (step + y * r)
        d1_below = -below * below * (2 * r + y * d1)
        rest = step - y * first
        second = 2 * below * d1_below * rest - below * below * (2 * first + y * second)
        first = below * below * rest
        complement = (step - x * complement) * below
        r, d1 = below, d1_below
    return RatioSlopes(r, complement, first, second)


class Lower:
    """The lower end of differences of phi; quantities of ``y0`` alone are computed once."""

    def __init__(self, e: LogDebye, y0: Tensor) -> None:
        self.e = e
        self.p0 = _point(e, y0)
        self.quotient = quotient(e.coefficients, self.p0.u)
        self.half_plus = [as_tensor(c, y0) for c in (0.5, *e.weighted(1)[1:])]

    def phi_difference(
        self, y1: Tensor, h: Tensor, *, with_ratio: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Compute ``phi(y1) - phi(y0)`` for ``h = y1 - y0``, and ``r(y1)`` if requested."""
        p1 = _point(self.e, y1)
        ds = h / (self.p0.s + p1.s)
        phi = ds - self.logs(ds, p1)
        if not (with_ratio or self.e.shift):
            return phi, p1.g
        r1 = _r(horner(self.half_plus, p1.u), p1)
        return self.down(phi, p1, r1, h) if self.e.shift else (phi, r1)

    def logs(self, ds: Tensor, p1: _Point) -> Tensor:
        """Compute ``ds`` minus the difference of phi at the order of the expansion."""
        # The smaller terms first, so that the largest is rounded into the result once.
        small = torch.log1p(ds * self.p0.w) * 0.5
        small = torch.addcmul(small, ds * p1.u * self.p0.w, horner(self.quotient, p1.u))
        return _add(small, torch.log1p(ds * self.p0.g), self.e.order)

    def down(self, phi: Tensor, p1: _Point, r1: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Continue from the order of the expansion down to nu."""
        e, p0 = self.e, self.p0
        half_plus = horner(self.half_plus, p0.u)
        r0, dr = _r(half_plus, p0), _dr(e, p0, p1, h, half_plus)
        # phi at the order below is phi - log r. Accumulate the product of the r1/r0 twice: as its
        # distance from one, and directly for values far from one.
        excess, product, logs = torch.zeros_like(phi), torch.ones_like(phi), torch.zeros_like(phi)
        for i, step in enumerate(e.steps(), 1):
            f0, df = step + p0.y * r0, h * r1 + p0.y * dr
            r0, r1 = 1 / f0, 1 / (step + p1.y * r1)
            growth = -df * r1
            dr = growth * r0
            excess = excess + growth + excess * growth
            product = product * (f0 * r1)
            if i % GROUP == 0:
                logs, product = logs + product.log(), torch.ones_like(phi)
        near = excess.abs() < 0.5
        drop = torch.where(near, torch.where(near, excess, 0.0).log1p(), logs + product.log())
        return phi - drop, r1


def inner_ratio_difference(e: LogDebye, y0: Tensor, y1: Tensor, h: Tensor) -> Tensor:
    """Compute ``r(y1) - r(y0)`` for ``h = y1 - y0``."""
    p0, p1 = _point(e, y0), _point(e, y1)
    half_plus = _half_plus(e, p0)
    dr = _dr(e, p0, p1, h, half_plus)
    r0 = _r(half_plus, p0)
    r1 = r0 + dr
    for step in e.steps():
        df = h * r1 + y0 * dr
        r0, r1 = 1 / (step + y0 * r0), 1 / (step + y1 * r1)
        dr = -df * r0 * r1
    return dr


def ratio_difference(e: LogDebye, x0: Tensor, x1: Tensor, h: Tensor) -> Tensor:
    """Compute ``R(x1) - R(x0)`` for ``h = x1^2 - x0^2``, exact also if both ratios are near one."""
    a = e.order
    tiny = torch.finfo(h.dtype).tiny
    p0, p1 = _point(e, x0 * x0), _point(e, x1 * x1)
    half_plus = _half_plus(e, p0)
    r0, r1 = _r(half_plus, p0), _r(_half_plus(e, p1), p1)
    dx = h / (x0 + x1).clamp_min(tiny)
    de = -p0.u * h / (p0.s + p1.s) * p1.w * divided_difference(e.weighted(1), p0.u, p1.u)
    dR = a * p0.g * p1.g * (dx + a * h / (x1 * p0.s + x0 * p1.s).clamp_min(tiny))
    square = p0.w * p1.w
    dR = dR - dx * square * ((a * a - x0 * x1) * square) * half_plus - x1 * p1.w * p1.w * de
    for step in e.steps():
        r0, r1 = 1 / (step + p0.y * r0), 1 / (step + p1.y * r1)
        dR = r0 * r1 * (step * dx - x0 * x1 * dR)
    return dR


def _miss(p0: _Point, p1: _Point, ds: Tensor, square: Tensor) -> tuple[Tensor, Tensor]:
    """Compute ``u1 - u0``, and its excess over the tangent of u (see `_second_difference`)."""
    step = (ds * p0.w) ** 2 * (p0.s * p1.w) - 0.5 * square * p0.w * p0.w
    return -p0.u * ds * p1.w, p0.u * step


def _second_difference(e: LogDebye, p0: _Point, p1: _Point, ds: Tensor, square: Tensor) -> Tensor:
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
    p0, p1 = _point(e, y0), _point(e, y1)
    ds = h / (p0.s + p1.s)
    total = _second_difference(e, p0, p1, ds, -ds * ds)
    if not e.shift:
        return total

    du, miss = _miss(p0, p1, ds, -ds * ds)
    e1, e2 = _half_plus(e, p0), horner(e.weighted(2), p0.u)
    r0, r1 = _r(e1, p0), _r(_half_plus(e, p1), p1)
    d0 = (2 * e1 + e2) * p0.w**4 - p0.w * p0.g * p0.g
    dr = _dr(e, p0, p1, h, e1)
    # The second difference of r = g - (1/2 + u L') u^2/a^2 in the same way.
    correction: list[Number] = [0.0, 0.0, 0.5, *e.weighted(1)[1:]]
    bend, tangent = second_divided_difference(correction, p0.u, p1.u)
    ddr = (ds * p0.g) ** 2 * (p1.g + 0.5 * p0.w) - (du * du * bend + tangent * miss) / (a * a)
    for step in e.steps():
        rise0, df, ddf = 2 * r0 + y0 * d0, h * r1 + y0 * dr, h * dr + y0 * ddr
        r0, r1 = 1 / (step + y0 * r0), 1 / (step + y1 * r1)
        dr = -df * r0 * r1
        d0 = -r0 * r0 * rise0
        ddr = -r0 * r1 * ddf - 0.5 * h * rise0 * r0 * dr
        growth = dr / r0
        near = growth.abs() < 0.5
        first = torch.where(near, log1p_minus(torch.where(near, growth, 0.0)), 0.0)
        far = (r1 / r0).log() - 0.5 * h * d0 / r0
        total = total - torch.where(near, first + ddr / r0, far)
    return total


class _Legs(NamedTuple):
    """The two legs of a path along x at a small order: near, by the recurrence, and beyond a
    corner, where the recurrence would lose digits and is not needed."""

    beyond: LogDebye  # the expansion of the second leg
    corner: Number
    all_near: Tensor | None  # for a tensor of orders: the orders that are not small

    def split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Clamp ``x`` to each of the two legs."""
        corner = as_tensor(self.corner, x)
        near, beyond = torch.minimum(x, corner), torch.maximum(x, corner)
        if self.all_near is None:
            return near, beyond
        return torch.where(self.all_near, x, near), torch.where(self.all_near, corner, beyond)


def _legs(nu: Number, dtype: torch.dtype) -> _Legs:
    smallest = smallest_order(dtype)
    all_near = nu >= smallest if isinstance(nu, Tensor) else None
    nu = nu.clamp_max(smallest) if isinstance(nu, Tensor) else nu
    corner = ((FAR * smallest) ** 2 - nu * nu) ** 0.5
    return _Legs(far(nu, dtype), corner, all_near)


def _along(
    step: Callable[[LogDebye, Tensor, Tensor], Tensor], nu: Number, x0: Tensor, x1: Tensor
) -> Tensor:
    """Sum a difference from x0 to x1 over the legs of the path."""
    e = expansion(nu, x1.dtype)
    if not e.shift:
        return step(e, x0, x1)
    legs = _legs(nu, x1.dtype)
    (near0, beyond0), (near1, beyond1) = legs.split(x0), legs.split(x1)
    return step(e, near0, near1) + step(legs.beyond, beyond0, beyond1)


def phi_step(nu: Number, x0: Tensor, x1: Tensor) -> Tensor:
    """Compute ``phi(x1) - phi(x0)``."""

    def step(e: LogDebye, x0: Tensor, x1: Tensor) -> Tensor:
        h = (x1 - x0) * (x1 + x0)
        return Lower(e, x0 * x0).phi_difference(x1 * x1, h, with_ratio=False)[0]

    return _along(step, nu, x0, x1)


def shortfall(nu: Number, x0: Tensor, x1: Tensor) -> Tensor:
    """Compute ``(x1 - x0) - (phi(x1) - phi(x0))``, with an error relative to its own size."""

    def step(e: LogDebye, x0: Tensor, x1: Tensor) -> Tensor:
        dx = x1 - x0
        h = dx * (x1 + x0)
        lower, p1 = Lower(e, x0 * x0), _point(e, x1 * x1)
        ds = h / (lower.p0.s + p1.s)
        deficit = _lag(e, x0, x1, lower.p0, p1) * (dx + ds) + lower.logs(ds, p1)
        return -lower.down(-deficit, p1, _r(_half_plus(e, p1), p1), h)[0] if e.shift else deficit

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
    legs = _legs(nu, x1.dtype)
    (near0, beyond0), (near1, beyond1) = legs.split(x0), legs.split(x1)
    corner = as_tensor(legs.corner, x1)
    # The slope at x0 differs from that at the start of the other leg. Neither product is negative.
    turn = (beyond1 - beyond0) * _ratio_step(e, near0, corner)
    turn = turn + (near1 - near0) * _ratio_step(legs.beyond, beyond0, corner)
    return _bregman(e, near0, near1) + _bregman(legs.beyond, beyond0, beyond1) + turn


def _bregman(e: LogDebye, x0: Tensor, x1: Tensor) -> Tensor:
    y0, y1, dx = x0 * x0, x1 * x1, x1 - x0
    h = dx * (x1 + x0)
    if not e.shift:
        p0, p1 = _point(e, y0), _point(e, y1)
        ds = h / (p0.s + p1.s)
        return _second_difference(e, p0, p1, ds, _lag(e, x0, x1, p0, p1) * (dx + ds) ** 2)
    r0 = inner_ratio(e, y0)
    # The rounding error of each form is proportional to its larger term.
    near = phi_second_difference(e, y0, y1, h) + 0.5 * r0 * dx * dx
    apart = Lower(e, y0).phi_difference(y1, h, with_ratio=False)[0] - x0 * r0 * dx
    return torch.where(dx.abs() < x0, near, apart)


def log1p_minus(x: Tensor, whole: Tensor | None = None) -> Tensor:
    """Compute ``log(1 + x) - x``, of second order in x; near x = -1 pass 1 + x as ``whole``."""
    z = x / (2 + x)
    z2 = z * z
    # log(1 + x) = 2 artanh(z); |x| < 1/2 makes z^2 < 1/9.
    series = horner([1 / (2 * n + 3) for n in range(16)], z2)
    log = torch.log1p(x) if whole is None else whole.log()
    return torch.where(x.abs() < 0.5, 2 * z * z2 * series - x * z, log - x)


def _add(total: Tensor, term: Tensor, factor: Number) -> Tensor:
    return total + term * factor if isinstance(factor, Tensor) else total.add(term, alpha=factor)
