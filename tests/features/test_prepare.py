"""Stores made ready for analysis."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from embedding_files import NAMES, ORDER, M, N, T, X, Y, Z, opened
from resultant._core.hold_out import held_out_rows
from resultant.features.prepare import check_features, prepare
from resultant.features.store import FeatureStore


def test_names_of_classes(tmp_path: Path) -> None:
    result = opened(tmp_path, X=X, y=Y, class_names=NAMES)
    assert prepare(result).names == tuple(NAMES) and not result.left_out
    with pytest.raises(ValueError, match=r"class_names of .* a list of 5 names or more, got 3$"):
        prepare(opened(tmp_path, X=X, y=Y, class_names=NAMES[:3]))
    arrays = {"X": torch.from_numpy(X), "y": torch.from_numpy(Y)}
    with pytest.raises(ValueError, match=r"class_names of file to be a list of 5 .* got dict$"):
        prepare(
            FeatureStore("file", {"X": arrays["X"], "labels": arrays["y"]}, {"class_names": {}})
        )
    # Those of the file's own labels are not those of others.
    result = opened(tmp_path, X=X, labels=Y // 2, kind=Y, class_names=NAMES[:3])
    assert prepare(result).names == tuple(NAMES[:3])
    result = FeatureStore.open(tmp_path / "a.npz", labels="kind")
    assert prepare(result).names == ("0", "1", "2", "3", "4")


@pytest.mark.parametrize("divided", [False, True])
def test_classes_of_a_single_row_are_left_out(divided: bool, tmp_path: Path) -> None:
    """With their rows of the test, and no others."""
    names = np.array([*NAMES, "yak", "zebu"])
    y, t = Y.copy(), T.copy()
    y[[3, 9]], t[[2, 4, 6]] = (5, 6), 5
    arrays = {"X_train": X, "y_train": names[y]}
    arrays |= {} if divided else {"X_test": Z, "y_test": names[t]}
    prepared = prepare(opened(tmp_path, **arrays))
    result = prepared.store
    assert prepared.names == tuple(sorted(NAMES)) and result.num_classes == 5
    lost = "0" if divided else "3"
    text = f"2 classes have a single training row and are left out with their {lost} test rows"
    assert f"{text}: yak, zebu." in prepared.notes
    rows = {"train": (X[y < 5], ORDER[y[y < 5]]), "test": (Z[t < 5], ORDER[t[t < 5]])}
    if divided:
        parts = ["train", "test"]
        x = torch.cat([result[f"{s}/X"] for s in parts]).numpy()
        labels = torch.cat([result[f"{s}/labels"] for s in parts]).numpy()
        given = {tuple(a): c for a, c in zip(*rows["train"], strict=True)}
        assert {tuple(a): c for a, c in zip(x, labels, strict=True)} == given
        return
    for split, (x, labels) in rows.items():
        assert (result[f"{split}/X"].numpy() == x).all()
        assert (result[f"{split}/labels"].numpy() == labels).all()


def test_a_test_split_of_single_rows_only_is_refused(tmp_path: Path) -> None:
    y = np.where(np.arange(N) == 3, 5, Y)
    result = opened(tmp_path, X_train=X, y_train=y, X_test=Z, y_test=np.full(M, 5))
    with pytest.raises(ValueError, match=r"of 2 rows or more in train in test of .* none"):
        prepare(result)


@pytest.mark.parametrize("row", range(0, N, 9))
@pytest.mark.parametrize("split", ["", "train_"])
def test_a_bad_row_is_named_as_in_the_file(row: int, split: str, tmp_path: Path) -> None:
    """The row number is that of the file, for rows that are fitted and rows that are held out."""
    x = X.copy()
    x[row] = np.nan
    prepared = prepare(opened(tmp_path, **{f"{split}X": x, f"{split}y": Y}))
    with pytest.raises(
        ValueError, match=rf"^expected {split}X of .* finite, got nan in row {row}$"
    ):
        check_features(prepared, lambda *_: None)


def test_classes_of_the_test_only_are_named(tmp_path: Path) -> None:
    known = Y != 3
    result = opened(tmp_path, X=X[known], y=NAMES[Y[known]], X_test=Z, y_test=NAMES[T])
    with pytest.raises(ValueError, match=r"got class 1 \('dog'\) at row 1; --skip-unknown-classes"):
        prepare(result)
    other = opened(tmp_path, X=X[known], y=Y[known], X_test=Z[T == 3], y_test=T[T == 3])
    with pytest.raises(ValueError, match=r"rows of classes that train has in test of .* got none"):
        prepare(other, skip_unknown=True)
    kept = prepare(result, skip_unknown=True)
    assert len(kept.store["test/labels"]) == int((T != 3).sum())
    number = int((T == 3).sum())
    assert any(n.startswith(f"{number} row") and "left out of test" in n for n in kept.notes)


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({"X_val": X, "y_val": Y, "X_test": Z, "y_test": T}, "expected a split train in .* got"),
        ({"train/a": X, "train/y": Y, "test/b": Z, "test/y": T}, "features of one name in train"),
        ({"X_train": X[:, :1], "y_train": Y, "X_test": Z[:, :1], "y_test": T}, "of dimension 2 or"),
    ],
)
def test_splits_that_do_not_fit(arrays: dict[str, np.ndarray], match: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=match):
        prepare(opened(tmp_path, **arrays))


def test_features_of_train_only_are_left_out(tmp_path: Path) -> None:
    arrays = {"train/a": X, "train/b": X, "train/y": Y, "test/a": Z, "test/y": T}
    prepared = prepare(opened(tmp_path, **arrays))
    assert prepared.features == ("a",) and any("b" in note.split() for note in prepared.notes)


def test_one_split_is_divided() -> None:
    x, y = torch.arange(55.0)[:, None] + 1, torch.arange(55) % 4
    store = FeatureStore("memory", {"val/z": x.expand(-1, 3).clone(), "val/labels": y})
    result = prepare(store).store
    assert result.splits == ("test", "train") and result.called["test/z"] == "val/z"
    held = held_out_rows(y, 0.2)
    for split, rows in (("train", ~held), ("test", held)):
        assert torch.equal(result[f"{split}/z"][:, 0], x[rows, 0])
        assert torch.equal(result[f"{split}/labels"], y[rows])
    pairs = FeatureStore("memory", {"z": x[:12].clone(), "labels": torch.arange(12) // 2})
    rule = "expected 3 rows or more in some class, got 2 at the most in memory; or give a test"
    with pytest.raises(ValueError, match=rule):
        prepare(pairs)
