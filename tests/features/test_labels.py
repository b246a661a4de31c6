"""Labels of every kind as class numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedding_files import NAMES, ORDER, N, Save, T, X, Y, Z, opened, write_parquet
from resultant.features.prepare import prepare
from resultant.features.store import FeatureStore


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize(
    "make",
    [
        *(lambda y: y.astype(float), lambda y: y.astype(np.float16), lambda y: y[:, None]),
        *(lambda y: y.astype(np.int8), lambda y: y.astype(">i4"), lambda y: y.astype(str)),
        *(lambda y: y[:, None].astype(">f8"), lambda y: np.asfortranarray(y[:, None])),
    ],
)
def test_labels_of_every_kind(make: Any, save: Save, tmp_path: Path) -> None:
    result = opened(tmp_path, save, X_train=X, y_train=make(Y), X_test=Z, y_test=make(T))
    assert (result["train/labels"].numpy() == Y).all() and result.num_classes == 5
    assert (result["test/labels"].numpy() == T).all()


def test_booleans_are_two_classes(tmp_path: Path) -> None:
    result = opened(tmp_path, X=X, y=Y > 2)
    assert (result["train/labels"].numpy() == (Y > 2)).all() and result.num_classes == 2


@pytest.mark.parametrize("dtype", ["U", "S"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_strings_are_numbered_over_all_splits(dtype: str, save: Save, tmp_path: Path) -> None:
    """One number a name in all splits, though the test lacks the first of them."""
    some = T != 1
    y, t = NAMES.astype(dtype)[Y], NAMES.astype(dtype)[T[some]]
    result = opened(tmp_path, save, X_train=X, y_train=y, X_test=Z[some], y_test=t)
    assert result.metadata["class_names"] == sorted(NAMES.tolist())
    assert (result["train/labels"].numpy() == ORDER[Y]).all()
    assert (result["test/labels"].numpy() == ORDER[T[some]]).all()
    assert prepare(result).names == tuple(sorted(NAMES.tolist()))


@pytest.mark.parametrize("end", ["", ".0", ".5", "e1"])
def test_numerals_are_sorted_as_numbers(end: str, tmp_path: Path) -> None:
    names = [f"{number}{end}" for number in (2, 10, 9, 1, 0)]
    result = opened(tmp_path, X=X, y=np.array(names)[Y])
    assert result.metadata["class_names"] == [f"{number}{end}" for number in (0, 1, 2, 9, 10)]


@pytest.mark.parametrize(
    ("labels", "expected", "names"),
    [
        (["0.0", "1.0", "10.0", "2.0"], [0, 1, 10, 2], None),
        (["0", "1", "10", "2"], [0, 1, 10, 2], None),
        (["true", "false", "false", "true"], [1, 0, 0, 1], ["false", "true"]),
        (["b", "a", "", "b"], [2, 1, 0, 2], ["", "a", "b"]),
        (["2024-01-02", "2024-01-01"] * 2, [1, 0, 1, 0], ["2024-01-01", "2024-01-02"]),
    ],
)
def test_labels_in_csv(labels: Any, expected: Any, names: Any, tmp_path: Path) -> None:
    rows = [f"{i}.5,{i},{label}" for i, label in enumerate(labels)]
    (tmp_path / "a.csv").write_text("\n".join(["f0,f1,label", *rows]))
    store = FeatureStore.open(tmp_path / "a.csv")
    assert store["train/labels"].tolist() == expected
    assert store.metadata.get("class_names") == names


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_byte_order_marks_are_no_part_of_a_name(kind: str, tmp_path: Path) -> None:
    text = "\ufefflabel,f0,f1\ncat,1,2\ndog,3,4\n"
    text = text if kind == "csv" else text.replace(",", "\t")
    (tmp_path / f"a.{kind}").write_text(text, encoding="utf-8")
    store = FeatureStore.open(tmp_path / f"a.{kind}")
    assert store.metadata["class_names"] == ["cat", "dog"]
    assert store["train/f"].tolist() == [[1, 2], [3, 4]]


BAD_LABELS = {
    "a part": (np.where(np.arange(N) == 7, 2.5, Y), "whole numbers, got 2.5 in row 7"),
    "nan": (np.where(np.arange(N) == 7, np.nan, Y), "whole numbers, got nan in row 7"),
    "inf": (np.where(np.arange(N) == 7, np.inf, Y), "whole numbers, got inf in row 7"),
    "too large": (np.where(np.arange(N) == 7, 1e30, Y), "whole numbers, got 1e.30 in row 7"),
    "one-hot": (np.eye(5)[Y], r"\[N\] integers, got torch.float64 \(40, 5\); take the argmax"),
    "complex": (Y + 0j, r"\[N\] integers, got torch.complex128"),
    "objects": (
        NAMES[Y].astype(object),
        r"\[N\] integers or strings, got dtype object, which is never unpickled",
    ),
    "dates": (Y.astype("M8[s]"), r"\[N\] integers or strings, got dtype datetime64\[s\]"),
    "a table": (NAMES[Y].reshape(20, 2), r"\[N\] integers or strings, got <U3 \(20, 2\)"),
}


@pytest.mark.parametrize("case", BAD_LABELS)
def test_invalid_labels_are_refused(case: str, tmp_path: Path) -> None:
    labels, message = BAD_LABELS[case]
    with pytest.raises(ValueError, match=rf"expected y of .*a\.npz to be {message}"):
        opened(tmp_path, X=X, y=labels)


def test_strings_and_numbers_do_not_mix(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"y_test .* as strings, as are y_train .*int64"):
        opened(tmp_path, X_train=X, y_train=NAMES[Y], X_test=Z, y_test=T)


def test_shards_of_labels_of_several_dtypes(tmp_path: Path) -> None:
    for i, dtype in enumerate((np.int64, np.int8, np.float32, bool)):
        np.savez(tmp_path / f"{i}.npz", X=X, y=(Y > 2).astype(dtype))
    result = FeatureStore.open(tmp_path)
    assert (result["train/labels"].numpy() == np.tile(Y > 2, 4)).all()


@pytest.mark.parametrize("kind", ["string", "large_string", "category", "int", "float", "bool"])
def test_labels_in_parquet(kind: str, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    strings = pa.array(NAMES[Y].tolist())
    labels = {
        "string": strings,
        "large_string": strings.cast(pa.large_string()),
        "category": strings.dictionary_encode(),
        "int": pa.array(Y).dictionary_encode(),
        "float": pa.array(Y.astype(np.float32)),
        "bool": pa.array(Y > 2),
    }[kind]
    expected = {"int": Y, "float": Y, "bool": Y > 2}.get(kind, ORDER[Y])
    test = np.arange(N) % 4 == 0
    columns = {"emb": list(X), "Label": labels, "split": np.where(test, "test", "train")}
    columns |= {"path": ["a"] * N}
    # A dictionary a row group.
    write_parquet(tmp_path / "a.parquet", columns, row_group_size=7)
    actual = FeatureStore.open(tmp_path / "a.parquet")
    assert (actual["train/labels"].numpy() == expected[~test]).all()
    assert (actual["test/labels"].numpy() == expected[test]).all()
    names = [] if kind in ("int", "float", "bool") else sorted(NAMES)
    assert actual.metadata.get("class_names", []) == names
    assert actual.left_out == ("path",)


def test_invalid_labels_in_parquet_are_refused(tmp_path: Path) -> None:
    for label, message in (
        (np.where(np.arange(N) == 7, 2.5, Y), r"a\.parquet to be whole numbers, got 2.5 in row 7"),
        (Y.astype("M8[s]"), "integers or strings, got dtype timestamp"),
    ):
        write_parquet(tmp_path / "a.parquet", {"emb": list(X), "label": label})
        with pytest.raises(ValueError, match=message):
            FeatureStore.open(tmp_path / "a.parquet")
