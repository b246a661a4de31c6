"""Frozen features larger than one machine: fitted and scored on Ray Data.

Statistics merge, and a decision needs only its own row. The driver reads footers and labels,
divides the files into pieces of whole row groups, and sends the pieces to workers. Sums per class
come back and are merged on the way; decisions come back row by row. The piece of a dead worker is
done again. Questions about some rows (`SAMPLED`) get these rows on the driver in one reading, up to
`resultant._core.chunks.SAMPLE_BYTES`; questions whose rows do not fit are left out with a note.

The driver holds tens of bytes per row, and 16 per held-out row and policy.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant._core import chunks
from resultant._core.termination import TerminatedError
from resultant.analysis import cautions
from resultant.analysis.advising import JUDGED, Plan
from resultant.analysis.cosine import CosineAgreement, collect_agreement, compare_queries
from resultant.analysis.decisions import COLUMNS, Decisions, Policy, Scorer
from resultant.analysis.plain import UnansweredError
from resultant.analysis.references import reference_samples
from resultant.analysis.run import QUESTIONS, Analysis, analyze_space
from resultant.analysis.space import CPU, FrozenSpace, Progress, unit, unit_chunks
from resultant.classes.statistics import ClassState, ClassStatistics
from resultant.features.partition import Piece, divide
from resultant.features.rows import Rows
from resultant.features.store import FeatureStore
from resultant.score.limits import require_temperature

# Sums that are merged into one before they reach the driver.
FAN = 8

# Questions about some rows, in the order of the number of rows.
SAMPLED = (
    *("gradients", "same_state", "self_inclusion", "support", "margins", "typical", "fit"),
    "fits",
)

# A function of row numbers [k], rows [k, p] and labels [k] that returns columns [k, ...] by name.
RowFunction = Callable[[Tensor, Tensor, Tensor], dict[str, Tensor]]


@contextmanager
def cluster() -> Iterator[None]:
    """Connect to a Ray cluster within a context.

    The cluster is the one that the process is connected to, or that of ``RAY_ADDRESS``, or one of
    the CPUs of this machine that ends with the context.
    """
    ray = _ray()
    started = not ray.is_initialized()
    if started:
        address = os.environ.get("RAY_ADDRESS")
        local = {} if address else {"include_dashboard": False}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
        handler = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(address=address or "local", **local, **quiet)
            # Ray would end the process by itself, without a message.
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, handler)
        except SystemExit:
            # SIGTERM while Ray starts and has a handler of its own.
            raise TerminatedError from None
        except ConnectionError as error:
            rule = f"expected a Ray cluster at RAY_ADDRESS={address}"
            raise ValueError(f"{rule}, got: {error}") from None
        except Exception as error:
            # Ray raises an Exception if its processes do not start in time.
            raise OSError(f"expected Ray to start on this machine, got: {error}") from None
    context, logger = ray.data.DataContext.get_current(), logging.getLogger("ray.data")
    before = context.enable_progress_bars, logger.level
    context.enable_progress_bars = False
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        context.enable_progress_bars = before[0]
        logger.setLevel(before[1])
        if started:
            ray.shutdown()


def _ray() -> Any:
    # Otherwise every process of Ray prints its C++ stack when it is terminated.
    os.environ.setdefault("RAY_DISABLE_FAILURE_SIGNAL_HANDLER", "1")
    try:
        import ray
        import ray.data
    except ImportError:
        raise ValueError("expected ray: pip install resultant[ray]") from None
    return ray


def _send(pieces: Sequence[Piece]) -> Any:
    """A Ray dataset with one block, and so one task, per piece."""
    ray = _ray()
    items = [{"piece": ray.cloudpickle.dumps(piece)} for piece in pieces]
    return ray.data.from_items(items, override_num_blocks=len(items))


def _receive(batch: dict[str, np.ndarray]) -> Piece:
    return _ray().cloudpickle.loads(batch["piece"][0])


def _raise_first(errors: Iterable[str]) -> None:
    """Raise an error of a worker; sent as text, as Ray would add pages of traceback."""
    for error in errors:
        if error:
            raise ValueError(error)


def fit_space(
    store: FeatureStore,
    feature: str,
    *,
    test: str = "test",
    tau: float = 0.1,
    estimator: str = "mle",
    dtype: torch.dtype = torch.float32,
    progress: Progress | None = None,
) -> FrozenSpace:
    """Fit the space of one feature of Parquet files on the cluster; see `load_space`.

    Every class has a training row (`resultant.features.subsets.without_gaps`). The rows stay in the
    files: ``train`` and ``test`` of the space hold only the rows that `analyze_on_cluster` fetches.

    Args:
        store: A store from `resultant.features.partition.open_store`.
        feature: The name of the feature.
        test: The split of the queries.
        tau: Temperature.
        estimator: Estimator of kappa.
        dtype: Dtype of scores.
        progress: Called with the name of the step and the fraction that is done.

    Returns:
        The space.
    """
    require_temperature(tau, 1, CPU, True, dtype=dtype)
    (train, labels), (held, queries) = (
        (store.rows(f"{split}/{feature}"), store[f"{split}/labels"]) for split in ("train", test)
    )
    if train.shape[1] != held.shape[1]:
        got = f"{train.shape[1]} and {held.shape[1]}"
        raise ValueError(f"expected train and {test} of one dimension, got {got}")
    statistics = fit_statistics(train, labels, store.num_classes, progress=progress)
    return FrozenSpace(
        *(feature, FetchedRows(train, labels), labels, FetchedRows(held, queries), queries),
        *(None, None, statistics, float(tau), estimator, dtype),
    )


def fit_statistics(
    rows: Rows, labels: Tensor, num_classes: int, *, progress: Progress | None = None
) -> ClassStatistics:
    """Sum ``rows`` [N, p] of any length but zero per class of ``labels`` [N]."""
    whole, done = ClassStatistics(num_classes, rows.shape[1]), 0
    size = {"num_classes": num_classes, "dim": rows.shape[1]}
    sums = _send(divide(rows, labels)).map_batches(_sums, batch_size=1, fn_kwargs=size)
    for batch in sums.map_batches(_merge, batch_size=FAN).iter_batches(batch_size=None):
        _raise_first(batch["error"])
        part = ClassStatistics(num_classes, rows.shape[1])
        part.count = torch.tensor(batch["count"]).sum(0)
        part.weight, part.total = part.count.double(), torch.tensor(batch["total"]).sum(0)
        whole.merge(part)
        done += int(part.count.sum())
        if progress is not None:
            progress("statistics", done / len(rows))
    return whole


def _sums(batch: dict[str, np.ndarray], num_classes: int, dim: int) -> dict[str, np.ndarray]:
    """The statistics of a piece."""
    statistics, error = ClassStatistics(num_classes, dim), ""
    height = chunks.rows_per_chunk(8 * dim, chunks.ROW_BYTES)
    try:
        for at, z, y in _receive(batch).read():
            for rows, x, own in zip(*(a.split(height) for a in (at, z, y)), strict=True):
                statistics.add(unit(x, "train", rows), own)
    except ValueError as bad:
        error = str(bad)
    count, total = statistics.count.numpy(), statistics.total.numpy()
    return {"error": np.array([error]), "count": count[None], "total": total[None]}


def _merge(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    sums = {name: batch[name].sum(0, keepdims=True) for name in ("count", "total")}
    return {"error": np.array([max(map(str, batch["error"]))]), **sums}


def decide_all(
    space: FrozenSpace, policies: Sequence[Policy], *, progress: Progress | None = None
) -> Decisions:
    """Decide all held-out queries on the cluster; see `resultant.analysis.decide`."""
    scorer = Scorer(space, policies)
    columns = _collect(space.test, partial(_decisions, scorer), "decisions", progress)
    return scorer.decisions(space.test_labels, (columns[name] for name in COLUMNS))


def _decisions(scorer: Scorer, at: Tensor, z: Tensor, y: Tensor) -> dict[str, Tensor]:
    """The decisions [k, P] of a piece."""
    height = chunks.rows_per_chunk(4 * max(scorer.mu.shape), chunks.MATRIX_BYTES)
    parts = unit_chunks(z, y, height, scorer.dtype, scorer.device)
    columns = zip(*(scorer(x, own) for _, x, own in parts), strict=True)
    return {n: torch.cat(c, 1).T for n, c in zip(COLUMNS, columns, strict=True)}


def cosine_agreement(space: FrozenSpace, *, progress: Progress | None = None) -> CosineAgreement:
    """Compare all held-out queries on the cluster; see `resultant.analysis.cosine_agreement`."""
    compare = partial(_compare, space.state, space.tau, space.dtype)
    return collect_agreement(space, *_collect(space.test, compare, "cosine", progress).values())


def _compare(
    state: ClassState, tau: float, dtype: torch.dtype, at: Tensor, z: Tensor, y: Tensor
) -> dict[str, Tensor]:
    columns = compare_queries(unit(z, "test", at).to(dtype), state, tau)
    return {str(i): column for i, column in enumerate(columns)}


def _collect(
    rows: object, function: RowFunction, step: str, progress: Progress | None
) -> dict[str, Tensor]:
    """The columns [..., N] of a function of all rows, by name."""
    assert isinstance(rows, FetchedRows)
    wholes: dict[str, Tensor] = {}
    done = 0
    for columns in _map_rows(rows, function):
        at = columns.pop("at")
        for name, values in columns.items():
            if name not in wholes:
                wholes[name] = values.new_empty(*values.shape[1:], len(rows))
            wholes[name][..., at] = values.movedim(0, -1)
        done += len(at)
        if progress is not None:
            progress(step, done / len(rows))
    return wholes


def _map_rows(
    rows: FetchedRows, function: RowFunction, index: Tensor | None = None
) -> Iterator[dict[str, Tensor]]:
    """Apply a function to all rows, or those at ``index`` [n], on the cluster.

    Yields:
        Columns [k, ...] of some rows in any order, and the numbers ``at`` [k] of the rows.
    """
    # A reference in a list is resolved by the worker, not by Ray.
    shared = {"shared": [_ray().put(function)]}
    pieces = _send(divide(rows.rows, rows.labels, index))
    results = pieces.map_batches(_apply, batch_size=1, fn_kwargs=shared)
    for batch in results.iter_batches(batch_size=None):
        _raise_first(batch.get("error", ()))
        # A copy: the memory of Ray is read-only.
        yield {name: torch.tensor(column) for name, column in batch.items()}


def _apply(batch: dict[str, np.ndarray], shared: list[Any]) -> dict[str, np.ndarray]:
    """Apply a function to a piece."""
    function: RowFunction = _ray().get(shared[0])
    try:
        parts = [{"at": at, **function(at, z, y)} for at, z, y in _receive(batch).read()]
    except ValueError as bad:
        return {"error": np.array([str(bad)])}
    return {name: torch.cat([part[name] for part in parts]).numpy() for name in parts[0]}


class FetchedRows:
    """Rows [N, p] in files of the cluster, some of which are on the driver.

    These are ``train`` and ``test`` of a space of `fit_space`. Access to other rows is an error.
    """

    def __init__(self, rows: Rows, labels: Tensor) -> None:
        self.rows, self.labels, self.shape = rows, labels, rows.shape
        self.index, self.values = torch.empty(0, dtype=torch.int64), torch.empty(0, rows.shape[1])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Tensor | slice) -> Tensor:
        if isinstance(rows, slice):
            rows = torch.arange(*rows.indices(len(self)))
        if not torch.isin(rows, self.index).all():
            size = f"{chunks.SAMPLE_BYTES:,} bytes of rows on the driver"
            raise UnansweredError(f"expected rows that fit in {size}, got more")
        return self.values[torch.searchsorted(self.index, rows)]

    def fetch(self, index: Tensor) -> None:
        """Bring the rows at ascending indices [n] to the driver, and drop all others."""
        values = torch.empty(len(index), self.shape[1], dtype=self.rows.dtype)
        if len(index):
            for columns in _map_rows(self, _identity, index):
                values[columns["at"]] = columns["z"]
        self.index, self.values = index, values


def _identity(at: Tensor, z: Tensor, y: Tensor) -> dict[str, Tensor]:
    return {"z": z}


class RecordedRows:
    """Stand-ins for rows [N, p], all e_1, that record the indices of every access."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self.index = shape, torch.empty(0, dtype=torch.int64)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Tensor) -> Tensor:
        self.index = torch.cat([self.index, rows]).unique()
        return torch.eye(1, self.shape[1]).expand(len(rows), -1)


