r"""Propagation of the joint expansion of the scores through softmax, to probabilities and loss.

With logits :math:`l_c = \ell_{0,c} + B_{1,c}/\nu + B_{2,c}/\nu^2` (thm:multiclass-propagation) the
classes couple in second order through the variance :math:`V_1` of the first corrections under the
leading probabilities.
"""

from __future__ import annotations

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.validation import Number
from resultant.theory.score_expansion import joint_order


def propagate_probabilities(
    l0: Tensor, B1: Number, B2: Number, p: int, *, variance: bool = True
) -> Tensor:
    r"""Compute class probabilities to second order in 1/nu (eq:multiclass-prob-expansion).

    Args:
        l0, B1, B2: Leading logits [..., C], offset and leading score, and their corrections.
        p: Dimension >= 3.
        variance: Include :math:`(\Delta_1^2-V_1)/2`; without it the error is of second order.

    Returns:
        Probabilities [..., C], which sum to one in either case.

    Example:
        >>> propagate_probabilities(torch.tensor([1.0, 0.0]), torch.tensor([0.5, -0.5]), 0.0, 128)
        tensor([0.7342, 0.2658])
    """
    (log_p, d1, d2, V1), nu, dtype = _propagation(l0, B1, B2, p)
    if variance:
        d2 = d2 + (d1**2 - V1) / 2
    return (log_p.exp() * (1 + (d1 + d2 / nu) / nu)).to(dtype)


def propagate_loss(
    l0: Tensor,
    B1: Number,
    B2: Number,
    p: int,
    y: Tensor | int,
    *,
    variance: bool = True,
    validate_args: bool | None = None,
) -> Tensor:
    r"""Compute the cross-entropy to second order in 1/nu (eq:multiclass-loss-expansion).

    Args:
        l0, B1, B2, p: As in `propagate_probabilities`.
        y: Labels [...] of an integer dtype, in [0, C).
        variance: Include :math:`V_1/2`, the coupling of the classes.

    Returns:
        Losses [...].

    Example:
        >>> propagate_loss(torch.tensor([1.0, 0.0]), torch.tensor([0.5, -0.5]), 0.0, 128, 0)
        tensor(0.3090)
    """
    (log_p, d1, d2, V1), nu, dtype = _propagation(l0, B1, B2, p)
    y, C = torch.as_tensor(y, device=log_p.device), log_p.shape[-1]
    if y.dtype.is_floating_point or y.dtype.is_complex or y.dtype == torch.bool:
        raise ValueError(f"expected y of an integer dtype, got {y.dtype}")
    if variance:
        d2 = d2 - V1 / 2
    loss, label = -(log_p + (d1 + d2 / nu) / nu), y.long().unsqueeze(-1)
    try:
        loss, label = torch.broadcast_tensors(loss, label)
    except RuntimeError:
        rule = f"y to broadcast with the shape {tuple(log_p.shape[:-1])} of l0 without classes"
        raise ValueError(f"expected {rule}, got {tuple(y.shape)}") from None
    if validation.should_validate(validate_args, y) and y.numel():
        validation.require_in_range("y", y.double(), 0, C - 1, rule=f"in 0, ..., {C - 1}")
    return loss.gather(-1, label[..., :1]).squeeze(-1).to(dtype)


def _propagation(
    l0: Tensor, B1: Number, B2: Number, p: int
) -> tuple[tuple[Tensor, ...], float, torch.dtype]:
    """Return log P0, Delta_1, Delta_2 [..., C] and V_1 [..., 1]; nu; the dtype of the result."""
    nu = joint_order(p)
    (l0, B1, B2), dtype = validation.tensors(l0=l0, B1=B1, B2=B2)
    l0, B1, B2 = torch.broadcast_tensors(l0, B1, B2)
    if l0.dim() == 0:
        raise ValueError("expected l0, B1 and B2 of shape [..., C], got shape ()")
    log_p = l0.log_softmax(-1)
    P = log_p.exp()
    d1, d2 = (B - (P * B).sum(-1, keepdim=True) for B in (B1, B2))
    return (log_p, d1, d2, (P * d1**2).sum(-1, keepdim=True)), nu, dtype
