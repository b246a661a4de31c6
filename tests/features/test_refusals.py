"""Damaged and hostile files: one line with the path, and never another exception."""

from __future__ import annotations

import json
import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embedding_files import X, Y, write
from resultant.features import FeatureStore
from resultant.features.naming import KINDS


def npy(shape: str, data: bytes, descr: str = "'<f4'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def header(entries: dict[str, Any], data: bytes = b"") -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(shape: list[int], end: int, dtype: str = "F32", start: int = 0) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def stated(**metadata: str) -> bytes:
    return header({"__metadata__": metadata, "x": entry([2, 2], 16)}, b"\x00" * 16)


SAFETENSORS = [
    b"",
    struct.pack("<Q", 2**63) + b"{}",
    header({}),
    header({"train/encoder": entry([2**40, 2**20], 16)}, b"\x00" * 16),
    header({"train/encoder": entry([2, 2], 16, start=2**60)}, b"\x00" * 16),
    header({"train/encoder": entry([2, 2], 16, dtype="O")}, b"\x00" * 16),
    header({"train/encoder": entry([2, 2], 4, dtype="F8_E4M3")}, b"\x00" * 4),
    *(stated(format="other"), stated(metadata="{"), stated(metadata="[1]")),
    *(stated(metadata="[" * 10**5), stated(metadata='{"num_classes": true}')),
]
NPY = [
    npy("(1000000000000, 1000)", b"\x00" * 16),
    npy("(-2, -2)", b"\x00" * 16),
    npy("(2, 'a')", b"\x00" * 16),
    npy("(2, 2)", b"\x00" * 16, descr="'|O'"),
    npy("(2, 2)", b"\x00" * 16, descr="[('a', '<f4')]"),
    npy("(2, 2), 'x': __import__('os')", b"\x00" * 16),
    npy("(" * 3000, b""),
    b"\x93NUMPY\x09\x00" + b"\x00" * 100,
    b"PK\x03\x04",
]
TORCH = [
    ([torch.eye(2)] * 3, "got: list; save a dictionary of tensors"),
    ({"epoch": 7, "path": [1, "a"]}, "got: no tensors; save a dictionary of tensors"),
    ({"z": torch.ones(1, 1).expand(9, 9), "labels": torch.arange(9)}, "that is not read"),
]


def refused(path: Any, message: str | None = None) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        FeatureStore.open(path).check()
    named = path if isinstance(path, Path) else next(iter(path.values()))
    assert str(named) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("data", SAFETENSORS)
def test_broken_safetensors(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(data)
    refused(tmp_path / "a.safetensors")


@pytest.mark.parametrize("data", NPY)
def test_broken_npy_and_npz(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(data)
    refused({"features": tmp_path / "a.npy"})
    for kind in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        with zipfile.ZipFile(tmp_path / "a.npz", "w", kind) as archive:
            archive.writestr("features.npy", data)
        refused(tmp_path / "a.npz")


def test_a_zip_that_declares_too_many_bytes(tmp_path: Path) -> None:
    """The directory says four gigabytes, stored; there are sixteen bytes."""
    path, text = tmp_path / "a.npz", npy("(33554432, 31)", b"")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("features.npy", text + b"\x00" * 16)
    data, size = bytearray(path.read_bytes()), 33554432 * 31 * 4 + len(text)
    member = data.rindex(b"PK\x01\x02")
    data[member + 20 : member + 28] = struct.pack("<II", size, size)
    path.write_bytes(data)
    refused(path)


def test_other_contents_of_pt(tmp_path: Path) -> None:
    for content, message in TORCH:
        torch.save(content, tmp_path / "a.pt")
        refused(tmp_path / "a.pt", message)


@pytest.mark.parametrize("kind", KINDS)
def test_pipes_and_missing_files(kind: str, tmp_path: Path) -> None:
    refused(tmp_path / f"a{kind}", "no such file")
    (tmp_path / f"link{kind}").symlink_to("nowhere")
    refused(tmp_path / f"link{kind}", "no such file")
    os.mkfifo(tmp_path / f"a{kind}")
    refused(tmp_path / f"a{kind}", "got a pipe or a device")


BINARY = (".safetensors", ".npz", ".npy", ".pt", ".parquet", ".arrow")


@pytest.mark.parametrize("kind", BINARY)
def test_every_truncation_is_noticed(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"X{kind}"
    write(path, {"X": X, "labels": Y})
    whole = path.read_bytes()
    given: Any = {"features": path} if kind == ".npy" else path
    for cut in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:cut])
        refused(given)


@pytest.mark.slow
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(place=st.integers(0, 10_000), value=st.integers(0, 255), kind=st.sampled_from(BINARY))
def test_a_changed_byte_is_an_error_or_other_values(
    place: int, value: int, kind: str, tmp_path: Path
) -> None:
    path = tmp_path / f"X{kind}"
    write(path, {"X": X, "labels": Y})
    data = bytearray(path.read_bytes())
    data[place % len(data)] = value
    path.unlink()
    path.write_bytes(data)
    message = str(path)
    try:
        FeatureStore.open({"features": path} if kind == ".npy" else path).check()
    except ValueError as error:
        message = str(error)
    assert str(path) in message and "\n" not in message
