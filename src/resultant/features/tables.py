"""Features in tables: Parquet, Arrow (Feather), CSV and TSV files, read by pyarrow in batches.

Labels, identities and splits are read when a file is opened, vectors when they are needed. The
sizes that the footer of a Parquet file declares are compared with the memory first.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from resultant._core import chunks
from resultant._core.memory import require_content
from resultant.features.columns import (
    MAX_WIDTH,
    Chosen,
    arrow,
    choose,
    dataset_class_names,
    encoded,
    feature_dtype,
    is_text,
    is_vector,
    label_array,
    refuse_nulls,
)
from resultant.features.naming import Names
from resultant.features.reading import reading
from resultant.features.rows import AnyArray, Rows, selected
from resultant.features.selection import Contents, split_indices

if TYPE_CHECKING:
    import pyarrow as pa

KIND = {
    ".parquet": "a whole Parquet file of features",
    ".csv": "a CSV file of features with a header line",
    ".tsv": "a TSV file of features with a header line",
}
ARROW = "a whole Arrow file of features"

# What a file of features in the format of Arrow begins with; a stream does not.
MAGIC = b"ARROW1"


def read_table(path: Path | str, split: str, names: Names) -> Contents:
    """Open the columns of a table; rows without a split belong to ``split``.

    Args:
        path: The file.
        split: The split of the rows, if no column names it.
        names: The columns; several columns of features by the name before their numbers.

    Returns:
        Features, labels and identities by split.

    Raises:
        FileError: The file is broken, or has no such columns.
    """
    arrow()
    with reading(path, KIND.get(_suffix(path), ARROW)):
        schema = read_schema(path)
        chosen = choose(schema, names)
        types = _types(schema, chosen) if _suffix(path) in (".csv", ".tsv") else None
        tops = require_parquet(path, chosen) if _suffix(path) == ".parquet" else [0]
        single = _read_single(path, schema, chosen, types)
        if not len(single):
            raise ValueError("no rows")
        vectors = {
            name: TableRows(path, name, columns, len(single), schema, tops, types)
            for name, columns in chosen.vectors.items()
        }
    arrays: dict[str, AnyArray] = dict(vectors)
    with reading(path, KIND.get(_suffix(path), ARROW)):
        for what, column in (("labels", chosen.label), ("identities", chosen.identities)):
            if column is not None:
                arrays[what] = label_array(single.column(column), column)
        splits: dict[str, Tensor | None] = {split: None}
        if chosen.split is not None:
            refuse_nulls(single.column(chosen.split), f"the column {chosen.split!r}")
            words, codes = encoded(single.column(chosen.split))
            splits = dict(split_indices([str(word) for word in words.to_pylist()], codes))
    called = {"labels": chosen.label, "identities": chosen.identities}
    classes = dataset_class_names(schema, chosen.label)
    return Contents(
        {
            f"{part}/{what}": array if index is None else selected(array, index)
            for part, index in splits.items()
            for what, array in arrays.items()
        },
        {"class_names": classes, "num_classes": len(classes)} if classes else {},
        {f"{part}/{what}": called.get(what) or what for part in splits for what in arrays},
        tuple(n for n in schema.names if n not in chosen.used),
    )


class TableRows(Rows):
    """Vectors [N, d] of a table, best read in sequence: a row before the last starts again.

    Args:
        path: The file.
        name: The name of the vectors.
        columns: One list column, or several columns of numbers.
        number: The number of rows N.
        schema: The columns of the file.
        tops: First rows of the parts at which a reading can start.
        types: Types of the columns of a CSV file, or None.
    """

    def __init__(
        self,
        path: Path | str,
        name: str,
        columns: tuple[str, ...],
        number: int,
        schema: pa.Schema,
        tops: Sequence[int] = (0,),
        types: dict[str, Any] | None = None,
    ) -> None:
        self.path, self.name, self.columns, self.tops = path, name, columns, tops
        self.types = None if types is None else {n: types[n] for n in columns}
        self.lists = is_vector(schema.field(columns[0]).type)
        self.dtype = torch.float64 if types else feature_dtype(schema, columns)
        self.shape = (number, self._width() if self.lists else len(columns))
        if not 1 <= self.shape[1] <= MAX_WIDTH:
            raise ValueError(f"{self.shape[1]:,} numbers in the first row of {name!r}")
        # The next row, rows that were read too far, and the batches, per thread.
        self.state = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "state"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, state=threading.local())

    def _width(self) -> int:
        batches = _batches(self.path, self.columns, 0, 1, None)
        first = next(batch for _, batch in batches if batch.num_rows)
        return int(_lengths(first.column(0))[0])

    def read(self, start: int, stop: int) -> Tensor:
        if start == stop:
            return torch.empty((0, self.shape[1]), dtype=self.dtype)
        state = self.state
        row, left, pieces = getattr(state, "value", (-1, None, iter(())))
        part = bisect_right(self.tops, start)
        if row < 0 or start < row or part != bisect_right(self.tops, row):
            pieces, left = self._pieces(self.tops[part - 1]), None
            row = self.tops[part - 1]
        out = torch.empty((stop - start, self.shape[1]), dtype=self.dtype)
        while row < stop:
            piece = next(pieces, None) if left is None else left
            if piece is None:
                raise ValueError(f"expected {len(self)} rows in {self.path}, got {row}")
            end = min(stop, row + len(piece))
            if end > start:
                low = max(start, row)
                out[low - start : end - start] = piece[low - row : end - row]
            left = piece[end - row :].clone() if end < row + len(piece) else None
            row = end
        state.value = row, left, pieces
        return out

    def _pieces(self, start: int) -> Iterator[Tensor]:
        height = chunks.rows_per_chunk(self.nbytes // len(self), chunks.MATRIX_BYTES)
        with reading(self.path, "a whole file of features"):
            for top, batch in _batches(self.path, self.columns, start, height, self.types):
                yield self._lists(batch.column(0), top) if self.lists else self._wide(batch, top)

    def _wide(self, batch: pa.RecordBatch, top: int) -> Tensor:
        values = torch.empty((batch.num_rows, len(self.columns)), dtype=self.dtype)
        for k, name in enumerate(self.columns):
            column = batch.column(name)
            if column.null_count:
                row = top + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
                raise ValueError(f"a null in row {row} of {name!r}")
            values.numpy()[:, k] = column.to_numpy(zero_copy_only=False)
        return values

    def _lists(self, column: pa.Array, top: int) -> Tensor:
        width, lengths = self.shape[1], _lengths(column)
        bad = (lengths != width).nonzero()[0]
        if len(bad):
            got = "a null" if lengths[bad[0]] < 0 else f"{lengths[bad[0]]} numbers"
            raise ValueError(f"{got} in row {top + bad[0]} of {self.name!r}, and {width} before")
        values = column.flatten()
        if values.null_count:
            index = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
            raise ValueError(f"a null in row {top + index // width} of {self.name!r}")
        # A copy: the memory of Arrow is read-only.
        numbers = torch.from_numpy(values.to_numpy(zero_copy_only=False).copy())
        return numbers.view(-1, width).to(self.dtype)


def _lengths(column: pa.Array) -> np.ndarray:
    """The length of the list in each row, -1 for a null."""
    return column.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False)


def open_parquet(path: Path | str, dictionaries: Sequence[str] = ()) -> Any:
    """Open a Parquet file; ``dictionaries`` are columns that are read as distinct values."""
    arrow()
    import pyarrow.parquet as pq

    # Without a buffer Arrow reads a whole row group into memory.
    return pq.ParquetFile(path, read_dictionary=list(dictionaries), buffer_size=1 << 20)


def require_parquet(path: Path | str, chosen: Chosen) -> list[int]:
    """Raise a ValueError if columns declare more bytes than fit; return the row groups' first rows.

    Columns of one value per row are read as a whole, vectors one row group at a time.
    """
    with open_parquet(path) as file:
        metadata = file.metadata
    whole, tops = 0, [0]
    for g in range(metadata.num_row_groups):
        group, vectors = metadata.row_group(g), 0
        tops.append(tops[-1] + group.num_rows)
        for c in range(group.num_columns):
            column = group.column(c)
            # Few bytes may stand for many numbers.
            size = max(column.total_uncompressed_size, 8 * column.num_values)
            path_in_file = column.path_in_schema
            if path_in_file in chosen.single:
                whole += size
            elif any(path_in_file == n or path_in_file.startswith(f"{n}.") for n in chosen.used):
                vectors += size
        require_content(vectors, f"row group {g}")
    require_content(whole, "labels, identities and splits")
    return tops[:-1]


def read_schema(path: Path | str) -> pa.Schema:
    """Read the names and types of the columns of a table."""
    if _suffix(path) == ".parquet":
        with open_parquet(path) as file:
            return file.schema_arrow
    if _suffix(path) not in (".csv", ".tsv"):
        with arrow().memory_map(os.fspath(path)) as source:
            return _open_arrow(source)[0]
    schema = _open_csv(path, None).schema
    if all(map(_is_number, schema.names)):
        raise ValueError(f"numbers in the first line: {', '.join(schema.names[:3])}, ...")
    if all(arrow().types.is_null(kind) for kind in schema.types):
        raise ValueError("no rows")
    return schema


def _types(schema: pa.Schema, chosen: Chosen) -> dict[str, Any]:
    """The types of the columns of a CSV file: of vectors floats, of others numbers or strings."""
    pa = arrow()
    types = {n: pa.float64() for columns in chosen.vectors.values() for n in columns}
    for name in chosen.single:
        kind = schema.field(name).type
        number = pa.float64() if pa.types.is_floating(kind) else pa.string()
        types[name] = pa.int64() if pa.types.is_integer(kind) else number
    return types


def _read_single(
    path: Path | str, schema: pa.Schema, chosen: Chosen, types: dict[str, Any] | None
) -> pa.Table:
    """Read the columns of one value per row; strings as distinct values."""
    pa, names = arrow(), chosen.single
    if _suffix(path) == ".parquet":
        with open_parquet(path, [n for n in names if is_text(schema.field(n).type)]) as file:
            return file.read(names)
    if types is not None and not names:
        # A CSV file is counted by one of its columns.
        names = chosen.used[:1]
    single = None if types is None else {n: types[n] for n in names}
    batches = [batch for _, batch in _batches(path, names, 0, 1 << 16, single)]
    if not batches:
        raise ValueError("no rows")
    return pa.Table.from_batches(batches)


def _batches(
    path: Path | str, columns: Sequence[str], start: int, height: int, types: dict[str, Any] | None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield record batches from the part of a file that begins at row ``start``, and their rows."""
    top, columns = start, list(columns)
    if _suffix(path) == ".parquet":
        with open_parquet(path) as file:
            sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        first = int(np.searchsorted(np.cumsum(sizes), start, side="right"))
        # One reader per row group: a reader keeps all that it has read.
        for group in range(first, len(sizes)):
            with open_parquet(path) as file:
                for batch in file.iter_batches(height, [group], columns):
                    yield top, batch
                    top += batch.num_rows
    elif types is not None:
        for batch in _open_csv(path, types):
            yield top, batch
            top += batch.num_rows
    else:
        with arrow().memory_map(os.fspath(path)) as source:
            for batch in _open_arrow(source)[1]:
                # Offsets of a hostile file may point outside of its buffers.
                part = batch.select(columns)
                part.validate(full=True)
                yield top, part
                top += part.num_rows


def _open_arrow(source: Any) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Open an Arrow file, or a stream as the folders of Hugging Face datasets hold."""
    ipc = arrow().ipc
    if source.read(len(MAGIC)) == MAGIC:
        file = ipc.open_file(source)
        return file.schema, (file.get_batch(i) for i in range(file.num_record_batches))
    source.seek(0)
    stream = ipc.open_stream(source)
    return stream.schema, iter(stream)


def _open_csv(path: Path | str, types: dict[str, Any] | None) -> Any:
    """Read record batches, all columns with inferred types or those of ``types``."""
    arrow()
    from pyarrow import csv

    return csv.open_csv(
        path,
        csv.ReadOptions(block_size=chunks.FEATURE_BYTES),
        csv.ParseOptions(delimiter="\t" if _suffix(path) == ".tsv" else ","),
        csv.ConvertOptions(
            column_types=types, include_columns=list(types or ()), strings_can_be_null=False
        ),
    )


def _suffix(path: Path | str) -> str:
    return Path(str(path).partition("?")[0]).suffix


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
