"""The columns of a table that are features, by their types and names."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.types as t

from resultant._core.files import parse_json
from resultant.features import naming
from resultant.features.naming import LABELS, Names, usual_name

# Columns that data frames add for the numbers of their rows.
_ROW_NUMBERS = re.compile(r"__index_level_\d+__|Unnamed: \d+|index|")

# Between the numbers at the end of a name: x7, x_7, pixel_7_7.
_SEPARATORS = ("-", "_", ".", " ")


def dataset_class_names(schema: pa.Schema, label: str | None) -> list[str]:
    """The names of the classes in the metadata of Hugging Face datasets, if any."""
    try:
        metadata = parse_json((schema.metadata or {})[b"huggingface"])
        names = metadata["info"]["features"][label]["names"]
    except (KeyError, TypeError, ValueError):
        return []
    return [str(n) for n in names] if isinstance(names, list) else []


def vector_columns(schema: pa.Schema, names: Names) -> dict[str, tuple[str, ...]]:
    """Choose the columns of each feature: lists, else numbers, or as in ``names``."""
    if names.columns:
        return {names.features or "features": _known(schema, names.columns)}
    label = names.labels or usual_name(schema.names, LABELS)
    other = {label, names.identities, names.groups, naming.SPLIT} - {names.features}
    fields = [f for f in schema if f.name not in other]
    lists = {f.name: (f.name,) for f in fields if is_vector(f.type)}
    numbers = [
        f.name
        for f in fields
        if is_number(f.type)
        and not _ROW_NUMBERS.fullmatch(f.name)
        and not naming.is_identity(f.name)
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
    elif len(numbers) > 1 and (len(floats) > 1 or not wide):
        wide = {"features": tuple(numbers)}
    for field in fields:
        stem, _ = _numbered(field.name)
        if stem in wide and not is_number(field.type):
            got = f"column {field.name!r} of {field.type}"
            raise ValueError(f"{got} among the numbers of {naming.among(list(wide[stem]))}")
    return lists | wide


def _known(schema: pa.Schema, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return these columns, if the table has all of them as numbers."""
    missing = [name for name in columns if name not in schema.names]
    if missing:
        more = f" and {len(missing) - 1} more" * (len(missing) > 1)
        raise ValueError(f"no column {missing[0]!r}{more}, which the classifier was fitted to")
    for name in columns:
        if not is_number(kind := schema.field(name).type):
            raise ValueError(f"column {name!r} of {kind}, where the classifier has numbers")
    return columns


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
