r"""Modified Bessel functions of any real order: :math:`\log I_\nu`, the ratio, and its inverse.

The ratio :math:`R_\nu(x) = I_{\nu+1}(x)/I_\nu(x)` is the mean resultant length of a von
Mises-Fisher distribution in dimension :math:`p = 2\nu+2`. One method serves all arguments: the
log-Debye expansion at a sufficiently large order, and for a smaller order the recurrence
:math:`r_{j-1} = 1/(2j + x^2 r_j)` of :math:`r_\nu = R_\nu(x)/x`, which is stable downwards. No
formula is exchanged for another along x, so the functions have no seam. Only derivatives and
integrals at x far above a small order avoid the recurrence, which would lose their digits.

All functions take tensors or numbers, broadcast, keep dtype and device (bfloat16 and float16 are
computed in float32), and carry first and second derivatives in every argument except the order,
which is at most 1e30, in float32 1e11. The public functions validate their arguments; `ratio`,
`log_i`, `ratio_inverse`, `ratio_integral` and `inner` compute on tensors of one dtype without
validation.
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
# c = coth(c) and ZERO = 1/sinh(COTH); ZERO_REST is the rounding error of ZERO in float64.
COTH = 1.1996786402577337
ZERO = 0.6627434193491816
ZERO_REST = 8.155323790501267e-18

# Halley steps from the start of Banerjee et al. (2005) to full precision; 2 suffice from p = 3 on.
HALLEY_STEPS = 3


def log_bessel_i(nu: Number, x: Number, *, validate_args: bool | None = None) -> Tensor:
    r"""The logarithm of the modified Bessel function of the first kind, :math:`\log I_\nu(x)`.

    The error is at most 1e-14 (5e-6 in float32) relative to max(1, :math:`|\log I_\nu(x)|`), and at
    nu = 0 at most 2e-14 (5e-6) relative to :math:`|\log I_0(x)|`.

    Args:
        nu: Order >= 0, a number or a tensor without gradient that broadcasts with ``x``.
        x: Argument >= 0, a number or a tensor.
        validate_args: Check the values; by default on the CPU only.

    Returns:
        A tensor of the broadcast shape; :math:`-\infty` at x = 0 unless nu = 0.

    Raises:
        ValueError: If an argument is out of range or has another type.

    Example:
        >>> from resultant import log_bessel_i
        >>> round(float(log_bessel_i(0.5, 2.0)), 6)  # log(sqrt(2/(pi x)) sinh x) at x = 2
        0.716002
    """
    nu, x, dtype = _arguments(nu, x=x)
    _validate(validate_args, nu, x=x)
    return log_i(nu, x).to(dtype)


def bessel_ratio(nu: Number, x: Number, *, validate_args: bool | None = None) -> Tensor:
    r"""The ratio :math:`R_\nu(x) = I_{\nu+1}(x)/I_\nu(x)` in [0, 1) (prop:bregman-view).

    The mean resultant length of a vMF distribution is :math:`A_p(\kappa) = R_{p/2-1}(\kappa)`.

    Args:
        nu: Order >= 0, a number or a tensor without gradient that broadcasts with ``x``.
        x: Argument >= 0, a number or a tensor.
        validate_args: Check the values; by default on the CPU only.

    Returns:
        A tensor of the broadcast shape.

    Raises:
        ValueError: If an argument is out of range or has another type.

    Example:
        >>> from resultant import bessel_ratio
        >>> round(float(bessel_ratio(0.5, 2.0)), 6)  # coth(x) - 1/x at x = 2
        0.537315
    """
    nu, x, dtype = _arguments(nu, x=x)
    _validate(validate_args, nu, x=x)
    return ratio(nu, x, 0).to(dtype)


def bessel_ratio_inverse(nu: Number, r: Number, *, validate_args: bool | None = None) -> Tensor:
    r"""The x with :math:`R_\nu(x) = r`.

    With nu = p/2 - 1 this is the maximum-likelihood concentration of a mean resultant length.

    Args:
        nu: Order >= 0, a number or a tensor without gradient that broadcasts with ``r``.
        r: Ratio in [0, 1], a number or a tensor.
        validate_args: Check the values; by default on the CPU only.

    Returns:
        A tensor of the broadcast shape; infinite at r = 1.

    Raises:
        ValueError: If an argument is out of range or has another type.

    Example:
        >>> from resultant import bessel_ratio, bessel_ratio_inverse
        >>> round(float(bessel_ratio_inverse(0.5, bessel_ratio(0.5, 2.0))), 6)
        2.0
    """
    nu, r, dtype = _arguments(nu, r=r)
    _validate(validate_args, nu, 1.0, r=r)
    return ratio_inverse(nu, r).to(dtype)


def bessel_ratio_integral(
    nu: Number, lower: Number, upper: Number, *, validate_args: bool | None = None
) -> Tensor:
    r"""The integral :math:`\int_{lower}^{upper} R_\nu(x)\,dx` (eq:score-integral).

    The integral is :math:`\phi_\nu(upper) - \phi_\nu(lower)` with
    :math:`\phi_\nu(x) = \log I_\nu(x) - \nu\log x`. Its error is relative to its own size, however
    close the bounds are.

    Args:
        nu: Order >= 0, a number or a tensor without gradient.
        lower: Lower bound >= 0, a number or a tensor.
        upper: Upper bound >= 0, a number or a tensor; may be below ``lower``.
        validate_args: Check the values; by default on the CPU only.

    Returns:
        A tensor of the broadcast shape.

    Raises:
        ValueError: If an argument is out of range or has another type.

    Example:
        >>> from resultant import bessel_ratio_integral
        >>> round(float(bessel_ratio_integral(0.5, 1.0, 2.0)), 6)  # log(sinh(2)/2) - log(sinh(1))
        0.433781
    """
    (lower, upper), dtype = validation.tensors(lower=lower, upper=upper)
    nu = validation.order(nu, lower.dtype)
    _validate(validate_args, nu, lower=lower, upper=upper)
    return ratio_integral(nu, lower, upper).to(dtype)


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
    """Clamp ``x`` to where its ``root``-th power is finite; beyond, the ratio rounds to one."""
    limit = torch.finfo(x.dtype).max ** (1 / root)
    return x.clamp(-limit, limit)


def _ratio_value(nu: Number, x: Tensor, derivative: int) -> Tensor:
    x = _bounded(x, 2.2)
    if derivative == 0:
        return x * inner_ratio(expansion(nu, x.dtype), x * x)
    slopes = ratio_slopes(nu, x)
    return slopes.first if derivative == 1 else x * slopes.second


def _ratio_partial(nu: Number, x: Tensor, derivative: int) -> Tensor:
    _at_most_second(derivative + 1)
    return ratio(nu, x, derivative + 1)


# ratio(nu, x, n): the n-th derivative of R_nu, n <= 2.
ratio = elementwise(_ratio_value, None, _ratio_partial, None)


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


def _log_value(nu: Number, x: Tensor) -> Tensor:
    if not isinstance(nu, Tensor) and nu:
        return _log_sum(nu, x)
    # log I_0 begins as x^2/4, which is lost in a sum of larger terms.
    small = (x.abs() <= 1) & (nu == 0)
    u = torch.where(small, x * x, 0.0)
    return torch.where(small, u * horner(log_i_zero(), u), _log_sum(nu, x))


def log_i_zero() -> tuple[float, ...]:
    """Return log I_0(x)/x^2 as a polynomial in x^2 on [0, 1], to the precision of float64."""
    return _log_i_zero()


@cache
def _log_i_zero() -> tuple[float, ...]:
    # I_0 is the sum of b_k x^2k, and its logarithm that of c_k x^2k: k b_k = sum_j j c_j b_{k-j}.
    b = [Fraction(1, 4**k * math.factorial(k) ** 2) for k in range(30)]
    c = [Fraction(0)]
    for k in range(1, len(b)):
        c.append(b[k] - sum((j * c[j] * b[k - j] for j in range(1, k)), c[0]) / k)
    return tuple(float(a) for a in economise(c[1:], 2.0**-60))


# As in `debye`: a constant to torch.compile.
log_i_zero._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _log_sum(nu: Number, x: Tensor) -> Tensor:
    e = expansion(nu, x.dtype)
    a = e.order
    # Measure from the zero x0 of the leading part, so that nothing cancels near it.
    zero = torch.full((), ZERO, dtype=x.dtype, device=x.device)
    rest = ZERO_REST + (ZERO - float(torch.tensor(ZERO, dtype=x.dtype)))
    order = a if isinstance(a, Tensor) else torch.full_like(zero, a)
    x0, lost = two_product(order, zero)
    # Clamp x such that powers of x0/x and the square of x are finite.
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


def _log_partial(nu: Number, x: Tensor) -> Tensor:
    if isinstance(nu, Tensor):  # 0/x counts as zero also at x = 0
        return ratio(nu, x, 0) + nu / torch.where(nu == 0, 1.0, x)
    return ratio(nu, x, 0) + (nu / x if nu else 0.0)


# log_i(nu, x): log I_nu(x).
log_i = elementwise(_log_value, None, _log_partial)


# ratio_integral(nu, lower, upper): the integral of R_nu.
ratio_integral = elementwise(
    phi_step,
    None,
    lambda nu, lower, upper: -ratio(nu, lower, 0),
    lambda nu, lower, upper: ratio(nu, upper, 0),
)


def _inverse_value(nu: Number, r: Tensor) -> Tensor:
    p = 2 * nu + 2
    x = r * (p - r * r) / ((1 - r) * (1 + r))
    for _ in range(HALLEY_STEPS):
        x = _bounded(x, 2.2)
        at = ratio_slopes(nu, x)
        # Near one the digits are in 1 - r.
        newton = torch.where(r < 0.5, x * at.r - r, (1 - r) - at.complement) / at.first
        bend = 0.5 * newton * x * at.second / at.first
        x = x - newton / (1 - bend.clamp(-0.5, 0.5))
    return torch.where(r >= 1, math.inf, x)


def _inverse_partial(nu: Number, r: Tensor) -> Any:
    return 1 / ratio(nu, ratio_inverse(nu, r), 1)


# ratio_inverse(nu, r): the x with R_nu(x) = r.
ratio_inverse = elementwise(_inverse_value, None, _inverse_partial)
