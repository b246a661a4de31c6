r"""The ratio :math:`R_\nu(x) = I_{\nu+1}(x)/I_\nu(x)`, its integrals, its inverse, and log I, with
derivatives, on tensors of one dtype, without validation."""

import math

import torch
from torch import Tensor

from resultant._core.autograd import elementwise, opaque
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


@elementwise("ratio", None, lambda nu, x: ratio(nu, x, 1))
@by_kernel("ratio")
def _ratio(nu: Number, x: Tensor) -> Tensor:
    return differences.ratio_value(nu, bounded(x))


@elementwise("ratio_first", None, lambda nu, x: ratio(nu, x, 2))
@by_kernel("first")
def _first(nu: Number, x: Tensor) -> Tensor:
    return ratio_slopes(nu, bounded(x)).first


def _second(nu: Number, x: Tensor) -> Tensor:
    x = bounded(x)
    return x * ratio_slopes(nu, x).second  # an expression that torch differentiates


def ratio(nu: Number, x: Tensor, derivative: int = 0) -> Tensor:
    """Compute the n-th derivative of R_nu in x, n = 0, 1 or 2."""
    return (_ratio, _first, _second)[derivative](nu, x)


def slopes(nu: float, y: Tensor, scale: float | Tensor = 1.0) -> RatioSlopes:
    """Compute `ratio_slopes` from y = x^2, all but the complement differentiable by torch."""
    y = bounded(y, 1.1)
    return ratio_slopes(nu, y.sqrt(), y, scale)


@elementwise("inner", None, opaque("inner_slope")(lambda nu, y: slopes(nu, y).d1 / 2))
def inner(nu: float, y: Tensor) -> Tensor:
    """Compute R_nu(x)/x as a function of y = x^2."""
    return differences.inner_ratio(debye.expansion(nu, y.dtype), y)


@elementwise("complement", None, lambda nu, x: -ratio(nu, x, 1))
@by_kernel("complement")
def complement(nu: Number, x: Tensor) -> Tensor:
    """Compute 1 - R_nu(x)."""
    return ratio_slopes(nu, bounded(x)).complement


def slope_step(nu: float, y0: Tensor, y1: Tensor, h: Tensor) -> Tensor:
    """Compute the difference of R_nu' from y0 to y1 = y0 + h."""
    slope0, slope1 = slopes(nu, y0).first, slopes(nu, y1).first
    apart, nodes = slope1 - slope0, differences.gauss_legendre(differences.NODES)
    close = sum((w * slopes(nu, y0 + s * h, 0.5 * h).second for s, w in nodes), 0 * h)
    return torch.where(apart.abs() > 0.25 * torch.maximum(slope0, slope1), apart, close)


@elementwise(
    "ratio_integral",
    None,
    lambda nu, low, high: -ratio(nu, low),
    lambda nu, low, high: ratio(nu, high),
)
@by_kernel("integral")
def ratio_integral(nu: Number, lower: Tensor, upper: Tensor) -> Tensor:
    """Compute the integral of R_nu."""
    start, end = bounded(lower), bounded(upper)
    return phi_step(nu, start, end) + ((upper - lower) - (end - start))


@elementwise(
    "complement_integral", None, lambda nu, x: complement(nu, x)
)  # torch.compile needs a function
@by_kernel("complement_integral")
def complement_integral(nu: Number, x: Tensor) -> Tensor:
    """Compute the integral of 1 - R_nu from zero to x."""
    return differences.complement_step(nu, torch.zeros_like(x), x)


_ratio_change = elementwise(
    "ratio_change", None, lambda nu, x0, x1: -ratio(nu, x0, 1), lambda nu, x0, x1: ratio(nu, x1, 1)
)(differences.ratio_step)

# divergence(nu, x0, x1): phi(x1) - phi(x0) - (x1 - x0) R(x0), the Bregman divergence of
# prop:bregman-view on one axis, which is the KL divergence from concentration x0 to x1 in the same
# direction.
divergence = elementwise(
    "divergence", None, lambda nu, x0, x1: (x0 - x1) * ratio(nu, x0, 1), _ratio_change
)(differences.bregman)


