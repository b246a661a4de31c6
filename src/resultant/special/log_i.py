r"""The logarithm of :math:`I_\nu` and of :math:`e^{-x} I_\nu(x)`, with derivatives.

The functions compute on tensors of one dtype and validate nothing.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from resultant._core.autograd import elementwise
from resultant.special.compiled import by_kernel
from resultant.special.debye import LogDebye, Number, as_tensor, by_order, horner, log_i_zero
from resultant.special.differences import GROUP, two_product
from resultant.special.ratio import bounded, complement, ratio
from resultant.special.slopes import unshifted_if_large

# The leading part of log I_nu(x) vanishes at x = ZERO nu, where s = COTH nu: COTH solves
# c = coth(c) and ZERO = 1/sinh(COTH); ZERO_REST is the rounding error of ZERO in float64.
COTH = 1.1996786402577337
ZERO = 0.6627434193491816
ZERO_REST = 8.155323790501267e-18
# The part of the zero that is lost in a dtype.
REST = {
    dtype: ZERO_REST + (ZERO - float(torch.tensor(ZERO, dtype=dtype)))
    for dtype in (torch.float32, torch.float64)
}


def _log_value(nu: Number, x: Tensor) -> Tensor:
    total = by_order(nu, x.dtype, lambda e: (_log_sum(e, x),), absolute=True)[0]
    small, value = _near_zero(nu, x)
    return total if small is None else torch.where(small, value, total)


def _near_zero(nu: Number, x: Tensor) -> tuple[Tensor | None, Tensor]:
    """Compute log I_0 on [0, 1], where it begins as x^2/4, which is lost in a sum of larger terms;
    mark the arguments, if there can be any."""
    if not isinstance(nu, Tensor) and nu:
        return None, x
    small = (x.abs() <= 1) & (nu == 0)
    u = torch.where(small, x * x, 0.0)
    return small, u * horner(log_i_zero(), u)


def _log_sum(e: LogDebye, x: Tensor) -> Tensor:
    a, nu = e.order, e.nu
    # Measure from the zero x0 of the leading part, so that nothing cancels near it.
    zero = torch.full((), ZERO, dtype=x.dtype, device=x.device)
    order = a if isinstance(a, Tensor) else torch.full_like(zero, a)
    x0, lost = two_product(order, zero)
    # Clamp x such that powers of x0/x and the square of x are finite.
    most = torch.finfo(x.dtype).max
    limit = (x0 * most ** (1 / (GROUP + 0.5))).clamp_max(most ** (1 / 2.2))
    bounded = x.clamp(-limit, limit)
    d = (bounded - x0) - (lost + order * REST[x.dtype])
    s0, y = order * COTH, bounded * bounded
    s = (y + a * a).sqrt()
    ds = d * ((bounded + x0) / (s + s0))
    total = ds - a * torch.log1p(ds / (a + s0)) - 0.5 * torch.log(2 * math.pi * s)
    total = total + horner(e.coefficients, a / s)
    near = d.abs() < 0.5 * x0
    log_ratio = torch.where(near, torch.log1p(torch.where(near, d / x0, 0.0)), 0.0)
    nu = nu if isinstance(nu, Tensor) else torch.full_like(zero, nu)
    # Below one no difference of logarithms cancels, and the quotient may underflow.
    apart = torch.xlogy(nu, torch.where(bounded < 1, bounded, bounded / x0))
    apart = apart - torch.where(bounded < 1, torch.xlogy(nu, x0), 0.0)
    total = total + torch.where(near, nu * log_ratio, apart)
    w = 1 / s
    r = 1 / (s + a) - (horner(e.weighted(1), a * w) + 0.5) * w * w
    product = torch.ones_like(total)
    for i, step in enumerate(e.steps(), 1):
        r = 1 / (step + y * r)
        product = product * (x0 * r)
        if i % GROUP == 0:
            total, product = total - product.log(), torch.ones_like(total)
    return total - product.log() + (x - bounded)


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
    def total(e: LogDebye) -> Tensor:
        return _log_sum(e, x) - x if e.shift else _scaled_sum(e, x)

    def chosen(e: LogDebye) -> tuple[Tensor]:
        return (unshifted_if_large(total, e, bounded(x) ** 2),)

    value = by_order(nu, x.dtype, chosen, absolute=True)[0]
    small, log = _near_zero(nu, x)
    return value if small is None else torch.where(small, log - x, value)


def _scaled_sum(e: LogDebye, x: Tensor) -> Tensor:
    """Compute log I - x without a shift: s - x and the logarithm of (a + s)/x do not cancel."""
    a, order = e.order, as_tensor(e.order, x)
    s = torch.hypot(x, order)
    total = a * (a / (s + x)) - 0.5 * (s.log() + math.log(2 * math.pi))
    total = total + horner(e.coefficients, e.scale / s)
    # asinh(a/x), below one without a quotient, which may overflow.
    inside = a * torch.log(a + s) - torch.xlogy(order, x)
    return total - torch.where(x < 1, inside, a * torch.asinh(a / x.clamp_min(1)))


# log_ie(nu, x): log I_nu(x) - x.
log_ie = elementwise(
    by_kernel("log_scaled", _scaled_value),
    None,
    lambda nu, x: _order_over(nu, x) - complement(nu, x),
)
