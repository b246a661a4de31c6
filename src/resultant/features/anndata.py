"""Features in AnnData files (.h5ad), read by h5py: X and obsm are features, obs has the labels.

Nothing outside of the file is read. The declared sizes are compared with the memory before anything
is decoded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant._core.memory import require_content
from resultant.features.arrays import Arrays
from resultant.features.reading import reading
from resultant.features.rows import (
    MAX_WIDTH,
    AnyArray,
    FileRows,
    NonNumericArray,
    TensorRows,
    torch_dtype,
)

KIND = "a whole AnnData file"


def read_anndata(path: Path) -> Arrays:
    """Open X, the arrays of obsm and the columns of obs by name.

    The names of the observations are ``identities``. Columns are read when they are needed.
    """
    import h5py

    arrays: Arrays = {}
    with reading(path, KIND), h5py.File(path, "r") as file:
        obs = _member(file, "obs")
        index = _text(obs.attrs.get("_index", "_index"))
        for name in obs:
            column = _column(path, _member(obs, name))
            if column is not None:
                arrays["identities" if name == index else name] = column
        members = [(name, _member(file, name)) for name in ("X",) if name in file]
        if "obsm" in file:
            group = _member(file, "obsm")
            members += [(name, _member(group, name)) for name in group]
        for name, member in members:
            rows = _vectors(path, member)
            if rows is not None:
                arrays[name] = rows
    return arrays


def _member(group: Any, name: str) -> Any:
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


def _require_size(dataset: Any) -> None:
    """Raise if a chunk of a dataset, which is decoded as a whole, does not fit."""
    numbers = math.prod(dataset.chunks or (0,))
    require_content(numbers * max(1, dataset.dtype.itemsize), f"a chunk of {dataset.name!r}")


@contextmanager
def _opened(path: Path, name: str) -> Iterator[Any]:
    import h5py

    with reading(path, KIND), h5py.File(path, "r") as file:
        yield file[name]


def _vectors(path: Path, member: Any) -> AnyArray | None:
    """The rows of a dataset [N, d] of numbers or of a sparse matrix; None for anything else."""
    import h5py

    if isinstance(member, h5py.Dataset):
        _require_size(member)
        if len(member.shape) != 2 or member.dtype.kind not in "fiu":
            return None
        return _rows(partial(_opened, path, str(member.name)), member.shape, member)
    kind = _text(member.attrs.get("encoding-type", member.attrs.get("h5sparse_format", "")))
    if not kind.startswith("csr"):
        return None
    parts = [_member(member, name) for name in ("data", "indices", "indptr")]
    for part in parts:
        _require_size(part)
    shape = tuple(int(n) for n in member.attrs.get("shape", member.attrs.get("h5sparse_shape")))
    if len(shape) != 2 or parts[2].shape != (shape[0] + 1,):
        raise ValueError(f"a sparse matrix {shape} with {parts[2].shape} rows")
    return _rows(partial(_opened_sparse, path, member.name, shape), shape, parts[0])


def _rows(opened: Callable[[], Any], shape: tuple[int, ...], dataset: Any) -> FileRows:
    if not 1 <= shape[1] <= MAX_WIDTH:
        raise ValueError(f"{shape[1]:,} columns in {dataset.name!r}")
    dtype = torch_dtype(dataset.dtype)
    if dtype is None:
        raise ValueError(f"{dataset.dtype} in {dataset.name!r}")
    return FileRows(opened, shape, dtype)


@contextmanager
def _opened_sparse(path: Path, name: str, shape: tuple[int, ...]) -> Iterator[Any]:
    with _opened(path, name) as group:
        yield _SparseRows(group, shape)


class _SparseRows:
    """Rows of a sparse matrix in compressed rows, made dense."""

    def __init__(self, group: Any, shape: tuple[int, ...]) -> None:
        self.group, self.shape = group, shape

    def __getitem__(self, rows: slice) -> np.ndarray:
        import scipy.sparse

        ends = self.group["indptr"][rows.start : rows.stop + 1].astype(np.int64)
        values = self.group["data"][ends[0] : ends[-1]]
        columns = self.group["indices"][ends[0] : ends[-1]]
        parts = values, columns, ends - ends[0]
        matrix = scipy.sparse.csr_array(parts, (rows.stop - rows.start, self.shape[1]))
        matrix.check_format(full_check=True)
        return matrix.toarray()


def _column(path: Path, member: Any) -> AnyArray | None:
    """A column of obs: numbers, strings or categories; None for anything else."""
    import h5py

    if isinstance(member, h5py.Group):
        if "codes" not in member or "categories" not in member:
            return None
        codes, categories = _member(member, "codes"), _member(member, "categories")
        words = _column(path, categories)
        if codes.dtype.kind not in "iu" or len(codes.shape) != 1 or words is None:
            return None
        _require_size(codes)
        read = partial(_categories, path, str(member.name), words)
        if isinstance(words, NonNumericArray):
            return NonNumericArray(codes.shape, "categories", read)
        return FileRows(partial(_opened_categories, read), codes.shape, words.dtype)
    _require_size(member)
    if len(member.shape) != 1:
        return None
    if member.dtype.kind in "fiub":
        dtype = torch_dtype(member.dtype)
        return (
            None
            if dtype is None
            else FileRows(partial(_opened, path, member.name), member.shape, dtype)
        )
    if h5py.check_string_dtype(member.dtype) is None:
        return None
    return NonNumericArray(member.shape, "strings", partial(_strings, path, member.name))


def _strings(path: Path, name: str) -> tuple[list[str], Tensor]:
    """The distinct strings of a dataset, and the index of each row [N] among them."""
    with _opened(path, name) as dataset:
        words, codes = np.unique(dataset.asstr(errors="replace")[:], return_inverse=True)
    return [str(word) for word in words], torch.from_numpy(codes)


def _categories(path: Path, name: str, words: AnyArray) -> tuple[Any, Tensor]:
    """The categories of a column, and the index of each row [N] among them."""
    with _opened(path, f"{name}/codes") as dataset:
        codes = dataset[:].astype(np.int64)
    missing = ((codes < 0) | (codes >= len(words))).nonzero()[0]
    if len(missing):
        raise ValueError(
            f"expected a category in every row of {name.rpartition('/')[2]} of {path}, got "
            f"{len(missing):,} rows without one, the first of them row {missing[0]}; leave these "
            "rows out, or name another column with --labels"
        )
    if isinstance(words, TensorRows | FileRows):
        return words[:], torch.from_numpy(codes)
    assert isinstance(words, NonNumericArray) and words.read is not None
    names, order = words.read()
    return names, order[torch.from_numpy(codes)]


@contextmanager
def _opened_categories(read: Callable[[], tuple[Tensor, Tensor]]) -> Iterator[np.ndarray]:
    values, codes = read()
    yield values[codes].numpy()
