"""Features, labels and identities among the columns of a table.

Vectors are a list column, or several columns of numbers with numbers in their names (``f0`` to
``f63``, ``pixel_0_0`` to ``pixel_7_7``); without such names, all columns of floats are one vector.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from resultant._core.json_values import parse_json
from resultant.features.naming import IDENTITIES, LABELS, Names, among, require_name, usual_name
from resultant.features.rows import AnyArray, NonNumericArray, TensorRows

if TYPE_CHECKING:
    import pyarrow as pa

# A column with the split of each row.
SPLIT = "split"

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
        split: `SPLIT` if a column names the split of each row, or None.
    """

    vectors: dict[str, tuple[str, ...]]
    label: str | None
    identities: str | None
    split: str | None

    @property
    def single(self) -> list[str]:
        """Columns of one value per row."""
        return [n for n in (self.label, self.identities, self.split) if n is not None]

    @property
    def used(self) -> list[str]:
        """All columns that are read."""
        return [*(n for columns in self.vectors.values() for n in columns), *self.single]


def arrow() -> Any:
    """Import pyarrow; without it, raise an error that names the extra."""
    try:
        import pyarrow
    except ImportError:
        raise ValueError(
            "expected pyarrow to read this file: pip install 'resultant[parquet]'"
        ) from None
    return pyarrow


def choose(schema: pa.Schema, names: Names) -> Chosen:
    """Choose the columns that are read."""
    for name in (names.labels, names.identities):
        if name is not None:
            require_name(name, schema.names, "column")
    label = names.labels or usual_name(schema.names, LABELS)
    known = names.identities
    if known is None:
        # Floats are no identities: data frames make them of integers with missing values.
        fields = (f for f in schema if f.name not in (label, names.features))
        known = usual_name((f.name for f in fields if _is_identity(f.type)), IDENTITIES)
    split = SPLIT if SPLIT in schema.names and SPLIT not in (label, names.features) else None
    rest = [f for f in schema if f.name not in (label, known, split)]
    chosen = Chosen(_vectors(rest, schema, names.features), label, known, split)
    twice = next((n for n in chosen.used if schema.names.count(n) > 1), None)
    if twice is not None:
        raise ValueError(f"more than one column {twice!r}")
    return chosen


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
    stems: list[str] = []
    for kinds in ((t.is_floating,), (t.is_floating, t.is_integer)):
        numbers = [f.name for f in rest if any(kind(f.type) for kind in kinds)]
        numbers = [n for n in numbers if not _ROW_NUMBERS.fullmatch(n)]
        numbers = [n for n in numbers if n.lower() not in IDENTITIES]
        wide = _by_stem(numbers)
        stems = list(wide)
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
        require_name(features, [*schema.names, *stems], "column")
    got = among([f"{f.name} ({f.type})" for f in schema])
    hint = "vectors are a list column, or one column of numbers per feature"
    raise ValueError(f"no features among the columns {got}; {hint}")


def _refuse_others(rest: list[pa.Field], wide: dict[str, tuple[str, ...]]) -> None:
    """Raise if a column belongs to a vector by its name, but does not hold numbers."""
    t = arrow().types
    for field in rest:
        stem, _ = _numbered(field.name)
        if stem in wide and not (t.is_floating(field.type) or t.is_integer(field.type)):
            got = f"column {field.name!r} of {field.type}"
            raise ValueError(f"{got} among the numbers of {among(list(wide[stem]))}")


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


def is_vector(kind: Any, *, integers: bool = True) -> bool:
    """Return True for lists of floats, or with ``integers`` of floats or integers."""
    t = arrow().types
    is_list = t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind)
    return is_list and (
        t.is_floating(kind.value_type) or (integers and t.is_integer(kind.value_type))
    )


def feature_dtype(schema: pa.Schema, columns: tuple[str, ...]) -> torch.dtype:
    """The dtype of a vector: that of floats, or one that holds the integers."""
    kinds = [schema.field(n).type for n in columns]
    if is_vector(kinds[0]):
        kinds = [kinds[0].value_type]
    layout = np.result_type(*(np.dtype(kind.to_pandas_dtype()) for kind in set(kinds)))
    dtype = torch.from_numpy(np.empty(0, layout)).dtype
    if dtype.is_floating_point:
        return dtype
    return torch.float32 if dtype.itemsize <= 2 else torch.float64


def _value_type(kind: Any) -> Any:
    return kind.value_type if arrow().types.is_dictionary(kind) else kind


def is_text(kind: Any) -> bool:
    """Return True for strings, and dictionaries of strings."""
    t, kind = arrow().types, _value_type(kind)
    view = getattr(t, "is_string_view", lambda _: False)
    return t.is_string(kind) or t.is_large_string(kind) or view(kind)


def _is_identity(kind: Any) -> bool:
    return is_text(kind) or arrow().types.is_integer(_value_type(kind))


def label_array(column: pa.ChunkedArray, name: str) -> AnyArray:
    """Labels or identities [N] from a column of integers, whole floats, booleans or strings."""
    t, kind = arrow().types, _value_type(column.type)
    if not (is_text(kind) or t.is_integer(kind) or t.is_floating(kind) or t.is_boolean(kind)):
        raise ValueError(f"labels {name!r} of {column.type}, not integers or strings")
    refuse_nulls(column, f"the labels {name!r}")
    if column.type == kind and not is_text(kind):
        return TensorRows(torch.from_numpy(column.to_numpy().copy()))
    words, codes = encoded(column)
    if is_text(kind):
        return NonNumericArray((len(codes),), str(column.type), lambda: (words.to_pylist(), codes))
    return TensorRows(torch.from_numpy(words.to_numpy(zero_copy_only=False).copy())[codes])


def encoded(column: pa.ChunkedArray) -> tuple[pa.Array, torch.Tensor]:
    """The distinct values of a column and the index of each row; no string is repeated."""
    is_dictionary = arrow().types.is_dictionary
    column = column.unify_dictionaries() if is_dictionary(column.type) else column
    array = column.combine_chunks()
    array = array if is_dictionary(array.type) else array.dictionary_encode()
    return array.dictionary, torch.from_numpy(array.indices.to_numpy().astype(np.int64))


def refuse_nulls(column: pa.Array | pa.ChunkedArray, what: str) -> None:
    """Raise a ValueError with the first row that has no value."""
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        rest = "" if column.null_count == 1 else f", the first of {column.null_count:,}"
        raise ValueError(f"a null in row {row} of {what}{rest}")


def dataset_class_names(schema: pa.Schema, label: str | None) -> list[str]:
    """The names of the classes in the metadata of Hugging Face datasets, if any."""
    try:
        metadata = parse_json((schema.metadata or {})[b"huggingface"])
        names = metadata["info"]["features"][label]["names"]
    except (KeyError, TypeError, ValueError):
        return []
    return [str(n) for n in names] if isinstance(names, list) else []
