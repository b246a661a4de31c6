"""The features and labels among the arrays of one or several files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from resultant.features.labels import class_labels, identity_numbers
from resultant.features.naming import (
    IDENTITIES,
    LABELS,
    SPLIT,
    Names,
    full_name,
    require_name,
    split_of,
    split_part,
    usual_name,
    what_of,
)
from resultant.features.rows import AnyArray, ConcatRows, NonNumericArray, Rows, as_floats, selected
from resultant.features.schema import INTEGER_DTYPES, require_one_length

CLASS_NAMES = "class_names"
# The metadata ``labels`` of labels that were strings and became numbers in sorted order.
WORDS = "words"
# The metadata of labels.
DESCRIBED = (CLASS_NAMES, "num_classes", "labels")

# The parts of each array by name: the file of a part, and the part.
Parts = dict[str, list[tuple[str, AnyArray]]]


@dataclass
class Contents:
    """The arrays of files by full name; other attributes as in `FeatureStore`.

    ``describes`` are the labels that the metadata describe, None for those that are chosen.
    """

    arrays: dict[str, AnyArray]
    metadata: dict[str, Any] = field(default_factory=dict)
    called: dict[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    label_files: tuple[str, ...] = ()
    describes: str | None = "labels"


def combine(where: str, files: Iterable[tuple[str, Contents]], names: Names) -> Contents:
    """Combine the contents of files, each with its path, into features and labels."""
    parts: Parts = {}
    metadata: dict[str, Any] = {}
    called: dict[str, str] = {}
    describes: set[str | None] = set()
    for file, contents in files:
        metadata, called = contents.metadata | metadata, contents.called | called
        describes.add(contents.describes)
        for name, array in contents.arrays.items():
            parts.setdefault(name, []).append((file, array))
    if SPLIT not in (names.features, names.labels):
        parts, called = _divide(where, parts, called)
    classes, chosen = _class_names(parts), _choose(where, parts, names)
    metadata, used = classes | metadata, {what_of(old) for old in chosen.values()}
    if describes & {what_of(name) for name in parts} - used:
        metadata = {n: value for n, value in metadata.items() if n not in DESCRIBED}
    used |= set(classes)
    left_out = dict.fromkeys(called.get(n, n) for n in parts if what_of(n) not in used)
    called = {new: called.get(old, old) for new, old in chosen.items()}
    parts = {new: parts[old] for new, old in chosen.items()}
    _require_rows(where, parts)
    labels = {n: pieces for n, pieces in parts.items() if what_of(n) == "labels"}
    arrays, words = class_labels(where, labels, called)
    if words:
        metadata |= {CLASS_NAMES: words, "num_classes": len(words), "labels": WORDS}
    for name, pieces in parts.items():
        if name not in labels:
            convert = identity_numbers if what_of(name) == "identities" else _floats
            numbers = [(file, convert(file, called[name], array)) for file, array in pieces]
            arrays[name] = _join(where, called[name], numbers)
    others = {file for n, pieces in parts.items() if n not in labels for file, _ in pieces}
    of_labels = dict.fromkeys(file for pieces in labels.values() for file, _ in pieces)
    label_files = tuple(file for file in of_labels if file not in others)
    return Contents(dict(arrays), metadata, called, tuple(left_out), label_files)


def _require_rows(where: str, parts: Parts) -> None:
    """Raise unless the arrays of each split have one length, before any of them is decoded."""
    lengths: dict[str, int] = {}
    for name, pieces in parts.items():
        # Labels of another shape are refused with a better reason.
        table = what_of(name) == "labels" and any(math.prod(a.shape[1:]) != 1 for _, a in pieces)
        if not table and all(array.shape for _, array in pieces):
            lengths[name] = sum(array.shape[0] for _, array in pieces)
    require_one_length(where, lengths)


def _floats(file: str, name: str, array: AnyArray) -> Rows:
    if isinstance(array, NonNumericArray):
        rule = f"expected {name} of {file} to be [N, d] floats"
        raise ValueError(f"{rule}, got {array.kind} {array.shape}")
    real = array.dtype.is_floating_point or array.dtype.is_complex
    return as_floats(array) if len(array.shape) == 2 and not real else array


def _join(where: str, name: str, parts: list[tuple[str, Rows]]) -> Rows:
    """Join the rows of one name; an error names the file whose width or dtype differs."""
    files, arrays = zip(*parts, strict=True)
    kinds = [f"{a.dtype} [{', '.join(['N', *map(str, a.shape[1:])])}]" for a in arrays]
    for file, kind in zip(files, kinds, strict=True):
        if kind != kinds[0]:
            rule = f"expected {name} of {where} alike in all files, {kinds[0]} as in {files[0]}"
            raise ValueError(f"{rule}, got {kind} in {file}")
    return arrays[0] if len(parts) == 1 else ConcatRows(arrays, files)


def _divide(where: str, parts: Parts, called: dict[str, str]) -> tuple[Parts, dict[str, str]]:
    """Divide the arrays of one split by an array of strings with the split of each row, if any."""
    splits = next((pieces for name, pieces in parts.items() if what_of(name) == SPLIT), [])
    one = len({split_part(name) for name in parts}) == 1
    readers = [a.read for _, a in splits if isinstance(a, NonNumericArray) and len(a.shape) == 1]
    if not (one and splits and len(readers) == len(splits) and all(readers)):
        return parts, called
    indices = [_split_indices(where, *read()) for read in readers if read is not None]
    heights = [array.shape for _, array in splits]
    divided: Parts = {}
    names: dict[str, str] = {}
    for name, pieces in parts.items():
        if [array.shape[:1] for _, array in pieces] != heights:
            divided[name], names[name] = pieces, called.get(name, name)
        elif what_of(name) != SPLIT:
            for (file, array), by_split in zip(pieces, indices, strict=True):
                for split, index in by_split.items():
                    full = f"{split}/{what_of(name)}"
                    divided.setdefault(full, []).append((file, selected(array, index)))
                    names[full] = called.get(name, name)
    return divided, names


def _split_indices(where: str, words: list[str], codes: Tensor) -> dict[str, Tensor]:
    """The indices of the rows of each split; ``codes`` [N] are the indices of the words."""
    indices: dict[str, Tensor] = {}
    for code, word in enumerate(words):
        split = split_of(word)
        if split is None:
            got = f"the split {word!r}, none of train, val and test"
            raise ValueError(f"expected splits in {SPLIT} of {where}, got: {got}")
        rows = (codes == code).nonzero()[:, 0]
        indices[split] = torch.cat([indices.get(split, rows[:0]), rows]).sort().values
    return indices


def _class_names(parts: Parts) -> dict[str, Any]:
    """Metadata from an array class_names of strings, if there is one."""
    ((_, array), *_) = parts.get(f"train/{CLASS_NAMES}", [("", None)])
    if not isinstance(array, NonNumericArray) or array.read is None or len(array.shape) != 1:
        return {}
    names, codes = array.read()
    return {CLASS_NAMES: [names[c] for c in codes.tolist()]}


def _choose(where: str, parts: Parts, names: Names) -> dict[str, str]:
    """Choose the features and labels; return the old full name by new full name."""
    present = sorted({what_of(n) for n in parts})

    def require(name: str) -> str:
        # A name with a split, such as X_train, stands for X of all splits.
        what = name if name in present else what_of(full_name(name))
        require_name(where, what if what in present else name, present)
        return what

    labels = usual_name(present, LABELS) if names.labels is None else require(names.labels)
    if names.identities is not None:
        identities = require(names.identities)
    else:
        # An array of that name but of another length or kind is something else.
        fits = _possible_identities(parts) - {labels, names.features}
        identities = usual_name(fits, IDENTITIES)
    if names.features is not None:
        features = {require(names.features)}
    else:
        reserved = (labels, identities, "labels", "identities", CLASS_NAMES)
        others = {n: pieces for n, pieces in parts.items() if what_of(n) not in reserved}
        features = _candidates(others)
        if not features and others:
            got = ", ".join(f"{n} ({_kind(p[0][1])})" for n, p in sorted(others.items())[:12])
            rule = f"expected features in {where}, [N, d] floats, a list column, or several columns"
            raise ValueError(f"{rule} of numbers, got {got}")
    chosen: dict[str, str] = {}
    for name in parts:
        split, what = split_part(name), what_of(name)
        if what == labels:
            chosen[f"{split}/labels"] = name
        elif what == identities:
            chosen[f"{split}/identities"] = name
        elif what in features - {"labels"}:
            chosen[name] = name
    return chosen


def _possible_identities(parts: Parts) -> set[str]:
    """The arrays of one whole number or string per row of another array of the split."""
    sizes = {
        name: (split_part(name), sum(a.shape[0] if a.shape else 0 for _, a in pieces))
        for name, pieces in parts.items()
    }
    shared = Counter(sizes.values())
    return {
        what_of(name)
        for name, pieces in parts.items()
        if what_of(name) == "identities"
        or (shared[sizes[name]] > 1 and all(_one_per_row(array) for _, array in pieces))
    }


def _one_per_row(array: AnyArray) -> bool:
    if isinstance(array, NonNumericArray):
        return len(array.shape) == 1 and array.read is not None
    return len(array.shape) == 1 and array.dtype in INTEGER_DTYPES


def _candidates(parts: Parts) -> set[str]:
    """The names of arrays of vectors: [N, d] floats in some split, or else [N, d] integers."""
    wide, thin, integers = set(), set(), set()
    for name, pieces in parts.items():
        array = pieces[0][1]
        if isinstance(array, Rows) and len(array.shape) == 2 and not array.dtype.is_complex:
            # One number per row is a score or a weight if other arrays are vectors.
            floats = wide if array.shape[1] > 1 else thin
            (floats if array.dtype.is_floating_point else integers).add(what_of(name))
    return wide or integers or thin


def _kind(array: AnyArray) -> str:
    if isinstance(array, Rows):
        return f"{array.dtype} {list(array.shape)}"
    if array.kind == "object":
        return "objects, which are never unpickled"
    return f"{array.kind} {list(array.shape)}"
