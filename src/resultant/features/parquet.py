"""Features in Parquet files: a list column, as Hugging Face datasets writes, or many columns.

Columns are read in record batches. The decoded size is compared with the size of the file before
anything is decoded: a run-length encoded page of a few bytes can stand for billions of numbers.
Strings are read as the distinct ones and their indices, and counted while they are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from resultant._core import chunks
from resultant._core.files import require_input_file
from resultant.features.columns import (
    MAX_WIDTH,
    TableRows,
    arrow,
    choose,
    feature_dtype,
    is_label,
    is_text,
    is_vector,
    list_lengths,
    table_contents,
    table_errors,
)
from resultant.features.naming import Names
from resultant.features.parquet_pages import Column, Pages, read_columns, read_pages
from resultant.features.rows import Rows
from resultant.features.selection import RawContents

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

# Rows and columns of the row groups.
Groups = list[tuple[int, list[Column]]]


def read_parquet(path: Path | str, split: str, names: Names) -> RawContents:
    """Open the columns of a Parquet file; features are read on demand.

    Args:
        path: A file, or a URL that Arrow can open.
        split: The split of the rows, if no column names it.
        names: The columns; several columns of features by the name before their numbers. By
            default every list column of floats, or else of integers, or else columns of numbers,
            and labels and identities of usual names.

    Returns:
        The columns as arrays.

    Raises:
        ValueError: The file is broken, has no such columns, or decodes to far too many bytes.
    """
    _parquet()
    with (
        table_errors(f"expected {path} to be a whole Parquet file of features"),
        _source(path) as source,
        open_parquet(path) as file,
    ):
        schema = file.schema_arrow
        if not file.metadata.num_rows:
            raise ValueError("no rows")
        chosen = choose(schema, names)
        groups, leaves, pages = _bounded(path, source, file, chosen.used)
        values = {n: sum(g[c].values for _, g in groups for c in cs) for n, cs in leaves.items()}
        vectors = {
            n: _rows(path, file, n, columns, values[columns[0]])
            for n, columns in chosen.vectors.items()
        }
        return table_contents(
            chosen, schema, split, vectors, lambda n: read_labels(path, schema, n, pages[n])
        )


class ParquetRows(TableRows):
    """Vectors of a Parquet file; a read that does not continue starts again at the row group."""

    def batches(self, start: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        width = self.shape[1] * self.dtype.itemsize
        size = chunks.rows_per_chunk(width, chunks.READ_BYTES)
        with open_parquet(self.path) as file:
            metadata = file.metadata
        top = 0
        # One reader per row group: a reader keeps all that it has read.
        for group in range(metadata.num_row_groups):
            height = metadata.row_group(group).num_rows
            if top + height <= start:
                top += height
                continue
            with open_parquet(self.path, metadata) as file:
                for batch in file.iter_batches(size, [group], list(self.columns)):
                    yield top, batch
                    top += batch.num_rows


def _parquet() -> Any:
    arrow()
    import pyarrow.parquet

    return pyarrow.parquet


def _source(path: Path | str) -> Any:
    """A file, or the object at a URL, for reads at any place."""
    if isinstance(path, Path):
        return arrow().OSFile(str(path))
    from pyarrow import fs

    system, name = fs.FileSystem.from_uri(path)
    return system.open_input_file(name)


def open_parquet(
    path: Path | str,
    metadata: pq.FileMetaData | None = None,
    dictionaries: list[str] | None = None,
) -> pq.ParquetFile:
    """Open a file with bounds on its footer; ``dictionaries`` are read as distinct values."""
    if isinstance(path, Path):
        require_input_file(path)
    return _parquet().ParquetFile(
        path,
        metadata=metadata,
        read_dictionary=dictionaries,
        # Read, not mapped: a mapped file that is truncated meanwhile would end the process. Without
        # a buffer Arrow reads a whole row group into memory.
        memory_map=False,
        buffer_size=1 << 20,
        # Footers have a few bytes per column and row group.
        thrift_string_size_limit=1 << 27,
        thrift_container_size_limit=1 << 22,
        page_checksum_verification=True,
    )


def require_bounded(
    path: Path, names: Sequence[str], group: int | None = None
) -> dict[str, int | None]:
    """Raise a ValueError if columns would decode to far more bytes than the file has.

    All row groups are looked at, or one ``group``.

    Returns:
        The size of the largest page of every column whose strings share beginnings, or None.
    """
    with _source(path) as source, open_parquet(path) as file:
        return _bounded(path, source, file, names, group)[2]


def _bounded(
    path: Path | str,
    source: Any,
    file: pq.ParquetFile,
    names: Sequence[str],
    group: int | None = None,
) -> tuple[Groups, dict[str, list[int]], dict[str, int | None]]:
    groups = read_columns(source, file.num_row_groups, file.metadata.num_columns)
    groups = groups if group is None else [groups[group]]
    leaves = _leaves(file, names)
    _refuse_lies(file, groups, leaves)
    return groups, leaves, _refuse_bombs(path, source, groups, leaves)


def _leaves(file: pq.ParquetFile, fields: Sequence[str]) -> dict[str, list[int]]:
    """The numbers of the stored columns, such as ``z.list.element``, of some fields."""
    schema, names = file.metadata.schema, set(file.schema_arrow.names)
    found: dict[str, list[int]] = {field: [] for field in fields}
    for c in range(file.metadata.num_columns):
        # Names of fields may contain dots: the longest that fits is the field.
        owner = schema.column(c).path
        while owner not in names and "." in owner:
            owner = owner.rpartition(".")[0]
        if owner in found:
            found[owner].append(c)
    return found


def _refuse_lies(file: pq.ParquetFile, groups: Groups, leaves: dict[str, list[int]]) -> None:
    """Raise if a column that is no list has more or fewer values than rows."""
    for rows, columns in groups:
        for name, numbers in leaves.items():
            for c in numbers:
                single = not file.schema.column(c).max_repetition_level
                if single and columns[c].values != rows:
                    raise ValueError(
                        f"{columns[c].values:,} values in {rows:,} rows of {name!r:.80}"
                    )


def _refuse_bombs(
    path: Path | str, source: Any, groups: Groups, leaves: dict[str, list[int]]
) -> dict[str, int | None]:
    """Raise if the columns would decode to far more than the file holds.

    The headers of the pages of an object at a URL are not read: each would be a request.

    Returns:
        The size of the largest page of every column whose strings share beginnings, or None.
    """
    total, size = 0, source.size()
    largest: dict[str, int | None] = dict.fromkeys(leaves)
    for _, columns in groups:
        for name, numbers in leaves.items():
            for c in numbers:
                pages = Pages(columns[c].decoded, 0, prefixes=False)
                if isinstance(path, Path):
                    pages = read_pages(source, columns[c])
                if pages.prefixes:
                    largest[name] = max(largest[name] or 1, pages.largest)
                # At most eight bytes per number, whatever the encoding.
                total += max(pages.decoded, 8 * columns[c].values)
                chunks.require_decoded(total, size)
    return largest


def _rows(
    path: Path | str, file: pq.ParquetFile, name: str, columns: tuple[str, ...], values: int
) -> Rows:
    """The rows of vectors; the number of values of a list column gives the width."""
    metadata, schema = file.metadata, file.schema_arrow
    width = len(columns)
    if is_vector(schema.field(columns[0]).type, integers=True):
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
    with open_parquet(path) as file:
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


def read_labels(
    path: Path | str, schema: pa.Schema, name: str, largest: int | None
) -> pa.ChunkedArray:
    """Read a column of labels, strings as dictionaries: a million rows may repeat a long string.

    ``largest`` are the bytes of the largest page, if a string may be the beginning of others: then
    few rows are decoded at a time, and the strings are counted.
    """
    kind = schema.field(name).type
    if not is_label(kind):
        raise ValueError(f"labels {name!r} of {kind}, not integers or strings")
    if largest is None:
        with open_parquet(path, dictionaries=[name] if is_text(kind) else None) as file:
            return file.read([name]).column(name)
    decoded, parts = 0, []
    with open_parquet(path) as file, _source(path) as source:
        for batch in file.iter_batches(max(1, chunks.READ_BYTES // largest), columns=[name]):
            parts.append(batch.column(0).dictionary_encode())
            decoded += parts[-1].dictionary.nbytes
            chunks.require_decoded(decoded, source.size())
    return arrow().chunked_array(parts)
