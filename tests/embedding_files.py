"""Small embedding files, and how they are written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from resultant.features.store import FeatureStore

N, M, D = 40, 15, 6
X = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
Z = np.random.default_rng(1).normal(size=(M, D)).astype(np.float32)
Y, T = np.arange(N) % 5, np.arange(M)[::-1] % 5
NAMES = np.array(["gnu", "cat", "fox", "dog", "emu"])
# The classes of Y and T where their names are sorted.
ORDER = np.argsort(np.argsort(NAMES))

Save = Callable[..., None]


def opened(folder: Path, save: Save = np.savez, /, **arrays: Any) -> FeatureStore:
    save(folder / "a.npz", **arrays)
    return FeatureStore.open(folder / "a.npz")


def write_parquet(path: Path, columns: Any, **options: Any) -> None:
    """Write a table, or columns by name."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    pq.write_table(table, path, **options)
