"""Files and folders replaced as a whole, leftovers of killed processes, checks before writing."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from resultant._core.files import (
    remove_leftovers,
    replacing,
    replacing_folder,
    require_writable_folder,
    temporary_name,
    write_text,
)

# Writes half of the file, reports it, and waits.
HALF = {
    "file": """
with replacing(path) as temporary:
    temporary.write_text("half")
    wait()
""",
    "folder": """
with replacing_folder(path) as temporary:
    temporary_name(path, "old").mkdir()
    (temporary / "a.txt").write_text("half")
    wait()
""",
}
BEFORE = """
import sys, time
from pathlib import Path
from resultant._core.files import replacing, replacing_folder, temporary_name

def wait():
    print("half", flush=True)
    time.sleep(600)

path = Path(sys.argv[1])
"""


def writing(kind: str, path: Path) -> subprocess.Popen[str]:
    """Start a process that waits in the middle of writing."""
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
        with replacing_folder(path) as temporary:
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
        # A living process still writes the same file, and the other file was not written again.
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
    """Files of other machines, whose processes cannot be seen, and files of other names."""
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
    name = temporary_name(path).name.replace(f"{os.getpid()}", f"{2**40}")
    leftover = path.with_name(name)
    leftover.touch()

    def refuse(self: Path, missing_ok: bool = False) -> None:
        if self == leftover:
            raise PermissionError(1, "not yours", str(self))

    monkeypatch.setattr(Path, "unlink", refuse)
    write("file", path, "whole")
    assert path.read_text() == "whole" and leftover.exists()


def test_rights_of_a_new_file(tmp_path: Path) -> None:
    """Also if a writer creates its own file, which only its owner may read."""
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
    """Otherwise root would replace a device by a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path(os.devnull)):
        rule = f"expected a file to write, got the device or pipe {path}"
        with pytest.raises(FileExistsError, match=re.escape(rule)), replacing(path):
            pass
    assert pipe.is_fifo() and Path(os.devnull).is_char_device() and os.listdir(tmp_path) == ["pipe"]


def test_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "a.txt"
    write_text(path, "one\n")
    write_text(path, "two\n")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        write_text(path, "three\n")
    assert path.read_text() == "two\n" and os.listdir(path.parent) == ["a.txt"]


def test_a_folder_takes_its_place_whole(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    with replacing_folder(out) as folder:
        (folder / "x").write_text("1")
        assert not out.exists()

    def interrupted() -> None:
        with replacing_folder(out) as folder:
            (folder / "y").write_text("2")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [p.name for p in out.parent.iterdir()] == ["out"]
    assert [p.name for p in out.iterdir()] == ["x"]


@pytest.mark.parametrize("error", [OSError("busy"), KeyboardInterrupt()])
@pytest.mark.parametrize("last", [2, 3])
def test_an_old_folder_outlives_a_failed_rename(
    error: BaseException, last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new folder cannot be renamed; with ``last`` = 3 the old one cannot be restored either."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "x").write_text("old")
    rename, calls = os.rename, []

    def failing(a: Path, b: Path) -> None:
        calls.append(a)
        if 2 <= len(calls) <= last:
            raise error
        rename(a, b)

    def replaced() -> None:
        with replacing_folder(out) as folder:
            (folder / "x").write_text("new")

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(type(error)):
        replaced()
    (kept,) = tmp_path.iterdir()
    assert (kept / "x").read_text() == "old" and (kept == out) == (last == 2)
    replaced()
    assert (out / "x").read_text() == "new"


@pytest.mark.parametrize("there", [False, True])
def test_names_of_a_killed_process_of_the_same_number(there: bool, tmp_path: Path) -> None:
    """As in a restarted container; a process killed between two renames left the only copy."""
    out = tmp_path / "out"
    left = [temporary_name(out), temporary_name(out, "old"), *([out] if there else [])]
    for folder in left:
        folder.mkdir()
        (folder / "x").write_text(folder.name)

    def interrupted() -> None:
        with replacing_folder(out) as folder:
            assert not list(folder.iterdir())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert (out / "x").read_text() == (out.name if there else left[1].name)
    for folder in left[:2]:
        folder.mkdir()
        (folder / "x").write_text("left")
    with replacing_folder(out) as folder:
        (folder / "x").write_text("new")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert (out / "x").read_text() == "new"


def test_a_link_to_a_folder_stays(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with replacing_folder(tmp_path / "link") as folder:
        (folder / "x").write_text("1")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real" / "x").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "real"]


@pytest.mark.parametrize("replace", [False, True])
def test_folders_that_cannot_be_written(
    replace: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the folder of the option; nothing is created."""

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted", str(tmp_path / "tmp1234"))

    (tmp_path / "old").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "lost").symlink_to(tmp_path / "nowhere")
    for name in ("old", "new/deep"):
        require_writable_folder(tmp_path / name, replace=replace)
    for name in ("file", "file/deep", "lost/deep"):
        with pytest.raises(ValueError, match="expected --work to be a folder, got a file: "):
            require_writable_folder(tmp_path / name, "--work", replace=replace)
    monkeypatch.setattr(os, "mkdir", refuse)
    existing = "a folder can be made" if replace else "files can be written"
    for name, can in (("old", existing), ("new/deep", "a folder can be made")):
        message = f"expected --out where {can}, got {tmp_path / name} (Operation not permitted)"
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            require_writable_folder(tmp_path / name, replace=replace)
    assert {path.name for path in tmp_path.iterdir()} == {"old", "file", "lost"}


def test_a_mount_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_mount", lambda path: path == tmp_path)
    require_writable_folder(tmp_path)
    with pytest.raises(ValueError, match="expected --out within a mounted folder, got the mount"):
        require_writable_folder(tmp_path, replace=True)
