"""Features, labels and identities among the arrays of files, and stores ready for analysis."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from embedding_files import HELD, NAMES, ORDER, SPLIT, M, N, T, X, Y, Z, opened, refused
from resultant.features import FeatureStore, match_rows, naming
from resultant.features.prepare import check_features, prepare


@pytest.mark.parametrize("dtype", ["U", "S"])
def test_strings_are_numbered_over_all_splits(dtype: str, tmp_path: Path) -> None:
    """One number per name in all splits, though the test lacks the first of them."""
    some = T != 1
    y, t = NAMES.astype(dtype)[Y], NAMES.astype(dtype)[T[some]]
    result = opened(tmp_path, X_train=X, y_train=y[:, None], X_test=Z[some], y_test=t)
    assert result.metadata["class_names"] == sorted(NAMES.tolist())
    assert (result["train/labels"].numpy() == ORDER[Y]).all()
    assert (result["test/labels"].numpy() == ORDER[T[some]]).all()
    assert prepare(result).names == tuple(sorted(NAMES.tolist()))


@pytest.mark.parametrize("end", ["", ".0", ".5", "e1"])
def test_numerals_are_sorted_as_numbers(end: str, tmp_path: Path) -> None:
    names = [f"{number}{end}" for number in (2, 10, 9, 1, 0)]
    result = opened(tmp_path, X=X, y=np.array(names)[Y])
    assert result.metadata["class_names"] == [f"{number}{end}" for number in (0, 1, 2, 9, 10)]


def test_an_array_with_the_split_of_each_row(tmp_path: Path) -> None:
    paths = np.array([str(i) for i in range(N)])
    arrays = {"X": X, "y": NAMES[Y][:, None], "split": SPLIT, "paths": paths}
    arrays |= {"class_names": NAMES, "scale": np.float32(3), "when": np.zeros(N, "M8[s]")}
    path, result = tmp_path / "a.npz", opened(tmp_path, **arrays)
    assert result.splits == ("test", "train")
    assert sorted(result.left_out) == ["scale", "when"]
    held = result.origins["test"]
    assert held.columns["paths"][torch.arange(3)] == paths[HELD][:3].tolist()
    assert held.row.tolist() == HELD.nonzero()[0].tolist()
    for split, rows in (("train", ~HELD), ("test", HELD)):
        assert (result[f"{split}/X"].numpy() == X[rows]).all()
        assert (result[f"{split}/labels"].numpy() == ORDER[Y[rows]]).all()
    by_path = FeatureStore.open(path, labels="paths")
    assert by_path["test/labels"].tolist() == HELD.nonzero()[0].tolist()
    assert FeatureStore.open(path, labels="split").splits == ("train",)
    # Integers are no names, and splits that are named already stay.
    result = opened(tmp_path, X=X, y=Y, split=Y)
    assert result.splits == ("train",) and result.left_out == ("split",)
    both = {"X_train": X, "y_train": Y, "X_test": Z, "y_test": T, "split": SPLIT}
    assert (opened(tmp_path, **both)["train/X"].numpy() == X).all()


OTHERS = {
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


def test_other_arrays_are_left_out(tmp_path: Path) -> None:
    result = opened(tmp_path, features=X, labels=Y, **OTHERS)
    assert set(result) == {"train/features", "train/labels"}
    assert sorted([*result.left_out, "paths"]) == sorted(OTHERS)
    (note,) = (note for note in prepare(result).notes if note.startswith("Not read: boxes, index"))
    assert "--identities NAME" in note
    (note,) = prepare(opened(tmp_path, features=X, labels=Y, ids=np.arange(N), **OTHERS)).notes[-1:]
    assert note.startswith("Not read: boxes") and "--identities" not in note
    boxes = FeatureStore.open(tmp_path / "a.npz", features="boxes")
    assert boxes.features == ("train/boxes",)
    assert FeatureStore.open(tmp_path / "a.npz", labels="paths").num_classes == 1


ONES, OBJECTS = np.ones((N, 6)), NAMES[Y].astype(object)


def at_7(value: float) -> np.ndarray:
    return np.where(np.arange(N) == 7, value, Y)


# Arrays, options of `open`, and the fact that the message states.
REFUSALS: list[tuple[dict[str, Any], dict[str, str], str]] = [
    ({"y": at_7(2.5)}, {}, "y of .* whole numbers, got 2.5 in row 7"),
    ({"y": at_7(np.nan)}, {}, "y of .* in every row, got nothing in row 7; fill in"),
    *(({"y": at_7(v)}, {}, f"whole numbers, got {s} in row 7") for v, s in ((1e30, "1e.30"),)),
    ({"y": np.eye(5)[Y]}, {}, r"\[N\] integers, got torch.float64 \(40, 5\); take the argmax"),
    ({"y": Y + 0j}, {}, r"\[N\] integers, got torch.complex128"),
    ({"y": OBJECTS}, {}, r"integers or strings, got object, which is never unpickled"),
    ({"y": Y.astype("M8[s]")}, {}, r"integers or strings, got datetime64\[s\]"),
    ({"y": NAMES[Y].reshape(20, 2)}, {}, r"integers or strings, got <U3 \(20, 2\)"),
    ({"y": NAMES[Y], "y_test": T, "X_test": Z}, {}, r"y_test .* as strings, as are y .*int64"),
    ({"y": np.full(N, 0x7FFFFFFF, np.uint32).view("<U1")}, {}, "strings of Unicode characters"),
    ({"id": np.full((N, 2), "a")}, {"identities": "id"}, r"or strings, got <U1 \(40, 2\)"),
    ({"id": Y / 2}, {"identities": "id"}, "id of .* whole numbers, got 0.5 in row 1"),
    ({"paths": NAMES[Y]}, {"features": "paths"}, r"paths of .* floats, got <U3 \(40,\)"),
    ({"objects": OBJECTS}, {"features": "objects"}, "floats, got object, which is never"),
    ({"index": Y}, {"features": "index"}, r"index of .* floats, got torch.int64 \(40,\)"),
    ({"maps": np.ones((N, 2, 2))}, {"features": "maps"}, r"got torch.float64 \(40, 2, 2\)"),
    ({"X": np.array({"X": X})}, {}, r"train/X \(object, which is never unpickled"),
    (
        {"X": np.array(["x"])},
        {},
        r"features in .*a\.npz, \[N, d\] floats, .* train/X \(<U1 \(1,\)\)",
    ),
    ({"X": X, "centres": X[:5]}, {}, r"expected 40 rows in train/centres .* got 5 .*--features"),
    ({"split": np.where(HELD, "dev", "train")}, {}, "splits in split of .* the split 'dev', none"),
    ({"model/X": ONES}, {}, rf"named {naming.NAMING}, got 'model/X'"),
    ({"train_X": X}, {}, "expected one train/X in .* another called 'train_X'"),
    ({"Xtest": Z}, {}, rf"rows in train/Xtest .* got 15 \(names are {naming.NAMING}"),
]


@pytest.mark.parametrize(("arrays", "options", "message"), REFUSALS)
def test_arrays_that_do_not_fit(arrays: Any, options: Any, message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **({"X": X, "y": Y} | arrays))
    refused(tmp_path / "a.npz", message, **options)


@pytest.mark.parametrize("name", ["{1}/{0}", "{1}_{0}", "{1}.{0}", "{0}_{1}", "{0}/{1}", "{0}-{2}"])
@pytest.mark.parametrize(("x", "y"), [("X", "y"), ("emb", "Target")])
def test_splits_in_names(name: str, x: str, y: str, tmp_path: Path) -> None:
    given = {
        name.format(what, split, split.upper()): array
        for split, (a, b) in {"train": (X, Y), "test": (Z, T)}.items()
        for what, array in ((x, a), (y, b))
    }
    result = opened(tmp_path, **given)
    assert sorted(result) == sorted([f"test/{x}", "test/labels", f"train/{x}", "train/labels"])
    for split, (a, b) in {"train": (X, Y), "test": (Z, T)}.items():
        assert (result[f"{split}/{x}"].numpy() == a).all()
        assert (result[f"{split}/labels"].numpy() == b).all()
    # The name in the file stands for the arrays of all splits.
    asked = FeatureStore.open(tmp_path / "a.npz", features=name.format(x, "train", "TRAIN"))
    assert asked.features == (f"test/{x}", f"train/{x}")


def test_names() -> None:
    names = ("x", "validation_x", "x_valid", "train/x_test", "testimony", "latest", "a.b", "train_")
    full = ("x", "x", "x", "train/x_test", "testimony", "latest", "a.b", "train_")
    for given, name in zip(names, full, strict=True):
        assert naming.full_name(given, "val") == (name if "/" in name else f"val/{name}")
    # Many digits take no longer than others.
    for name in ("emb_test-00001-of-2", "Test", "a_test" + "7" * 60_000):
        assert naming.split_of(name) == "test"
    assert naming.split_of("latest") is None


@pytest.mark.parametrize(
    ("a", "b", "kind", "rows"),
    [
        ([5, 6, 7], [5, 6, 7], "same", [(0, 0), (1, 1), (2, 2)]),
        ([5, 6, 7], [7, 5, 6], "reordered", [(0, 1), (1, 2), (2, 0)]),
        ([5, 6, 7], [9, 6], "overlap", [(1, 1)]),
        ([5, 6], [6, 5, 4], "overlap", [(0, 1), (1, 0)]),
        ([5, 6], [7, 8], "different", []),
        ([5, 5], [5, 6], "unknown", []),
        ([5, 5], [5, 5], "same", [(0, 0), (1, 1)]),
        (None, [5, 6], "unknown", []),
    ],
)
def test_rows_in_common(a: Any, b: Any, kind: str, rows: list[tuple[int, int]]) -> None:
    match = match_rows(None if a is None else torch.tensor(a), torch.tensor(b))
    assert match.kind == kind
    assert list(zip(match.a.tolist(), match.b.tolist(), strict=True)) == rows


def test_strings_have_the_same_numbers_in_every_file(tmp_path: Path) -> None:
    names = np.array([f"row {i}" for i in range(N)])
    a = opened(tmp_path, X=X, y=Y, ids=names)["train/identities"]
    b = opened(tmp_path, X=X, y=Y, ids=names[::-1])["train/identities"]
    assert match_rows(a, b).kind == "reordered" and torch.equal(a.flip(0), b)
    # An array of another length is something else.
    store = opened(tmp_path, X=X, y=Y, id=np.arange(3))
    assert "train/identities" not in store and store.left_out == ("id",)


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
    assert "1 class has no test row: 2." in prepared.notes


ONE = np.zeros(N, int)
# Arrays, rows of unknown classes, and the fact that the message states.
UNFIT: list[tuple[dict[str, np.ndarray], bool, str]] = [
    ({"X_val": X, "y_val": Y, **TEST}, False, "expected a split train in .* got"),
    ({"train/a": X, "train/y": Y, "test/b": Z, "test/y": T}, False, "features of one name in"),
    ({"X": X[:, :1], "y": Y, "X_test": Z[:, :1], "y_test": T}, False, "of dimension 2 or more"),
    ({**TRAIN, "X_test": Z[:, :4], "y_test": T}, False, "of dimension 6, as in train/X, got 4"),
    ({"X": X, "y": ONE}, False, "two classes or more .* got 1 class, 0 of a single row"),
    ({"X": X[:5], "y": Y[:5]}, False, "two rows or more in .* got 5 classes, 5 of a single row"),
    ({"X": X, "kind": Y}, False, "got neither; add --labels kind "),
    ({**TRAIN, "y_test": T}, False, "expected features of test in"),
    ({"X": X, "y": Y, "class_names": NAMES[:3]}, False, "a list of 5 names or more, got 3$"),
    ({"X": X[Y != 3], "y": Y[Y != 3], "X_test": Z[T == 3], "y_test": T[T == 3]}, True,
     "rows of classes that train has in test of .* got none"),
    ({"X": X, "y": np.where(np.arange(N) == 3, 5, Y), "X_test": Z, "y_test": np.full(M, 5)}, False,
     "of 2 rows or more in train in test of .* none"),
    ({"X": X[:10], "y": Y[:10]}, False, "3 rows or more in some class, got 2 at the most in"),
]  # fmt: skip


@pytest.mark.parametrize(("arrays", "skip", "message"), UNFIT)
def test_stores_that_do_not_fit(arrays: Any, skip: bool, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        prepare(opened(tmp_path, **arrays), skip_unknown=skip)


def test_zero_rows_are_left_out(tmp_path: Path) -> None:
    x = X.copy()
    x[[3, 5]] = 0
    prepared = prepare(opened(tmp_path, X=x, y=Y), drop_zeros=True)
    assert any(note.startswith("2 rows of zero vectors") for note in prepared.notes)
    check_features(prepared)
    with pytest.raises(ValueError, match=r"train of .* not all zero, got zero vectors"):
        prepare(opened(tmp_path, X=0 * X, y=Y), drop_zeros=True)


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_a_word_among_numbers_is_refused(ending: str, tmp_path: Path) -> None:
    """The whole column would not be read otherwise; columns of words, ids and labels are."""
    rows = [f"{i};{i / 7:.3f};{i % 3},5;{'ab' if i % 2 else i};{i % 2}" for i in range(40)]
    write: Any = gzip.open if ending.endswith("gz") else open
    for row, cell in ((None, ""), (17, "abc")):
        if row is not None:
            cells = rows[row].split(";")
            rows[row] = ";".join([cells[0], cell, *cells[2:]])
        with write(tmp_path / f"x.{ending}", "wt") as file:
            file.write("\n".join(["name;x;y;mixed;label", *rows]) + "\n")
        if row is None:
            assert FeatureStore.open(tmp_path / f"x.{ending}").shape("train/features") == (40, 2)
    with pytest.raises(ValueError, match=r"'abc' in row 17 of 'x', where 39 rows have numbers"):
        FeatureStore.open(tmp_path / f"x.{ending}")
