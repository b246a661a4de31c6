"""Parquet files of a pattern, local or at a URL, divided into pieces for workers.

Opening reads only footers and labels; the features stay in the files.
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
from resultant.features.naming import Names, split_of
from resultant.features.rows import ConcatRows, IndexedRows, Rows
from resultant.features.schema import require_vectors
from resultant.features.selection import combine
from resultant.features.store import FeatureStore
from resultant.features.tables import TableRows, read_table

# Footers that are read at the same time.
THREADS = 16


def open_store(
    pattern: str | os.PathLike[str],
    features: str | None = None,
    labels: str | None = None,
    identities: str | None = None,
) -> FeatureStore:
    """Open the Parquet files of a pattern, a folder or a path as one store.

    Workers open the files by the same absolute paths. The name of a file, or of a folder below the
    fixed part of the pattern, begins or ends with its split, or the column ``split`` holds it.

    Args:
        pattern: A path or URL, with wildcards within its components.
        features: The column of features, if several could be.
        labels: The column of labels, if its name is not a usual one.
        identities: The column of identities, if its name is not a usual one.

    Returns:
        The store.

    Raises:
        ValueError: There are no such files, or a file is broken.
    """
    where = os.fspath(pattern)
    files = _files(where)
    with ThreadPoolExecutor(THREADS) as threads:
        names = Names(features, labels, identities)
        read = threads.map(lambda f: read_table(f[0], f[1], names), files)
        contents = [(str(path), c) for (path, _), c in zip(files, read, strict=True)]
    return FeatureStore.of(where, combine(where, contents))


def _files(where: str) -> list[tuple[Path | str, str]]:
    """The files in sorted order with their splits; files at a URL are strings."""
    from pyarrow import fs

    url = "://" in where
    whole, *query = re.split(r"(?=\?)", where, maxsplit=1) if url else [os.path.abspath(where)]
    parts = whole.split("/")
    fixed = next((i for i, part in enumerate(parts) if set(part) & set("*?[")), len(parts))
    try:
        system, base = fs.FileSystem.from_uri("".join(["/".join(parts[:fixed]) or "/", *query]))
        if fixed == len(parts) and system.get_file_info(base).is_file:
            fixed, base = fixed - 1, base.rpartition("/")[0]
        patterns = parts[fixed:]
        listing = system.get_file_info(fs.FileSelector(base, recursive=len(patterns) != 1))
    except (OSError, ValueError) as error:
        raise ValueError(f"expected Parquet files at {where}, got: {error}") from None
    names = (i.path.removeprefix(base).lstrip("/").split("/") for i in listing if i.is_file)
    names = [n for n in names if not any(part.startswith(".") for part in n)]
    if patterns:
        names = [n for n in names if len(n) == len(patterns) and all(map(fnmatchcase, n, patterns))]
        other = next((n[-1] for n in names if not n[-1].endswith(".parquet")), None)
    else:
        names, other = [n for n in names if n[-1].endswith(".parquet")], None
    if other or not names:
        raise ValueError(f"expected Parquet files at {where}, got {other or 'none'}")
    files: list[tuple[Path | str, str]] = []
    for name in sorted(names):
        path = "/".join([*parts[:fixed], *name])
        splits = map(split_of, [*name[:-1], name[-1].removesuffix(".parquet")])
        split = next((s for s in splits if s is not None), "train")
        files.append(("".join([path, *query]) if url else Path(path), split))
    return files


@dataclass(frozen=True)
class Piece:
    """The rows that a worker reads as one task.

    Attributes:
        first: The index of the first row in the whole array.
        parts: The files in order, with ascending indices [m] of the rows of each file.
        labels: The labels [n] of all rows.
    """

    first: int
    parts: tuple[tuple[TableRows, Tensor], ...]
    labels: Tensor

    def read(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield the indices [k] in the whole array, the rows [k, p] and their labels [k]."""
        blocks, top = [], 0
        height = _height(self.parts[0][0])
        for block in (block for part in self.parts for block in _blocks(*part, height)):
            blocks.append(block)
            stop = top + sum(map(len, blocks))
            if stop - top >= height or stop == len(self.labels):
                index = torch.arange(self.first + top, self.first + stop)
                yield index, torch.cat(blocks), self.labels[top:stop]
                blocks, top = [], stop


def _height(rows: Rows) -> int:
    return chunks.rows_per_chunk(rows.shape[1] * rows.dtype.itemsize, chunks.TASK_BYTES)


def _blocks(rows: TableRows, index: Tensor, height: int) -> Iterator[Tensor]:
    """The checked rows at ascending indices, read in sequence, which is fastest."""
    end = int(index[-1]) + 1
    for top in range(int(index[0]), end, height):
        stop = min(top + height, end)
        low, high = torch.searchsorted(index, torch.tensor([top, stop])).tolist()
        chosen = index[low:high]
        block = rows.read(top, stop)[chosen - top]
        require_vectors(block, f"{rows.name} of {rows.path}", IndexedRows(rows, chosen))
        yield block


def divide(rows: Rows, labels: Tensor, index: Tensor | None = None) -> list[Piece]:
    """Divide rows [N, p] of Parquet files into pieces of whole row groups, in order.

    ``index`` [n] are the ascending indices of the rows to read, by default all.
    """
    index = torch.arange(len(rows)) if index is None else index
    leaves = list(_leaves(rows, index))
    with ThreadPoolExecutor(THREADS) as threads:
        groups = list(threads.map(_groups, (leaf.path for leaf, _ in leaves)))
    height, pieces = 0, [[]]
    for (leaf, of_leaf), sizes in zip(leaves, groups, strict=True):
        ends = torch.searchsorted(of_leaf, torch.tensor(sizes[:-1], dtype=torch.int64).cumsum(0))
        together = False
        for size, chosen in zip(sizes, of_leaf.tensor_split(ends), strict=True):
            if height and height + size > _height(rows):
                height, together = 0, False
                pieces.append([])
            if not len(chosen):
                together = False
            elif together:
                pieces[-1][-1][1].append(chosen)
            else:
                pieces[-1].append((leaf, [chosen]))
                together = True
            height += size if together else 0
    divided, first = [], 0
    for parts in filter(None, pieces):
        chosen = tuple((leaf, torch.cat(blocks)) for leaf, blocks in parts)
        stop = first + sum(len(block) for _, block in chosen)
        divided.append(Piece(first, chosen, labels[index[first:stop]]))
        first = stop
    return divided


def _leaves(rows: Rows, index: Tensor) -> Iterator[tuple[TableRows, Tensor]]:
    """The files of the rows at ascending indices, in order, with the indices in each file."""
    if isinstance(rows, IndexedRows):
        yield from _leaves(rows.rows, rows.index[index])
    elif isinstance(rows, ConcatRows):
        ends = torch.searchsorted(index, torch.tensor(rows.tops[1:-1], dtype=torch.int64))
        for part, top, chosen in zip(rows.parts, rows.tops, index.tensor_split(ends), strict=False):
            if len(chosen):
                yield from _leaves(part, chosen - top)
    else:
        assert isinstance(rows, TableRows)
        yield rows, index


def _groups(path: Path | str) -> list[int]:
    """The number of rows of each row group of a file."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        return [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
