"""Small embedding files of every kind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from resultant.features.store import FeatureStore

N, M, D = 40, 15, 6
X = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
Z = np.random.default_rng(1).normal(size=(M, D)).astype(np.float32)
Y, T = np.arange(N) % 5, np.arange(M)[::-1] % 5
NAMES = np.array(["gnu", "cat", "fox", "dog", "emu"])
# The classes of Y and T where their names are sorted.
ORDER = np.argsort(np.argsort(NAMES))
# Rows that are held out, and the split of each row.
HELD = np.arange(N) % 3 == 0
SPLIT = np.where(HELD, "test", "train")

Save = Callable[..., None]


def opened(folder: Path, save: Save = np.savez, /, **arrays: Any) -> FeatureStore:
    save(folder / "a.npz", **arrays)
    return FeatureStore.open(folder / "a.npz")


def refused(source: Any, message: str | None = None, **options: Any) -> None:
    """Require that a source is refused, in one line with its path."""
    with pytest.raises(ValueError, match=message) as caught:
        FeatureStore.open(source, **options).check()
    path = next(iter(source.values())) if isinstance(source, dict) else source
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def write_parquet(path: Path, columns: Any, **options: Any) -> None:
    """Write a table, or columns by name."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    pq.write_table(table, path, **options)


def write(path: Path, columns: Any) -> Path:
    """Write arrays or columns by name, or a table, in the kind of the path and in several parts."""
    kind = path.suffix
    if kind == ".npz":
        np.savez(path, **columns)
    elif kind in (".safetensors", ".pt"):
        tensors = {name: torch.from_numpy(array) for name, array in columns.items()}
        (save_file if kind == ".safetensors" else torch.save)(tensors, path)
    elif kind == ".npy":
        for name, array in columns.items():
            np.save(path.with_name(f"{name}.npy"), array)
    else:
        _write_table(path, columns)
    return path


def _write_table(path: Path, columns: Any) -> None:
    import pyarrow as pa
    from pyarrow import csv, feather

    if not isinstance(columns, pa.Table):
        lists = {n: list(a) if np.ndim(a) == 2 else a for n, a in columns.items()}
        columns = pa.table(lists)
    if path.suffix == ".parquet":
        write_parquet(path, columns, row_group_size=7)
    elif path.suffix == ".feather":
        feather.write_feather(columns, str(path), compression="zstd", chunksize=9)
    elif path.suffix == ".arrow":
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, columns.schema) as writer:
            writer.write_table(columns, max_chunksize=9)
    else:
        comma = "\t" if path.suffix == ".tsv" else ","
        csv.write_csv(columns, path, csv.WriteOptions(delimiter=comma, quoting_style="needed"))
