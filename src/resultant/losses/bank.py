r"""Running class statistics of the ProCo loss: one bank scored against and one being filled. A bank
holds the sum of the unit vectors of each class and, last, their number, in float64: the order of
the additions is lost when a direction is rounded. A class begins with a random vector of length 0.9
as a sample of weight 1e-30: the mean without samples, and below rounding next to one."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from resultant._core import distributed, validation
from resultant._core.device import kernel_module
from resultant._core.validation import COMPUTE_DTYPE
from resultant.classes.statistics import ClassState, ClassStatistics, fit_direction, fit_kappa
from resultant.losses import _batch
from resultant.losses._batch import by_view, rank_sizes
from resultant.vmf.estimators import OF_LENGTH, require_estimator

START_LENGTH, START_WEIGHT = 0.9, 1e-30
# Classes whose random starts are drawn at a time.
START_ROWS = 1 << 16
# Distance of a length from one that is more than rounding in half precision.
LENGTH_TOLERANCE = 0.05


class WideModule(nn.Module):
    """Module whose buffers move with it and keep their dtype: ``half()`` is for networks."""

    def _apply(self, fn: Any, recurse: bool = True) -> WideModule:
        kept = {name: a for name, a in self._buffers.items() if a is not None and not a.is_meta}
        super()._apply(fn, recurse)
        for name, a in kept.items():
            # Also for ``to_empty``, which would forget the settings of a loss.
            self._buffers[name] = a.to(getattr(self, name).device).contiguous()
        return self


class Snapshot(NamedTuple):
    """The bank ``old`` as seen by each of V views."""

    mu: Tensor  # directions [V, C, p]
    R: Tensor  # mean lengths [V, C]
    own_mu: Tensor | None = None  # [V, N, p] of the class of each query without it (``leave_out``)
    own_R: Tensor | None = None  # [V, N]


class ProCoBank(WideModule):
    r"""Running class statistics of ProCo: the banks ``old`` and ``new`` of controlled training.

    ``old`` holds the previous epoch and the current one so far, ``new`` only the current epoch:
    buffers [C, p + 1] of sums and counts in ``state_dict``. The samples of all ranks of
    torch.distributed enter the banks of every rank. A label outside of the classes adds nothing.

    Args:
        num_classes, dim: Number of classes C and dimension p of the unit vectors.
        estimator: ``proco``, ``mle`` or ``banerjee`` of `concentration`; kappa is at most 1e5.
        leave_out: Take each query out of its own class before it is scored.
        seed: Seed >= 0 of the random starts, which are the same on all devices and ranks.
        shard_classes: Hold a share of the classes, ``classes``, in each process (`ProCoLoss`).
        samples_per_epoch: Samples of an epoch on all ranks, of any number of views, after which an
            epoch begins by itself. None leaves epochs to `start_epoch`.

    Example:
        >>> bank = ProCoBank(3, 4)
        >>> views = bank.update(torch.eye(4)[:2], torch.tensor([0, 2]))
        >>> bank.state().count.tolist()
        [1, 0, 1]
    """

    old: Tensor
    new: Tensor
    epoch: Tensor
    noted: Tensor

    def __init__(
        self,
        num_classes: int,
        dim: int,
        *,
        estimator: str = "proco",
        leave_out: bool = False,
        seed: int = 0,
        shard_classes: bool = False,
        samples_per_epoch: int | None = None,
    ) -> None:
        super().__init__()
        require_estimator(estimator, OF_LENGTH)
        self.num_classes = validation.integer("num_classes", num_classes, 1)
        self.dim = validation.dimension(dim)
        self.estimator, self.leave_out = estimator, leave_out
        self.seed = validation.integer("seed", seed, 0)
        self.samples_per_epoch = samples_per_epoch
        if samples_per_epoch is not None:
            self.samples_per_epoch = validation.integer("samples_per_epoch", samples_per_epoch, 1)
        processes = distributed.world_size() if shard_classes else 1
        # Equal shares, the last of them possibly smaller.
        height = -(-self.num_classes // processes)
        starts = range(0, self.num_classes, height)
        if len(starts) < processes:
            rule = "expected a number of classes that gives every process a share"
            raise ValueError(f"{rule}, got {num_classes} classes for {processes} processes")
        self.shares = [range(i, min(i + height, self.num_classes)) for i in starts]
        self.classes = self.shares[distributed.rank() if shard_classes else 0]
        self.shard_classes = shard_classes
        for name in ("old", "new"):
            sums = torch.empty(len(self.classes), self.dim + 1, dtype=torch.float64)
            self.register_buffer(name, sums)
        self.register_buffer("epoch", torch.zeros((), dtype=torch.int64))
        # The row plus 2 of a vector of wrong length on a GPU, 1 for a row elsewhere; the host reads
        # a copy in pinned memory without waiting.
        self.register_buffer("noted", torch.zeros((), dtype=torch.int64), persistent=False)
        self.wrong: Tensor | None = None
        self.reset()

    def extra_repr(self) -> str:
        names = ("num_classes", "dim", "estimator", "leave_out", "samples_per_epoch")
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)

    @torch.no_grad()
    def reset(self) -> None:
        """Set both banks to the start of the first epoch."""
        # Samples of the current epoch; negative where the caller begins the epochs.
        self.seen = 0
        if self.old.is_meta:
            return
        self.epoch.zero_()
        self.noted.zero_()
        self._start(self.old, 0)
        self._start(self.new, 1)

    def start_epoch(self, epoch: int | None = None) -> None:
        """Begin an epoch, whose number may be given as to ``set_epoch`` of a sampler: copy ``new``
        to ``old`` and restart ``new``. The bank no longer begins epochs by itself; another call
        with the number of the current epoch changes nothing."""
        self.seen = -1
        current = int(self.epoch)
        following = current + 1 if epoch is None else validation.integer("epoch", epoch, 0) + 1
        if epoch is None or following != current:
            self._begin(following)

    @torch.no_grad()
    def _begin(self, epoch: int) -> None:
        self.old.copy_(self.new)
        self.epoch.fill_(epoch)
        self._start(self.new, 1)

    def advance(self, n: int) -> None:
        """Count n samples of a step of all ranks; begin an epoch if they do not fit this one."""
        size = self.samples_per_epoch
        if torch.compiler.is_compiling() or size is None or self.seen < 0:
            return
        if self.old.is_cuda and torch.cuda.is_current_stream_capturing():
            # Nothing can be counted inside a graph of the caller.
            return
        if n > size:
            self.seen = -1
            warnings.warn(
                f"expected batches within an epoch of {size} samples, got a batch of {n}: "
                "class_counts are not the numbers of training samples, and the statistics do not "
                "age; call start_epoch() before every epoch",
                stacklevel=5,
            )
            return
        # Samplers pad an epoch to a multiple of the ranks.
        ranks = distributed.world_size()
        if self.seen + n > -(-size // ranks) * ranks:
            self._begin(int(self.epoch) + 1)
            self.seen = 0
        self.seen += n

    def _start(self, bank: Tensor, which: int) -> None:
        write_starts(bank, self.classes, self.num_classes, (self.seed, int(self.epoch), which))

    def rows(self, y: Tensor) -> Tensor:
        """Return the row of each sample in the banks; -1 if its class is not held here."""
        rows = y - self.classes.start
        return rows.masked_fill_((rows < 0) | (rows >= len(self.classes)), -1)

    @torch.no_grad()
    def update(self, z: Tensor, y: Tensor) -> Snapshot:
        """Add unit vectors z [N, p] or [V, N, p] of V views with labels y [N] to both banks; return
        what each view is scored against: ``old`` with this view and the views before it."""
        _batch.require_batch(z, y, self.num_classes, self.old)
        _batch.require_unit(z)
        sizes = rank_sizes(len(y))
        self.advance(sum(sizes))
        return self.add(z, y, sizes)

    def add(self, z: Tensor, y: Tensor, sizes: list[int] | None = None) -> Snapshot:
        """Add views as `update` does, without checks and without waiting for the device."""
        views, labels, here = _batch.gather_ranks(z, y, sizes)
        dtype = COMPUTE_DTYPE[z.dtype]
        seen: list[tuple[Tensor, ...]] = []
        for view in views:
            self.accumulate(view, labels)
            seen.append(mean(self.old, dtype))
            if self.leave_out:
                seen[-1] += self.leave_one_out(view[here], self.old[self.rows(y)], dtype)
        return Snapshot(*map(torch.stack, zip(*seen, strict=True)))

    def seen_by_views(self, z: Tensor, y: Tensor) -> Snapshot:
        """Return what `add` returned for the batch that was added last."""
        views, rows, sums = by_view(z.detach()), self.rows(y), [self.old]
        for view in views[1:].flip(0):
            sums.insert(0, sums[0].index_add(0, rows.clamp_min(0), -_samples(view, rows)))
        mu, R = mean(torch.stack(sums), COMPUTE_DTYPE[z.dtype])
        if not self.leave_out:
            return Snapshot(mu, R)
        own = torch.stack([a[rows] for a in sums])
        return Snapshot(mu, R, *self.leave_one_out(views, own, COMPUTE_DTYPE[z.dtype]))

    def accumulate(self, z: Tensor, y: Tensor) -> None:
        """Add vectors z [M, p] to the rows of their labels y [M] in both banks."""
        if (kernels := _kernels(self.old)) is not None:
            banks = self.old, self.new, self.noted
            kernels.accumulate(z, y, *banks, self.classes.start, LENGTH_TOLERANCE)
        else:
            rows = self.rows(y)
            samples = _samples(z, rows)
            for bank in (self.new, self.old):
                bank.index_add_(0, rows.clamp_min(0), samples)
            if not z.is_cuda or torch.compiler.is_compiling():
                return
            off = (torch.linalg.vector_norm(z, dim=-1, dtype=torch.float64) - 1).abs()
            noted = torch.where(off > LENGTH_TOLERANCE, rows + 2, 0).amax()
            torch.maximum(self.noted, noted, out=self.noted)
        if self.wrong is None:
            # Later steps write to it, also if this one is in inference mode.
            with torch.inference_mode(False):
                self.wrong = torch.zeros((), dtype=torch.int64, device="cpu").pin_memory()
        self.wrong.copy_(self.noted, non_blocking=True)

    def leave_one_out(self, z: Tensor, own: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return mu and R of classes ``own`` [..., p + 1] without their queries z [..., p]."""
        rest = torch.cat([own[..., :-1] - z, own[..., -1:] - 1], -1)
        mu, R = mean(rest, dtype)
        # As of a random start, which is nearly orthogonal to every query.
        empty = rest[..., -1] < 0.5
        return mu.masked_fill_(empty.unsqueeze(-1), 0.0), R.masked_fill_(empty, START_LENGTH)

    def of_all_shards(self, a: Tensor) -> Tensor:
        """Join values [..., K] of the classes held by each process to those of all classes."""
        if len(self.shares) == 1:
            return a
        sizes = [len(classes) for classes in self.shares]
        return distributed.gather(a.movedim(-1, 0), sizes).movedim(0, -1)

    def kappa(self, R: Tensor) -> Tensor:
        """Return the concentrations fitted to mean lengths, at most 1e5."""
        return fit_kappa(self.dim, R, self.estimator)

    def snapshot(self, dtype: torch.dtype = torch.float32) -> Snapshot:
        """Return ``old`` as it is, for one view."""
        return Snapshot(*(a.unsqueeze(0) for a in mean(self.old, dtype)))

    def named(self, bank: str | Tensor) -> Tensor:
        """Return sums and counts [C, p + 1] of ``old`` or ``new``, or those given."""
        if isinstance(bank, Tensor):
            return bank
        if bank not in ("old", "new"):
            raise ValueError(f"expected bank to be 'old' or 'new', got {bank!r}")
        return self.old if bank == "old" else self.new

    def state(self, *, bank: str | Tensor = "old") -> ClassState:
        """Return the classes of bank ``old`` or ``new`` in float64."""
        sums = self.named(bank)
        mu, R = mean(sums, torch.float64)
        return ClassState(mu, self.kappa(R), sums[..., -1].round().long(), validate_args=False)

    def statistics(self, *, bank: str | Tensor = "old") -> ClassStatistics:
        """Return a copy of the sums of a bank; the start of a class is part of its weight."""
        total, weight = self.named(bank).clone().split([self.dim, 1], -1)
        weight = weight.squeeze(-1)
        return ClassStatistics.of(total=total, weight=weight, count=weight.round().long())

    def require_lengths(self) -> None:
        """Raise if a step that the device has finished had a vector of another length than one."""
        if self.wrong is None or not (row := int(self.wrong)):
            return
        self.wrong.zero_()
        self.noted.zero_()
        name = f" in {self.class_name(self.classes.start + row - 2)}" if row > 1 else ""
        raise validation.DivergedError(
            f"expected unit vectors z in all steps so far, got another length{name} (a vector of "
            "zeros has no direction; normalize after casting to float32)"
        )

    def class_name(self, c: int) -> str:
        """Name a class in an error."""
        return f"class {c}"

    def __getstate__(self) -> dict[str, Any]:
        # A copy of pinned memory would not be pinned.
        return {**self.__dict__, "wrong": None}

    def _apply(self, fn: Any, recurse: bool = True) -> WideModule:
        empty = self.old.is_meta
        super()._apply(fn, recurse)
        if empty and not self.old.is_meta:
            # Made on the meta device, and now on a real one.
            self.reset()
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "seen"] = torch.tensor(self.seen, device="cpu")
        if self.shard_classes:
            for name in (prefix + "old", prefix + "new"):
                destination[name] = _batch.sharded(destination[name], self.num_classes)

    def _load_from_state_dict(  # type: ignore[override]
        self, state_dict: Any, prefix: str, *rest: Any
    ) -> None:
        state_dict = dict(state_dict)
        for name in {prefix + "old", prefix + "new"} & state_dict.keys():
            # Split by class, or whole.
            rows = state_dict[name]
            rows = rows.full_tensor() if hasattr(rows, "full_tensor") else rows
            if rows.shape[:1] == (self.num_classes,):
                rows = rows[self.classes.start : self.classes.stop]
            # The kernels read rows one after the other, also of a tensor that is assigned.
            state_dict[name] = rows.contiguous()
        seen, epoch = state_dict.pop(prefix + "seen", None), state_dict.get(prefix + "epoch")
        super()._load_from_state_dict(state_dict, prefix, *rest)
        if epoch is not None:
            # In a state without this number, an epoch was begun by the caller or not at all.
            self.seen = (-1 if int(epoch) else 0) if seen is None else int(seen)


