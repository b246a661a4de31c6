r"""Expansion of the score where 1/tau grows with the dimension (sec:expansion-range)."""

from __future__ import annotations

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.validation import Number
from resultant.score.expansion import _joint_arguments, _order, _partial_sum


def free_energy_limit(
    rho: Number, lam: Number, s: Number, *, validate_args: bool | None = None
) -> Tensor:
    r"""Compute the limit of :math:`q/\nu`, the resummed free energy of sec:expansion-range.

    The limit is :math:`\nu\to\infty` with :math:`\kappa=\nu\lambda` and :math:`t=\nu s`:

    .. math::
        F_0 = \psi(\tilde\lambda)-\psi(\lambda),\qquad
        \psi(y)=\sqrt{1+y^2}-\log(1+\sqrt{1+y^2}),\qquad
        \tilde\lambda^2=\lambda^2+2\lambda s\rho+s^2.

    Args:
        rho: Cosine in [-1, 1].
        lam: :math:`\lambda` >= 0.
        s: :math:`t/\nu` >= 0.
        validate_args: Check values; by default on the CPU only.

    Returns:
        Limits in the broadcast shape of rho, lam and s.

    Raises:
        ValueError: If an argument is outside its range.

    Example:
        >>> free_energy_limit(0.0, 1.0, 1.0)
        tensor(0.1942, dtype=torch.float64)
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
    r"""Expand the score as :math:`q=\nu F_0+F_1+F_2/\nu+O(\nu^{-2})`, uniformly in 1/tau.

    The expansion also holds for 1/tau of the order of nu and beyond (sec:expansion-range).
    :math:`F_0` is `free_energy_limit`, :math:`F_1=-\frac12\log(\tilde S/S)` and
    :math:`F_2=u(1/\tilde S)-u(1/S)` with :math:`S=\sqrt{1+\lambda^2}`, :math:`u(w)=(3w-5w^3)/24`
    come from Debye's expansion of :math:`I_\nu(\nu\lambda)`.

    Args:
        rho: Cosine in [-1, 1].
        kappa: Concentration >= 0.
        tau: Temperature > 0.
        p: Dimension >= 3.
        order: Index of the last term, 0, 1 or 2.
        validate_args: Check values; by default on the CPU only.

    Returns:
        Expansions in the broadcast shape of rho, kappa and tau.

    Raises:
        ValueError: If an argument is outside its range.

    Example:
        >>> from resultant import free_energy_expansion, vmf_score
        >>> free_energy_expansion(0.5, 10.0, 0.001, 128), vmf_score(0.5, 10.0, 0.001, 128)
        (tensor(807.4702, dtype=torch.float64), tensor(807.4702, dtype=torch.float64))
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
