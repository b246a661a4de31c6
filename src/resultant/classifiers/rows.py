"""Rows of a sample in chunks, and their sums."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from resultant._core import chunks
from resultant._core.arrays import directions
from resultant.classes.statistics import ClassStatistics


def add_rows(statistics: ClassStatistics, X: Tensor, y: Tensor, w: Tensor) -> ClassStatistics:
    """Add rows [N, p] of any length with labels [N] and weights [N]; return the statistics."""
    for part in row_chunks(X, 1):
        statistics.add(directions(X[part])[0], y[part], w[part])
    return statistics


def row_chunks(X: Tensor, num_classes: int) -> Iterator[slice]:
    """Slice rows of X [N, p] so that float64 features and scores fit `MATRIX_BYTES` each."""
    return chunks.row_slices(len(X), 8 * max(X.shape[1], num_classes), chunks.MATRIX_BYTES)
