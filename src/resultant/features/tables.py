"""Features in tables, read by pyarrow: Parquet by row groups, Arrow mapped, CSV and TSV in memory.

Vectors are list columns, texts such as ``[0.1, 0.2]``, or several columns of numbers with numbers
in their names (``f0`` to ``f63``, ``pixel_0_0`` to ``pixel_7_7``), else all columns of numbers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as t
import torch
from torch import Tensor

from resultant.features import naming
from resultant.features.columns import (
    dataset_class_names,
    is_number,
    is_text,
    is_vector,
    vector_columns,
)
from resultant.features.declared import require_content
from resultant.features.delimited import read_csv
from resultant.features.naming import LABELS, Names, usual_name
from resultant.features.rows import AnyArray, FileError, NonNumericArray, Rows, reading, torch_dtype

KIND = {
    ".parquet": "a whole Parquet file of features",
    ".csv": "a CSV file of features with a header line",
    ".tsv": "a TSV file of features with a header line",
}


def read_table(table: Table, names: Names) -> tuple[dict[str, AnyArray], list[str]]:
    """Return the columns of a table by name, and names of classes of Hugging Face datasets."""
    with table.reading():
        if not table.tops[-1]:
            raise ValueError("no rows")
        vectors = vector_columns(table.schema, names)
        used = {column for columns in vectors.values() for column in columns}
        label = names.labels or usual_name(table.schema.names, LABELS)
        arrays: dict[str, AnyArray] = {
            f.name: table.column_array(f, f.name == label)
            for f in table.schema
            if f.name not in used
        }
        for name, count in Counter(table.schema.names).items():
            if count > 1:
                vectors.pop(name, None)
                arrays[name] = NonNumericArray((table.tops[-1],), f"{count} columns of one name")
        arrays |= {name: TableRows(table, name, columns) for name, columns in vectors.items()}
    return arrays, dataset_class_names(table.schema, label)


class Table:
    """A table in parts, its row groups or the whole; ``tops`` are their first rows, and the end.
    A data frame is the whole; the path then stands in errors."""

    def __init__(self, path: Path | str, names: Names, frame: pa.Table | None = None) -> None:
        self.path, self.suffix, self.frame = path, naming.kind_of(path), frame is not None
        self.whole: pa.Table | None = None
        with self.reading():
            if frame is not None:
                self.schema, sizes, self.whole = frame.schema, [len(frame)], frame
            elif self.suffix == ".parquet":
                with open_parquet(path) as file:
                    self.schema, groups = file.schema_arrow, range(file.num_row_groups)
                    sizes = [file.metadata.row_group(g).num_rows for g in groups]
            else:
                text = self.suffix in (".csv", ".tsv")
                whole = read_csv(Path(path), names) if text else _map_arrow(Path(path))
                self.whole = whole
                self.schema, sizes = whole.schema, [len(whole)]
        self.tops = np.cumsum([0, *sizes]).tolist()

    def reading(self) -> Any:
        if self.frame:
            return frame_errors()
        return reading(self.path, KIND.get(self.suffix, "a whole Arrow file of features"))

    @lru_cache(maxsize=1)  # noqa: B019
    def part(self, part: int, columns: tuple[str, ...]) -> pa.Table:
        """Read columns of a part; the part that was read last is kept."""
        if self.whole is not None:
            return self.whole.select(columns)
        with open_parquet(self.path) as file:
            require_sizes(file, [part], columns, ", ".join(columns[:3]))
            return file.read_row_group(part, columns)

    def first(self, name: str) -> Any:
        """Read the first value of a column."""
        if self.whole is not None:
            return self.whole.column(name).slice(0, 1)
        with open_parquet(self.path) as file:
            return next(file.iter_batches(1, columns=[name])).column(0)

    def column(self, name: str) -> pa.ChunkedArray:
        """Read a column as a whole; strings of Parquet as distinct values, nulls among them."""
        with self.reading():
            if self.whole is not None:
                column = self.whole.column(name)
                column.validate(full=True)
            else:
                text = [name] if is_text(self.schema.field(name).type) else []
                with open_parquet(self.path, text) as file:
                    require_sizes(file, range(file.num_row_groups), (name,), name)
                    column = file.read([name]).column(name)
            return column

    def column_array(self, field: pa.Field, label: bool) -> AnyArray:
        """Open a column of one value per row, which is read when it is needed."""
        shape, kind = (self.tops[-1],), field.type
        # Ids are texts, of which some rows may have none.
        if is_text(kind) or (t.is_integer(kind) and naming.is_identity(field.name) and not label):
            return NonNumericArray(shape, str(kind), partial(self._words, field.name))
        value = kind.value_type if t.is_dictionary(kind) else kind
        if not is_number(value) and not t.is_boolean(value):
            return NonNumericArray(shape, str(kind))
        return ColumnRows(self, field.name, value)

    def _words(self, name: str) -> tuple[list[Any], Tensor]:
        """Read the distinct strings of a column, None for nothing, and the index of each row."""
        column = self.column(name)
        if t.is_integer(column.type):
            column = column.cast(pa.string())
        if not t.is_dictionary(column.type):
            column = column.dictionary_encode()
        array = column.unify_dictionaries().combine_chunks()
        words: list[Any] = array.dictionary.to_pylist()
        if self.suffix in (".csv", ".tsv"):
            words = [word if word.strip() else None for word in words]
        codes = array.indices.fill_null(len(words)).to_numpy().astype(np.int64)
        return [*words, None] if array.null_count else words, torch.from_numpy(codes)


@contextmanager
def frame_errors() -> Iterator[None]:
    """Say of an error that it is about the data frame."""
    try:
        yield
    except FileError:
        raise
    except ValueError as error:
        raise FileError(f"expected a data frame of features, got: {error}") from None


class ColumnRows(Rows):
    """Numbers [N] of a column of a table; rows that have none are an error when they are read."""

    def __init__(self, table: Table, name: str, kind: pa.DataType) -> None:
        self.table, self.name, self.kind = table, name, kind
        self.shape, self.dtype = (table.tops[-1],), _torch_dtype(kind)

    def present(self) -> Tensor:
        return torch.from_numpy(self.table.column(self.name).is_valid().to_numpy())

    def take(self, index: Tensor) -> Tensor:
        column = self.table.column(self.name)
        part = column.take(pa.array(index.numpy())).cast(self.kind)
        with self.table.reading():
            if part.null_count:
                refuse_null(column, self.name, 0)
        return torch.from_numpy(np.array(part.to_numpy())).to(self.dtype)


class TableRows(Rows):
    """Vectors [N, d] of a table: one list column, or several columns of numbers."""

    def __init__(self, table: Table, name: str, columns: tuple[str, ...]) -> None:
        self.table, self.name, self.columns = table, name, columns
        kinds = [table.schema.field(n).type for n in columns]
        self.lists = is_vector(kinds[0])
        self.names = () if self.lists else columns
        self.dtype = _torch_dtype(*([kinds[0].value_type] if self.lists else set(kinds)))
        width = int(_lengths(table.first(name))[0]) if self.lists else len(columns)
        self.shape = (table.tops[-1], width)
        if width < 1:
            raise ValueError(f"no numbers in the first row of {name!r}")

    def read(self, start: int, stop: int) -> Tensor:
        # Filled in place: pieces that are joined would take the memory twice.
        out = torch.empty((stop - start, self.shape[1]), dtype=self.dtype)
        numbers, tops, top = out.numpy(), self.table.tops, start
        with self.table.reading():
            while top < stop:
                part = bisect_right(tops, top) - 1
                end = min(stop, tops[part + 1])
                piece = self.table.part(part, self.columns).slice(top - tops[part], end - top)
                # Offsets of a hostile file may point outside of its buffers.
                piece.validate(full=True)
                if len(piece) != end - top:
                    raise ValueError("fewer rows than before; the file has changed")
                fill = self._lists if self.lists else self._wide
                fill(piece, top, numbers[top - start : end - start])
                top = end
        return out

    def _wide(self, piece: pa.Table, top: int, out: np.ndarray) -> None:
        for k, name in enumerate(self.columns):
            refuse_null(piece.column(name), name, top)
            out[:, k] = piece.column(name).to_numpy()

    def _lists(self, piece: pa.Table, top: int, out: np.ndarray) -> None:
        column, width = piece.column(0).combine_chunks(), self.shape[1]
        refuse_null(column, self.name, top)
        lengths = _lengths(column)
        bad = (lengths != width).nonzero()[0]
        if len(bad):
            got = f"{lengths[bad[0]]} numbers in row {top + bad[0]}"
            raise ValueError(f"{got} of {self.name!r}, and {width} before")
        values = column.flatten()
        refuse_null(values, self.name, top, width)
        out[:] = values.to_numpy(zero_copy_only=False).reshape(-1, width)


def _torch_dtype(*kinds: pa.DataType) -> torch.dtype:
    """The dtype that holds numbers of all these types of Arrow."""
    dtype = torch_dtype(np.result_type(*(kind.to_pandas_dtype() for kind in kinds)))
    assert dtype is not None, "torch has all numbers of Arrow"
    return dtype


def _lengths(column: Any) -> np.ndarray:
    """The length of the list in each row, -1 for a null."""
    lengths = pc.call_function("list_value_length", [column])
    return lengths.fill_null(-1).to_numpy(zero_copy_only=False)


def open_parquet(path: Path | str, dictionaries: list[str] | None = None) -> Any:
    """Open a Parquet file; ``dictionaries`` are columns that are read as distinct values."""
    # Without a buffer Arrow reads a whole row group into memory.
    return pq.ParquetFile(path, read_dictionary=dictionaries, buffer_size=1 << 20)


def require_sizes(file: Any, groups: Iterable[int], columns: Sequence[str], what: str) -> None:
    """Raise a ValueError if columns of row groups, which are ``what``, declare too many bytes."""
    size, wanted = 0, set(columns)
    for group in map(file.metadata.row_group, groups):
        for column in map(group.column, range(group.num_columns)):
            path = column.path_in_schema.split(".")
            if any(".".join(path[: k + 1]) in wanted for k in range(len(path))):
                # Few bytes may stand for many numbers.
                size += max(column.total_uncompressed_size, 8 * column.num_values)
    require_content(size, what)


def _map_arrow(path: Path) -> pa.Table:
    """Map an Arrow file, or a stream as the folders of Hugging Face datasets hold."""
    source = pa.memory_map(str(path))
    opened = pa.ipc.open_file if source.read(6) == b"ARROW1" else pa.ipc.open_stream
    source.seek(0)
    return opened(source).read_all()


def refuse_null(column: Any, name: str, top: int, width: int = 1) -> None:
    """Raise a ValueError with the first row without a value, of a column that begins at ``top``."""
    if column.null_count:
        index = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        rest = "" if column.null_count == 1 else f", the first of {column.null_count:,}"
        raise ValueError(f"a null in row {top + index // width} of {name!r}{rest}")
