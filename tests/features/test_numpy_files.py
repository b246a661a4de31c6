"""Arrays of .npy and .npz files; broken and hostile files are refused."""

from __future__ import annotations

import io
import os
import re
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from embedding_files import D, N, Save, X, Y, opened
from resultant._core import chunks
from resultant.features import numpy_files
from resultant.features.numpy_files import ArchiveRows, map_npz
from resultant.features.prepare import prepare
from resultant.features.rows import MappedRows
from resultant.features.store import FeatureStore
from small_store import ROWS, WIDTH, arrays, rows_and_labels


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


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_an_npz(save: Any, tmp_path: Path) -> None:
    given = {n: a.numpy() for n, a in arrays().items() if a.dtype != torch.bfloat16}
    given["train/fortran"] = np.asfortranarray(given["train/encoder"])
    given["test/labels"] = given["test/labels"].astype(np.uint16)
    save(tmp_path / "a.npz", **given)
    result = FeatureStore.open(tmp_path / "a.npz")
    assert set(result) == set(given)
    assert all((result[n].numpy() == a).all() for n, a in given.items())


def test_npy_files_by_name(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).normal(size=(11, 6)), np.arange(11) % 3
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    names = {"features": tmp_path / "x.npy", "labels": tmp_path / "y.npy"}
    result = FeatureStore.open(names)
    assert (result["train/features"].numpy() == x).all() and result.num_classes == 3
    result["train/features"].zero_()
    assert (np.load(tmp_path / "x.npy") == x).all()
    with pytest.raises(ValueError, match=r"expected one train/features in .* got another"):
        FeatureStore.open({**names, "train_features": tmp_path / "x.npy"})
    np.save(tmp_path / "y.npy", y[:-1])
    with pytest.raises(ValueError, match=r"11 rows in train/labels .* got 10"):
        FeatureStore.open(names)
    np.save(tmp_path / "y.npy", np.array([None] * 11))
    with pytest.raises(ValueError, match=r"y\.npy to be .* dtype object, which is never unpickled"):
        FeatureStore.open(names)
    with pytest.raises(ValueError, match=r"z\.npy .* got no such file"):
        FeatureStore.open({"features": tmp_path / "z.npy"})


@pytest.mark.parametrize("data", NPY)
def test_broken_headers_are_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(ValueError, match=r"a\.npy"):
        FeatureStore.open({"features": tmp_path / "a.npy"})
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("features.npy", data)
    with pytest.raises(ValueError, match=r"a\.npz"):
        FeatureStore.open(tmp_path / "a.npz")


def test_compressed_size_is_bounded(tmp_path: Path, monkeypatch: Any) -> None:
    np.savez_compressed(tmp_path / "a.npz", features=np.ones((1000, 100)))
    assert (tmp_path / "a.npz").stat().st_size < 5000
    monkeypatch.setattr(chunks, "DECODED_BYTES", 10**5)
    with pytest.raises(ValueError, match=r"a\.npz to be .* decodes to 800,128 bytes"):
        FeatureStore.open(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", features=np.ones((1000, 100)))
    assert FeatureStore.open(tmp_path / "a.npz")["train/features"].shape == (1000, 100)


def test_a_zip_that_declares_too_many_bytes_is_refused(tmp_path: Path) -> None:
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


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "trapped"),)

    np.savez(tmp_path / "a.npz", X=X, y=Y, objects=np.array([Trap()] * N))
    (tmp_path / "d").mkdir()
    for name, array in (("X", X), ("y", Y), ("objects", np.array([Trap()] * N))):
        np.save(tmp_path / "d" / f"{name}.npy", array)
    for path in ("a.npz", "d"):
        result = FeatureStore.open(tmp_path / path)
        prepare(result)
        assert result.left_out == ("objects",)
        for asked in ({"features": "objects"}, {"labels": "objects"}):
            with pytest.raises(ValueError, match=r"got (dtype )?object"):
                FeatureStore.open(tmp_path / path, **asked)
    assert not (tmp_path / "trapped").exists()


@pytest.mark.slow
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed, np.save])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f2", ">f2", ">f4", "<f8", ">f8", "i1", "u1", ">i4", "<i8"])
def test_dtypes_and_orders(dtype: str, order: Any, save: Save, tmp_path: Path) -> None:
    numbers = np.abs(20 * X) if dtype == "u1" else 20 * X
    x = np.array(numbers, dtype=dtype, order=order)
    x[0, 0] = 100
    if save is np.save:
        np.save(tmp_path / "X.npy", x)
        np.save(tmp_path / "y.npy", Y)
        result = FeatureStore.open(tmp_path)
    else:
        result = opened(tmp_path, save, X=x, y=Y)
    assert (result["train/X"].double().numpy() == x).all()
    assert result.dtype("train/X").is_floating_point
    for rows in (1, 7, N):
        pieces = [piece for _, piece in result.chunks("train/X", rows, zero=True)]
        assert (torch.cat(pieces).double().numpy() == x).all()


