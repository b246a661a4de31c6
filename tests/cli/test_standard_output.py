"""Standard output holds what a command comes to; how far it is goes to standard error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from resultant.cli import main as cli
from resultant.features.store import write_store
from resultant.report import analysis_page as content
from small_features import small_features

pytest.importorskip("matplotlib")
pytest.importorskip("tyro")


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["--help"], ["verify", "--only", "leading-gain"]])
def test_full_disk(words: list[str], tmp_path: Path) -> None:
    """Where there is no room is told, also of what is printed at the end of the work."""
    call = [sys.executable, "-m", "resultant", *words]
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            call, stdout=full, stderr=subprocess.PIPE, env=environment, cwd=tmp_path
        )
    assert done.returncode == 1
    assert done.stderr == b"resultant: No space left on device (standard output)\n"


def test_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in ``resultant analyze x.safetensors > summary.txt``: ten lines there, and no other."""
    monkeypatch.setattr(content, "drawings", lambda *_: [])
    monkeypatch.setattr("resultant.report.comparison.drawings", lambda *_: [])
    monkeypatch.setattr("resultant._core.chunks.HELD_BYTES", 1)
    monkeypatch.chdir(tmp_path)
    write_store("z.safetensors", small_features())
    for call, first, steps in (
        (["analyze", "z.safetensors"], "use ", ["projection: statistics", "projection: fit"]),
        (["compare", "z.safetensors", "z.safetensors"], "better ", ["A: projection: statistics"]),
    ):
        assert cli.main(call) == 0
        shown = capsys.readouterr()
        lines = shown.out.splitlines()
        assert lines[0].startswith(first) and lines[-1].startswith("report ")
        assert not any(line.startswith(" ") for line in lines)
        assert all(f" s  {step}\n" in shown.err for step in steps)


def test_features_and_probes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("resultant.cli.progress.SILENCE", -1.0)
        write_store(tmp_path / "z.safetensors", small_features())
        call = ["probe", str(tmp_path / "z.safetensors"), "--device", "cpu", "--epochs", "2"]
        assert cli.main(call) == 0
    shown = capsys.readouterr()
    assert shown.err == "probes: 50.0 %\nprobes: 100.0 %\n"
    assert shown.out.startswith("┏") and "probes" not in shown.out
