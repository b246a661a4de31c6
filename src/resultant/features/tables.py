"""Features in tables, read by pyarrow: Parquet by row groups, Arrow mapped, CSV and TSV in memory.

Vectors are list columns, texts such as ``[0.1, 0.2]``, or several columns of numbers with numbers
in their names (``f0`` to ``f63``, ``pixel_0_0`` to ``pixel_7_7``), else all floats.
"""

from __future__ import annotations

import gzip
import re
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
from pyarrow import csv
from torch import Tensor

from resultant._core.files import parse_json
from resultant.features import naming
from resultant.features.declared import require_content
from resultant.features.naming import LABELS, Names, usual_name
from resultant.features.rows import (
    AnyArray,
    FileError,
    FileRows,
    NonNumericArray,
    Rows,
    reading,
    torch_dtype,
)

KIND = {
    ".parquet": "a whole Parquet file of features",
    ".csv": "a CSV file of features with a header line",
    ".tsv": "a TSV file of features with a header line",
}

# Bytes of text of a CSV file that are decoded at once.
BLOCK = 1 << 26

# A vector that was written as text, by Python or NumPy.
_VECTOR = re.compile(r"\s*\[[-+0-9.eE,\sainf]+\]\s*")

# Columns that data frames add for the numbers of their rows.
_ROW_NUMBERS = re.compile(r"__index_level_\d+__|Unnamed: \d+|index|")

# Between the numbers at the end of a name: x7, x_7, pixel_7_7.
_SEPARATORS = ("-", "_", ".", " ")


def read_table(table: Table, names: Names) -> tuple[dict[str, AnyArray], list[str]]:
    """Return the columns of a table by name, and names of classes of Hugging Face datasets."""
    with table.reading():
        if not table.tops[-1]:
            raise ValueError("no rows")
        vectors = vector_columns(table.schema, names)
        used = {column for columns in vectors.values() for column in columns}
        arrays: dict[str, AnyArray] = {
            f.name: table.column_array(f) for f in table.schema if f.name not in used
        }
        for name, count in Counter(table.schema.names).items():
            if count > 1:
                vectors.pop(name, None)
                arrays[name] = NonNumericArray((table.tops[-1],), f"{count} columns of one name")
        arrays |= {name: TableRows(table, name, columns) for name, columns in vectors.items()}
        label = names.labels or usual_name(table.schema.names, LABELS)
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
                whole = _read_csv(Path(path), names) if text else _map_arrow(Path(path))
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
            if not is_text(self.schema.field(name).type):
                refuse_null(column, name, 0)
            return column

    def column_array(self, field: pa.Field) -> AnyArray:
        """Open a column of one value per row, which is read when it is needed."""
        shape, kind = (self.tops[-1],), field.type
        if is_text(kind):
            return NonNumericArray(shape, str(kind), partial(self._words, field.name))
        value = kind.value_type if t.is_dictionary(kind) else kind
        if not is_number(value) and not t.is_boolean(value):
            return NonNumericArray(shape, str(kind))

        def numbers(start: int, stop: int) -> np.ndarray:
            return self.column(field.name).cast(value).to_numpy()[start:stop]

        return FileRows(numbers, shape, _torch_dtype(value), decoded=True)

    def _words(self, name: str) -> tuple[list[Any], Tensor]:
        """Read the distinct strings of a column, None for nothing, and the index of each row."""
        column = self.column(name)
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


class TableRows(Rows):
    """Vectors [N, d] of a table: one list column, or several columns of numbers."""

    def __init__(self, table: Table, name: str, columns: tuple[str, ...]) -> None:
        self.table, self.name, self.columns = table, name, columns
        kinds = [table.schema.field(n).type for n in columns]
        self.lists = is_vector(kinds[0])
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


def _read_csv(path: Path, names: Names) -> pa.Table:
    """Read a table; columns are integers, floats of 32 bits, strings, or lists of such floats."""
    parse = csv.ParseOptions(delimiter=_delimiter(path), newlines_in_values=True)
    with _opened(path) as file:
        header = csv.open_csv(file, csv.ReadOptions(block_size=BLOCK), parse).schema.names
    if all(map(naming.is_numeral, header)):
        raise ValueError(f"numbers in the first line: {', '.join(header[:3])}, ...")
    # Where semicolons part the columns, a comma may part the decimals.
    points = ".," if parse.delimiter == ";" else "."
    inferred = [(_inferred(path, header, parse, point), point) for point in points]
    types, point = max(inferred, key=lambda one: sum(map(is_number, one[0].values())))
    own = names.identities or usual_name(header, naming.IDENTITIES)
    if own is not None and types.get(own) == pa.int64():
        # As the user spells it: 007 is not 7.
        types[own] = pa.string()
    convert = csv.ConvertOptions(column_types=types, decimal_point=point)
    batches, size = [], 0
    with _opened(path) as file:
        reader = csv.open_csv(file, csv.ReadOptions(block_size=BLOCK), parse, convert)
        for batch in reader:
            size += batch.nbytes
            require_content(size, "columns")
            batches.append(batch)
    table = pa.Table.from_batches(batches, reader.schema)
    for i, field in enumerate(table.schema):
        text = t.is_string(field.type) and len(table)
        if text and _VECTOR.fullmatch(str(table.column(i)[0])):
            table = table.set_column(i, field.name, _lists(table.column(i), field.name))
    return table


