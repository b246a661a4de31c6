r"""The ratio :math:`R_\nu(x) = I_{\nu+1}(x)/I_\nu(x)` and its derivatives at one argument.

The natural variable is :math:`y = x^2`, in which :math:`r = R_\nu(x)/x` is smooth at zero; D
stands for :math:`2\,d/dy`. Plain tensor functions without autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from resultant.special.debye import LogDebye, Number, by_order, horner, unshifted, unshifted_from


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


def half_plus_at(e: LogDebye, p: Point) -> Tensor:
    """Compute ``1/2 + u L'(u)``, the numerator of the correction to r."""
    return horner([0.5, *e.weighted(1)[1:]], p.u)


def r_at(half_plus: Tensor, p: Point) -> Tensor:
    return p.g - half_plus * p.w * p.w


def inner_ratio(e: LogDebye, y: Tensor, derivative: int = 0) -> Tensor:
    """Compute ``D^n r`` at ``y``, n = 0, 1 or 2."""
    p = point(e, y)
    e1 = half_plus_at(e, p)
    r = r_at(e1, p)
    d1 = d2 = torch.zeros_like(r)
    if derivative >= 1:
        e2 = horner(e.weighted(2), p.u)
        d1 = (2 * e1 + e2) * p.w**4 - p.w * p.g * p.g
        if derivative == 2:
            e3 = horner(e.weighted(3), p.u)
            d2 = (p.w * p.g) ** 2 * (p.w + 2 * p.g) - (8 * e1 + 6 * e2 + e3) * p.w**6
    for step in e.steps():
        below = (step + y * r).reciprocal()
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
    second: Tensor  # R''/x, times a scale


def ratio_slopes(nu: Number, x: Tensor, scale: float | Tensor = 1.0) -> RatioSlopes:
    """Compute the ratio, its complement to one, and its derivatives at ``x``; the ``scale`` keeps
    the second in range, which is of the order of x^-4."""

    def slopes(e: LogDebye) -> tuple[Tensor, ...]:
        return unshifted_if_large(lambda e: _ratio_slopes(e, x, scale), e, x * x)

    return RatioSlopes(*by_order(nu, x.dtype, slopes))


def unshifted_if_large(compute: Callable[[LogDebye], Any], e: LogDebye, y: Tensor) -> Any:
    """Compute a tensor or a tuple of tensors by the expansion, for a large ``y`` at nu itself: the
    recurrence would lose digits of all but the ratio."""
    near = compute(e)
    if not e.shift:
        return near
    is_large = y + e.nu * e.nu >= unshifted_from(y.dtype) ** 2
    beyond = compute(unshifted(e, y.dtype))
    if isinstance(near, Tensor):
        return torch.where(is_large, beyond, near)
    return tuple(torch.where(is_large, b, a) for a, b in zip(near, beyond, strict=True))


def _ratio_slopes(e: LogDebye, x: Tensor, scale: float | Tensor) -> RatioSlopes:
    """Compute `ratio_slopes` by one expansion, without ``r + y D r``, which cancels for x >> nu."""
    a, y = e.order, x * x
    p = point(e, y)
    square = p.w * p.w
    share = y * square  # (x/s)^2
    e1 = half_plus_at(e, p)
    e2, e3 = (horner(e.weighted(n), p.u) for n in (2, 3))
    r = r_at(e1, p)
    complement = (a + a * a / (p.s + x)) * p.g + x * e1 * square
    d1 = (2 * e1 + e2) * square * square - p.w * p.g * p.g
    first = a * p.w * p.g - e1 * square + share * (2 * e1 + e2) * square
    inner = (2 * e1 + e2) * (1 + 2 * a * a * square) - share * (4 * e1 + 4 * e2 + e3)
    second = scale * square * p.w * (p.w * inner - a * (a + 2 * p.s) * p.g * p.g)
    for step in e.steps():
        below = (step + y * r).reciprocal()
        d1_below = -below * below * (2 * r + y * d1)
        rest = step - y * first
        turn = below * below * (2 * scale * first + y * second)
        second = 2 * scale * below * d1_below * rest - turn
        first = below * below * rest
        complement = (step - x * complement) * below
        r, d1 = below, d1_below
    return RatioSlopes(r, complement, first, second)
