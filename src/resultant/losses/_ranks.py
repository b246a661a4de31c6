"""Processes of a job: the samples of a step that they exchange, and the classes that they share."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from resultant._core import distributed
from resultant._core.autograd import untraced

# The upper half of a number that only the steps of this loss exchange.
STEP = 0x50724365 << 32


@untraced
def rank_sizes(n: int) -> list[int]:
    """Return the number of samples of every rank in this step; raise if a rank is elsewhere."""
    if distributed.world_size() == 1:
        return [n]
    sizes = [number ^ STEP for number in distributed.all_gather_int(n | STEP)]
    if others := [rank for rank, size in enumerate(sizes) if not 0 <= size < 1 << 32]:
        raise RuntimeError(
            f"expected a step of the loss on every rank, got another exchange on ranks {others}: "
            "all ranks must take the same number of steps, for example with drop_last=True"
        )
    return sizes


@untraced
def gather_samples(views: Tensor, y: Tensor, sizes: list[int]) -> tuple[Tensor, Tensor, slice]:
    """Join views [V, N, p] and labels [N] of all ranks; see `ProCoBank.gather_ranks`."""
    views = distributed.gather(views.movedim(1, 0), sizes).movedim(0, 1)
    first = sum(sizes[: distributed.rank()])
    here = slice(first, first + sizes[distributed.rank()])
    return views, distributed.gather(y, sizes), here


def class_shares(num_classes: int) -> list[range]:
    """Return the classes of every process: equal shares, the last of them possibly smaller."""
    processes = distributed.world_size()
    height = -(-num_classes // processes)
    if (processes - 1) * height >= num_classes:
        rule = "expected a number of classes that gives every process a share"
        raise ValueError(f"{rule}, got {num_classes} classes for {processes} processes")
    starts = range(0, num_classes, height)
    return [range(start, min(start + height, num_classes)) for start in starts]


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


def rows_of(a: Tensor, classes: range, num_classes: int) -> Tensor:
    """Return the rows of ``classes`` of a bank in a checkpoint: split by class, or whole."""
    if hasattr(a, "full_tensor"):
        a = a.full_tensor()  # type: ignore[operator]
    return a[classes.start : classes.stop] if a.shape[:1] == (num_classes,) else a
