"""The feature store: what is written is read, in pieces too, and what is broken is refused."""

from __future__ import annotations

import io
import itertools
import json
import struct
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from resultant.data import _npy, parquet, store
from resultant.data.store import FeatureStore, write_store

N, M, D, P = 11, 5, 6, 3


def arrays() -> dict[str, torch.Tensor]:
    torch.manual_seed(2)
    return {
        "train/encoder": torch.randn(N, D),
        "train/projection": torch.randn(N, P, dtype=torch.float64),
        "train/labels": torch.arange(N) % 4,
        "train/identities": torch.arange(N).flip(0),
        "test/encoder": torch.randn(M, D).bfloat16(),
        "test/labels": torch.arange(M, dtype=torch.int32) % 4,
    }


METADATA = {"num_classes": 4, "network": "resnet32", "epochs": [1, 2], "nested": {"tau": 0.1}}


def test_round_trip(tmp_path: Path) -> None:
    path, given = tmp_path / "a.safetensors", arrays()
    write_store(path, given, METADATA)
    found = FeatureStore.open(path)
    assert set(found) == set(given) and found.metadata == METADATA
    for name, array in given.items():
        assert torch.equal(found[name], array.long() if "labels" in name else array)
        assert name in found
    assert found["test/encoder"].dtype == torch.bfloat16
    assert found["test/labels"].dtype == torch.int64
    assert found.splits == ("test", "train") and found.num_classes == 4
    assert found.features == ("test/encoder", "train/encoder", "train/projection")
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]
    with pytest.raises(KeyError, match=r"expected one of test/encoder.*got 'train/nothing'"):
        found["train/nothing"]


def test_mapped_features_never_reach_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_store(path, arrays())
    before = path.read_bytes()
    FeatureStore.open(path)["train/encoder"].zero_()
    assert path.read_bytes() == before
    # A store can be written over while it is mapped.
    old = FeatureStore.open(path)
    write_store(path, {n: 2 * a if "labels" not in n else a for n, a in arrays().items()})
    assert torch.equal(old["train/encoder"], arrays()["train/encoder"])
    assert torch.equal(FeatureStore.open(path)["train/encoder"], 2 * arrays()["train/encoder"])


def test_shared_and_strided_memory_can_be_written(tmp_path: Path) -> None:
    whole = torch.randn(N, 2 * D)
    given = {"train/encoder": whole[:, ::2], "train/other": whole, "train/again": whole}
    write_store(tmp_path / "a.safetensors", given)
    found = FeatureStore.open(tmp_path / "a.safetensors")
    assert all(torch.equal(found[n], a) for n, a in given.items())


@pytest.mark.parametrize("rows", [1, 4, N, 100, None])
def test_chunks_cover_all_rows_once(rows: int | None, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(store, "CHUNK_BYTES", 3 * 8 * P)
    write_store(tmp_path / "a.safetensors", arrays())
    found = FeatureStore.open(tmp_path / "a.safetensors")
    for name in ("train/projection", "train/labels"):
        pieces = list(found.chunks(name, rows))
        assert torch.equal(torch.cat([piece for _, piece in pieces]), found[name])
        assert [i for s, _ in pieces for i in range(s.start, s.stop)] == list(range(N))
    if rows is None:
        assert [len(piece) for _, piece in found.chunks("train/projection")] == [3, 3, 3, 2]
    with pytest.raises(ValueError, match="rows >= 1, got 0"):
        next(found.chunks("train/labels", 0))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "projection of .* finite, got nan in row 7"),
        (float("-inf"), "projection of .* finite, got -inf in row 7"),
        (0.0, "projection of .* without zero vectors, got one in row 7"),
    ],
)
@pytest.mark.parametrize("rows", [1, 3, 100])
def test_bad_vectors_are_found_with_their_row(
    value: float, message: str, rows: int, tmp_path: Path
) -> None:
    given = arrays()
    given["train/projection"][7] = value
    with pytest.raises(ValueError, match=message):
        write_store(tmp_path / "a.safetensors", given)
    assert not list(tmp_path.iterdir())
    save_file(given, tmp_path / "a.safetensors")
    found = FeatureStore.open(tmp_path / "a.safetensors")
    with pytest.raises(ValueError, match=message):
        list(found.chunks("train/projection", rows))
    with pytest.raises(ValueError, match=message):
        found.check()
    if value == 0:
        found.check(zero=True)


