r"""The ratio :math:`R_\nu(x) = I_{\nu+1}(x)/I_\nu(x)`, its integrals, its inverse, and log I, with
derivatives, on tensors of one dtype, without validation."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from resultant._core.autograd import elementwise, is_constant, opaque
from resultant.special import debye, differences
from resultant.special.compiled import by_kernel
from resultant.special.debye import LogDebye, Number, as_tensor, by_order
from resultant.special.differences import RatioSlopes, phi_step, ratio_slopes

# Halley steps from the start of Banerjee et al. (2005) to full precision; 2 suffice from p = 3 on.
HALLEY_STEPS = 3


def bounded(x: Tensor, root: float = 2.2) -> Tensor:
    """Clamp ``x`` to where its ``root``-th power is finite; beyond, the ratio rounds to one."""
    limit = torch.finfo(x.dtype).max ** (1 / root)
    return x.clamp(-limit, limit)


def _ratio_value(nu: Number, x: Tensor) -> Tensor:
    x = bounded(x)
    # Near one rounding exceeds one.
    return by_order(nu, x.dtype, lambda e: (x * differences.inner_ratio(e, x * x),))[0].clamp(-1, 1)


def _second_value(nu: Number, x: Tensor) -> Tensor:
    x = bounded(x)
    return x * ratio_slopes(nu, x).second


# The n-th derivative of R_nu, n = 0, 1 or 2.
_derivatives = (
    elementwise(by_kernel("ratio", _ratio_value), None, lambda nu, x: ratio(nu, x, 1)),
    elementwise(
        by_kernel("first", lambda nu, x: ratio_slopes(nu, bounded(x)).first),
        None,
        lambda nu, x: ratio(nu, x, 2),
    ),
    elementwise(by_kernel("second", _second_value)),
)


def ratio(nu: Number, x: Tensor, derivative: int) -> Tensor:
    """Compute the n-th derivative of R_nu in x, n = 0, 1 or 2."""
    if derivative == 2 and not is_constant(x):
        return _second_value(nu, x)  # an expression that torch differentiates
    return _derivatives[derivative](nu, x)


def slopes(nu: float, y: Tensor, scale: float | Tensor = 1.0) -> RatioSlopes:
    """Compute `ratio_slopes` from y = x^2, all but the complement differentiable by torch."""
    y = bounded(y, 1.1)
    return ratio_slopes(nu, y.sqrt(), y, scale)


# inner(nu, y): R_nu(x)/x as a function of y = x^2.
inner = elementwise(
    lambda nu, y: differences.inner_ratio(debye.expansion(nu, y.dtype), y),
    None,
    opaque(lambda nu, y: slopes(nu, y).d1 / 2),
)

# complement(nu, x): 1 - R_nu(x).
complement = elementwise(
    by_kernel("complement", lambda nu, x: ratio_slopes(nu, bounded(x)).complement),
    None,
    lambda nu, x: -ratio(nu, x, 1),
)


def slope_step(nu: float, y0: Tensor, y1: Tensor, h: Tensor) -> Tensor:
    """Compute the difference of R_nu' from y0 to y1 = y0 + h."""
    slope0, slope1 = slopes(nu, y0).first, slopes(nu, y1).first
    apart, nodes = slope1 - slope0, differences.gauss_legendre(differences.NODES)
    close = sum((w * slopes(nu, y0 + s * h, 0.5 * h).second for s, w in nodes), 0 * h)
    return torch.where(apart.abs() > 0.25 * torch.maximum(slope0, slope1), apart, close)


def _integral_value(nu: Number, lower: Tensor, upper: Tensor) -> Tensor:
    start, end = bounded(lower), bounded(upper)
    return phi_step(nu, start, end) + ((upper - lower) - (end - start))


# ratio_integral(nu, lower, upper): the integral of R_nu; complement_integral(nu, x): that of
# 1 - R_nu from zero to x.
ratio_integral = elementwise(
    by_kernel("integral", _integral_value),
    None,
    lambda nu, lower, upper: -ratio(nu, lower, 0),
    lambda nu, lower, upper: ratio(nu, upper, 0),
)
complement_integral = elementwise(
    by_kernel(
        "complement_integral", lambda nu, x: differences.complement_step(nu, torch.zeros_like(x), x)
    ),
    None,
    lambda nu, x: complement(nu, x),  # torch.compile needs a function
)

# R_nu(x1) - R_nu(x0).
_ratio_change = elementwise(
    differences.ratio_step,
    None,
    lambda nu, x0, x1: -ratio(nu, x0, 1),
    lambda nu, x0, x1: ratio(nu, x1, 1),
)

