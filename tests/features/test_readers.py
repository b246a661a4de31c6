"""Files that others wrote as feature stores; what is broken or hostile is refused."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from resultant.features import numpy_files
from resultant.features import rows as shards
from resultant.features.store import FeatureStore, write_store
from small_store import D, N, arrays


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
    with pytest.raises(ValueError, match=r"expected one train/features in .* got another"):
        FeatureStore.open({**names, "train_features": tmp_path / "x.npy"})
    np.save(tmp_path / "y.npy", y[:-1])
    with pytest.raises(ValueError, match=r"11 rows in train/labels .* got 10"):
        FeatureStore.open(names)
    np.save(tmp_path / "y.npy", np.array([None] * N))
    with pytest.raises(ValueError, match=r"y\.npy to be .* dtype object, which is never unpickled"):
        FeatureStore.open(names)
    with pytest.raises(ValueError, match=r"z\.npy .* got no such file"):
        FeatureStore.open({"features": tmp_path / "z.npy"})


def test_missing_files_are_named(tmp_path: Path) -> None:
    for name in ("a.safetensors", "a.npz", "a"):
        with pytest.raises(ValueError, match=f"{tmp_path / name} .* got no such file"):
            FeatureStore.open(tmp_path / name)
    with pytest.raises(ValueError, match=f"expected {tmp_path} to be"):
        FeatureStore.open(tmp_path)


def test_other_kinds_are_named(tmp_path: Path) -> None:
    (tmp_path / "z.csv").write_text("1,2")
    rule = r"z\.csv to be a folder or a file of features \(\.safetensors, .*\), got another"
    with pytest.raises(ValueError, match=rf"{rule}: \.csv is not read; save .* by numpy\.savez"):
        FeatureStore.open(tmp_path / "z.csv")


def test_files_that_may_not_be_read(tmp_path: Path, monkeypatch: Any) -> None:
    """A right that is missing is not a file that is missing."""

    def denied(name: Any, *_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied", name)

    write_store(tmp_path / "a.safetensors", arrays())
    monkeypatch.setattr(shards, "SharedFile", denied)
    with pytest.raises(ValueError, match=r"a\.safetensors to be .* Permission denied"):
        FeatureStore.open(tmp_path / "a.safetensors")
    # Nor is a folder empty that cannot be listed.
    monkeypatch.setattr("os.scandir", denied)
    with pytest.raises(ValueError, match=f"{tmp_path} to be readable, got: Permission denied"):
        FeatureStore.open(tmp_path)


@pytest.mark.parametrize("name", ["label", "targets", "y"])
def test_labels_of_usual_names(name: str, tmp_path: Path) -> None:
    x, y = np.ones((N, D)), np.arange(N) % 3
    given: dict[str, Any] = {"X": x, "test_X": x, name: y, f"test_{name}": y}
    np.savez(tmp_path / "a.npz", **given)
    found = FeatureStore.open(tmp_path / "a.npz")
    assert sorted(found) == ["test/X", "test/labels", "train/X", "train/labels"]
    assert FeatureStore.open(tmp_path / "a.npz", features="X").num_classes == 3
    # What is called labels is meant.
    given = {"labels": y, name: x}
    np.savez(tmp_path / "b.npz", **given)
    assert set(FeatureStore.open(tmp_path / "b.npz")) == {"train/labels", f"train/{name}"}


def test_metadata_that_no_report_could_repeat(tmp_path: Path) -> None:
    save_file(arrays(), tmp_path / "a.safetensors", {"metadata": '{"loss": NaN}'})
    with pytest.raises(
        ValueError, match=r"metadata of .*a\.safetensors as JSON, got: Out of range"
    ):
        FeatureStore.open(tmp_path / "a.safetensors")


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
    monkeypatch.setattr(numpy_files, "MAX_INFLATED", 10**5)
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