def test_gaps_and_counts(tmp_path: Path) -> None:
    given = {"features": torch.ones(5, 2), "labels": torch.tensor([0, 4, 4, 2, 0])}
    given["test_features"], given["test_labels"] = torch.ones(1, 2), torch.tensor([5])
    write_store(tmp_path / "a.safetensors", given)
    found = FeatureStore.open(tmp_path / "a.safetensors")
    assert set(found) == {"train/features", "train/labels", "test/features", "test/labels"}
    assert found.num_classes == 6
    assert found.label_counts().tolist() == [2, 0, 1, 0, 2, 0]
    assert found.label_gaps() == [1, 3, 5] and found.label_gaps("test") == [0, 1, 2, 3, 4]
    write_store(tmp_path / "a.safetensors", given, {"num_classes": 8})
    assert FeatureStore.open(tmp_path / "a.safetensors").label_gaps() == [1, 3, 5, 6, 7]


LAYOUTS = [
    ({"train/labels": torch.zeros(N)}, r"train/labels .* \[N\] integers, got torch.float32"),
    ({"train/labels": torch.zeros(N, 1).long()}, r"\[N\] integers, got torch.int64 \(11, 1\)"),
    ({"train/labels": torch.zeros(3).long()}, "11 rows in train/labels .* as in train/enc.*got 3"),
    ({"train/identities": torch.zeros(N).bool()}, r"\[N\] integers, got torch.bool"),
    ({"train/encoder": torch.zeros(N, D).long()}, r"\[N, d\] floats, got torch.int64"),
    ({"train/encoder": torch.zeros(N)}, r"\[N, d\] floats, got torch.float32 \(11,\)"),
    ({"train/encoder": torch.zeros(N, 0)}, r"not empty, got \(11, 0\)"),
    ({"encoder": torch.ones(N, D)}, "one train/encoder in .* another"),
    ({"extra/encoder": torch.ones(N, D)}, "SPLIT in train, val, test, got 'extra/encoder'"),
    ({"train/": torch.ones(N, D)}, "got 'train/'"),
    ({"train/labels": torch.full((N,), -1)}, r"in \[0, 4194304\), got -1 at row 0"),
    ({"test/labels": torch.tensor([0, 1, 2, 2**62, 1])}, r"got 4611686018427387904 at row 3"),
]


