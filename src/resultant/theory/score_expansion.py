r"""Expansions of Bessel ratio and exact score in 1/nu for fixed :math:`\lambda=\kappa/\nu`, and of
the score in 1/kappa for fixed p, with t = 1/tau (thm:joint-score-expansion,
prop:fixed-dimensional-score). An ``order``, 0, 1 or 2, is the index of the last term. To compute a
score use `vmf_score`, which is exact everywhere."""

import warnings
from collections import namedtuple

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.modes import is_transformed
from resultant._core.validation import Check, Number
from resultant.score.limits import validated_arguments
from resultant.special.ratio import inner, slopes
from resultant.vmf.tails import tail_dimension

# The bound of lem:bessel-ratio-remainder is proved from this order on.
LEAST_ORDER = 10 / 9

# For f = t/sqrt(nu^2 + kappa^2) < 1 the powers of t/nu in the leading order of q/nu converge. Over
# lambda from 0 to 30 and all rho the largest second-order error, relative to t, tends to 0.12 f^3
# as p grows; at f = RANGE it is 1.8e-3 for p from 16 to 4096, and 5.6e-3 at p = LEAST_DIMENSION.
RANGE = 0.25
LEAST_DIMENSION = 8


# Coefficients and their derivatives in lambda, r0/lambda, r1/lambda, and r0'/lambda - r0/lambda^2.
RatioTerms = namedtuple("RatioTerms", "r0 r1 r2 dr0 dr1 ddr0 r0_over r1_over shear")


def ratio_terms(lam: Tensor) -> RatioTerms:
    r"""Compute the terms at :math:`\lambda=\kappa/\nu` >= 0, without a division by lambda."""
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


def ratio_approximation(nu: Number, x: Number, *, validate_args: Check = None) -> Tensor:
    r"""Approximate the Bessel ratio by :math:`r_0+r_1/\nu+r_2/\nu^2` (eq:bessel-ratio-approx).

    Args:
        nu, x: Order > 0 and argument >= 0.

    Returns:
        Approximations, to within `ratio_bound`.

    Example:
        >>> ratio_approximation(63.0, 10.0), bessel_ratio(63.0, 10.0)
        (tensor(0.0777, dtype=torch.float64), tensor(0.0777, dtype=torch.float64))
    """
    (nu, x), dtype = validation.tensors(nu=nu, x=x)
    if validation.should_validate(validate_args, nu, x):
        validation.require_in_range("nu", nu, 0.0, rule="> 0 and finite", open_low=True)
        validation.require_in_range("x", x, 0.0, rule=">= 0 and finite")
    s = torch.hypot(nu, x)
    c, w = x / s, nu / s
    return (c / (1 + w) - c / (2 * s) + c * (4 * w**2 - c**2) / (8 * s**2)).to(dtype)


def ratio_bound(nu: Number, *, validate_args: Check = None) -> Tensor:
    r"""Bound the error of `ratio_approximation` by :math:`\nu^{-3}` (eq:bessel-ratio-bound).

    Args:
        nu: Order >= 10/9.

    Returns:
        Bounds.

    Example:
        >>> ratio_bound(10.0)
        tensor(0.0010, dtype=torch.float64)
    """
    (nu,), dtype = validation.tensors(nu=nu)
    if validation.should_validate(validate_args, nu):
        # In a lower precision 10/9 may round downwards.
        least = float(torch.tensor(LEAST_ORDER, dtype=dtype, device="cpu"))
        validation.require_in_range("nu", nu, min(least, LEAST_ORDER), rule=">= 10/9 and finite")
    return (nu**-3).to(dtype)


def joint_terms(
    rho: Number, kappa: Number, tau: Number, p: int, *, validate_args: Check = None
) -> tuple[Tensor, ...]:
    r"""Compute the coefficients :math:`B_0, B_1, B_2` of thm:joint-score-expansion.

    Args:
        rho, kappa, tau, p: As of `vmf_score`, with p >= 3.

    Returns:
        Three tensors.

    Example:
        >>> joint_terms(0.5, 10.0, 0.1, 128)[0]
        tensor(0.3944, dtype=torch.float64)
    """
    nu = tail_dimension(p) / 2 - 1
    (rho, kappa, tau), p, dtype = validated_arguments(rho, kappa, tau, p, validate_args)
    t, a = 1 / tau, ratio_terms(kappa / nu)
    across = (1 - rho) * (1 + rho)
    B1 = t * rho * a.r1 + t**2 / 2 * (across * a.r0_over + rho**2 * a.dr0)
    variance = across * a.r1_over + rho**2 * a.dr1
    skewness = rho**3 * a.ddr0 + 3 * rho * across * a.shear
    B2 = t * rho * a.r2 + t**2 / 2 * variance + t**3 / 6 * skewness
    return tuple(B.to(dtype) for B in (t * rho * a.r0, B1, B2))