def fetch_samples(space: FrozenSpace, questions: Iterable[str], *, seed: int = 0) -> None:
    """Fetch the rows of the sampled questions, the smaller samples first, as far as they fit.

    The choice of rows does not depend on their values: every question is asked once about
    stand-ins that record the rows.
    """
    train, test = space.train, space.test
    assert isinstance(train, FetchedRows) and isinstance(test, FetchedRows)
    indices = [torch.empty(0, dtype=torch.int64)] * 2
    width = train.shape[1] * max(train.rows.dtype.itemsize, test.rows.dtype.itemsize)
    asked = tuple(questions)
    for name in (q for q in SAMPLED if q in asked):
        recorded = RecordedRows(train.shape), RecordedRows(test.shape)
        analyze_space(replace(space, train=recorded[0], test=recorded[1]), [name], seed=seed)
        more = [torch.cat([i, r.index]).unique() for i, r in zip(indices, recorded, strict=True)]
        if sum(map(len, more)) * width <= chunks.SAMPLE_BYTES:
            indices = more
    for rows, index in zip((train, test), indices, strict=True):
        rows.fetch(index)


def fold_sums(space: FrozenSpace, labels: Tensor, number: int) -> ClassStatistics:
    """Sum the training rows per class of other ``labels`` [N] on the cluster."""
    assert isinstance(space.train, FetchedRows)
    return fit_statistics(space.train.rows, labels, number)


