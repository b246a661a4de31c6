"""What the options of commands name: devices, and places to write to."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import torch

from resultant import checkpoint
from resultant.places import destination, find_device


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
