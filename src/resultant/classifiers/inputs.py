"""Arguments of estimators: checks of rows, labels and weights, and labelled rows with their sums.

A row of zeros has no direction: it is a sample of length zero, with cosine 0 to every class.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import (
    assert_all_finite,
    check_consistent_length,
    column_or_1d,
    validate_data,
)
from torch import Tensor

from resultant._core import memory
from resultant._core.arrays import directions
from resultant._core.device import require_device
from resultant._core.text import counted
from resultant._core.validation import finite_number
from resultant.classes.metric import Metric, have_direction
from resultant.classes.statistics import ClassStatistics
from resultant.score.limits import require_comparable


class SparseRows:
    """Rows of a sparse matrix; indexing makes the chosen rows dense, on a device."""

    def __init__(self, matrix: Any, device: torch.device | str = "cpu") -> None:
        self.matrix, self.device = matrix, torch.device(device)
        self.shape = torch.Size(matrix.shape)
        self.dtype = torch.float32 if matrix.dtype == np.float32 else torch.float64

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: slice | Tensor) -> Tensor:
        return torch.from_numpy(self.matrix[as_numpy(index)].toarray()).to(self.device)

    def to(self, device: torch.device | str) -> SparseRows:
        """Return the rows, dense on another device when they are chosen."""
        return SparseRows(self.matrix, device)


Rows = Tensor | SparseRows


@dataclass(frozen=True, eq=False)
class Sample:
    """Labelled rows with weights, on one device."""

    rows: Rows  # rows [N, p] of any length
    y: Tensor  # class indices [N]
    w: Tensor  # weights [N] in float64
    num_classes: int  # number of classes C

    @property
    def dim(self) -> int:
        """Dimension p."""
        return self.rows.shape[1]

    @cached_property
    def summed(self) -> ClassStatistics:
        """Sums of all rows."""
        return self.sums()

    @cached_property
    def scattered(self) -> ClassStatistics:
        """Sums of all rows, with their scatter."""
        return self.sums(scatter=True)

    @cached_property
    def _digests(self) -> np.ndarray:
        return np.concatenate([digests(self.rows[at]) for at in self.chunks()])

    def distinct(self, index: Tensor, *keys: Tensor) -> tuple[Tensor, Tensor]:
        """Choose one of the rows of equal values, class and ``keys`` [n] of an ``index`` [n], with
        their weight, for all that is drawn; return places in the index and weights."""
        at, w = index.cpu().numpy(), self.w[index]
        columns = [*(k.cpu().numpy() for k in (*keys, self.y[index])), self._digests[at]]
        _, first, group = np.unique(columns, axis=1, return_index=True, return_inverse=True)
        if len(first) == len(at) and bool((w == 1).all()):
            return torch.arange(len(at), device=w.device), w
        first, group = (torch.from_numpy(a).to(w.device) for a in (first, group))
        total = w.new_zeros(len(first)).index_add_(0, group, w)
        return first[total > 0], total[total > 0]

    @cached_property
    def merged(self) -> Sample:
        """The `distinct` rows."""
        index, w = self.distinct(torch.arange(len(self.y), device=self.y.device))
        if len(w) == len(self.y) and bool((self.w == 1).all()):
            return self
        rows = self.rows
        if isinstance(rows, Tensor):
            return Sample(rows[index], self.y[index], w, self.num_classes)
        some = SparseRows(rows.matrix[as_numpy(index)], rows.device)
        return Sample(some, self.y[index], w, self.num_classes)

    def at(self, index: Tensor) -> Sample:
        """Return some of the rows [n], dense."""
        return Sample(self.rows[index], self.y[index], self.w[index], self.num_classes)

    def sums(
        self, index: Tensor | None = None, *, metric: Metric | None = None, scatter: bool = False
    ) -> ClassStatistics:
        """Sum the rows, or those of an ``index`` [n], in a metric."""
        size, device = (self.num_classes, self.dim), self.rows.device
        statistics = ClassStatistics(*size, device=device, scatter=scatter)
        for at in self.chunks(index):
            x = directions(self.rows[at])[0]
            x = x if metric is None else metric.transform(x)
            statistics.add(x, self.y[at], self.w[at], exact=True)
        return statistics

    def metric_sums(
        self, index: Tensor, metric: Metric, shrinkages: Sequence[float]
    ) -> list[ClassStatistics]:
        """Sum rows of an ``index`` [n] in metrics of several shrinkages, which share a rotation."""
        dtype, metric = self.rows.dtype, metric.to(dtype=self.rows.dtype)
        scales = [metric.with_shrinkage(s).scale.to(dtype) for s in shrinkages]
        squares = torch.stack(scales, 1).square()
        size, device = (self.num_classes, self.dim), metric.mean.device
        sums = [ClassStatistics(*size, device=device) for _ in shrinkages]
        for at in self.chunks(index):
            z, y, w = directions(self.rows[at])[0].to(dtype), self.y[at], self.w[at]
            x = metric.rotate(z)
            inverse = (x.square() @ squares).rsqrt() * w.to(dtype)[:, None]
            inverse = torch.where(have_direction(z, x), inverse, 0.0)
            for statistics, scale, factor in zip(sums, scales, inverse.T, strict=True):
                part = x.new_zeros(size).index_add_(0, y, x * factor[:, None])
                statistics.total += part * scale
                statistics.count.index_add_(0, y, torch.ones_like(y))
                statistics.weight.index_add_(0, y, w)
        return sums

    def chunks(self, index: Tensor | None = None) -> Iterator[slice | Tensor]:
        """Yield slices of the rows, or parts of an ``index`` [n], that fit `MATRIX_BYTES`."""
        if index is None:
            yield from row_chunks(self.rows, 1)
        else:
            yield from index.split(next(row_chunks(self.rows, 1)).stop)


def digests(rows: Tensor) -> np.ndarray:
    """Hash the values of rows [n, p], as int64 [n]; a negative zero is zero."""
    values = (rows + 0.0).cpu().numpy()
    parts = [blake2b(row.tobytes(), digest_size=8).digest() for row in values]
    return np.frombuffer(b"".join(parts), np.int64)


def row_chunks(rows: Rows, width: int) -> Iterator[slice]:
    """Slice rows [N, p] so that float64 matrices of N by p and by ``width`` fit `MATRIX_BYTES`."""
    widest = 8 * max(rows.shape[1], width)
    return memory.row_slices(len(rows), widest, memory.MATRIX_BYTES, rows.device)


Array = np.ndarray | Tensor

# Ratio of the largest to the median standard deviation of columns of different units, and rows
# that show it.
UNITS = 100.0
UNIT_ROWS = 2_000

# A parameter that is chosen by cross-validation, or fitted.
AUTO = "auto"


def is_auto(value: Any) -> bool:
    """Return True for the string ``auto``; arrays are compared by no value."""
    return isinstance(value, str) and value == AUTO


def features(
    estimator: BaseEstimator, X: Any, *, reset: bool, least: int = 1, dense: bool = False
) -> Rows:
    """Return X [N, p] as finite rows of float32 or float64, ``least`` of them or more."""
    rows = finite_rows(estimator, X, reset=reset, least=least, dense=dense)
    warn_of_zeros(rows)
    return rows


def finite_rows(estimator: BaseEstimator, X: Any, *, reset: bool, least: int, dense: bool) -> Rows:
    """Return the rows of `features`."""
    narrowest = 2 if reset else 1
    if not isinstance(X, Tensor):
        kinds: dict[str, Any] = {"dtype": [np.float64, np.float32], "order": "C"}
        kinds |= {"ensure_min_samples": least, "ensure_min_features": narrowest}
        X = validate_data(estimator, X, reset=reset, accept_sparse=not dense and "csr", **kinds)
        if sparse.issparse(X):
            return SparseRows(X)
        with warnings.catch_warnings():
            # Rows are never written to. A copy of a mapped file would fill the memory.
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            return torch.from_numpy(X)
    real = X.dtype != torch.bool and not X.is_complex()
    if X.dim() != 2 or len(X) < least or X.shape[1] < narrowest or not real:
        rule = f"expected X [N, p] of real numbers with N >= {least} and p >= {narrowest}"
        raise ValueError(f"{rule}, got {X.dtype} of shape {tuple(X.shape)}")
    # Checks the number of features alone.
    validate_data(estimator, X, reset=reset, skip_check_array=True)  # type: ignore[arg-type]
    X = X.detach().to_dense() if X.layout != torch.strided else X.detach()
    if X.dtype not in (torch.float32, torch.float64):
        X = X.to(torch.float32 if X.is_floating_point() else torch.float64)
    for part in row_chunks(X, 1):
        bad = ~X[part].isfinite().all(1)
        if bad.any():
            i = part.start + int(bad.int().argmax())
            raise ValueError(f"expected X finite, got NaN or infinity in row {i}")
    return X


def labelled(
    classifier: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    classes: np.ndarray | None = None,
    reset: bool = True,
    least: int = 1,
) -> tuple[Sample, np.ndarray]:
    """Check a labelled sample; return it on the device of the sums, and the classes' labels."""
    rows = features(classifier, X, reset=reset, least=least)
    require_temperatures(classifier.temperature, rows.dtype)
    labels = class_labels("y", y)
    check_consistent_length(rows, labels)
    weights = sample_weights(sample_weight, len(rows))
    classes = np.asarray(unique_labels(labels)) if classes is None else classes
    unknown = ~np.isin(labels, classes)
    if unknown.any():
        i = int(unknown.argmax())
        rule = f"expected labels among the classes {classes.tolist()}"
        raise ValueError(f"{rule}, got {labels[i : i + 1].tolist()[0]!r} at index {i}")
    # Not by the name: rows that were added are fitted when the name is read.
    device = classifier.device if reset else vars(classifier)["statistics_"].device
    device = rows.device if device is None else require_device(device)
    index = torch.as_tensor(np.searchsorted(classes, labels), dtype=torch.int64, device=device)
    w = torch.as_tensor(weights, device=device)
    return Sample(rows.to(device), index, w, len(classes)), classes


