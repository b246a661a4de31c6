"""Arguments of estimators: checks of rows, labels and weights, and labelled rows with their sums.

Rows are tensors or sparse matrices of SciPy, read in chunks as unit vectors. A row of zeros has no
direction and is a vector of zeros: a sample of length zero, with cosine 0 to every class.
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
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, column_or_1d, validate_data
from torch import Tensor

from resultant._core import chunks
from resultant._core.arrays import directions
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
        at = index.cpu().numpy() if isinstance(index, Tensor) else index
        return torch.from_numpy(self.matrix[at].toarray()).to(self.device)

    def at(self, index: Tensor) -> SparseRows:
        """Return some of the rows [n], sparse."""
        return SparseRows(self.matrix[index.cpu().numpy()], self.device)

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
    def scattered(self) -> ClassStatistics:
        """Sums of all rows, with their scatter."""
        return self.sums(scatter=True)

    @cached_property
    def _digests(self) -> np.ndarray:
        """Hashes [N] of the values of the rows."""
        digests = [
            blake2b(row.tobytes(), digest_size=8).digest()
            for at in self.chunks()
            for row in (self.rows[at] + 0.0).cpu().numpy()  # a negative zero is zero
        ]
        return np.frombuffer(b"".join(digests), np.int64)

    def distinct(self, index: Tensor, *keys: Tensor) -> tuple[Tensor, Tensor]:
        """Choose one of the rows of equal values, class and ``keys`` [n] among those of an
        ``index`` [n]; return their places in the index and their total weights.

        They are sorted by keys, class and values, so that k equal rows are one row of weight k in
        all that is drawn from them. Rows that are distinct and of weight one stay as they are.
        """
        at, w = index.cpu().numpy(), self.w[index]
        columns = [*(k.cpu().numpy() for k in (*keys, self.y[index])), self._digests[at]]
        _, first, group = np.unique(columns, axis=1, return_index=True, return_inverse=True)
        if len(first) == len(at) and bool((w == 1).all()):
            return torch.arange(len(at), device=w.device), w
        first, group = (torch.from_numpy(a).to(w.device) for a in (first, group))
        total = w.new_zeros(len(first)).index_add_(0, group, w)
        return first[total > 0], total[total > 0]

    @property
    def merged(self) -> Sample:
        """The `distinct` rows."""
        index, w = self.distinct(torch.arange(len(self.y), device=self.y.device))
        if len(w) == len(self.y) and bool((self.w == 1).all()):
            return self
        rows = self.rows[index] if isinstance(self.rows, Tensor) else self.rows.at(index)
        return Sample(rows, self.y[index], w, self.num_classes)

    def at(self, index: Tensor) -> Sample:
        """Return some of the rows [n], dense."""
        return Sample(self.rows[index], self.y[index], self.w[index], self.num_classes)

    def sums(
        self, index: Tensor | None = None, *, metric: Metric | None = None, scatter: bool = False
    ) -> ClassStatistics:
        """Sum the rows, or those of an ``index`` [n], in a metric."""
        statistics = ClassStatistics(
            self.num_classes, self.dim, device=self.rows.device, scatter=scatter
        )
        return self.add_to(statistics, index, metric)

    def add_to(
        self, statistics: ClassStatistics, index: Tensor | None = None, metric: Metric | None = None
    ) -> ClassStatistics:
        """Add the rows, or those of an ``index`` [n], to sums; return the sums."""
        for at in self.chunks(index):
            x = directions(self.rows[at])[0]
            x = x if metric is None else metric.transform(x)
            statistics.add(x, self.y[at], self.w[at])
        return statistics

    def metric_sums(
        self, index: Tensor, metric: Metric, shrinkages: Sequence[float]
    ) -> list[ClassStatistics]:
        """Sum rows of an ``index`` [n] in the metrics of several shrinkages, which share a
        rotation; computed in the dtype of the rows, and summed in float64."""
        dtype = self.rows.dtype
        metric = metric.to(dtype=dtype)
        scales = torch.stack([metric.with_shrinkage(s).scale for s in shrinkages], 1).to(dtype)
        sums = [
            ClassStatistics(self.num_classes, self.dim, device=metric.mean.device)
            for _ in shrinkages
        ]
        for at in self.chunks(index):
            z = directions(self.rows[at])[0].to(dtype)
            y, w = self.y[at], self.w[at]
            x = metric.rotate(z)
            inverse = (x.square() @ scales.square()).rsqrt() * w.to(dtype)[:, None]
            inverse = torch.where(have_direction(z, x), inverse, 0.0)
            for k, statistics in enumerate(sums):
                part = x.new_zeros(statistics.total.shape).index_add_(0, y, x * inverse[:, k, None])
                statistics.total += part * scales[:, k]
                statistics.count.index_add_(0, y, torch.ones_like(y))
                statistics.weight.index_add_(0, y, w)
        return sums

    def chunks(self, index: Tensor | None = None) -> Iterator[slice | Tensor]:
        """Yield slices of the rows, or parts of an ``index`` [n], that fit `MATRIX_BYTES`."""
        if index is None:
            yield from row_chunks(self.rows, 1)
        else:
            yield from index.split(next(row_chunks(self.rows, 1)).stop)


def row_chunks(rows: Rows, width: int) -> Iterator[slice]:
    """Slice rows [N, p] so that float64 matrices of N by p and by ``width`` fit `MATRIX_BYTES`."""
    widest = 8 * max(rows.shape[1], width)
    return chunks.row_slices(len(rows), widest, chunks.MATRIX_BYTES, rows.device)


Array = np.ndarray | Tensor

# Ratio of the largest standard deviation of a column to the median one from which columns have
# different units, and rows that show it.
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
    """Return X [N, p] as finite rows of float32 or float64, ``least`` of them or more.

    With ``reset``, in a fit, p >= 2; otherwise p is that of the fit. With ``dense``, sparse
    matrices are refused.
    """
    narrowest = 2 if reset else 1
    if not isinstance(X, Tensor):
        X = validate_data(
            estimator,
            X,
            reset=reset,
            dtype=[np.float64, np.float32],
            order="C",
            accept_sparse=False if dense else "csr",
            ensure_min_samples=least,
            ensure_min_features=narrowest,
        )
        if sparse.issparse(X):
            return SparseRows(X)
        with warnings.catch_warnings():
            # Rows are never written to. A copy of a mapped file would fill the memory.
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            return torch.from_numpy(X)
    if X.dim() != 2 or len(X) < least or X.shape[1] < narrowest:
        rule = f"expected X [N, p] with N >= {least} and p >= {narrowest}"
        raise ValueError(f"{rule}, got shape {tuple(X.shape)}")
    if X.dtype == torch.bool or X.is_complex():
        raise ValueError(f"expected X of real numbers, got {X.dtype}")
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


def warn_of_units(rows: Rows) -> None:
    """Warn if one column of rows [N, p] varies so much that it decides all directions."""
    if not isinstance(rows, Tensor):
        return
    spread = rows[:: max(1, len(rows) // UNIT_ROWS)].double().std(0, correction=0)
    spread = torch.where(spread > 0, spread, torch.nan)
    ratio = float(spread.nan_to_num(0.0).max() / spread.nanmedian())
    if ratio > UNITS:
        warnings.warn(
            f"column {int(spread.nan_to_num(0.0).argmax())} of X varies {ratio:,.0f} times as much "
            "as the median column and decides all directions; standardize the columns "
            '(sklearn.preprocessing.StandardScaler), or use whiten="within"',
            UserWarning,
            stacklevel=3,
        )


def class_labels(y: Any) -> np.ndarray:
    """Return labels [N] of classes as an array."""
    labels = sortable("y", column_or_1d(as_numpy(y), warn=True))
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return labels


def sortable(name: str, labels: np.ndarray) -> np.ndarray:
    """Return the labels; raise if strings and other objects are mixed."""
    strings = [isinstance(a, str) for a in labels] if labels.dtype.kind == "O" else []
    if any(strings) and not all(strings):
        i = strings.index(False)
        rule = f"expected {name} to be all strings, or all integers"
        raise ValueError(f"{rule}, got {labels[i]!r} at index {i}")
    return labels


def sample_weights(sample_weight: Any, length: int) -> np.ndarray:
    """Return weights [N] >= 0 in float64 from weights, one number, or None."""
    weights = np.asarray(1.0 if sample_weight is None else as_numpy(sample_weight), np.float64)
    if weights.ndim == 0:
        weights = np.full(length, weights)
    if weights.shape != (length,):
        raise ValueError(f"expected sample_weight [{length}], got shape {weights.shape}")
    bad = ~((weights >= 0) & np.isfinite(weights))
    if bad.any():
        i = int(bad.argmax())
        raise ValueError(f"expected sample_weight >= 0 and finite, got {weights[i]:g} at index {i}")
    if not weights.any():
        raise ValueError("expected a sample_weight above zero, got all of them zero")
    return weights


def require_temperatures(temperature: Any, dtype: torch.dtype) -> None:
    """Raise unless scores in ``dtype`` can be compared at one temperature, or at several."""
    if is_auto(temperature):
        return
    several = isinstance(temperature, list | tuple) or getattr(temperature, "ndim", 0) > 0
    for tau in temperature if several else (temperature,):
        number = tau if isinstance(tau, Tensor) else finite_number("temperature", tau)
        require_comparable("temperature", number, dtype)


def as_numpy(a: Any) -> Any:
    """Return a tensor as an array, and anything else unchanged."""
    return a.detach().cpu().numpy() if isinstance(a, Tensor) else a


def returned(a: Tensor, X: Any) -> Array:
    """Return a tensor for a tensor X, an array otherwise."""
    return a if isinstance(X, Tensor) else a.cpu().numpy()


def returned_labels(index: Tensor, classes: np.ndarray, X: Any) -> Array:
    """Return the labels [N] of class indices: a tensor for a tensor X and labels of numbers."""
    if isinstance(X, Tensor) and classes.dtype.kind in "biuf":
        return torch.as_tensor(classes, device=index.device)[index]
    return classes[index.cpu().numpy()]
