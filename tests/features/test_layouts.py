"""Embedding files as others lay them out: names, features and arrays that are neither."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from embedding_files import NAMES, ORDER, D, M, N, Save, T, X, Y, Z, opened, write_parquet
from resultant._core import chunks
from resultant.features import naming
from resultant.features.naming import split_of
from resultant.features.numpy_files import map_npz
from resultant.features.partition import open_store
from resultant.features.prepare import check_features, prepare
from resultant.features.rows import MappedRows, MemoryRows
from resultant.features.store import FeatureStore


@pytest.mark.parametrize(
    "name",
    [
        *("{1}/{0}", "{1}_{0}", "{1}.{0}", "{1}-{0}", "{0}_{1}", "{0}.{1}", "{0}/{1}"),
        *("{2}_{0}", "{0}_{2}"),
    ],
)
@pytest.mark.parametrize(("x", "y"), [("X", "y"), ("features", "labels"), ("emb", "Target")])
@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_splits_in_names(name: str, x: str, y: str, kind: str, tmp_path: Path) -> None:
    given = {
        name.format(what, split, split.upper()): array
        for split, (a, b) in {"train": (X, Y), "test": (Z, T)}.items()
        for what, array in ((x, a), (y, b))
    }
    path = tmp_path / f"a.{kind}"
    if kind == "npz":
        np.savez(path, **given)
    else:
        save_file({n: torch.from_numpy(a.copy()) for n, a in given.items()}, path)
    found = FeatureStore.open(path)
    assert sorted(found) == sorted([f"test/{x}", "test/labels", f"train/{x}", "train/labels"])
    for split, (a, b) in {"train": (X, Y), "test": (Z, T)}.items():
        assert (found[f"{split}/{x}"].numpy() == a).all()
        assert (found[f"{split}/labels"].numpy() == b).all()
    # A name is known by which it stands in the file.
    asked = FeatureStore.open(path, features=name.format(x, "train", "TRAIN"))
    assert asked.features == (f"test/{x}", f"train/{x}")


def test_full_names() -> None:
    for given, name in {
        "x": "val/x",
        "validation_x": "val/x",
        "x_valid": "val/x",
        "train/x_test": "train/x_test",
        "testimony": "val/testimony",
        "latest": "val/latest",
        "encoder.layer4": "val/encoder.layer4",
        "train_": "val/train_",
        "other/x": "other/x",
    }.items():
        assert naming.full_name(given, "val") == name
        assert naming.full_name(name) == name
    for given, split in {"emb_test-00001-of-2": "test", "Train": "train", "latest": None}.items():
        assert split_of(given) == split


def test_unknown_splits_state_the_rule(tmp_path: Path) -> None:
    rule = r"SPLIT/WHAT, SPLIT_WHAT, SPLIT\.WHAT or WHAT_SPLIT, SPLIT in train, val, test"
    with pytest.raises(ValueError, match=rf"named {rule}, got 'model/features'"):
        opened(tmp_path, **{"model/features": X, "labels": Y})
    with pytest.raises(ValueError, match=rf"15 rows in train/Xtrain .* got 40 \(names are {rule}"):
        opened(tmp_path, Xtrain=X, ytrain=Y, Xtest=Z, ytest=T)


def test_a_file_that_is_called_test_but_names_its_splits(tmp_path: Path) -> None:
    np.savez(tmp_path / "my_test.npz", X=X, y=Y, X_test=Z, y_test=T)
    assert len(FeatureStore.open(tmp_path / "my_test.npz")["train/labels"]) == N
    np.savez(tmp_path / "my_test.npz", X=X, y=Y)
    assert FeatureStore.open(tmp_path / "my_test.npz").splits == ("test",)


@pytest.mark.parametrize("kind", ["npz", "npy", "parquet"])
def test_files_that_end_with_a_split(kind: str, tmp_path: Path) -> None:
    for split, a, b in (("train", X, Y), ("test", Z, T)):
        if kind == "npz":
            np.savez(tmp_path / f"clip_{split}.npz", X=a, y=NAMES[b])
        elif kind == "npy":
            np.save(tmp_path / f"X_{split}.npy", a)
            np.save(tmp_path / f"y_{split}.npy", NAMES[b])
        else:
            write_parquet(tmp_path / f"clip_{split}.parquet", {"X": list(a), "y": NAMES[b]})
    stores = [FeatureStore.open(tmp_path)]
    stores += [open_store(tmp_path)] if kind == "parquet" else []
    for found in stores:
        assert (found["train/X"].numpy() == X).all() and (found["test/X"].numpy() == Z).all()
        assert (found["train/labels"].numpy() == ORDER[Y]).all()
        assert (found["test/labels"].numpy() == ORDER[T]).all()


@pytest.mark.parametrize(
    ("features", "labels"),
    [("X", "y"), ("train_embeddings", "train_targets"), ("X_test", "y_test"), ("clip", "label")],
)
def test_labels_beside_an_npy(features: str, labels: str, tmp_path: Path) -> None:
    path = tmp_path / f"{features}.npy"
    np.save(path, X)
    with pytest.raises(ValueError, match=r"together with one of labels.* alone; give the folder"):
        FeatureStore.open(path)
    np.save(tmp_path / f"{labels}.npy", NAMES[Y])
    found = FeatureStore.open(path)
    (name,) = found.features
    assert (found[name].numpy() == X).all()
    (name,) = (n for n in found if n.endswith("/labels"))
    assert (found[name].numpy() == ORDER[Y]).all()


@pytest.mark.parametrize("kind", ["npz", "npy"])
def test_an_array_that_names_the_split_of_each_row(kind: str, tmp_path: Path) -> None:
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
    found = FeatureStore.open(path)
    assert found.splits == ("test", "train") and sorted(found.left_out) == [
        "paths",
        "scale",
        "when",
    ]
    for split, rows in (("train", ~held), ("test", held)):
        assert (found[f"{split}/X"].numpy() == X[rows]).all()
        assert (found[f"{split}/labels"].numpy() == ORDER[Y[rows]]).all()
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
        found = opened(tmp_path, **both, split=np.where(held, "test", "train"))
        assert (found["train/X"].numpy() == X).all()


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
    found = opened(tmp_path, save, features=X, labels=Y, **others)
    assert set(found) == {"train/features", "train/labels"}
    assert sorted(found.left_out) == sorted(others)
    assert (found["train/features"].numpy() == X).all()
    assert any("Not read: boxes, index, maps" in note for note in prepare(found).notes)
    # They can be asked for, and are then what they are.
    for name, message in (
        ("paths", r"train/paths of .* \[N, d\] floats, got <U5 \(40,\)"),
        ("objects", r"train/objects of .* \[N, d\] floats, got object \(40,\)"),
        ("index", r"train/index of .* \[N, d\] floats, got torch.int64 \(40,\)"),
        ("maps", r"train/maps of .* \[N, d\] floats, got torch.float64 \(40, 2, 2\)"),
    ):
        with pytest.raises(ValueError, match=message):
            FeatureStore.open(tmp_path / "a.npz", features=name)
    boxes = FeatureStore.open(tmp_path / "a.npz", features="boxes")
    assert boxes.features == ("train/boxes",)
    assert FeatureStore.open(tmp_path / "a.npz", labels="paths").num_classes == 1


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "trapped"),)

    np.savez(tmp_path / "a.npz", X=X, y=Y, objects=np.array([Trap()] * N))
    (tmp_path / "d").mkdir()
    for name, array in (("X", X), ("y", Y), ("objects", np.array([Trap()] * N))):
        np.save(tmp_path / "d" / f"{name}.npy", array)
    for path in ("a.npz", "d"):
        found = FeatureStore.open(tmp_path / path)
        prepare(found)
        assert found.left_out == ("objects",)
        for asked in ({"features": "objects"}, {"labels": "objects"}):
            with pytest.raises(ValueError, match=r"got (dtype )?object"):
                FeatureStore.open(tmp_path / path, **asked)
    assert not (tmp_path / "trapped").exists()


def test_nothing_but_others(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"got train/all \(objects, which are never unpickled\)"):
        opened(tmp_path, all=np.array({"X": X, "y": Y}))
    got = r"got train/a \(<U1 \[1\]\), train/b \(torch.float32 \[2, 2, 2\]\)"
    with pytest.raises(ValueError, match=rf"expected features in .*a\.npz, \[N, d\] floats, {got}"):
        opened(tmp_path, a=np.array(["x"]), b=np.ones((2, 2, 2), np.float32), labels=np.arange(2))
    with pytest.raises(ValueError, match=r"train/labels in .* got train/X, kind; name them with"):
        prepare(opened(tmp_path, X=X, kind=Y))


def test_an_array_of_another_length_is_told_from_the_rest(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"expected 40 rows in train/centres .* got 5 .*--features"
    ):
        opened(tmp_path, features=X, labels=Y, centres=X[:5])
    found = FeatureStore.open(tmp_path / "a.npz", features="features")
    assert found.left_out == ("centres",)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed, np.save])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f2", ">f2", ">f4", "<f8", ">f8", "i1", "u1", ">i4", "<i8"])
def test_every_number_and_order(dtype: str, order: Any, save: Save, tmp_path: Path) -> None:
    x = np.array(20 * X, dtype=dtype, order=order)
    x[0, 0] = 100
    if save is np.save:
        np.save(tmp_path / "X.npy", x)
        np.save(tmp_path / "y.npy", Y)
        found = FeatureStore.open(tmp_path)
    else:
        found = opened(tmp_path, save, X=x, y=Y)
    assert (found["train/X"].double().numpy() == x).all()
    assert found.dtype("train/X").is_floating_point
    for rows in (1, 7, N):
        pieces = [piece for _, piece in found.chunks("train/X", rows, zero=True)]
        assert (torch.cat(pieces).double().numpy() == x).all()


def test_converted_features_stay_on_disk(tmp_path: Path, monkeypatch: Any) -> None:
    """Those too large for memory go through a temporary file, a piece at a time."""
    monkeypatch.setattr(chunks, "HELD_BYTES", 100)
    monkeypatch.setattr(chunks, "READ_BYTES", 300)
    for x in (X.astype(">f4"), (20 * X).astype(np.int16), np.asfortranarray(X)):
        found = opened(tmp_path, X=x, y=Y)
        if x.flags.c_contiguous:
            assert found.copied_bytes("train/X") == 4 * N * D
            assert isinstance(found.vectors("train/X"), MappedRows)
        assert (found["train/X"].numpy() == x).all()
    rows = map_npz(tmp_path / "a.npz", keep_open=True)["X"]
    assert isinstance(rows, MemoryRows) and not rows.tensor.is_contiguous()


def test_integers_in_parquet(tmp_path: Path) -> None:
    x = (100 * X).astype(np.int64)
    write_parquet(tmp_path / "a.parquet", {"emb": list(x), "label": Y})
    assert (FeatureStore.open(tmp_path / "a.parquet")["train/emb"].numpy() == x).all()
    write_parquet(tmp_path / "a.parquet", {"emb": list(X), "tokens": list(x), "label": Y})
    assert FeatureStore.open(tmp_path / "a.parquet").features == ("train/emb",)
    columns = {f"f{i}": X[:, 0] for i in range(100)}
    write_parquet(tmp_path / "a.parquet", columns | {"label": Y})
    with pytest.raises(ValueError, match=r"f5 \(float\), \.\.\., f98 .*df\['features'\] = list\(x"):
        FeatureStore.open(tmp_path / "a.parquet")


# What is prepared of them


def test_names_of_classes(tmp_path: Path) -> None:
    found = opened(tmp_path, X=X, y=Y, class_names=NAMES)
    assert prepare(found).names == tuple(NAMES) and not found.left_out
    with pytest.raises(ValueError, match=r"class_names of .* a list of 5 names or more, got 3$"):
        prepare(opened(tmp_path, X=X, y=Y, class_names=NAMES[:3]))
    arrays = {"X": torch.from_numpy(X), "y": torch.from_numpy(Y)}
    with pytest.raises(ValueError, match=r"class_names of file to be a list of 5 .* got dict$"):
        prepare(
            FeatureStore("file", {"X": arrays["X"], "labels": arrays["y"]}, {"class_names": {}})
        )
    # Those of the file's own labels are not those of others.
    found = opened(tmp_path, X=X, labels=Y // 2, kind=Y, class_names=NAMES[:3])
    assert prepare(found).names == tuple(NAMES[:3])
    found = FeatureStore.open(tmp_path / "a.npz", labels="kind")
    assert prepare(found).names == ("0", "1", "2", "3", "4")


@pytest.mark.parametrize("divided", [False, True])
def test_classes_of_a_single_row_are_left_out(divided: bool, tmp_path: Path) -> None:
    """With their rows of the test, and no others."""
    names = np.array([*NAMES, "yak", "zebu"])
    y, t = Y.copy(), T.copy()
    y[[3, 9]], t[[2, 4, 6]] = (5, 6), 5
    arrays = {"X_train": X, "y_train": names[y]}
    arrays |= {} if divided else {"X_test": Z, "y_test": names[t]}
    prepared = prepare(opened(tmp_path, **arrays))
    found = prepared.store
    assert prepared.names == tuple(sorted(NAMES)) and found.num_classes == 5
    lost = "0" if divided else "3"
    said = f"2 classes have a single training row and are left out with their {lost} test rows"
    assert f"{said}: yak, zebu." in prepared.notes
    rows = {"train": (X[y < 5], ORDER[y[y < 5]]), "test": (Z[t < 5], ORDER[t[t < 5]])}
    if divided:
        parts = ["train", "test"]
        x = torch.cat([found[f"{s}/X"] for s in parts]).numpy()
        labels = torch.cat([found[f"{s}/labels"] for s in parts]).numpy()
        given = {tuple(a): c for a, c in zip(*rows["train"], strict=True)}
        assert {tuple(a): c for a, c in zip(x, labels, strict=True)} == given
        return
    for split, (x, labels) in rows.items():
        assert (found[f"{split}/X"].numpy() == x).all()
        assert (found[f"{split}/labels"].numpy() == labels).all()


def test_a_test_of_single_classes_alone(tmp_path: Path) -> None:
    y = np.where(np.arange(N) == 3, 5, Y)
    found = opened(tmp_path, X_train=X, y_train=y, X_test=Z, y_test=np.full(M, 5))
    with pytest.raises(ValueError, match=r"2 rows or more in train of a class of test .* none"):
        prepare(found)


@pytest.mark.parametrize("row", range(0, N, 9))
@pytest.mark.parametrize("split", ["", "train_"])
def test_a_bad_row_is_told_by_the_name_in_the_file(row: int, split: str, tmp_path: Path) -> None:
    """Whether it is fitted or held out."""
    x = X.copy()
    x[row] = np.nan
    prepared = prepare(opened(tmp_path, **{f"{split}X": x, f"{split}y": Y}))
    with pytest.raises(
        ValueError, match=rf"^expected {split}X of .* finite, got nan in row {row}$"
    ):
        check_features(prepared, lambda *_: None)
