"""Features in Parquet files: a list column, as Hugging Face datasets writes, or many columns.

Columns are read in record batches. The decoded size is compared with the size of the file before
anything is read: a run-length encoded page of a few bytes can stand for billions of numbers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from resultant._core import chunks
from resultant._core.text import one_line
from resultant.features.columns import (
    MAX_WIDTH,
    TableColumns,
    TableRows,
    arrow,
    choose,
    dataset_class_names,
    feature_dtype,
    is_label,
    is_text,
    is_vector,
    label_values,
    list_lengths,
    splits_of,
)
from resultant.features.rows import NonNumericArray, Rows
from resultant.features.selection import SPLIT

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


def read_parquet(
    path: Path | str,
    features: str | None = None,
    labels: str | None = None,
    identities: str | None = None,
) -> TableColumns:
    """Open the columns of a Parquet file; features are read on demand.

    Args:
        path: A file, or a URL that Arrow can open.
        features: The column of features, or the name before the numbers of several; by default
            every list column of floats, or else of integers, or else columns of numbers.
        labels: The column of labels; by default the first with a usual name
            (`resultant.features.naming.LABELS`).
        identities: The column of identities; by default one with a usual name.

    Returns:
        The columns.

    Raises:
        ValueError: The file is broken, has no such columns, or decodes to far too many bytes.
    """
    _parquet()
    rule = f"expected {path} to be a whole Parquet file of features"
    try:
        with _open(path) as file:
            schema, number = file.schema_arrow, file.metadata.num_rows
            if not number:
                raise ValueError("no rows")
            chosen = choose(schema, features, labels, identities)
            _refuse_bombs(file, chosen.used, _size(path))
            vectors = {n: _rows(path, file, n, c) for n, c in chosen.vectors.items()}
            y, known = (_labels(path, schema, n) for n in (chosen.label, chosen.identities))
            splits = splits_of(file.read([SPLIT]).column(SPLIT)) if chosen.split else {}
            rest = [n for n in schema.names if n not in chosen.used]
            names = dataset_class_names(schema, chosen.label)
            return TableColumns(vectors, y, known, splits, names, rest)
    except FileNotFoundError:
        raise ValueError(f"{rule}, got no such file") from None
    except (ValueError, OSError, MemoryError, OverflowError, arrow().ArrowException) as error:
        raise ValueError(f"{rule}, got: {one_line(error)}") from None


class ParquetRows(TableRows):
    """Vectors of a Parquet file; a read that does not continue starts again at the row group."""

    def batches(self, start: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        width = self.shape[1] * self.dtype.itemsize
        size = chunks.rows_per_chunk(width, chunks.READ_BYTES)
        with _open(self.path) as file:
            metadata = file.metadata
        top = 0
        # One reader per row group: a reader keeps all that it has read.
        for group in range(metadata.num_row_groups):
            height = metadata.row_group(group).num_rows
            if top + height <= start:
                top += height
                continue
            with _open(self.path, metadata) as file:
                for batch in file.iter_batches(size, [group], list(self.columns)):
                    yield top, batch
                    top += batch.num_rows


def _parquet() -> Any:
    arrow()
    import pyarrow.parquet

    return pyarrow.parquet


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
    return _parquet().ParquetFile(
        path,
        metadata=metadata,
        read_dictionary=dictionaries,
        # Otherwise Arrow reads a whole row group into memory.
        memory_map=isinstance(path, Path),
        buffer_size=1 << 20,
        # Footers have a few bytes per column and row group.
        thrift_string_size_limit=1 << 27,
        thrift_container_size_limit=1 << 22,
        page_checksum_verification=True,
    )


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
    total, columns, schema = 0, _leaves(file, used), file.schema
    for g in range(file.num_row_groups):
        group = file.metadata.row_group(g)
        for number in columns:
            column = group.column(number)
            single = not schema.column(number).max_repetition_level
            if single and column.num_values != group.num_rows:
                got = f"{column.num_values:,} values in {group.num_rows:,} rows"
                raise ValueError(f"{got} of {column.path_in_schema!r:.80}")
            # At most eight bytes per number, whatever the encoding.
            total += max(column.total_uncompressed_size, 8 * column.num_values)
    chunks.require_decoded(total, size)


def _rows(path: Path | str, file: pq.ParquetFile, name: str, columns: tuple[str, ...]) -> Rows:
    """The rows of vectors; the number of values of a list column gives the width."""
    metadata, schema = file.metadata, file.schema_arrow
    width = len(columns)
    if is_vector(schema.field(columns[0]).type, integers=True):
        groups, leaves = range(metadata.num_row_groups), _leaves(file, list(columns))
        values = sum(metadata.row_group(g).column(c).num_values for g in groups for c in leaves)
        width, odd = divmod(values, metadata.num_rows)
        if odd:
            _refuse_odd(path, name)
        if odd or not 1 <= width <= MAX_WIDTH:
            got = f"{values:,} numbers in {metadata.num_rows:,} rows of {name!r}"
            raise ValueError(f"{got}, not vectors of one dimension up to {MAX_WIDTH:,}")
    dtype = feature_dtype(schema, columns)
    return ParquetRows(path, name, (metadata.num_rows, width), dtype, columns)


def _refuse_odd(path: Path | str, name: str) -> None:
    """Raise at the first row of a list column that is null or shorter or longer than most."""
    with _open(path) as file:
        batches = file.iter_batches(columns=[name])
        lengths = np.concatenate([list_lengths(batch.column(0)) for batch in batches])
    values, times = np.unique(lengths[lengths >= 0], return_counts=True)
    usual = values[times.argmax()] if len(values) else 0
    odd = (lengths != usual).nonzero()[0]
    if len(odd):
        row, length = odd[0], lengths[odd[0]]
        if length < 0:
            raise ValueError(f"a null in row {row} of {name!r}")
        got = f"{length:,} in row {row} and {usual:,} in most"
        raise ValueError(f"vectors of mixed dimensions in {name!r}, {got}")


def _labels(path: Path | str, schema: pa.Schema, name: str | None) -> Rows | NonNumericArray | None:
    if name is None:
        return None
    kind = schema.field(name).type
    if not is_label(kind):
        raise ValueError(f"labels {name!r} of {kind}, not integers or strings")
    # As dictionaries: a million rows may repeat one long string.
    with _open(path, dictionaries=[name] if is_text(kind) else None) as file:
        return label_values(file.read([name]).column(name), name)
