"""Features in AnnData files (.h5ad), read by h5py: X and obsm are features, obs has the labels.

Nothing outside of the file is read: links to other files are refused. The declared sizes are
compared with the size of the file before anything is read.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant._core import chunks
from resultant._core.text import one_line
from resultant.features.columns import MAX_WIDTH
from resultant.features.rows import MemoryRows, NonNumericArray, Rows


def read_anndata(path: Path) -> dict[str, Rows | NonNumericArray]:
    """Open X, the arrays of obsm and the columns of obs by name.

    The names of the observations are ``identities``.

    Raises:
        ValueError: h5py is missing, or the file is broken or reads another file.
    """
    arrays: dict[str, Rows | NonNumericArray] = {}
    with _file(path) as file:
        size = os.path.getsize(path)
        obs = _get(file, "obs")
        index = _text(obs.attrs.get("_index", "_index"))
        for name in obs:
            column = _column(_get(obs, name), size)
            if column is not None:
                arrays["identities" if name == index else name] = column
        for group, names in ((file, ["X"] if "X" in file else []), ("obsm", None)):
            if isinstance(group, str):
                if group not in file:
                    continue
                group = _get(file, group)
                names = list(group)
            for name in names or ():
                rows = _vectors(path, _get(group, name), size)
                if rows is not None:
                    arrays[name] = rows
    return arrays


class H5Rows(Rows):
    """Rows of a dataset."""

    def __init__(
        self, path: Path, name: str, shape: tuple[int, ...], layout: np.dtype[Any]
    ) -> None:
        self.path, self.name, self.shape, self.layout = path, name, shape, layout
        self.dtype = torch.from_numpy(np.empty(0, layout)).dtype

    def read(self, start: int, stop: int) -> Tensor:
        with _file(self.path) as file:
            values = file[self.name][start:stop]
        return torch.from_numpy(np.ascontiguousarray(values, self.layout))


class CsrRows(H5Rows):
    """Rows of a sparse matrix in compressed rows, made dense piece by piece."""

    def read(self, start: int, stop: int) -> Tensor:
        with _file(self.path) as file:
            group = file[self.name]
            ends = group["indptr"][start : stop + 1].astype(np.int64)
            if len(ends) != stop - start + 1 or (np.diff(ends) < 0).any() or ends[0] < 0:
                raise ValueError("rows of a sparse matrix that do not ascend")
            values = group["data"][ends[0] : ends[-1]]
            columns = group["indices"][ends[0] : ends[-1]].astype(np.int64)
            if len(values) != ends[-1] - ends[0] or len(columns) != len(values):
                raise ValueError("too few values of a sparse matrix")
            if len(columns) and not 0 <= columns.min() <= columns.max() < self.shape[1]:
                raise ValueError("columns of a sparse matrix out of range")
        dense = np.zeros((stop - start, self.shape[1]), self.layout)
        np.add.at(dense, (np.repeat(np.arange(stop - start), np.diff(ends)), columns), values)
        return torch.from_numpy(dense)


@contextmanager
def _file(path: Path) -> Iterator[Any]:
    """Open a file and turn every error over it into a ValueError with the path."""
    try:
        import h5py
    except ImportError:
        raise ValueError("expected h5py to read .h5ad: pip install resultant[anndata]") from None
    rule = f"expected {path} to be a whole AnnData file"
    try:
        with h5py.File(path, "r") as file:
            yield file
    except FileNotFoundError:
        raise ValueError(f"{rule}, got no such file") from None
    except (OSError, KeyError, ValueError, TypeError, RuntimeError, MemoryError) as error:
        raise ValueError(f"{rule}, got: {one_line(error)}") from None


def _get(group: Any, name: str) -> Any:
    """Return a member that lies in the file itself."""
    import h5py

    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise ValueError(f"a link to another place for {name!r}")
    member = group[name]
    if isinstance(member, h5py.Dataset) and (member.is_virtual or member.external):
        raise ValueError(f"data of another file for {name!r}")
    return member


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _require_size(dataset: Any, stored: int) -> None:
    numbers = max(math.prod(dataset.shape), math.prod(dataset.chunks or (0,)))
    chunks.require_decoded(numbers * max(1, dataset.dtype.itemsize), stored)


def _vectors(path: Path, member: Any, size: int) -> Rows | None:
    """The rows of a dataset [N, d] of numbers or of a sparse matrix, or None."""
    import h5py

    if isinstance(member, h5py.Dataset):
        _require_size(member, size)
        if len(member.shape) != 2 or member.dtype.kind not in "fiu":
            return None
        if member.shape[1] > MAX_WIDTH:
            raise ValueError(f"{member.shape[1]:,} columns in {member.name!r}")
        return H5Rows(path, str(member.name), member.shape, member.dtype.newbyteorder("="))
    kind = _text(member.attrs.get("encoding-type", member.attrs.get("h5sparse_format", "")))
    if not kind.startswith("csr"):
        return None
    parts = [_get(member, name) for name in ("data", "indices", "indptr")]
    for part in parts:
        _require_size(part, size)
    shape = tuple(int(n) for n in member.attrs.get("shape", member.attrs.get("h5sparse_shape")))
    if len(shape) != 2 or parts[2].shape != (shape[0] + 1,) or not 1 <= shape[1] <= MAX_WIDTH:
        raise ValueError(f"a sparse matrix {shape} with {parts[2].shape} rows")
    return CsrRows(path, member.name, shape, parts[0].dtype.newbyteorder("="))


def _column(member: Any, size: int) -> Rows | NonNumericArray | None:
    """A column of obs: numbers, strings or categories."""
    import h5py

    if isinstance(member, h5py.Group):
        if "codes" not in member or "categories" not in member:
            return None
        codes, categories = _get(member, "codes"), _column(_get(member, "categories"), size)
        _require_size(codes, size)
        if codes.dtype.kind not in "iu" or len(codes.shape) != 1 or categories is None:
            return None
        index = torch.from_numpy(codes[:].astype(np.int64))
        number = categories.shape[0]
        if len(index) and not 0 <= int(index.min()) <= int(index.max()) < number:
            raise ValueError(f"a missing category in {member.name!r}")
        if isinstance(categories, Rows):
            return MemoryRows(categories.read(0, number)[index])
        assert categories.read is not None
        words, order = categories.read()
        return NonNumericArray((len(index),), "categories", lambda: (words, order[index]))
    _require_size(member, size)
    if len(member.shape) != 1:
        return None
    if member.dtype.kind in "fiub":
        return MemoryRows(torch.from_numpy(member[:].astype(member.dtype.newbyteorder("="))))
    if h5py.check_string_dtype(member.dtype) is None:
        return None
    words, codes = _strings(member.asstr(errors="replace"), len(member), size)
    return NonNumericArray(member.shape, "strings", lambda: (words, codes))


def _strings(words: Any, number: int, size: int) -> tuple[list[str], Tensor]:
    """The distinct strings of a dataset, and the index of each row [N] among them.

    Every row may refer to one long string, so that few rows are read at a time.
    """
    height = max(chunks.DECODED_RATIO, chunks.DECODED_BYTES // size)
    numbers: dict[str, int] = {}
    codes = [
        numbers.setdefault(word, len(numbers))
        for top in range(0, number, height)
        for word in words[top : top + height].tolist()
    ]
    return list(numbers), torch.tensor(codes, dtype=torch.int64)
