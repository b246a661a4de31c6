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
from torch import Tensor
from torch.nn import functional

from resultant._core import validation
from resultant._core.device import kernel_module
from resultant._core.distributed import Group
from resultant._core.validation import COMPUTE_DTYPE
from resultant.classes.statistics import ClassState, ClassStatistics
from resultant.losses.batch import by_view, require_batch, require_unit
from resultant.losses.late_errors import LateErrors
from resultant.losses.module import WideModule
from resultant.losses.ranks import Batch, Ranks
from resultant.vmf.estimators import OF_LENGTH, fit_direction, fit_kappa, require_estimator

START_LENGTH, START_WEIGHT = 0.9, 1e-30
# Classes whose random starts are drawn at a time, from a generator of their own.
START_ROWS = 1 << 13
# Distance of a length from one that is more than rounding in half precision.
LENGTH_TOLERANCE = 0.05


class Snapshot(NamedTuple):
    """The bank ``old`` as seen by each of V views."""

    mu: Tensor  # directions [V, C, p]
    R: Tensor  # mean lengths [V, C]
    own_mu: Tensor | None = None  # [V, N, p] of the class of each query without it (``leave_out``)
    own_R: Tensor | None = None  # [V, N]


class ProCoBank(WideModule):
    r"""Running class statistics of ProCo: the banks ``old`` and ``new`` of controlled training.

    ``old`` holds the previous epoch and the current one so far, ``new`` only the current epoch:
    sums and counts [C, p + 1] in ``state_dict``. The samples of all ranks of torch.distributed
    enter the banks of every rank. A label outside of the classes adds nothing, and neither does a
    vector without a direction.

    Args:
        num_classes, dim: Number of classes C and dimension p of the unit vectors.
        estimator: ``proco``, ``mle`` or ``banerjee`` of `concentration`; the kappa of one sample is
            finite, as in `ClassStatistics`.
        leave_out: Take each query out of its own class before it is scored.
        seed: Seed >= 0 of the random starts, which are the same on all devices and ranks.
        shard_classes: Hold a share of the classes, ``classes``, in each process (`ProCoLoss`).
        samples_per_epoch: Samples of an epoch on all ranks, of any number of views, after which an
            epoch begins by itself. None leaves epochs to `start_epoch`.
        process_group: Processes that share the statistics, by default all.

    Example:
        >>> bank = ProCoBank(3, 4)
        >>> views = bank.update(torch.eye(4)[:2], torch.tensor([0, 2]))
        >>> bank.state().count.tolist()
        [1, 0, 1]
    """

    old: Tensor
    new: Tensor
    epoch: Tensor
    ignored: Tensor

    @torch.inference_mode(False)
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
        process_group: Group = None,
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
        self.ranks, self.shard_classes = Ranks(process_group), shard_classes
        self.shares = [range(self.num_classes)]
        if shard_classes:
            self.shares = self.ranks.shares(self.num_classes)
        self.classes = self.shares[self.ranks.rank if shard_classes else 0]
        self.here = slice(self.classes.start, self.classes.stop)
        for name in ("old", "new"):
            sums = torch.empty(len(self.classes), self.dim + 1, dtype=torch.float64)
            if shard_classes:
                # No buffer: DistributedDataParallel copies the buffers of rank 0 to other ranks.
                setattr(self, name, sums)
            else:
                self.register_buffer(name, sums)
        self.register_buffer("epoch", torch.zeros((), dtype=torch.int64))
        # Samples without a class among those that are counted in ``seen``.
        self.register_buffer("ignored", torch.zeros((), dtype=torch.int64), persistent=False)
        self.errors = LateErrors(self.num_classes)
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
        for a in (self.epoch, self.ignored):
            a.zero_()
        self.errors.reset()
        self._start(self.old, 0, 0)
        self._start(self.new, 0, 1)

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
        self._start(self.new, epoch, 1)

    def _start(self, bank: Tensor, epoch: int, which: int) -> None:
        write_starts(bank, self.classes, self.num_classes, (self.seed, epoch, which))

    def advance(self, labels: Tensor, has_ignored: bool = False) -> None:
        """Count the samples of a step of all ranks, without those of labels < 0 if some may be;
        begin an epoch if the samples do not fit this one."""
        size, ranks, n = self.samples_per_epoch, self.ranks.size, len(labels)
        if torch.compiler.is_compiling() or size is None or self.seen < 0:
            return
        if self.old.is_cuda and torch.cuda.is_current_stream_capturing():
            # Nothing can be counted inside a graph of the caller.
            return
        # Samplers pad an epoch to a multiple of the ranks.
        most = -(-size // ranks) * ranks
        if has_ignored and self.seen + n <= most:
            self.ignored += (labels < 0).sum()
        elif has_ignored:
            # Waits for the device, a few times per epoch: what is left at least halves in between.
            n -= int((labels < 0).sum())
            self.seen -= int(self.ignored)
            self.ignored.zero_()
        wrong = None
        if n > size:
            wrong = f"batches within an epoch of {size} samples, got a batch of {n}: class_counts "
            wrong += "are not the numbers of training samples"
        elif self.seen == 0 and n <= ranks and size % ranks:
            # A padded epoch has one step more than one whose rest is dropped.
            wrong = f"more than one sample per rank and step, or an epoch of {size} samples that "
            wrong += f"is a multiple of the {ranks} ranks: the end of an epoch is unknown"
        if wrong:
            self.seen = -1
            remedy = "the statistics do not age; call start_epoch() before every epoch"
            warnings.warn(f"expected {wrong}, and {remedy}", stacklevel=5)
            return
        if self.seen + n > most:
            self._begin(int(self.epoch) + 1)
            self.seen = 0
        self.seen += n

    def rows(self, y: Tensor) -> Tensor:
        """Return the row of each sample in the banks; -1 if its class is not held here."""
        rows = y - self.classes.start
        return rows.masked_fill_((rows < 0) | (rows >= len(self.classes)), -1)

    @torch.no_grad()
    def update(self, z: Tensor, y: Tensor) -> Snapshot:
        """Add unit vectors z [N, p] or [V, N, p] of V views with labels y [N] to both banks; return
        what each view is scored against: ``old`` with this view and the views before it."""
        try:
            self.raise_known_errors()
            require_batch(z, y, self.num_classes, self.old)
            require_unit(z)
        except Exception as error:
            self.ranks.fail(error)
            raise
        batch = self.ranks.gather(by_view(z), y)
        self.advance(batch.labels)
        seen = self.add(batch)
        self.errors.publish()
        return seen

    def add(self, batch: Batch) -> Snapshot:
        """Add views as `update` does, without checks and without waiting for the device."""
        dtype, rows = COMPUTE_DTYPE[batch.z.dtype], self.rows(batch.y)
        seen: list[tuple[Tensor, ...]] = []
        for view in batch.views:
            self.accumulate(view, batch.labels)
            seen.append(mean(self.old, dtype))
            if self.leave_out:
                own = self.old[rows.clamp_min(0)]
                seen[-1] += self.leave_one_out(view[batch.here], own, rows < 0, dtype)
        return Snapshot(*map(torch.stack, zip(*seen, strict=True)))

    def accumulate(self, z: Tensor, y: Tensor) -> None:
        """Add vectors z [M, p] to the rows of their labels y [M] in both banks; a vector of another
        length than one, or of NaN, is noted instead."""
        if (kernels := _kernels(self.old)) is not None:
            noted, start = self.errors.noted, self.classes.start
            kernels.accumulate(z, y, self.old, self.new, noted, start, LENGTH_TOLERANCE)
        elif len(z):
            samples, rows = functional.pad(z.double(), (0, 1), value=1.0), self.rows(y)
            lengths = torch.linalg.vector_norm(samples[:, :-1], dim=-1)
            off = ~((lengths - 1).abs() <= LENGTH_TOLERANCE)
            self.errors.note_lengths(torch.where(rows < 0, -1, y), off)
            samples = samples.masked_fill_((off | (rows < 0)).unsqueeze(-1), 0.0)
            for bank in (self.new, self.old):
                bank.index_add_(0, rows.clamp_min(0), samples)

    def leave_one_out(
        self, z: Tensor, own: Tensor, absent: Tensor, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Return mu and R of classes ``own`` [..., p + 1] without their queries z [..., p], of
        which some are ``absent`` [N] from all classes."""
        rest = torch.cat([own[..., :-1] - z, own[..., -1:] - 1], -1)
        mu, R = mean(rest, dtype)
        # As of a random start, which is nearly orthogonal to every query.
        empty = absent | (rest[..., -1] < 0.5)
        return mu.masked_fill_(empty.unsqueeze(-1), 0.0), R.masked_fill_(empty, START_LENGTH)

    def of_all_shards(self, a: Tensor) -> Tensor:
        """Join values [..., K] of the classes held by each process to those of all classes."""
        if len(self.shares) == 1:
            return a
        sizes = [len(classes) for classes in self.shares]
        return self.ranks.join(a.movedim(-1, 0), sizes).movedim(0, -1)

    def kappa(self, R: Tensor) -> Tensor:
        """Return the concentrations fitted to mean lengths."""
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

    def raise_known_errors(self) -> None:
        """Raise what earlier steps met, as far as is known without waiting for the device."""
        self.errors.raise_known(self.class_name)

    def check(self) -> None:
        """Raise what earlier steps met. Waits for the device."""
        self.errors.check(self.class_name)

    def class_name(self, c: int) -> str:
        """Name a class in an error."""
        return f"class {c}"

    def _apply(self, fn: Any, recurse: bool = True) -> WideModule:
        empty = self.old.is_meta
        super()._apply(fn, recurse)
        if self.shard_classes:
            for name in ("old", "new"):
                a = getattr(self, name)
                moved = fn(a)
                setattr(self, name, moved if a.is_meta else a.to(moved.device))
        if empty and not self.old.is_meta:
            # Made on the meta device, and now on a real one.
            self.reset()
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        if self.shard_classes:
            self.ranks.require_shares(self.shares, self.classes)
            for name in ("old", "new"):
                rows = getattr(self, name).detach()
                destination[prefix + name] = self.ranks.dtensor(rows, self.num_classes)
        super()._save_to_state_dict(destination, prefix, keep_vars)
        seen = self.seen - int(self.ignored) if self.seen >= 0 else self.seen
        destination[prefix + "seen"] = torch.tensor(seen, device="cpu")

    def _load_from_state_dict(  # type: ignore[override]
        self, state_dict: Any, prefix: str, metadata: Any, strict: bool, missing: list, *rest: Any
    ) -> None:
        state_dict = dict(state_dict)
        for name in ("old", "new"):
            if prefix + name not in state_dict:
                missing += [prefix + name] * self.shard_classes
                continue
            # Split by class, or whole.
            rows = state_dict[prefix + name]
            rows = rows.full_tensor() if hasattr(rows, "full_tensor") else rows
            if rows.shape[:1] == (self.num_classes,):
                rows = rows[self.here]
            # The kernels read rows one after the other, also of a tensor that is assigned.
            state_dict[prefix + name] = rows.double().contiguous()
            if self.shard_classes:
                with torch.no_grad():
                    getattr(self, name).copy_(state_dict.pop(prefix + name))
        seen, epoch = state_dict.pop(prefix + "seen", None), state_dict.get(prefix + "epoch")
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, *rest)
        if epoch is not None:
            # In a state without this number, an epoch was begun by the caller or not at all.
            self.seen = (-1 if int(epoch) else 0) if seen is None else int(seen)
            self.ignored.zero_()


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
    """Write the starts of ``classes`` into rows [K, p + 1], fixed by seed, epoch and bank: a share
    of the classes has the starts that they have among all."""
    rows[:, -1] = START_WEIGHT
    for block in range(classes.start // START_ROWS, -(-classes.stop // START_ROWS)):
        left, right = block * START_ROWS, min((block + 1) * START_ROWS, num_classes)
        words = np.random.SeedSequence((*entropy, block) if block else entropy)
        seed = int(words.generate_state(1, np.uint64)[0] >> np.uint64(1))
        generator = torch.Generator("cpu").manual_seed(seed)
        # Not in the default dtype, in which other numbers would be drawn.
        width = rows.shape[1] - 1
        u = torch.randn(right - left, width, generator=generator, dtype=torch.float32, device="cpu")
        first, last = max(left, classes.start), min(right, classes.stop)
        u = u[first - left : last - left].double()
        u = START_WEIGHT * START_LENGTH * u / u.norm(dim=-1, keepdim=True)
        rows[first - classes.start : last - classes.start, :-1] = u.to(rows.device)
