"""Arrays of .npy, .npz, .safetensors and .pt files; of damaged and hostile files of every kind an
error is one line with the path, and nothing is executed."""

import json
import os
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from embedding_files import N, Save, X, Y, opened, refused, write
from resultant.features import FeatureStore, declared
from resultant.features.naming import KINDS
from resultant.features.prepare import prepare

Z = torch.from_numpy(X)
LABELS = torch.from_numpy(Y).to(torch.int32)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed, np.save])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f2", ">f4", "<f8", "u1", ">i4", "<i8"])
def test_dtypes_and_orders(dtype: str, order: Any, save: Save, tmp_path: Path) -> None:
    numbers = np.abs(20 * X) if dtype == "u1" else 20 * X
    x = np.array(numbers, dtype=dtype, order=order)
    x[0, 0] = 100
    if save is np.save:
        names = {"X": tmp_path / "X.npy", "y": tmp_path / "y.npy"}
        np.save(names["X"], x)
        np.save(names["y"], Y)
        result, again = FeatureStore.open(tmp_path), FeatureStore.open(names)
        assert torch.equal(result["train/X"], again["train/X"]) and again.num_classes == 5
        refused(names | {"train_X": tmp_path / "X.npy"}, r"arrays of different names in .* got")
    else:
        result = opened(tmp_path, save, X=x, y=Y)
    assert (result["train/X"].double().numpy() == x).all()
    assert result.dtype("train/X").is_floating_point
    for rows in (1, 7, N):
        pieces = [piece for _, piece in result.chunks("train/X", rows, zero=True)]
        assert (torch.cat(pieces).double().numpy() == x).all()


WORDS = [("ant", "bee", "cat", "dog", "emu")[c] for c in Y.tolist()]
CONTENTS = {
    "nested": {"train": {"z": Z, "labels": LABELS}, "test": {"z": Z[:6], "labels": LABELS[:6]}},
    "flat": {"z_train": Z, "y_train": LABELS, "z_test": Z[:6], "y_test": LABELS[:6]},
    "pair": (Z.bfloat16(), Y.tolist()),
    "strings": {"z": Z.T.contiguous().T, "labels": WORDS, "ids": WORDS, "epoch": 7},
}


@pytest.mark.parametrize("archive", [True, False])
@pytest.mark.parametrize("case", CONTENTS)
def test_files_of_torch(tmp_path: Path, case: str, archive: bool) -> None:
    torch.save(CONTENTS[case], tmp_path / "a.pt", _use_new_zipfile_serialization=archive)
    store = FeatureStore.open(tmp_path / "a.pt")
    features = next(name for name in store.features if name.startswith("train/"))
    assert torch.equal(store[features], Z.to(store.dtype(features)))
    assert store["train/labels"].tolist() == Y.tolist()
    if case in ("nested", "flat"):
        assert torch.equal(store["test/z"], Z[:6])
    if case == "strings":
        assert store.metadata["class_names"] == sorted(set(WORDS))
        assert len(store["train/identities"].unique()) == 5


def test_declared_sizes_are_compared_with_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "a.npz", X=X, y=Y)
    np.savez(tmp_path / "b.npz", X=X, y=Y)
    torch.save({"X": Z, "y": LABELS}, tmp_path / "a.pt", _use_new_zipfile_serialization=False)
    (tmp_path / "max").write_text("max\n")
    (tmp_path / "small").write_text("600\n")
    limits = [str(tmp_path / name) for name in ("none", "max")]
    machine = declared.total_memory()
    monkeypatch.setattr(declared, "LIMITS", limits)
    assert declared.total_memory() >= machine
    # The memory is that of the container.
    monkeypatch.setattr(declared, "LIMITS", [*limits, str(tmp_path / "small")])
    assert declared.total_memory() == 600
    beyond = r"a\.npz .* got: \d+ bytes of y\.npy, decompressed, beyond half of the memory"
    refused(tmp_path / "a.npz", beyond)
    refused(tmp_path / "a.pt", r"a\.pt .* bytes of tensors in the format before torch 1\.6")
    # Mapped arrays take no memory.
    assert torch.equal(FeatureStore.open(tmp_path / "b.npz")["train/X"], Z)


class Trap(str):
    """The path of a folder that is made when the object is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self),)


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    target = tmp_path / "trapped"
    arrays: dict[str, Any] = {"X": X, "y": Y, "objects": np.array([Trap(target)] * N, object)}
    np.savez(tmp_path / "a.npz", **arrays)
    (tmp_path / "d").mkdir()
    write(tmp_path / "d" / "x.npy", arrays)
    for path in ("a.npz", "d"):
        result = FeatureStore.open(tmp_path / path)
        prepare(result)
        assert result.left_out == ("objects",)
        asks: list[Any] = [{"features": "objects"}, {"labels": "objects"}]
        for asked in asks:
            with pytest.raises(ValueError, match="got object"):
                FeatureStore.open(tmp_path / path, **asked)
    torch.save({"z": Z, "labels": LABELS, "more": Trap(target)}, tmp_path / "a.pt")
    refused(tmp_path / "a.pt", r"a\.pt .* got: other objects, which are never loaded")
    (tmp_path / "b.pt").write_bytes(pickle.dumps(Trap(target), 2))
    refused(tmp_path / "b.pt", r"b\.pt to be a whole \.pt file of tensors")
    assert not target.exists()


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


@pytest.mark.parametrize("data", [*SAFETENSORS, *NPY])
def test_hostile_headers(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / ("a.npy" if data in NPY else "a.safetensors")
    path.write_bytes(data)
    refused({"features": path} if data in NPY else path)
    for kind in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED) if data in NPY else ():
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
