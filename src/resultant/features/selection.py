"""The features and labels among the arrays of one or several files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from resultant.features.identities import identity_numbers
from resultant.features.labels import class_labels
from resultant.features.naming import (
    IDENTITIES,
    LABELS,
    Names,
    full_name,
    require_name,
    split_of,
    split_part,
    usual_name,
    what_of,
)
from resultant.features.rows import AnyArray, NonNumericArray, Rows, as_floats, join, selected
from resultant.features.schema import require_one_length

RESERVED = ("labels", "identities", "class_names")
CLASS_NAMES = "train/class_names"
# An array or column with the split of each row.
SPLIT = "split"
# The metadata ``labels`` of labels that were strings and became numbers in sorted order.
WORDS = "words"

# The parts of each array by name: the file of a part, and the part.
Parts = dict[str, list[tuple[str, AnyArray]]]


@dataclass
class Contents:
    """The contents of files.

    Attributes:
        arrays: The arrays by full name.
        metadata: Metadata of the files.
        called: The names in the files by full name.
        left_out: The names of arrays that are neither features nor labels.
        label_files: Files of labels without features.
    """

    arrays: dict[str, AnyArray]
    metadata: dict[str, Any] = field(default_factory=dict)
    called: dict[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    label_files: tuple[str, ...] = ()


def combine(
    where: str, files: Iterable[tuple[str, Contents]], names: Names | None = None
) -> Contents:
    """Combine the contents of files into features and labels.

    Args:
        where: The name of the whole in messages.
        files: The contents of each file by path.
        names: The names of features, labels and identities; None if the files hold nothing else.
    """
    parts: Parts = {}
    metadata: dict[str, Any] = {}
    called: dict[str, str] = {}
    left_out: list[str] = []
    for file, contents in files:
        metadata, called = contents.metadata | metadata, contents.called | called
        left_out += contents.left_out
        for name, array in contents.arrays.items():
            parts.setdefault(name, []).append((file, array))
    if names is not None:
        if SPLIT not in (names.features, names.labels):
            parts, called = _divide(where, parts, called)
        classes = _class_names(parts)
        metadata, kept = classes | metadata, _choose(where, parts, names)
        if "labels" in map(what_of, parts) and "labels" not in map(what_of, kept.values()):
            # The metadata describe the labels of the file, not those that were asked for.
            described = ("class_names", "num_classes", "labels")
            metadata = {n: value for n, value in metadata.items() if n not in described}
        used = {*kept.values(), *([CLASS_NAMES] if classes else [])}
        left_out += [called.get(n, n) for n in parts if n not in used]
        called = {n: called.get(old, old) for n, old in kept.items()}
        parts = {n: parts[old] for n, old in kept.items()}
    _require_rows(where, parts)
    labels = {n: p for n, p in parts.items() if what_of(n) == "labels"}
    arrays, words = class_labels(where, labels, called)
    if words:
        metadata |= {"class_names": words, "num_classes": len(words), "labels": WORDS}
    for name, pieces in parts.items():
        if name not in labels:
            shown, as_numbers = called.get(name, name), _numbers
            if what_of(name) == "identities":
                as_numbers = identity_numbers
            numbers = [(file, as_numbers(file, shown, array)) for file, array in pieces]
            arrays[name] = join(where, shown, numbers)
    of_labels = dict.fromkeys(file for pieces in labels.values() for file, _ in pieces)
    others = {file for n, pieces in parts.items() if n not in labels for file, _ in pieces}
    label_files = tuple(file for file in of_labels if file not in others)
    return Contents(dict(arrays), metadata, called, tuple(dict.fromkeys(left_out)), label_files)


def _require_rows(where: str, parts: Parts) -> None:
    """Raise unless the arrays of each split have one length, before any of them is decoded."""
    lengths: dict[str, dict[str, int]] = {}
    for name, pieces in parts.items():
        # Labels of another shape are refused with a better reason.
        table = what_of(name) == "labels" and any(math.prod(a.shape[1:]) != 1 for _, a in pieces)
        if not table and all(array.shape for _, array in pieces):
            of_split = lengths.setdefault(split_part(name), {})
            of_split[name] = sum(array.shape[0] for _, array in pieces)
    for by_name in lengths.values():
        require_one_length(where, by_name)


def split_indices(names: list[str], codes: Tensor) -> dict[str, Tensor]:
    """The indices of the rows of each split; ``codes`` [N] are the indices of the names."""
    indices: dict[str, Tensor] = {}
    for code, name in enumerate(names):
        split = split_of(name)
        if split is None:
            raise ValueError(f"the split {name!r}, none of train, val and test")
        rows = (codes == code).nonzero()[:, 0]
        indices[split] = torch.cat([indices.get(split, rows[:0]), rows]).sort().values
    return indices


def _numbers(file: str, name: str, array: AnyArray) -> Rows:
    if isinstance(array, NonNumericArray):
        rule = f"expected {name} of {file} to be [N, d] floats"
        raise ValueError(f"{rule}, got {array.kind} {array.shape}")
    real = array.dtype.is_floating_point or array.dtype.is_complex
    return as_floats(array) if len(array.shape) == 2 and not real else array


def _divide(where: str, parts: Parts, called: dict[str, str]) -> tuple[Parts, dict[str, str]]:
    """Divide the arrays of one split by an array of strings with the split of each row, if any."""
    splits = next((pieces for name, pieces in parts.items() if what_of(name) == SPLIT), [])
    heights = [array.shape for _, array in splits]
    readers = [
        a.read for _, a in splits if isinstance(a, NonNumericArray) and a.read and len(a.shape) == 1
    ]
    one = len({split_part(name) for name in parts}) == 1
    if not (one and splits) or len(readers) < len(splits):
        return parts, called
    try:
        indices = [split_indices(*read()) for read in readers]
    except ValueError as error:
        raise ValueError(f"expected splits in {SPLIT} of {where}, got: {error}") from None
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


def _class_names(parts: Parts) -> dict[str, Any]:
    """Metadata from an array class_names of strings, if there is one."""
    ((_, array), *_) = parts.get(CLASS_NAMES, [("", None)])
    if not isinstance(array, NonNumericArray) or array.read is None or len(array.shape) != 1:
        return {}
    names, codes = array.read()
    return {"class_names": [names[c] for c in codes.tolist()]}


def _choose(where: str, parts: Parts, names: Names) -> dict[str, str]:
    """Choose the features and labels; return the old full name by new full name."""
    features, labels, identities = names
    present = sorted({what_of(n) for n in parts})

    def require(name: str) -> str:
        # A name with a split, such as X_train, stands for X of all splits.
        what = name if name in present else what_of(full_name(name))
        if what not in present:
            try:
                require_name(name, present, "array")
            except ValueError as error:
                raise ValueError(f"expected an array {name!r} in {where}, got {error}") from None
        return what

    if labels is not None:
        labels = require(labels)
    else:
        labels = "labels" if "labels" in present else usual_name(present, LABELS)
    if identities is not None:
        identities = require(identities)
    else:
        # An array of that name but of another length or kind is something else.
        fits = _possible_identities(parts)
        identities = usual_name(fits - {labels, features}, IDENTITIES)
    if features is not None:
        chosen = {require(features)}
    else:
        others = {
            n: p for n, p in parts.items() if what_of(n) not in (labels, identities, *RESERVED)
        }
        chosen = _candidates(others)
        if not chosen and others:
            got = ", ".join(f"{n} ({_kind(p[0][1])})" for n, p in sorted(others.items()))
            raise ValueError(f"expected features in {where}, [N, d] floats, got {got}")
    kept: dict[str, str] = {}
    for name in parts:
        if what_of(name) == labels:
            kept[f"{split_part(name)}/labels"] = name
        elif what_of(name) == identities:
            kept[f"{split_part(name)}/identities"] = name
        elif what_of(name) in chosen - {"labels"}:
            kept[name] = name
    return kept


def _possible_identities(parts: Parts) -> set[str]:
    """The arrays of one whole number or string per row of another array of the split."""
    heights = {n: sum(a.shape[0] if a.shape else 0 for _, a in p) for n, p in parts.items()}
    shared = Counter((split_part(n), height) for n, height in heights.items())
    return {
        what_of(n)
        for n, pieces in parts.items()
        if what_of(n) == "identities"
        or (
            shared[split_part(n), heights[n]] > 1
            and all(_one_per_row(array) for _, array in pieces)
        )
    }


def _one_per_row(array: AnyArray) -> bool:
    if isinstance(array, NonNumericArray):
        whole = array.read is not None
    else:
        real = array.dtype.is_floating_point or array.dtype.is_complex
        whole = not real and array.dtype != torch.bool
    return len(array.shape) == 1 and whole


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
