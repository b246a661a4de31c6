"""Features in AnnData files (.h5ad), read by h5py: X and obsm are features, obs has the labels."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from resultant.features.declared import require_content
from resultant.features.rows import AnyArray, FileRows, NonNumericArray, reading, torch_dtype

KIND = "a whole AnnData file"


def read_anndata(path: Path) -> dict[str, AnyArray]:
    """Open X, the arrays of obsm and the columns of obs by name; ``identities`` are the index."""
    arrays: dict[str, AnyArray | None] = {}
    with reading(path, KIND), h5py.File(path, "r") as file:
        obs = _member(file, "obs")
        index = _text(obs.attrs.get("_index", "_index"))
        for name in obs:
            column = _column(path, _member(obs, name))
            arrays["identities" if name == index else name] = column
        obsm = _member(file, "obsm") if "obsm" in file else {}
        for group, name in [(file, "X")] * ("X" in file) + [(obsm, name) for name in obsm]:
            arrays[name] = _vectors(path, _member(group, name))
    return {name: array for name, array in arrays.items() if array is not None}


def _member(group: Any, name: str) -> Any:
    """Return a member that lies in the file itself, after a check of what a reading decodes."""
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise ValueError(f"a link to another place for {name!r}")
    member = group[name]
    if isinstance(member, h5py.Dataset):
        if member.is_virtual or member.external:
            raise ValueError(f"data of another file for {name!r}")
        # Chunks are decoded as a whole.
        numbers = max(math.prod(member.chunks or (0,)), math.prod(member.shape[1:]))
        require_content(numbers * member.dtype.itemsize, f"a chunk or row of {member.name!r}")
    return member


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _vectors(path: Path, member: Any) -> AnyArray | None:
    """The rows of a dataset [N, d] of numbers or of a sparse matrix; None for anything else."""
    if isinstance(member, h5py.Dataset):
        return _numbers(path, member) if len(member.shape) == 2 else None
    kind = _text(member.attrs.get("encoding-type", member.attrs.get("h5sparse_format", "")))
    if not kind.startswith("csr"):
        return None
    data, _, ends = (_member(member, name) for name in ("data", "indices", "indptr"))
    shape = tuple(int(n) for n in member.attrs.get("shape", member.attrs.get("h5sparse_shape")))
    if len(shape) != 2 or ends.shape != (shape[0] + 1,):
        raise ValueError(f"a sparse matrix {shape} with {ends.shape} rows")
    require_content(shape[1] * data.dtype.itemsize, f"a row of {member.name!r}")
    dtype = torch_dtype(data.dtype)
    return dtype and FileRows(partial(_part, path, member.name, shape), shape, dtype)


def _numbers(path: Path, dataset: Any) -> AnyArray | None:
    dtype = torch_dtype(dataset.dtype) if dataset.dtype.kind in "fiub" else None
    part = partial(_part, path, str(dataset.name), dataset.shape)
    return dtype and FileRows(part, dataset.shape, dtype)


def _part(path: Path, name: str, shape: tuple[int, ...], start: int, stop: int) -> np.ndarray:
    """Read rows of a dataset, or those of a sparse matrix in compressed rows, made dense."""
    with reading(path, KIND), h5py.File(path, "r") as file:
        member: Any = file[name]
        if isinstance(member, h5py.Dataset):
            if member.shape != shape:
                raise ValueError(f"an array {member.shape}, not {shape}; the file has changed")
            return member[start:stop]
        ends = member["indptr"][start : stop + 1].astype(np.int64)
        values, columns = (member[n][ends[0] : ends[-1]] for n in ("data", "indices"))
        size = stop - start, shape[1]
        matrix = scipy.sparse.csr_array((values, columns, ends - ends[0]), size)
        matrix.check_format(full_check=True)
        return matrix.toarray()


def _column(path: Path, member: Any) -> AnyArray | None:
    """A column of obs: numbers, strings or categories; None for anything else."""
    read = partial(_words, path, str(member.name))
    if isinstance(member, h5py.Dataset):
        text = h5py.check_string_dtype(member.dtype) is not None
        array = NonNumericArray(member.shape, "strings", read) if text else _numbers(path, member)
        return array if len(member.shape) == 1 else None
    if not {"codes", "categories"} <= set(member):
        return None
    codes, categories = (_member(member, name) for name in ("codes", "categories"))
    if len(codes.shape) != 1 or len(categories.shape) != 1 or codes.dtype.kind not in "iu":
        return None
    return NonNumericArray(codes.shape, "categories", read)


def _words(path: Path, name: str) -> tuple[list[str], Tensor]:
    """Return the distinct strings or the categories of a column, and the index of each row [N]."""
    with reading(path, KIND), h5py.File(path, "r") as file:
        member: Any = file[name]
        if isinstance(member, h5py.Dataset):
            words, codes = np.unique(_texts(member), return_inverse=True)
        else:
            words, codes = _texts(member["categories"]), member["codes"][:].astype(np.int64)
    missing = ((codes < 0) | (codes >= len(words))).nonzero()[0]
    if len(missing):
        raise ValueError(
            f"expected a category in every row of {name.rpartition('/')[2]} of {path}, got "
            f"{len(missing):,} rows without one, the first of them row {missing[0]}; leave these "
            "rows out, or name another column with --labels"
        )
    return [str(word) for word in words], torch.from_numpy(codes)


def _texts(dataset: Any) -> np.ndarray:
    text = h5py.check_string_dtype(dataset.dtype)
    try:
        if text is not None and text.length is None:
            return dataset.asstr()[:]
        # Text of a fixed length claims to be ASCII, and is UTF-8.
        fixed = dataset.dtype.kind == "S"
        return np.char.decode(dataset[:], "utf-8") if fixed else dataset[:].astype(str)
    except UnicodeDecodeError as error:
        # With marks in place of letters, two classes could have one name.
        got = repr(error.object)[:60]
        raise ValueError(f"expected text in UTF-8 in {dataset.name}, got {got}") from None
