"""Frozen features that are more than one machine's: fitted and scored on Ray Data.

Statistics merge, and a decision needs its own row only. The driver reads footers and labels, cuts
the files into pieces of whole row groups, and sends these out: sums of classes come back and are
merged on the way, decisions of queries come back row by row. A piece of a worker that dies is done
again. Questions that look at some rows (`SAMPLED`) get them on the driver, in one reading, as long
as they fit in `SAMPLE_BYTES`; what does not fit is left out with a note.

The driver holds tens of bytes a row, and 16 for each held-out row and policy.
"""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant._core import chunks
from resultant.analysis.cosine import CosineAgreement, agreement, compared
from resultant.analysis.decisions import (
    Decisions,
    Policy,
    decide,
    grid_policies,
    realization_grid,
)
from resultant.analysis.recommendation import recommend
from resultant.analysis.result import UnansweredError
from resultant.analysis.run import QUESTIONS, Analysis, analyze_space
from resultant.analysis.space import FrozenSpace, Progress, unit
from resultant.classes.statistics import ClassStatistics
from resultant.features.partition import Piece, divide
from resultant.features.rows import Rows
from resultant.features.store import FeatureStore
from resultant.score.limits import require_temperature

# Sums that are merged into one before the driver sees them.
FAN = 8

# Questions that look at rows, those first that need few.
SAMPLED = ("gradients", "same_state", "self_inclusion", "support", "margins", "typical", "fit")
DECIDED = ("grid", "recommendation")
WHOLE = (*DECIDED, "cosine")
COLUMNS = ("prediction", "nll", "confidence")

# Of places [k], rows [k, p] and labels [k]: columns [k, ...] by name.
Question = Callable[[Tensor, Tensor, Tensor], dict[str, Tensor]]


@contextmanager
def cluster() -> Iterator[None]:
    """A Ray cluster: that of ``RAY_ADDRESS``, or one of this machine's CPUs that ends with the
    context. One that the process is connected to already is used as it is."""
    ray = _ray()
    started = not ray.is_initialized()
    if started:
        address = os.environ.get("RAY_ADDRESS")
        local = {} if address else {"include_dashboard": False}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
        try:
            ray.init(address=address or "local", **local, **quiet)
        except ConnectionError as error:
            rule = f"expected a Ray cluster at RAY_ADDRESS={address}"
            raise ValueError(f"{rule}, got: {error}") from None
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
    try:
        import ray
        import ray.data
    except ImportError:
        raise ValueError("expected ray: pip install resultant[ray]") from None
    return ray


def _sent(pieces: Sequence[Piece]) -> Any:
    """A Ray dataset of the pieces, each a block: a task, and done again alone."""
    ray = _ray()
    items = [{"piece": ray.cloudpickle.dumps(piece)} for piece in pieces]
    return ray.data.from_items(items, override_num_blocks=len(items))


def _received(batch: dict[str, np.ndarray]) -> Piece:
    return _ray().cloudpickle.loads(batch["piece"][0])


def _require(errors: Iterable[str]) -> None:
    """Errors come back as text: raised on a worker, they would be a page of it."""
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
    """`FrozenSpace.from_store` of a store of Parquet files, fitted on the cluster.

    Every class has a training row (`FeatureStore.without_gaps`). The rows stay where they are:
    ``train`` and ``test`` of the space know those that `answer` has fetched.
    """
    require_temperature(tau, 1, torch.device("cpu"), True, dtype=dtype)
    (train, labels), (held, asked) = (
        (store._rows(f"{split}/{feature}"), store[f"{split}/labels"]) for split in ("train", test)
    )
    if train.shape[1] != held.shape[1]:
        got = f"{train.shape[1]} and {held.shape[1]}"
        raise ValueError(f"expected train and {test} of one dimension, got {got}")
    statistics = fit_statistics(train, labels, store.num_classes, progress=progress)
    return FrozenSpace(
        *(feature, FetchedRows(train, labels), labels, FetchedRows(held, asked), asked),
        *(None, None, statistics, float(tau), estimator, dtype),
    )