def joint_expansion(
    rho: Number, kappa: Number, tau: Number, p: int, order: int = 2, *, validate_args: Check = None
) -> Tensor:
    r"""Expand the score as :math:`B_0 + B_1/\nu + B_2/\nu^2` (thm:joint-score-expansion).

    Values outside of the range p >= 8 and 1/tau <= sqrt(nu^2 + kappa^2)/4 give one warning per
    call if values are checked.

    Args:
        rho, kappa, tau, p, order: As in `joint_terms`, and the index of the last term.

    Returns:
        Expansions.

    Example:
        >>> joint_expansion(0.5, 10.0, 0.1, 128), vmf_score(0.5, 10.0, 0.1, 128)
        (tensor(0.7729, dtype=torch.float64), tensor(0.7721, dtype=torch.float64))
    """
    nu = tail_dimension(p) / 2 - 1
    (rho, kappa, tau), p, dtype = validated_arguments(rho, kappa, tau, p, validate_args)
    terms = joint_terms(rho, kappa, tau, p, validate_args=False)
    total = _partial_sum(terms, order, nu).to(dtype)
    checked = validation.should_validate(validate_args, rho, kappa, tau) and not is_transformed()
    if checked and not (inside := in_range(kappa.detach(), tau.detach(), p)).all():
        warnings.warn(
            f"joint_expansion is meant for p >= {LEAST_DIMENSION} and 1/tau <= {RANGE:g} "
            f"sqrt(nu^2 + kappa^2); {int((~inside).sum())} of {inside.numel()} values are "
            f"outside (p = {p}): use vmf_score, or free_energy_expansion for a large 1/tau",
            stacklevel=2,
        )
    return total


def in_range(kappa: Tensor, tau: Tensor, p: int) -> Tensor:
    r"""Mark the range of `joint_expansion`, :math:`t\le\frac14\sqrt{\nu^2+\kappa^2}` and p >= 8."""
    inside = 1 / tau <= RANGE * torch.hypot(torch.full_like(kappa, p / 2 - 1), kappa)
    return inside & (p >= LEAST_DIMENSION)


def fixed_terms(
    rho: Number, kappa: Number, tau: Number, p: int, *, validate_args: Check = None
) -> tuple[Tensor, ...]:
    r"""Compute the coefficients :math:`t\rho, Q_1, Q_2` of prop:fixed-dimensional-score.

    Args:
        rho, kappa, tau, p: As of `vmf_score`, with kappa > 0, used for its shape only.

    Returns:
        Three tensors.

    Example:
        >>> fixed_terms(0.5, 100.0, 1.0, 3)[1]
        tensor(-0.1250, dtype=torch.float64)
    """
    (rho, kappa, tau), p, dtype = _concentrated(rho, kappa, tau, p, validate_args)
    t, across = 1 / tau, (1 - rho) * (1 + rho)
    Q1 = t**2 * across / 2 - (p - 1) * t * rho / 2
    Q2 = (p - 1) * (p - 3) * t * rho / 8 + (p - 1) * t**2 * (2 * rho**2 - 1) / 4
    terms = torch.broadcast_tensors(t * rho, Q1, Q2 - t**3 * rho * across / 2, kappa)[:3]
    return tuple(Q.to(dtype) for Q in terms)


def fixed_expansion(
    rho: Number, kappa: Number, tau: Number, p: int, order: int = 2, *, validate_args: Check = None
) -> Tensor:
    r"""Expand the score as :math:`t\rho + Q_1/\kappa + Q_2/\kappa^2`, for kappa that is large
    compared with p and 1/tau (prop:fixed-dimensional-score).

    Args:
        rho, kappa, tau, p, order: As in `fixed_terms`, and the index of the last term.

    Returns:
        Expansions.

    Example:
        >>> fixed_expansion(0.5, 100.0, 1.0, 3), vmf_score(0.5, 100.0, 1.0, 3)
        (tensor(0.4987, dtype=torch.float64), tensor(0.4987, dtype=torch.float64))
    """
    (rho, kappa, tau), p, dtype = _concentrated(rho, kappa, tau, p, validate_args)
    terms = fixed_terms(rho, kappa, tau, p, validate_args=False)
    return _partial_sum(terms, order, kappa).to(dtype)


