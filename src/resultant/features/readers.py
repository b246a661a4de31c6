"""Feature files, folders of shards and patterns, each read by the reader of its kind."""

from __future__ import annotations

import glob
import re
from pathlib import Path
from typing import Any

from resultant._core.files import require_input_file
from resultant.features.anndata import read_anndata
from resultant.features.arrays import read_npy, read_npz, read_safetensors, read_torch
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
from resultant.features.selection import Contents, combine
from resultant.features.tables import read_table

# The word for features in the name of an .npy; the file of the labels has another word there.
FEATURES = re.compile(
    r"features|embeddings|(?<![a-z])(feature|feats?|embedding|embs?|x|z)(?![a-z])", re.IGNORECASE
)


def read_arrays(path: Path, names: Names) -> Contents:
    """Read the arrays of a file, a folder of shards or a pattern; see `FeatureStore.open`."""
    # A link that leads nowhere does not exist, and matches itself.
    pattern = not path.exists() and glob.has_magic(str(path))
    found = sorted(glob.glob(str(path))) if pattern else []
    if not path.exists() and not found:
        raise ValueError(f"expected {path} to exist, got no such file")
    if not path.is_dir() and not found:
        require_input_file(path)
    if found:
        files = shards(path, [Path(file) for file in found])
    elif path.is_dir():
        files = shards(path)
    elif path.suffix == ".npy":
        files = _features_and_labels(path, names.labels)
        names = names._replace(labels=None)
    elif path.suffix in KINDS:
        files = [Shard(path, split_of(path.stem), path.stem)]
    else:
        rule = f"expected {path} to be a folder or a file of features ({', '.join(KINDS)})"
        got = f"another: {path.suffix or 'it'} is not read; save the arrays by numpy.savez"
        raise ValueError(f"{rule}, got {got}")
    contents = [(str(f.path), _read(f, names)) for f in files]
    chosen = files[0].path.suffix in TABLES
    return combine(str(path), contents, None if chosen else names)


def _read(file: Shard, names: Names) -> Contents:
    path, split = file.path, file.split or "train"
    if path.suffix in TABLES:
        return read_table(path, split, names)
    if path.suffix == ".npy":
        name = full_name(file.name, split)
        return Contents({name: read_npy(path)}, called={name: file.name})
    metadata: dict[str, Any] = {}
    if path.suffix == ".safetensors":
        arrays, metadata = read_safetensors(path)
    else:
        readers = {".npz": read_npz, ".pt": read_torch, ".h5ad": read_anndata}
        arrays = readers[path.suffix](path)
    # If some names contain a split, the split of the file does not hold for the other names.
    if any(full_name(name, "") != f"/{name}" for name in arrays):
        split = "train"
    contents = Contents({}, metadata)
    for old in sorted(arrays):
        name = full_name(old, split)
        if name in contents.arrays:
            raise ValueError(f"expected one {name} in {path}, got another called {old!r}")
        contents.arrays[name], contents.called[name] = arrays[old], old
    return contents


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
