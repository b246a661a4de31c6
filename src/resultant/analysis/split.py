"""Rows of one feature set, and their roles: fit, validate, test.

The folds depend on the values of the rows alone (`resultant.classifiers.folds`): copies of a row,
and rows of one identity or group, share a fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from resultant._core import memory
from resultant.analysis.metrics import UnansweredError, sample_rows, stratified
from resultant.classifiers.folds import fold_splits, held_out, row_keys
from resultant.classifiers.inputs import digests
from resultant.classifiers.validation import FOLDS
from resultant.features.origins import Origin

if TYPE_CHECKING:
    from resultant.features.prepare import Prepared

ACCURACY, BALANCED = "accuracy", "balanced accuracy"

# Test rows at most that evaluate methods, and these rows times classes.
EVALUATED = 50_000
EVALUATED_CELLS = 100_000_000

# Validation rows times classes at most, and rows that are drawn in any case.
VALIDATION_CELLS = 5_000_000
VALIDATION_ROWS = 2_000

# Classes are unequal if the largest has this many times the training rows of the smallest.
UNEQUAL = 2

# Training rows up to which methods are validated on all folds; beyond, on the first one.
FOLDED_ROWS = 5_000


@dataclass(frozen=True)
class Settings:
    """Options of an analysis."""

    estimator: str = "mle"
    temperature: float | None = None  # temperature of the vMF methods; None to choose it
    references: str = "fast"  # "none", "fast" or "all"
    metric: str | None = None  # "accuracy" or "balanced accuracy"; None to choose by class sizes
    device: torch.device | str = "cpu"  # device of the vMF methods
    time_limit: float | None = None  # seconds of the search of vMF settings; None for no limit
    theory: bool = True  # also compute the theory and the numbers of the sliders and the map


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of one split."""

    name: str  # name of the split, as the user calls it
    x: Any  # rows [N, p]: a tensor, or rows in a file
    y: Tensor  # classes [N] int64
    identities: Tensor | None = None  # identities [N] int64, or None
    groups: Tensor | None = None  # groups [N] int64 whose rows stay together, or None
    places: Origin | None = None  # places of the rows in the files; None for those of arrays

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def origin(self) -> Origin:
        """The places of the rows in the files of the user."""
        return Origin.of(self.name, len(self)) if self.places is None else self.places

    @cached_property
    def digests(self) -> np.ndarray:
        """Hashes [N] of the values of the rows."""
        hashes = np.empty(len(self), np.int64)
        for at, part in self.map(lambda x, _: digests(x.float())):
            hashes[at.numpy() if isinstance(at, Tensor) else at] = part
        return hashes

    @cached_property
    def keys(self) -> np.ndarray:
        """Keys [N] that rows share if they stay together."""
        return row_keys(self.digests, self.identities, self.groups)

    def copies(self, rows: Tensor) -> Tensor:
        """Number the distinct vectors of some rows [n]."""
        return torch.from_numpy(np.unique(self.digests[rows], return_inverse=True)[1])

    def chunks(
        self, rows: Tensor | None = None, width: int = 1
    ) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Yield positions, vectors [k, p] in float32 or float64 and classes [k] of some rows."""
        number = len(self) if rows is None else len(rows)
        width = 4 * max(width, self.x.shape[1])
        for at in memory.row_slices(number, width, memory.MATRIX_BYTES):
            at = slice(at.start, min(at.stop, number))
            index = at if rows is None else rows[at]
            x = self.x[index]
            yield at, x if x.dtype == torch.float64 else x.float(), self.y[index]

    def map(
        self, function: Callable[[Tensor, Tensor], Any], rows: Tensor | None = None, width: int = 1
    ) -> Iterator[tuple[Any, Any]]:
        """Yield positions and results of a function of chunks, in any order from a cluster."""
        on_cluster = getattr(self.x, "map_rows", None)
        if on_cluster is not None:
            yield from on_cluster(function, self.y, rows, width)
            return
        for at, x, y in self.chunks(rows, width):
            yield at, function(x, y)

    def read(self, rows: Tensor) -> Tensor:
        """Return vectors [n, p] of some rows in float32."""
        return self.x[rows].float()


@dataclass(frozen=True, eq=False)
class FeatureSet:
    """One feature set, ready for analysis."""

    source: str  # file or folder, as the user named it
    name: str  # array or column of the features
    class_names: tuple[str, ...]  # names of the C classes
    train: Split  # training rows; every class has two or more
    test: Split
    val: Split | None = None  # validation rows, or None
    kept_apart: Tensor | None = None  # training rows [K] that validate and are not fitted, or None
    notes: tuple[str, ...] = ()  # sentences about what reading changed
    metadata: dict[str, Any] = field(default_factory=dict)
    seed: int = 0  # seed of the folds

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @property
    def dim(self) -> int:
        return self.train.x.shape[1]

    @property
    def splits(self) -> list[Split]:
        """The splits that have rows."""
        return [s for s in (self.train, self.val, self.test) if s is not None]

    @cached_property
    def labels(self) -> Tensor:
        """Classes [N] of the rows of all splits, in their order."""
        return torch.cat([split.y for split in self.splits])

    @cached_property
    def every(self) -> tuple[Tensor, Tensor]:
        """The split of the rows [N] of all splits, and their rows [N] in it."""
        size = torch.tensor([len(split) for split in self.splits])
        number = torch.arange(len(size)).repeat_interleave(size)
        return number, torch.arange(len(number)) - (size.cumsum(0) - size)[number]

    @cached_property
    def counts(self) -> Tensor:
        """Training rows [C] per class."""
        return torch.bincount(self.train.y, minlength=self.num_classes)

    @cached_property
    def fitted(self) -> Tensor:
        """Training rows [n] of the final fits."""
        rows = torch.ones(len(self.train), dtype=torch.bool)
        if self.kept_apart is not None:
            rows[self.kept_apart] = False
        return rows.nonzero().squeeze(1)

    @cached_property
    def folds(self) -> list[tuple[Tensor, Tensor]]:
        """The training rows and the other rows of each fold."""
        return fold_splits(self.train.y, self.train.keys, FOLDS, self.seed)


def feature_sets(
    prepared: Prepared,
    source: str,
    fit_fraction: float | None = None,
    *,
    seed: int = 0,
    vectors: Callable[[str], Any] | None = None,
) -> list[FeatureSet]:
    """Return the feature sets of a prepared store."""
    store, sets = prepared.store, []
    vectors = store.vectors if vectors is None else vectors
    for name in prepared.features:
        rows: dict[str, Any] = {}
        for role, part in (("train", "train"), ("test", prepared.test), ("val", prepared.val)):
            if part is not None:
                known = {
                    what: store[f"{part}/{what}"]
                    for what in ("identities", "groups")
                    if f"{part}/{what}" in store
                }
                x, y = vectors(f"{part}/{name}"), store[f"{part}/labels"]
                rows[role] = Split(part, x, y, **known, places=store.origins[part])
        if fit_fraction is not None:
            train = rows["train"]
            apart = held_out(train.y, train.keys, 1 - fit_fraction, seed)
            rows["kept_apart"] = apart.nonzero().squeeze(1)
        rows |= {"notes": prepared.notes, "metadata": store.metadata, "seed": seed}
        sets.append(FeatureSet(source, name, prepared.names, **rows))
    return sets


@dataclass(frozen=True, eq=False)
class Plan:
    """The rows that validate and evaluate, and the metric."""

    metric: str  # "accuracy" or "balanced accuracy"
    reason: str  # the reason for the metric in a sentence
    folds: int | None  # folds of the training rows; None if other rows validate
    splits: tuple[tuple[Tensor, Tensor], ...]  # fitted and validation rows that compare methods
    validation: Split  # the split of the validation rows
    rows: Tensor  # validation rows [V] of all splits
    labels: Tensor  # their classes [V]
    weights: Tensor  # their weights [V], sum one
    test: Tensor  # test rows [M] that evaluate
    words: str  # the validation in words
    copies: Tensor  # numbers [V] of the distinct validation rows, and [M] of the test rows
    test_copies: Tensor


def plan(data: FeatureSet, settings: Settings | None = None) -> Plan:
    """Draw the test rows, and validation rows: of val, else kept apart, else stratified folds."""
    settings = settings or Settings()
    if len(data.test) < 2:
        raise UnansweredError(f"expected two test rows or more, got {len(data.test)}")
    metric, reason = choose_metric(data, settings.metric)
    folds, source = None, data.train
    if data.val is not None:
        source, pools = data.val, [(data.fitted, torch.arange(len(data.val)))]
        of = f"rows of the split {data.val.name}"
    elif data.kept_apart is not None and len(data.kept_apart):
        pools, of = [(data.fitted, data.kept_apart)], "training rows kept apart"
    else:
        pools = data.folds
        folds, of = len(pools), f"training rows, in {len(pools)} folds"
        if len(data.train) > FOLDED_ROWS:
            pools, of = pools[:1], f"training rows, one of {folds} folds"
    splits, total, mass = [], 0, torch.zeros(data.num_classes)
    for fit, pool in pools:
        # A class without fitted rows cannot be predicted, and says nothing about a method.
        known = torch.bincount(data.train.y[fit], minlength=data.num_classes) > 0
        pool = pool[known[source.y[pool]]]
        total += len(pool)
        mass += torch.bincount(source.y[pool], minlength=data.num_classes)
        most = max(VALIDATION_ROWS, VALIDATION_CELLS // data.num_classes)
        pool = pool[stratified(source.y[pool], most)]
        # Where classes are thousands, one row of each is too many.
        splits.append((fit, pool[sample_rows(len(pool), 2 * most, 0)]))
    if not total:
        raise UnansweredError("expected a validation row of a class with other rows, got none")
    rows = torch.cat([rows for _, rows in splits])
    labels = source.y[rows]
    part = "" if len(rows) == total else f" of the {total:,}"
    most = len(data.test)
    if settings.references != "all":
        most = min(EVALUATED, EVALUATED_CELLS // data.num_classes)
    weights, test = row_weights(labels, metric, mass), sample_rows(len(data.test), most, 0)
    words = f"{len(rows):,}{part} {of}"
    copies, test_copies = source.copies(rows), data.test.copies(test)
    both = tuple(splits)
    return Plan(
        metric, reason, folds, both, source, rows, labels, weights, test, words, copies, test_copies
    )


def choose_metric(data: FeatureSet, metric: str | None) -> tuple[str, str]:
    """Return the metric, by default balanced accuracy for unequal classes, and the reason."""
    least, most = int(data.counts.min()), int(data.counts.max())
    sizes = f"classes have {least:,} to {most:,} training rows"
    if metric is not None:
        if metric not in (ACCURACY, BALANCED):
            raise ValueError(f"expected metric to be {ACCURACY!r} or {BALANCED!r}, got {metric!r}")
        return metric, f"The metric is {metric}, as asked for; {sizes}."
    if most >= UNEQUAL * least:
        reason = f"The metric is balanced accuracy, the mean over the classes: {sizes}."
        return BALANCED, f"{reason} --metric accuracy counts all rows alike."
    return ACCURACY, f"The metric is accuracy: {sizes}."


def row_weights(labels: Tensor, metric: str, mass: Tensor | None = None) -> Tensor:
    """Return weights [N] whose mean of correct predictions is the metric; they sum to one."""
    drawn = torch.bincount(labels).double()
    if metric == BALANCED:
        share = (drawn > 0).double()
    else:
        share = drawn if mass is None else mass[: len(drawn)].double() * (drawn > 0)
    weights = (share / drawn.clamp_min(1))[labels]
    return weights / weights.sum()
