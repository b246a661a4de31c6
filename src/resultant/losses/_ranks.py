"""Samples of a step exchanged between the processes of a job."""

from __future__ import annotations

from torch import Tensor

from resultant._core import distributed
from resultant._core.compilation import untraced

# The upper half of a number that only the steps of this loss exchange.
STEP = 0x50724365 << 32


@untraced
def rank_sizes(n: int) -> list[int]:
    """Return the number of samples of every rank in this step.

    Raises:
        RuntimeError: If a rank is in another exchange than in a step.
    """
    if distributed.world_size() == 1:
        return [n]
    sizes = [number ^ STEP for number in distributed.all_gather_int(n | STEP)]
    if any(not 0 <= size < 1 << 32 for size in sizes):
        others = [rank for rank, size in enumerate(sizes) if not 0 <= size < 1 << 32]
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