@elementwise("information", None, lambda nu, x: x * ratio(nu, x, 1))
def information(nu: float, x: Tensor) -> Tensor:
    """Compute ``divergence(nu, x, 0)``, that to the uniform distribution, by (27)."""
    # Of two differences the one whose terms do not cancel.
    gap = complement(nu, x)
    low = x * ratio(nu, x) - ratio_integral(nu, torch.zeros_like(x), x)
    return torch.where(gap > 0.5, low, complement_integral(nu, x) - x * gap)


def _solve(nu: Number, r: Tensor, gap: Tensor) -> Tensor:
    """Solve R_nu(x) = r for x by (26), with gap = 1 - r."""
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


@elementwise("ratio_inverse", None, lambda nu, r: 1 / ratio(nu, ratio_inverse(nu, r), 1))  # type: ignore[misc]
@by_kernel("inverse")
def ratio_inverse(nu: Number, r: Tensor) -> Tensor:
    """Compute the x with R_nu(x) = r."""
    return _solve(nu, r, 1 - r)


@elementwise("complement_inverse", None, lambda nu, r: -1 / ratio(nu, complement_inverse(nu, r), 1))  # type: ignore[misc]
@by_kernel("complement_inverse")
def complement_inverse(nu: Number, gap: Tensor) -> Tensor:
    """Compute the x with 1 - R_nu(x) = gap."""
    return _solve(nu, 1 - gap, gap)


def _log_value(nu: Number, x: Tensor) -> Tensor:
    """Compute log I from its change since the `anchor`, (24): nothing cancels near its zero."""
    x0, start = by_order(nu, x.dtype, lambda e: differences.anchor(e, x), absolute=True)
    order, end = as_tensor(nu, x), bounded(x)
    d = end - x0
    near = d.abs() < 0.5 * x0
    # Below one no difference of logarithms cancels, and the quotient may underflow.
    apart = torch.xlogy(order, torch.where(end < 1, end, end / x0))
    apart = apart - torch.where(end < 1, torch.xlogy(order, x0), 0.0)
    power = torch.where(near, order * torch.log1p(torch.where(near, d / x0, 0.0)), apart)
    return start + (phi_step(nu, x0, end) + power) + (x - end)


def _order_over(nu: Number, x: Tensor) -> Tensor:
    """Compute nu/x, where 0/x counts as zero also at x = 0."""
    nu = as_tensor(nu, x)
    return nu / torch.where(nu == 0, 1.0, x)


log_i = elementwise("log_i", None, lambda nu, x: ratio(nu, x) + _order_over(nu, x))(
    by_kernel("log")(_log_value)
)


@elementwise("log_ie", None, lambda nu, x: _order_over(nu, x) - complement(nu, x))
@by_kernel("log_scaled")
def log_ie(nu: Number, x: Tensor) -> Tensor:
    """Compute log I_nu(x) - x."""

    def beyond(e: LogDebye) -> tuple[Tensor]:
        return (_scaled_sum(debye.unshifted(e, x.dtype) if e.shift else e, x),)

    is_large = bounded(x) ** 2 + nu * nu >= debye.unshifted_from(x.dtype) ** 2
    scaled = by_order(nu, x.dtype, beyond, absolute=True)[0]
    return torch.where(is_large, scaled, _log_value(nu, x) - x)


def _scaled_sum(e: LogDebye, x: Tensor) -> Tensor:
    """Compute log I - x without a shift by (25), whose two large terms do not cancel."""
    a, order = e.order, as_tensor(e.order, x)
    s = torch.hypot(x, order)
    total = a * (a / (s + x)) - 0.5 * (s.log() + math.log(2 * math.pi))
    total = total + debye.horner(e.coefficients, e.scale / s)
    # asinh(a/x), below one without a quotient, which may overflow.
    inside = a * torch.log(a + s) - torch.xlogy(order, x)
    return total - torch.where(x < 1, inside, a * torch.asinh(a / x.clamp_min(1)))
