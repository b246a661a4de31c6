r"""Modified Bessel functions of any real order: :math:`\log I_\nu`, their ratio, its inverse.

The ratio :math:`R_\nu(x) = I_{\nu+1}(x)/I_\nu(x)` is the mean resultant length of a von
Mises-Fisher distribution in dimension :math:`p = 2\nu+2`. Everything here is one idea: the
log-Debye expansion at an order that is large enough, and where the order asked for is not, the
recurrence :math:`r_{j-1} = 1/(2j + x^2 r_j)` of :math:`r_\nu = R_\nu(x)/x`, which comes down from
there without loss. No formula gives way to another along x, hence there is no seam; only of what
the recurrence loses digits of far out (derivatives, integrals) it is not used there.

All functions take tensors or numbers, broadcast, keep dtype and device (bfloat16 and float16 are
computed in float32), and carry first and second derivatives in everything but the order, which
goes up to 1e30, in float32 to 1e11.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.autograd import elementwise
from resultant._core.compensated import two_product
from resultant.special.debye import Number, economise, expansion, horner
from resultant.special.differences import GROUP, inner_ratio, phi_step, ratio_slopes

# The leading part of log I_nu(x) vanishes at x = ZERO nu, where s = COTH nu: COTH solves
# c = coth(c) and ZERO = 1/sinh(COTH), here with what its double leaves out.
COTH = 1.1996786402577337
ZERO = 0.6627434193491816
ZERO_REST = 8.155323790501267e-18

# Steps from the start of Banerjee et al. (2005) to full precision; two would do from p = 3 on.
HALLEY_STEPS = 3


def log_bessel_i(nu: Number, x: Number, *, validate_args: bool | None = None) -> Tensor:
    r"""The logarithm of the modified Bessel function of the first kind, :math:`\log I_\nu(x)`.

    ``nu`` is a number or tensor >= 0, ``x`` >= 0; :math:`-\infty` at x = 0 unless nu = 0. Right to
    1e-14 (5e-6 in float32) of the larger of one and its own size, at nu = 0 to 2e-14 (5e-6) of its
    own size.
    """
    nu, x, dtype = _arguments(nu, x=x)
    return _log_i(nu, x, validate_args).to(dtype)


def bessel_ratio(nu: Number, x: Number, *, validate_args: bool | None = None) -> Tensor:
    r"""The ratio :math:`R_\nu(x) = I_{\nu+1}(x)/I_\nu(x)`, in [0, 1), of prop:bregman-view.

    The mean resultant length of a vMF distribution is :math:`A_p(\kappa) = R_{p/2-1}(\kappa)`.
    ``nu`` is a number or tensor >= 0, ``x`` >= 0.
    """
    nu, x, dtype = _arguments(nu, x=x)
    return ratio(nu, x, 0, validate_args).to(dtype)


def bessel_ratio_inverse(nu: Number, r: Number, *, validate_args: bool | None = None) -> Tensor:
    r"""The x with :math:`R_\nu(x) = r`, for 0 <= r <= 1; infinite at r = 1.

    With nu = p/2 - 1 this is the maximum-likelihood concentration of a mean resultant length.
    """
    nu, r, dtype = _arguments(nu, r=r)
    return _ratio_inverse(nu, r, validate_args).to(dtype)


def bessel_ratio_integral(
    nu: Number, lower: Number, upper: Number, *, validate_args: bool | None = None
) -> Tensor:
    r""":math:`\int_{lower}^{upper} R_\nu(x)\,dx = \phi_\nu(upper) - \phi_\nu(lower)`,
    with :math:`\phi_\nu(x) = \log I_\nu(x) - \nu\log x` (eq:score-integral).

    Right relative to its own size, however close the two bounds are.
    """
    (lower, upper), dtype = validation.tensors(lower=lower, upper=upper)
    nu = validation.order(nu, lower.dtype)
    return _ratio_integral(nu, lower, upper, validate_args).to(dtype)


def _arguments(nu: Number, **x: Number) -> tuple[Number, Tensor, torch.dtype]:
    if not isinstance(nu, Tensor):
        (value,), dtype = validation.tensors(**x)
        return validation.order(nu, value.dtype), value, dtype
    (nu, value), dtype = validation.tensors(nu=validation.order(nu), **x)
    return nu, value, dtype


def _validate(validate: bool | None, nu: Number, high: float = math.inf, **named: Tensor) -> None:
    if not validation.should_validate(validate, nu, *named.values()):
        return
    if isinstance(nu, Tensor):
        most = validation.largest_order(nu.dtype)
        validation.require_in_range("nu", nu, 0.0, rule=">= 0 and finite")
        validation.require_in_range("nu", nu, 0.0, most, rule=f"<= {most:g} in {nu.dtype}")
    for name, x in named.items():
        rule = ">= 0 and finite" if high == math.inf else f"between 0 and {high:g}"
        validation.require_in_range(name, x, validation.BELOW_ZERO, high, rule=rule)


def _bounded(x: Tensor, root: float) -> Tensor:
    """``x`` as far as its ``root``-th power is finite; beyond, the ratio rounds to one."""
    limit = torch.finfo(x.dtype).max ** (1 / root)
    return x.clamp(-limit, limit)


def _ratio_value(nu: Number, x: Tensor, derivative: int, validate: bool | None) -> Tensor:
    _validate(validate, nu, x=x)
    x = _bounded(x, 2.2)
    if derivative == 0:
        return x * inner_ratio(expansion(nu, x.dtype), x * x)
    slopes = ratio_slopes(nu, x)
    return slopes.first if derivative == 1 else x * slopes.second


def _ratio_partial(nu: Number, x: Tensor, derivative: int, _: bool | None) -> Tensor:
    _at_most_second(derivative + 1)
    return ratio(nu, x, derivative + 1, False)


# ratio(nu, x, n, validate): the n-th derivative of R_nu, n <= 2.
ratio = elementwise(_ratio_value, None, _ratio_partial, None, None)


def _inner_value(nu: float, y: Tensor, derivative: int) -> Tensor:
    return inner_ratio(expansion(nu, y.dtype), y, derivative)


def _inner_partial(nu: float, y: Tensor, derivative: int) -> Tensor:
    _at_most_second(derivative + 1)
    return inner(nu, y, derivative + 1) / 2


# inner(nu, y, n): the n-th power of 2 d/dy on R_nu(x)/x as a function of y = x^2, n <= 2.
inner = elementwise(_inner_value, None, _inner_partial, None)


def _at_most_second(derivative: int) -> None:
    if derivative > 2:
        raise ValueError(f"derivatives of R_nu go up to the second, got order {derivative}")


def _log_value(nu: Number, x: Tensor, validate: bool | None) -> Tensor:
    _validate(validate, nu, x=x)
    if not isinstance(nu, Tensor) and nu:
        return _log_sum(nu, x)
    # log I_0 begins as x^2/4, which a sum of larger terms has no digits of.
    small = (x.abs() <= 1) & (nu == 0)
    u = torch.where(small, x * x, 0.0)
    return torch.where(small, u * horner(log_i_zero(), u), _log_sum(nu, x))


def log_i_zero() -> tuple[float, ...]:
    """log I_0(x)/x^2 as a polynomial in x^2 on [0, 1], to the precision of float64."""
    return _log_i_zero()


@cache
def _log_i_zero() -> tuple[float, ...]:
    # I_0 is the sum of b_k x^2k, and its logarithm that of c_k x^2k: k b_k = sum_j j c_j b_{k-j}.
    b = [Fraction(1, 4**k * math.factorial(k) ** 2) for k in range(30)]
    c = [Fraction(0)]
    for k in range(1, len(b)):
        c.append(b[k] - sum((j * c[j] * b[k - j] for j in range(1, k)), c[0]) / k)
    return tuple(float(a) for a in economise(c[1:], 2.0**-60))


# As in `_debye`: a constant to torch.compile.
log_i_zero._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _log_sum(nu: Number, x: Tensor) -> Tensor:
    e = expansion(nu, x.dtype)
    a = e.order
    # Measure from the zero x0 of the leading part, so that nothing cancels near it.
    zero = torch.full((), ZERO, dtype=x.dtype, device=x.device)
    rest = ZERO_REST + (ZERO - float(torch.tensor(ZERO, dtype=x.dtype)))
    order = a if isinstance(a, Tensor) else torch.full_like(zero, a)
    x0, lost = two_product(order, zero)
    # Powers of x0/x are finite, as is the square of x.
    most = torch.finfo(x.dtype).max
    limit = (x0 * most ** (1 / (GROUP + 0.5))).clamp_max(most ** (1 / 2.2))
    bounded = x.clamp(-limit, limit)
    d = (bounded - x0) - (lost + order * rest)
    s0, y = order * COTH, bounded * bounded
    s = (y + a * a).sqrt()
    ds = d * ((bounded + x0) / (s + s0))
    total = ds - a * torch.log1p(ds / (a + s0)) - 0.5 * torch.log(2 * math.pi * s)
    total = total + horner(e.coefficients, a / s)
    near = d.abs() < 0.5 * x0
    log_ratio = torch.where(near, torch.log1p(torch.where(near, d / x0, 0.0)), 0.0)
    nu = nu if isinstance(nu, Tensor) else torch.full_like(zero, nu)
    # Below one no difference of logarithms cancels, and the quotient might underflow.
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


def _log_partial(nu: Number, x: Tensor, _: bool | None) -> Tensor:
    if isinstance(nu, Tensor):  # 0/x is zero also at x = 0
        return ratio(nu, x, 0, False) + nu / torch.where(nu == 0, 1.0, x)
    return ratio(nu, x, 0, False) + (nu / x if nu else 0.0)


_log_i = elementwise(_log_value, None, _log_partial, None)


def _integral_value(nu: Number, lower: Tensor, upper: Tensor, validate: bool | None) -> Tensor:
    _validate(validate, nu, lower=lower, upper=upper)
    return phi_step(nu, lower, upper)


_ratio_integral = elementwise(
    _integral_value,
    None,
    lambda nu, lower, upper, _: -ratio(nu, lower, 0, False),
    lambda nu, lower, upper, _: ratio(nu, upper, 0, False),
    None,
)


def _inverse_value(nu: Number, r: Tensor, validate: bool | None) -> Tensor:
    _validate(validate, nu, 1.0, r=r)
    p = 2 * nu + 2
    x = r * (p - r * r) / ((1 - r) * (1 + r))
    for _ in range(HALLEY_STEPS):
        x = _bounded(x, 2.2)
        at = ratio_slopes(nu, x)
        # Near one it is 1 - r that carries the digits.
        newton = torch.where(r < 0.5, x * at.r - r, (1 - r) - at.complement) / at.first
        bend = 0.5 * newton * x * at.second / at.first
        x = x - newton / (1 - bend.clamp(-0.5, 0.5))
    return torch.where(r >= 1, math.inf, x)


def _inverse_partial(nu: Number, r: Tensor, _: bool | None) -> Any:
    return 1 / ratio(nu, _ratio_inverse(nu, r, False), 1, False)


_ratio_inverse = elementwise(_inverse_value, None, _inverse_partial, None)
