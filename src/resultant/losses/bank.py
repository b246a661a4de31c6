r"""Running class statistics of the ProCo loss: one bank scored against and one being filled.

A bank holds the sum of the unit vectors of each class and their number. The mean of a class, its
direction :math:`\mu_c` and its length :math:`R_c` are those of a running mean, while an update
touches only the classes of the batch. The sums are float64: the order of the additions differs
between devices and numbers of processes, and this difference is lost when a direction is rounded to
float32; :math:`1-R_c` keeps its digits over any number of samples.

A class without samples starts at a random vector of length 0.9. The start counts as a sample of
weight 1e-30: without samples it is the mean, and next to one sample it is below rounding.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from resultant._core import distributed, validation
from resultant._core.arrays import require_features, require_labels, shape_of
from resultant._core.compilation import untraced
from resultant._core.validation import COMPUTE_DTYPE
from resultant.classes.statistics import ClassState, ClassStatistics, capped_concentration
from resultant.losses._means import bank_kernels, mean, write_mean
from resultant.losses._off_length import LENGTH_TOLERANCE, OffLength
from resultant.losses._shards import rows_of, sharded, shares
from resultant.losses._views import by_view
from resultant.vmf.estimators import OF_LENGTH, require_estimator

START_LENGTH = 0.9
START_WEIGHT = 1e-30
# Classes whose random starts are drawn at a time; a multiple of 16.
START_ROWS = 1 << 16


class WideModule(nn.Module):
    """Module whose buffers move with it and keep their dtype: ``half()`` is for networks."""

    def _apply(self, fn: Any, recurse: bool = True) -> WideModule:
        kept = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, a in kept.items():
            moved = self._buffers[name]
            self._buffers[name] = a if a is None or moved is None else a.to(moved.device)
        return self


class Snapshot(NamedTuple):
    """The bank ``old`` as seen by each of V views.

    Attributes:
        mu: Directions [V, C, p].
        R: Mean lengths [V, C].
        own_mu: With ``leave_out``, directions [V, N, p] of the class of each query without the
            query.
        own_R: With ``leave_out``, mean lengths [V, N] of these classes.
        kappa: Concentrations [V, C], where they have been computed with the rest.
    """

    mu: Tensor
    R: Tensor
    own_mu: Tensor | None = None
    own_R: Tensor | None = None
    kappa: Tensor | None = None


class ProCoBank(WideModule):
    r"""Running class statistics of ProCo: the banks ``old`` and ``new`` of controlled training.

    ``old`` holds the previous epoch and the current one so far, ``new`` only the current epoch.
    Both are buffers [C, p + 1] of sums and, last, counts, and part of ``state_dict``. Under
    torch.distributed the samples of all ranks, however many each has, enter the banks of every
    rank.

    Args:
        num_classes: Number of classes C.
        dim: Dimension p of the unit vectors.
        estimator: Estimator of kappa from R: ``proco`` is :math:`pR/(1-R^2)`, at most 1e5; ``mle``
            and ``banerjee`` are those of `concentration`.
        leave_out: Take each query out of its own class before it is scored.
        seed: Seed >= 0 of the random starts. Seed and epoch fix the starts on all devices and
            ranks.
        shard_classes: Hold a share of the classes in each process; see `ProCoLoss`. `state` and
            `statistics` are then those of ``classes``, the share of this process.

    Raises:
        ValueError: For an unknown estimator, or sizes or a seed out of range.

    Example:
        >>> import torch
        >>> from resultant import ProCoBank
        >>> bank = ProCoBank(3, 4)
        >>> views = bank.update(torch.eye(4)[:2], torch.tensor([0, 2]))
        >>> bank.state().count.tolist()
        [1, 0, 1]
    """

    old: Tensor
    new: Tensor
    epoch: Tensor

    def __init__(
        self,
        num_classes: int,
        dim: int,
        *,
        estimator: str = "proco",
        leave_out: bool = False,
        seed: int = 0,
        shard_classes: bool = False,
    ) -> None:
        super().__init__()
        require_estimator(estimator, OF_LENGTH)
        self.num_classes = validation.integer("num_classes", num_classes, 1)
        self.dim = validation.dimension(dim)
        self.estimator, self.leave_out = estimator, leave_out
        self.seed = validation.integer("seed", seed, 0)
        self.shares = shares(self.num_classes) if shard_classes else [range(self.num_classes)]
        self.classes = self.shares[distributed.rank() if shard_classes else 0]
        self.shard_classes = shard_classes
        for name in ("old", "new"):
            sums = torch.empty(len(self.classes), self.dim + 1, dtype=torch.float64)
            self.register_buffer(name, sums)
        self.register_buffer("epoch", torch.zeros((), dtype=torch.int64))
        self.off_length = OffLength()
        self.reset()

    def extra_repr(self) -> str:
        shape = f"num_classes={self.num_classes}, dim={self.dim}"
        return f"{shape}, estimator={self.estimator!r}, leave_out={self.leave_out}"

    @torch.no_grad()
    def reset(self) -> None:
        """Set both banks to the start of the first epoch."""
        self.epoch.zero_()
        self._start(self.old, 0)
        self._start(self.new, 1)

    @torch.no_grad()
    def start_epoch(self) -> None:
        """Copy ``new`` to ``old`` and restart ``new``. Call this once before every epoch."""
        self.old.copy_(self.new)
        self.epoch += 1
        self._start(self.new, 1)

    def _start(self, bank: Tensor, which: int) -> None:
        write_starts(bank, self.classes, self.num_classes, (self.seed, int(self.epoch), which))

    def rows(self, y: Tensor) -> Tensor:
        """Return the row of each sample in the banks; 0 if another process holds its class."""
        inside = self.inside(y)
        return y if inside is None else torch.where(inside, y - self.classes.start, 0)

    def inside(self, y: Tensor) -> Tensor | None:
        """Mark the labels of classes held here; None if all are."""
        if len(self.classes) == self.num_classes:
            return None
        return (y >= self.classes.start) & (y < self.classes.stop)

    def add(self, z: Tensor, y: Tensor) -> Snapshot:
        """Add the views of a batch in turn to both banks.

        Args:
            z: Unit vectors [N, p] or [V, N, p], as accepted by `require_batch`.
            y: Labels [N] of every view.

        Returns:
            For each view, ``old`` with this view and the views before it. Nothing waits for the
            device.
        """
        views, all_y, here = self.collect(z, y)
        samples, rows = self.samples(views, all_y)
        old, number, dtype = self.old, views.shape[0], COMPUTE_DTYPE[z.dtype]
        mu = old.new_empty(number, old.shape[0], self.dim, dtype=dtype)
        R = old.new_empty(number, old.shape[0])
        kernels = bank_kernels(old) if self.estimator == "proco" else None
        kappa = None if kernels is None else torch.empty_like(R)
        queries, own = views, None
        if self.leave_out:
            queries = views[:, here]
            own = z.new_empty(queries.shape, dtype=dtype), R.new_empty(queries.shape[:-1])
        for v in range(number):
            self.enter(samples, rows, v)
            if kernels is not None:
                kernels.mean(old, mu, R, kappa, v)
            else:
                write_mean(old, mu[v], R[v])
            if own is not None:
                self.write_without(queries[v], old[self.rows(y)], own[0][v], own[1][v])
        return Snapshot(mu, R, *(own or (None, None)), kappa=kappa)

    def collect(self, z: Tensor, y: Tensor) -> tuple[Tensor, Tensor, slice]:
        """Return views [V, N, p] and labels of all ranks, and the place of these queries among
        them.

        Ranks exchange their samples, however many each has: sums of all classes would be far more.
        """
        views = by_view(z.detach() if z.requires_grad else z)
        if distributed.world_size() == 1:
            return views, y, slice(None)
        return _over_ranks(views, y)

    def samples(self, views: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the samples that views add to the banks, and their rows [M] in the banks.

        The samples are [V, M, p + 1] with counts, or vectors [V, M, p] for a fused kernel. Samples
        of other processes are zero or have the row -1.
        """
        if bank_kernels(views) is not None:
            inside, rows = self.inside(y), self.rows(y)
            return views.contiguous(), rows if inside is None else rows.where(inside, -1)
        samples = views.new_ones(*views.shape[:-1], self.dim + 1, dtype=torch.float64)
        samples[..., :-1] = views
        if (inside := self.inside(y)) is not None:
            samples.masked_fill_(~inside.unsqueeze(-1), 0.0)
        return samples, self.rows(y)

    def enter(self, samples: Tensor, rows: Tensor, view: int) -> None:
        """Add the `samples` of one view to rows [M] of both banks."""
        if (kernels := bank_kernels(samples)) is not None:
            host = self.off_length.host
            kernels.enter(samples, rows, self.old, self.new, host, LENGTH_TOLERANCE, view)
            return
        for bank in (self.new, self.old):
            bank.index_add_(0, rows, samples[view])

    def write_without(self, z: Tensor, own: Tensor, mu: Tensor, R: Tensor) -> None:
        """Write directions and mean lengths of the classes ``own`` of the queries, each without its
        query.

        A class that is empty without the query gets the length of the random start, and a direction
        orthogonal to every query (zero), as a random one nearly is.
        """
        rest = torch.cat([own[..., :-1] - z, own[..., -1:] - 1], -1)
        write_mean(rest, mu, R)
        empty = rest[..., -1] < 0.5
        mu.masked_fill_(empty.unsqueeze(-1), 0.0)
        R.masked_fill_(empty, START_LENGTH)

    def of_all_shards(self, a: Tensor) -> Tensor:
        """Join values [..., K] of the classes held by each process to those of all classes."""
        if len(self.shares) == 1:
            return a
        sizes = [len(classes) for classes in self.shares]
        return distributed.gather(a.movedim(-1, 0), sizes).movedim(0, -1)

    def concentrations(self, snapshot: Snapshot) -> Tensor:
        """Return the concentrations of a snapshot."""
        return self.kappa(snapshot.R) if snapshot.kappa is None else snapshot.kappa

    def kappa(self, R: Tensor) -> Tensor:
        """Return the concentrations fitted to mean lengths, at most 1e5."""
        # The mean of rounded unit vectors may be a rounding longer than one.
        return capped_concentration(self.dim, R.clamp_max(1), self.estimator)

    def snapshot(self, dtype: torch.dtype = torch.float32) -> Snapshot:
        """Return ``old`` as it is, for one view."""
        mu, R = mean(self.old, dtype)
        return Snapshot(mu.unsqueeze(0), R.unsqueeze(0))

    def state_of(self, sums: Tensor) -> ClassState:
        """Return the classes of sums and counts [C, p + 1], in float64."""
        mu, R = mean(sums)
        return ClassState(mu, self.kappa(R), sums[..., -1].round().long(), validate_args=False)

    def statistics_of(self, sums: Tensor) -> ClassStatistics:
        """Copy sums and counts [C, p + 1]; the start of a class is part of its weight."""
        statistics = ClassStatistics(len(sums), self.dim, device=sums.device)
        statistics.total.copy_(sums[:, :-1])
        statistics.weight.copy_(sums[:, -1])
        statistics.count.copy_(sums[:, -1].round())
        return statistics

    def named(self, bank: str) -> Tensor:
        """Return the sums of ``old`` or ``new``."""
        if bank not in ("old", "new"):
            raise ValueError(f"expected bank to be 'old' or 'new', got {bank!r}")
        return self.old if bank == "old" else self.new

    def require_batch(self, z: Tensor, y: Tensor) -> None:
        """Raise unless `add` takes ``z`` and the labels ``y``."""
        self.require(z)
        if not z.shape[-2]:
            raise ValueError("expected a batch of one sample or more, got an empty batch: skip it")
        require_labels(y, z.shape[-2], self.num_classes, self.old.device, None)

    def require(self, z: Tensor) -> None:
        """Raise unless ``z`` holds unit vectors [N, p] or [V, N, p]."""
        if not isinstance(z, Tensor) or z.dim() not in (2, 3) or z.shape[-1] != self.dim:
            shape = f"N, {self.dim}"
            raise ValueError(f"expected z [{shape}] or [V, {shape}], got {shape_of(z)}")
        flat = z if z.dim() == 2 else z.detach().flatten(0, 1)
        require_features(flat, self.dim, self.old.device, None)

    def require_lengths(self) -> None:
        """Raise if a step that the device has finished had a vector of another length than one."""
        if (wrong := self.off_length.take()) is None:
            return
        distance, row = wrong
        # A row below zero is of a class that another process holds.
        name = f" in {self.class_name(self.classes.start + row)}" if row >= 0 else ""
        raise validation.DivergedError(
            f"expected unit vectors z in all steps so far, got a length that is {distance:.3g} "
            f"away from one{name} (a vector of zeros has no direction; normalize after casting to "
            "float32)"
        )

    def class_name(self, c: int) -> str:
        """Name a class in an error."""
        return f"class {c}"

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.shard_classes:
            for name in ("old", "new"):
                rows = destination[prefix + name]
                destination[prefix + name] = sharded(rows, self.num_classes)

    def _load_from_state_dict(  # type: ignore[override]
        self, state_dict: Any, prefix: str, *rest: Any
    ) -> None:
        for name in (prefix + "old", prefix + "new"):
            if name in state_dict:
                rows = rows_of(state_dict[name], self.classes, self.num_classes)
                state_dict = {**state_dict, name: rows}
        super()._load_from_state_dict(state_dict, prefix, *rest)

    @torch.no_grad()
    def update(self, z: Tensor, y: Tensor) -> Snapshot:
        """Add views to both banks.

        Args:
            z: Unit vectors [N, p] or, for V views, [V, N, p].
            y: Labels [N] of every view.

        Returns:
            The classes that each view is scored against: ``old`` with this view and the views
            before it.

        Raises:
            ValueError: For other shapes or dtypes and, on the CPU, for other lengths or labels.
        """
        self.require_batch(z, y)
        return self.add(z, y)

    def state(self, *, bank: str = "old") -> ClassState:
        """Return the classes of bank ``old`` or ``new`` in float64."""
        return self.state_of(self.named(bank))

    def statistics(self, *, bank: str = "old") -> ClassStatistics:
        """Return a copy of the sums of a bank; the start of a class is part of its weight."""
        return self.statistics_of(self.named(bank))


