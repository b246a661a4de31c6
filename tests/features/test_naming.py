"""Splits in names of files and arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from embedding_files import N, T, X, Y, Z, opened
from resultant.features import naming
from resultant.features.naming import split_of
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
    result = FeatureStore.open(path)
    assert sorted(result) == sorted([f"test/{x}", "test/labels", f"train/{x}", "train/labels"])
    for split, (a, b) in {"train": (X, Y), "test": (Z, T)}.items():
        assert (result[f"{split}/{x}"].numpy() == a).all()
        assert (result[f"{split}/labels"].numpy() == b).all()
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


def test_errors_state_the_rule_for_names(tmp_path: Path) -> None:
    rule = r"SPLIT/WHAT, SPLIT_WHAT, SPLIT\.WHAT or WHAT_SPLIT, SPLIT in train, val, test"
    with pytest.raises(ValueError, match=rf"named {rule}, got 'model/features'"):
        opened(tmp_path, **{"model/features": X, "labels": Y})
    with pytest.raises(ValueError, match=rf"15 rows in train/Xtrain .* got 40 \(names are {rule}"):
        opened(tmp_path, Xtrain=X, ytrain=Y, Xtest=Z, ytest=T)


def test_splits_in_array_names_precede_the_file_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "my_test.npz", X=X, y=Y, X_test=Z, y_test=T)
    assert len(FeatureStore.open(tmp_path / "my_test.npz")["train/labels"]) == N
    np.savez(tmp_path / "my_test.npz", X=X, y=Y)
    assert FeatureStore.open(tmp_path / "my_test.npz").splits == ("test",)
