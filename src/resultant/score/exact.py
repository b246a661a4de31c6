r"""The exact probabilistic score of ProCo, its slope, feature gradients and decomposition.

For a class :math:`X \sim \mathrm{vMF}(\mu,\kappa)` on the unit sphere in dimension p, a query z
with :math:`\rho=\mu^\top z` and :math:`t=1/\tau`,

.. math::
    q(\rho;\kappa,\tau,p) = \log\mathbb E\exp(t z^\top X)
        = \phi_\nu(\tilde\kappa) - \phi_\nu(\kappa), \qquad
    \tilde\kappa^2 = \kappa^2 + 2\kappa t\rho + t^2, \quad \nu = p/2-1

(eq:main-exact). The error of q is relative to its own size; where q passes zero, to that of
:math:`\rho\,\partial_\rho q`. All functions are differentiable in rho, kappa and tau. An error of
the cosine, up to 1e-3 in a product with TF32 or bfloat16, is multiplied by the slope.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.validation import as_dtype
from resultant.score._backends import Tilt
from resultant.score._derivatives import remainder, score, score_and_slope, slope
from resultant.score.limits import validated_arguments
from resultant.special.debye import Number
from resultant.special.ratio import inner, ratio


class Decomposition(NamedTuple):
    """Parts of a score, ``q(rho) = intercept + gain * rho + remainder`` (eq:main-decomposition).

    Args:
        intercept: Score at rho = 0.
        gain: Angular gain.
        remainder: Rest, zero at rho = 0.

    Example:
        >>> decompose(0.5, 10.0, 0.1, 128).gain
        tensor(0.7766, dtype=torch.float64)
    """

    intercept: Tensor
    gain: Tensor
    remainder: Tensor


def vmf_score(
    rho: Number, kappa: Number, tau: Number, p: int, *, validate_args: bool | None = None
) -> Tensor:
    r"""Compute the exact score :math:`q=\log\mathbb E\exp(z^\top X/\tau)` (eq:main-exact).

    The difference of two scores has an error of up to :math:`12\epsilon/\tau`: compare scores at
    tau >= 7.6e-6 in float32 and 1.4e-14 in float64, as `class_scores` does. The error of a first or
    second derivative is at most 64 eps of the derivative and of its change under a change of rho,
    kappa and tau by their own sizes; at rho = -1 and kappa near 1/tau this change is large. Second
    derivatives hold up to kappa = 1e12 in float32 and 1e100 in float64. Results below the smallest
    normal number of the dtype are lost; second derivatives below this number over eps lose digits.

    Args:
        rho: Cosine in [-1, 1]; rounding beyond is clamped.
        kappa: Concentration >= 0, up to 1e18 in float32 and 1e150 in float64.
        tau: Temperature, from 1e-8 to 1e30 in float32 and from 1e-16 to 1e150 in float64.
        p: Dimension >= 2, up to 1e11 in float32 and 1e30 in float64.

    Returns:
        Scores in the broadcast shape of rho, kappa and tau.

    Example:
        >>> vmf_score(0.5, 10.0, 0.1, 128)
        tensor(0.7721, dtype=torch.float64)
    """
    arguments, p, dtype = validated_arguments(rho, kappa, tau, p, validate_args)
    return as_dtype(score(*arguments, p), dtype)


def vmf_score_slope(
    rho: Number, kappa: Number, tau: Number, p: int, *, validate_args: bool | None = None
) -> Tensor:
    r"""Compute the slope of the score in the cosine (eq:exact-rho-derivative).

    The slope is :math:`\partial_\rho q=\kappa t\,R_\nu(\tilde\kappa)/\tilde\kappa`.

    Args:
        rho, kappa, tau, p: As for `vmf_score`.

    Returns:
        Slopes in the broadcast shape of rho, kappa and tau.

    Example:
        >>> vmf_score_slope(0.5, 10.0, 0.1, 128)
        tensor(0.7676, dtype=torch.float64)
    """
    arguments, p, dtype = validated_arguments(rho, kappa, tau, p, validate_args)
    return as_dtype(slope(*arguments, p), dtype)


def vmf_score_and_slope(
    rho: Number, kappa: Number, tau: Number, p: int, *, validate_args: bool | None = None
) -> tuple[Tensor, Tensor]:
    """Compute `vmf_score` and `vmf_score_slope` together, at little more than the cost of one.

    Args:
        rho, kappa, tau, p: As for `vmf_score`.

    Returns:
        Scores and slopes, both in the broadcast shape of rho, kappa and tau.

    Example:
        >>> vmf_score_and_slope(0.5, 10.0, 0.1, 128)
        (tensor(0.7721, dtype=torch.float64), tensor(0.7676, dtype=torch.float64))
    """
    arguments, p, dtype = validated_arguments(rho, kappa, tau, p, validate_args)
    q, slopes = score_and_slope(*arguments, p)
    return as_dtype(q, dtype), as_dtype(slopes, dtype)


def decompose(
    rho: Number, kappa: Number, tau: Number, p: int, *, validate_args: bool | None = None
) -> Decomposition:
    r"""Split the score into intercept, angular gain and remainder (thm:centered-gain).

    :math:`q(\rho)=h+g\rho+r(\rho)` with :math:`h=q(0)`, :math:`g=A/\tau` and r(0) = 0
    (eq:main-decomposition). The remainder is computed without cancellation, and bounded by
    `decomposition_bounds`.

    Args:
        rho, kappa, tau, p: As for `vmf_score`.

    Returns:
        Intercept and gain in the broadcast shape of kappa and tau, and the remainder in that of
        rho, kappa and tau.

    Example:
        >>> h, g, r = decompose(0.5, 10.0, 0.1, 128)
        >>> h + g * 0.5 + r, vmf_score(0.5, 10.0, 0.1, 128)
        (tensor(0.7721, dtype=torch.float64), tensor(0.7721, dtype=torch.float64))
    """
    (rho, kappa, tau), p, dtype = validated_arguments(rho, kappa, tau, p, validate_args)
    intercept = score(torch.zeros_like(kappa), kappa, tau, p)
    gain = ratio(p / 2 - 1, kappa) / tau
    rest = remainder(rho, kappa, tau, p)
    return Decomposition(intercept.to(dtype), gain.to(dtype), rest.to(dtype))


def ambient_gradient(
    z: Tensor, mu: Tensor, kappa: Number, tau: Number, *, validate_args: bool | None = None
) -> Tensor:
    r"""Compute the feature gradient of the score (eq:exact-vector-gradient).

    The gradient is :math:`\nabla_z q = t R_\nu(\tilde\kappa)(\kappa\mu+tz)/\tilde\kappa`.

    Args:
        z, mu: Unit vectors [..., p], which broadcast.
        kappa, tau: Concentration >= 0 and temperature > 0, numbers or [...].

    Returns:
        Gradients [..., p].

    Example:
        >>> ambient_gradient(torch.tensor([0.6, 0.8]), torch.tensor([1.0, 0.0]), 2.0, 0.5)
        tensor([1.5117, 0.7558])
    """
    (z, mu, rho, kappa, tau), p, dtype = _directions(z, mu, kappa, tau, validate_args)
    along = slope(rho, kappa, tau, p)
    # t r1 kappa is the slope; t^2 r1 needs r1 where kappa = 0.
    t = 1 / tau
    rest = t * t * inner(p / 2 - 1, Tilt(rho, kappa, tau).y1)
    return (along.unsqueeze(-1) * mu + rest.unsqueeze(-1) * z).to(dtype)


def tangent_gradient(
    z: Tensor, mu: Tensor, kappa: Number, tau: Number, *, validate_args: bool | None = None
) -> Tensor:
    r"""Compute the gradient of the score on the sphere (eq:exact-class-gradient, projected).

    The gradient is :math:`\Pi_z\nabla_z q = \partial_\rho q\,(\mu-\rho z)`.

    Args:
        z, mu, kappa, tau: As for `ambient_gradient`.

    Returns:
        Gradients [..., p], orthogonal to z.

    Example:
        >>> tangent_gradient(torch.tensor([0.6, 0.8]), torch.tensor([1.0, 0.0]), 2.0, 0.5)
        tensor([ 0.6047, -0.4535])
    """
    (z, mu, rho, kappa, tau), p, dtype = _directions(z, mu, kappa, tau, validate_args)
    along = slope(rho, kappa, tau, p)
    return (along.unsqueeze(-1) * (mu - rho.unsqueeze(-1) * z)).to(dtype)


def _directions(
    z: Tensor, mu: Tensor, kappa: Number, tau: Number, validate: bool | None
) -> tuple[list[Tensor], int, torch.dtype]:
    """Return z, mu, their cosine, kappa and tau in the computing dtype, p, and the dtype."""
    if z.dim() == 0 or mu.dim() == 0 or z.shape[-1] != mu.shape[-1]:
        rule = "expected z and mu to share their last dimension"
        raise ValueError(f"{rule}, got {tuple(z.shape)} and {tuple(mu.shape)}")
    kappa, tau = (a.unsqueeze(-1) if isinstance(a, Tensor) and a.dim() else a for a in (kappa, tau))
    (z, mu, *scalars), dtype = validation.tensors(z=z, mu=mu, kappa=kappa, tau=tau)
    kappa, tau = (a.squeeze(-1) if a.dim() else a for a in scalars)
    scalars, p, _ = validated_arguments((z * mu).sum(-1), kappa, tau, z.shape[-1], validate)
    return [z, mu, *scalars], p, dtype
