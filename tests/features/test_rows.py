"""Rows of every kind are indexed as NumPy arrays are, and errors name a row as in its file."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from embedding_files import write
from resultant._core import memory
from resultant.features import FeatureStore, store
from resultant.features.prepare import check_features, prepare
from resultant.features.rows import ConcatRows, Rows, TensorRows
from small_store import ROWS, WIDTH, rows_and_labels

X, Y = rows_and_labels()
COLUMNS = {"z": X.numpy(), "labels": Y.numpy()}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing fits in memory, and pieces are of a few rows."""
    monkeypatch.setattr(store, "total_memory", lambda: 0)
    monkeypatch.setattr(memory, "MATRIX_BYTES", 4 * WIDTH * 5)


def rows_of(kind: str, folder: Path) -> Any:
    """Write the rows in a kind and open them."""
    path = folder / f"a{kind}"
    if kind == "selected":
        parts = [TensorRows(part) for part in torch.cat([X[40:], X[:40]]).split(7)]
        joined = ConcatRows(parts, [str(i) for i in range(len(parts))])
        return joined.select(torch.cat([torch.arange(20, 60), torch.arange(20)]))
    if kind == "fortran":
        path = write(folder / "a.npz", COLUMNS | {"z": np.asfortranarray(X.numpy().astype(">f4"))})
    elif kind == "packed":
        path = folder / "a.npz"
        np.savez_compressed(path, z=X.numpy(), labels=Y.numpy())
    elif kind == "shards":
        path = folder
        for i, part in enumerate((slice(0, 20), slice(20, 23), slice(23, 60))):
            write(folder / f"train-{i}.safetensors", {n: a[part] for n, a in COLUMNS.items()})
    elif kind == ".h5ad":
        with h5py.File(path, "w") as file:
            file["obsm/z"], file["obs/label"] = X.numpy(), Y.numpy()
    elif kind == ".csv":
        write(
            path, {f"z{i}": X.numpy()[:, i].astype(float) for i in range(WIDTH)} | {"y": Y.numpy()}
        )
    else:
        write(path, COLUMNS)
    return FeatureStore.open(folder if kind == ".npy" else path).vectors("train/z")


KEYS = [
    *(0, 7, -1, -ROWS, np.int32(3)),
    *(slice(None), slice(0, 7), slice(5, 5), slice(30, 1000), slice(-9, None), slice(9, 3)),
    *(slice(None, None, 2), slice(50, 3, -7), slice(None, None, -1), slice(1, -1, 13)),
    *([3, 59, 0, 3], [-1, -60, 30], [], np.array([4, 2], np.uint8), torch.arange(ROWS)),
    *([[1, 2]], None, True, (np.arange(60) > 50).tolist()),
    *(np.arange(ROWS) % 3 == 0, torch.zeros(ROWS, dtype=torch.bool)),
]
REFUSED = [60, -61, [0, 99], 1.5, [0.5], np.ones(59, bool), np.ones((60, 2), bool), "z"]
KINDS = [".npy", "fortran", "packed", "shards", ".parquet", ".csv", ".h5ad", "selected"]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_indexed_as_arrays(kind: str, tmp_path: Path) -> None:
    rows = rows_of(kind, tmp_path)
    assert isinstance(rows, Rows) and rows.shape == X.shape
    for key in KEYS:
        expected = X.numpy()[key.numpy() if isinstance(key, torch.Tensor) else key]
        assert rows[key].shape == expected.shape
        assert (rows[key].numpy() == expected).all(), key
    for key in REFUSED:
        for array in (rows, X.numpy()):
            with pytest.raises(IndexError):
                array[key]
    # Nothing is written to a file.
    rows[:].zero_()
    assert torch.equal(rows[:].to(X.dtype), X)
    assert isinstance(rows_of(".safetensors", tmp_path), torch.Tensor)


def test_rows_that_fit_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = prepare(FeatureStore.open(write(tmp_path / "a.parquet", COLUMNS)))
    monkeypatch.setattr(store, "total_memory", lambda: 8 * X.nbytes)
    check_features(prepared)
    (tmp_path / "a.parquet").unlink()
    parts = [prepared.store.vectors(f"{split}/z") for split in ("train", "test")]
    assert all(isinstance(part, torch.Tensor) for part in parts)
    assert torch.equal(torch.cat([part[:] for part in parts]).sort(0).values, X.sort(0).values)


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    rows = rows_of(".npy", tmp_path)
    np.save(tmp_path / "z.npy", X.numpy()[:50])
    with pytest.raises(ValueError, match=r"z\.npy to be a file of arrays as it was when"):
        rows[3:7]
    table = FeatureStore.open(write(tmp_path / "a.parquet", COLUMNS))
    write(tmp_path / "a.parquet", {n: a[:59] for n, a in COLUMNS.items()})
    with pytest.raises(ValueError, match="fewer rows than before; the file has changed"):
        table["train/z"]


def test_a_bad_row_is_named_with_its_file(tmp_path: Path) -> None:
    """By file and row, for rows that are joined and held out."""
    x = torch.ones(3, 40, 4)
    for value, message in ((torch.nan, "finite, got nan in"), (0, "zero vectors, got one in")):
        x[1, 17] = value
        for i in range(3):
            save_file({"z": x[i], "labels": torch.arange(40) % 2}, tmp_path / f"{i}.safetensors")
        whole = FeatureStore.open(tmp_path)
        rule = rf"z of {tmp_path} .*{message} row 17 of {tmp_path / '1.safetensors'}\b"
        with pytest.raises(ValueError, match=f"{rule}$"):
            whole.check()
        with pytest.raises(ValueError, match=rule):
            check_features(prepare(whole))


def test_thousands_of_shards_need_no_open_files(tmp_path: Path) -> None:
    for i in range(60):
        write(tmp_path / f"train-{i:03}.npz", {n: a[i : i + 1] for n, a in COLUMNS.items()})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 30, hard))
    try:
        assert torch.equal(FeatureStore.open(tmp_path)["train/z"], X)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
