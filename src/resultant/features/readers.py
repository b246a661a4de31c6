"""Feature files, folders of shards, patterns and URLs, each read by the reader of its kind."""

import glob
import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from resultant._core.files import require_input_file
from resultant.features import naming
from resultant.features.arrays import read_npy, read_npz, read_safetensors, read_torch
from resultant.features.naming import LABELS, Names, Shard, full_name, shards, split_of
from resultant.features.rows import reading
from resultant.features.selection import Contents, combine
from resultant.features.tables import Table, read_table

# The word for features in the name of an .npy; the file of the labels has another word there.
FEATURES = re.compile(
    r"features|embeddings|(?<![a-z])(feature|feats?|embedding|embs?|x|z)(?![a-z])", re.IGNORECASE
)

# Files of a URL that are opened at the same time.
THREADS = 16


def read_arrays(source: Any, names: Names) -> dict[str, Any]:
    """Return the arguments of the `FeatureStore` of a source; see `FeatureStore.open`."""
    if hasattr(source, "columns"):
        # A data frame of pandas or polars is a table.
        frame = source.to_arrow() if hasattr(source, "to_arrow") else None
        table = pa.Table.from_pandas(source, preserve_index=False) if frame is None else frame
        where = "the data frame"
        return combine(
            where, [(where, _of_table(Table(where, names, table), "train", names))], names
        )
    if isinstance(source, Mapping):
        where, remote = ", ".join(os.fspath(file) for file in source.values()), False
        files = [Shard(Path(file), *full_name(n).split("/", 1)) for n, file in source.items()]
        if len({full_name(name) for name in source}) < len(files):
            raise ValueError(f"expected arrays of different names in {where}, got {[*source]}")
    else:
        where = os.fspath(source)
        path, remote = Path(where), "://" in where
        if naming.kind_of(path) == ".npy" and path.is_file():
            files = _features_and_labels(path, names.labels)
            names = names._replace(labels=None)
        else:
            files = _remote(where) if remote else _local(path)
    # NumPy parses the headers of arrays as Python, which is not safe in threads.
    with ThreadPoolExecutor(THREADS if remote else 1) as threads:
        contents = list(threads.map(lambda file: (str(file.path), _read(file, names)), files))
    return combine(where, contents, names)


def _local(path: Path) -> list[Shard]:
    # A link that leads nowhere does not exist, and matches itself.
    if not path.exists():
        if glob.has_magic(str(path)) and (found := glob.glob(str(path))):
            return shards(path, map(Path, found))
        raise ValueError(f"expected {path} to exist, got no such file")
    if path.is_dir():
        return shards(path)
    require_input_file(path)
    if naming.kind_of(path) not in naming.KINDS:
        rule = f"expected {path} to be a folder or a file of features ({', '.join(naming.KINDS)})"
        got = f"another: {path.suffix or 'it'} is not read; save the arrays by numpy.savez"
        raise ValueError(f"{rule}, got {got}")
    return [Shard.of(path, [path.name])]


def _remote(url: str) -> list[Shard]:
    """The Parquet files at a URL: a file, a folder, or a pattern within the parts of the URL."""
    whole, *query = re.split(r"(?=\?[^/]*=)", url, maxsplit=1)
    parts = whole.split("/")
    fixed = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    with reading(url, "Parquet files"):
        system, base = fs.FileSystem.from_uri("".join(["/".join(parts[:fixed]), *query]))
        if fixed == len(parts) and system.get_file_info(base).is_file:
            fixed, base = fixed - 1, base.rpartition("/")[0]
        pattern = parts[fixed:]
        listing = system.get_file_info(fs.FileSelector(base, recursive=len(pattern) != 1))
    names = [i.path.removeprefix(base).lstrip("/").split("/") for i in listing if i.is_file]
    names = [n for n in names if n[-1].endswith(".parquet") and not n[-1].startswith(".")]
    if pattern:
        names = [n for n in names if len(n) == len(pattern) and all(map(fnmatchcase, n, pattern))]
    if not names:
        raise ValueError(f"expected Parquet files at {url}, got none")
    return [Shard.of("".join(["/".join([*parts[:fixed], *n]), *query]), n) for n in sorted(names)]


def _features_and_labels(path: Path, name: str | None) -> list[Shard]:
    """An .npy of features and the .npy of labels in the same folder, with this name if any."""
    split = split_of(path.stem)
    stems = [FEATURES.sub(label, path.stem) for label in LABELS]
    stems += [f"{path.stem}_{label}" for label in LABELS]
    # Without a split, a file of labels can only belong to these features.
    stems += [] if split else LABELS
    stems = [stem for stem in stems if stem != path.stem] if name is None else [name]
    candidates = [path.parent / f"{stem.removesuffix('.npy')}.npy" for stem in stems]
    labels = next((file for file in candidates if file.exists()), None)
    if labels is None:
        rule = f"expected {path} together with one of labels, such as {candidates[0]}"
        raise ValueError(f"{rule}, got it alone; give the folder of both, or save both as .npz")
    return [Shard(path, split, "features"), Shard(labels, split, "labels")]


def _of_table(table: Table, split: str, names: Names) -> Contents:
    arrays, classes = read_table(table, names)
    metadata = {"class_names": classes, "num_classes": len(classes)} if classes else {}
    called = {f"{split}/{name}": name for name in arrays}
    return Contents({full: arrays[n] for full, n in called.items()}, called, metadata, None)


def _read(file: Shard, names: Names) -> Contents:
    path, split = file.path, file.split or "train"
    metadata: dict[str, Any] = {}
    kind = naming.kind_of(path)
    if isinstance(path, str) or kind in naming.TABLES:
        return _of_table(Table(path, names), split, names)
    if kind == ".safetensors":
        arrays, metadata = read_safetensors(path)
    elif kind == ".h5ad":
        # Loading h5py takes half a second.
        from resultant.features.anndata import read_anndata

        arrays = read_anndata(path)
    elif kind in (".npz", ".pt", ".pth"):
        arrays = (read_npz if kind == ".npz" else read_torch)(path)
    else:
        arrays = {file.name: read_npy(path)}
    # If some names contain a split, the split of the file does not hold for the other names.
    if any(full_name(name, "") != f"/{name}" for name in arrays):
        split = "train"
    called: dict[str, str] = {}
    for old in sorted(arrays):
        name = full_name(old, split)
        if name in called:
            raise ValueError(f"expected one {name} in {path}, got another called {old!r}")
        called[name] = old
    return Contents({full: arrays[old] for full, old in called.items()}, called, metadata)
