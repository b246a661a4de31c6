"""The program that reads AnnData files by h5py, with limits of time and memory.

The HDF5 library may loop for ever or crash on a damaged file, so `anndata_files` starts this file
as a program of its own, without torch. A request is one line of JSON. The answer is one line of
JSON, which describes arrays, and their bytes.

Nothing outside of the file is read: links to other files are refused. The declared sizes are
compared with the size of the file before anything is read.
"""

from __future__ import annotations

import json
import math
import os
import sys
from contextlib import suppress
from typing import Any

import h5py
import numpy as np

from resultant._core import chunks

# An array of the answer, described by JSON, and its numbers if they are sent.
Entry = tuple[dict[str, Any], np.ndarray | None]


def serve() -> None:
    """Answer requests until the pipe is closed."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    # Output of a library must not get between the answers.
    sys.stdout = sys.stderr
    while line := source.readline():
        request = json.loads(line)
        _limit(request["seconds"], request["memory"])
        try:
            entries = _answer(**request["call"])
            answer = {"arrays": [about for about, _ in entries]}
        except Exception as error:
            # h5py raises almost any error on broken bytes.
            entries, answer = [], {"error": str(error) or type(error).__name__}
        sink.write(json.dumps(answer).encode() + b"\n")
        for _, array in entries:
            if array is not None:
                sink.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        sink.flush()


def _limit(seconds: int, memory: int) -> None:
    """Let the system end this program after seconds of work, and refuse memory beyond a bound."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        used = math.ceil(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        most = used + seconds
        soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with open("/proc/self/statm") as file:
            most = int(file.read().split()[0]) * resource.getpagesize() + memory
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _answer(
    path: str, width: int, member: str = "", start: int = 0, stop: int = 0, columns: int = 0
) -> list[Entry]:
    """Describe a file, or read rows of a member; ``columns`` is the width of a sparse matrix."""
    with h5py.File(path, "r") as file:
        if not member:
            return _contents(file, os.path.getsize(path), width)
        found: Any = file[member]
        rows = _sparse_rows(found, start, stop, columns) if columns else found[start:stop]
        return [({}, rows.astype(rows.dtype.newbyteorder("="), copy=False))]


def _contents(file: Any, size: int, width: int) -> list[Entry]:
    """X, the arrays of obsm and the columns of obs by name."""
    entries: list[Entry] = []
    obs = _get(file, "obs")
    index = _text(obs.attrs.get("_index", "_index"))
    for name in obs:
        column = _column(_get(obs, name), size)
        if column is not None:
            entries.append(_named("identities" if name == index else name, column))
    members = [("X", _get(file, "X"))] if "X" in file else []
    if "obsm" in file:
        group = _get(file, "obsm")
        members += [(name, _get(group, name)) for name in group]
    for name, member in members:
        rows = _vectors(member, size, width)
        if rows is not None:
            entries.append(_named(name, (rows, None)))
    return entries


def _named(name: str, entry: Entry) -> Entry:
    return {"name": name, **entry[0]}, entry[1]


def _get(group: Any, name: str) -> Any:
    """Return a member that lies in the file itself."""
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


def _vectors(member: Any, size: int, width: int) -> dict[str, Any] | None:
    """Describe a dataset [N, d] of numbers or a sparse matrix; None for anything else."""
    if isinstance(member, h5py.Dataset):
        _require_size(member, size)
        if len(member.shape) != 2 or member.dtype.kind not in "fiu":
            return None
        if member.shape[1] > width:
            raise ValueError(f"{member.shape[1]:,} columns in {member.name!r}")
        return _stored(member, member.shape, member.dtype)
    kind = _text(member.attrs.get("encoding-type", member.attrs.get("h5sparse_format", "")))
    if not kind.startswith("csr"):
        return None
    parts = [_get(member, name) for name in ("data", "indices", "indptr")]
    for part in parts:
        _require_size(part, size)
    shape = tuple(int(n) for n in member.attrs.get("shape", member.attrs.get("h5sparse_shape")))
    if len(shape) != 2 or parts[2].shape != (shape[0] + 1,) or not 1 <= shape[1] <= width:
        raise ValueError(f"a sparse matrix {shape} with {parts[2].shape} rows")
    return {**_stored(member, shape, parts[0].dtype), "columns": shape[1]}


def _stored(member: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> dict[str, Any]:
    return {"member": member.name, "shape": shape, "dtype": dtype.newbyteorder("=").str}


def _sparse_rows(group: Any, start: int, stop: int, width: int) -> np.ndarray:
    """Rows of a sparse matrix in compressed rows, made dense."""
    ends = group["indptr"][start : stop + 1].astype(np.int64)
    if len(ends) != stop - start + 1 or (np.diff(ends) < 0).any() or ends[0] < 0:
        raise ValueError("rows of a sparse matrix that do not ascend")
    values = group["data"][ends[0] : ends[-1]]
    columns = group["indices"][ends[0] : ends[-1]].astype(np.int64)
    if len(values) != ends[-1] - ends[0] or len(columns) != len(values):
        raise ValueError("too few values of a sparse matrix")
    if len(columns) and not 0 <= columns.min() <= columns.max() < width:
        raise ValueError("columns of a sparse matrix out of range")
    dense = np.zeros((stop - start, width), values.dtype)
    np.add.at(dense, (np.repeat(np.arange(stop - start), np.diff(ends)), columns), values)
    return dense


def _column(member: Any, size: int) -> Entry | None:
    """A column of obs: numbers, strings or categories."""
    if isinstance(member, h5py.Group):
        if "codes" not in member or "categories" not in member:
            return None
        codes, categories = _get(member, "codes"), _column(_get(member, "categories"), size)
        _require_size(codes, size)
        if codes.dtype.kind not in "iu" or len(codes.shape) != 1 or categories is None:
            return None
        index = codes[:].astype(np.int64)
        about, values = categories
        assert values is not None
        if len(index) and not 0 <= index.min() <= index.max() < len(values):
            raise ValueError(f"a missing category in {member.name!r}")
        return _sent(values[index], about.get("words"))
    _require_size(member, size)
    if len(member.shape) != 1:
        return None
    if member.dtype.kind in "fiub":
        return _sent(member[:].astype(member.dtype.newbyteorder("=")))
    if h5py.check_string_dtype(member.dtype) is None:
        return None
    words, codes = _strings(member.asstr(errors="replace"), len(member), size)
    return _sent(codes, words)


def _sent(values: np.ndarray, words: list[str] | None = None) -> Entry:
    """A column whose values, or indices among words, follow the answer."""
    about: dict[str, Any] = {"shape": values.shape, "dtype": values.dtype.str}
    return about if words is None else {**about, "words": words}, values


def _strings(words: Any, number: int, size: int) -> tuple[list[str], np.ndarray]:
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
    return list(numbers), np.array(codes, np.int64)


if __name__ == "__main__":
    serve()
