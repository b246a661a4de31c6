"""Features, labels and identities among the columns of a table.

Vectors are a list column, or several columns of numbers with numbers in their names (``f0`` to
``f63``, ``pixel_0_0`` to ``pixel_7_7``); without such names, all columns of floats are one vector.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from resultant._core.bounded_json import parse_json
from resultant._core.text import one_line
from resultant.features.naming import IDENTITIES, LABELS, Names, usual_name, what_of
from resultant.features.rows import NonNumericArray, Rows, as_rows
from resultant.features.selection import SPLIT, Contents, RawContents, at_indices, split_indices

if TYPE_CHECKING:
    import pyarrow as pa

# The most columns of numbers, and the width of a vector.
MAX_WIDTH = 1 << 20

# Columns that data frames add for the numbers of their rows.
_ROW_NUMBERS = re.compile(r"__index_level_\d+__|Unnamed: \d+|index|")

# Between the numbers at the end of a name: x7, x_7, pixel_7_7.
_SEPARATORS = ("-", "_", ".", " ")


@dataclass(frozen=True)
class Chosen:
    """Columns that are read.

    Attributes:
        vectors: Features by name, each one list column or several columns of numbers.
        label: Column of labels, or None.
        identities: Column of identities, or None.
        split: True if a column names the split of each row.
    """

    vectors: dict[str, tuple[str, ...]]
    label: str | None
    identities: str | None
    split: bool

    @property
    def used(self) -> list[str]:
        """All columns that are read."""
        single = [n for n in (self.label, self.identities, SPLIT if self.split else None) if n]
        return [*(n for columns in self.vectors.values() for n in columns), *single]


def arrow() -> Any:
    """Import pyarrow; without it, raise an error that names the extra."""
    try:
        import pyarrow
    except ImportError:
        raise ValueError(
            "expected pyarrow to read this file: pip install resultant[parquet]"
        ) from None
    return pyarrow


@contextmanager
def table_errors(rule: str, kind: type[ValueError] = ValueError) -> Iterator[None]:
    """Turn every error over a damaged or hostile file into one that begins with the rule."""
    try:
        yield
    except FileNotFoundError:
        raise kind(f"{rule}, got no such file") from None
    except (ValueError, OSError, MemoryError, OverflowError, arrow().ArrowException) as error:
        raise kind(f"{rule}, got: {one_line(error)}") from None


def choose(schema: pa.Schema, names: Names) -> Chosen:
    """Choose the columns that are read."""
    features = names.features
    label = _required(names.labels, schema) or usual_name(schema.names, LABELS)
    known = _required(names.identities, schema)
    if known is None:
        others = (n for n in schema.names if n not in (label, features))
        known = usual_name(others, IDENTITIES)
    split = SPLIT in schema.names and SPLIT not in (label, features)
    rest = [f for f in schema if f.name not in (label, known, SPLIT if split else None)]
    vectors = _vectors(rest, schema, features)
    chosen = Chosen(vectors, label, known, split)
    twice = next((n for n in chosen.used if schema.names.count(n) > 1), None)
    if twice is not None:
        raise ValueError(f"more than one column {twice!r}")
    return chosen


def table_contents(
    chosen: Chosen,
    schema: pa.Schema,
    split: str,
    vectors: dict[str, Rows],
    read: Callable[[str], pa.ChunkedArray],
) -> RawContents:
    """Arrange the columns of a table by split.

    Rows belong to ``split`` if no column names it; ``read`` reads a column of labels, identities or
    splits.
    """
    by_name: dict[str, Rows | NonNumericArray] = dict(vectors)
    for name, column in (("labels", chosen.label), ("identities", chosen.identities)):
        if column is not None:
            by_name[name] = label_values(read(column), column)
    splits = splits_of(read(SPLIT)) if chosen.split else {split: None}
    arrays = {
        f"{part}/{n}": rows if index is None else at_indices(rows, index)
        for part, index in splits.items()
        for n, rows in by_name.items()
    }
    classes = dataset_class_names(schema, chosen.label)
    return Contents(
        arrays,
        {"class_names": classes, "num_classes": len(classes)} if classes else {},
        {name: what_of(name) for name in arrays},
        tuple(n for n in schema.names if n not in chosen.used),
    )


def _required(name: str | None, schema: pa.Schema) -> str | None:
    if name is not None and name not in schema.names:
        raise ValueError(f"no column {name!r} among {_among(schema.names)}")
    return name


def _vectors(
    rest: list[pa.Field], schema: pa.Schema, features: str | None
) -> dict[str, tuple[str, ...]]:
    t = arrow().types
    for integers in (False, True):
        lists = [f.name for f in rest if is_vector(f.type, integers=integers)]
        if features is None and lists:
            return {name: (name,) for name in lists}
        if features is not None and features in lists:
            return {features: (features,)}
    for kinds in ((t.is_floating,), (t.is_floating, t.is_integer)):
        numbers = [f.name for f in rest if any(kind(f.type) for kind in kinds)]
        numbers = [n for n in numbers if not _ROW_NUMBERS.fullmatch(n)]
        wide = _by_stem(numbers)
        if features is not None:
            wide = {n: columns for n, columns in wide.items() if n == features}
        elif not wide and len(numbers) > 1:
            wide = {"features": tuple(numbers)}
        if wide:
            _refuse_others(rest, wide)
            return wide
    if features is not None and features in schema.names:
        raise ValueError(f"column {features!r} of {schema.field(features).type}, not vectors")
    if features is not None:
        raise ValueError(f"no column {features!r} among {_among(schema.names)}")
    got = _among([f"{f.name} ({f.type})" for f in schema])
    hint = "vectors are a list column, or one column of numbers per feature"
    raise ValueError(f"no features among the columns {got}; {hint}")


def _refuse_others(rest: list[pa.Field], wide: dict[str, tuple[str, ...]]) -> None:
    """Raise if a column belongs to a vector by its name, but does not hold numbers."""
    t = arrow().types
    for field in rest:
        stem, _ = _numbered(field.name)
        number = t.is_floating(field.type) or t.is_integer(field.type)
        if stem in wide and not number:
            got = f"column {field.name!r} of {field.type}"
            raise ValueError(f"{got} among the numbers of {_among(list(wide[stem]))}")


def _numbered(name: str) -> tuple[str | None, list[int]]:
    """Split a name into its stem and the numbers at its end; None without numbers.

    A regular expression of repeated numbers would try every way to cut a number in two.
    """
    # Texts and numbers in turn.
    parts = re.split(r"(\d+)", name)
    if len(parts) == 1 or parts[-1]:
        return None, []
    first = len(parts) - 2
    while first > 1 and parts[first - 1] in _SEPARATORS:
        first -= 2
    stem = "".join(parts[:first])
    stem = stem[:-1] if stem.endswith(_SEPARATORS) else stem
    return stem or "features", [int(n) for n in parts[first:-1:2]]


def _by_stem(names: list[str]) -> dict[str, tuple[str, ...]]:
    """Group names with numbers at their ends by what is before, in the order of the numbers."""
    stems: dict[str, list[tuple[list[int], str]]] = {}
    for name in names:
        stem, numbers = _numbered(name)
        if stem is not None:
            stems.setdefault(stem, []).append((numbers, name))
    return {stem: tuple(n for _, n in sorted(of)) for stem, of in stems.items() if len(of) > 1}


def _among(names: list[str]) -> str:
    """Names in a message, shortened: a table can have one column per dimension."""
    return ", ".join(names if len(names) <= 12 else [*names[:6], "...", *names[-3:]])


def batches_from(start: int, batches: Iterable[Any]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the record batches from that of row ``start`` on, with their first rows."""
    top = 0
    for batch in batches:
        if top + batch.num_rows > start:
            yield top, batch
        top += batch.num_rows


