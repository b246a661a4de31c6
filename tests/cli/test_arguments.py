"""Checks of the devices and paths that options name."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import torch

from resultant._core import tensor_files
from resultant._core.network_files import find_network
from resultant.cli import main as cli
from resultant.cli.arguments import find_device, refuse_network, require_output_file
from resultant.features.store import write_store
from small_features import small_features


def test_devices() -> None:
    assert find_device("cpu") == torch.device("cpu")
    assert find_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_output_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the input nor a network, in a folder that can be written."""
    source = tmp_path / "a.safetensors"
    tensor_files.save(source, {"x": torch.zeros(1)}, {"config": {}})
    os.link(source, tmp_path / "b.safetensors")
    shutil.copy(source, tmp_path / "c.safetensors")
    for name, message in (
        ("a.safetensors", "expected --out to differ from the input, got"),
        ("b.safetensors", "expected --out to differ from the input, got"),
        ("c.safetensors", "expected --out that is not a network, got the network "),
        ("a.safetensors/x", "expected --out to be a folder, got a file: "),
        ("", "expected a file to write, got the folder "),
    ):
        with pytest.raises((ValueError, OSError), match=message):
            require_output_file(tmp_path / name, source)
    require_output_file(tmp_path / "new" / "folder" / "x", source)
    assert (tmp_path / "new" / "folder").is_dir()

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted", str(tmp_path / "tmp1234"))

    monkeypatch.setattr(os, "mkdir", refuse)
    for name, possible in (("new", "files can be written"), ("deep/er", "a folder can be made")):
        with pytest.raises(ValueError, match=f"expected --out where {possible}, got"):
            require_output_file(tmp_path / name / "x.json", source)


def test_networks_are_not_features(tmp_path: Path) -> None:
    """The error says how to extract features, and names at most five networks."""

    def message(path: Path) -> str:
        with pytest.raises(ValueError, match=r"^expected features, got ") as caught:
            refuse_network(path)
        return str(caught.value)

    refuse_network(tmp_path)
    first = tmp_path / "run" / "0.safetensors"
    tensor_files.save(first, {"x": torch.zeros(1)}, {"config": {}})
    alone = f"got a network: {first}; resultant extract writes its features"
    assert message(tmp_path).endswith(alone) and message(first).endswith(alone)
    write_store(tmp_path / "z.safetensors", small_features())
    assert message(tmp_path).endswith(f"{alone}; to read features, name their file: z.safetensors")
    (tmp_path / "z.safetensors").unlink()
    for i in range(1, 12):
        shutil.copy(first, first.with_name(f"{i}.safetensors"))
        text = message(tmp_path)
        assert f"got {i + 1} networks in the folder {tmp_path}: run/0.safetensors, run/1." in text
        assert text.endswith("; resultant extract writes the features of one of them")
        assert text.count(".safetensors") == min(i + 1, 5)
        assert (f" and {i - 4} more; " in text) == (i > 4)
    with pytest.raises(ValueError, match=r"expected one network .* and 7 more: name one of them$"):
        find_network(tmp_path)


@pytest.mark.parametrize("command", [["analyze"], ["compare", "a", "b"]])
def test_temperatures_are_refused_before_any_work(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for tau in ("0", "-1", "nan", "inf"):
        assert cli.main([*command, "--temperature", tau, "--out", str(tmp_path / "out")]) == 2
        shown = capsys.readouterr()
        got = f"{float(tau):g}"
        assert shown.err == f"resultant: expected --temperature > 0 and finite, got {got}\n"
        assert shown.out == ""