def positive_or_auto(name: str, value: Any) -> float | str | None:
    """Return a number above zero, ``auto``, or None; raise for other values."""
    if value is None or is_auto(value):
        return value
    number = finite_number(name, value)
    if number <= 0:
        raise ValueError(f'expected {name} > 0, None or "{AUTO}", got {number:g}')
    return number


def seconds_or_none(time_limit: float | None) -> float | None:
    """Return a limit of time; raise for other values than None and numbers above zero."""
    if time_limit is None:
        return None
    seconds = finite_number("time_limit", time_limit)
    if seconds <= 0:
        raise ValueError(f"expected time_limit > 0 or None, got {seconds:g}")
    return seconds


def warn_of_units(rows: Rows) -> None:
    """Warn if one column decides all directions."""
    if not isinstance(rows, Tensor):
        return
    column, ratio = widest_column(rows[:: max(1, len(rows) // UNIT_ROWS)])
    if ratio > UNITS:
        text = f"column {column} of X varies {ratio:,.0f} times as much as the median column"
        text += " and decides all directions; standardize the columns"
        text += ' (sklearn.preprocessing.StandardScaler), or use whiten="within"'
        warnings.warn(text, UserWarning, stacklevel=3)


def warn_of_zeros(rows: Rows) -> None:
    """Warn if rows are zeros, which have no direction."""
    if isinstance(rows, SparseRows):
        zeros = np.flatnonzero(abs(rows.matrix).max(axis=1).toarray().ravel() == 0)
    else:
        # Most rows differ from zero in their first column.
        zeros = as_numpy((rows[:, 0] == 0).nonzero()[:, 0])
        zeros = zeros[~as_numpy(rows[torch.from_numpy(zeros).to(rows.device)].any(1))]
    if len(zeros):
        text = f"{len(zeros):,} of {counted(len(rows), 'row', 'rows')} in X are zeros, which have"
        text += f" no direction and say nothing; the first is row {zeros[0]}"
        warnings.warn(text, UserWarning, stacklevel=4)


def widest_column(x: Tensor) -> tuple[int, float]:
    """Return the column of rows [n, p] that varies most, and its ratio to the median column."""
    spread = x.double().std(0, correction=0)
    most, column = spread.max(0)
    return int(column), float(most / spread[spread > 0].quantile(0.5)) if most > 0 else 0.0


def class_labels(name: str, y: Any) -> np.ndarray:
    """Return labels [N] of classes as an array: all strings, or all integers."""
    labels = column_or_1d(as_numpy(y), warn=True)
    strings = [isinstance(a, str) for a in labels] if labels.dtype.kind == "O" else []
    if any(strings) and not all(strings):
        i = strings.index(False)
        rule = f"expected {name} to be all strings, or all integers"
        raise ValueError(f"{rule}, got {labels[i]!r} at index {i}")
    assert_all_finite(labels, input_name=name)
    check_classification_targets(labels)
    return labels


def known_groups(groups: Any) -> np.ndarray:
    """Return groups [N] as an array, in which none may be missing."""
    names = np.asarray(groups)
    missing = [g is None or g != g for g in names.ravel()] if names.dtype.kind in "fO" else []
    if any(missing):
        got = f"none in row {missing.index(True)}"
        raise ValueError(f"expected a group for each row, got {got}; give it a group of its own")
    return names


def sample_weights(sample_weight: Any, length: int) -> np.ndarray:
    """Return weights [N] >= 0 in float64 from weights, one number, or None."""
    weights = np.asarray(1.0 if sample_weight is None else as_numpy(sample_weight), np.float64)
    weights = np.full(length, weights) if weights.ndim == 0 else weights
    if weights.shape != (length,):
        raise ValueError(f"expected sample_weight [{length}], got shape {weights.shape}")
    bad = ~((weights >= 0) & np.isfinite(weights) & weights.any())
    if bad.any():
        i, rule = int(bad.argmax()), "expected sample_weight >= 0 and finite, one above zero"
        raise ValueError(f"{rule}, got {weights[i]:g} at index {i}")
    return weights


def require_temperatures(temperature: Any, dtype: torch.dtype) -> None:
    """Raise unless scores in ``dtype`` can be compared at one temperature, or at several."""
    if not is_auto(temperature):
        for tau in np.asarray(as_numpy(temperature), object).ravel():
            require_comparable("temperature", finite_number("temperature", tau), dtype)


def as_numpy(a: Any) -> Any:
    """Return a tensor as an array, and anything else unchanged."""
    return a.detach().cpu().numpy() if isinstance(a, Tensor) else a


def returned(a: Tensor, X: Any) -> Array:
    """Return a tensor on the device of a tensor X, an array otherwise."""
    return a.to(X.device) if isinstance(X, Tensor) else a.cpu().numpy()
