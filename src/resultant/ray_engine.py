"""Frozen features that are more than one machine's: fitted and scored on Ray Data.

Statistics merge, and a decision needs its own row only. The driver reads footers and labels, cuts
the files into pieces of whole row groups, and sends these out: sums of classes come back and are
merged on the way, decisions of queries come back row by row. A piece of a worker that dies is done
again. Questions that look at some rows (`SAMPLED`) get them on the driver, in one reading, as long
as they fit in `SAMPLE_BYTES`; what does not fit is left out with a note. That holds for the
comparison with cosine prototypes too, which looks at all held-out rows.

The driver holds tens of bytes a row, and 16 for each held-out row and policy.
"""

from __future__ import annotations

import copy
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant._features import require_temperature
from resultant.classes import ClassStatistics
from resultant.data.parquet import ParquetRows
from resultant.data.readers import _read_parquet as read_parquet_arrays
from resultant.data.shards import Joined, Rows, Selected, join, split_of
from resultant.data.store import FeatureStore
from resultant.frozen.analysis import QUESTIONS, Analysis, analyze_space
from resultant.frozen.decisions import (
    Decisions,
    Policy,
    decide,
    grid_policies,
    realization_grid,
)
from resultant.frozen.recommend import recommend
from resultant.frozen.space import ROW_BYTES, FrozenSpace, Progress, unit

# Bytes of features that a worker reads at a time, about; a piece is that or one row group.
PIECE_BYTES = 1 << 28

# Bytes of rows that questions may have on the driver.
SAMPLE_BYTES = 1 << 32

# Sums that are merged into one before the driver sees them.
FAN = 8

# Footers that are read at a time.
THREADS = 16

# Questions that look at rows, those first that need few.
SAMPLED = ("gradients", "same_state", "self_inclusion", "support", "margins", "typical", "fit")
DECIDED = ("grid", "recommendation")
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


def open_store(
    pattern: str | os.PathLike[str], features: str | None = None, labels: str | None = None
) -> FeatureStore:
    """The store of the Parquet files that a pattern, a folder or a name stands for.

    Workers read the files too: they must find them under the same absolute name. A pattern is
    taken by components; a split is named by how a file or a folder below the pattern's fixed part
    begins, or by the column ``split``.
    """
    where = os.fspath(pattern)
    files = _listed(where)

    def read(file: tuple[Any, str]) -> tuple[dict[str, Rows], dict[str, Any]]:
        return read_parquet_arrays(*file, features, labels)

    parts: dict[str, list[tuple[str, Rows]]] = {}
    metadata: dict[str, Any] = {}
    with ThreadPoolExecutor(THREADS) as threads:
        for (path, _), (arrays, about) in zip(files, threads.map(read, files), strict=True):
            metadata = about | metadata
            for name, rows in arrays.items():
                parts.setdefault(name, []).append((str(path), rows))
    return FeatureStore(where, {n: join(where, n, each) for n, each in parts.items()}, metadata)


def _listed(where: str) -> list[tuple[Path | str, str]]:
    """The files in sorted order, those of a URL as strings, and the split of each."""
    from pyarrow import fs

    url = "://" in where
    whole, *query = re.split(r"(?=\?)", where, maxsplit=1) if url else [os.path.abspath(where)]
    parts = whole.split("/")
    fixed = next((i for i, part in enumerate(parts) if set(part) & set("*?[")), len(parts))
    try:
        system, base = fs.FileSystem.from_uri("".join(["/".join(parts[:fixed]) or "/", *query]))
        if fixed == len(parts) and system.get_file_info(base).is_file:
            fixed, base = fixed - 1, base.rpartition("/")[0]
        wanted = parts[fixed:]
        found = system.get_file_info(fs.FileSelector(base, recursive=len(wanted) != 1))
    except (OSError, ValueError) as error:
        raise ValueError(f"expected Parquet files at {where}, got: {error}") from None
    names = (i.path.removeprefix(base).lstrip("/").split("/") for i in found if i.is_file)
    names = [n for n in names if not any(part.startswith(".") for part in n)]
    if wanted:
        names = [n for n in names if len(n) == len(wanted) and all(map(fnmatchcase, n, wanted))]
        other = next((n[-1] for n in names if not n[-1].endswith(".parquet")), None)
    else:
        names, other = [n for n in names if n[-1].endswith(".parquet")], None
    if other or not names:
        raise ValueError(f"expected Parquet files at {where}, got {other or 'none'}")
    files: list[tuple[Path | str, str]] = []
    for name in sorted(names):
        path = "/".join([*parts[:fixed], *name])
        split = next((s for s in map(split_of, name) if s is not None), "train")
        files.append(("".join([path, *query]) if url else Path(path), split))
    return files


