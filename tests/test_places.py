"""What the options of commands name: devices, and places to write to."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
import torch

from resultant import checkpoint
from resultant.places import destination, find_device, folder


def test_devices() -> None:
    assert find_device("cpu") == torch.device("cpu")
    assert find_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_destination(tmp_path: Path) -> None:
    """What is written is not what is read, nor a network, and has a folder."""
    source = tmp_path / "a.safetensors"
    checkpoint.save(source, {"x": torch.zeros(1)}, {})
    os.link(source, tmp_path / "b.safetensors")
    shutil.copy(source, tmp_path / "c.safetensors")
    for name, message in (
        ("a.safetensors", "apart from what is read, got"),
        ("b.safetensors", "apart from what is read, got"),
        ("c.safetensors", "expected --out that is no network, got one: "),
        ("a.safetensors/x", "expected --out to be a folder, got a file: "),
        ("", "expected a file to write, got the folder "),
    ):
        with pytest.raises((ValueError, OSError), match=message):
            destination(tmp_path / name, source)
    destination(tmp_path / "new" / "folder" / "x", source)
    assert (tmp_path / "new" / "folder").is_dir()


def test_places_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told by their own names, before anything is made there."""

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted", str(tmp_path / "tmp1234"))

    (tmp_path / "there").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "lost").symlink_to(tmp_path / "nowhere")
    for name in ("there", "new/deep"):
        folder(tmp_path / name)
    for name in ("file", "file/deep", "lost/deep"):
        with pytest.raises(ValueError, match="expected --work to be a folder, got a file: "):
            folder(tmp_path / name, "--work")
    monkeypatch.setattr(os, "mkdir", refuse)
    for name, can in (("there", "files can be written"), ("new/deep", "a folder can be made")):
        message = f"expected --out where {can}, got {tmp_path / name} (Operation not permitted)"
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            folder(tmp_path / name)
        with pytest.raises(ValueError, match=f"expected --out where {can}, got"):
            destination(tmp_path / name / "x.json", tmp_path / "source")
    assert {path.name for path in tmp_path.iterdir()} == {"there", "file", "lost"}
