"""The processes that share a loss: the samples and the errors that they exchange in a step, and
their shares of the classes."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from resultant._core import distributed
from resultant._core.modes import untraced

# The upper half of a number that only the steps of this loss exchange, and what stands in the lower
# half for a rank that cannot take the step.
STEP, FAILED = 0x50724365 << 32, (1 << 32) - 1
# Bytes of the error of a rank that the other ranks show.
MESSAGE = 1024


class Batch(NamedTuple):
    """Queries of this process, among the samples of all processes."""

    z: Tensor  # queries [V, N, p], of unit length
    y: Tensor  # their labels [N]
    views: Tensor  # samples of all processes [V, M, p], without gradient
    labels: Tensor  # their labels [M]
    here: slice  # the queries among the samples


class Ranks:
    """The processes of a group of torch.distributed, by default all; without one, this process."""

    def __init__(self, group: distributed.Group = None) -> None:
        if group is not None and not isinstance(group, dist.ProcessGroup):
            # torch.distributed gives a number to a process that is not in a new group.
            got = "another group" if isinstance(group, int) else type(group).__name__
            rule = "expected process_group to be a group that this process belongs to, or None"
            raise ValueError(f"{rule}, got {got}")
        self.group = group

    @property
    def size(self) -> int:
        return distributed.world_size(self.group)

    @property
    def rank(self) -> int:
        return distributed.rank(self.group)

    def __deepcopy__(self, memo: Any) -> Ranks:
        # A group cannot be copied, and is meant to be the same.
        return Ranks(self.group)

    def shares(self, num_classes: int) -> list[range]:
        """Return equal shares of the classes by rank, the last of them possibly smaller."""
        height = -(-num_classes // self.size)
        starts = range(0, num_classes, height)
        if len(starts) < self.size:
            rule = "expected a number of classes that gives every process a share"
            raise ValueError(f"{rule}, got {num_classes} classes for {self.size} processes")
        return [range(i, min(i + height, num_classes)) for i in starts]

    def require_shares(self, shares: list[range], classes: range) -> None:
        """Raise unless this process holds its share of the classes."""
        if len(shares) != self.size or classes != shares[self.rank]:
            raise RuntimeError(
                f"expected shares of the classes for {self.size} processes, got a loss built for "
                f"{len(shares)}: call torch.distributed.init_process_group before "
                "ProCoLoss(shard_classes=True)"
            )

    @untraced
    def sizes(self, n: int) -> list[int]:
        """Return the number of samples of every rank in this step; raise if a rank failed, or is
        not in this step."""
        if self.size == 1:
            return [n]
        numbers = self._exchange(n)
        if others := [rank for rank, size in enumerate(numbers) if not 0 <= size <= FAILED]:
            raise RuntimeError(
                f"expected a step of the loss on every rank, got another exchange on ranks {others}"
                ": all ranks must take the same number of steps, for example with drop_last=True"
            )
        if FAILED in numbers:
            rank, error = numbers.index(FAILED), self._messages("")[numbers.index(FAILED)]
            rule = "expected a step of the loss on every rank"
            raise RuntimeError(f"{rule}, got an error on rank {rank}: {error}")
        return numbers

    @untraced
    def fail(self, error: Exception) -> None:
        """Raise ``error`` on the other ranks, which are in `sizes`, or fail as well."""
        if self.size > 1 and all(0 <= size <= FAILED for size in self._exchange(FAILED)):
            self._messages(f"{type(error).__name__}: {error}")

    def _exchange(self, n: int) -> list[int]:
        numbers = distributed.all_gather_host(torch.tensor(n ^ STEP), self.group)
        return [number ^ STEP for number in numbers.tolist()]

    def _messages(self, text: str) -> list[str]:
        """Exchange the errors of the ranks."""
        content = text.encode()[:MESSAGE].ljust(MESSAGE, b"\0")
        message = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        rows = distributed.all_gather_host(message, self.group)
        return [bytes(row.tolist()).rstrip(b"\0").decode(errors="ignore") for row in rows]

    def gather(self, z: Tensor, y: Tensor, together: bool = True) -> Batch:
        """Gather views z [V, N, p] and labels y [N] of all ranks, or of this process alone."""
        # Samples, however many each rank has: sums of all classes would be far more.
        if not together or self.size == 1:
            return Batch(z, y, z.detach(), y, slice(None))
        sizes = self.sizes(len(y))
        first = sum(sizes[: self.rank])
        views = self.join(z.detach().movedim(1, 0), sizes).movedim(0, 1)
        return Batch(z, y, views, self.join(y, sizes), slice(first, first + len(y)))

    @untraced
    def join(self, a: Tensor, sizes: list[int]) -> Tensor:
        """Join tensors [n, ...] in the order of the ranks; ``sizes`` are n of every rank."""
        return distributed.gather(a, sizes, self.group)

    def sum(self, a: Tensor) -> Tensor:
        """Sum ``a`` over the ranks, in place."""
        return distributed.all_reduce_sum(a, self.group)

    def max(self, a: Tensor) -> Tensor:
        """Take the largest of the values of all ranks, in place."""
        return distributed.all_reduce_max(a, self.group)

    def dtensor(self, rows: Tensor, num_classes: int) -> Tensor:
        """Return the rows [K, ...] of this process as a part of the DTensor [C, ...] of all."""
        if not distributed.distributed():
            return rows
        # Here, as the import takes as long as that of this package.
        from torch.distributed.tensor import DeviceMesh, DTensor, Shard

        group = self.group or dist.group.WORLD
        assert group is not None
        mesh = DeviceMesh.from_group(group, rows.device.type)
        whole = torch.empty(num_classes, *rows.shape[1:], device="meta")
        shape, stride = whole.shape, whole.stride()
        return DTensor.from_local(
            rows, mesh, [Shard(0)], run_check=False, shape=shape, stride=stride
        )
