r"""ProCo's running class statistics: two banks of sums, one scored against and one being filled.

A bank holds for each class the sum of its unit vectors and their number, so the mean of a class,
its direction :math:`\mu_c` and its length :math:`R_c` are those of a running mean, while an
update touches only the classes of the batch. The sums are float64: the order of the additions,
which differs between devices and numbers of processes, is then lost when a direction is rounded
to float32, and :math:`1-R_c` keeps its digits over any number of samples.

A class without samples stands at a random vector of length 0.9. That vector is the first sample,
of weight 1e-30: alone it is the mean, and beside one sample it is less than a rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from resultant._core import distributed, validation
from resultant._core.arrays import require_features, require_labels, shape_of
from resultant._core.validation import COMPUTE_DTYPE
from resultant.classes.statistics import (
    ZERO_LENGTH,
    ClassState,
    ClassStatistics,
    capped_concentration,
)
from resultant.vmf.distribution import ESTIMATORS

START_LENGTH = 0.9
START_WEIGHT = 1e-30


class WideModule(nn.Module):
    """A module whose buffers move with it and keep their dtype: ``half()`` is for networks."""

    def _apply(self, fn: Any, recurse: bool = True) -> WideModule:
        kept = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, a in kept.items():
            moved = self._buffers[name]
            self._buffers[name] = a if a is None or moved is None else a.to(moved.device)
        return self


class Snapshot(NamedTuple):
    """The bank ``old`` as each of V views found it, for queries that are scored against it.

    Directions ``mu`` [V, *runs, C, p] and mean lengths ``R`` [V, *runs, C]; with ``leave_out``
    also those of each query's own class without the query, [V, *runs, N, p] and [V, *runs, N].
    """

    mu: Tensor
    R: Tensor
    own_mu: Tensor | None = None
    own_R: Tensor | None = None


class ProCoBank(WideModule):
    r"""The two banks of alg:controlled-training's baseline estimator, ``old`` and ``new``.

    ``old`` has the whole previous epoch and this one so far, ``new`` this one alone; both are
    buffers [*runs, C, p + 1] of the sums and, last, the counts. ``estimator`` fits kappa to R:
    ``proco`` is :math:`pR/(1-R^2)`, at most 1e5; ``mle`` and ``banerjee`` as in `concentration`.
    With ``leave_out`` a query is taken out of its own class before it is scored
    (sec:self-inclusion).

    ``runs`` are leading dimensions of independent banks side by side. ``seed`` >= 0 draws the
    random starts, one a run as a sequence, or counting up from a number; with the epoch it fixes
    them, so they agree on all devices and ranks. Under torch.distributed each rank sums its own
    samples, however many, by class and view, and these sums are added over all ranks.
    """

    old: Tensor
    new: Tensor
    epoch: Tensor
    offset: Tensor

    def __init__(
        self,
        num_classes: int,
        dim: int,
        *,
        estimator: str = "proco",
        leave_out: bool = False,
        runs: Sequence[int] = (),
        seed: int | Sequence[int] = 0,
    ) -> None:
        super().__init__()
        num_classes = validation.integer("num_classes", num_classes, 1)
        if estimator not in ESTIMATORS:
            raise ValueError(f"expected estimator to be one of {ESTIMATORS}, got {estimator!r}")
        self.num_classes, self.dim = num_classes, validation.dimension(dim)
        self.estimator, self.leave_out = estimator, leave_out
        self.runs = require_runs(runs)
        number = math.prod(self.runs)
        self.seeds = _require_seeds(seed, number)
        shape = (*self.runs, num_classes, self.dim + 1)
        for name in ("old", "new"):
            self.register_buffer(name, torch.empty(shape, dtype=torch.float64))
        self.register_buffer("epoch", torch.zeros((), dtype=torch.int64))
        first = torch.arange(number).view(*self.runs, 1) * num_classes
        self.register_buffer("offset", first, persistent=False)
        self.reset()

    def extra_repr(self) -> str:
        shape = f"num_classes={self.num_classes}, dim={self.dim}, runs={self.runs}"
        return f"{shape}, estimator={self.estimator!r}, leave_out={self.leave_out}"

    @torch.no_grad()
    def reset(self) -> None:
        """Both banks as at the beginning of the first epoch."""
        self.epoch.zero_()
        self._start(self.old, 0)
        self._start(self.new, 1)

    @torch.no_grad()
    def start_epoch(self) -> None:
        """``old`` becomes ``new``, and ``new`` starts again. Once before every epoch."""
        self.old.copy_(self.new)
        self.epoch += 1
        self._start(self.new, 1)

    def _start(self, bank: Tensor, which: int) -> None:
        epoch = int(self.epoch)
        starts = []
        for seed in self.seeds:
            mixed = np.random.SeedSequence([seed, epoch, which]).generate_state(1, np.uint64)
            generator = torch.Generator().manual_seed(int(mixed[0] >> np.uint64(1)))
            starts.append(torch.randn(self.num_classes, self.dim, generator=generator))
        u = torch.stack(starts).double().view(*bank.shape[:-1], self.dim)
        bank[..., :-1] = START_WEIGHT * START_LENGTH * u / u.norm(dim=-1, keepdim=True)
        bank[..., -1] = START_WEIGHT

    @torch.no_grad()
    def update(self, z: Tensor, y: Tensor) -> Snapshot:
        """Add views ``z`` [*runs, N, p] or [V, *runs, N, p], in turn, to both banks.

        ``y`` [N] or [*runs, N] are the labels of every view. Returns what each view is scored
        against: ``old`` with this view and those before it. Nothing waits for the device.
        """
        self.require_batch(z, y)
        return self.add(z, y)

    def add(self, z: Tensor, y: Tensor) -> Snapshot:
        """`update` of what `require_batch` has passed."""
        views = by_view(z.detach(), self.runs)
        rows = (y + self.offset if self.runs else y).reshape(-1)
        samples = views.new_ones(*views.shape[:-1], self.dim + 1, dtype=torch.float64)
        samples[..., :-1] = views
        samples = samples.flatten(1, -2)
        old, new = (bank.view(-1, self.dim + 1) for bank in (self.old, self.new))
        sums = _over_ranks(samples, rows, len(old)) if distributed.world_size() > 1 else None
        dtype = COMPUTE_DTYPE[z.dtype]
        mu = z.new_empty(len(views), *self.runs, self.num_classes, self.dim, dtype=dtype)
        R = old.new_empty(mu.shape[:-1])
        own = None
        if self.leave_out:
            own = z.new_empty(views.shape, dtype=dtype), old.new_empty(views.shape[:-1])
        for v in range(len(views)):
            for bank in (new, old):
                if sums is None:
                    bank.index_add_(0, rows, samples[v])
                else:
                    bank.add_(sums[v])
            _write_mean(self.old, mu[v], R[v])
            if own is not None:
                self._write_without(views[v], old[rows], own[0][v], own[1][v])
        return Snapshot(mu, R) if own is None else Snapshot(mu, R, *own)

    def _write_without(self, z: Tensor, own: Tensor, mu: Tensor, R: Tensor) -> None:
        """The directions and mean lengths of the own classes' sums without the queries.

        A class that the query leaves empty has the length of the random start, and a direction
        across every query (zero), as a random one nearly is.
        """
        own = own.view(*z.shape[:-1], self.dim + 1)
        rest = torch.cat([own[..., :-1] - z, own[..., -1:] - 1], -1)
        _write_mean(rest, mu, R)
        empty = rest[..., -1] < 0.5
        mu.masked_fill_(empty.unsqueeze(-1), 0.0)
        R.masked_fill_(empty, START_LENGTH)

    def kappa(self, R: Tensor) -> Tensor:
        """The concentrations that the estimator fits to mean lengths, at most 1e5."""
        # The mean of rounded unit vectors may be a rounding longer than one.
        return capped_concentration(self.dim, R.clamp_max(1), self.estimator)

    def snapshot(self, dtype: torch.dtype = torch.float32) -> Snapshot:
        """``old`` as it is, as of one view."""
        mu, R = _mean(self.old, dtype)
        return Snapshot(mu.unsqueeze(0), R.unsqueeze(0))

    def state(self, run: int | tuple[int, ...] = (), *, bank: str = "old") -> ClassState:
        """The state of bank ``old`` or ``new`` in float64; with ``runs``, of the run given."""
        sums = self._sums(run, bank)
        mu, R = _mean(sums)
        return ClassState(mu, self.kappa(R), sums[..., -1].round().long(), validate_args=False)

    def statistics(self, run: int | tuple[int, ...] = (), *, bank: str = "old") -> ClassStatistics:
        """The sums of a bank, copied, with the start of each class as part of its weight."""
        sums = self._sums(run, bank)
        found = ClassStatistics(self.num_classes, self.dim, device=sums.device)
        found.total.copy_(sums[:, :-1])
        found.weight.copy_(sums[:, -1])
        found.count.copy_(sums[:, -1].round())
        return found

    def _sums(self, run: Any, bank: str) -> Tensor:
        """The sums and counts [C, p + 1] of one run."""
        if bank not in ("old", "new"):
            raise ValueError(f"expected bank to be 'old' or 'new', got {bank!r}")
        run = tuple(run) if _several(run) else (run,)
        if len(run) != len(self.runs):
            raise ValueError(f"expected the index of one run of {self.runs}, got {run}")
        return getattr(self, bank)[run]

    def require_batch(self, z: Tensor, y: Tensor) -> None:
        """Raise unless ``z`` and its labels ``y`` are as `update` takes them."""
        self.require(z)
        require_run_labels(y, z.shape[-2], self.num_classes, self.runs, self.old.device)

    def require(self, z: Tensor) -> None:
        """Raise unless ``z`` is [*runs, N, p] or [V, *runs, N, p], of unit vectors."""
        lead = "".join(f"{n}, " for n in self.runs)
        rank = len(self.runs) + 2
        if (
            not isinstance(z, Tensor)
            or z.dim() not in (rank, rank + 1)
            or z.shape[-1] != self.dim
            or z.shape[-rank:-2] != self.runs
        ):
            rule = f"expected z [{lead}N, {self.dim}] or [V, {lead}N, {self.dim}]"
            raise ValueError(f"{rule}, got {shape_of(z)}")
        require_features(z.reshape(-1, self.dim), self.dim, self.old.device, None)


def by_view(a: Tensor, runs: tuple[int, ...]) -> Tensor:
    """[V, *runs, N, k] of one view [*runs, N, k] or several, also of none of N."""
    return a if a.dim() > len(runs) + 2 else a.unsqueeze(0)


def labels_by_view(y: Tensor, views: int, runs: tuple[int, ...]) -> Tensor:
    """The labels [N, V, *runs] of y [N] or [*runs, N]."""
    first = y.movedim(-1, 0)
    shape = (len(first), views, *runs)
    return first.view(len(first), *(1,) * (len(shape) - y.dim()), *first.shape[1:]).expand(shape)


def require_run_labels(
    y: Tensor, number: int, num_classes: int, runs: tuple[int, ...], device: torch.device
) -> None:
    """Raise unless ``y`` is [N] or [*runs, N], and labels of the classes."""
    # One by one: under torch.compile sizes may be symbols, which a tuple does not find.
    if not isinstance(y, Tensor) or (y.shape != (number,) and y.shape != (*runs, number)):
        lead = "".join(f"{n}, " for n in runs)
        rule = f"expected y [{number}]" + (f" or [{lead}{number}]" if lead else "")
        raise ValueError(f"{rule}, one a row of z, got {shape_of(y)}")
    require_labels(y.reshape(-1), y.numel(), num_classes, device, None)


def require_runs(runs: Sequence[int]) -> tuple[int, ...]:
    """The leading dimensions of runs."""
    try:
        return tuple(validation.integer("runs", n, 1) for n in runs)
    except (TypeError, ValueError):
        rule = "expected runs to be a tuple of integers >= 1"
        raise ValueError(f"{rule}, got {runs!r}") from None


def _several(a: Any) -> bool:
    """Whether there are numbers to go through: a tensor [] is one of them."""
    return isinstance(a, Iterable) and getattr(a, "ndim", 1) > 0


def _require_seeds(seed: Any, number: int) -> tuple[int, ...]:
    """A seed for each of ``number`` runs, counting up from one alone."""
    try:
        if _several(seed):
            seeds = tuple(validation.integer("seed", s, 0) for s in seed)
        else:
            first = validation.integer("seed", seed, 0)
            seeds = tuple(range(first, first + number))
    except (TypeError, ValueError):
        seeds = ()
    if len(seeds) != number:
        raise ValueError(f"expected seed >= 0, a number or one a run ({number}), got {seed!r}")
    return seeds


def _mean(sums: Tensor, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Directions [..., p] and lengths [...] of the means of sums and counts [..., p + 1]."""
    mu = sums.new_empty(*sums.shape[:-1], sums.shape[-1] - 1, dtype=dtype)
    R = sums.new_empty(sums.shape[:-1])
    _write_mean(sums, mu, R)
    return mu, R


