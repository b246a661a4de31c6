"""Labelled rows of any length, read in chunks as unit vectors, and their sums.

Rows are tensors or SciPy's sparse matrices. A row is used by its direction; a row of zeros has
none and is a vector of zeros: a sample of length zero, with cosine 0 to every class.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant._core import chunks
from resultant._core.arrays import directions
from resultant.classes.metric import Metric, have_direction
from resultant.classes.statistics import ClassStatistics


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
