"""Rows of features: in memory or mapped, read from files on demand, joined, or selected.

All kinds are indexed as NumPy arrays are along their first axis; other keys are refused.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant._core import chunks


class Rows(ABC):
    """An array [N, ...] whose rows are read on demand."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @abstractmethod
    def read(self, start: int, stop: int) -> Tensor:
        """Read the rows from start to stop, 0 <= start <= stop <= N."""

    def take(self, index: Tensor) -> Tensor:
        """Read the rows at indices [n] in [0, N), in any order."""
        out = torch.empty((len(index), *self.shape[1:]), dtype=self.dtype)
        order = index.argsort()
        ranked = index[order]
        height = chunks.rows_per_chunk(self.nbytes // max(1, len(self)), chunks.MATRIX_BYTES)
        low = 0
        while low < len(ranked):
            top = int(ranked[low])
            high = int(torch.searchsorted(ranked, top + height))
            piece = self.read(top, int(ranked[high - 1]) + 1)
            out[order[low:high]] = piece[ranked[low:high] - top]
            low = high
        return out

    def where(self, row: int) -> str:
        """The place of a row in its file."""
        return f"row {row}"

    def __getitem__(self, key: Any) -> Tensor:
        """Return rows as NumPy does: by an integer, a slice, indices [n] or a mask [N]."""
        if isinstance(key, slice):
            rows = range(*key.indices(len(self)))
            if rows.step == 1:
                return self.read(rows.start, max(rows.start, rows.stop))
            return self.take(torch.tensor(rows, dtype=torch.int64))
        if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
            return self[torch.tensor([int(key)])][0]
        index = torch.as_tensor(key)
        if index.dtype == torch.bool and index.shape == self.shape[:1]:
            return self.take(index.nonzero()[:, 0])
        whole = not (index.is_floating_point() or index.is_complex() or index.dtype == torch.bool)
        if index.dim() != 1 or not (whole or not len(index)):
            rule = f"expected an integer, a slice, indices [n] or a mask [{len(self)}]"
            raise IndexError(f"{rule}, got {index.dtype} {list(index.shape)}")
        index = index.to("cpu", torch.int64)
        beyond = index[(index < -len(self)) | (index >= len(self))]
        if len(beyond):
            raise IndexError(f"expected rows of {len(self)}, got {int(beyond[0])}")
        return self.take(index.where(index >= 0, index + len(self)))


class TensorRows(Rows):
    """Rows of a tensor, in memory or mapped from a file; ``source`` are the rows it was read of."""

    def __init__(self, tensor: Tensor, source: Rows | None = None) -> None:
        self.tensor, self.shape, self.dtype = tensor, tuple(tensor.shape), tensor.dtype
        self.source = source

    def where(self, row: int) -> str:
        return super().where(row) if self.source is None else self.source.where(row)

    def read(self, start: int, stop: int) -> Tensor:
        return self.tensor if stop - start == len(self) else self.tensor[start:stop]

    def take(self, index: Tensor) -> Tensor:
        return self.tensor[index]


class FileRows(Rows):
    """Rows of an array in a file, which is opened at each reading: shards may be thousands.

    ``opened`` opens an array of NumPy, of HDF5, or a sparse matrix, with a shape and slices. The
    numbers of the file are converted to ``dtype``.
    """

    def __init__(
        self,
        opened: Callable[[], AbstractContextManager[Any]],
        shape: tuple[int, ...],
        dtype: torch.dtype,
    ) -> None:
        self.opened, self.shape, self.dtype = opened, shape, dtype

    def read(self, start: int, stop: int) -> Tensor:
        with self.opened() as array:
            return self._part(array, slice(start, stop))

    def take(self, index: Tensor) -> Tensor:
        with self.opened() as array:
            if isinstance(array, np.ndarray):
                return self._part(array, index.numpy())
        return super().take(index)

    def _part(self, array: Any, rows: slice | np.ndarray) -> Tensor:
        if tuple(array.shape) != self.shape:
            got = f"{array.shape}; the file has changed"
            raise ValueError(f"expected an array {self.shape}, got {got}")
        # A copy in the byte order of this machine: maps may be of another order and unaligned.
        part = array[rows]
        part = np.array(part, dtype=part.dtype.newbyteorder("="), order="C")
        return torch.from_numpy(part).to(self.dtype)


class ConcatRows(Rows):
    """The rows of several arrays of one width and dtype in order, with the files of the arrays."""

    def __init__(self, parts: Sequence[Rows], files: Sequence[str]) -> None:
        self.parts, self.files = list(parts), list(files)
        self.tops = np.cumsum([0, *map(len, parts)]).tolist()
        self.shape, self.dtype = (self.tops[-1], *parts[0].shape[1:]), parts[0].dtype

    def read(self, start: int, stop: int) -> Tensor:
        pieces = [torch.empty((0, *self.shape[1:]), dtype=self.dtype)]
        for part, top in zip(self.parts, self.tops, strict=False):
            low, high = max(start - top, 0), min(stop - top, len(part))
            pieces += [part.read(low, high)] if low < high else []
        return pieces[1] if len(pieces) == 2 else torch.cat(pieces)

    def take(self, index: Tensor) -> Tensor:
        out = torch.empty((len(index), *self.shape[1:]), dtype=self.dtype)
        for part, top in zip(self.parts, self.tops, strict=False):
            at = ((index >= top) & (index < top + len(part))).nonzero()[:, 0]
            if len(at):
                out[at] = part.take(index[at] - top)
        return out

    def where(self, row: int) -> str:
        part = bisect_right(self.tops, row) - 1
        return f"{self.parts[part].where(row - self.tops[part])} of {self.files[part]}"


class IndexedRows(Rows):
    """The rows of an array at indices ``index`` [M]."""

    def __init__(self, rows: Rows, index: Tensor) -> None:
        self.rows, self.index = rows, index
        self.shape, self.dtype = (len(index), *rows.shape[1:]), rows.dtype

    def read(self, start: int, stop: int) -> Tensor:
        return self.rows.take(self.index[start:stop])

    def take(self, index: Tensor) -> Tensor:
        return self.rows.take(self.index[index])

    def where(self, row: int) -> str:
        return self.rows.where(int(self.index[row]))


@dataclass(frozen=True)
class NonNumericArray:
    """An array of strings, objects or records, with its dtype as text.

    Strings are read as the distinct strings and the index of each row [N] among them. Other arrays
    are never read.
    """

    shape: tuple[int, ...]
    kind: str
    read: Callable[[], tuple[list[str], Tensor]] | None = None


AnyArray = Rows | NonNumericArray


def selected(array: AnyArray, index: Tensor) -> AnyArray:
    """The rows of an array at indices [M]."""
    if isinstance(array, Rows):
        return IndexedRows(array, index)
    read, shape = array.read, (len(index), *array.shape[1:])
    if read is None or math.prod(shape[1:]) != 1:
        return NonNumericArray(shape, array.kind)

    def chosen() -> tuple[list[str], Tensor]:
        words, codes = read()
        return words, codes[index]

    return NonNumericArray(shape, array.kind, chosen)


def as_floats(rows: Rows) -> Rows:
    """Rows of integers as floats; integers of 64 bits are rounded."""
    dtype = torch.float32 if rows.dtype.itemsize <= 2 else torch.float64
    if isinstance(rows, TensorRows):
        return TensorRows(rows.tensor.to(dtype))
    rows = copy(rows)
    rows.dtype = dtype
    if isinstance(rows, IndexedRows):
        rows.rows = as_floats(rows.rows)
    return rows


def torch_dtype(dtype: np.dtype[Any]) -> torch.dtype | None:
    """The dtype of torch in the byte order of this machine, None if torch has none."""
    try:
        return torch.from_numpy(np.empty(0, dtype.newbyteorder("="))).dtype
    except TypeError:
        return None
