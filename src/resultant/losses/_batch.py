"""A batch of a loss: its checks and views, the processes of a job that exchange samples and share
classes, and the reduction of losses to one number."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

from resultant._core import distributed
from resultant._core.arrays import require_features, require_labels, shape_of
from resultant._core.autograd import untraced
from resultant._core.validation import COMPUTE_DTYPE

REDUCTIONS = ("mean", "sum", "none")

# The upper half of a number that only the steps of this loss exchange.
STEP = 0x50724365 << 32


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


@untraced
def rank_sizes(n: int) -> list[int]:
    """Return the number of samples of every rank in this step; raise if a rank is elsewhere."""
    sizes = [number ^ STEP for number in distributed.all_gather_int(n | STEP)]
    if others := [rank for rank, size in enumerate(sizes) if not 0 <= size < 1 << 32]:
        raise RuntimeError(
            f"expected a step of the loss on every rank, got another exchange on ranks {others}: "
            "all ranks must take the same number of steps, for example with drop_last=True"
        )
    return sizes


_gather = untraced(distributed.gather)


def gather_ranks(z: Tensor, y: Tensor, sizes: list[int] | None) -> tuple[Tensor, Tensor, slice]:
    """Return views [V, N, p] and labels of all ranks, and the place of these in them."""
    views = by_view(z.detach())
    # Samples, however many each rank has: sums of all classes would be far more.
    if distributed.world_size() == 1:
        return views, y, slice(None)
    sizes = rank_sizes(len(y)) if sizes is None else sizes
    first = sum(sizes[: distributed.rank()])
    views = _gather(views.movedim(1, 0), sizes).movedim(0, 1)
    return views, _gather(y, sizes), slice(first, first + len(y))


def sharded(rows: Tensor, num_classes: int) -> Tensor:
    """Return the rows [K, ...] of this process as a part of the DTensor [C, ...] of all."""
    if not distributed.distributed():
        return rows
    # Here, as the import takes as long as that of this package.
    from torch.distributed.tensor import DeviceMesh, DTensor, Shard

    world = dist.group.WORLD
    assert world is not None
    shape = torch.Size((num_classes, *rows.shape[1:]))
    mesh = DeviceMesh.from_group(world, rows.device.type)
    stride = torch.empty(shape, device="meta").stride()
    return DTensor.from_local(rows, mesh, [Shard(0)], run_check=False, shape=shape, stride=stride)
