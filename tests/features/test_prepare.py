"""Stores made ready for analysis: held-out rows, classes and labels, with notes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from resultant.features.prepare import prepare
from resultant.features.store import FeatureStore
from small_features import COUNTS, HELD_OUT, small_features


def test_one_split_is_divided(tmp_path: Path) -> None:
    arrays = small_features()
    both = {n: torch.cat([arrays[f"train/{n}"], arrays[f"test/{n}"]]) for n in
            ("labels", "projection")}  # fmt: skip
    prepared = prepare(FeatureStore("file", both))
    counts = torch.tensor(COUNTS) + HELD_OUT
    assert prepared.store.label_counts("test").tolist() == (0.2 * counts).round().tolist()
    assert "a fifth" in prepared.notes[0] and "seed 0" in prepared.notes[0]


def test_gaps_are_left_out() -> None:
    arrays = small_features()
    for split in ("train", "test"):
        arrays[f"{split}/labels"] = 2 * arrays[f"{split}/labels"] + 1
    prepared = prepare(FeatureStore("file", arrays, {"num_classes": 20}))
    assert prepared.store.num_classes == 6
    assert prepared.names == ("1", "3", "5", "7", "9", "11")
    assert "6 labels below 11 have no rows" in prepared.notes[0]


def test_file_of_the_labels(tmp_path: Path) -> None:
    arrays, folder = small_features(), tmp_path / "f"
    y = arrays["train/labels"].numpy()
    folder.mkdir()
    np.save(folder / "other.npy", arrays["train/projection"].numpy())
    np.save(folder / "labels.npy", y)
    other = prepare(FeatureStore.open(folder / "other.npy"))
    assert other.notes[0] == f"The labels are those of {folder}/labels.npy."
    # A file of labels with the name of the features goes first.
    np.save(folder / "other_labels.npy", np.roll(y, 1))
    own = FeatureStore.open(folder / "other.npy")
    assert own["train/labels"].tolist() == np.roll(y, 1).tolist()
    assert prepare(own).notes[0] == f"The labels are those of {folder}/other_labels.npy."
    for name in ("labels", "labels.npy"):
        chosen = FeatureStore.open(folder / "other.npy", labels=name)
        assert chosen.label_files == (f"{folder}/labels.npy",)
        assert chosen["train/labels"].tolist() == y.tolist()
    with pytest.raises(ValueError, match=f"such as {folder}/none.npy, got it alone"):
        FeatureStore.open(folder / "other.npy", labels="none")
    whole = prepare(FeatureStore.open(folder))
    assert whole.notes[0] == f"The labels are those of {folder}/labels.npy."
    assert whole.notes[-1] == "Not read: other_labels."
    named = FeatureStore.open(folder, labels="other_labels")
    assert named.label_files == (f"{folder}/other_labels.npy",)


def test_labels_in_the_file_of_the_features_need_no_note(tmp_path: Path) -> None:
    np.savez(tmp_path / "z.npz", **{n: a.numpy() for n, a in small_features().items()})  # type: ignore[arg-type]
    store = FeatureStore.open(tmp_path / "z.npz")
    assert store.label_files == () and prepare(store).notes == ()


@pytest.mark.parametrize(("label", "numbers"), [(10**15, [1, 0]), (-1, [0, 1])])
def test_labels_that_are_no_counts(tmp_path: Path, label: int, numbers: list[int]) -> None:
    """They are refused with advice, and the advice works."""
    z = torch.randn(8, 4).numpy()
    odd = np.repeat([label, 3], 4)
    np.savez(tmp_path / "z.npz", features=z, labels=odd)
    rule = rf"in \[0, 4194304\), got {label} at row 0; .*can be stored as strings$"
    with pytest.raises(ValueError, match=rule):
        FeatureStore.open(tmp_path / "z.npz")
    np.savez(tmp_path / "z.npz", features=z, labels=odd.astype(str))
    found = FeatureStore.open(tmp_path / "z.npz")["train/labels"].tolist()
    assert found == [numbers[0]] * 4 + [numbers[1]] * 4


@pytest.mark.parametrize("kind", [".npz", ".npy", ".safetensors", ".parquet", ""])
def test_no_such_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"none{kind}"
    with pytest.raises(ValueError, match=f"^expected {path} to exist, got no such file$"):
        FeatureStore.open(path)