def fit_statistics(
    rows: Rows, labels: Tensor, num_classes: int, *, progress: Progress | None = None
) -> ClassStatistics:
    """The sums over ``rows`` [N, p] by ``labels`` [N], of any length but zero."""
    pieces = divide(rows, labels)
    whole, done = ClassStatistics(num_classes, rows.shape[1]), 0
    size = {"num_classes": num_classes, "dim": rows.shape[1]}
    found = _sent(pieces).map_batches(_sums, batch_size=1, fn_kwargs=size)
    for batch in found.map_batches(_merged, batch_size=FAN).iter_batches(batch_size=None):
        _require(batch["error"])
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
        for at, z, y in _received(batch).read():
            for places, x, own in zip(*(a.split(height) for a in (at, z, y)), strict=True):
                statistics.update(unit(x, "train", places), own, validate_args=False)
    except ValueError as bad:
        error = str(bad)
    count, total = statistics.count.numpy(), statistics.total.numpy()
    return {"error": np.array([error]), "count": count[None], "total": total[None]}


def _merged(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    sums = {name: batch[name].sum(0, keepdims=True) for name in ("count", "total")}
    return {"error": np.array([max(map(str, batch["error"]))]), **sums}


def decide_all(
    space: FrozenSpace, policies: Sequence[Policy], *, progress: Progress | None = None
) -> Decisions:
    """`decide` on all held-out queries of a space of `fit_space`, on the cluster."""
    held, labels = space.test, space.test_labels
    assert isinstance(held, FetchedRows)
    # What there is to decide, from no query.
    found = decide(space, policies, torch.empty(0, dtype=torch.int64))
    rule = _without_rows(space)
    wholes = _collected(held, partial(_decided, rule, tuple(policies)), "decisions", progress)
    for name in COLUMNS:
        column: dict[Policy, Tensor] = getattr(found, name)
        column.update(zip(column, wholes[name], strict=True))
    return replace(found, labels=labels)


def _decided(
    rule: FrozenSpace, policies: Sequence[Policy], at: Tensor, z: Tensor, y: Tensor
) -> dict[str, Tensor]:
    """The decisions [k, P] of policies on rows that stand ``at`` [k]."""
    rule.test, rule.test_labels = z, y
    found = decide(rule, policies)
    return {name: torch.stack(list(getattr(found, name).values()), 1) for name in COLUMNS}


def compare_all(space: FrozenSpace, *, progress: Progress | None = None) -> CosineAgreement:
    """`cosine_agreement` of a space of `fit_space`, on the cluster."""
    assert isinstance(space.test, FetchedRows)
    question = partial(_compared, _without_rows(space))
    return agreement(space, *_collected(space.test, question, "cosine", progress).values())


def _compared(rule: FrozenSpace, at: Tensor, z: Tensor, y: Tensor) -> dict[str, Tensor]:
    found = compared(rule, unit(z, "test", at).to(rule.dtype))
    return {str(i): column for i, column in enumerate(found)}


def _without_rows(space: FrozenSpace) -> FrozenSpace:
    """A space that can be sent: the classes, and no rows."""
    rule = copy.copy(space)
    rule.train = rule.test = torch.empty(0, space.dim)
    rule.labels = rule.test_labels = space.labels[:0]
    rule.statistics = ClassStatistics(1, 2)
    return rule


def _collected(
    held: FetchedRows, question: Question, step: str, progress: Progress | None
) -> dict[str, Tensor]:
    """The columns [..., N] of a row-wise question on all rows, by name."""
    wholes: dict[str, Tensor] = {}
    done = 0
    for answers in _asked(held.rows, held.labels, question):
        at = answers.pop("at")
        for name, values in answers.items():
            if name not in wholes:
                wholes[name] = values.new_empty(*values.shape[1:], len(held))
            wholes[name][..., at] = values.movedim(0, -1)
        done += len(at)
        if progress is not None:
            progress(step, done / len(held))
    return wholes


def _asked(
    rows: Rows, labels: Tensor, question: Question, index: Tensor | None = None
) -> Iterator[dict[str, Tensor]]:
    """What a row-wise question says of all rows, or those at ``index`` [n], some at a time in any
    order: columns [k, ...], and where they stand, ``at`` [k]."""
    # In a list it stays a reference until a worker asks for it.
    shared = {"shared": [_ray().put(question)]}
    found = _sent(divide(rows, labels, index)).map_batches(
        _answered, batch_size=1, fn_kwargs=shared
    )
    for batch in found.iter_batches(batch_size=None):
        _require(batch.get("error", ()))
        # A copy: Ray's memory is not to be written to.
        yield {name: torch.tensor(column) for name, column in batch.items()}


def _answered(batch: dict[str, np.ndarray], shared: list[Any]) -> dict[str, np.ndarray]:
    """What a question says of a piece."""
    question: Question = _ray().get(shared[0])
    try:
        parts = [{"at": at, **question(at, z, y)} for at, z, y in _received(batch).read()]
    except ValueError as bad:
        return {"error": np.array([str(bad)])}
    return {name: torch.cat([part[name] for part in parts]).numpy() for name in parts[0]}


class FetchedRows:
    """Rows [N, p] on the cluster, some of which are here: what a space of `fit_space` has as
    ``train`` and ``test``. Others are a ValueError."""

    def __init__(self, rows: Rows, labels: Tensor) -> None:
        self.rows, self.labels, self.shape = rows, labels, rows.shape
        self.index, self.values = torch.empty(0, dtype=torch.int64), torch.empty(0, rows.shape[1])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Tensor | slice) -> Tensor:
        if isinstance(rows, slice):
            rows = torch.arange(*rows.indices(len(self)))
        place = torch.searchsorted(self.index, rows)
        if not torch.isin(rows, self.index).all():
            size = f"{chunks.SAMPLE_BYTES:,} bytes of rows on the driver"
            raise UnansweredError(f"expected rows that fit in {size}, got more")
        return self.values[place]

    def fetch(self, index: Tensor) -> None:
        """Have the rows at ascending places [n] here, and no others."""
        values = torch.empty(len(index), self.shape[1], dtype=self.rows.dtype)
        if len(index):
            for found in _asked(self.rows, self.labels, _as_they_are, index):
                values[found["at"]] = found["z"]
        self.index, self.values = index, values


