"""Features in Parquet files: a column of lists of floats, as Hugging Face datasets writes them.

Columns are read in record batches. The decoded size is compared with the size of the file before
anything is read: a run-length encoded page of a few bytes can stand for billions of numbers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from resultant._core import chunks
from resultant.features.naming import label_name
from resultant.features.rows import NonNumericArray, Rows, as_rows
from resultant.features.selection import SPLIT, split_indices

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

# The largest ratio of decoded and stored bytes: features hardly compress. Small files may exceed
# the ratio by some bytes, as labels do compress.
MAX_RATIO = 64
FREE_BYTES = 1 << 30

# The width of a vector.
MAX_WIDTH = 1 << 20


@dataclass
class ParquetColumns:
    """The columns of a file.

    Attributes:
        features: Columns of vectors by name.
        labels: The labels [N], if any.
        splits: The indices of the rows of each split, empty without a column of splits.
        class_names: The names of the classes, empty if the file has none.
        left_out: The names of the other columns.
    """

    features: dict[str, Rows]
    labels: Rows | NonNumericArray | None
    splits: dict[str, Tensor]
    class_names: list[str]
    left_out: list[str]


def read_parquet(
    path: Path | str, features: str | None = None, labels: str | None = None
) -> ParquetColumns:
    """Open the columns of a Parquet file; features are read on demand.

    Args:
        path: A file, or a URL that Arrow can open.
        features: The column of features; by default every list column of floats, or else of
            integers.
        labels: The column of labels; by default the first with a usual name
            (`resultant.features.naming.LABELS`).

    Returns:
        The columns.

    Raises:
        ValueError: The file is broken, has no such columns, or decodes to far too many bytes.
    """
    pa, _ = _arrow()
    rule = f"expected {path} to be a whole Parquet file of features"
    try:
        with _open(path) as file:
            schema, rows = file.schema_arrow, file.metadata.num_rows
            if not rows:
                raise ValueError("no rows")
            label = _label_column(schema, labels)
            chosen = (
                _list_columns(schema, label)
                if features is None
                else [_vectors_column(features, schema)]
            )
            used = [*chosen, *(n for n in (label, SPLIT) if n in schema.names)]
            twice = next((n for n in used if schema.names.count(n) > 1), None)
            if twice is not None:
                raise ValueError(f"more than one column {twice!r}")
            _refuse_bombs(file, used, _size(path))
            columns = {n: _rows(path, file, schema.field(n)) for n in chosen}
            y = None if label is None else _labels(path, schema.field(label))
            splits = _splits(file) if SPLIT in schema.names else {}
            rest = [n for n in schema.names if n not in used]
            return ParquetColumns(columns, y, splits, dataset_class_names(schema, label), rest)
    except FileNotFoundError:
        raise ValueError(f"{rule}, got no such file") from None
    except (ValueError, OSError, MemoryError, OverflowError, pa.ArrowException) as error:
        raise ValueError(f"{rule}, got: {error}") from None


class ParquetRows(Rows):
    """A list column, best read in sequence: other reads start again at the row group."""

    def __init__(
        self, path: Path | str, name: str, shape: tuple[int, ...], dtype: torch.dtype
    ) -> None:
        self.path, self.name, self.shape, self.dtype = path, name, shape, dtype
        self.next, self.left = 0, torch.empty((0, shape[1]), dtype=dtype)
        self.stream: Iterator[Tensor] = iter(())

    def read(self, start: int, stop: int) -> Tensor:
        if start != self.next or not start:
            self._seek(start)
        pieces, missing = [self.left], stop - start - len(self.left)
        while missing > 0:
            piece = next(self.stream, None)
            if piece is None:
                got = f"{start + sum(map(len, pieces))}"
                raise ValueError(f"expected {len(self)} rows in {self.path}, got {got}")
            pieces.append(piece)
            missing -= len(piece)
        rows = torch.cat(pieces)
        self.next, self.left = stop, rows[stop - start :].clone()
        return rows[: stop - start]

    def _seek(self, start: int) -> None:
        with _open(self.path) as file:
            sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        top, group = 0, 0
        while group < len(sizes) and top + sizes[group] <= start:
            top, group = top + sizes[group], group + 1
        self.next, self.left = start, self.left[:0]
        self.stream = self._batches(range(group, len(sizes)), top, start - top)

    def _batches(self, groups: range, top: int, skip: int) -> Iterator[Tensor]:
        pa, _ = _arrow()
        width = self.shape[1] * self.dtype.itemsize
        size = chunks.rows_per_chunk(width, chunks.READ_BYTES)
        try:
            with _open(self.path) as file:
                metadata = file.metadata
            # One reader per row group: a reader keeps all that it has read.
            for group in groups:
                with _open(self.path, metadata) as file:
                    for batch in file.iter_batches(size, [group], [self.name]):
                        piece = self._vectors(batch.column(self.name), top)
                        top += len(piece)
                        piece, skip = piece[skip:], max(0, skip - len(piece))
                        yield piece
        except (OSError, MemoryError, pa.ArrowException) as error:
            rule = f"expected {self.path} to be a whole Parquet file of features"
            raise ValueError(f"{rule}, got: {error}") from None

    def _vectors(self, column: pa.Array, top: int) -> Tensor:
        width = self.shape[1]
        rule = f"expected {width} numbers in every {self.name} of {self.path}"
        lengths = _lengths(column)
        bad = (lengths != width).nonzero()[0]
        if len(bad):
            got = "a null" if lengths[bad[0]] < 0 else f"{lengths[bad[0]]}"
            raise ValueError(f"{rule}, got {got} in row {top + bad[0]}")
        values = column.flatten()
        if values.null_count:
            index = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
            raise ValueError(f"{rule}, got a null in row {top + index // width}")
        # A copy: the memory of Arrow is read-only.
        numbers = torch.from_numpy(values.to_numpy(zero_copy_only=False).copy())
        return numbers.view(-1, width).to(self.dtype)


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ValueError(
            "expected pyarrow to read Parquet: pip install resultant[parquet]"
        ) from None
    return pyarrow, pyarrow.parquet


def _size(path: Path | str) -> int:
    """The bytes of a file or of the object at a URL."""
    if isinstance(path, Path):
        return os.path.getsize(path)
    from pyarrow import fs

    system, name = fs.FileSystem.from_uri(path)
    return system.get_file_info(name).size


def _open(
    path: Path | str,
    metadata: pq.FileMetaData | None = None,
    dictionaries: list[str] | None = None,
) -> pq.ParquetFile:
    return _arrow()[1].ParquetFile(
        path,
        metadata=metadata,
        read_dictionary=dictionaries,
        # Otherwise Arrow reads a whole row group into memory.
        memory_map=isinstance(path, Path),
        buffer_size=1 << 20,
        # Footers have a few bytes per column and row group.
        thrift_string_size_limit=1 << 27,
        thrift_container_size_limit=1 << 22,
    )


def _is_vector(kind: Any, *, integers: bool) -> bool:
    t = _arrow()[0].types
    is_list = t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind)
    of = is_list and kind.value_type
    return is_list and (t.is_floating(of) or (integers and t.is_integer(of)))


def _list_columns(schema: pa.Schema, label: str | None) -> list[str]:
    """The columns of lists of floats, or else of integers."""
    for integers in (False, True):
        fit = [f.name for f in schema if _is_vector(f.type, integers=integers) and f.name != label]
        if fit:
            return fit
    columns = _among([f"{f.name} ({f.type})" for f in schema])
    hint = "a data frame gets one by df['features'] = list(x)"
    raise ValueError(f"no column of lists of floats among {columns}; {hint}")


def _among(names: list[str]) -> str:
    """Names in a message, shortened: a table can have one column per dimension."""
    return ", ".join(names if len(names) <= 12 else [*names[:6], "...", *names[-3:]])


def _vectors_column(name: str, schema: pa.Schema) -> str:
    if name not in schema.names:
        raise ValueError(f"no column {name!r} among {_among(schema.names)}")
    if not _is_vector(schema.field(name).type, integers=True):
        raise ValueError(f"column {name!r} of {schema.field(name).type}, not lists of floats")
    return name


def _label_column(schema: pa.Schema, labels: str | None) -> str | None:
    if labels is None:
        return label_name(schema.names)
    if labels not in schema.names:
        raise ValueError(f"no column {labels!r} among {_among(schema.names)}")
    return labels


def _leaves(file: pq.ParquetFile, fields: list[str]) -> list[int]:
    """The numbers of the stored columns, such as ``z.list.element``, of some fields."""
    columns, schema = [], file.metadata.schema
    for c in range(file.metadata.num_columns):
        path = f"{schema.column(c).path}."
        # Names of fields may contain dots: the longest that fits is the field.
        owner = max((n for n in file.schema_arrow.names if path.startswith(f"{n}.")), key=len)
        columns += [c] if owner in fields else []
    return columns


def _refuse_bombs(file: pq.ParquetFile, used: list[str], size: int) -> None:
    """Raise if the columns would decode to far more than the file holds."""
    limit = FREE_BYTES + MAX_RATIO * size
    total, columns = 0, _leaves(file, used)
    for g in range(file.num_row_groups):
        group = file.metadata.row_group(g)
        for column in map(group.column, columns):
            # At most eight bytes per number, whatever the encoding.
            total += max(column.total_uncompressed_size, 8 * column.num_values)
        if total > limit:
            got = f"{total:,} bytes or more from a file of {size:,}"
            raise ValueError(f"columns that decode to {got}, beyond the limit of {limit:,}")


def _rows(path: Path | str, file: pq.ParquetFile, field: pa.Field) -> Rows:
    """The rows of a list column; the number of values gives the width."""
    metadata = file.metadata
    groups, columns = range(metadata.num_row_groups), _leaves(file, [field.name])
    values = sum(metadata.row_group(g).column(c).num_values for g in groups for c in columns)
    width, odd = divmod(values, metadata.num_rows)
    if odd:
        _refuse_odd(path, field.name)
    if odd or not 1 <= width <= MAX_WIDTH:
        got = f"{values:,} numbers in {metadata.num_rows:,} rows of {field.name!r}"
        raise ValueError(f"{got}, not vectors of one dimension up to {MAX_WIDTH:,}")
    dtype = torch.from_numpy(np.empty(0, field.type.value_type.to_pandas_dtype())).dtype
    if not dtype.is_floating_point:
        dtype = torch.float32 if dtype.itemsize <= 2 else torch.float64
    return ParquetRows(path, field.name, (metadata.num_rows, width), dtype)


def _lengths(column: pa.Array) -> np.ndarray:
    """The length of the list in each row, -1 for a null."""
    return column.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False)


def _refuse_odd(path: Path | str, name: str) -> None:
    """Raise at the first row of a list column that is null or shorter or longer than most."""
    with _open(path) as file:
        lengths = np.concatenate([_lengths(b.column(0)) for b in file.iter_batches(columns=[name])])
    values, times = np.unique(lengths[lengths >= 0], return_counts=True)
    usual = values[times.argmax()] if len(values) else 0
    odd = (lengths != usual).nonzero()[0]
    if len(odd):
        row, length = odd[0], lengths[odd[0]]
        if length < 0:
            raise ValueError(f"a null in row {row} of {name!r}")
        got = f"{length:,} in row {row} and {usual:,} in most"
        raise ValueError(f"vectors of mixed dimensions in {name!r}, {got}")


def _refuse_nulls(column: pa.Array | pa.ChunkedArray, what: str) -> None:
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        number = column.null_count
        rest = "" if number == 1 else f", the first of {number:,}"
        raise ValueError(f"a null in row {row} of {what}{rest}")


def _labels(path: Path | str, field: Any) -> Rows | NonNumericArray:
    t = _arrow()[0].types
    kind = field.type.value_type if t.is_dictionary(field.type) else field.type
    strings = t.is_string(kind) or t.is_large_string(kind)
    if not (strings or t.is_integer(kind) or t.is_floating(kind) or t.is_boolean(kind)):
        raise ValueError(f"labels {field.name!r} of {field.type}, not integers or strings")
    # As dictionaries: a million rows may repeat one long string.
    with _open(path, dictionaries=[field.name] if strings else None) as file:
        column = file.read([field.name]).column(field.name)
    _refuse_nulls(column, f"the labels {field.name!r}")
    if strings or t.is_dictionary(field.type):
        column = column.combine_chunks()
        column = column if t.is_dictionary(column.type) else column.dictionary_encode()
        codes = torch.from_numpy(column.indices.to_numpy().astype(np.int64))
        if strings:
            words = column.dictionary.to_pylist()
            return NonNumericArray((len(codes),), str(field.type), lambda: (words, codes))
        values = column.dictionary.to_numpy(zero_copy_only=False)
        return as_rows(torch.from_numpy(values.copy())[codes])
    return as_rows(torch.from_numpy(column.to_numpy().copy()))


def dataset_class_names(schema: pa.Schema, label: str | None) -> list[str]:
    """The names of the classes in the metadata of Hugging Face datasets, if any."""
    try:
        metadata = json.loads((schema.metadata or {})[b"huggingface"])
        names = metadata["info"]["features"][label]["names"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return []
    return [str(n) for n in names] if isinstance(names, list) else []


def _splits(file: pq.ParquetFile) -> dict[str, Tensor]:
    """The indices of the rows of each split in the column `SPLIT`."""
    pa = _arrow()[0]
    column = file.read([SPLIT]).column(SPLIT).cast(pa.string()).combine_chunks().dictionary_encode()
    _refuse_nulls(column, f"the column {SPLIT!r}")
    codes = torch.from_numpy(column.indices.to_numpy().copy())
    return split_indices(column.dictionary.to_pylist(), codes)
