"""The short form of ``python -m torture``, in a process of its own, and its own instruments."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from programs import run_program
from torture.disk import Disk
from torture.watched import Call, Kill, run, supported

KINDS = ("files", "crashes", "resources", "numbers", "soak")

pytestmark = pytest.mark.skipif(not supported(), reason="needs Linux on x86-64 or ARM64")


@pytest.mark.slow
def test_short_form() -> None:
    program = "import runpy; runpy.run_module('torture', run_name='__main__')"
    report, _ = run_program(program, "--short", "--seed", "0")
    without = [line.split(":")[0] for line in report.splitlines() if line.endswith("no failure")]
    assert set(KINDS) <= set(without), report


def work(folder: Path) -> Callable[[], int]:
    """A function that writes a file, syncs it and renames it."""

    def function() -> int:
        with open(folder / "new", "w") as file:
            file.write("content")
            file.flush()
            os.fsync(file.fileno())
        os.replace(folder / "new", folder / "final")
        number = os.open(folder, os.O_RDONLY)
        os.fsync(number)
        return 3

    return function


def folders(tmp_path: Path) -> tuple[Path, Path]:
    out, scratch = tmp_path / "out", tmp_path / "scratch"
    out.mkdir()
    scratch.mkdir()
    return out, scratch


def test_every_file_operation_is_seen(tmp_path: Path) -> None:
    out, scratch = folders(tmp_path)
    calls: list[Call] = []
    end = run(work(out), scratch, lambda call: calls.append(call) or 0)
    assert end.status == 3 and not end.errors
    names = [call.name.removesuffix("at") for call in calls]
    assert names == ["open", "write", "fsync", "rename", "fsync"]
    assert calls[3].paths == (str(out / "new"), str(out / "final"))


def test_an_operation_fails_or_is_the_last(tmp_path: Path) -> None:
    out, scratch = folders(tmp_path)
    end = run(work(out), scratch, lambda call: errno.ENOSPC * (call.name == "write"))
    assert end.traceback and "No space left on device" in end.errors

    def kill(call: Call) -> int:
        if call.name.startswith("rename"):
            raise Kill
        return 0

    assert run(work(out), scratch, kill).status == -signal.SIGKILL
    assert [path.name for path in out.iterdir()] == ["new"]


@pytest.mark.parametrize(
    ("last", "lost", "kept"),
    [
        ("write", {}, {"new": ""}),
        ("rename", {}, {"new": "content"}),
        ("", {"final": "content"}, {"final": "content"}),
    ],
)
def test_power_failure_drops_what_is_not_synced(
    tmp_path: Path, last: str, lost: dict[str, str], kept: dict[str, str]
) -> None:
    """Before the last operation names or contents are lost, after the sync of the folder none."""
    out, scratch = folders(tmp_path)
    disk = Disk(out)

    def watch(call: Call) -> int:
        if last and call.name.startswith(last):
            raise Kill
        return disk(call)

    run(work(out), scratch, watch)
    for names_survive, expected in ((False, lost), (True, kept)):
        after = tmp_path / f"after-{names_survive}"
        disk.survivors(after, names_survive=names_survive)
        assert {path.name: path.read_text() for path in after.iterdir()} == expected
    disk.close()
