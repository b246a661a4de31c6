"""Files of torch.save, of which nothing is executed."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from resultant._core.tensor_files import load_torch


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
