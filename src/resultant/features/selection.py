"""The features and labels among the arrays of one or several files, joined and as numbers."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from resultant._core.text import printable
from resultant.features import naming, rows
from resultant.features.naming import SPLIT, Names, split_part, usual_name, what_of
from resultant.features.numbering import Parts, class_numbers, row_numbers
from resultant.features.origins import DESCRIPTIONS, Column, Origin
from resultant.features.rows import AnyArray, ConcatRows, NonNumericArray, ReorderedRows, Rows

CLASS_NAMES = "class_names"
# The metadata ``labels`` of labels that were strings and became numbers in sorted order.
WORDS = "words"
# The labels of the classes as the user has them, which predictions have too.
CLASS_LABELS = "class_labels"
UNLABELLED = "fill in these rows, or leave them out by --skip-unlabelled (in Python "
UNLABELLED += "skip_unlabelled=True); resultant predict reads rows without labels"
# The metadata with the names of the columns of features, by the name of the features.
COLUMNS = "columns"
# The metadata with the name of the column of the labels.
LABEL_COLUMN = "label_column"
# The metadata of labels.
DESCRIBED = (CLASS_NAMES, CLASS_LABELS, "num_classes", "labels")


class Contents(NamedTuple):
    """Arrays of a file by full name, and the labels that its metadata describe, None for any."""

    arrays: dict[str, AnyArray]
    called: dict[str, str]
    metadata: dict[str, Any]
    describes: str | None = "labels"


def combine(where: str, files: Iterable[tuple[str, Contents]], names: Names) -> dict[str, Any]:
    """Combine the contents of files, each with its path, into the arguments of a `FeatureStore`."""
    parts: Parts = {}
    metadata: dict[str, Any] = {}
    called: dict[str, str] = {}
    describes: set[str | None] = set()
    for file, contents in files:
        metadata, called = contents.metadata | metadata, contents.called | called
        describes.add(contents.describes)
        for name, array in contents.arrays.items():
            parts.setdefault(name, []).append((file, array))
    metadata.pop(CLASS_LABELS, None)
    if SPLIT not in (names.features, names.labels):
        parts, called = _divide(where, parts, called)
    classes, chosen = _class_names(parts), _choose(where, parts, names)
    metadata, used = classes | metadata, {what_of(old) for old in chosen.values()}
    if describes & {what_of(name) for name in parts} - used:
        metadata = {n: value for n, value in metadata.items() if n not in DESCRIBED}
    columns = {what_of(old) for new, old in chosen.items() if what_of(new) == "labels"} - {"labels"}
    if columns:
        metadata[LABEL_COLUMN] = printable(columns.pop())
    parts, skipped = _labelled(parts, chosen, called, names.unlabelled == "skip")
    origins = _origins(parts, chosen)
    shown = {what for origin in origins.values() for what in origin.columns}
    left_out = dict.fromkeys(
        called[n] for n in parts if what_of(n) not in used | shown | set(classes)
    )
    called = {new: called[old] for new, old in chosen.items()}
    parts = {new: parts[old] for new, old in chosen.items()}
    labels = {n: pieces for n, pieces in parts.items() if what_of(n) == "labels"}
    arrays, words = class_numbers(where, labels, called)
    if words:
        metadata |= {CLASS_NAMES: words, "num_classes": len(words), "labels": WORDS}
        metadata[CLASS_LABELS] = words
    parts = parts | _ordered({n: pieces for n, pieces in parts.items() if n not in labels})
    named = ((n, a) for n, own in parts.items() for _, a in own if isinstance(a, Rows) and a.names)
    columns = {what_of(n): array.names for n, array in named}
    if columns:
        metadata[COLUMNS] = {what: list(own) for what, own in columns.items()}
    other_files: set[str] = set()
    for name in [n for n in parts if n not in labels]:
        convert = _floats if what_of(name) not in rows.INTEGERS else row_numbers
        numbers = [(file, convert(file, called[name], array)) for file, array in parts[name]]
        arrays[name] = _join(where, called[name], numbers)
        other_files |= {file for file, _ in numbers}
    label_files = dict.fromkeys(file for pieces in labels.values() for file, _ in pieces)
    return {
        "where": where,
        "arrays": arrays,
        "metadata": metadata,
        "called": called,
        "left_out": tuple(left_out),
        "skipped": skipped,
        "origins": origins,
        "label_files": tuple(file for file in label_files if file not in other_files),
    }


def _labelled(
    parts: Parts, chosen: dict[str, str], called: dict[str, str], skip: bool
) -> tuple[Parts, int]:
    """Return the rows that have a label, and the number of the others, which are an error unless
    they are to be skipped."""
    parts, skipped = dict(parts), 0
    for label in [old for new, old in chosen.items() if what_of(new) == "labels"]:
        pieces = parts[label]
        kept = [array.present() for _, array in pieces]
        for (file, _), present in zip(pieces, kept, strict=True):
            missing = (~present).nonzero()[:, 0].tolist()
            if missing and not skip:
                number = "" if len(missing) == 1 else f", the first of {len(missing):,} rows"
                rule = f"expected {called[label]} of {file} in every row"
                raise ValueError(f"{rule}, got nothing in row {missing[0]}{number}; {UNLABELLED}")
            skipped += len(missing)
        if not any(bool(present.any()) for present in kept):
            rule = f"expected {called[label]} of {pieces[0][0]} in some row of {split_part(label)}"
            raise ValueError(f"{rule}, got none; leave this split out, and predict its rows")
        heights = _heights(pieces)
        for name, own in parts.items():
            if skipped and split_part(name) == split_part(label) and _heights(own) == heights:
                selected = zip(own, kept, strict=True)
                parts[name] = [(file, a.select(of.nonzero()[:, 0])) for (file, a), of in selected]
    return parts, skipped


def _origins(parts: Parts, chosen: dict[str, str]) -> dict[str, Origin]:
    """Return the origin of the rows of each split that has features."""
    origins: dict[str, Origin] = {}
    for new, old in sorted(chosen.items()):
        split = split_part(new)
        if what_of(new) in rows.INTEGERS or split in origins:
            continue
        pieces = parts[old]
        number = [array.numbers() for _, array in pieces if isinstance(array, Rows)]
        if len(number) < len(pieces):
            continue
        file = [torch.full_like(n, i) for i, n in enumerate(number)]
        names = [chosen.get(f"{split}/{what}") for what in ("identities", "groups")]
        names += [n for n in parts if split_part(n) == split and _describes(what_of(n))]
        columns = {
            what_of(name): Column([array for _, array in parts[name]])
            for name in dict.fromkeys(names)
            if name is not None and _is_column(parts[name], pieces)
        }
        files = tuple(printable(file) for file, _ in pieces)
        origins[split] = Origin(files, torch.cat(file), torch.cat(number), columns)
    return origins


def _describes(what: str) -> bool:
    """Return True for the name of a column that a table shows beside a row."""
    return naming.is_identity(what) or what.lower() in DESCRIPTIONS


def _is_column(pieces: list[tuple[str, AnyArray]], features: list[tuple[str, AnyArray]]) -> bool:
    """Return True for one whole number or string per row of the features."""
    flat = all(math.prod(a.shape[1:]) == 1 and bool(a.shape) for _, a in pieces)
    kinds = all(
        a.dtype in rows.INTEGER_DTYPES if isinstance(a, Rows) else a.read is not None
        for _, a in pieces
    )
    return flat and kinds and _heights(pieces) == _heights(features)


def _ordered(parts: Parts) -> Parts:
    """Return features whose columns are in the order of the first file, by their names."""
    first: dict[str, tuple[str, tuple[str, ...]]] = {}
    ordered: Parts = {}
    for name, pieces in parts.items():
        own = ordered[name] = []
        for file, array in pieces:
            if not isinstance(array, Rows) or not array.names:
                own.append((file, array))
                continue
            where, names = first.setdefault(what_of(name), (file, array.names))
            if apart := sorted({*names} ^ {*array.names}):
                side = f"no {apart[0]!r}" if apart[0] in names else f"also {apart[0]!r}"
                rule = f"expected the columns of {where} in {file}, {len(names)} of numbers"
                raise ValueError(f"{rule}, got {side}")
            own.append((file, array if names == array.names else ReorderedRows(array, names)))
    return ordered


def _floats(file: str, name: str, array: AnyArray) -> Rows:
    if isinstance(array, NonNumericArray):
        raise ValueError(f"expected {name} of {file} to be [N, d] floats, got {array}")
    if len(array.shape) != 2 or array.dtype.is_floating_point or array.dtype.is_complex:
        return array
    # Integers of 64 bits are rounded.
    dtype = torch.float32 if array.dtype.itemsize <= 2 else torch.float64
    return array.select(torch.arange(len(array)), dtype)


def _join(where: str, name: str, parts: list[tuple[str, Rows]]) -> Rows:
    """Join the rows of one name; an error names the file whose width or dtype differs."""
    files, arrays = zip(*parts, strict=True)
    kinds = [f"{a.dtype} [{', '.join(['N', *map(str, a.shape[1:])])}]" for a in arrays]
    for file, kind in zip(files, kinds, strict=True):
        if kind != kinds[0]:
            rule = f"expected {name} of {where} alike in all files, {kinds[0]} as in {files[0]}"
            raise ValueError(f"{rule}, got {kind} in {file}")
    return arrays[0] if len(parts) == 1 else ConcatRows(arrays, files)


def _heights(pieces: list[tuple[str, AnyArray]]) -> list[tuple[int, ...]]:
    return [array.shape[:1] for _, array in pieces]


def _divide(where: str, parts: Parts, called: dict[str, str]) -> tuple[Parts, dict[str, str]]:
    """Divide the arrays of one split by an array of strings with the split of each row, if any."""
    splits = next((pieces for name, pieces in parts.items() if what_of(name) == SPLIT), [])
    words = [a for _, a in splits if isinstance(a, NonNumericArray) and len(a.shape) == 1]
    readers = [a.read for a in words if a.read is not None]
    one = len({split_part(name) for name in parts}) == 1
    if not (one and readers) or len(readers) < len(splits):
        return parts, called
    indices = [_split_indices(where, *read()) for read in readers]
    divided: Parts = {}
    names: dict[str, str] = {}
    for name, pieces in parts.items():
        if _heights(pieces) != _heights(splits):
            divided[name], names[name] = pieces, called[name]
        elif what_of(name) != SPLIT:
            for (file, array), by_split in zip(pieces, indices, strict=True):
                for split, index in by_split.items():
                    full = f"{split}/{what_of(name)}"
                    divided.setdefault(full, []).append((file, array.select(index)))
                    names[full] = called[name]
    return divided, names


def _split_indices(where: str, words: list[str], codes: Tensor) -> dict[str, Tensor]:
    """Return the indices of the rows of each split; ``codes`` [N] are indices of the words."""
    splits = [naming.split_of(word or "") or "" for word in words]
    if "" in splits:
        got = f"the split {words[splits.index('')] or ''!r}, none of train, val and test"
        raise ValueError(f"expected splits in {SPLIT} of {where}, got: {got}")
    of_row = np.array(splits)[codes.numpy()]
    return {split: torch.from_numpy((of_row == split).nonzero()[0]) for split in np.unique(of_row)}


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
        what = name if name in present else what_of(naming.full_name(name))
        naming.require_name(where, what if what in present else name, present)
        return what

    if names.labels is None:
        labels = usual_name(present, naming.LABELS)
        if labels is None and names.unlabelled != "keep":
            labels = _only_words(parts, names)
    else:
        labels = require(names.labels)
    if names.unlabelled == "keep":
        pieces = [a for n, own in parts.items() if what_of(n) == labels for _, a in own]
        if not all(bool(a.present().all()) for a in pieces):
            labels = None
    if names.identities is not None:
        identities = require(names.identities)
    else:
        known = dict.fromkeys(what for what in map(what_of, parts) if naming.is_identity(what))
        fits = [n for n in known if n not in (labels, names.features) and _identifies(parts, n)]
        identities = usual_name(fits, naming.IDENTITIES)
        if identities is None:
            identities = next((n for n in fits if _differ(parts, n)), None)
    groups = None if names.groups is None else require(names.groups)
    if names.features is not None:
        features = {require(names.features)}
    else:
        reserved = (labels, identities, groups, *rows.INTEGERS, CLASS_NAMES)
        others = {n: pieces for n, pieces in parts.items() if what_of(n) not in reserved}
        features = _candidates(others)
        if not features and others:
            got = ", ".join(f"{n} ({p[0][1]})" for n, p in sorted(others.items())[:12])
            rule = f"expected features in {where}, [N, d] floats, a list column, or several columns"
            raise ValueError(f"{rule} of numbers, got {got}")
    roles = {"identities": identities, "groups": groups, "labels": labels}
    chosen = {}
    for name in parts:
        what, split = what_of(name), split_part(name)
        chosen |= {f"{split}/{role}": name for role, own in roles.items() if own == what}
        if what in features - {"labels"}:
            chosen[f"{split}/{what}"] = name
    return chosen


def _only_words(parts: Parts, names: Names) -> str | None:
    """Return the only array of words that may be labels: they repeat, and are not known to be
    another thing."""
    taken = {SPLIT, CLASS_NAMES, names.identities, names.groups}
    features = {len(a) for of_name in parts.values() for _, a in of_name if isinstance(a, Rows)}
    found = set()
    for name, ((_, array), *_) in parts.items():
        what = what_of(name)
        free = what not in taken and not _describes(what)
        flat = len(array.shape) == 1 and array.shape[0] in features
        if free and flat and isinstance(array, NonNumericArray) and array.read is not None:
            words, codes = array.read()
            if len(words) <= max(2, len(codes) // 2):
                found.add(what)
    return found.pop() if len(found) == 1 else None


def _identifies(parts: Parts, what: str) -> bool:
    """Return True for one whole number or string per row of another array; others have no place."""
    for name, pieces in parts.items():
        if what_of(name) == what != "identities":
            split = split_part(name)
            others = [p for n, p in parts.items() if n != name and split_part(n) == split]
            if not (
                all(len(a.shape) == 1 for _, a in pieces)
                and all(a.dtype in rows.INTEGER_DTYPES for _, a in pieces if isinstance(a, Rows))
                and any(_heights(p) == _heights(pieces) for p in others)
            ):
                return False
    return True


def _differ(parts: Parts, what: str) -> bool:
    """Return True for an array whose values in each file all differ."""
    pieces = [part for name, own in parts.items() if what_of(name) == what for part in own]
    try:
        ids = [row_numbers(file, what, array)[:] for file, array in pieces]
    except ValueError:
        # Some rows have none.
        return False
    return all(len(own.unique()) == len(own) for own in ids)


def _candidates(parts: Parts) -> set[str]:
    """The names of arrays of vectors: [N, d] floats in some split, or else [N, d] integers."""
    kinds: dict[str, set[str]] = {"wide": set(), "integers": set(), "thin": set()}
    for name, ((_, array), *_) in parts.items():
        if isinstance(array, Rows) and len(array.shape) == 2 and not array.dtype.is_complex:
            # One number per row is a score or a weight if other arrays are vectors.
            floats = "wide" if array.shape[1] > 1 else "thin"
            kinds[floats if array.dtype.is_floating_point else "integers"].add(what_of(name))
    return next(filter(None, kinds.values()), set())
