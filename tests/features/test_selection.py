"""Features and labels among the arrays of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedding_files import NAMES, ORDER, N, Save, T, X, Y, Z, opened
from resultant.features.prepare import prepare
from resultant.features.store import FeatureStore


@pytest.mark.parametrize("name", ["label", "targets", "y"])
def test_labels_of_usual_names(name: str, tmp_path: Path) -> None:
    x, y = np.ones((11, 6)), np.arange(11) % 3
    given: dict[str, Any] = {"X": x, "test_X": x, name: y, f"test_{name}": y}
    np.savez(tmp_path / "a.npz", **given)
    result = FeatureStore.open(tmp_path / "a.npz")
    assert sorted(result) == ["test/X", "test/labels", "train/X", "train/labels"]
    assert FeatureStore.open(tmp_path / "a.npz", features="X").num_classes == 3
    # What is called labels is meant.
    given = {"labels": y, name: x}
    np.savez(tmp_path / "b.npz", **given)
    assert set(FeatureStore.open(tmp_path / "b.npz")) == {"train/labels", f"train/{name}"}


@pytest.mark.parametrize("kind", ["npz", "npy"])
def test_an_array_with_the_split_of_each_row(kind: str, tmp_path: Path) -> None:
    """As the column of Parquet does."""
    held = np.arange(N) % 3 == 0
    paths = np.array([str(i) for i in range(N)])
    arrays = {"X": X, "y": NAMES[Y][:, None], "split": np.where(held, "test", "train")}
    arrays |= {"paths": paths}
    arrays |= {"class_names": NAMES, "scale": np.float32(3), "when": np.zeros(N, "M8[s]")}
    path = tmp_path / ("a.npz" if kind == "npz" else "")
    if kind == "npz":
        np.savez(path, **arrays)
    else:
        for name, array in arrays.items():
            np.save(path / f"{name}.npy", array)
    result = FeatureStore.open(path)
    assert result.splits == ("test", "train") and sorted(result.left_out) == [
        "paths",
        "scale",
        "when",
    ]
    for split, rows in (("train", ~held), ("test", held)):
        assert (result[f"{split}/X"].numpy() == X[rows]).all()
        assert (result[f"{split}/labels"].numpy() == ORDER[Y[rows]]).all()
    by_path = FeatureStore.open(path, labels="paths")
    assert by_path.num_classes == N
    assert by_path["test/labels"].tolist() == held.nonzero()[0].tolist()
    assert FeatureStore.open(path, labels="split").splits == ("train",)
    if kind == "npz":
        with pytest.raises(ValueError, match=r"splits in split of .* got: the split 'dev', none"):
            opened(tmp_path, X=X, y=Y, split=np.where(held, "dev", "train"))
        # Integers are no names, and splits that are named already stay.
        assert opened(tmp_path, X=X, y=Y, split=Y).splits == ("train",)
        both = {"X_train": X, "y_train": Y, "X_test": Z, "y_test": T}
        result = opened(tmp_path, **both, split=np.where(held, "test", "train"))
        assert (result["train/X"].numpy() == X).all()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_other_arrays_are_left_out(save: Save, tmp_path: Path) -> None:
    others = {
        "paths": np.array(["a.jpg"] * N),
        "objects": np.array([{}] * N, dtype=object),
        "records": np.zeros(N, [("a", "f4"), ("b", "i4")]),
        "when": np.zeros(N, "M8[s]"),
        "index": np.arange(N),
        "weight": np.ones(N),
        "score": np.ones((N, 1)),
        "scale": np.float32(3),
        "boxes": np.ones((N, 4), int),
        "maps": np.ones((N, 2, 2)),
    }
    result = opened(tmp_path, save, features=X, labels=Y, **others)
    assert set(result) == {"train/features", "train/labels"}
    assert sorted(result.left_out) == sorted(others)
    assert (result["train/features"].numpy() == X).all()
    assert any("Not read: boxes, index, maps" in note for note in prepare(result).notes)
    # They can be asked for, and are then what they are.
    for name, message in (
        ("paths", r"paths of .* \[N, d\] floats, got <U5 \(40,\)"),
        ("objects", r"objects of .* \[N, d\] floats, got object \(40,\)"),
        ("index", r"index of .* \[N, d\] floats, got torch.int64 \(40,\)"),
        ("maps", r"maps of .* \[N, d\] floats, got torch.float64 \(40, 2, 2\)"),
    ):
        with pytest.raises(ValueError, match=message):
            FeatureStore.open(tmp_path / "a.npz", features=name)
    boxes = FeatureStore.open(tmp_path / "a.npz", features="boxes")
    assert boxes.features == ("train/boxes",)
    assert FeatureStore.open(tmp_path / "a.npz", labels="paths").num_classes == 1


def test_files_without_features_or_labels(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"got train/all \(objects, which are never unpickled\)"):
        opened(tmp_path, all=np.array({"X": X, "y": Y}))
    got = r"got train/a \(<U1 \[1\]\), train/b \(torch.float32 \[2, 2, 2\]\)"
    with pytest.raises(ValueError, match=rf"features in .*a\.npz, \[N, d\] floats, .* {got}"):
        opened(tmp_path, a=np.array(["x"]), b=np.ones((2, 2, 2), np.float32), labels=np.arange(2))
    with pytest.raises(ValueError, match=r"train/labels in .* got train/X, kind; name them with"):
        prepare(opened(tmp_path, X=X, kind=Y))


def test_an_array_of_another_length_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"expected 40 rows in train/centres .* got 5 .*--features"
    ):
        opened(tmp_path, features=X, labels=Y, centres=X[:5])
    result = FeatureStore.open(tmp_path / "a.npz", features="features")
    assert result.left_out == ("centres",)