def test_converted_features_stay_on_disk(tmp_path: Path, monkeypatch: Any) -> None:
    """Those too large for memory go through a temporary file, a piece at a time."""
    monkeypatch.setattr(chunks, "HELD_BYTES", 100)
    monkeypatch.setattr(chunks, "READ_BYTES", 300)
    for x in (X.astype(">f4"), (20 * X).astype(np.int16), np.asfortranarray(X)):
        result = opened(tmp_path, X=x, y=Y)
        assert result.copied_bytes("train/X") == 4 * N * D
        assert isinstance(result.vectors("train/X"), MappedRows)
        assert (result["train/X"].numpy() == x).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", ["z", "zz", "zzz", "zzzz"])
def test_aligned_stored_arrays_are_mapped(name: str, dtype: Any, tmp_path: Path) -> None:
    """Whatever the length of a name makes of the place of its array."""
    x = np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(dtype)
    np.savez(tmp_path / "a.npz", **{"first": x[:1], name: x, "labels": np.arange(ROWS)})
    rows = map_npz(tmp_path / "a.npz", keep_open=True)[name]
    place = (tmp_path / "a.npz").read_bytes().index(x.tobytes())
    assert isinstance(rows, MappedRows if place % x.itemsize == 0 else ArchiveRows)
    assert (rows.read(0, ROWS).numpy() == x).all() and (rows.read(7, 9).numpy() == x[7:9]).all()
    result = FeatureStore.open(tmp_path / "a.npz", features=name)[f"train/{name}"]
    assert (result.numpy() == x).all()
    result.zero_()
    assert (np.load(tmp_path / "a.npz")[name] == x).all()


@pytest.mark.parametrize("step", [1, 100, 1 << 20])
def test_compressed_rows_in_any_order(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numpy_files.chunks, "INFLATED_BYTES", step)
    x, _ = rows_and_labels()
    np.savez_compressed(tmp_path / "a.npz", z=x.numpy())
    rows = map_npz(tmp_path / "a.npz", keep_open=True)["z"]
    assert isinstance(rows, ArchiveRows) and rows.shape == (ROWS, WIDTH)
    for start, stop in ((0, 3), (3, 9), (20, 21), (5, 60), (0, 60), (59, 60), (10, 10)):
        assert torch.equal(rows.read(start, stop), x[start:stop])


def test_broken_or_changed_compressed_rows_are_noticed(tmp_path: Path) -> None:
    path, x = tmp_path / "a.npz", torch.randn(6000, WIDTH)
    np.savez_compressed(path, z=x.numpy())
    rows = map_npz(path, keep_open=True)["z"]
    assert isinstance(rows, ArchiveRows) and torch.equal(rows.read(0, 5), x[:5])
    np.savez_compressed(path, z=x.numpy(), more=x.numpy())
    with pytest.raises(ValueError, match=r"a\.npz .* got: it changed"):
        rows.read(0, ROWS)
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        place = archive.getinfo("z.npy").header_offset + 30 + len("z.npy") + 20 + 99_000
    data[place] ^= 1
    path.write_bytes(data)
    broken = map_npz(path, keep_open=True)["z"]
    assert isinstance(broken, ArchiveRows)
    with pytest.raises(ValueError, match=r"expected .*a\.npz to be a whole \.npz"):
        broken.read(0, len(x))


def test_complex_features_are_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", z=np.ones((4, 3), "c8"), labels=np.arange(4))
    rule = f"expected features in {tmp_path / 'a.npz'}, [N, d] floats"
    with pytest.raises(
        ValueError, match=re.escape(f"{rule}, got train/z (torch.complex64 [4, 3])")
    ):
        FeatureStore.open(tmp_path / "a.npz")


def test_other_members_and_longer_headers(tmp_path: Path) -> None:
    """Of an .npz of another program."""
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("README.txt", "features")
        for name, array in (("x", X), ("y", Y)):
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, array, version=(2, 0))
    store = FeatureStore.open(tmp_path / "a.npz")
    assert torch.equal(store["train/x"], torch.from_numpy(X))
    assert store["train/labels"].tolist() == Y.tolist()
