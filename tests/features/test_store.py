"""The feature store: written arrays are read back, also in chunks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from resultant._core import chunks
from resultant.features.store import FeatureStore, write_store
from small_store import D, N, P, arrays

METADATA = {"num_classes": 4, "network": "resnet32", "epochs": [1, 2], "nested": {"tau": 0.1}}


def test_written_stores_are_read_back(tmp_path: Path) -> None:
    path, given = tmp_path / "a.safetensors", arrays()
    write_store(path, given, METADATA)
    result = FeatureStore.open(path)
    assert set(result) == set(given) and result.metadata == METADATA
    for name, array in given.items():
        assert torch.equal(result[name], array.long() if "labels" in name else array)
        assert name in result
    assert result["test/encoder"].dtype == torch.bfloat16
    assert result["test/labels"].dtype == torch.int64
    assert result.splits == ("test", "train") and result.num_classes == 4
    assert result.features == ("test/encoder", "train/encoder", "train/projection")
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]
    with pytest.raises(KeyError, match=r"expected one of test/encoder.*got 'train/nothing'"):
        result["train/nothing"]


def test_writing_to_mapped_features_leaves_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_store(path, arrays())
    before = path.read_bytes()
    FeatureStore.open(path)["train/encoder"].zero_()
    assert path.read_bytes() == before
    # A store can be written over while it is mapped.
    old = FeatureStore.open(path)
    write_store(path, {n: 2 * a if "labels" not in n else a for n, a in arrays().items()})
    assert torch.equal(old["train/encoder"], arrays()["train/encoder"])
    assert torch.equal(FeatureStore.open(path)["train/encoder"], 2 * arrays()["train/encoder"])


def test_shared_and_strided_memory_can_be_written(tmp_path: Path) -> None:
    whole = torch.randn(N, 2 * D)
    given = {"train/encoder": whole[:, ::2], "train/other": whole, "train/again": whole}
    write_store(tmp_path / "a.safetensors", given)
    result = FeatureStore.open(tmp_path / "a.safetensors")
    assert all(torch.equal(result[n], a) for n, a in given.items())


@pytest.mark.parametrize("rows", [1, 4, N, 100, None])
def test_chunks_cover_all_rows_once(rows: int | None, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(chunks, "MATRIX_BYTES", 3 * 8 * P)
    write_store(tmp_path / "a.safetensors", arrays())
    result = FeatureStore.open(tmp_path / "a.safetensors")
    for name in ("train/projection", "train/labels"):
        pieces = list(result.chunks(name, rows))
        assert torch.equal(torch.cat([piece for _, piece in pieces]), result[name])
        assert [i for s, _ in pieces for i in range(s.start, s.stop)] == list(range(N))
    if rows is None:
        assert [len(piece) for _, piece in result.chunks("train/projection")] == [3, 3, 3, 2]
    with pytest.raises(ValueError, match="rows >= 1, got 0"):
        next(result.chunks("train/labels", 0))


def test_gaps_and_counts(tmp_path: Path) -> None:
    given = {"features": torch.ones(5, 2), "labels": torch.tensor([0, 4, 4, 2, 0])}
    given["test_features"], given["test_labels"] = torch.ones(1, 2), torch.tensor([5])
    write_store(tmp_path / "a.safetensors", given)
    result = FeatureStore.open(tmp_path / "a.safetensors")
    assert set(result) == {"train/features", "train/labels", "test/features", "test/labels"}
    assert result.num_classes == 6
    assert result.label_counts().tolist() == [2, 0, 1, 0, 2, 0]
    assert result.label_gaps() == [1, 3, 5]
    write_store(tmp_path / "a.safetensors", given, {"num_classes": 8})
    assert FeatureStore.open(tmp_path / "a.safetensors").label_gaps() == [1, 3, 5, 6, 7]


def test_invalid_arrays_and_metadata_are_not_written(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    for metadata, message in (
        ({"num_classes": 3}, r"labels of .* in \[0, 3\), got 3 at row 3"),
        ({"num_classes": "4"}, "num_classes of .* to be an integer"),
        ({"num_classes": 10**12}, "num_classes of .* to be an integer"),
        ({"a": {1, 2}}, "metadata that JSON can represent"),
        ({"a": float("nan")}, "metadata that JSON can represent"),
    ):
        with pytest.raises(ValueError, match=message):
            write_store(path, arrays(), metadata)
    with pytest.raises(ValueError, match=r"ends in \.safetensors, got .*a\.npz"):
        write_store(tmp_path / "a.npz", arrays())
    with pytest.raises(ValueError, match=r"expected arrays such as .* got none"):
        write_store(path, {})
    with pytest.raises(ValueError, match="an array of numbers"):
        write_store(path, {"train/encoder": np.array([["a"]])})
    assert not list(tmp_path.iterdir())
