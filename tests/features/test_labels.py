"""Labels of every kind as class numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedding_files import NAMES, ORDER, N, Save, T, X, Y, Z, opened, write_parquet
from resultant.features.naming import Names
from resultant.features.parquet import read_parquet
from resultant.features.partition import open_store
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


def test_numerals_are_sorted_as_numbers(tmp_path: Path) -> None:
    result = opened(tmp_path, X=X, y=np.array(["2", "10", "9", "1", "0"])[Y])
    assert result.metadata["class_names"] == ["0", "1", "2", "9", "10"]


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
    with pytest.raises(ValueError, match=rf"train/labels of .*a\.npz to be {message}"):
        opened(tmp_path, X=X, y=labels)


def test_strings_and_numbers_do_not_mix(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"test/labels .* as strings, as are train/labels .*int64"):
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
    for actual in (FeatureStore.open(tmp_path / "a.parquet"), open_store(tmp_path / "a.parquet")):
        assert (actual["train/labels"].numpy() == expected[~test]).all()
        assert (actual["test/labels"].numpy() == expected[test]).all()
        names = [] if kind in ("int", "float", "bool") else sorted(NAMES)
        assert actual.metadata.get("class_names", []) == names
        assert actual.left_out == ("path",)


def test_invalid_labels_in_parquet_are_refused(tmp_path: Path) -> None:
    for label, message in (
        (np.where(np.arange(N) == 7, 2.5, Y), r"a\.parquet to be whole numbers, got 2.5 in row 7"),
        (Y.astype("M8[s]"), "labels 'label' of timestamp.*, not integers or strings"),
    ):
        write_parquet(tmp_path / "a.parquet", {"emb": list(X), "label": label})
        with pytest.raises(ValueError, match=message):
            FeatureStore.open(tmp_path / "a.parquet")


@pytest.mark.slow
def test_long_strings_of_many_rows_are_not_repeated(tmp_path: Path) -> None:
    """A string of a megabyte in every row is read once."""
    pa = pytest.importorskip("pyarrow")
    rows, path = 100, tmp_path / "a.parquet"
    words = np.full(rows, "a" * 2**20, object)
    write_parquet(path, {"emb": list(np.ones((rows, 2), np.float32)), "label": words})
    assert path.stat().st_size < 2**21
    # A pool that has only the allocations of this reading.
    default = pa.default_memory_pool()
    pools = {"system": pa.system_memory_pool, "mimalloc": pa.mimalloc_memory_pool}
    pool = next(make for name, make in pools.items() if name != default.backend_name)()
    before = pool.max_memory()
    pa.set_memory_pool(pool)
    try:
        labels = read_parquet(path, "train", Names()).arrays["train/labels"]
    finally:
        pa.set_memory_pool(default)
    assert labels is not None and labels.shape[0] == rows
    assert before < pool.max_memory() < rows * 2**20 // 4
