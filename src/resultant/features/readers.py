"""The arrays of feature files of every kind, by full name."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from safetensors import SafetensorError
from torch import Tensor

from resultant.features.labels import Parts, class_labels
from resultant.features.naming import KINDS, SPLIT, Shard, shards, split_of
from resultant.features.npy import NotPlainError, as_tensor, map_npy
from resultant.features.npz import map_npz
from resultant.features.parquet import LABELS, label_name, read_parquet, split_places
from resultant.features.parquet import SPLIT as COLUMN
from resultant.features.rows import (
    IndexedRows,
    NonNumericArray,
    Rows,
    as_floats,
    distinct,
    join,
    map_array,
    map_safetensors,
)

FORMAT = "resultant.FeatureStore 1"
SPLITS = ("train", "val", "test")
RESERVED = ("labels", "identities", "class_names")
CLASS_NAMES = "train/class_names"
# What metadata say of labels that were strings, and are numbers by their order.
WORDS = "words"
NAMING = f"SPLIT/WHAT, SPLIT_WHAT, SPLIT.WHAT or WHAT_SPLIT, SPLIT in {', '.join(SPLITS)}"
BEFORE = re.compile(rf"{SPLIT}[/_.-](.+)", re.IGNORECASE | re.DOTALL)
BEHIND = re.compile(rf"(.+)[/_.-]{SPLIT}", re.IGNORECASE | re.DOTALL)

# How features are called in the name of an .npy, for which that of its labels has another word.
FEATURES = re.compile(
    r"features|embeddings|(?<![a-z])(feature|feats?|embedding|embs?|x|z)(?![a-z])", re.IGNORECASE
)

A = TypeVar("A", bound=Rows | NonNumericArray)


@dataclass
class Contents(Generic[A]):
    """What files hold: arrays by full name, metadata, what the files call the arrays, those that
    are neither features nor labels, and the files of labels that are not those of features."""

    arrays: dict[str, A]
    metadata: dict[str, Any] = field(default_factory=dict)
    called: dict[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    label_files: tuple[str, ...] = ()


Found = Contents[Rows | NonNumericArray]


def read_arrays(path: Path, features: str | None, labels: str | None) -> Contents[Rows]:
    """The arrays of a file or a folder of shards; see `FeatureStore.open`."""
    if not path.exists():
        raise ValueError(f"expected {path} to exist, got no such file")
    if path.is_dir():
        files, keep = shards(path), False
    elif path.suffix == ".npy":
        files, keep = _pair(path, labels), True
        labels = None
    elif path.suffix in KINDS:
        files, keep = [Shard(path, split_of(path.stem), path.stem)], True
    else:
        rule = f"expected {path} to be a folder or a file of features ({', '.join(KINDS)})"
        got = f"another: {path.suffix or 'it'} is not read; save the arrays by numpy.savez"
        raise ValueError(f"{rule}, got {got}")
    read = [(str(file.path), _read(file, features, labels, keep=keep)) for file in files]
    # Columns of Parquet have been chosen already.
    chosen = files[0].path.suffix == ".parquet"
    return settled(str(path), read, features, labels, chosen=chosen)


def settled(
    where: str,
    read: Iterable[tuple[str, Found]],
    features: str | None = None,
    labels: str | None = None,
    *,
    chosen: bool = True,
) -> Contents[Rows]:
    """Contents of files together; unless they are ``chosen``, of their arrays those that are
    features and labels."""
    parts: Parts = {}
    metadata: dict[str, Any] = {}
    called: dict[str, str] = {}
    left_out: list[str] = []
    for file, found in read:
        metadata, called = found.metadata | metadata, found.called | called
        left_out += found.left_out
        for name, array in found.arrays.items():
            parts.setdefault(name, []).append((file, array))
    if not chosen:
        if COLUMN not in (features, labels):
            parts, called = _divided(where, parts, called)
        classes = _named_classes(parts)
        metadata, kept = classes | metadata, _chosen(where, parts, features, labels)
        if "labels" in map(what_of, parts) and "labels" not in map(what_of, kept.values()):
            # What is said of the file's own labels does not hold for others.
            said = ("class_names", "num_classes", "labels")
            metadata = {n: value for n, value in metadata.items() if n not in said}
        read_too = {CLASS_NAMES} if classes else set()
        left_out += [called.get(n, n) for n in parts if n not in {*kept.values(), *read_too}]
        called = {n: called.get(given, given) for n, given in kept.items()}
        parts = {n: parts[given] for n, given in kept.items()}
    arrays, names = class_labels(where, {n: p for n, p in parts.items() if what_of(n) == "labels"})
    if names:
        metadata |= {"class_names": names, "num_classes": len(names), "labels": WORDS}
    for name, of in parts.items():
        if name not in arrays:
            arrays[name] = join(where, name, [(file, _numbers(file, name, a)) for file, a in of])
    beside = [file for name, of in parts.items() if what_of(name) == "labels" for file, _ in of]
    others = {file for name, of in parts.items() if what_of(name) != "labels" for file, _ in of}
    label_files = tuple(file for file in dict.fromkeys(beside) if file not in others)
    return Contents(arrays, metadata, called, tuple(dict.fromkeys(left_out)), label_files)


def _numbers(file: str, name: str, array: Rows | NonNumericArray) -> Rows:
    if isinstance(array, NonNumericArray):
        rule = f"expected {name} of {file} to be [N, d] floats"
        raise ValueError(f"{rule}, got {array.kind} {array.shape}")
    vectors = len(array.shape) == 2 and what_of(name) != "identities"
    real = array.dtype.is_floating_point or array.dtype.is_complex
    return as_floats(array) if vectors and not real else array


def _divided(where: str, parts: Parts, called: dict[str, str]) -> tuple[Parts, dict[str, str]]:
    """Arrays of one split by the splits that an array of strings beside them names, if one does,
    and what they are called."""
    said = next((of for name, of in parts.items() if what_of(name) == COLUMN), [])
    heights = [array.shape for _, array in said]
    readers = [
        a.read for _, a in said if isinstance(a, NonNumericArray) and a.read and len(a.shape) == 1
    ]
    one = len({split_part(name) for name in parts}) == 1
    if not (one and said) or len(readers) < len(said):
        return parts, called
    try:
        places = [split_places(*read()) for read in readers]
    except ValueError as error:
        raise ValueError(f"expected splits in {COLUMN} of {where}, got: {error}") from None
    found: Parts = {}
    names: dict[str, str] = {}
    for name, of in parts.items():
        if [array.shape[:1] for _, array in of] != heights:
            found[name], names[name] = of, called.get(name, name)
        elif what_of(name) != COLUMN:
            for (file, array), at in zip(of, places, strict=True):
                for split, index in at.items():
                    full = f"{split}/{what_of(name)}"
                    found.setdefault(full, []).append((file, _at(array, index)))
                    names[full] = called.get(name, name)
    return found, names


def _named_classes(parts: Parts) -> dict[str, Any]:
    """The strings of an array that is called so, as metadata."""
    ((_, array), *_) = parts.get(CLASS_NAMES, [("", None)])
    if not isinstance(array, NonNumericArray) or array.read is None or len(array.shape) != 1:
        return {}
    names, codes = array.read()
    return {"class_names": [names[c] for c in codes.tolist()]}


def _read(file: Shard, features: str | None, labels: str | None, *, keep: bool) -> Found:
    """The contents of a file."""
    path, split = file.path, file.split or "train"
    if path.suffix == ".parquet":
        return read_parquet_arrays(path, split, features, labels)
    if path.suffix == ".npy":
        # train_features.npy, or features.npy in a folder train.
        name = full_name(file.name, split)
        return Contents({name: read_npy(path, keep=keep)}, called={name: file.name})
    metadata: dict[str, Any] = {}
    if path.suffix == ".npz":
        found = map_npz(path, keep=keep)
    else:
        found, metadata = _read_safetensors(path, keep=keep)
    # Where arrays say their splits, the name of the file says nothing of the others.
    if any(full_name(name, "") != f"/{name}" for name in found):
        split = "train"
    contents: Found = Contents({}, metadata)
    for given in sorted(found):
        name = full_name(given, split)
        if name in contents.arrays:
            raise ValueError(f"expected one {name} in {path}, got another called {given!r}")
        contents.arrays[name], contents.called[name] = found[given], given
    return contents


def _read_safetensors(
    path: Path, *, keep: bool
) -> tuple[dict[str, Rows | NonNumericArray], dict[str, Any]]:
    rule = f"expected {path} to be a whole safetensors file of features"
    try:
        arrays, header = map_safetensors(path, keep=keep)
    except FileNotFoundError:
        raise ValueError(f"{rule}, got no such file") from None
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"{rule}, got: {error}") from None
    except (RuntimeError, OverflowError, MemoryError) as error:
        raise ValueError(f"{rule}, got: {error}") from None
    # Files of others have no format, and are welcome.
    if header.get("format", FORMAT) not in (FORMAT, "pt", "np"):
        raise ValueError(f"{rule} (format {FORMAT!r}), got format {header['format']!r}")
    try:
        metadata = json.loads(header.get("metadata", "{}"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{rule} with JSON metadata, got: {error}") from None
    if not isinstance(metadata, dict):
        raise ValueError(f"{rule} with a JSON object, got {type(metadata).__name__}")
    return arrays, metadata


def read_parquet_arrays(
    path: Path | str, split: str, features: str | None, labels: str | None
) -> Found:
    """The contents of a Parquet file or URL."""
    columns = read_parquet(path, features, labels)
    arrays: dict[str, Rows | NonNumericArray] = dict(columns.features)
    if columns.labels is not None:
        arrays["labels"] = columns.labels
    names, found = columns.class_names, {}
    for part, index in (columns.splits or {split: None}).items():
        for n, rows in arrays.items():
            found[f"{part}/{n}"] = rows if index is None else _at(rows, index)
    return Contents(
        found,
        {"class_names": names, "num_classes": len(names)} if names else {},
        {name: what_of(name) for name in found},
        tuple(columns.left_out),
    )


def _at(array: Rows | NonNumericArray, index: Tensor) -> Rows | NonNumericArray:
    """An array at ascending places [M]."""
    if isinstance(array, Rows):
        return IndexedRows(array, index)
    read, shape = array.read, (len(index), *array.shape[1:])
    if read is None or math.prod(shape[1:]) != 1:
        return NonNumericArray(shape, array.kind)

    def some() -> tuple[list[str], Tensor]:
        words, codes = read()
        return words, codes[index]

    return NonNumericArray(shape, array.kind, some)


def _pair(path: Path, name: str | None) -> list[Shard]:
    """An .npy of features and the one of labels beside it, of this name if there is one."""
    split = split_of(path.stem)
    stems = [FEATURES.sub(label, path.stem) for label in ("labels", *LABELS)]
    stems += [f"{path.stem}_{label}" for label in ("labels", *LABELS)]
    # Without a split, labels can only be those of these features.
    stems += [] if split else ["labels", *LABELS]
    stems = [stem for stem in stems if stem != path.stem] if name is None else [name]
    beside = [path.parent / f"{stem.removesuffix('.npy')}.npy" for stem in stems]
    labels = next((other for other in beside if other.exists()), beside[0])
    if not labels.exists():
        rule = f"expected {path} together with one of labels, such as {beside[0]}"
        raise ValueError(f"{rule}, got it alone; give the folder of both, or save both as .npz")
    return [Shard(path, split, "features"), Shard(labels, split, "labels")]


def read_npy(path: Path, *, keep: bool = True) -> Rows | NonNumericArray:
    try:
        array = map_npy(path)
    except NotPlainError as error:
        return NonNumericArray(error.shape, str(error.dtype))
    if array.dtype.kind in "US":
        return NonNumericArray(array.shape, str(array.dtype), partial(distinct, array))
    try:
        as_tensor(np.empty(0, array.dtype.newbyteorder("=")), path)
    except ValueError:
        return NonNumericArray(array.shape, str(array.dtype))
    return map_array(path, array, keep=keep)


def _chosen(
    where: str,
    parts: Parts,
    features: str | None,
    labels: str | None,
) -> dict[str, str]:
    """The names that are kept, and what they were: of the features those called ``features``, and
    those called ``labels`` as labels; without a name all that can be features, and those that are
    called labels, or else as in `LABELS`."""
    names = sorted({what_of(n) for n in parts})

    def known(name: str) -> str:
        # X of X_train and X_test too, which may be asked for by either.
        what = name if name in names else what_of(full_name(name))
        if what not in names:
            raise ValueError(f"expected an array {name!r} in {where}, got {', '.join(names)}")
        return what

    features = None if features is None else known(features)
    if labels is None:
        labels = "labels" if "labels" in names else label_name(names)
    else:
        labels = known(labels)
    wanted = {features}
    if features is None:
        others = {n: p for n, p in parts.items() if what_of(n) not in (labels, *RESERVED)}
        wanted = _candidates(others)
        if not wanted and others:
            got = ", ".join(f"{n} ({_kind(p)})" for n, p in sorted(others.items()))
            raise ValueError(f"expected features in {where}, [N, d] floats, got {got}")
    kept: dict[str, str] = {}
    for name in parts:
        if what_of(name) == labels:
            kept[f"{split_part(name)}/labels"] = name
        elif what_of(name) == "identities" or (what_of(name) in wanted - {"labels"}):
            kept[name] = name
    return kept


def _candidates(parts: Parts) -> set[str | None]:
    """What can be features: [N, d] floats in one split or more, or else [N, d] integers."""
    wide, thin, integers = set(), set(), set()
    for name, of in parts.items():
        array = of[0][1]
        if isinstance(array, Rows) and len(array.shape) == 2 and not array.dtype.is_complex:
            # A number a row is a score, or a weight, where there are vectors.
            floats = wide if array.shape[1] > 1 else thin
            (floats if array.dtype.is_floating_point else integers).add(what_of(name))
    return wide or integers or thin


def _kind(of: list[tuple[str, Rows | NonNumericArray]]) -> str:
    array = of[0][1]
    if isinstance(array, NonNumericArray) and array.kind == "object":
        return "objects, which are never unpickled"
    return (
        f"{array.kind if isinstance(array, NonNumericArray) else array.dtype} {list(array.shape)}"
    )


def split_part(name: str) -> str:
    return name.partition("/")[0]


def what_of(name: str) -> str:
    return name.partition("/")[2]


def full_name(name: str, split: str = "train") -> str:
    """SPLIT/WHAT of a name as in `NAMING`, for which a file may have said the split."""
    if match := BEFORE.fullmatch(name):
        return f"{split_of(match[1])}/{match[2]}"
    if match := BEHIND.fullmatch(name):
        return f"{split_of(match[2])}/{match[1]}"
    return name if "/" in name else f"{split}/{name}"
