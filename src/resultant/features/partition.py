"""Parquet files of a pattern, local or at a URL, cut into pieces that workers can read.

The features stay in the files: only footers and labels are read here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import torch
from torch import Tensor

from resultant._core import chunks
from resultant.features.naming import split_of
from resultant.features.parquet import ParquetRows
from resultant.features.readers import read_parquet_arrays, settled
from resultant.features.rows import ConcatRows, IndexedRows, Rows
from resultant.features.schema import require_vectors
from resultant.features.store import FeatureStore

# Footers that are read at a time.
THREADS = 16


def open_store(
    pattern: str | os.PathLike[str], features: str | None = None, labels: str | None = None
) -> FeatureStore:
    """The store of the Parquet files that a pattern, a folder or a name stands for.

    Workers read the files too: they must find them under the same absolute name. A pattern is
    taken by components; a split is named by how a file or a folder below the pattern's fixed part
    begins or ends, or by the column ``split``.
    """
    where = os.fspath(pattern)
    files = _listed(where)

    with ThreadPoolExecutor(THREADS) as threads:
        read = threads.map(lambda f: read_parquet_arrays(f[0], f[1], features, labels), files)
        found = [(str(path), contents) for (path, _), contents in zip(files, read, strict=True)]
    return FeatureStore.of(where, settled(where, found))


def _listed(where: str) -> list[tuple[Path | str, str]]:
    """The files in sorted order, those of a URL as strings, and the split of each."""
    from pyarrow import fs

    url = "://" in where
    whole, *query = re.split(r"(?=\?)", where, maxsplit=1) if url else [os.path.abspath(where)]
    parts = whole.split("/")
    fixed = next((i for i, part in enumerate(parts) if set(part) & set("*?[")), len(parts))
    try:
        system, base = fs.FileSystem.from_uri("".join(["/".join(parts[:fixed]) or "/", *query]))
        if fixed == len(parts) and system.get_file_info(base).is_file:
            fixed, base = fixed - 1, base.rpartition("/")[0]
        wanted = parts[fixed:]
        found = system.get_file_info(fs.FileSelector(base, recursive=len(wanted) != 1))
    except (OSError, ValueError) as error:
        raise ValueError(f"expected Parquet files at {where}, got: {error}") from None
    names = (i.path.removeprefix(base).lstrip("/").split("/") for i in found if i.is_file)
    names = [n for n in names if not any(part.startswith(".") for part in n)]
    if wanted:
        names = [n for n in names if len(n) == len(wanted) and all(map(fnmatchcase, n, wanted))]
        other = next((n[-1] for n in names if not n[-1].endswith(".parquet")), None)
    else:
        names, other = [n for n in names if n[-1].endswith(".parquet")], None
    if other or not names:
        raise ValueError(f"expected Parquet files at {where}, got {other or 'none'}")
    files: list[tuple[Path | str, str]] = []
    for name in sorted(names):
        path = "/".join([*parts[:fixed], *name])
        said = map(split_of, [*name[:-1], name[-1].removesuffix(".parquet")])
        split = next((s for s in said if s is not None), "train")
        files.append(("".join([path, *query]) if url else Path(path), split))
    return files


@dataclass(frozen=True)
class Piece:
    """What a worker does at once: rows at ascending places [m] of files, in order, and their
    ``labels`` [n], from ``first`` on in the array that they are a piece of."""

    first: int
    parts: tuple[tuple[ParquetRows, Tensor], ...]
    labels: Tensor

    def read(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Where rows stand [k], the rows as they are [k, p], and their labels [k]."""
        blocks, top = [], 0
        height = _height(self.parts[0][0])
        for block in (block for part in self.parts for block in _blocks(*part, height)):
            blocks.append(block)
            stop = top + sum(map(len, blocks))
            if stop - top >= height or stop == len(self.labels):
                at = torch.arange(self.first + top, self.first + stop)
                yield at, torch.cat(blocks), self.labels[top:stop]
                blocks, top = [], stop


def _height(rows: Rows) -> int:
    return chunks.rows_per_chunk(rows.shape[1] * rows.dtype.itemsize, chunks.TASK_BYTES)


def _blocks(rows: ParquetRows, places: Tensor, height: int) -> Iterator[Tensor]:
    """The rows at ascending places, looked at, from one reading: to go back would be to start
    again."""
    end = int(places[-1]) + 1
    for top in range(int(places[0]), end, height):
        stop = min(top + height, end)
        low, high = torch.searchsorted(places, torch.tensor([top, stop])).tolist()
        chosen = places[low:high]
        block = rows.read(top, stop)[chosen - top]
        require_vectors(block, f"{rows.name} of {rows.path}", IndexedRows(rows, chosen))
        yield block


def cut(rows: Rows, labels: Tensor, index: Tensor | None = None) -> list[Piece]:
    """The rows, or those at ascending places ``index`` [n], in pieces of whole row groups."""
    index = torch.arange(len(rows)) if index is None else index
    leaves = list(_leaves(rows, index))
    with ThreadPoolExecutor(THREADS) as threads:
        groups = list(threads.map(_groups, (leaf.path for leaf, _ in leaves)))
    height, pieces = 0, [[]]
    for (leaf, places), sizes in zip(leaves, groups, strict=True):
        ends = torch.searchsorted(places, torch.tensor(sizes[:-1], dtype=torch.int64).cumsum(0))
        together = False
        for size, chosen in zip(sizes, places.tensor_split(ends), strict=True):
            if height and height + size > _height(rows):
                height, together = 0, False
                pieces.append([])
            if not len(chosen):
                together = False
            elif together:
                pieces[-1][-1][1].append(chosen)
            else:
                # Rows that were not read yet: an open file cannot be sent.
                fresh = ParquetRows(leaf.path, leaf.name, leaf.shape, leaf.dtype)
                pieces[-1].append((fresh, [chosen]))
                together = True
            height += size if together else 0
    found, first = [], 0
    for parts in filter(None, pieces):
        chosen = tuple((leaf, torch.cat(places)) for leaf, places in parts)
        stop = first + sum(len(places) for _, places in chosen)
        found.append(Piece(first, chosen, labels[index[first:stop]]))
        first = stop
    return found


def _leaves(rows: Rows, index: Tensor) -> Iterator[tuple[ParquetRows, Tensor]]:
    """The files behind rows, and which of their rows are at ascending places, in order."""
    if isinstance(rows, IndexedRows):
        yield from _leaves(rows.rows, rows.index[index])
    elif isinstance(rows, ConcatRows):
        ends = torch.searchsorted(index, torch.tensor(rows.tops[1:-1], dtype=torch.int64))
        for part, top, places in zip(rows.parts, rows.tops, index.tensor_split(ends), strict=False):
            if len(places):
                yield from _leaves(part, places - top)
    else:
        assert isinstance(rows, ParquetRows)
        yield rows, index


def _groups(path: Path | str) -> list[int]:
    """The rows of each row group of a file."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        return [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
