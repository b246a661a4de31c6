"""Features, labels and identities among the arrays of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from embedding_files import NAMES, ORDER, N, T, X, Y, Z, opened
from resultant.features import FeatureStore, match_rows, naming
from resultant.features.prepare import prepare

HELD = np.arange(N) % 3 == 0
SPLIT = np.where(HELD, "test", "train")


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
    assert sorted(result.left_out) == ["paths", "scale", "when"]
    for split, rows in (("train", ~HELD), ("test", HELD)):
        assert (result[f"{split}/X"].numpy() == X[rows]).all()
        assert (result[f"{split}/labels"].numpy() == ORDER[Y[rows]]).all()
    by_path = FeatureStore.open(path, labels="paths")
    assert by_path["test/labels"].tolist() == HELD.nonzero()[0].tolist()
    assert FeatureStore.open(path, labels="split").splits == ("train",)


def test_arrays_called_split_that_do_not_divide(tmp_path: Path) -> None:
    """Integers are no names, and splits that are named already stay."""
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
    assert sorted(result.left_out) == sorted(OTHERS)
    assert any("Not read: boxes, index, maps" in note for note in prepare(result).notes)
    boxes = FeatureStore.open(tmp_path / "a.npz", features="boxes")
    assert boxes.features == ("train/boxes",)
    assert FeatureStore.open(tmp_path / "a.npz", labels="paths").num_classes == 1


ONES, OBJECTS = np.ones((N, 6)), NAMES[Y].astype(object)


def at_7(value: float) -> np.ndarray:
    return np.where(np.arange(N) == 7, value, Y)


# Arrays, options of `open`, and the fact that the message states.
REFUSALS: list[tuple[dict[str, Any], dict[str, str], str]] = [
    *(({"y": at_7(v)}, {}, f"y of .* whole numbers, got {v} in row 7") for v in (2.5, np.nan)),
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


@pytest.mark.parametrize("case", range(len(REFUSALS)))
def test_arrays_that_do_not_fit(case: int, tmp_path: Path) -> None:
    arrays, options, message = REFUSALS[case]
    np.savez(tmp_path / "a.npz", **({"X": X, "y": Y} | arrays))
    with pytest.raises(ValueError, match=message) as caught:
        FeatureStore.open(tmp_path / "a.npz", **options)
    assert "a.npz" in str(caught.value)


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
