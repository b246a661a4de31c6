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
from resultant._core.arrays import require_features, shape_of
from resultant._core.validation import COMPUTE_DTYPE
from resultant.classes.statistics import ClassState, ClassStatistics, capped_concentration
from resultant.losses._means import bank_kernels, mean, write_mean
from resultant.losses._off_length import LENGTH_TOLERANCE, OffLength
from resultant.losses._shards import rows_of, sharded, shares
from resultant.losses._views import by_view, require_view_labels
from resultant.vmf.estimators import OF_LENGTH

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
        mu: Directions [V, *lead, C, p].
        R: Mean lengths [V, *lead, C].
        own_mu: With ``leave_out``, directions [V, *lead, N, p] of the class of each query without
            the query.
        own_R: With ``leave_out``, mean lengths [V, *lead, N] of these classes.
        kappa: Concentrations [V, *lead, C], where they have been computed with the rest.
    """

    mu: Tensor
    R: Tensor
    own_mu: Tensor | None = None
    own_R: Tensor | None = None
    kappa: Tensor | None = None


class Banks(WideModule):
    """The banks ``old`` and ``new`` [*lead, C, p + 1] of sums and, last, counts.

    ``lead`` is () for one loss and (R,) for R runs trained together. ``seeds`` has one seed per
    pair of banks. With ``shard_classes`` the banks hold the rows of ``classes``, the share of this
    process, and ``shares`` are those of all processes.
    """

    old: Tensor
    new: Tensor
    epoch: Tensor

    def __init__(
        self,
        num_classes: int,
        dim: int,
        estimator: str,
        leave_out: bool,
        lead: tuple[int, ...],
        seeds: tuple[int, ...],
        *,
        shard_classes: bool = False,
    ) -> None:
        super().__init__()
        if estimator not in OF_LENGTH:
            raise ValueError(f"expected estimator to be one of {OF_LENGTH}, got {estimator!r}")
        self.num_classes = validation.integer("num_classes", num_classes, 1)
        self.dim = validation.dimension(dim)
        self.estimator, self.leave_out, self.lead = estimator, leave_out, lead
        self.seeds = tuple(validation.integer("seed", seed, 0) for seed in seeds)
        self.shares = shares(self.num_classes) if shard_classes else [range(self.num_classes)]
        self.classes = self.shares[distributed.rank() if shard_classes else 0]
        self.shard_classes = shard_classes
        shape = (*lead, len(self.classes), self.dim + 1)
        for name in ("old", "new"):
            self.register_buffer(name, torch.empty(shape, dtype=torch.float64))
        self.register_buffer("epoch", torch.zeros((), dtype=torch.int64))
        self.off_length = OffLength(max(1, len(seeds)))
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
        epoch = int(self.epoch)
        bank[..., -1] = START_WEIGHT
        for run, seed in zip(bank.view(-1, *bank.shape[-2:]), self.seeds, strict=True):
            mixed = np.random.SeedSequence([seed, epoch, which]).generate_state(1, np.uint64)
            generator = torch.Generator().manual_seed(int(mixed[0] >> np.uint64(1)))
            # All classes are drawn, and those held here are kept. The last draw takes the rest: one
            # of fewer than 16 numbers would not continue the sequence.
            *lefts, end = *range(0, self.num_classes - START_ROWS + 1, START_ROWS), self.num_classes
            lefts = lefts or [0]
            for left, right in zip(lefts, [*lefts[1:], end], strict=True):
                u = torch.randn(right - left, self.dim, generator=generator)
                first, last = max(left, self.classes.start), min(right, self.classes.stop)
                if first < last:
                    u = u[first - left : last - left].double()
                    u = START_WEIGHT * START_LENGTH * u / u.norm(dim=-1, keepdim=True)
                    held = slice(first - self.classes.start, last - self.classes.start)
                    run[held, :-1] = u.to(bank.device)

    def rows(self, y: Tensor) -> Tensor:
        """Return the row of each sample in the banks flattened to [rows, p + 1].

        Samples of classes that another process holds have the row 0.
        """
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
            z: Unit vectors [*lead, N, p] or [V, *lead, N, p], as accepted by `require_batch`.
            y: Labels [N] or [*lead, N] of every view.

        Returns:
            For each view, ``old`` with this view and the views before it. Nothing waits for the
            device.
        """
        views, all_y, here = self.collect(z, y)
        samples, rows = self.samples(views, all_y)
        dtype = COMPUTE_DTYPE[z.dtype]
        mu = z.new_empty(len(views), *self.old.shape[:-1], self.dim, dtype=dtype)
        R = self.old.new_empty(mu.shape[:-1])
        kernels = bank_kernels(self.old) if self.estimator == "proco" else None
        kappa = None if kernels is None else torch.empty_like(R)
        own, queries, own_rows = None, views[..., here, :], self.rows(y)
        if self.leave_out:
            own = z.new_empty(queries.shape, dtype=dtype), R.new_empty(queries.shape[:-1])
        for v in range(len(views)):
            old = self.enter(samples[v], rows)
            if kernels is not None and kappa is not None:
                kernels.mean(self.old, mu[v], R[v], kappa[v])
            else:
                write_mean(self.old, mu[v], R[v])
            if own is not None:
                self.write_without(queries[v], old[own_rows], own[0][v], own[1][v])
        return Snapshot(mu, R, *(own or (None, None)), kappa=kappa)

    def collect(self, z: Tensor, y: Tensor) -> tuple[Tensor, Tensor, slice]:
        """Return views [V, *lead, N, p] and labels of all ranks, and the place of these queries
        among them.

        Ranks exchange their samples, however many each has: sums of all classes would be far more.
        """
        views = by_view(z.detach(), self.lead)
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
            return views.flatten(1, -2), rows if inside is None else rows.where(inside, -1)
        samples = views.new_ones(*views.shape[:-1], self.dim + 1, dtype=torch.float64)
        samples[..., :-1] = views
        samples = samples.flatten(1, -2)
        if (inside := self.inside(y)) is not None:
            samples.masked_fill_(~inside.unsqueeze(-1), 0.0)
        return samples, self.rows(y)

    def enter(self, samples: Tensor, rows: Tensor) -> Tensor:
        """Add `samples` of a view to rows [M] of both banks; return ``old`` as [rows, p + 1]."""
        new, old = (bank.view(-1, self.dim + 1) for bank in (self.new, self.old))
        if (kernels := bank_kernels(samples)) is not None:
            kernels.enter(samples, rows, old, new, self.off_length.host, LENGTH_TOLERANCE)
            return old
        for bank in (new, old):
            bank.index_add_(0, rows, samples)
        return old

    def write_without(self, z: Tensor, own: Tensor, mu: Tensor, R: Tensor) -> None:
        """Write directions and mean lengths of the classes ``own`` of the queries, each without its
        query.

        A class that is empty without the query gets the length of the random start, and a direction
        orthogonal to every query (zero), as a random one nearly is.
        """
        own = own.view(*z.shape[:-1], self.dim + 1)
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
        require_view_labels(y, z.shape[-2], self.num_classes, self.lead, self.old.device)

    def require(self, z: Tensor) -> None:
        """Raise unless ``z`` holds unit vectors [*lead, N, p] or [V, *lead, N, p]."""
        rank = len(self.lead) + 2
        if (
            not isinstance(z, Tensor)
            or z.dim() not in (rank, rank + 1)
            or z.shape[-1] != self.dim
            or z.shape[-rank:-2] != self.lead
        ):
            shape = "".join(f"{n}, " for n in self.lead) + f"N, {self.dim}"
            raise ValueError(f"expected z [{shape}] or [V, {shape}], got {shape_of(z)}")
        require_features(z.reshape(-1, self.dim), self.dim, self.old.device, None)


class ProCoBank(Banks):
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
        super().__init__(
            *(num_classes, dim, estimator, leave_out, (), (seed,)), shard_classes=shard_classes
        )

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


@torch.compiler.disable()
def _over_ranks(views: Tensor, y: Tensor) -> tuple[Tensor, Tensor, slice]:
    """Join views [V, ..., N, p] and labels [..., N] of all ranks along N."""
    sizes = distributed.numbers(views.shape[-2])
    views = distributed.gather(views.movedim(-2, 0), sizes).movedim(0, -2)
    y = distributed.gather(y.movedim(-1, 0), sizes).movedim(0, -1)
    first = sum(sizes[: distributed.rank()])
    return views, y, slice(first, first + sizes[distributed.rank()])