@pytest.mark.parametrize(("change", "message"), LAYOUTS)
def test_layout_is_checked(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    given = arrays() | change
    with pytest.raises(ValueError, match=message):
        write_store(tmp_path / "a.safetensors", given)
    save_file(given, tmp_path / "b.safetensors")
    with pytest.raises(ValueError, match=message) as caught:
        FeatureStore.open(tmp_path / "b.safetensors")
    assert str(tmp_path / "b.safetensors") in str(caught.value)


def test_write_refuses(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    for metadata, message in (
        ({"num_classes": 3}, r"labels of .* in \[0, 3\), got 3 at row 3"),
        ({"num_classes": "4"}, "num_classes of .* to be an integer"),
        ({"num_classes": 10**12}, "num_classes of .* to be an integer"),
        ({"a": {1, 2}}, "metadata that JSON can say"),
        ({"a": float("nan")}, "metadata that JSON can say"),
    ):
        with pytest.raises(ValueError, match=message):
            write_store(path, arrays(), metadata)
    with pytest.raises(ValueError, match=r"ends in \.safetensors, got .*a\.npz"):
        write_store(tmp_path / "a.npz", arrays())
    with pytest.raises(ValueError, match=r"expected arrays such as .* got none"):
        write_store(path, {})
    with pytest.raises(ValueError, match="an array of numbers"):
        write_store(path, {"train/encoder": np.array([["a"]])})
    assert not list(tmp_path.iterdir())


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "a.safetensors"
    write_store(path, arrays())
    before = path.read_bytes()

    def fails(tensors: Any, name: Path, metadata: Any) -> None:
        name.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(store, "save_file", fails)
    with pytest.raises(OSError, match="disk full"):
        write_store(path, arrays())
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


# Other files


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(save: Any, tmp_path: Path) -> None:
    given = {n: a.numpy() for n, a in arrays().items() if a.dtype != torch.bfloat16}
    given["train/fortran"] = np.asfortranarray(given["train/encoder"])
    given["test/labels"] = given["test/labels"].astype(np.uint16)
    save(tmp_path / "a.npz", **given)
    found = FeatureStore.open(tmp_path / "a.npz")
    assert set(found) == set(given)
    assert all((found[n].numpy() == a).all() for n, a in given.items())


def test_npy_files_by_name(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).normal(size=(N, D)), np.arange(N) % 3
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    names = {"features": tmp_path / "x.npy", "labels": tmp_path / "y.npy"}
    found = FeatureStore.open(names)
    assert (found["train/features"].numpy() == x).all() and found.num_classes == 3
    found["train/features"].zero_()
    assert (np.load(tmp_path / "x.npy") == x).all()
    with pytest.raises(ValueError, match="together with one of labels"):
        FeatureStore.open(tmp_path / "x.npy")
    np.save(tmp_path / "y.npy", y[:-1])
    with pytest.raises(ValueError, match=r"11 rows in train/labels .* got 10"):
        FeatureStore.open(names)
    np.save(tmp_path / "y.npy", np.array([None] * N))
    with pytest.raises(ValueError, match=r"y\.npy to be a whole \.npy of a plain array"):
        FeatureStore.open(names)
    np.save(tmp_path / "y.npy", y.astype(">i8"))
    with pytest.raises(ValueError, match=r"this machine's byte order in .*y\.npy"):
        FeatureStore.open(names)
    with pytest.raises(ValueError, match=r"z\.npy .* got no such file"):
        FeatureStore.open({"features": tmp_path / "z.npy"})


def test_missing_files_are_named(tmp_path: Path) -> None:
    for name in ("a.safetensors", "a.npz", "a"):
        with pytest.raises(ValueError, match=f"{tmp_path / name} .* got no such file"):
            FeatureStore.open(tmp_path / name)
    with pytest.raises(ValueError, match=f"expected {tmp_path} to be"):
        FeatureStore.open(tmp_path)


# Broken and hostile files


def header(entries: dict[str, Any], data: bytes = b"") -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(shape: list[int], end: int, dtype: str = "F32", start: int = 0) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


SAFETENSORS = [
    b"",
    b"\x00" * 7,
    struct.pack("<Q", 2**63) + b"{}",
    struct.pack("<Q", 10**9) + b"{}",
    header({}),
    header({"train/encoder": entry([2**40, 2**20], 16)}, b"\x00" * 16),
    header({"train/encoder": entry([2**63, 4], 16)}, b"\x00" * 16),
    header({"train/encoder": entry([2**40], 2**42)}, b"\x00" * 16),
    header({"train/encoder": entry([2, 2], 16, start=2**60)}, b"\x00" * 16),
    header({"train/encoder": entry([-1, 2], 16)}, b"\x00" * 16),
    header({"train/encoder": entry([2, 2], 16, dtype="O")}, b"\x00" * 16),
    header({"train/encoder": entry([2, 2], 4, dtype="F8_E4M3")}, b"\x00" * 4),
    header({"__metadata__": {"format": "other"}, "x": entry([2, 2], 16)}, b"\x00" * 16),
    header({"__metadata__": {"metadata": "{"}, "x": entry([2, 2], 16)}, b"\x00" * 16),
    header({"__metadata__": {"metadata": "[1]"}, "x": entry([2, 2], 16)}, b"\x00" * 16),
    header({"__metadata__": {"metadata": "[" * 10**5}, "x": entry([2, 2], 16)}, b"\x00" * 16),
    header({"__metadata__": {"metadata": '{"num_classes": true}'}, "x": entry([1, 1], 4)}, b"abcd"),
]


@pytest.mark.parametrize("data", SAFETENSORS)
def test_broken_safetensors(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"a\.safetensors"):
        FeatureStore.open(path)


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    write_store(tmp_path / "a.safetensors", arrays())
    np.savez(tmp_path / "a.npz", **{"train/encoder": np.ones((4, 3)), "labels": np.arange(4)})
    np.save(tmp_path / "a.npy", np.ones((4, 3)))
    for name in ("a.safetensors", "a.npz", "a.npy"):
        whole = (tmp_path / name).read_bytes()
        path = tmp_path / f"cut.{name.partition('.')[2]}"
        given: Any = {"features": path} if path.suffix == ".npy" else path
        for cut in [*range(0, len(whole), 37), len(whole) - 1]:
            path.write_bytes(whole[:cut])
            with pytest.raises(ValueError, match=r"cut\."):
                FeatureStore.open(given)


def npy(shape: str, data: bytes, descr: str = "'<f4'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


NPY = [
    npy("(1000000000000, 1000)", b"\x00" * 16),
    npy("(4611686018427387904, 4)", b"\x00" * 16),
    npy("(-2, -2)", b"\x00" * 16),
    npy("(2, 'a')", b"\x00" * 16),
    npy("(2, 2)", b"\x00" * 16, descr="'|O'"),
    npy("(2, 2)", b"\x00" * 16, descr="[('a', '<f4')]"),
    npy("(2, 2)", b"\x00" * 16, descr="'nothing'"),
    npy("(2, 2), 'x': __import__('os')", b"\x00" * 16),
    npy("(" * 3000, b""),
    b"\x93NUMPY\x09\x00" + b"\x00" * 100,
    b"PK\x03\x04",
]


@pytest.mark.parametrize("data", NPY)
def test_broken_arrays(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(ValueError, match=r"a\.npy"):
        FeatureStore.open({"features": tmp_path / "a.npy"})
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("features.npy", data)
    with pytest.raises(ValueError, match=r"a\.npz"):
        FeatureStore.open(tmp_path / "a.npz")


def test_inflation_is_bounded(tmp_path: Path, monkeypatch: Any) -> None:
    np.savez_compressed(tmp_path / "a.npz", features=np.ones((1000, 100)))
    assert (tmp_path / "a.npz").stat().st_size < 5000
    monkeypatch.setattr(_npy, "MAX_INFLATED", 10**5)
    with pytest.raises(ValueError, match=r"a\.npz to be .* 800128 bytes compressed"):
        FeatureStore.open(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", features=np.ones((1000, 100)))
    assert FeatureStore.open(tmp_path / "a.npz")["train/features"].shape == (1000, 100)


def test_a_zip_that_declares_more_than_it_holds(tmp_path: Path) -> None:
    """The directory says four gigabytes, stored; there are sixteen bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("features.npy", npy("(33554432, 31)", b"\x00" * 16))
    data, size = bytearray(buffer.getvalue()), 33554432 * 31 * 4
    member = data.rindex(b"PK\x01\x02")
    text = len(npy("(33554432, 31)", b""))
    data[member + 20 : member + 28] = struct.pack("<II", size + text, size + text)
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(ValueError, match=r"a\.npz to be .* members larger than the file"):
        FeatureStore.open(tmp_path / "a.npz")


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(place=st.integers(0, 2000), value=st.integers(0, 255), suffix=st.sampled_from(["npz", "s"]))
def test_a_changed_byte_is_an_error_or_other_values(
    place: int, value: int, suffix: str, tmp_path: Path
) -> None:
    """Never another exception, whatever byte of the file is wrong."""
    path = tmp_path / ("a.npz" if suffix == "npz" else "a.safetensors")
    given = {"train/encoder": np.ones((4, 3)), "train/labels": np.arange(4)}
    if suffix == "npz":
        np.savez(path, **given)
    else:
        write_store(path, given, {"num_classes": 4})
    data = bytearray(path.read_bytes())
    data[place % len(data)] = value
    path.write_bytes(data)
    message = str(path)
    try:
        found = FeatureStore.open(path)
        for name in found:
            list(found.chunks(name))
    except ValueError as error:
        message = str(error)
    assert str(path) in message


# Parquet, pairs and shards


def write_parquet(path: Path, columns: dict[str, Any], **options: Any) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    pq.write_table(table, path, **options)


def vectors(a: np.ndarray, kind: str = "list") -> Any:
    """Rows as a column of lists, as Hugging Face datasets writes it, or of a fixed size."""
    pa = pytest.importorskip("pyarrow")
    values = pa.array(a.ravel())
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(values, a.shape[1])
    make = pa.LargeListArray if kind == "large" else pa.ListArray
    offsets = pa.array(np.arange(len(a) + 1) * a.shape[1], type=pa.int64())
    return make.from_arrays(offsets if kind == "large" else offsets.cast(pa.int32()), values)


@pytest.mark.parametrize("kind", ["list", "large", "fixed"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_parquet_columns(kind: str, dtype: Any, tmp_path: Path, monkeypatch: Any) -> None:
    x = np.random.default_rng(1).normal(size=(23, 5)).astype(dtype)
    y = np.arange(23) % 3
    split = ["train" if i % 4 else "validation" for i in range(23)]
    columns = {"id": np.arange(23), "embedding": vectors(x, kind), "label": y, "split": split}
    write_parquet(tmp_path / "a.parquet", columns, row_group_size=6)
    # Batches that end neither with a row group nor with a piece.
    monkeypatch.setattr(parquet, "BATCH_BYTES", 4 * 5 * dtype().itemsize)
    found = FeatureStore.open(tmp_path / "a.parquet")
    assert found.splits == ("train", "val") and found.num_classes == 3
    of_train = np.array([s == "train" for s in split])
    for name, rows in (("train", of_train), ("val", ~of_train)):
        assert found.shape(f"{name}/embedding") == (rows.sum(), 5)
        assert (found[f"{name}/embedding"].numpy() == x[rows]).all()
        assert (found[f"{name}/labels"].numpy() == y[rows]).all()
        for height in (1, 2, 5, 100):
            pieces = [piece for _, piece in found.chunks(f"{name}/embedding", height)]
            assert max(map(len, pieces)) <= height
            assert (torch.cat(pieces).numpy() == x[rows]).all()


def test_parquet_rows_in_any_order(tmp_path: Path, monkeypatch: Any) -> None:
    x = np.random.default_rng(1).normal(size=(40, 3)).astype(np.float32)
    write_parquet(tmp_path / "a.parquet", {"f": vectors(x)}, row_group_size=7)
    monkeypatch.setattr(parquet, "BATCH_BYTES", 36)
    rows = parquet.read_parquet(tmp_path / "a.parquet").features["f"]
    for start, stop in ((0, 4), (4, 20), (30, 40), (3, 3), (2, 31), (31, 40), (0, 40), (39, 40)):
        assert (rows.read(start, stop).numpy() == x[start:stop]).all()


def test_parquet_of_datasets(tmp_path: Path) -> None:
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
    found = FeatureStore.open(tmp_path)
    assert found.metadata["class_names"] == names and found.num_classes == 3
    assert (found["train/features"].numpy() == x[:22]).all()
    assert (found["test/features"].numpy() == x[22:]).all()
    assert found.label_gaps() == [2]


def test_named_columns(tmp_path: Path) -> None:
    x = np.ones((6, 2), np.float32)
    columns = {"a": vectors(x), "b": vectors(2 * x), "kind": np.arange(6), "text": list("abcdef")}
    path = tmp_path / "a.parquet"
    write_parquet(path, columns)
    assert FeatureStore.open(path).features == ("train/a", "train/b")
    found = FeatureStore.open(path, features="b", labels="kind")
    assert found.features == ("train/b",) and found.num_classes == 6
    for named, message in (
        ({"features": "nope"}, r"a\.parquet .*no column 'nope' among a, b, kind, text"),
        ({"labels": "nope"}, r"a\.parquet .*no column 'nope' among"),
        ({"features": "kind"}, "column 'kind' of int64, not lists of floats"),
        ({"labels": "text"}, "labels 'text' of string, not integers"),
    ):
        with pytest.raises(ValueError, match=message):
            FeatureStore.open(path, **named)
    save_file(arrays(), tmp_path / "a.safetensors")
    found = FeatureStore.open(
        tmp_path / "a.safetensors", features="projection", labels="identities"
    )
    assert found.features == ("train/projection",)
    assert torch.equal(found["train/labels"], arrays()["train/identities"])
    with pytest.raises(ValueError, match=r"an array 'x' in .*a\.safetensors, got encoder"):
        FeatureStore.open(tmp_path / "a.safetensors", features="x")


def test_broken_parquet(tmp_path: Path, monkeypatch: Any) -> None:
    pa = pytest.importorskip("pyarrow")
    path, x = tmp_path / "a.parquet", np.ones((6, 2), np.float32)

    def refused(columns: Any, message: str) -> None:
        write_parquet(path, columns)
        with pytest.raises(ValueError, match=rf"a\.parquet.*{message}"):
            FeatureStore.open(path).check()

    refused({"x": pa.array([[1.0], [1.0, 2.0]])}, "mixed dimensions, 3 numbers in 2 rows of 'x'")
    refused({"x": pa.array([[1.0], [1.0, 2.0, 3.0]])}, "got 1 in row 0")
    refused({"x": pa.array([[1.0, 2.0], [1.0, None]])}, "got a null in row 1")
    refused({"x": pa.array([[1.0], None])}, "got none in row 1")
    refused({"x": vectors(x), "label": pa.array([1, 2, None, 1, 1, 1])}, "1 nulls among")
    refused({"x": vectors(x), "split": ["train"] * 5 + ["dev"]}, "split 'dev', none of train")
    refused({"x": vectors(x[:0])}, "got: no rows")
    refused({"x": [1.0, 2.0]}, r"no column of lists of floats among x \(double\)")
    refused({"x": vectors(x * np.nan)}, "finite, got nan in row 0")
    write_parquet(path, {"x": vectors(np.random.default_rng(0).normal(size=(50, 8)))})
    whole = path.read_bytes()
    for cut in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:cut])
        with pytest.raises(ValueError, match=r"a\.parquet"):
            FeatureStore.open(path)
    # A few kilobytes that stand for eighty million bytes.
    write_parquet(path, {"x": vectors(np.ones((10**5, 100)))}, row_group_size=10**5)
    assert path.stat().st_size < 30_000
    assert FeatureStore.open(path).shape("train/x") == (10**5, 100)
    monkeypatch.setattr(parquet, "FREE_BYTES", 1 << 20)
    with pytest.raises(ValueError, match=r"a\.parquet.* decode to 80,\d+,\d+ bytes or more"):
        FeatureStore.open(path)


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"pip install resultant\[parquet\]"):
        FeatureStore.open(tmp_path / "a.parquet")


def test_a_pair_of_npy(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).normal(size=(N, D)), np.arange(N) % 3
    for features, labels, split in (
        ("test_features", "test_labels", "test"),
        ("z", "z_labels", "train"),
    ):
        np.save(tmp_path / f"{features}.npy", x)
        np.save(tmp_path / f"{labels}.npy", y)
        found = FeatureStore.open(tmp_path / f"{features}.npy")
        (name,) = found.features
        assert (found[name].numpy() == x).all()
        assert (found[f"{split}/labels"].numpy() == y).all()


@pytest.mark.parametrize("kind", ["safetensors", "npz", "npy"])
@pytest.mark.parametrize("nested", [False, True])
def test_folders_of_shards(kind: str, nested: bool, tmp_path: Path) -> None:
    x, y = torch.randn(30, 4), torch.arange(30) % 7
    for split, edges in (("train", (0, 9, 10, 20)), ("test", (20, 30))):
        for i, (low, high) in enumerate(itertools.pairwise(edges)):
            stem = f"{split}/{{}}part-{i:05}" if nested else f"{split}_{{}}{i:05}-of-00003"
            whole: dict[str, Any] = {"features": x[low:high], "labels": y[low:high]}
            base = tmp_path / stem.format("")
            base.parent.mkdir(exist_ok=True)
            if kind == "safetensors":
                save_file(whole, base.with_suffix(".safetensors"))
            elif kind == "npz":
                np.savez(base.with_suffix(".npz"), **{n: a.numpy() for n, a in whole.items()})
            else:
                for n, a in whole.items():
                    stem = f"{split}/{n}-{i:05}" if nested else f"{split}_{n}-{i:05}"
                    np.save(tmp_path / f"{stem}.npy", a.numpy())
    (tmp_path / ".hidden.npy").write_bytes(b"")
    found = FeatureStore.open(tmp_path)
    assert torch.equal(found["train/features"], x[:20])
    assert torch.equal(found["test/features"], x[20:])
    assert torch.equal(found["train/labels"], y[:20])
    for rows in (1, 3, 10, 19):
        pieces = [piece for _, piece in found.chunks("train/features", rows)]
        assert torch.equal(torch.cat(pieces), x[:20])


def test_shards_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"folder of shards of one kind .* got none"):
        FeatureStore.open(tmp_path)
    for i, width in enumerate((4, 5)):
        given = {"features": torch.ones(3, width), "labels": torch.arange(3)}
        save_file(given, tmp_path / f"train-{i}.safetensors")
    with pytest.raises(ValueError, match=r"\[N, 4\] as in .*-0.*got torch.float32 \[N, 5\].*-1"):
        FeatureStore.open(tmp_path)
    save_file({"features": torch.ones(3, 4)}, tmp_path / "train-1.safetensors")
    with pytest.raises(ValueError, match=r"expected 6 rows in train/labels .* got 3"):
        FeatureStore.open(tmp_path)
    np.save(tmp_path / "train-2.npy", np.ones(3))
    with pytest.raises(ValueError, match=r"got \.npy and \.safetensors"):
        FeatureStore.open(tmp_path)


def test_a_shard_that_changes_is_noticed(tmp_path: Path) -> None:
    given = {"features": torch.ones(3, 4), "labels": torch.arange(3)}
    save_file(given, tmp_path / "train-0.safetensors")
    found = FeatureStore.open(tmp_path)
    save_file({**given, "more": torch.ones(3, 4)}, tmp_path / "train-0.safetensors")
    with pytest.raises(ValueError, match=r"train-0\.safetensors as it was .* got it changed"):
        found["train/features"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_large_features_are_mapped(dtype: torch.dtype, tmp_path: Path, monkeypatch: Any) -> None:
    """Beyond the limit shards go through a temporary file; release keeps the values."""
    monkeypatch.setattr(store, "HELD_BYTES", 100)
    monkeypatch.setattr(store, "CHUNK_BYTES", 300)
    x, y = torch.randn(50, 8).to(dtype), torch.arange(50) % 5
    for i in range(5):
        rows = slice(10 * i, 10 * i + 10)
        save_file({"z": x[rows].clone(), "labels": y[rows]}, tmp_path / f"train-{i}.safetensors")
    save_file({"z": x, "labels": y}, tmp_path / "whole.safetensors")
    whole = FeatureStore.open(tmp_path / "whole.safetensors")
    (tmp_path / "whole.safetensors").unlink()
    for found in (whole, FeatureStore.open(tmp_path), whole.held_out()):
        given = torch.cat([found[n] for n in found.features])
        found.release()
        again = torch.cat([found[n] for n in found.features])
        assert given.dtype == dtype and torch.equal(given, again)
        assert torch.equal(given.double().sort(0).values, x.double().sort(0).values)


def test_held_out(tmp_path: Path) -> None:
    counts = [2, 3, 10, 40]
    y = torch.arange(4).repeat_interleave(torch.tensor(counts))[torch.randperm(55)]
    x = torch.arange(55.0)[:, None] + 1
    whole = FeatureStore("memory", {"train/z": x.expand(-1, 3).clone(), "train/labels": y})
    found = whole.held_out(0.2, seed=3)
    assert found.label_counts("test").tolist() == [0, 1, 2, 8]
    assert found.label_counts().tolist() == [2, 2, 8, 32]
    rows = torch.cat([found["train/z"][:, 0], found["test/z"][:, 0]])
    assert torch.equal(rows.sort().values, x[:, 0])
    for split in ("train", "test"):
        assert torch.equal(y[found[f"{split}/z"][:, 0].long() - 1], found[f"{split}/labels"])
    again, other = whole.held_out(0.2, seed=3), whole.held_out(0.2, seed=4)
    assert torch.equal(again["test/z"], found["test/z"])
    assert not torch.equal(other["test/z"], found["test/z"])
    with pytest.raises(ValueError, match="to have one split"):
        found.held_out()
