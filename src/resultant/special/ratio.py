r"""The ratio :math:`R_\nu(x) = I_{\nu+1}(x)/I_\nu(x)`, its integral and its inverse.

All carry derivatives. The functions compute on tensors of one dtype and validate nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from resultant._core.autograd import elementwise, is_constant
from resultant.special import compiled
from resultant.special.debye import Number, by_order, expansion, is_shifted
from resultant.special.differences import phi_step, ratio_slope_difference
from resultant.special.slopes import RatioSlopes, inner_ratio, ratio_slopes, unshifted_if_large

# Halley steps from the start of Banerjee et al. (2005) to full precision; 2 suffice from p = 3 on.
HALLEY_STEPS = 3


def bounded(x: Tensor, root: float) -> Tensor:
    """Clamp ``x`` to where its ``root``-th power is finite; beyond, the ratio rounds to one."""
    limit = torch.finfo(x.dtype).max ** (1 / root)
    return x.clamp(-limit, limit)


def _ratio_value(nu: Number, x: Tensor, derivative: int) -> Tensor:
    if not isinstance(nu, Tensor) and compiled.available(x):
        return compiled.ratio(nu, x, derivative)
    return _ratio_expression(nu, x, derivative)


def _ratio_expression(nu: Number, x: Tensor, derivative: int) -> Tensor:
    x = bounded(x, 2.2)
    if derivative == 0:
        # Near one rounding exceeds one.
        return by_order(nu, x.dtype, lambda e: (x * inner_ratio(e, x * x),))[0].clamp(-1, 1)
    slopes = ratio_slopes(nu, x)
    return slopes.first if derivative == 1 else x * slopes.second


# Functions of (nu, x, n) for n < 2; n = 2 is an expression that torch differentiates.
_ratio = elementwise(
    _ratio_value, None, lambda nu, x, n: ratio(nu, x, n + 1), None, long=is_shifted
)


def ratio(nu: Number, x: Tensor, derivative: int) -> Tensor:
    """Compute the n-th derivative of R_nu in x, n = 0, 1 or 2."""
    differentiated = derivative == 2 and not is_constant(x)
    return (_ratio_expression if differentiated else _ratio)(nu, x, derivative)


def _inner_value(nu: float, y: Tensor, derivative: int) -> Tensor:
    return inner_ratio(expansion(nu, y.dtype), y, derivative)


_inner = elementwise(
    _inner_value, None, lambda nu, y, n: inner(nu, y, n + 1) / 2, None, long=is_shifted
)


def inner(nu: float, y: Tensor, derivative: int) -> Tensor:
    """Compute the n-th power of 2 d/dy on R_nu(x)/x as a function of y = x^2, n = 0, 1 or 2."""
    return (_inner if derivative < 2 else _inner_value)(nu, y, derivative)


def _complement_value(nu: Number, x: Tensor) -> Tensor:
    if not isinstance(nu, Tensor) and compiled.available(x):
        return compiled.ratio(nu, x, 3)
    return ratio_slopes(nu, bounded(x, 2.2)).complement


# complement(nu, x): 1 - R_nu(x).
complement = elementwise(
    _complement_value,
    None,
    lambda nu, x: -ratio(nu, x, 1),
    long=is_shifted,
)

# ratio_slope(nu, y): R_nu' at y = x^2; ratio_slope_step(nu, y0, y1, h): its difference, for
# h = y1 - y0.
ratio_slope = elementwise(
    lambda nu, y: _slopes(nu, y).first,
    None,
    lambda nu, y: _slopes(nu, y).second / 2,
    long=is_shifted,
)


def _slopes(nu: float, y: Tensor) -> RatioSlopes:
    return ratio_slopes(nu, bounded(y, 1.1).sqrt())


def _ratio_slope_step(nu: float, y0: Tensor, y1: Tensor, h: Tensor) -> Tensor:
    slope0, slope1 = _slopes(nu, y0).first, _slopes(nu, y1).first
    apart = slope1 - slope0
    close = unshifted_if_large(
        lambda e: ratio_slope_difference(e, y0, y1, h),
        expansion(nu, h.dtype),
        torch.minimum(y0, y1),
    )
    return torch.where(apart.abs() > 0.25 * torch.maximum(slope0, slope1), apart, close)


ratio_slope_step = elementwise(
    _ratio_slope_step,
    None,
    lambda nu, y0, y1, h: _slopes(nu, y0).second / -2,
    lambda nu, y0, y1, h: _slopes(nu, y1).second / 2,
    None,
    long=is_shifted,
)


def _integral_value(nu: Number, lower: Tensor, upper: Tensor) -> Tensor:
    start, end = bounded(lower, 2.2), bounded(upper, 2.2)
    return phi_step(nu, start, end) + ((upper - lower) - (end - start))


# ratio_integral(nu, lower, upper): the integral of R_nu.
ratio_integral = elementwise(
    _integral_value,
    None,
    lambda nu, lower, upper: -ratio(nu, lower, 0),
    lambda nu, lower, upper: ratio(nu, upper, 0),
    long=is_shifted,
)


def _solve(nu: Number, given: Tensor, complement: bool) -> Tensor:
    """Solve R_nu(x) = r for x, given r or, for the ``complement``, 1 - r."""
    if not isinstance(nu, Tensor) and compiled.available(given):
        steps = HALLEY_STEPS if nu < 0.5 else 2
        return compiled.inverse(nu, given, steps, complement=complement)
    r, gap = (1 - given, given) if complement else (given, 1 - given)
    p = 2 * nu + 2
    start = x = r * (p - r * r) / (gap * (1 + r))
    for _ in range(HALLEY_STEPS):
        x = bounded(x, 2.2)
        at = ratio_slopes(nu, x)
        # Near one the digits are in 1 - r.
        newton = torch.where(r < 0.5, x * at.r - r, gap - at.complement) / at.first
        bend = 0.5 * newton * x * at.second / at.first
        x = x - newton / (1 - bend.clamp(-0.5, 0.5))
    # Where squares would overflow, the start is exact to the precision; it is infinite at r = 1.
    return torch.where(start < 0.5 * torch.finfo(r.dtype).max ** (1 / 2.2), x, start)


# ratio_inverse(nu, r): the x with R_nu(x) = r; complement_inverse(nu, gap): with 1 - R_nu(x) = gap.
ratio_inverse = elementwise(
    lambda nu, r: _solve(nu, r, False),
    None,
    lambda nu, r: 1 / ratio(nu, ratio_inverse(nu, r), 1),
    long=is_shifted,
)
complement_inverse = elementwise(
    lambda nu, gap: _solve(nu, gap, True),
    None,
    lambda nu, gap: -1 / ratio(nu, complement_inverse(nu, gap), 1),
    long=is_shifted,
)
