"""A batch of a loss: its checks, weights and views, and the reduction of its losses to one
number."""

from typing import Any

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.arrays import require_features, require_labels, shape_of
from resultant._core.validation import COMPUTE_DTYPE

REDUCTIONS = ("mean", "sum", "none")


def compute_dtype(a: Tensor) -> Tensor:
    """Cast ``a`` to the dtype that losses compute in, at least float32."""
    return a.to(COMPUTE_DTYPE[a.dtype])


def by_view(a: Tensor) -> Tensor:
    """Return ``a`` [N, k] or [V, N, k] as [V, N, k], also for N = 0."""
    return a if a.dim() == 3 else a.unsqueeze(0)


def require_vectors(z: Tensor, bank: Tensor) -> None:
    """Raise unless z is [N, p] or [V, N, p], of a floating dtype and on the device of the bank."""
    dim = bank.shape[1] - 1
    shaped = isinstance(z, Tensor) and z.dim() in (2, 3) and z.shape[-1] == dim
    if not shaped or (z.dim() == 3 and not len(z)):
        raise ValueError(f"expected z [N, {dim}] or [V, N, {dim}], got {shape_of(z)}")
    require_features(z.detach().flatten(0, -2), dim, bank.device, False)


def require_unit(z: Tensor) -> None:
    """Raise unless z [..., p] holds vectors of length one, where values are checked."""
    require_features(z.detach().flatten(0, -2), z.shape[-1], z.device, None)


def require_batch(
    z: Tensor, y: Tensor, num_classes: int, bank: Tensor, ignore_index: int | None = None
) -> None:
    """Raise unless z holds vectors [N, p] or [V, N, p] of N samples and y [N] their labels."""
    require_vectors(z, bank)
    if isinstance(y, Tensor):
        if z.dim() == 3 and y.shape == z.shape[:1] != z.shape[1:2]:
            got = f"z {tuple(z.shape)} with y {tuple(y.shape)}"
            raise ValueError(f"expected views first, z [V, N, p], got {got}: use z.transpose(0, 1)")
        if ignore_index is not None:
            y = y.masked_fill(y == ignore_index, 0)
    require_labels(y, z.shape[-2], num_classes, bank.device, None)


def sample_weights(
    y: Tensor, indices: Any, weights: Tensor | None, ignored: Tensor | None
) -> Tensor | None:
    """Return the weights [N] of samples, or their numbers of places in ``indices`` of a miner: zero
    for samples that are ``ignored`` [N]."""
    if indices is not None and weights is not None:
        raise ValueError("expected indices_tuple or weights, got both")
    if indices is not None:
        places = torch.cat([torch.as_tensor(a, device=y.device).flatten() for a in indices])
        # Not bincount, which waits for a device.
        if len(places):
            weights = torch.zeros_like(y).index_add(0, places, torch.ones_like(places))
    elif weights is not None:
        if not (isinstance(weights, Tensor) and weights.shape == y.shape):
            rule = f"expected weights [{len(y)}], one per sample"
            raise ValueError(f"{rule}, got {shape_of(weights)}")
        if weights.is_complex():
            raise ValueError(f"expected weights of real numbers, got {weights.dtype}")
    if ignored is not None:
        weights = torch.ones_like(y) if weights is None else weights
        weights = weights.masked_fill(ignored, 0)
    if weights is not None and validation.should_validate(None, weights):
        validation.require_in_range("weights", weights.double(), 0.0, rule=">= 0 and finite")
    return weights


def reduced(
    losses: Tensor, ignored: Tensor | None, weights: Tensor | None, reduction: str
) -> Tensor:
    """Reduce losses [N] or [V, N]; samples that are ``ignored`` [N] have none. The mean of no
    samples, and of weights that are zero, is zero."""
    if ignored is not None:
        losses = losses.masked_fill(ignored, 0.0)
    if weights is not None:
        weights = weights.to(losses.dtype).expand_as(losses)
        losses = losses * weights
    if reduction == "none":
        return losses
    if reduction == "sum" or not losses.numel():
        return losses.sum()
    if weights is None:
        return losses.mean()
    total = weights.sum()
    return losses.sum() / torch.where(total == 0, 1.0, total)
