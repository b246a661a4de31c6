"""What the options of commands name: devices, and places to write to."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
import torch

from resultant._core import tensor_files
from resultant._core.files import require_writable_folder
from resultant._core.network_files import find_network
from resultant.cli.arguments import destination, find_device, refuse_network
from resultant.features.store import write_store
from small_features import small_features


def test_devices() -> None:
    assert find_device("cpu") == torch.device("cpu")
    assert find_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_destination(tmp_path: Path) -> None:
    """What is written is not what is read, nor a network, and has a folder."""
    source = tmp_path / "a.safetensors"
    tensor_files.save(source, {"x": torch.zeros(1)}, {})
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


def test_networks_are_not_features(tmp_path: Path) -> None:
    """Whatever number of them there is: how to come by features is said, and few are named."""

    def told(path: Path) -> str:
        with pytest.raises(ValueError, match=r"^expected features, got ") as caught:
            refuse_network(path)
        return str(caught.value)

    refuse_network(tmp_path)
    first = tmp_path / "run" / "0.safetensors"
    tensor_files.save(first, {"x": torch.zeros(1)}, {})
    alone = f"got a network: {first}; resultant extract writes its features"
    assert told(tmp_path).endswith(alone) and told(first).endswith(alone)
    write_store(tmp_path / "z.safetensors", small_features())
    assert told(tmp_path).endswith(
        f"{alone}; to read features that are there, name their file: z.safetensors"
    )
    (tmp_path / "z.safetensors").unlink()
    for i in range(1, 12):
        shutil.copy(first, first.with_name(f"{i}.safetensors"))
        said = told(tmp_path)
        assert f"got {i + 1} networks in the folder {tmp_path}: run/0.safetensors, run/1." in said
        assert said.endswith("; resultant extract writes the features of one of them")
        assert said.count(".safetensors") == min(i + 1, 5)
        assert (f" and {i - 4} more; " in said) == (i > 4)
    with pytest.raises(ValueError, match=r"expected one network .* and 7 more: name one of them$"):
        find_network(tmp_path)


def test_places_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told by their own names, before anything is made there."""

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted", str(tmp_path / "tmp1234"))

    (tmp_path / "there").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "lost").symlink_to(tmp_path / "nowhere")
    for name in ("there", "new/deep"):
        require_writable_folder(tmp_path / name)
    for name in ("file", "file/deep", "lost/deep"):
        with pytest.raises(ValueError, match="expected --work to be a folder, got a file: "):
            require_writable_folder(tmp_path / name, "--work")
    monkeypatch.setattr(os, "mkdir", refuse)
    for name, can in (("there", "files can be written"), ("new/deep", "a folder can be made")):
        message = f"expected --out where {can}, got {tmp_path / name} (Operation not permitted)"
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            require_writable_folder(tmp_path / name)
        with pytest.raises(ValueError, match=f"expected --out where {can}, got"):
            destination(tmp_path / name / "x.json", tmp_path / "source")
    assert {path.name for path in tmp_path.iterdir()} == {"there", "file", "lost"}
