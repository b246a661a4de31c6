r"""The normaliser, the mean resultant length, and estimators of the concentration.

The public functions validate their arguments; `log_normalizer_at`, `mean_resultant_at` and
`concentration_at` compute on tensors without validation.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.validation import COMPUTE_DTYPE, Number
from resultant.special.bessel import ratio, ratio_integral, ratio_inverse

ESTIMATORS = ("mle", "proco", "banerjee")


def log_normalizer(p: int, kappa: Number, *, validate_args: bool | None = None) -> Tensor:
    r"""The logarithm of the normaliser :math:`Z_p(\kappa)` of a vMF distribution.

    This is the log area of the sphere plus :math:`\int_0^\kappa R_\nu(x)\,dx`, :math:`\nu=p/2-1`
    (eq:score-integral).

    Args:
        p: Dimension >= 2.
        kappa: Concentration >= 0, a number or a tensor.
        validate_args: Check the values; by default on the CPU only.

    Returns:
        A tensor of the shape of ``kappa``.

    Raises:
        ValueError: If an argument is out of range or has another type.

    Example:
        >>> from resultant import log_normalizer
        >>> round(float(log_normalizer(3, 2.0)), 6)  # log(4 pi sinh(x)/x) at x = 2
        3.126244
    """
    p, kappa, dtype = _arguments(p, validate_args, math.inf, kappa=kappa)
    return log_normalizer_at(p, kappa).to(dtype)


def mean_resultant(p: int, kappa: Number, *, validate_args: bool | None = None) -> Tensor:
    r"""The mean resultant length :math:`A_p(\kappa) = R_{p/2-1}(\kappa)` of a vMF distribution.

    Args:
        p: Dimension >= 2.
        kappa: Concentration >= 0, a number or a tensor.
        validate_args: Check the values; by default on the CPU only.

    Returns:
        A tensor of the shape of ``kappa``, in [0, 1).

    Raises:
        ValueError: If an argument is out of range or has another type.

    Example:
        >>> from resultant import mean_resultant
        >>> round(float(mean_resultant(3, 2.0)), 6)  # coth(x) - 1/x at x = 2
        0.537315
    """
    p, kappa, dtype = _arguments(p, validate_args, math.inf, kappa=kappa)
    return mean_resultant_at(p, kappa).to(dtype)


def concentration(
    p: int, R: Number, estimator: str = "mle", *, validate_args: bool | None = None
) -> Tensor:
    r"""Estimate the concentration from a mean resultant length.

    Args:
        p: Dimension >= 2.
        R: Mean resultant length in [0, 1], a number or a tensor.
        estimator: ``"mle"`` solves :math:`A_p(\kappa) = R`; ``"proco"`` is :math:`pR/(1-R^2)`;
            ``"banerjee"`` is :math:`R(p-R^2)/(1-R^2)` (Banerjee et al. 2005).
        validate_args: Check the values; by default on the CPU only.

    Returns:
        A tensor of the shape of ``R``; infinite at R = 1.

    Raises:
        ValueError: If an argument is out of range or has another type.

    Example:
        >>> from resultant import concentration
        >>> round(float(concentration(8, 0.5, "proco")), 6)  # 8 * 0.5 / (1 - 0.5**2)
        5.333333
    """
    p, R, dtype = _arguments(p, validate_args, 1.0, R=R)
    return concentration_at(p, R, estimator).to(dtype)


def log_normalizer_at(p: int, kappa: Tensor) -> Tensor:
    """Compute `log_normalizer`."""
    return log_area(p) + ratio_integral(p / 2 - 1, kappa.new_zeros(()), kappa)


def mean_resultant_at(p: int, kappa: Tensor) -> Tensor:
    """Compute `mean_resultant`, of half precision in float32."""
    return ratio(p / 2 - 1, kappa.to(COMPUTE_DTYPE[kappa.dtype]), 0).to(kappa.dtype)


def concentration_at(p: int, R: Tensor, estimator: str) -> Tensor:
    """Compute `concentration`; only the name of the estimator is checked."""
    if estimator not in ESTIMATORS:
        raise ValueError(f"expected estimator to be one of {ESTIMATORS}, got {estimator!r}")
    if estimator == "mle":
        return ratio_inverse(p / 2 - 1, R)
    numerator = p * R if estimator == "proco" else R * (p - R * R)
    return numerator / ((1 - R) * (1 + R))


def log_area(p: int) -> float:
    """The logarithm of the area of the unit sphere in dimension p."""
    return math.log(2) + p / 2 * math.log(math.pi) - math.lgamma(p / 2)


def _arguments(
    p: int, validate: bool | None, high: float, **named: Number
) -> tuple[int, Tensor, torch.dtype]:
    (x,), dtype = validation.tensors(**named)
    p = validation.dimension(p, x.dtype)
    if validation.should_validate(validate, x):
        (name,) = named
        rule = ">= 0 and finite" if high == math.inf else f"between 0 and {high:g}"
        validation.require_in_range(name, x, validation.BELOW_ZERO, high, rule=rule)
    return p, x, dtype
