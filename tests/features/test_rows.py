"""Rows that stay in files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from resultant._core import chunks
from resultant.features.rows import IndexedRows, MappedRows, MemoryRows
from resultant.features.store import FeatureStore, write_store
from resultant.features.subsets import held_out
from small_store import rows_and_labels


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("one", [True, False])
def test_rows_by_index_and_slice(
    dtype: torch.dtype, one: bool, tmp_path: Path, spool: Path
) -> None:
    x, y = rows_and_labels()
    x = x.to(dtype)
    save_file({"z": x[:40].clone(), "labels": y[:40]}, tmp_path / "train-0.safetensors")
    save_file({"z": x[40:].clone(), "labels": y[40:]}, tmp_path / "train-1.safetensors")
    path = tmp_path / "train-0.safetensors"
    opened = FeatureStore.open(path if one else tmp_path)
    expected, actual = (x[:40] if one else x), opened.vectors("train/z")
    assert isinstance(actual, MappedRows) and len(actual) == len(expected)
    for rows in (torch.tensor([3, 39, 0, 3]), torch.arange(len(actual)), torch.arange(0)):
        assert torch.equal(actual[rows], expected[rows])
    for part in (slice(0, 7), slice(5, 5), slice(30, 1000), slice(None)):
        assert torch.equal(actual[part], expected[part])
    actual[torch.tensor([1])].zero_()
    assert torch.equal(actual[torch.tensor([1])], expected[1:2])


def test_a_truncated_file_is_noticed(tmp_path: Path, spool: Path) -> None:
    x, y = rows_and_labels()
    write_store(tmp_path / "a.safetensors", {"z": x, "labels": y})
    result = FeatureStore.open(tmp_path / "a.safetensors").vectors("train/z")
    os.truncate(tmp_path / "a.safetensors", 1500)
    with pytest.raises(ValueError, match=r"300 bytes at .*a\.safetensors, got 140: the file"):
        result[torch.tensor([59])]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_large_features_stay_on_disk(dtype: torch.dtype, tmp_path: Path, monkeypatch: Any) -> None:
    """Beyond the limit shards go through a temporary file."""
    monkeypatch.setattr(chunks, "HELD_BYTES", 100)
    monkeypatch.setattr(chunks, "READ_BYTES", 300)
    x, y = torch.randn(50, 8).to(dtype), torch.arange(50) % 5
    for i in range(5):
        rows = slice(10 * i, 10 * i + 10)
        save_file({"z": x[rows].clone(), "labels": y[rows]}, tmp_path / f"train-{i}.safetensors")
    save_file({"z": x, "labels": y}, tmp_path / "whole.safetensors")
    whole = FeatureStore.open(tmp_path / "whole.safetensors")
    (tmp_path / "whole.safetensors").unlink()
    for result in (whole, FeatureStore.open(tmp_path), held_out(whole)):
        given = torch.cat([result[n] for n in result.features])
        again = torch.cat([result.vectors(n)[:] for n in result.features])
        assert given.dtype == dtype and torch.equal(given, again)
        assert torch.equal(given.double().sort(0).values, x.double().sort(0).values)


def test_a_changed_shard_is_noticed(tmp_path: Path) -> None:
    given = {"features": torch.ones(3, 4), "labels": torch.arange(3)}
    save_file(given, tmp_path / "train-0.safetensors")
    result = FeatureStore.open(tmp_path)
    save_file({**given, "more": torch.ones(3, 4)}, tmp_path / "train-0.safetensors")
    with pytest.raises(ValueError, match=r"train-0\.safetensors as it was .* got it changed"):
        result["train/features"]


def test_a_bad_row_is_named_with_its_file(tmp_path: Path) -> None:
    """By file and row, whatever was joined and held out."""
    for i in range(3):
        x = np.ones((40, 4), np.float32)
        if i == 1:
            x[17, 2] = np.nan
        y = torch.arange(40) % 2
        save_file({"z": torch.from_numpy(x), "labels": y}, tmp_path / f"{i}.safetensors")
    rule = rf"z of {tmp_path} finite, got nan in row 17 of {tmp_path / '1.safetensors'}$"
    whole = FeatureStore.open(tmp_path)
    for result in (whole, held_out(whole)):
        with pytest.raises(ValueError, match=rule):
            result.check()
    with pytest.raises(ValueError, match=r"ed z of .*1\.safetensors finite, got nan in row 17$"):
        held_out(FeatureStore.open(tmp_path / "1.safetensors")).check()


def test_no_rows_of_a_selection() -> None:
    rows = IndexedRows(MemoryRows(torch.eye(3)), torch.tensor([0, 2]))
    assert rows.read(1, 1).shape == (0, 3) and torch.equal(rows.read(0, 2), torch.eye(3)[[0, 2]])
