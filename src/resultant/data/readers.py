"""The arrays of feature files of every kind, by full name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from resultant.data._npy import as_tensor, map_npy
from resultant.data.npz import map_npz
from resultant.data.parquet import LABELS, read_parquet
from resultant.data.shards import (
    KINDS,
    Rows,
    Selected,
    Shard,
    as_rows,
    join,
    map_array,
    map_safetensors,
    shards,
    split_of,
)

FORMAT = "resultant.FeatureStore 1"
SPLITS = ("train", "val", "test")


def read_arrays(
    path: Path, features: str | None, labels: str | None
) -> tuple[dict[str, Rows], dict[str, Any]]:
    """The arrays of a file or a folder of shards, and their metadata; see `FeatureStore.open`."""
    if path.is_dir():
        files, keep = shards(path), False
    elif path.suffix == ".npy":
        files, keep = _pair(path), True
    elif path.suffix in KINDS:
        files, keep = [Shard(path, split_of(path.stem), path.stem)], True
    else:
        rule = f"expected {path} to be a folder or a file of features ({', '.join(KINDS)})"
        raise ValueError(f"{rule}, got {'another' if path.exists() else 'no such file'}")
    parts: dict[str, list[tuple[str, Rows]]] = {}
    metadata: dict[str, Any] = {}
    for file in files:
        found, about = _read(file, features, labels, keep=keep)
        metadata = about | metadata
        for name, rows in found.items():
            parts.setdefault(name, []).append((str(file.path), rows))
    arrays = {n: join(str(path), n, each) for n, each in parts.items()}
    # Columns of Parquet have been chosen already.
    if files[0].path.suffix != ".parquet":
        arrays = _chosen(str(path), arrays, features, labels)
    return arrays, metadata


def _read(
    file: Shard, features: str | None, labels: str | None, *, keep: bool
) -> tuple[dict[str, Rows], dict[str, Any]]:
    """The arrays of a file by full name, and its metadata."""
    path, split = file.path, file.split or "train"
    if path.suffix == ".parquet":
        return read_parquet_arrays(path, split, features, labels)
    if path.suffix == ".npy":
        # train_features.npy, or features.npy in a folder train.
        return {full_name(file.name, split): read_npy(path, keep=keep)}, {}
    metadata: dict[str, Any] = {}
    if path.suffix == ".npz":
        found = map_npz(path, keep=keep)
    else:
        found, metadata = _read_safetensors(path, keep=keep)
    arrays: dict[str, Rows] = {}
    for given in sorted(found):
        name = full_name(given, split)
        if name in arrays:
            raise ValueError(f"expected one {name} in {path}, got another called {given!r}")
        arrays[name] = found[given]
    return arrays, metadata


def _read_safetensors(path: Path, *, keep: bool) -> tuple[dict[str, Rows], dict[str, Any]]:
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
) -> tuple[dict[str, Rows], dict[str, Any]]:
    """The columns of a Parquet file or URL by full name, and its metadata."""
    columns = read_parquet(path, features, labels)
    arrays = dict(columns.features)
    if columns.labels is not None:
        arrays["labels"] = as_rows(columns.labels)
    names = columns.class_names
    metadata = {"class_names": names, "num_classes": len(names)} if names else {}
    if not columns.splits:
        return {f"{split}/{n}": rows for n, rows in arrays.items()}, metadata
    return {
        f"{name}/{n}": Selected(rows, index)
        for name, index in columns.splits.items()
        for n, rows in arrays.items()
    }, metadata


def _pair(path: Path) -> list[Shard]:
    """An .npy of features and the one of labels beside it."""
    stem = re.sub("features|embeddings", "labels", path.stem)
    labels = path.with_name(f"{stem if stem != path.stem else path.stem + '_labels'}.npy")
    if path.exists() and not labels.exists():
        rule = f"expected {path} together with one of labels, {labels}"
        raise ValueError(f'{rule}, or a mapping {{"train/features": ...}}, got it alone')
    split = split_of(path.stem)
    return [Shard(path, split, "features"), Shard(labels, split, "labels")]


def read_npy(path: Path, *, keep: bool = True) -> Rows:
    array = map_npy(path)
    as_tensor(array, path)
    return map_array(path, array, keep=keep)


def _chosen(
    where: str, arrays: dict[str, Rows], features: str | None, labels: str | None
) -> dict[str, Rows]:
    """Of the features only those called ``features``, and those called ``labels`` as labels;
    without a name those that are called so, or else as in `LABELS`."""
    names = sorted({what_of(n) for n in arrays})
    if labels is None and "labels" not in names:
        labels = next((name for name in LABELS if name in names), None)
    for wanted in (features, labels):
        if wanted is not None and wanted not in names:
            raise ValueError(f"expected an array {wanted!r} in {where}, got {', '.join(names)}")
    chosen: dict[str, Rows] = {}
    for name, rows in arrays.items():
        what = what_of(name)
        if what == labels:
            chosen[f"{split_part(name)}/labels"] = rows
        elif what == "labels":
            # Others are asked for, where a name is given.
            chosen |= {} if labels else {name: rows}
        elif what == "identities" or features in (None, what):
            chosen[name] = rows
    return chosen


def split_part(name: str) -> str:
    return name.partition("/")[0]


def what_of(name: str) -> str:
    return name.partition("/")[2]


def full_name(name: str, split: str = "train") -> str:
    """SPLIT/WHAT of a name, for which a file may have said the split."""
    if "/" in name:
        return name
    first, _, what = name.partition("_")
    return f"{first}/{what}" if first in SPLITS and what else f"{split}/{name}"