@untraced
def _over_ranks(views: Tensor, y: Tensor) -> tuple[Tensor, Tensor, slice]:
    """Join views [V, N, p] and labels [N] of all ranks."""
    sizes = distributed.numbers(len(y))
    views = distributed.gather(views.movedim(1, 0), sizes).movedim(0, 1)
    y = distributed.gather(y, sizes)
    first = sum(sizes[: distributed.rank()])
    return views, y, slice(first, first + sizes[distributed.rank()])


def write_starts(
    rows: Tensor, classes: range, num_classes: int, entropy: tuple[int, int, int]
) -> None:
    """Write the random starts of ``classes`` into rows [K, p + 1] of a bank.

    Args:
        rows: Sums and counts to write.
        classes: Classes of the rows.
        num_classes: Number of all classes. All are drawn, so that any share of them is the same.
        entropy: Seed, epoch and bank, which fix the starts.
    """
    rows[:, -1] = START_WEIGHT
    mixed = np.random.SeedSequence(entropy).generate_state(1, np.uint64)
    generator = torch.Generator().manual_seed(int(mixed[0] >> np.uint64(1)))
    # The last draw takes the rest: one of fewer than 16 numbers would not continue the sequence.
    *lefts, end = *range(0, num_classes - START_ROWS + 1, START_ROWS), num_classes
    lefts = lefts or [0]
    for left, right in zip(lefts, [*lefts[1:], end], strict=True):
        u = torch.randn(right - left, rows.shape[1] - 1, generator=generator)
        first, last = max(left, classes.start), min(right, classes.stop)
        if first < last:
            u = u[first - left : last - left].double()
            u = START_WEIGHT * START_LENGTH * u / u.norm(dim=-1, keepdim=True)
            held = slice(first - classes.start, last - classes.start)
            rows[held, :-1] = u.to(rows.device)
