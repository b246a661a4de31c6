"""The feature store: rules for arrays, written arrays are read back, also in chunks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from resultant._core import memory
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
    assert result.dtype("test/encoder") == torch.bfloat16
    assert result["test/labels"].dtype == torch.int64
    assert result.splits == ("test", "train") and result.num_classes == 4
    assert result.features == ("test/encoder", "train/encoder", "train/projection")
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]
    assert "train/projection [11, 3]" in repr(result)
    with pytest.raises(KeyError, match=r"expected one of test/encoder.*got 'train/nothing'"):
        result["train/nothing"]


def test_shared_and_strided_memory_can_be_written(tmp_path: Path) -> None:
    whole = torch.randn(N, 2 * D)
    given = {"train/encoder": whole[:, ::2], "train/other": whole, "train/again": whole}
    write_store(tmp_path / "a.safetensors", given)
    result = FeatureStore.open(tmp_path / "a.safetensors")
    assert all(torch.equal(result[n], a) for n, a in given.items())


@pytest.mark.parametrize("rows", [1, 4, N, 100, None])
def test_chunks_cover_all_rows_once(rows: int | None, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(memory, "MATRIX_BYTES", 3 * 8 * P)
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


def test_gaps_and_counts() -> None:
    given = {"features": torch.ones(5, 2), "labels": torch.tensor([0, 4, 4, 2, 0])}
    for metadata, count in (({}, [2, 0, 1, 0, 2]), ({"num_classes": 6}, [2, 0, 1, 0, 2, 0])):
        result = FeatureStore("memory", given, metadata)
        assert result.label_counts().tolist() == count
        assert result.label_gaps() == [c for c, n in enumerate(count) if not n]


# Arrays that other programs write and `write_store` refuses.
READ = [
    ({"train/identities": torch.zeros(N).bool()}, r"\[N\] integers, got torch.bool"),
    ({"train/labels": torch.zeros(N)}, r"train/labels .* \[N\] integers, got torch.float32"),
    ({"train/labels": torch.zeros(N, 1).long()}, r"\[N\] integers, got torch.int64 \(11, 1\)"),
    ({"train/encoder": torch.ones(N, D).long()}, r"\[N, d\] floats, got torch.int64"),
]
REFUSED = [
    ({"train/labels": torch.zeros(N, 2).long()}, r"\[N\] integers, got torch.int64 \(11, 2\)"),
    ({"train/labels": torch.zeros(3).long()}, "11 rows in train/labels .* as in train/enc.*got 3"),
    ({"train/encoder": torch.zeros(N)}, r"\[N, d\] floats, got torch.float32 \(11,\)"),
    ({"train/encoder": torch.zeros(N, 0)}, r"not empty, got \(11, 0\)"),
    ({"encoder": torch.ones(N, D)}, "one train/encoder in .* another"),
    ({"extra/encoder": torch.ones(N, D)}, "SPLIT in train, val, test, got 'extra/encoder'"),
    ({"train/": torch.ones(N, D)}, "got 'train/'"),
    ({"train/labels": torch.full((N,), -1)}, r"in \[0, 4194304\), got -1 at row 0"),
    ({"test/labels": torch.tensor([0, 1, 2, 2**62, 1])}, r"got 4611686018427387904 at row 3"),
]


def test_layout_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "b.safetensors"
    for change, message in READ + REFUSED:
        given = arrays() | change
        with pytest.raises(ValueError, match=message):
            write_store(tmp_path / "a.safetensors", given)
        save_file(given, path)
        if message in [text for _, text in READ]:
            FeatureStore.open(path).check()
        else:
            with pytest.raises(ValueError, match=message):
                FeatureStore.open(path)


def at_7(rows: torch.Tensor, value: float) -> dict[str, torch.Tensor]:
    return {"train/projection": rows.index_fill(0, torch.tensor([7, 10]), value)}


def test_invalid_arrays_and_metadata_are_not_written(tmp_path: Path) -> None:
    path, rows = tmp_path / "a.safetensors", arrays()["train/projection"]
    for name, given, metadata, message in (
        (path, at_7(rows, float("-inf")), {}, "projection of .* finite, got -inf in row 7"),
        (path, at_7(rows, 0), {}, "without zero vectors, got 2 of 11 rows, the first in row 7"),
        (path, arrays(), {"num_classes": 3}, r"labels of .* in \[0, 3\), got 3 at row 3"),
        (path, arrays(), {"num_classes": "4"}, "num_classes of .* to be an integer"),
        (path, arrays(), {"num_classes": 10**12}, "num_classes of .* to be an integer"),
        (path, arrays(), {"a": {1, 2}}, "metadata of .* as JSON"),
        (path, arrays(), {"a": float("nan")}, "metadata of .* as JSON"),
        (tmp_path / "a.npz", arrays(), {}, r"ends in \.safetensors, got .*a\.npz"),
        (path, {}, {}, "expected arrays such as .* got none"),
        (path, {"x": np.array([["a"]])}, {}, r"x of .* to be numbers, got <U1 \(1, 1\)"),
    ):
        with pytest.raises(ValueError, match=message):
            write_store(name, given, metadata)
    assert not list(tmp_path.iterdir())
