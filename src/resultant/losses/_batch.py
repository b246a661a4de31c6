"""A batch of a loss: its checks and views, and the reduction of its losses to one number."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from resultant._core.arrays import require_features, require_labels, shape_of
from resultant._core.validation import COMPUTE_DTYPE

REDUCTIONS = ("mean", "sum", "none")


def compute_dtype(a: Tensor) -> Tensor:
    """Cast ``a`` to the dtype that losses compute in, at least float32."""
    return a.to(COMPUTE_DTYPE[a.dtype])


def by_view(a: Tensor) -> Tensor:
    """Return ``a`` [N, k] or [V, N, k] as [V, N, k], also for N = 0."""
    return a if a.dim() == 3 else a.unsqueeze(0)


def cross_entropy(scores: Tensor, offset: Tensor, labels: Tensor) -> Tensor:
    """Return the cross-entropies [...] of ``scores`` [..., C] + ``offset`` [C] at labels [...]."""
    logits = (scores + offset.to(scores.dtype)).flatten(0, -2)
    entropies = functional.cross_entropy(logits, labels.reshape(-1), reduction="none")
    return entropies.view(labels.shape)


def require_vectors(z: Tensor, bank: Tensor) -> None:
    """Raise unless z is [N, p] or [V, N, p], of a floating dtype and on the device of the bank."""
    dim = bank.shape[1] - 1
    if not isinstance(z, Tensor) or z.dim() not in (2, 3) or z.shape[-1] != dim:
        raise ValueError(f"expected z [N, {dim}] or [V, N, {dim}], got {shape_of(z)}")
    require_features(z.detach().flatten(0, -2), dim, bank.device, False)


def require_unit(z: Tensor) -> None:
    """Raise unless z [..., p] holds vectors of length one, where values are checked."""
    require_features(z.detach().flatten(0, -2), z.shape[-1], z.device, None)


def require_batch(
    z: Tensor, y: Tensor, num_classes: int, bank: Tensor, ignore_index: int | None = None
) -> None:
    """Raise unless z holds vectors [N, p] or [V, N, p] of N > 0 samples and y [N] their labels."""
    require_vectors(z, bank)
    if not z.shape[-2]:
        raise ValueError("expected a batch of one sample or more, got an empty batch: skip it")
    if isinstance(y, Tensor):
        if y.is_floating_point():
            raise ValueError(
                f"expected y [N] of class indices, got soft labels ({y.dtype}, {shape_of(y)}): a "
                "sample enters the statistics of one class; compute this loss on unmixed samples"
            )
        if z.dim() == 3 and y.shape == z.shape[:1] != z.shape[1:2]:
            got = f"z {tuple(z.shape)} with y {tuple(y.shape)}"
            raise ValueError(f"expected views first, z [V, N, p], got {got}: use z.transpose(0, 1)")
        if ignore_index is not None:
            y = y.masked_fill(y == ignore_index, 0)
    require_labels(y, z.shape[-2], num_classes, bank.device, None)


def sample_weights(y: Tensor, indices: Any, weights: Tensor | None) -> Tensor | None:
    """Return the weights [N] of samples, or their numbers of places in ``indices`` of a miner."""
    if indices is not None and weights is not None:
        raise ValueError("expected indices_tuple or weights, got both")
    if indices is not None:
        places = torch.cat([torch.as_tensor(a, device=y.device).flatten() for a in indices])
        # Not bincount, which waits for a device.
        counts = torch.zeros_like(y).index_add(0, places, torch.ones_like(places))
        return counts if len(places) else None
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
        weights = weights.masked_fill(ignored, 0)
    if weights is None:
        return losses if reduction == "none" else getattr(losses, reduction)()
    weights = weights.to(losses.dtype).expand_as(losses)
    losses = losses * weights
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum() / weights.sum()