def row_hashes(vectors: Any) -> Tensor:
    """Hash all rows on the cluster; see `resultant.analysis.cautions`."""
    return _collect(vectors, _hashes, "hashes", None)["hash"]


def _hashes(at: Tensor, z: Tensor, y: Tensor) -> dict[str, Tensor]:
    return {"hash": cautions.row_hashes(z)}


def judging_rows(space: FrozenSpace) -> int:
    """Return the most held-out rows that judge: they take half of the rows on the driver."""
    return max(2, min(JUDGED, chunks.SAMPLE_BYTES // 2 // (8 * space.dim)))


def fetch_for_advice(space: FrozenSpace, plan: Plan, level: str) -> None:
    """Fetch the rows that choose, judge and are fitted by references."""
    train, test = space.train, space.test
    assert isinstance(train, FetchedRows) and isinstance(test, FetchedRows)
    rows = [plan.rows.index]
    if level != "none":
        samples = reference_samples(space, plan.rows, level, plan.judged)
        rows += [samples.train, samples.index]
    train.fetch(torch.cat(rows).unique())
    test.fetch(torch.arange(len(test)) if plan.judged is None else plan.judged)


def analyze_on_cluster(
    space: FrozenSpace,
    questions: Iterable[str] = QUESTIONS,
    *,
    seed: int = 0,
    progress: Progress | None = None,
    **grid: Any,
) -> Analysis:
    """Ask questions about a space of `fit_space`; see `analyze_space`, also for ``grid``.

    The cluster decides all queries; other questions fetch their rows from the cluster.
    """
    questions = tuple(questions)
    fetch_samples(space, questions, seed=seed)
    functions = {"decide": decide_all, "cosine_agreement": cosine_agreement}
    return analyze_space(space, questions, seed=seed, progress=progress, **grid, **functions)
