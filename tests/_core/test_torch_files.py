"""Hostile files of torch.save that execute nothing, but take all time or memory."""

from __future__ import annotations

import pickle
import struct
import zipfile
from collections import OrderedDict
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from resultant._core.torch_files import load_torch


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


def nested(depth: int) -> tuple[Any, ...]:
    value: tuple[Any, ...] = ()
    for _ in range(depth):
        value = (value, value)
    return value


def test_what_torch_saves(tmp_path: Path) -> None:
    x = torch.randn(3, 4)
    state = OrderedDict(torch.nn.Linear(2, 3).state_dict())
    content = {
        "x": x,
        "again": x,
        "view": x[1:],
        "labels": tuple(range(1000)),
        "net": state,
        "n": 2,
    }
    for kind in (True, False):
        torch.save(content, tmp_path / "a.pt", _use_new_zipfile_serialization=kind)
        found = load_torch(tmp_path / "a.pt")
        assert torch.equal(found["x"], x) and torch.equal(found["view"], x[1:])
        assert found["labels"] == content["labels"] and list(found["net"]) == list(state)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        # Two to the power of forty parts, in two kilobytes.
        (pickle.dumps([nested(40)], 2), "occurs twice"),
        (b"\x80\x02cbuiltins\nbytearray\nq\x00J\xff\xff\xff\x7f\x85R.", "of any size"),
        (b"\x80\x02ctorch\nTensor\nq\x00J\xff\xff\xff\x7f\x85R.", "of any size"),
        (b"\x80\x02ctorch.storage\nUntypedStorage\nJ\xff\xff\xff\x7f\x85R.", "of any size"),
        (b"\x80\x02h\x05.", "a broken pickle"),
        (b"\x80\x02R.", "a broken pickle"),
    ],
)
def test_hostile_pickles(data: bytes, match: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=match):
        load_torch(archive(tmp_path / "a.pt", {}, data))
    (tmp_path / "legacy.pt").write_bytes(data)
    with pytest.raises(ValueError, match=match):
        load_torch(tmp_path / "legacy.pt")


def test_pickles_of_many_instructions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen megabytes took a minute and a gigabyte."""
    monkeypatch.setattr("resultant._core.torch_files.MAX_INSTRUCTIONS", 1000)
    for number, match in ((100, None), (2000, "a pickle of more than 1,000 instructions")):
        path = archive(tmp_path / "a.pt", list(range(number)))
        with nullcontext() if match is None else pytest.raises(ValueError, match=match):
            assert load_torch(path) == list(range(number))


@pytest.mark.parametrize("number", [4, 1 << 30, -1])
def test_declared_lengths_of_storages(number: int, tmp_path: Path) -> None:
    """Some versions of torch read what lies in memory behind the three numbers of the file."""
    path = archive(tmp_path / "a.pt", torch.ones(3))
    with zipfile.ZipFile(path) as file:
        data = file.read(next(n for n in file.namelist() if n.endswith("data.pkl")))
    # The length of the storage, 3, follows its device.
    place = data.index(b"cpu") + 3
    assert data[place : place + 4] == b"q\x04K\x03"
    data = data[: place + 2] + b"J" + struct.pack("<i", number) + data[place + 4 :]
    with pytest.raises(ValueError, match="bytes of the storage '0' in 12"):
        load_torch(archive(path, torch.ones(3), data))


def test_members_of_one_name(tmp_path: Path) -> None:
    """Readers of archives disagree on which of the two they read."""
    path = archive(tmp_path / "a.pt", torch.ones(3))
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr(next(n for n in file.namelist() if n.endswith("data.pkl")), b"")
    with pytest.raises(ValueError, match="two members of one name"):
        load_torch(path)


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