@dataclass(frozen=True)
class Piece:
    """What a worker does at once: rows at ascending places [m] of files, in order, and their
    ``labels`` [n], from ``first`` on in the array that they are a piece of."""

    first: int
    parts: tuple[tuple[ParquetRows, Tensor], ...]
    labels: Tensor

    def read(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Where rows stand [k], the rows as they are [k, p], and their labels [k]."""
        blocks, top = [], 0
        height = _height(self.parts[0][0])
        for block in (block for part in self.parts for block in _blocks(*part, height)):
            blocks.append(block)
            stop = top + sum(map(len, blocks))
            if stop - top >= height or stop == len(self.labels):
                at = torch.arange(self.first + top, self.first + stop)
                yield at, torch.cat(blocks), self.labels[top:stop]
                blocks, top = [], stop


def _height(rows: Rows) -> int:
    return max(1, PIECE_BYTES // (rows.shape[1] * rows.dtype.itemsize))


def _blocks(rows: ParquetRows, places: Tensor, height: int) -> Iterator[Tensor]:
    """The rows at ascending places, from one reading: to go back would be to start again."""
    end = int(places[-1]) + 1
    for top in range(int(places[0]), end, height):
        stop = min(top + height, end)
        low, high = torch.searchsorted(places, torch.tensor([top, stop])).tolist()
        yield rows.read(top, stop)[places[low:high] - top]


def cut(rows: Rows, labels: Tensor, index: Tensor | None = None) -> list[Piece]:
    """The rows, or those at ascending places ``index`` [n], in pieces of whole row groups."""
    index = torch.arange(len(rows)) if index is None else index
    leaves = list(_leaves(rows, index))
    with ThreadPoolExecutor(THREADS) as threads:
        groups = list(threads.map(_groups, (leaf.path for leaf, _ in leaves)))
    height, pieces = 0, [[]]
    for (leaf, places), sizes in zip(leaves, groups, strict=True):
        ends = torch.searchsorted(places, torch.tensor(sizes[:-1], dtype=torch.int64).cumsum(0))
        together = False
        for size, chosen in zip(sizes, places.tensor_split(ends), strict=True):
            if height and height + size > _height(rows):
                height, together = 0, False
                pieces.append([])
            if not len(chosen):
                together = False
            elif together:
                pieces[-1][-1][1].append(chosen)
            else:
                # Rows that were not read yet: an open file cannot be sent.
                fresh = ParquetRows(leaf.path, leaf.name, leaf.shape, leaf.dtype)  # type: ignore[arg-type]
                pieces[-1].append((fresh, [chosen]))
                together = True
            height += size if together else 0
    found, first = [], 0
    for parts in filter(None, pieces):
        chosen = tuple((leaf, torch.cat(places)) for leaf, places in parts)
        stop = first + sum(len(places) for _, places in chosen)
        found.append(Piece(first, chosen, labels[index[first:stop]]))
        first = stop
    return found


def _leaves(rows: Rows, index: Tensor) -> Iterator[tuple[ParquetRows, Tensor]]:
    """The files behind rows, and which of their rows are at ascending places, in order."""
    if isinstance(rows, Selected):
        yield from _leaves(rows.rows, rows.index[index])
    elif isinstance(rows, Joined):
        ends = torch.searchsorted(index, torch.tensor(rows.tops[1:-1], dtype=torch.int64))
        for part, top, places in zip(rows.parts, rows.tops, index.tensor_split(ends), strict=False):
            if len(places):
                yield from _leaves(part, places - top)
    else:
        assert isinstance(rows, ParquetRows)
        yield rows, index


def _groups(path: Path | str) -> list[int]:
    """The rows of each row group of a file."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        return [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]


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
    require_temperature(tau, 1, torch.device("cpu"), True)
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
    pieces = cut(rows, labels)
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
    height = max(1, ROW_BYTES // (8 * dim))
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
    # What there is to decide, from no query; and the space without its rows, to be sent.
    found = decide(space, policies, torch.empty(0, dtype=torch.int64))
    rule = copy.copy(space)
    rule.train = rule.test = torch.empty(0, space.dim)
    rule.labels = rule.test_labels = labels[:0]
    rule.statistics = ClassStatistics(1, 2)
    columns = {name: getattr(found, name) for name in COLUMNS}
    wholes = {
        name: torch.empty(len(column), len(labels), dtype=next(iter(column.values())).dtype)
        for name, column in columns.items()
    }
    done = 0
    for answers in _asked(held.rows, labels, partial(_decided, rule, tuple(policies))):
        at = answers.pop("at")
        for name, values in answers.items():
            wholes[name][:, at] = values.T
        done += len(at)
        if progress is not None:
            progress("decisions", done / len(labels))
    for name, column in columns.items():
        column.update(zip(column, wholes[name], strict=True))
    return replace(found, labels=labels)


def _decided(
    rule: FrozenSpace, policies: Sequence[Policy], at: Tensor, z: Tensor, y: Tensor
) -> dict[str, Tensor]:
    """The decisions [k, P] of policies on rows that stand ``at`` [k]."""
    # For the error that names the row.
    unit(z, "test", at)
    rule.test, rule.test_labels = z, y
    found = decide(rule, policies)
    return {name: torch.stack(list(getattr(found, name).values()), 1) for name in COLUMNS}


def _asked(
    rows: Rows, labels: Tensor, question: Question, index: Tensor | None = None
) -> Iterator[dict[str, Tensor]]:
    """What a row-wise question says of all rows, or those at ``index`` [n], some at a time in any
    order: columns [k, ...], and where they stand, ``at`` [k]."""
    # In a list it stays a reference until a worker asks for it.
    shared = {"shared": [_ray().put(question)]}
    found = _sent(cut(rows, labels, index)).map_batches(_answered, batch_size=1, fn_kwargs=shared)
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
            size = f"{SAMPLE_BYTES:,} bytes of rows on the driver"
            raise ValueError(f"expected rows that fit in {size}, got more")
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
    for name in (q for q in (*SAMPLED, "cosine") if q in asked):
        noting = copy.copy(space)
        noting.train, noting.test = stand_ins = NotedRows(train.shape), NotedRows(test.shape)
        if name == "cosine":
            stand_ins[1].asked = torch.arange(len(test))
        else:
            analyze_space(noting, [name], seed=seed)
        more = [torch.cat([w, n.asked]).unique() for w, n in zip(wanted, stand_ins, strict=True)]
        if sum(map(len, more)) * width <= SAMPLE_BYTES:
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
    decided: dict[str, Any] = {}
    notes: dict[str, str] = {}
    if set(questions) & set(DECIDED):
        decisions = decide_all(space, grid_policies(), progress=progress)
        asked: dict[str, Callable[[], Any]] = {
            "grid": lambda: realization_grid(space, decisions=decisions),
            "recommendation": lambda: recommend(space, decisions=decisions, seed=seed),
        }
        for name in (q for q in DECIDED if q in questions):
            try:
                decided[name] = asked[name]()
            except ValueError as error:
                notes[name] = str(error)
            if progress is not None:
                progress(name, 1.0)
    fetch_samples(space, questions, seed=seed)
    rest = [q for q in questions if q not in DECIDED]
    found = analyze_space(space, rest, seed=seed, progress=progress)
    return replace(found, **decided, notes={**notes, **(found.notes or {})})