def _inferred(path: Path, names: list[str], parse: Any, point: str) -> dict[str, Any]:
    """Return the types of columns; Arrow infers those of the first block alone."""
    kinds: dict[str, set[pa.DataType]] = {name: set() for name in names}
    convert = csv.ConvertOptions(decimal_point=point)
    with _opened(path) as file:
        file.readline()
        while block := file.read(BLOCK) + file.readline():
            if block.strip():
                source, options = pa.BufferReader(block), csv.ReadOptions(column_names=names)
                for field in csv.read_csv(source, options, parse, convert).schema:
                    kinds[field.name].add(field.type)
    types = {}
    for name, found in kinds.items():
        numbers = found - {pa.null()}
        types[name] = pa.float32() if pa.float64() in numbers else pa.int64()
        if not numbers or not all(map(is_number, numbers)):
            types[name] = pa.string()
    return types


def _opened(path: Path) -> Any:
    """Open a file of text, packed or not."""
    return gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb")


def _delimiter(path: Path) -> str:
    """Return what parts the columns: a tab, or of the first line the most frequent."""
    if naming.kind_of(path) == ".tsv":
        return "\t"
    with _opened(path) as file:
        line = re.sub(r'"[^"]*"', "", file.readline(BLOCK).decode("utf-8", "replace"))
    return max(",;\t|", key=line.count)


def _lists(column: Any, name: str) -> Any:
    """Return texts such as [0.1, 0.2] as lists of numbers."""
    texts = column.to_pylist()
    bad = next((i for i, text in enumerate(texts) if not _VECTOR.fullmatch(text)), None)
    if bad is not None:
        raise ValueError(f"{texts[bad][:40]!r} in row {bad} of {name!r}, and a vector before")
    rows = [np.array(text.strip("[] \n").replace(",", " ").split(), np.float32) for text in texts]
    return pa.array(rows, pa.list_(pa.float32()))


def refuse_null(column: Any, name: str, top: int, width: int = 1) -> None:
    """Raise a ValueError with the first row without a value, of a column that begins at ``top``."""
    if column.null_count:
        index = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        rest = "" if column.null_count == 1 else f", the first of {column.null_count:,}"
        raise ValueError(f"a null in row {top + index // width} of {name!r}{rest}")


def dataset_class_names(schema: pa.Schema, label: str | None) -> list[str]:
    """The names of the classes in the metadata of Hugging Face datasets, if any."""
    try:
        metadata = parse_json((schema.metadata or {})[b"huggingface"])
        names = metadata["info"]["features"][label]["names"]
    except (KeyError, TypeError, ValueError):
        return []
    return [str(n) for n in names] if isinstance(names, list) else []


def vector_columns(schema: pa.Schema, names: Names) -> dict[str, tuple[str, ...]]:
    """Choose the columns of each feature: lists, else floats, else integers, or as in ``names``."""
    label = names.labels or usual_name(schema.names, LABELS)
    other = {label, names.identities, naming.SPLIT} - {names.features}
    fields = [f for f in schema if f.name not in other]
    lists = {f.name: (f.name,) for f in fields if is_vector(f.type)}
    numbers = [
        f.name
        for f in fields
        if is_number(f.type)
        and not _ROW_NUMBERS.fullmatch(f.name)
        and f.name.lower() not in naming.IDENTITIES
    ]
    floats = [n for n in numbers if t.is_floating(schema.field(n).type)]
    wide = _by_stem(numbers)
    with_floats = {stem: columns for stem, columns in wide.items() if {*columns} & {*floats}}
    if names.features is not None and names.features in wide:
        wide = {names.features: wide[names.features]}
    elif lists or names.features in schema.names:
        wide = {}
    elif with_floats:
        wide = with_floats
    elif len(floats) > 1:
        wide = {"features": tuple(floats)}
    elif not wide and len(numbers) > 1:
        wide = {"features": tuple(numbers)}
    for field in fields:
        stem, _ = _numbered(field.name)
        if stem in wide and not is_number(field.type):
            got = f"column {field.name!r} of {field.type}"
            raise ValueError(f"{got} among the numbers of {naming.among(list(wide[stem]))}")
    return lists | wide


def _numbered(name: str) -> tuple[str, list[int]]:
    """Split a name into its stem and the numbers at its end; without numbers no stem."""
    # Texts and numbers in turn: an expression of repeated numbers would try every cut.
    parts = re.split(r"(\d+)", name)
    if len(parts) == 1 or parts[-1]:
        return "", []
    first = len(parts) - 2
    while first > 1 and parts[first - 1] in _SEPARATORS:
        first -= 2
    stem = "".join(parts[:first])
    stem = stem[:-1] if stem.endswith(_SEPARATORS) else stem
    return stem or "features", [int(n) for n in parts[first:-1:2]]


def _by_stem(names: list[str]) -> dict[str, tuple[str, ...]]:
    """Group names with numbers at their ends by what is before, in the order of the numbers."""
    stems: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda name: (_numbered(name)[1], name)):
        stems.setdefault(_numbered(name)[0], []).append(name)
    return {stem: tuple(of) for stem, of in stems.items() if stem and len(of) > 1}


def is_number(kind: Any) -> bool:
    return t.is_floating(kind) or t.is_integer(kind)


def is_vector(kind: Any) -> bool:
    is_list = t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind)
    return is_list and is_number(kind.value_type)


def is_text(kind: Any) -> bool:
    """Return True for strings, and dictionaries of strings."""
    kind = kind.value_type if t.is_dictionary(kind) else kind
    return t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind)
