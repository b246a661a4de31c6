"""Files replaced by whole ones, and what killed processes leave of them."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from resultant._core.files import beside, remove_leftovers, replacing
from resultant.report.page import whole_folder

# Writes a half, says so, and waits to be killed.
HALF = {
    "file": """
with replacing(path) as temporary:
    temporary.write_text("half")
    wait()
""",
    "folder": """
from resultant.report.page import whole_folder

with whole_folder(path) as temporary:
    beside(path, "old").mkdir()
    (temporary / "a.txt").write_text("half")
    wait()
""",
}
BEFORE = """
import sys, time
from pathlib import Path
from resultant._core.files import beside, replacing

def wait():
    print("half", flush=True)
    time.sleep(600)

path = Path(sys.argv[1])
"""


def writing(kind: str, path: Path) -> subprocess.Popen[str]:
    """A process in the middle of writing."""
    call = [sys.executable, "-c", BEFORE + HALF[kind], str(path)]
    child = subprocess.Popen(call, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "half\n"
    return child


def end(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.communicate()


def write(kind: str, path: Path, text: str) -> None:
    if kind == "file":
        with replacing(path) as temporary:
            temporary.write_text(text)
    else:
        with whole_folder(path) as temporary:
            (temporary / "a.txt").write_text(text)


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_leftovers_of_the_dead_are_removed_and_of_the_living_kept(
    kind: str, tmp_path: Path
) -> None:
    path, other = tmp_path / "a", tmp_path / "a.b"
    killed, alive, elsewhere = (writing(kind, p) for p in (path, path, other))
    try:
        for child in (killed, elsewhere):
            end(child)
        left = len(list(tmp_path.iterdir()))
        assert left == (3 if kind == "file" else 6)
        write(kind, path, "whole")
        names = [p.name for p in tmp_path.iterdir() if p.name != "a"]
        assert not [name for name in names if f"-{killed.pid}." in name]
        # Another process still writes the same, and nobody has written the other again.
        for child in (alive, elsewhere):
            assert [name for name in names if f"-{child.pid}." in name]
    finally:
        end(alive)
    write(kind, path, "again")
    write(kind, other, "other")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "a.b"]
    assert (path if kind == "file" else path / "a.txt").read_text() == "again"


def test_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write("file", path, "old")

    def broken() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="full"):
        broken()
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["a"]


def test_others_files_are_kept(tmp_path: Path) -> None:
    """Of other machines, whose processes cannot be seen, and whatever has another name."""
    gone = 2**40
    start = f".a.{platform.node()}-"
    names = [f".a.elsewhere-{gone}.tmp", f"{start}{gone}.txt", f"{start}x.tmp", f"a.{gone}.tmp"]
    for name in [*names, f"{start}{gone}.tmp"]:
        (tmp_path / name).touch()
    remove_leftovers(tmp_path / "a")
    assert sorted(os.listdir(tmp_path)) == sorted(names)
    remove_leftovers(tmp_path / "nowhere" / "a")


def test_what_cannot_be_removed_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    leftover = beside(path).with_name(beside(path).name.replace(f"{os.getpid()}", f"{2**40}"))
    leftover.touch()

    def refuse(self: Path, missing_ok: bool = False) -> None:
        if self == leftover:
            raise PermissionError(1, "not yours", str(self))

    monkeypatch.setattr(Path, "unlink", refuse)
    write("file", path, "whole")
    assert path.read_text() == "whole" and leftover.exists()


def test_rights_of_a_new_file(tmp_path: Path) -> None:
    """Also where a writer puts a file of its own in place, which only its owner may read."""
    path, plain = tmp_path / "a", tmp_path / "plain"
    plain.write_text("")
    with replacing(path) as temporary:
        temporary.unlink()
        temporary.touch(0o600)
    assert path.stat().st_mode == plain.stat().st_mode


def test_a_place_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, expected in (
        (tmp_path, f"expected a file to write, got the folder {tmp_path}"),
        (tmp_path / "no" / "a", f"expected a folder to write a in, got {tmp_path / 'no'}"),
        (tmp_path / "file" / "a", f"expected a folder to write a in, got {tmp_path / 'file'}"),
    ):
        with pytest.raises(OSError, match=re.escape(expected)), replacing(path):
            raise AssertionError("not reached")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_devices_and_pipes_are_not_replaced(tmp_path: Path) -> None:
    """A file would take the place of the device, for whoever may put one there."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path(os.devnull)):
        rule = f"expected a file to write, got the device or pipe {path}"
        with pytest.raises(FileExistsError, match=re.escape(rule)), replacing(path):
            pass
    assert pipe.is_fifo() and Path(os.devnull).is_char_device() and os.listdir(tmp_path) == ["pipe"]
