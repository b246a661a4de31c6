"""Rows of one feature set, and their roles: fit, validate, evaluate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from resultant._core import memory
from resultant.analysis.metrics import UnansweredError, sample_rows, split, stratified
from resultant.classifiers.validation import FOLDS, stratified_splits

if TYPE_CHECKING:
    from resultant.features.prepare import Prepared

ACCURACY, BALANCED = "accuracy", "balanced accuracy"

# Test rows at most that evaluate methods, and these rows times classes.
EVALUATED = 50_000
EVALUATED_CELLS = 100_000_000

# Validation rows times classes at most, and rows that are drawn in any case.
VALIDATION_CELLS = 5_000_000
VALIDATION_ROWS = 2_000

# Sum of absolute differences of two distributions over classes that is a tie.
EVEN = 0.05

# Training rows up to which methods are validated on all folds; beyond, on the first one.
FOLDED_ROWS = 5_000


@dataclass(frozen=True)
class Settings:
    """Options of an analysis."""

    estimator: str = "mle"
    temperature: float | None = None  # temperature of the vMF methods; None to choose it
    references: str = "fast"  # "none", "fast" or "all"
    calibration: str = "scale"  # "scale", "sigmoid" or "isotonic"
    device: torch.device | str = "cpu"  # device of the vMF methods
    theory: bool = True  # also compute the theory and the numbers of the sliders and the map


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of one split."""

    name: str  # name of the split, as the user calls it
    x: Any  # rows [N, p]: a tensor, or rows in a file
    y: Tensor  # classes [N] int64
    identities: Tensor | None = None  # identities [N] int64, or None

    def __len__(self) -> int:
        return len(self.y)

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


def feature_sets(
    prepared: Prepared,
    source: str,
    fit_fraction: float | None = None,
    *,
    vectors: Callable[[str], Any] | None = None,
) -> list[FeatureSet]:
    """Return the feature sets of a prepared store."""
    store, sets = prepared.store, []
    vectors = store.vectors if vectors is None else vectors
    for name in prepared.features:
        rows: dict[str, Any] = {}
        for role, part in (("train", "train"), ("test", prepared.test), ("val", prepared.val)):
            if part is not None:
                known = f"{part}/identities" in store
                identities = store[f"{part}/identities"] if known else None
                x, y = vectors(f"{part}/{name}"), store[f"{part}/labels"]
                rows[role] = Split(part, x, y, identities)
        if fit_fraction is not None:
            fitted = split(rows["train"].y, rows["train"].identities, fit_fraction, 0)
            rows["kept_apart"] = (~fitted).nonzero().squeeze(1)
        about: dict[str, Any] = {"notes": prepared.notes, "metadata": store.metadata}
        sets.append(FeatureSet(source, name, prepared.names, **rows, **about))
    return sets


@dataclass(frozen=True, eq=False)
class Plan:
    """The rows that validate and evaluate; labels alone decide."""

    metric: str  # "accuracy" or "balanced accuracy"
    folds: int | None  # folds of the training rows; None if other rows validate
    splits: tuple[tuple[Tensor, Tensor], ...]  # fitted and validation rows that compare methods
    validation: Split  # the split of the validation rows
    rows: Tensor  # validation rows [V] of all splits
    labels: Tensor  # their classes [V]
    weights: Tensor  # their weights [V], sum one
    test: Tensor  # test rows [M] that evaluate
    words: str  # the validation in words


def plan(data: FeatureSet, evaluated: int | None = EVALUATED) -> Plan:
    """Draw the test rows, and validation rows: of val, else kept apart, else stratified folds."""
    if len(data.test) < 2:
        raise UnansweredError(f"expected two test rows or more, got {len(data.test)}")
    metric = metric_of(data)
    folds, source = None, data.train
    if data.val is not None:
        source, pools = data.val, [(data.fitted, torch.arange(len(data.val)))]
        of = f"rows of the split {data.val.name}"
    elif data.kept_apart is not None and len(data.kept_apart):
        pools, of = [(data.fitted, data.kept_apart)], "training rows kept apart"
    else:
        pools = stratified_splits(data.train.y, FOLDS, data.train.identities)
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
    if evaluated is not None:
        most = min(evaluated, EVALUATED_CELLS // data.num_classes)
    weights, test = row_weights(labels, metric, mass), sample_rows(len(data.test), most, 0)
    words = f"{len(rows):,}{part} {of}"
    return Plan(metric, folds, tuple(splits), source, rows, labels, weights, test, words)


def metric_of(data: FeatureSet) -> str:
    """Return "balanced accuracy" if test rows are even over classes, not as the training rows."""
    test = torch.bincount(data.test.y, minlength=data.num_classes).double()
    train, asked = data.counts.double(), test > 0
    test, train, even = test / test.sum(), train / train.sum(), asked / asked.sum()
    nearer = (test - even).abs().sum() + EVEN < (test - train).abs().sum()
    return BALANCED if nearer else ACCURACY


def row_weights(labels: Tensor, metric: str, mass: Tensor | None = None) -> Tensor:
    """Return weights [N] whose mean of correct predictions is the metric; they sum to one."""
    drawn = torch.bincount(labels).double()
    if metric == BALANCED:
        share = (drawn > 0).double()
    else:
        share = drawn if mass is None else mass[: len(drawn)].double() * (drawn > 0)
    weights = (share / drawn.clamp_min(1))[labels]
    return weights / weights.sum()