def _concentrated(
    rho: Number, kappa: Number, tau: Number, p: int, validate: Check
) -> tuple[list[Tensor], int, torch.dtype]:
    values, p, dtype = validated_arguments(rho, kappa, tau, p, validate)
    if validation.should_validate(validate, values[1]):
        validation.require_in_range("kappa", values[1], 0.0, rule="> 0 and finite", open_low=True)
    return values, p, dtype


def free_energy_expansion(
    rho: Number, kappa: Number, tau: Number, p: int, order: int = 2, *, validate_args: Check = None
) -> Tensor:
    r"""Expand the score as :math:`q=\nu F_0+F_1+F_2/\nu+O(\nu^{-2})`, uniformly in
    :math:`1/\tau=\nu s`, also of the order of nu and beyond (sec:expansion-range).

    With :math:`S=\sqrt{1+\lambda^2}` and :math:`\tilde S^2=S^2+2\lambda s\rho+s^2`, from Debye's
    expansion, :math:`F_0=\psi(\tilde S)-\psi(S)`, :math:`\psi(x)=x-\log(1+x)`,
    :math:`F_1=-\frac12\log(\tilde S/S)`, :math:`F_2=u(1/\tilde S)-u(1/S)`,
    :math:`u(w)=(3w-5w^3)/24`.

    Args:
        rho, kappa, tau, p, order: As in `joint_expansion`.

    Returns:
        Expansions.

    Example:
        >>> free_energy_expansion(0.5, 10.0, 0.001, 128), vmf_score(0.5, 10.0, 0.001, 128)
        (tensor(807.4702, dtype=torch.float64), tensor(807.4702, dtype=torch.float64))
    """
    nu = tail_dimension(p) / 2 - 1
    (rho, kappa, tau), p, dtype = validated_arguments(rho, kappa, tau, p, validate_args)
    rho, lam, s = rho.clamp(-1, 1), kappa / nu, 1 / (nu * tau)
    S = torch.sqrt(1 + lam**2)
    # A sum of squares also where the tilt is nearly opposite to the mean.
    tilted = torch.sqrt(1 + (lam - s) ** 2 + 2 * lam * s * (1 + rho))
    # Everything follows from the difference of the two roots, taken as one.
    d = s * (2 * lam * rho + s) / (tilted + S)
    w, w1 = 1 / S, 1 / tilted
    F2 = -d * w * w1 * (3 - 5 * (w * w + w * w1 + w1 * w1)) / 24
    terms = d - torch.log1p(d / (1 + S)), -0.5 * torch.log1p(d / S), F2
    return (nu * _partial_sum(terms, order, nu)).to(dtype)


def directional_cumulants(
    rho: Number, kappa: Number, p: int, order: int = 3, *, validate_args: Check = None
) -> tuple[Tensor, ...]:
    r"""Compute the first cumulants of :math:`Y=z^\top X` exactly (sec:cumulant-derivation), without
    cancellation as kappa goes to zero: :math:`\rho R`, :math:`r+(\kappa\rho)^2Dr` and
    :math:`3\kappa\rho Dr+(\kappa\rho)^3D^2r`, :math:`r=R/\kappa`, :math:`D=\kappa^{-1}d/d\kappa`.

    Args:
        rho, kappa, p, order: As of `vmf_score`, and the number of cumulants, 1, 2 or 3.

    Returns:
        As many tensors as ``order``.

    Example:
        >>> directional_cumulants(0.5, 10.0, 128, order=2)
        (tensor(0.0388, dtype=torch.float64), tensor(0.0077, dtype=torch.float64))
    """
    order = validation.integer("order", order, 1, most=3)
    (rho, kappa, _), p, dtype = validated_arguments(rho, kappa, 1.0, p, validate_args)
    nu, y, m = p / 2 - 1, kappa * kappa, kappa * rho
    at = slopes(nu, y)
    D = inner(nu, y), at.d1, at.d2
    cumulants = m * D[0], D[0] + m**2 * D[1], 3 * m * D[1] + m**3 * D[2]
    return tuple(a.to(dtype) for a in cumulants[:order])


def _partial_sum(terms: tuple[Tensor, ...], order: int, large: Number) -> Tensor:
    """Sum terms[i] / large^i up to i = order."""
    order = validation.integer("order", order, 0, most=len(terms) - 1)
    total = terms[order]
    for term in reversed(terms[:order]):
        total = term + total / large
    return total
