"""Tensors and JSON in one file, complete or absent; files of torch.save, never executed."""

import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from resultant._core import tensor_files
from resultant._core.tensor_files import CHECKSUMS, load_tensors, load_torch

ABOUT: dict[str, Any] = {"epoch": 3, "runs": [{"seed": 0, "beta": 0.5}], "name": "é"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "a.safetensors"


def test_round_trip(path: Path) -> None:
    tensors = {
        "float64": torch.randn(3, 2, dtype=torch.float64),
        "bfloat16": torch.randn(4).to(torch.bfloat16),
        "number": torch.tensor(7),
        "turned": torch.randn(2, 3).T,
        "row": torch.randn(3, 4)[1],
        "trained": torch.randn(2, requires_grad=True),
    }
    tensor_files.save(path, tensors, ABOUT)
    result, about = tensor_files.load(path)
    assert about == ABOUT and result.keys() == tensors.keys()
    for name, a in tensors.items():
        assert torch.equal(result[name], a) and result[name].dtype == a.dtype
    assert os.listdir(path.parent) == [path.name]


def test_refused(path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"expected a checkpoint, got no file at .*a\.saf"):
        tensor_files.load(path)
    tensor_files.save(path, {"a": torch.zeros(1000)}, ABOUT)
    whole = path.read_bytes()
    for torn in (b"", b"not a checkpoint", whole[:50], whole[:-1]):
        path.write_bytes(torn)
        with pytest.raises(ValueError, match=r"expected a whole safetensors file, got .*a\.safet"):
            tensor_files.load(path)
    save_file({"a": torch.zeros(2)}, path)
    with pytest.raises(ValueError, match="metadata 'resultant', got none"):
        tensor_files.load(path)


def test_a_flipped_bit_is_noticed(path: Path) -> None:
    """In the values of a tensor, and in the JSON object."""
    tensors = {
        "a": torch.arange(6.0),
        "b": torch.ones(2, dtype=torch.bfloat16),
        "none": torch.ones(0),
    }
    tensor_files.save(path, tensors, ABOUT)
    whole = path.read_bytes()
    for place in (len(whole) - 3, len(whole) - 20, whole.index(b"epoch") + 1):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=r"expected (the checksum of its content|a whole)"):
            tensor_files.load(path)
    path.write_bytes(whole)
    assert tensor_files.load(path)[1] == ABOUT


@pytest.mark.parametrize(
    ("sums", "match"), [("[]", "."), ('{"a": 1}', "another checksum of 'a'"), ("{", ".")]
)
def test_checksums_of_tensors(tmp_path: Path, sums: str, match: str) -> None:
    save_file({"a": torch.zeros(2)}, tmp_path / "a.safetensors", {CHECKSUMS: sums})
    with pytest.raises(ValueError, match=f"expected a whole safetensors file, got .*{match}"):
        load_tensors(tmp_path / "a.safetensors")


def archive(path: Path, content: Any, data: bytes | None = None) -> Path:
    """A file of torch.save with another pickle."""
    torch.save(content, path)
    if data is not None:
        with zipfile.ZipFile(path) as old:
            members = {name: old.read(name) for name in old.namelist()}
        with zipfile.ZipFile(path, "w") as new:
            for name, old_data in members.items():
                new.writestr(name, data if name.endswith("data.pkl") else old_data)
    return path


@pytest.mark.parametrize("data", [b"", b"\x80\x02h\x05.", b"\x80\x02R.", b"no pickle"])
def test_broken_files_are_refused(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"."):
        load_torch(archive(tmp_path / "a.pt", {}, data))
    (tmp_path / "legacy.pt").write_bytes(data)
    with pytest.raises(ValueError, match=r"."):
        load_torch(tmp_path / "legacy.pt")


def test_stand_ins_take_the_place_of_a_class(tmp_path: Path) -> None:
    class StandIn:
        pass

    path = archive(
        tmp_path / "a.pt", {}, b"\x80\x02cabsent.module\nThing\n)\x81}X\x01\x00\x00\x00aK\x03sb."
    )
    with pytest.raises(
        ValueError, match=r"other objects \(absent\.module\.Thing\), which are never"
    ):
        load_torch(path)
    found = load_torch(path, [(StandIn, "absent.module.Thing")])
    assert type(found) is StandIn and vars(found) == {"a": 3}
    with pytest.raises(ValueError, match="other objects"):
        load_torch(path)