# divergence(nu, x0, x1): phi(x1) - phi(x0) - (x1 - x0) R(x0), the Bregman divergence of
# prop:bregman-view on one axis, which is the KL divergence from concentration x0 to x1 in the same
# direction; information(nu, x): divergence(nu, x, 0), that to the uniform distribution.
divergence = elementwise(
    differences.bregman,
    None,
    lambda nu, x0, x1: (x0 - x1) * ratio(nu, x0, 1),
    lambda nu, x0, x1: _ratio_change(nu, x0, x1),  # torch.compile needs a function
)


def _information_value(nu: float, x: Tensor) -> Tensor:
    # Of two differences the one whose terms do not cancel.
    gap = complement(nu, x)
    low = x * ratio(nu, x, 0) - ratio_integral(nu, torch.zeros_like(x), x)
    return torch.where(gap > 0.5, low, complement_integral(nu, x) - x * gap)


information = elementwise(_information_value, None, lambda nu, x: x * ratio(nu, x, 1))


def _solve(nu: Number, r: Tensor, gap: Tensor) -> Tensor:
    """Solve R_nu(x) = r for x, with gap = 1 - r."""
    p = 2 * nu + 2
    start = x = r * (p - r * r) / (gap * (1 + r))
    for _ in range(HALLEY_STEPS):
        x = bounded(x)
        at = ratio_slopes(nu, x)
        # Near one the digits are in 1 - r.
        newton = torch.where(r < 0.5, x * at.r - r, gap - at.complement) / at.first
        bend = 0.5 * newton * x * at.second / at.first
        x = x - newton / (1 - bend.clamp(-0.5, 0.5))
    # Where squares would overflow, the start is exact to the precision; it is infinite at r = 1.
    return torch.where(start < 0.5 * torch.finfo(r.dtype).max ** (1 / 2.2), x, start)


# ratio_inverse(nu, r): the x with R_nu(x) = r; complement_inverse(nu, gap): with 1 - R_nu(x) = gap.
ratio_inverse = elementwise(
    by_kernel("inverse", lambda nu, r: _solve(nu, r, 1 - r)),
    None,
    lambda nu, r: 1 / ratio(nu, ratio_inverse(nu, r), 1),
)
complement_inverse = elementwise(
    by_kernel("complement_inverse", lambda nu, gap: _solve(nu, 1 - gap, gap)),
    None,
    lambda nu, gap: -1 / ratio(nu, complement_inverse(nu, gap), 1),
)


def _log_value(nu: Number, x: Tensor) -> Tensor:
    """Compute log I from its change since the `anchor`, so that nothing cancels near its zero."""
    x0, start = by_order(nu, x.dtype, lambda e: differences.anchor(e, x), absolute=True)
    order, end = as_tensor(nu, x), bounded(x)
    d = end - x0
    near = d.abs() < 0.5 * x0
    # Below one no difference of logarithms cancels, and the quotient may underflow.
    apart = torch.xlogy(order, torch.where(end < 1, end, end / x0))
    apart = apart - torch.where(end < 1, torch.xlogy(order, x0), 0.0)
    power = torch.where(near, order * torch.log1p(torch.where(near, d / x0, 0.0)), apart)
    return start + (phi_step(nu, x0, end) + power) + (x - end)


def _order_over(nu: Number, x: Tensor) -> Number | Tensor:
    """Compute nu/x, where 0/x counts as zero also at x = 0."""
    if isinstance(nu, Tensor):
        return nu / torch.where(nu == 0, 1.0, x)
    return nu / x if nu else 0.0


# log_i(nu, x): log I_nu(x).
log_i = elementwise(
    by_kernel("log", _log_value), None, lambda nu, x: ratio(nu, x, 0) + _order_over(nu, x)
)


def _scaled_value(nu: Number, x: Tensor) -> Tensor:
    def beyond(e: LogDebye) -> tuple[Tensor]:
        return (_scaled_sum(debye.unshifted(e, x.dtype) if e.shift else e, x),)

    is_large = bounded(x) ** 2 + nu * nu >= debye.unshifted_from(x.dtype) ** 2
    scaled = by_order(nu, x.dtype, beyond, absolute=True)[0]
    return torch.where(is_large, scaled, _log_value(nu, x) - x)


def _scaled_sum(e: LogDebye, x: Tensor) -> Tensor:
    """Compute log I - x without a shift: s - x and the logarithm of (a + s)/x do not cancel."""
    a, order = e.order, as_tensor(e.order, x)
    s = torch.hypot(x, order)
    total = a * (a / (s + x)) - 0.5 * (s.log() + math.log(2 * math.pi))
    total = total + debye.horner(e.coefficients, e.scale / s)
    # asinh(a/x), below one without a quotient, which may overflow.
    inside = a * torch.log(a + s) - torch.xlogy(order, x)
    return total - torch.where(x < 1, inside, a * torch.asinh(a / x.clamp_min(1)))


# log_ie(nu, x): log I_nu(x) - x.
log_ie = elementwise(
    by_kernel("log_scaled", _scaled_value),
    None,
    lambda nu, x: _order_over(nu, x) - complement(nu, x),
)
