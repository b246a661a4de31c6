"""The feature store: what is written is read, in pieces too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from resultant._core import chunks
from resultant.features.store import FeatureStore, write_store
from resultant.features.subsets import held_out
from small_store import D, N, P, arrays

METADATA = {"num_classes": 4, "network": "resnet32", "epochs": [1, 2], "nested": {"tau": 0.1}}


def test_round_trip(tmp_path: Path) -> None:
    path, given = tmp_path / "a.safetensors", arrays()
    write_store(path, given, METADATA)
    found = FeatureStore.open(path)
    assert set(found) == set(given) and found.metadata == METADATA
    for name, array in given.items():
        assert torch.equal(found[name], array.long() if "labels" in name else array)
        assert name in found
    assert found["test/encoder"].dtype == torch.bfloat16
    assert found["test/labels"].dtype == torch.int64
    assert found.splits == ("test", "train") and found.num_classes == 4
    assert found.features == ("test/encoder", "train/encoder", "train/projection")
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]
    with pytest.raises(KeyError, match=r"expected one of test/encoder.*got 'train/nothing'"):
        found["train/nothing"]


def test_mapped_features_never_reach_the_file(tmp_path: Path) -> None:
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
    found = FeatureStore.open(tmp_path / "a.safetensors")
    assert all(torch.equal(found[n], a) for n, a in given.items())


@pytest.mark.parametrize("rows", [1, 4, N, 100, None])
def test_chunks_cover_all_rows_once(rows: int | None, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(chunks, "READ_BYTES", 3 * 8 * P)
    write_store(tmp_path / "a.safetensors", arrays())
    found = FeatureStore.open(tmp_path / "a.safetensors")
    for name in ("train/projection", "train/labels"):
        pieces = list(found.chunks(name, rows))
        assert torch.equal(torch.cat([piece for _, piece in pieces]), found[name])
        assert [i for s, _ in pieces for i in range(s.start, s.stop)] == list(range(N))
    if rows is None:
        assert [len(piece) for _, piece in found.chunks("train/projection")] == [3, 3, 3, 2]
    with pytest.raises(ValueError, match="rows >= 1, got 0"):
        next(found.chunks("train/labels", 0))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "projection of .* finite, got nan in row 7"),
        (float("-inf"), "projection of .* finite, got -inf in row 7"),
        (0.0, "projection of .* without zero vectors, got one in row 7"),
    ],
)
@pytest.mark.parametrize("rows", [1, 3, 100])
def test_bad_vectors_are_found_with_their_row(
    value: float, message: str, rows: int, tmp_path: Path
) -> None:
    given = arrays()
    given["train/projection"][7] = value
    with pytest.raises(ValueError, match=message):
        write_store(tmp_path / "a.safetensors", given)
    assert not list(tmp_path.iterdir())
    save_file(given, tmp_path / "a.safetensors")
    found = FeatureStore.open(tmp_path / "a.safetensors")
    with pytest.raises(ValueError, match=message):
        list(found.chunks("train/projection", rows))
    with pytest.raises(ValueError, match=message):
        found.check()
    if value == 0:
        found.check(zero=True)


def test_gaps_and_counts(tmp_path: Path) -> None:
    given = {"features": torch.ones(5, 2), "labels": torch.tensor([0, 4, 4, 2, 0])}
    given["test_features"], given["test_labels"] = torch.ones(1, 2), torch.tensor([5])
    write_store(tmp_path / "a.safetensors", given)
    found = FeatureStore.open(tmp_path / "a.safetensors")
    assert set(found) == {"train/features", "train/labels", "test/features", "test/labels"}
    assert found.num_classes == 6
    assert found.label_counts().tolist() == [2, 0, 1, 0, 2, 0]
    assert found.label_gaps() == [1, 3, 5] and found.label_gaps("test") == [0, 1, 2, 3, 4]
    write_store(tmp_path / "a.safetensors", given, {"num_classes": 8})
    assert FeatureStore.open(tmp_path / "a.safetensors").label_gaps() == [1, 3, 5, 6, 7]


# What others write, and a store does not: see test_layouts.
OTHERS = [
    ({"train/labels": torch.zeros(N)}, r"train/labels .* \[N\] integers, got torch.float32"),
    ({"train/labels": torch.zeros(N, 1).long()}, r"\[N\] integers, got torch.int64 \(11, 1\)"),
    ({"train/encoder": torch.ones(N, D).long()}, r"\[N, d\] floats, got torch.int64"),
]

LAYOUTS = [
    ({"train/labels": torch.zeros(N, 2).long()}, r"\[N\] integers, got torch.int64 \(11, 2\)"),
    ({"train/labels": torch.zeros(3).long()}, "11 rows in train/labels .* as in train/enc.*got 3"),
    ({"train/identities": torch.zeros(N).bool()}, r"\[N\] integers, got torch.bool"),
    ({"train/encoder": torch.zeros(N)}, r"\[N, d\] floats, got torch.float32 \(11,\)"),
    ({"train/encoder": torch.zeros(N, 0)}, r"not empty, got \(11, 0\)"),
    ({"encoder": torch.ones(N, D)}, "one train/encoder in .* another"),
    ({"extra/encoder": torch.ones(N, D)}, "SPLIT in train, val, test, got 'extra/encoder'"),
    ({"train/": torch.ones(N, D)}, "got 'train/'"),
    ({"train/labels": torch.full((N,), -1)}, r"in \[0, 4194304\), got -1 at row 0"),
    ({"test/labels": torch.tensor([0, 1, 2, 2**62, 1])}, r"got 4611686018427387904 at row 3"),
]


@pytest.mark.parametrize(("change", "message"), OTHERS)
def test_what_is_read_but_not_written(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        write_store(tmp_path / "a.safetensors", arrays() | change)
    save_file(arrays() | change, tmp_path / "b.safetensors")
    FeatureStore.open(tmp_path / "b.safetensors").check()


@pytest.mark.parametrize(("change", "message"), LAYOUTS)
def test_layout_is_checked(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    given = arrays() | change
    with pytest.raises(ValueError, match=message):
        write_store(tmp_path / "a.safetensors", given)
    save_file(given, tmp_path / "b.safetensors")
    with pytest.raises(ValueError, match=message) as caught:
        FeatureStore.open(tmp_path / "b.safetensors")
    assert str(tmp_path / "b.safetensors") in str(caught.value)


def test_write_refuses(tmp_path: Path) -> None:
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


def test_held_out(tmp_path: Path) -> None:
    counts = [2, 3, 10, 40]
    y = torch.arange(4).repeat_interleave(torch.tensor(counts))[torch.randperm(55)]
    x = torch.arange(55.0)[:, None] + 1
    whole = FeatureStore("memory", {"train/z": x.expand(-1, 3).clone(), "train/labels": y})
    found = held_out(whole, 0.2, seed=3)
    assert found.label_counts("test").tolist() == [0, 1, 2, 8]
    assert found.label_counts().tolist() == [2, 2, 8, 32]
    rows = torch.cat([found["train/z"][:, 0], found["test/z"][:, 0]])
    assert torch.equal(rows.sort().values, x[:, 0])
    for split in ("train", "test"):
        assert torch.equal(y[found[f"{split}/z"][:, 0].long() - 1], found[f"{split}/labels"])
    again, other = held_out(whole, 0.2, seed=3), held_out(whole, 0.2, seed=4)
    assert torch.equal(again["test/z"], found["test/z"])
    assert not torch.equal(other["test/z"], found["test/z"])
    with pytest.raises(ValueError, match="to have one split"):
        held_out(found)
    # The number that would do is told, and does.
    two = FeatureStore("memory", {"train/z": x[:12].clone(), "train/labels": torch.arange(12) // 2})
    for share, least in ((0.2, 3), (0.1, 6)):
        rule = f"expected {least} rows or more in some class of memory, or a test split, got 2 at"
        with pytest.raises(ValueError, match=rule):
            held_out(two, share)
        y = torch.arange(12).clamp(max=12 - least)
        store = FeatureStore("memory", {"train/z": x[:12].clone(), "train/labels": y})
        assert held_out(store, share).label_counts("test").sum() == 1