def _as_they_are(at: Tensor, z: Tensor, y: Tensor) -> dict[str, Tensor]:
    return {"z": z}


class NotedRows:
    """Rows that are asked for and noted, while a question is asked of vectors e_1."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self.asked = shape, torch.empty(0, dtype=torch.int64)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Tensor) -> Tensor:
        self.asked = torch.cat([self.asked, rows]).unique()
        return torch.eye(1, self.shape[1]).expand(len(rows), -1)


def fetch_samples(space: FrozenSpace, questions: Iterable[str], *, seed: int = 0) -> None:
    """Fetch the rows that questions will look at, the smaller samples first, up to
    `SAMPLE_BYTES` in all.

    Which rows these are does not depend on what is in them: each question is asked once of
    stand-ins that note it.
    """
    train, test = space.train, space.test
    assert isinstance(train, FetchedRows) and isinstance(test, FetchedRows)
    wanted = [torch.empty(0, dtype=torch.int64)] * 2
    width = train.shape[1] * max(train.rows.dtype.itemsize, test.rows.dtype.itemsize)
    asked = tuple(questions)
    for name in (q for q in SAMPLED if q in asked):
        noting = copy.copy(space)
        noting.train, noting.test = stand_ins = NotedRows(train.shape), NotedRows(test.shape)
        analyze_space(noting, [name], seed=seed)
        more = [torch.cat([w, n.asked]).unique() for w, n in zip(wanted, stand_ins, strict=True)]
        if sum(map(len, more)) * width <= chunks.SAMPLE_BYTES:
            wanted = more
    for rows, index in zip((train, test), wanted, strict=True):
        rows.fetch(index)


def answer(
    space: FrozenSpace,
    questions: Iterable[str] = QUESTIONS,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Analysis:
    """`analyze_space` of a space of `fit_space`: decisions are made on the cluster, other
    questions get their rows from there."""
    questions = tuple(questions)
    answers: dict[str, Any] = {}
    notes: dict[str, str] = {}
    asked: dict[str, Callable[[], Any]] = {"cosine": lambda: compare_all(space, progress=progress)}
    if set(questions) & set(DECIDED):
        decisions = decide_all(space, grid_policies(), progress=progress)
        asked["grid"] = lambda: realization_grid(space, decisions=decisions)
        asked["recommendation"] = lambda: recommend(space, decisions=decisions, seed=seed)
    for name in (q for q in WHOLE if q in questions):
        try:
            answers[name] = asked[name]()
        except UnansweredError as error:
            notes[name] = str(error)
        if progress is not None:
            progress(name, 1.0)
    fetch_samples(space, questions, seed=seed)
    rest = [q for q in questions if q not in WHOLE]
    found = analyze_space(space, rest, seed=seed, progress=progress)
    return replace(found, **answers, notes={**notes, **(found.notes or {})})
