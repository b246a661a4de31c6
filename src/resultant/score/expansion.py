r"""Expansions of the exact score: joint in dimension and concentration, fixed dimension, resummed.

With :math:`t=1/\tau`, :math:`\nu=p/2-1`, :math:`\kappa=\nu\lambda`, the score of eq:main-exact is

.. math::
    q &= B_0 + B_1/\nu + B_2/\nu^2 + O(\nu^{-3}), & \nu\to\infty,\ \lambda\ \text{fixed},\\
    q &= t\rho + Q_1/\kappa + Q_2/\kappa^2 + O(\kappa^{-3}), & \kappa\to\infty,\ p\ \text{fixed}

(thm:joint-score-expansion, prop:fixed-dimensional-score). Where t grows with :math:`\nu` neither
holds; `free_energy_expansion` is the series for that (sec:expansion-range). To compute a score,
`vmf_score` is exact everywhere: these are for theory, figures and checks.

All functions broadcast, keep dtype and device, and carry gradients.
"""

from __future__ import annotations

import operator
import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core import validation
from resultant.score._arguments import score_arguments, validate_score
from resultant.special.bessel import inner

Number = validation.Number

# `in_range` holds for t <= RANGE sqrt(nu^2 + kappa^2) and p >= LEAST_DIMENSION. The powers of
# s = t/nu in the leading order of q/nu have the radius of convergence S = sqrt(1 + lambda^2), for
# 1 + lambda^2 + 2 lambda rho s + s^2 has zeros of modulus S; so f = s/S = t/sqrt(nu^2 + kappa^2)
# is what counts. Over lambda from 0 to 30 and all rho the largest second-order error, measured
# as a part of t, tends to 0.12 f^3 as p grows. At f = 1/4 it is 1.8e-3 for p from 16 to 4096, and
# B2 still takes off more than half of the error in the median; at p = 8 it is 5.6e-3. At p = 5
# it stays at 2e-2 however small t is. `test_range` measures it again.
RANGE = 0.25
LEAST_DIMENSION = 8

# lem:bessel-ratio-remainder is proved from this order on.
LEAST_ORDER = 10 / 9


class RatioTerms(NamedTuple):
    r"""Coefficients of :math:`R_\nu(\nu\lambda)=r_0+r_1/\nu+r_2/\nu^2+O(\nu^{-3})` and what
    thm:joint-score-expansion takes of their derivatives, each without a division by lambda."""

    r0: Tensor
    r1: Tensor
    r2: Tensor
    dr0: Tensor
    dr1: Tensor
    ddr0: Tensor
    r0_over: Tensor  # r0 / lambda
    r1_over: Tensor  # r1 / lambda
    shear: Tensor  # r0' / lambda - r0 / lambda^2


def ratio_terms(lam: Number, *, validate_args: bool | None = None) -> RatioTerms:
    r"""Values and derivatives of :math:`r_0, r_1, r_2` of sec:joint-expansion, ``lam`` >= 0."""
    (lam,), dtype = validation.tensors(lam=lam)
    if validation.should_validate(validate_args, lam):
        validation.require_in_range("lam", lam, 0.0, rule=">= 0 and finite")
    return RatioTerms(*(a.to(dtype) for a in _ratio_terms(lam)))


def _ratio_terms(lam: Tensor) -> RatioTerms:
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


