"""Weights of samples, and the reduction of their losses to one number."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from resultant._core.arrays import shape_of

REDUCTIONS = ("mean", "sum", "none")


def require_reduction(reduction: str) -> str:
    """Return the name of a reduction; raise unless it is one."""
    if reduction not in REDUCTIONS:
        raise ValueError(f"expected reduction to be one of {REDUCTIONS}, got {reduction!r}")
    return reduction


def sample_weights(y: Tensor, indices: Any, weights: Tensor | None) -> Tensor | None:
    """Return the weights [N] of samples with labels y [N], or None for equal weights.

    Args:
        y: Labels [N].
        indices: Tensors of indices of samples, from a miner; the weight of a sample is its number
            of places among them.
        weights: Weights [N].
    """
    if indices is not None and weights is not None:
        raise ValueError("expected indices_tuple or weights, got both")
    if indices is not None:
        places = torch.cat([torch.as_tensor(a, device=y.device).flatten() for a in indices])
        ones = torch.ones(places.shape, device=y.device)
        return (
            torch.zeros(y.shape, device=y.device).index_add(0, places, ones) if len(ones) else None
        )
    if weights is not None and not (isinstance(weights, Tensor) and weights.shape == y.shape):
        raise ValueError(f"expected weights [{len(y)}], one per sample, got {shape_of(weights)}")
    return weights


def reduced(
    losses: Tensor, y: Tensor, weights: Tensor | None, reduction: str, ignore_index: int | None
) -> Tensor:
    """Reduce losses [N] or [V, N] of samples with labels y [N]; ignored samples have none."""
    if ignore_index is not None:
        ignored = y == ignore_index
        losses = losses.masked_fill(ignored, 0.0)
        weights = losses.new_ones(y.shape) if weights is None else weights
        weights = weights.masked_fill(ignored, 0.0)
    number: Tensor | int = losses.numel()
    if weights is not None:
        weights = weights.to(losses.dtype).expand_as(losses)
        losses, number = losses * weights, weights.sum()
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum() / number