def _write_mean(sums: Tensor, mu: Tensor, R: Tensor) -> None:
    """`_mean` into tensors at hand, all contiguous; on a GPU in one pass."""
    if sums.is_cuda and not torch.compiler.is_compiling() and (mean := _fused()) is not None:
        mean(sums, mu, R)
        return
    total = sums[..., :-1]
    length = torch.linalg.vector_norm(total, dim=-1)
    torch.div(length, sums[..., -1], out=R)
    # Samples that cancel have no direction: zero is across every query. NaN is no length.
    cancelled = R <= ZERO_LENGTH
    mu.copy_(total / torch.where(cancelled, math.inf, length).unsqueeze(-1))
    R.masked_fill_(cancelled, 0.0)


@cache
def _fused() -> Callable[[Tensor, Tensor, Tensor], None] | None:
    """The fused kernel, where Triton is at hand."""
    try:
        from resultant.losses import _bank_triton as _bank_kernel
    except ImportError:
        return None
    return _bank_kernel.mean


def _over_ranks(samples: Tensor, rows: Tensor, number: int) -> Tensor:
    """The sums [V, number, p + 1] of the samples [V, M, p + 1] of all ranks by their rows [M]."""
    sums = samples.new_zeros(len(samples), number, samples.shape[-1])
    sums.index_add_(1, rows, samples)
    dist.all_reduce(sums)
    return sums