def joint_terms(
    rho: Number, kappa: Number, tau: Number, p: int, *, validate_args: bool | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    r"""The coefficients :math:`B_0, B_1, B_2` of thm:joint-score-expansion, for ``p`` >= 3.

    ``rho`` in [-1, 1], ``kappa`` >= 0, ``tau`` > 0 broadcast. The theorem keeps lambda away from
    zero, but the coefficients have limits there, and they are the right ones.
    """
    (rho, kappa, tau), nu, dtype = _joint_arguments(rho, kappa, tau, p, validate_args)
    B0, B1, B2 = _joint_terms(rho, kappa, tau, nu)
    return B0.to(dtype), B1.to(dtype), B2.to(dtype)


def joint_expansion(
    rho: Number,
    kappa: Number,
    tau: Number,
    p: int,
    order: int = 2,
    *,
    validate_args: bool | None = None,
) -> Tensor:
    r"""The sum :math:`B_0 + B_1/\nu + B_2/\nu^2` up to ``order`` (thm:joint-score-expansion).

    Warns where a value lies outside `in_range`, once a call; on a device or under
    `torch.compile`, where looking at values costs, only `in_range` itself says so.
    """
    order = _order(order, 2)
    (rho, kappa, tau), nu, dtype = _joint_arguments(rho, kappa, tau, p, validate_args)
    if validation.should_validate(validate_args, rho, kappa, tau):
        inside = in_range(kappa.detach(), tau.detach(), p, validate_args=False)
        if not bool(inside.all()):
            warnings.warn(
                f"joint_expansion is meant for p >= {LEAST_DIMENSION} and 1/tau <= {RANGE:g} "
                f"sqrt(nu^2 + kappa^2); {int((~inside).sum())} of {inside.numel()} values are "
                f"outside (p = {p}): use vmf_score, or free_energy_expansion for a large 1/tau",
                stacklevel=2,
            )
    return _partial_sum(_joint_terms(rho, kappa, tau, nu)[: order + 1], nu).to(dtype)


def _joint_terms(rho: Tensor, kappa: Tensor, tau: Tensor, nu: float) -> tuple[Tensor, ...]:
    t, a = 1 / tau, _ratio_terms(kappa / nu)
    across = (1 - rho) * (1 + rho)
    B0 = t * rho * a.r0
    B1 = t * rho * a.r1 + t**2 / 2 * (across * a.r0_over + rho**2 * a.dr0)
    variance = across * a.r1_over + rho**2 * a.dr1
    skewness = rho**3 * a.ddr0 + 3 * rho * across * a.shear
    return B0, B1, t * rho * a.r2 + t**2 / 2 * variance + t**3 / 6 * skewness


def small_parameter(tau: Number, p: int, *, validate_args: bool | None = None) -> Tensor:
    r"""The natural small parameter :math:`t/\nu` of sec:expansion-range, for ``p`` >= 3."""
    nu = joint_order(p)
    (tau,), dtype = validation.tensors(tau=tau)
    if validation.should_validate(validate_args, tau):
        validation.require_in_range("tau", tau, 0.0, rule="> 0 and finite", open_low=True)
    return (1 / (tau * nu)).to(dtype)


def in_range(kappa: Number, tau: Number, p: int, *, validate_args: bool | None = None) -> Tensor:
    r"""Whether `joint_expansion` may be used, as bools:
    :math:`t\le\frac14\sqrt{\nu^2+\kappa^2}` and p >= 8.

    There its error at second order was at most t/150, and t/500 from p = 16 on. The bound says
    that the `small_parameter` is at most S/4, a quarter of the radius of convergence.
    """
    (_, kappa, tau), nu, _ = _joint_arguments(0.0, kappa, tau, p, validate_args)
    inside = 1 / tau <= RANGE * torch.hypot(torch.full_like(kappa, nu), kappa)
    return inside if p >= LEAST_DIMENSION else torch.zeros_like(inside)


def fixed_terms(
    rho: Number, kappa: Number, tau: Number, p: int, *, validate_args: bool | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    r"""The coefficients :math:`t\rho, Q_1, Q_2` of prop:fixed-dimensional-score.

    None depends on ``kappa``, which only broadcasts.
    """
    (rho, kappa, tau), _, dtype = _fixed_arguments(rho, kappa, tau, p, validate_args)
    terms = torch.broadcast_tensors(*_fixed_terms(rho, tau, p), kappa)[:3]
    return terms[0].to(dtype), terms[1].to(dtype), terms[2].to(dtype)


def fixed_expansion(
    rho: Number,
    kappa: Number,
    tau: Number,
    p: int,
    order: int = 2,
    *,
    validate_args: bool | None = None,
) -> Tensor:
    r"""The sum :math:`t\rho + Q_1/\kappa + Q_2/\kappa^2` up to ``order``, for ``kappa`` > 0
    (prop:fixed-dimensional-score). It needs kappa large beside p and t."""
    order = _order(order, 2)
    (rho, kappa, tau), p, dtype = _fixed_arguments(rho, kappa, tau, p, validate_args)
    total = _partial_sum(_fixed_terms(rho, tau, p)[: order + 1], kappa)
    return torch.broadcast_tensors(total, kappa)[0].to(dtype)


def _fixed_terms(rho: Tensor, tau: Tensor, p: int) -> tuple[Tensor, ...]:
    t = 1 / tau
    across = (1 - rho) * (1 + rho)
    Q1 = t**2 * across / 2 - (p - 1) * t * rho / 2
    Q2 = (
        (p - 1) * (p - 3) * t * rho / 8
        + (p - 1) * t**2 * (2 * rho**2 - 1) / 4
        - t**3 * rho * across / 2
    )
    return t * rho, Q1, Q2


def ratio_approximation(nu: Number, x: Number, *, validate_args: bool | None = None) -> Tensor:
    r"""The approximation :math:`A_{2,\nu}(x)` to the ratio :math:`R_\nu(x)` of
    eq:bessel-ratio-approx, for ``nu`` > 0 and ``x`` >= 0: in :math:`x=\nu\lambda` it is
    :math:`r_0+r_1/\nu+r_2/\nu^2`. See `ratio_bound` for its error."""
    (nu, x), dtype = validation.tensors(nu=validation.order(nu), x=x)
    if validation.should_validate(validate_args, nu, x):
        validation.require_in_range("nu", nu, 0.0, rule="> 0 and finite", open_low=True)
        validation.require_in_range("x", x, 0.0, rule=">= 0 and finite")
    s = torch.hypot(nu, x)
    c, w = x / s, nu / s
    return (c / (1 + w) - c / (2 * s) + c * (4 * w**2 - c**2) / (8 * s**2)).to(dtype)


def ratio_bound(nu: Number, *, validate_args: bool | None = None) -> Tensor:
    r"""The bound :math:`\nu^{-3}` on :math:`|R_\nu(x)-A_{2,\nu}(x)|` over all x >= 0, for
    ``nu`` >= 10/9 (eq:bessel-ratio-bound)."""
    (nu,), dtype = validation.tensors(nu=validation.order(nu))
    if validation.should_validate(validate_args, nu):
        # In a lower precision 10/9 may round downwards.
        least = float(torch.tensor(LEAST_ORDER, dtype=dtype))
        validation.require_in_range("nu", nu, min(least, LEAST_ORDER), rule=">= 10/9 and finite")
    return (nu**-3).to(dtype)


def directional_cumulants(
    rho: Number, kappa: Number, p: int, order: int = 3, *, validate_args: bool | None = None
) -> tuple[Tensor, ...]:
    r"""The first ``order`` <= 3 cumulants of :math:`Y=z^\top X`, exact (sec:cumulant-derivation).

    With :math:`r=R_\nu(\kappa)/\kappa` and :math:`D=\kappa^{-1}d/d\kappa` they are
    :math:`\rho R`, :math:`r+(\kappa\rho)^2Dr` and :math:`3\kappa\rho Dr+(\kappa\rho)^3D^2r`: the
    forms of the paper less their cancellation as kappa goes to zero. The third carries a
    gradient in rho only.
    """
    order = _order(order, 3, least=1)
    (rho, kappa, _), options, dtype = score_arguments(rho, kappa, 1.0, p, validate_args)
    validate_score(rho, kappa, torch.ones_like(kappa), options)
    nu, y, m = options.p / 2 - 1, kappa * kappa, kappa * rho
    D = [inner(nu, y, n) for n in range(order)]
    cumulants = [m * D[0]]
    if order >= 2:
        cumulants.append(D[0] + m**2 * D[1])
    if order == 3:
        cumulants.append(3 * m * D[1] + m**3 * D[2])
    return tuple(a.to(dtype) for a in cumulants)


def free_energy_limit(
    rho: Number, lam: Number, s: Number, *, validate_args: bool | None = None
) -> Tensor:
    r"""The limit of :math:`q/\nu` as :math:`\nu\to\infty` with :math:`\kappa=\nu\lambda` and
    :math:`t=\nu s`, the resummed free energy that sec:expansion-range asks for:

    .. math::
        F_0 = \psi(\tilde\lambda)-\psi(\lambda),\qquad
        \psi(y)=\sqrt{1+y^2}-\log(1+\sqrt{1+y^2}),\qquad
        \tilde\lambda^2=\lambda^2+2\lambda s\rho+s^2.

    ``rho`` in [-1, 1], ``lam`` >= 0, ``s`` >= 0.
    """
    (rho, lam, s), dtype = validation.tensors(rho=rho, lam=lam, s=s)
    if validation.should_validate(validate_args, rho, lam, s):
        eps = 8 * torch.finfo(dtype).eps
        validation.require_in_range("rho", rho, -1 - eps, 1 + eps, rule="in [-1, 1]")
        validation.require_in_range("lam", lam, 0.0, rule=">= 0 and finite")
        validation.require_in_range("s", s, 0.0, rule=">= 0 and finite")
    return _free_energy_terms(rho, lam, s)[0].to(dtype)


def free_energy_expansion(
    rho: Number,
    kappa: Number,
    tau: Number,
    p: int,
    order: int = 2,
    *,
    validate_args: bool | None = None,
) -> Tensor:
    r"""The score as :math:`q=\nu F_0+F_1+F_2/\nu+O(\nu^{-2})` up to ``order``, for ``p`` >= 3,
    uniformly in t, also of the order of nu and beyond (sec:expansion-range).

    :math:`F_0` is `free_energy_limit`, :math:`F_1=-\frac12\log(\tilde S/S)` and
    :math:`F_2=u(1/\tilde S)-u(1/S)` with :math:`S=\sqrt{1+\lambda^2}`, :math:`u(w)=(3w-5w^3)/24`
    come from Debye's expansion of :math:`I_\nu(\nu\lambda)`.
    """
    order = _order(order, 2)
    (rho, kappa, tau), nu, dtype = _joint_arguments(rho, kappa, tau, p, validate_args)
    terms = _free_energy_terms(rho, kappa / nu, 1 / (nu * tau))
    return (nu * _partial_sum(terms[: order + 1], nu)).to(dtype)


def _free_energy_terms(rho: Tensor, lam: Tensor, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    rho = rho.clamp(-1, 1)
    S = torch.sqrt(1 + lam**2)
    # A sum of squares also where the tilt is nearly opposite to the mean.
    tilted = torch.sqrt(1 + (lam - s) ** 2 + 2 * lam * s * (1 + rho))
    # Everything follows from the difference of the two roots, taken as one.
    d = s * (2 * lam * rho + s) / (tilted + S)
    w, w1 = 1 / S, 1 / tilted
    F2 = -d * w * w1 * (3 - 5 * (w * w + w * w1 + w1 * w1)) / 24
    return d - torch.log1p(d / (1 + S)), -0.5 * torch.log1p(d / S), F2


def _partial_sum(terms: tuple[Tensor, ...], large: Number) -> Tensor:
    """sum_i terms[i] / large^i."""
    total = terms[-1]
    for term in reversed(terms[:-1]):
        total = term + total / large
    return total


def _order(order: int, most: int, least: int = 0) -> int:
    try:
        value = operator.index(order)
    except TypeError:
        raise ValueError(f"expected order to be an integer, got {order!r}") from None
    if not least <= value <= most:
        raise ValueError(f"expected order in {least}, ..., {most}, got {value}")
    return value


def joint_order(p: int) -> float:
    """nu = p/2 - 1, which an expansion in its inverse needs to be positive."""
    p = validation.dimension(p)
    if p < 3:
        raise ValueError(f"expected p >= 3 for an expansion in 1/nu, nu = p/2 - 1, got {p}")
    return p / 2 - 1


def _joint_arguments(
    rho: Number, kappa: Number, tau: Number, p: int, validate_args: bool | None
) -> tuple[list[Tensor], float, torch.dtype]:
    nu = joint_order(p)
    (rho, kappa, tau), options, dtype = score_arguments(rho, kappa, tau, p, validate_args)
    validate_score(rho, kappa, tau, options)
    return [rho, kappa, tau], nu, dtype


def _fixed_arguments(
    rho: Number, kappa: Number, tau: Number, p: int, validate_args: bool | None
) -> tuple[list[Tensor], int, torch.dtype]:
    (rho, kappa, tau), options, dtype = score_arguments(rho, kappa, tau, p, validate_args)
    validate_score(rho, kappa, tau, options)
    if validation.should_validate(validate_args, rho, kappa, tau):
        validation.require_in_range("kappa", kappa, 0.0, rule="> 0 and finite", open_low=True)
    return [rho, kappa, tau], options.p, dtype
