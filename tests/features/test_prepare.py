"""Stores made ready for analysis."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from embedding_files import NAMES, ORDER, M, N, T, X, Y, Z, opened
from resultant.features.prepare import check_features, prepare
from resultant.features.store import FeatureStore

TRAIN, TEST = {"X_train": X, "y_train": Y}, {"X_test": Z, "y_test": T}


def test_names_of_classes(tmp_path: Path) -> None:
    result = opened(tmp_path, X=X, y=Y, class_names=NAMES)
    assert prepare(result).names == tuple(NAMES) and not result.left_out
    # Names of the file's own labels are not names of others.
    result = opened(tmp_path, X=X, labels=Y // 2, kind=Y, class_names=NAMES[:3])
    assert prepare(result).names == tuple(NAMES[:3])
    result = FeatureStore.open(tmp_path / "a.npz", labels="kind")
    assert prepare(result).names == ("0", "1", "2", "3", "4")


def test_classes_of_a_single_row_are_left_out(tmp_path: Path) -> None:
    """With their rows of the test, and no others."""
    names = np.array([*NAMES, "yak", "zebu"])
    y, t = Y.copy(), T.copy()
    y[[3, 9]], t[[2, 4, 6]] = (5, 6), 5
    prepared = prepare(opened(tmp_path, X_train=X, y_train=names[y], X_test=Z, y_test=names[t]))
    result = prepared.store
    assert prepared.names == tuple(sorted(NAMES)) and result.num_classes == 5
    text = "2 classes have a single training row, left out with 3 test rows"
    assert f"{text}: yak, zebu." in prepared.notes
    rows = {"train": (X[y < 5], ORDER[y[y < 5]]), "test": (Z[t < 5], ORDER[t[t < 5]])}
    for split, (x, labels) in rows.items():
        assert (result[f"{split}/X"].numpy() == x).all()
        assert (result[f"{split}/labels"].numpy() == labels).all()


def test_classes_of_the_test_only(tmp_path: Path) -> None:
    known = Y != 3
    result = opened(tmp_path, X=X[known], y=NAMES[Y[known]], X_test=Z, y_test=NAMES[T])
    with pytest.raises(ValueError, match=r"got class 1 \('dog'\) at row 1; --skip-unknown-classes"):
        prepare(result)
    kept = prepare(result, skip_unknown=True)
    assert len(kept.store["test/labels"]) == int((T != 3).sum())
    number = int((T == 3).sum())
    assert any(n.startswith(f"{number} row") and "left out of test" in n for n in kept.notes)


def test_splits_and_features(tmp_path: Path) -> None:
    """A split val chooses settings if it has all features; labels may have gaps."""
    val = {"X_val": X, "y_val": Y}
    prepared = prepare(opened(tmp_path, **TRAIN, **TEST, **val))
    assert prepared.val == "val" and prepared.arrays == ["train/X", "test/X", "val/X"]
    prepared = prepare(opened(tmp_path, **TRAIN, **TEST, **val, **{"train/b": X, "test/b": Z}))
    assert prepared.val is None and any("lacks features of test" in n for n in prepared.notes)
    prepared = prepare(opened(tmp_path, **TRAIN, **val, **{"train/b": X}))
    assert (prepared.test, prepared.features) == ("val", ("X",))
    assert any(note.startswith("b has no rows in val") for note in prepared.notes)
    labels = {"y_train": 2 * Y, "y_test": np.where(T == 1, 0, 2 * T)}
    prepared = prepare(opened(tmp_path, X_train=X, X_test=Z, **labels))
    assert prepared.names == ("0", "2", "4", "6", "8")
    assert "4 labels below 8 have no rows." in prepared.notes
    assert "1 class has no held-out row: 2." in prepared.notes


ONE = np.zeros(N, int)
# Arrays, rows of unknown classes, and the fact that the message states.
REFUSALS: list[tuple[dict[str, np.ndarray], bool, str]] = [
    ({"X_val": X, "y_val": Y, **TEST}, False, "expected a split train in .* got"),
    ({"train/a": X, "train/y": Y, "test/b": Z, "test/y": T}, False, "features of one name in"),
    ({"X": X[:, :1], "y": Y, "X_test": Z[:, :1], "y_test": T}, False, "of dimension 2 or more"),
    ({**TRAIN, "X_test": Z[:, :4], "y_test": T}, False, "of dimension 6, as in train/X, got 4"),
    ({"X": X, "y": ONE}, False, "two classes or more .* got 1 class, 0 of a single row"),
    ({"X": X[:5], "y": Y[:5]}, False, "two rows or more in .* got 5 classes, 5 of a single row"),
    ({"X": X, "kind": Y}, False, "train/labels in .* got train/X, kind; name them with --labels"),
    ({**TRAIN, "y_test": T}, False, "expected features of test in"),
    ({"X": X, "y": Y, "class_names": NAMES[:3]}, False, "a list of 5 names or more, got 3$"),
    ({"X": X[Y != 3], "y": Y[Y != 3], "X_test": Z[T == 3], "y_test": T[T == 3]}, True,
     "rows of classes that train has in test of .* got none"),
    ({"X": X, "y": np.where(np.arange(N) == 3, 5, Y), "X_test": Z, "y_test": np.full(M, 5)}, False,
     "of 2 rows or more in train in test of .* none"),
    ({"X": X[:10], "y": Y[:10]}, False, "3 rows or more in some class, got 2 at the most in"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(REFUSALS)))
def test_stores_that_cannot_be_analysed(case: int, tmp_path: Path) -> None:
    arrays, skip_unknown, message = REFUSALS[case]
    with pytest.raises(ValueError, match=message):
        prepare(opened(tmp_path, **arrays), skip_unknown=skip_unknown)


def test_zero_rows_are_left_out(tmp_path: Path) -> None:
    x = X.copy()
    x[[3, 5]] = 0
    prepared = prepare(opened(tmp_path, X=x, y=Y), drop_zeros=True)
    assert any(note.startswith("2 rows of zero vectors") for note in prepared.notes)
    check_features(prepared)
    with pytest.raises(ValueError, match=r"train of .* not all zero, got zero vectors"):
        prepare(opened(tmp_path, X=0 * X, y=Y), drop_zeros=True)