def mean(sums: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return directions [..., p] in a dtype and mean lengths [...] of sums and counts."""
    if (kernels := _kernels(sums)) is None:
        mu, R = fit_direction(sums[..., :-1], sums[..., -1])
        return mu.to(dtype), R
    *shape, width = sums.shape
    mu, R = sums.new_empty(*shape, width - 1, dtype=dtype), sums.new_empty(shape)
    kernels.mean(sums, mu, R)
    return mu, R


def _kernels(sums: Tensor) -> ModuleType | None:
    """Return the fused kernels of float64 sums on a GPU; None where torch computes."""
    if not sums.is_cuda or sums.dtype != torch.float64 or torch.compiler.is_compiling():
        return None
    return kernel_module("resultant.losses._bank_kernel")


def write_starts(rows: Tensor, classes: range, num_classes: int, entropy: tuple[int, ...]) -> None:
    """Write the starts of ``classes`` into rows [K, p + 1], fixed by seed, epoch and bank."""
    rows[:, -1] = START_WEIGHT
    mixed = np.random.SeedSequence(entropy).generate_state(1, np.uint64)
    generator = torch.Generator("cpu").manual_seed(int(mixed[0] >> np.uint64(1)))
    # All classes are drawn, so that any share of them is the same.
    for left in range(0, num_classes, START_ROWS):
        right = min(left + START_ROWS, num_classes)
        # Not in the default dtype, in which other numbers would be drawn.
        options = {"generator": generator, "dtype": torch.float32, "device": "cpu"}
        u = torch.randn(right - left, rows.shape[1] - 1, **options)
        first, last = max(left, classes.start), min(right, classes.stop)
        if first < last:
            u = u[first - left : last - left].double()
            u = START_WEIGHT * START_LENGTH * u / u.norm(dim=-1, keepdim=True)
            rows[first - classes.start : last - classes.start, :-1] = u.to(rows.device)


def _samples(z: Tensor, rows: Tensor) -> Tensor:
    """Return vectors z [M, p] and counts as [M, p + 1] in float64, zero for rows below zero."""
    counted = functional.pad(z.double(), (0, 1), value=1.0)
    return counted.masked_fill_((rows < 0).unsqueeze(-1), 0.0)
