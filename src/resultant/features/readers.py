"""Readers of feature files and of folders of shards."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from resultant._core.bounded_json import parse_json
from resultant._core.files import require_input_file
from resultant.features.anndata_files import read_anndata
from resultant.features.arrow_files import read_arrow
from resultant.features.csv_files import read_csv
from resultant.features.naming import (
    KINDS,
    LABELS,
    TABLES,
    Names,
    Shard,
    full_name,
    shards,
    split_of,
)
from resultant.features.numpy_files import map_npy, map_npz
from resultant.features.parquet import read_parquet
from resultant.features.rows import NonNumericArray, Rows, map_safetensors
from resultant.features.selection import Contents, RawContents, combine
from resultant.features.torch_files import read_torch

FORMAT = "resultant.FeatureStore 1"

# The word for features in the name of an .npy; the file of the labels has another word there.
FEATURES = re.compile(
    r"features|embeddings|(?<![a-z])(feature|feats?|embedding|embs?|x|z)(?![a-z])", re.IGNORECASE
)


def read_arrays(path: Path, names: Names) -> Contents[Rows]:
    """Read the arrays of a file or a folder of shards; see `FeatureStore.open`."""
    if not path.exists():
        raise ValueError(f"expected {path} to exist, got no such file")
    if not path.is_dir():
        require_input_file(path)
    if path.is_dir():
        files, keep_open = shards(path), False
    elif path.suffix == ".npy":
        files, keep_open = _features_and_labels(path, names.labels), True
        names = names._replace(labels=None)
    elif path.suffix in KINDS:
        files, keep_open = [Shard(path, split_of(path.stem), path.stem)], True
    else:
        rule = f"expected {path} to be a folder or a file of features ({', '.join(KINDS)})"
        got = f"another: {path.suffix or 'it'} is not read; save the arrays by numpy.savez"
        raise ValueError(f"{rule}, got {got}")
    contents = [(str(f.path), _read(f, names, keep_open=keep_open)) for f in files]
    chosen = files[0].path.suffix in TABLES
    return combine(str(path), contents, None if chosen else names)


def _read(file: Shard, names: Names, *, keep_open: bool) -> RawContents:
    path, split = file.path, file.split or "train"
    if path.suffix in TABLES:
        read = {".parquet": read_parquet, ".csv": read_csv, ".arrow": read_arrow}[path.suffix]
        return read(path, split, names)
    if path.suffix == ".npy":
        # train_features.npy, or features.npy in a folder train.
        name = full_name(file.name, split)
        return Contents({name: map_npy(path, keep_open=keep_open)}, called={name: file.name})
    metadata: dict[str, Any] = {}
    if path.suffix == ".npz":
        arrays = map_npz(path, keep_open=keep_open)
    elif path.suffix == ".pt":
        arrays = read_torch(path)
    elif path.suffix == ".h5ad":
        arrays = read_anndata(path)
    else:
        arrays, metadata = _read_safetensors(path, keep_open=keep_open)
    # If some names contain a split, the split of the file does not hold for the other names.
    if any(full_name(name, "") != f"/{name}" for name in arrays):
        split = "train"
    contents: RawContents = Contents({}, metadata)
    for old in sorted(arrays):
        name = full_name(old, split)
        if name in contents.arrays:
            raise ValueError(f"expected one {name} in {path}, got another called {old!r}")
        contents.arrays[name], contents.called[name] = arrays[old], old
    return contents


def _read_safetensors(
    path: Path, *, keep_open: bool
) -> tuple[dict[str, Rows | NonNumericArray], dict[str, Any]]:
    rule = f"expected {path} to be a whole safetensors file of features"
    try:
        arrays, header = map_safetensors(path, keep_open=keep_open)
    except FileNotFoundError:
        raise ValueError(f"{rule}, got no such file") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{rule}, got: {error}") from None
    # Files of other programs have no format, "pt" or "np".
    if header.get("format", FORMAT) not in (FORMAT, "pt", "np"):
        raise ValueError(f"{rule} (format {FORMAT!r}), got format {header['format']!r}")
    try:
        metadata = parse_json(header.get("metadata", "{}"))
    except ValueError as error:
        raise ValueError(f"{rule} with JSON metadata, got: {error}") from None
    if not isinstance(metadata, dict):
        raise ValueError(f"{rule} with a JSON object, got {type(metadata).__name__}")
    return arrays, metadata


def _features_and_labels(path: Path, name: str | None) -> list[Shard]:
    """An .npy of features and the .npy of labels in the same folder, with this name if any."""
    split = split_of(path.stem)
    stems = [FEATURES.sub(label, path.stem) for label in ("labels", *LABELS)]
    stems += [f"{path.stem}_{label}" for label in ("labels", *LABELS)]
    # Without a split, a file of labels can only belong to these features.
    stems += [] if split else ["labels", *LABELS]
    stems = [stem for stem in stems if stem != path.stem] if name is None else [name]
    candidates = [path.parent / f"{stem.removesuffix('.npy')}.npy" for stem in stems]
    labels = next((file for file in candidates if file.exists()), candidates[0])
    if not labels.exists():
        rule = f"expected {path} together with one of labels, such as {candidates[0]}"
        raise ValueError(f"{rule}, got it alone; give the folder of both, or save both as .npz")
    return [Shard(path, split, "features"), Shard(labels, split, "labels")]
