"""Rows of every kind are indexed as NumPy arrays are, and errors name a row as in its file."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from embedding_files import write_parquet
from resultant._core import chunks
from resultant.features import FeatureStore, store
from resultant.features.prepare import check_features, prepare
from resultant.features.rows import ConcatRows, Rows, TensorRows
from small_store import ROWS, WIDTH, rows_and_labels

X, Y = rows_and_labels()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing fits in memory, and pieces are of a few rows."""
    monkeypatch.setattr(store, "held_limit", lambda: 0)
    monkeypatch.setattr(chunks, "MATRIX_BYTES", 4 * WIDTH * 5)


def opened(path: Path) -> Any:
    return FeatureStore.open(path).vectors("train/z")


def npy(folder: Path) -> Any:
    np.save(folder / "z.npy", X.numpy())
    np.save(folder / "labels.npy", Y.numpy())
    return opened(folder)


def fortran(folder: Path) -> Any:
    np.savez(folder / "a.npz", z=np.asfortranarray(X.numpy().astype(">f4")), labels=Y.numpy())
    return opened(folder / "a.npz")


def packed(folder: Path) -> Any:
    np.savez_compressed(folder / "a.npz", z=X.numpy(), labels=Y.numpy())
    return opened(folder / "a.npz")


def shards(folder: Path) -> Any:
    for i, rows in enumerate((slice(0, 20), slice(20, 23), slice(23, 60))):
        part = {"z": X[rows].clone(), "labels": Y[rows].clone()}
        save_file(part, folder / f"train-{i}.safetensors")
    return opened(folder)


def parquet(folder: Path) -> Any:
    columns = {"z": list(X.numpy()), "label": Y.numpy()}
    write_parquet(folder / "a.parquet", columns, row_group_size=13)
    return opened(folder / "a.parquet")


def csv(folder: Path) -> Any:
    lines = [",".join(f"z{i}" for i in range(WIDTH)) + ",label"]
    lines += [",".join(map(repr, [*x, y])) for x, y in zip(X.tolist(), Y.tolist(), strict=True)]
    (folder / "a.csv").write_text("\n".join(lines))
    return opened(folder / "a.csv")


def h5ad(folder: Path) -> Any:
    with h5py.File(folder / "a.h5ad", "w") as file:
        file["X"], file["obs/label"] = X.numpy(), Y.numpy()
    return FeatureStore.open(folder / "a.h5ad").vectors("train/X")


def chosen(folder: Path) -> Any:
    """Rows of rows of several arrays."""
    parts = [TensorRows(part) for part in torch.cat([X[40:], X[:40]]).split(7)]
    joined = ConcatRows(parts, [str(i) for i in range(len(parts))])
    index = torch.cat([torch.arange(20, 60), torch.arange(20)])
    return joined.select(index)


KEYS = [
    *(0, 7, -1, -ROWS, np.int32(3)),
    *(slice(None), slice(0, 7), slice(5, 5), slice(30, 1000), slice(-9, None), slice(9, 3)),
    *(slice(None, None, 2), slice(50, 3, -7), slice(None, None, -1), slice(1, -1, 13)),
    *([3, 59, 0, 3], [-1, -60, 30], [], np.array([4, 2], np.uint8), torch.arange(ROWS)),
    *(
        [[1, 2]],
        None,
        True,
        np.arange(ROWS) % 3 == 0,
        torch.zeros(ROWS, dtype=torch.bool),
        (np.arange(60) > 50).tolist(),
    ),
]
REFUSED = [60, -61, [0, 99], 1.5, [0.5], np.ones(59, bool), np.ones((60, 2), bool), "z"]
KINDS = [npy, fortran, packed, shards, parquet, csv, h5ad, chosen]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_indexed_as_arrays(kind: Callable[[Path], Any], tmp_path: Path) -> None:
    rows = kind(tmp_path)
    assert isinstance(rows, Rows) and rows.shape == X.shape
    for key in KEYS:
        expected = X.numpy()[key.numpy() if isinstance(key, torch.Tensor) else key]
        assert rows[key].shape == expected.shape
        assert (rows[key].numpy() == expected).all(), key
    for key in REFUSED:
        for array in (rows, X.numpy()):
            with pytest.raises(IndexError):
                array[key]
    rows[:].zero_()
    assert torch.equal(rows[:].to(X.dtype), X)


def test_mapped_rows_are_tensors(tmp_path: Path) -> None:
    save_file({"z": X, "labels": Y}, tmp_path / "a.safetensors")
    rows = opened(tmp_path / "a.safetensors")
    assert isinstance(rows, torch.Tensor) and torch.equal(rows, X)
    before = (tmp_path / "a.safetensors").read_bytes()
    rows.zero_()
    assert (tmp_path / "a.safetensors").read_bytes() == before


def test_rows_that_fit_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet(tmp_path)
    prepared = prepare(FeatureStore.open(tmp_path / "a.parquet"))
    monkeypatch.setattr(store, "held_limit", lambda: X.nbytes)
    check_features(prepared, lambda *_: None)
    (tmp_path / "a.parquet").unlink()
    parts = [prepared.store.vectors(f"{split}/z") for split in ("train", "test")]
    assert all(isinstance(part, torch.Tensor) for part in parts)
    assert torch.equal(torch.cat([part[:] for part in parts]).sort(0).values, X.sort(0).values)


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    rows = npy(tmp_path)
    np.save(tmp_path / "z.npy", X.numpy()[:50])
    with pytest.raises(ValueError, match=r"z\.npy to be a file of arrays as it was when"):
        rows[3:7]


def test_a_bad_row_is_named_with_its_file(tmp_path: Path) -> None:
    """By file and row, for rows that are joined and held out."""
    for i in range(3):
        x = np.ones((40, 4), np.float32)
        x[17, 2] = np.nan if i == 1 else 1
        y = torch.arange(40) % 2
        save_file({"z": torch.from_numpy(x), "labels": y}, tmp_path / f"{i}.safetensors")
    rule = rf"z of {tmp_path} finite, got nan in row 17 of {tmp_path / '1.safetensors'}$"
    whole = FeatureStore.open(tmp_path)
    for result in (whole, prepare(whole).store):
        with pytest.raises(ValueError, match=rule):
            result.check()


def test_thousands_of_shards_need_no_open_files(tmp_path: Path) -> None:
    for i in range(60):
        np.savez(tmp_path / f"train-{i:03}.npz", z=X[i : i + 1].numpy(), labels=Y[i : i + 1])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 30, hard))
    try:
        assert torch.equal(FeatureStore.open(tmp_path)["train/z"], X)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
