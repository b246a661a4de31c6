"""Parquet files as feature stores."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from embedding_files import X, Y, write_parquet
from resultant._core import chunks
from resultant.features import parquet
from resultant.features.naming import Names
from resultant.features.rows import Rows
from resultant.features.store import FeatureStore
from small_store import arrays


def vectors(a: np.ndarray, kind: str = "list") -> Any:
    """Rows as a column of lists, as Hugging Face datasets writes it, or of a fixed size."""
    pa = pytest.importorskip("pyarrow")
    values = pa.array(a.ravel())
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(values, a.shape[1])
    make = pa.LargeListArray if kind == "large" else pa.ListArray
    offsets = pa.array(np.arange(len(a) + 1) * a.shape[1], type=pa.int64())
    return make.from_arrays(offsets if kind == "large" else offsets.cast(pa.int32()), values)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["list", "large", "fixed"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_parquet_columns(kind: str, dtype: Any, tmp_path: Path, monkeypatch: Any) -> None:
    x = np.random.default_rng(1).normal(size=(23, 5)).astype(dtype)
    y = np.arange(23) % 3
    split = ["train" if i % 4 else "validation" for i in range(23)]
    columns = {"id": np.arange(23), "embedding": vectors(x, kind), "label": y, "split": split}
    write_parquet(tmp_path / "a.parquet", columns, row_group_size=6)
    # Batches that end neither with a row group nor with a piece.
    monkeypatch.setattr(chunks, "READ_BYTES", 4 * 5 * dtype().itemsize)
    result = FeatureStore.open(tmp_path / "a.parquet")
    assert result.splits == ("train", "val") and result.num_classes == 3
    of_train = np.array([s == "train" for s in split])
    for name, rows in (("train", of_train), ("val", ~of_train)):
        assert result.shape(f"{name}/embedding") == (rows.sum(), 5)
        assert (result[f"{name}/embedding"].numpy() == x[rows]).all()
        assert (result[f"{name}/labels"].numpy() == y[rows]).all()
        for height in (1, 2, 5, 100):
            pieces = [piece for _, piece in result.chunks(f"{name}/embedding", height)]
            assert max(map(len, pieces)) <= height
            assert (torch.cat(pieces).numpy() == x[rows]).all()


def test_parquet_rows_in_any_order(tmp_path: Path, monkeypatch: Any) -> None:
    x = np.random.default_rng(1).normal(size=(40, 3)).astype(np.float32)
    write_parquet(tmp_path / "a.parquet", {"f": vectors(x)}, row_group_size=7)
    monkeypatch.setattr(chunks, "READ_BYTES", 36)
    rows = parquet.read_parquet(tmp_path / "a.parquet", "train", Names()).arrays["train/f"]
    assert isinstance(rows, Rows)
    for start, stop in ((0, 4), (4, 20), (30, 40), (3, 3), (2, 31), (31, 40), (0, 40), (39, 40)):
        assert (rows.read(start, stop).numpy() == x[start:stop]).all()


def test_parquet_of_hugging_face_datasets(tmp_path: Path) -> None:
    """Files and metadata as datasets.Dataset.to_parquet leaves them in a repository."""
    pa = pytest.importorskip("pyarrow")
    names = ["cat", "dog", "emu"]
    about = {"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}}}}
    x = np.random.default_rng(1).normal(size=(30, 4)).astype(np.float32)
    (tmp_path / "data").mkdir()
    files = {"train-00000-of-00002": (0, 10), "train-00001-of-00002": (10, 22), "test-0": (22, 30)}
    for name, (low, high) in files.items():
        columns = {"features": vectors(x[low:high]), "label": np.arange(low, high) % 2}
        table = pa.table(columns).replace_schema_metadata({"huggingface": json.dumps(about)})
        write_parquet(tmp_path / "data" / f"{name}.parquet", table)
    result = FeatureStore.open(tmp_path)
    assert result.metadata["class_names"] == names and result.num_classes == 3
    assert (result["train/features"].numpy() == x[:22]).all()
    assert (result["test/features"].numpy() == x[22:]).all()
    assert result.label_gaps() == [2]


def test_named_columns(tmp_path: Path) -> None:
    x = np.ones((6, 2), np.float32)
    columns = {"a": vectors(x), "b": vectors(2 * x), "kind": np.arange(6), "text": list("abcdef")}
    path = tmp_path / "a.parquet"
    write_parquet(path, columns)
    assert FeatureStore.open(path).features == ("train/a", "train/b")
    result = FeatureStore.open(path, features="b", labels="kind")
    assert result.features == ("train/b",) and result.num_classes == 6
    for named, message in (
        ({"features": "nope"}, r"a\.parquet .*no column 'nope' among a, b, kind, text"),
        ({"labels": "nope"}, r"a\.parquet .*no column 'nope' among"),
        ({"features": "kind"}, "column 'kind' of int64, not vectors"),
        ({"labels": "a"}, "labels 'a' of list<.*>, not integers or strings"),
    ):
        with pytest.raises(ValueError, match=message):
            FeatureStore.open(path, **named)
    save_file(arrays(), tmp_path / "a.safetensors")
    result = FeatureStore.open(
        tmp_path / "a.safetensors", features="projection", labels="identities"
    )
    assert result.features == ("train/projection",)
    assert torch.equal(result["train/labels"], arrays()["train/identities"])
    with pytest.raises(ValueError, match=r"an array 'x' in .*a\.safetensors, got encoder"):
        FeatureStore.open(tmp_path / "a.safetensors", features="x")


def test_parquet_names_with_dots(tmp_path: Path, monkeypatch: Any) -> None:
    """A field differs from a field whose name is its beginning, also in the search for bombs."""
    x = np.random.default_rng(0).normal(size=(11, 6)).astype(np.float32)
    y = np.arange(11) % 3
    columns = {"z.v1": vectors(x), "z": vectors(x[:, :2]), "label.v1": y + 1, "label": y}
    write_parquet(tmp_path / "a.parquet", columns)
    result = FeatureStore.open(tmp_path / "a.parquet")
    assert torch.equal(result["train/z.v1"], torch.from_numpy(x))
    assert torch.equal(result["train/z"], torch.from_numpy(x[:, :2]))
    assert result["train/labels"].tolist() == y.tolist()
    for name, value in (("DECODED_BYTES", 5 * 8 * 11), ("DECODED_RATIO", 0)):
        monkeypatch.setattr(chunks, name, value)
    FeatureStore.open(tmp_path / "a.parquet", features="z")
    with pytest.raises(ValueError, match="content that decodes to"):
        FeatureStore.open(tmp_path / "a.parquet", features="z.v1")


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    z, y = vectors(np.ones((11, 2))), pa.array(np.arange(11) % 3)
    pq.write_table(pa.table([z, z, y], names=["z", "z", "label"]), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a\.parquet .* got: more than one column 'z'"):
        FeatureStore.open(tmp_path / "a.parquet")


@pytest.mark.slow
def test_broken_parquet_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    pa = pytest.importorskip("pyarrow")
    path, x = tmp_path / "a.parquet", np.ones((6, 2), np.float32)

    def refused(columns: Any, message: str) -> None:
        write_parquet(path, columns)
        with pytest.raises(ValueError, match=rf"a\.parquet.*{message}"):
            FeatureStore.open(path).check()

    refused({"x": pa.array([[1.0], [1.0, 2.0]])}, "mixed dimensions in 'x', 2 in row 1 and 1 ")
    refused({"x": pa.array([[1.0, 2.0], [1.0, 3.0], None])}, "got: a null in row 2 of 'x'$")
    refused({"x": pa.array([[1.0], [1.0, 2.0, 3.0]])}, "got 1 in row 0")
    refused({"x": pa.array([[1.0, 2.0], [1.0, None]])}, "got a null in row 1")
    refused({"x": pa.array([[1.0], None])}, "got a null in row 1")
    labels = pa.array([1, 2, None, 1, 1, 1])
    refused({"x": vectors(x), "label": labels}, "a null in row 2 of the labels 'label'$")
    splits = pa.array(["train", None, "test", "test", None, "train"])
    text = "a null in row 1 of the column 'split', the first of 2$"
    refused({"x": vectors(x), "split": splits}, text)
    refused({"x": vectors(x), "split": ["train"] * 5 + ["dev"]}, "split 'dev', none of train")
    refused({"x": vectors(x[:0])}, "got: no rows")
    refused({"x": [1.0, 2.0]}, r"no features among the columns x \(double\)")
    refused({"x": vectors(x * np.nan)}, "finite, got nan in row 0")
    write_parquet(path, {"x": vectors(np.random.default_rng(0).normal(size=(50, 8)))})
    whole = path.read_bytes()
    for cut in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:cut])
        with pytest.raises(ValueError, match=r"a\.parquet"):
            FeatureStore.open(path)
    # A few kilobytes that stand for eight million bytes.
    write_parquet(path, {"x": vectors(np.ones((10**4, 100)))}, row_group_size=10**4)
    assert path.stat().st_size < 30_000
    assert FeatureStore.open(path).shape("train/x") == (10**4, 100)
    monkeypatch.setattr(chunks, "DECODED_BYTES", 1 << 20)
    with pytest.raises(ValueError, match=r"a\.parquet.* decodes to 8,\d+,\d+ bytes or more"):
        FeatureStore.open(path)


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").touch()
    with pytest.raises(ValueError, match=r"pip install resultant\[parquet\]"):
        FeatureStore.open(tmp_path / "a.parquet")


def test_integer_features(tmp_path: Path) -> None:
    x = (100 * X).astype(np.int64)
    write_parquet(tmp_path / "a.parquet", {"emb": list(x), "label": Y})
    assert (FeatureStore.open(tmp_path / "a.parquet")["train/emb"].numpy() == x).all()
    write_parquet(tmp_path / "a.parquet", {"emb": list(X), "tokens": list(x), "label": Y})
    assert FeatureStore.open(tmp_path / "a.parquet").features == ("train/emb",)
