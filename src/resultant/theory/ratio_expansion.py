r"""Expansion of the Bessel ratio in the inverse order, and its error.

:math:`R_\nu(\nu\lambda)=r_0+r_1/\nu+r_2/\nu^2+O(\nu^{-3})` (sec:joint-expansion).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.validation import Number

# The bound of lem:bessel-ratio-remainder is proved from this order on.
LEAST_ORDER = 10 / 9


class RatioTerms(NamedTuple):
    """Coefficients, and their derivatives in lambda, without a division by lambda."""

    r0: Tensor
    r1: Tensor
    r2: Tensor
    dr0: Tensor
    dr1: Tensor
    ddr0: Tensor
    r0_over: Tensor  # r0 / lambda
    r1_over: Tensor  # r1 / lambda
    shear: Tensor  # r0' / lambda - r0 / lambda^2


def ratio_terms(lam: Tensor) -> RatioTerms:
    r"""Compute the coefficients at :math:`\lambda=\kappa/\nu` >= 0."""
    # In w = 1/S and c = lambda/S, both at most one, no power overflows.
    w = 1 / torch.hypot(torch.ones_like(lam), lam)
    c = lam * w
    return RatioTerms(
        r0=c / (1 + w),
        r1=-c * w / 2,
        r2=c * w**2 * (4 * w**2 - c**2) / 8,
        dr0=w**2 / (1 + w),
        dr1=w**2 * (c**2 - w**2) / 2,
        ddr0=-c * w**3 * (2 + w) / (1 + w) ** 2,
        r0_over=w / (1 + w),
        r1_over=-(w**2) / 2,
        shear=-c * w**2 / (1 + w) ** 2,
    )


def ratio_approximation(nu: Number, x: Number, *, validate_args: bool | None = None) -> Tensor:
    r"""Approximate the Bessel ratio :math:`R_\nu(\nu\lambda)` by :math:`r_0+r_1/\nu+r_2/\nu^2`
    (eq:bessel-ratio-approx), to within `ratio_bound`.

    Args:
        nu, x: Order > 0 and argument >= 0.

    Returns:
        Approximations.

    Example:
        >>> ratio_approximation(63.0, 10.0), bessel_ratio(63.0, 10.0)
        (tensor(0.0777, dtype=torch.float64), tensor(0.0777, dtype=torch.float64))
    """
    (nu, x), dtype = validation.tensors(nu=validation.order(nu), x=x)
    if validation.should_validate(validate_args, nu, x):
        validation.require_in_range("nu", nu, 0.0, rule="> 0 and finite", open_low=True)
        validation.require_in_range("x", x, 0.0, rule=">= 0 and finite")
    s = torch.hypot(nu, x)
    c, w = x / s, nu / s
    return (c / (1 + w) - c / (2 * s) + c * (4 * w**2 - c**2) / (8 * s**2)).to(dtype)


def ratio_bound(nu: Number, *, validate_args: bool | None = None) -> Tensor:
    r"""Bound the error of `ratio_approximation` over all arguments by :math:`\nu^{-3}`
    (eq:bessel-ratio-bound).

    Args:
        nu: Order >= 10/9.

    Returns:
        Bounds.

    Example:
        >>> ratio_bound(10.0)
        tensor(0.0010, dtype=torch.float64)
    """
    (nu,), dtype = validation.tensors(nu=validation.order(nu))
    if validation.should_validate(validate_args, nu):
        # In a lower precision 10/9 may round downwards.
        least = float(torch.tensor(LEAST_ORDER, dtype=dtype))
        validation.require_in_range("nu", nu, min(least, LEAST_ORDER), rule=">= 10/9 and finite")
    return (nu**-3).to(dtype)