def is_vector(kind: Any, *, integers: bool) -> bool:
    """Return True for lists of floats, or with ``integers`` of floats or integers."""
    t = arrow().types
    is_list = t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind)
    of = is_list and kind.value_type
    return is_list and (t.is_floating(of) or (integers and t.is_integer(of)))


def feature_dtype(schema: pa.Schema, columns: tuple[str, ...]) -> torch.dtype:
    """The dtype of a vector: that of floats, or one that holds the integers."""
    kinds = [schema.field(n).type for n in columns]
    if is_vector(kinds[0], integers=True):
        kinds = [kinds[0].value_type]
    layout = np.result_type(*(np.dtype(kind.to_pandas_dtype()) for kind in set(kinds)))
    dtype = torch.from_numpy(np.empty(0, layout)).dtype
    if dtype.is_floating_point:
        return dtype
    return torch.float32 if dtype.itemsize <= 2 else torch.float64


class TableRows(Rows):
    """Vectors of a table, best read in sequence: other reads start again before the row.

    A subclass yields the record batches of a file in `batches`.
    """

    def __init__(
        self,
        path: Any,
        name: str,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        columns: tuple[str, ...],
    ) -> None:
        self.path, self.name, self.shape, self.dtype = path, name, shape, dtype
        self.columns = columns
        self.next, self.left = 0, torch.empty((0, shape[1]), dtype=dtype)
        self.stream: Iterator[Tensor] = iter(())

    def batches(self, start: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the record batches from that of row ``start`` on, with their first rows."""
        raise NotImplementedError

    def read(self, start: int, stop: int) -> Tensor:
        if start != self.next or not start:
            self.next, self.left = start, self.left[:0]
            self.stream = self._pieces(start)
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

    def _pieces(self, start: int) -> Iterator[Tensor]:
        pa = arrow()
        try:
            for top, batch in self.batches(start):
                piece = self.vectors(batch, top)
                yield piece[max(0, start - top) :]
        except (OSError, MemoryError, pa.ArrowException) as error:
            rule = f"expected {self.path} to be a whole file of features"
            raise ValueError(f"{rule}, got: {one_line(error)}") from None

    def vectors(self, batch: pa.RecordBatch, top: int) -> Tensor:
        """Return the vectors [n, d] of a batch whose first row is ``top``."""
        if is_vector(batch.schema.field(self.columns[0]).type, integers=True):
            return self._lists(batch.column(self.columns[0]), top)
        values = np.empty((batch.num_rows, len(self.columns)), _layout(self.dtype))
        for k, name in enumerate(self.columns):
            column = batch.column(name)
            if column.null_count:
                row = top + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
                rule = f"expected a number in every row of {name} of {self.path}"
                raise ValueError(f"{rule}, got a null in row {row}")
            values[:, k] = column.to_numpy(zero_copy_only=False)
        return torch.from_numpy(values)

    def _lists(self, column: pa.Array, top: int) -> Tensor:
        width = self.shape[1]
        rule = f"expected {width} numbers in every {self.name} of {self.path}"
        lengths = list_lengths(column)
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


def _layout(dtype: torch.dtype) -> np.dtype[Any]:
    return torch.empty(0, dtype=dtype).numpy().dtype


def list_lengths(column: pa.Array) -> np.ndarray:
    """The length of the list in each row, -1 for a null."""
    return column.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False)


def is_label(kind: Any) -> bool:
    """Return True for strings, numbers, booleans, and dictionaries of these."""
    t = arrow().types
    kind = kind.value_type if t.is_dictionary(kind) else kind
    return is_text(kind) or t.is_integer(kind) or t.is_floating(kind) or t.is_boolean(kind)


def is_text(kind: Any) -> bool:
    t = arrow().types
    view = getattr(t, "is_string_view", lambda _: False)
    return t.is_string(kind) or t.is_large_string(kind) or view(kind)


def label_values(column: pa.ChunkedArray, name: str) -> Rows | NonNumericArray:
    """Labels or identities [N] from a column of integers, whole floats, booleans or strings."""
    t, kind = arrow().types, column.type
    if not is_label(kind):
        raise ValueError(f"labels {name!r} of {kind}, not integers or strings")
    refuse_nulls(column, f"the labels {name!r}")
    if not (t.is_dictionary(kind) or is_text(kind)):
        return as_rows(torch.from_numpy(column.to_numpy().copy()))
    encoded = _encoded(column)
    codes = torch.from_numpy(encoded.indices.to_numpy().astype(np.int64))
    if is_text(encoded.dictionary.type):
        words = encoded.dictionary.to_pylist()
        return NonNumericArray((len(codes),), str(kind), lambda: (words, codes))
    values = encoded.dictionary.to_numpy(zero_copy_only=False)
    return as_rows(torch.from_numpy(values.copy())[codes])


def splits_of(column: pa.ChunkedArray) -> dict[str, Tensor]:
    """The indices of the rows of each split in the column `SPLIT`."""
    refuse_nulls(column, f"the column {SPLIT!r}")
    encoded = _encoded(column)
    codes = torch.from_numpy(encoded.indices.to_numpy().astype(np.int64))
    return split_indices([str(word) for word in encoded.dictionary.to_pylist()], codes)


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """The distinct values of a column and their indices; a long string is never repeated."""
    is_dictionary = arrow().types.is_dictionary
    column = column.unify_dictionaries() if is_dictionary(column.type) else column
    encoded = column.combine_chunks()
    return encoded if is_dictionary(encoded.type) else encoded.dictionary_encode()


def refuse_nulls(column: pa.Array | pa.ChunkedArray, what: str) -> None:
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        number = column.null_count
        rest = "" if number == 1 else f", the first of {number:,}"
        raise ValueError(f"a null in row {row} of {what}{rest}")


def dataset_class_names(schema: pa.Schema, label: str | None) -> list[str]:
    """The names of the classes in the metadata of Hugging Face datasets, if any."""
    try:
        metadata = parse_json((schema.metadata or {})[b"huggingface"])
        names = metadata["info"]["features"][label]["names"]
    except (KeyError, TypeError, ValueError):
        return []
    return [str(n) for n in names] if isinstance(names, list) else []
