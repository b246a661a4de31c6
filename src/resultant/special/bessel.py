r"""Modified Bessel functions of any real order: :math:`\log I_\nu`, the ratio, and its inverse.

All carry first and second derivatives in every argument except the order, a number or a tensor
without gradient, which is at most 1e30, in float32 1e11.
"""

import math

from torch import Tensor

from resultant._core import validation
from resultant._core.autograd import Function
from resultant._core.limits import limits
from resultant._core.validation import Number, as_dtype
from resultant.special import ratio


def log_bessel_i(nu: Number, x: Number, *, validate_args: bool | None = None) -> Tensor:
    r"""The logarithm of the modified Bessel function of the first kind, :math:`\log I_\nu(x)`.

    The error is at most 1e-14 (5e-6 in float32) relative to max(1, :math:`|\log I_\nu(x)|`), for
    orders in a tensor 3e-14 (5e-6), and at nu = 0 at most 3e-14 (5e-6) relative to
    :math:`|\log I_0(x)|`.

    Args:
        nu, x: Order and argument >= 0.

    Returns:
        A tensor of the broadcast shape; :math:`-\infty` at x = 0 unless nu = 0.

    Example:
        >>> round(float(log_bessel_i(0.5, 2.0)), 6)  # log(sqrt(2/(pi x)) sinh x) at x = 2
        0.716002
    """
    return evaluate(ratio.log_i, nu, validate_args, x=x)


def log_bessel_ie(nu: Number, x: Number, *, validate_args: bool | None = None) -> Tensor:
    r"""The logarithm of the scaled Bessel function, :math:`\log(e^{-x} I_\nu(x))`, never above 0.

    Neither factor is formed. The error is at most 1e-14 (5e-6 in float32) relative to
    max(1, :math:`|\log(e^{-x} I_\nu(x))|`).

    Args:
        nu, x: Order and argument >= 0.

    Returns:
        A tensor of the broadcast shape; :math:`-\infty` at x = 0 unless nu = 0.

    Example:
        >>> round(float(log_bessel_ie(0.5, 1e9)), 6)  # log(1/(2 pi x))/2 at a large x
        -11.280571
    """
    return evaluate(ratio.log_ie, nu, validate_args, x=x)


def bessel_ratio(nu: Number, x: Number, *, validate_args: bool | None = None) -> Tensor:
    r"""The ratio :math:`R_\nu(x) = I_{\nu+1}(x)/I_\nu(x)` in [0, 1) (prop:bregman-view).

    The mean resultant length of a vMF distribution is :math:`A_p(\kappa) = R_{p/2-1}(\kappa)`. At
    orders that are multiples of 1/2 the error is half a unit in the last place, without the
    compiled kernel and below order 24 at most 2.9e-16 (1.3e-7 in float32).

    Args:
        nu, x: Order and argument >= 0.

    Returns:
        A tensor of the broadcast shape.

    Example:
        >>> round(float(bessel_ratio(0.5, 2.0)), 6)  # coth(x) - 1/x at x = 2
        0.537315
    """
    return evaluate(ratio.ratio, nu, validate_args, x=x)


def bessel_ratio_inverse(
    nu: Number,
    r: Number | None = None,
    *,
    complement: Number | None = None,
    validate_args: bool | None = None,
) -> Tensor:
    r"""The x with :math:`R_\nu(x) = r`.

    With nu = p/2 - 1 this is the maximum-likelihood concentration of a mean resultant length. Near
    one the digits of r are in 1 - r: pass the ``complement`` where it is known on its own.

    Args:
        nu: Order >= 0.
        r: Ratio in [0, 1].
        complement: Complement 1 - r in [0, 1] in place of ``r``.

    Returns:
        A tensor of the broadcast shape; infinite at r = 1.

    Example:
        >>> round(float(bessel_ratio_inverse(0.5, bessel_ratio(0.5, 2.0))), 6)
        2.0
        >>> round(float(bessel_ratio_inverse(0.5, complement=1e-20)) / 1e20, 6)  # 1/(1 - r)
        1.0
    """
    if r is not None and complement is None:
        return evaluate(ratio.ratio_inverse, nu, validate_args, 1.0, r=r)
    if complement is None or r is not None:
        got = "neither" if r is None else "both"
        raise ValueError(f"expected one of r and complement, got {got}")
    return evaluate(ratio.complement_inverse, nu, validate_args, 1.0, complement=complement)


def bessel_ratio_integral(
    nu: Number, lower: Number, upper: Number, *, validate_args: bool | None = None
) -> Tensor:
    r"""The integral :math:`\int_{lower}^{upper} R_\nu(x)\,dx` (eq:score-integral).

    The error of this difference of :math:`\log I_\nu(x) - \nu\log x` is relative to its own size,
    however close the bounds are.

    Args:
        nu: Order >= 0.
        lower, upper: Bounds >= 0; ``upper`` may be below ``lower``.

    Returns:
        A tensor of the broadcast shape.

    Example:
        >>> round(float(bessel_ratio_integral(0.5, 1.0, 2.0)), 6)  # log(sinh(2)/2) - log(sinh(1))
        0.433781
    """
    return evaluate(ratio.ratio_integral, nu, validate_args, lower=lower, upper=upper)


def evaluate(
    function: Function, nu: Number, validate: bool | None, high: float = math.inf, **named: Number
) -> Tensor:
    """Validate the order and the arguments, each in [0, high], and call the function of `ratio`."""
    nu = validation.order(nu)
    orders = {"nu": nu} if isinstance(nu, Tensor) else {}
    values, dtype = validation.tensors(**orders, **named)
    compute = values[0].dtype
    nu = values.pop(0) if orders else nu
    most = limits(compute).order
    if not orders or validation.should_validate(validate, nu, *values):
        validation.require_within("nu", nu, 0.0, most, ">= 0 and finite", compute)
    if validation.should_validate(validate, *values):
        rule = ">= 0 and finite" if high == math.inf else f"between 0 and {high:g}"
        for name, a in zip(named, values, strict=True):
            validation.require_in_range(name, a, 0.0, high, rule=rule)
    return as_dtype(function(nu, *values), dtype)
