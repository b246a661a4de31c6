r"""Bounds of the parts of a score, and its two limits in the temperature, with constants.

All follow from :math:`h(x)=R_\nu(x)/x`, for which :math:`1/h(x)=p+xR_{\nu+1}(x)`, and from
:math:`0<(xR_{\nu+1}(x))'<1`; the page on bounds has the proofs. Bounds are enlarged by 64 roundings
of the dtype, more than the error of their evaluation.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from resultant.score._backends import Tilt
from resultant.score._derivatives import Tilted
from resultant.score.limits import validated_arguments
from resultant.special.debye import Number
from resultant.special.ratio import complement, complement_integral, inner, ratio

# Roundings by which bounds are enlarged.
ROUNDINGS = 64


class DecompositionBounds(NamedTuple):
    r"""Bounds of the parts of `decompose`: :math:`0\le q(0)\le` ``intercept``, :math:`|r(\rho)|\le`
    ``remainder`` and :math:`|r'(\rho)|\le` ``slope``.

    Args:
        intercept: Bounds of the intercept, in the shape of kappa and tau.
        remainder: Bounds of the remainder.
        slope: Bounds of the slope of the remainder.

    Example:
        >>> decomposition_bounds(0.5, 10.0, 0.1, 128).intercept
        tensor(0.3883, dtype=torch.float64)
    """

    intercept: Tensor
    remainder: Tensor
    slope: Tensor


class ScoreLimit(NamedTuple):
    r"""A limit of the score in the temperature, such as :math:`A\rho`, and bounds of the distance
    from it at a finite temperature.

    Args:
        value: Limit.
        low, high: Lower and upper bound of what has the limit, minus the limit.

    Example:
        >>> mean_limit(0.5, 10.0, 100.0, 128).value
        tensor(0.0388, dtype=torch.float64)
    """

    value: Tensor
    low: Tensor
    high: Tensor


def decomposition_bounds(
    rho: Number, kappa: Number, tau: Number, p: int, *, validate_args: bool | None = None
) -> DecompositionBounds:
    r"""Bound intercept, remainder and slope of the remainder of `decompose` by constants.

    With t = 1/tau, :math:`h(x)=R_\nu(x)/x\le1/p` and the tilted concentration
    :math:`\tilde\kappa(\rho)`, for every p >= 2, kappa >= 0 and cosine,

    .. math:: 0\le q(0)\le\tfrac12t^2h(\kappa),\quad
        |r'(\rho)|\le t^2A\,h(\tilde\kappa(\rho)),\quad
        |r(\rho)|\le t^2A|\rho|\,h(\tilde\kappa(\min\{\rho,0\})),

    which are at most :math:`t^2/(2p)`, :math:`t^2A/p` and :math:`t^2A|\rho|/p`: constants in place
    of the order 1/nu of thm:centered-gain.

    Args:
        rho, kappa, tau, p: As for `vmf_score`.

    Returns:
        Bounds in the broadcast shapes of the parts.

    Example:
        >>> bounds = decomposition_bounds(0.5, 10.0, 0.1, 128)
        >>> decompose(0.5, 10.0, 0.1, 128).remainder, bounds.remainder
        (tensor(-0.0034, dtype=torch.float64), tensor(0.0300, dtype=torch.float64))
    """
    (rho, kappa, tau), p, dtype = validated_arguments(rho, kappa, tau, p, validate_args)
    nu, tilt = p / 2 - 1, Tilt(rho, kappa, tau)
    first = tilt.t_squared * ratio(nu, kappa)
    lowest = Tilt(tilt.rho.clamp_max(0), kappa, tau).y1
    parts = (
        0.5 * tilt.t_squared * inner(nu, tilt.y0),
        first * tilt.rho.abs() * inner(nu, lowest),
        first * inner(nu, tilt.y1),
    )
    return DecompositionBounds(*(_enlarged(a).to(dtype) for a in parts))


def mean_limit(
    rho: Number, kappa: Number, tau: Number, p: int, *, validate_args: bool | None = None
) -> ScoreLimit:
    r"""Compute the limit of :math:`\tau q` for large tau, the inner product :math:`A\rho` with the
    class mean, and bounds at a finite tau:

    .. math:: 0\le\tau q(\rho)-A\rho\le\frac{h(\kappa_0)}{2\tau}\le\frac1{2p\tau},

    where :math:`\kappa_0` is the smallest norm of :math:`\kappa\mu+sz` for s from 0 to 1/tau. At a
    large temperature the exact score orders classes by the inner products of a query with their
    means, which are not normalized.

    Args:
        rho, kappa, tau, p: As for `vmf_score`.

    Returns:
        Limits, and bounds of :math:`\tau q-A\rho`.

    Example:
        >>> value, low, high = mean_limit(0.5, 10.0, 2.0, 128)
        >>> 2.0 * vmf_score(0.5, 10.0, 2.0, 128) - value, high
        (tensor(0.0019, dtype=torch.float64), tensor(0.0019, dtype=torch.float64))
    """
    (rho, kappa, tau), p, dtype = validated_arguments(rho, kappa, tau, p, validate_args)
    nu, tilt = p / 2 - 1, Tilted(rho, kappa, tau, p)
    # The path is closest to zero at s = -kappa rho, where it is orthogonal to z, if it goes there.
    inside = torch.where(tilt.rho < 0, tilt.y0 * tilt.sine, tilt.y0)
    least = torch.where(tilt.towards > 0, inside, tilt.y1)
    high = _enlarged(0.5 * tilt.t * inner(nu, least))
    value = ratio(nu, kappa) * tilt.rho
    return ScoreLimit(value.to(dtype), torch.zeros_like(high).to(dtype), high.to(dtype))


def likelihood_limit(
    rho: Number, kappa: Number, tau: Number, p: int, *, validate_args: bool | None = None
) -> ScoreLimit:
    r"""Compute the limit of the score for small tau, the log density of the class relative to the
    uniform one, and bounds at a finite tau. With t = 1/tau,

    .. math:: q(\rho)-\int_0^tR_\nu(x)\,dx\;\to\;\kappa\rho-\int_0^\kappa R_\nu(x)\,dx
        =\log\frac{f(z)}{f_0},

    and the integral on the left is the same for all classes: differences of scores tend to log
    likelihood ratios, so that a small temperature decides as Bayes' rule does. The distance is
    between :math:`dR_\nu(t)-\kappa\rho` and :math:`dR_\nu(\tilde\kappa)-\kappa\rho`,
    :math:`d=\tilde\kappa-t`, and for p >= 3 and t > kappa at most
    :math:`\kappa(\kappa+p-1)/(2(t-\kappa))`.

    Args:
        rho, kappa, tau, p: As for `vmf_score`.

    Returns:
        Limits, and bounds of :math:`q-\int_0^tR_\nu(x)\,dx` minus the limit.

    Example:
        >>> value, low, high = likelihood_limit(0.5, 10.0, 1e-4, 128)
        >>> q = vmf_score(0.5, 10.0, 1e-4, 128) - bessel_ratio_integral(63.0, 0.0, 1e4)
        >>> low <= q - value, q - value <= high
        (tensor(True), tensor(True))
    """
    (rho, kappa, tau), p, dtype = validated_arguments(rho, kappa, tau, p, validate_args)
    nu, tilt = p / 2 - 1, Tilted(rho, kappa, tau, p)
    # d - kappa rho >= 0: how far the length of the tilted vector exceeds its projection on z.
    x1, along = tilt.y1.sqrt(), tilt.towards
    quotient = tilt.y0 * tilt.sine / (x1 + along.abs()).clamp_min(torch.finfo(x1.dtype).tiny)
    excess = torch.where(along >= 0, quotient, x1 - along)
    d = excess + kappa * tilt.rho
    low, high = (excess - d * complement(nu, x) for x in (tilt.t + 0 * d, x1))
    room = ROUNDINGS * torch.finfo(x1.dtype).eps * (excess + d.abs())
    value = complement_integral(nu, kappa) - kappa * (1 - tilt.rho)
    return ScoreLimit(value.to(dtype), (low - room).to(dtype), (high + room).to(dtype))


def _enlarged(bound: Tensor) -> Tensor:
    return bound * (1 + ROUNDINGS * torch.finfo(bound.dtype).eps)
