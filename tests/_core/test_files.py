"""Files and folders replaced as a whole, leftovers of killed processes, checks before writing."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from resultant._core.files import (
    clean_folder,
    replacing,
    replacing_folder,
    require_writable_folder,
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
    (temporary / "a.txt").write_text("half")
    wait()
""",
}
BEFORE = """
import sys, time
from pathlib import Path
from resultant._core.files import replacing, replacing_folder

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
        assert len(list(tmp_path.iterdir())) == 3
        write(kind, path, "whole")
        names = [p.name for p in tmp_path.iterdir() if p.name != "a"]
        assert not [name for name in names if f"-{killed.pid}-" in name]
        # A living process still writes the same file, and the other file was not written again.
        for child in (alive, elsewhere):
            assert [name for name in names if f"-{child.pid}-" in name]
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
    """Folders of other machines, whose processes cannot be seen, and folders of other names."""
    gone = 2**40
    start = f".a.{platform.node()}-"
    names = [f".a.elsewhere-{gone}-x.tmp", f"{start}{gone}-x.txt", f"{start}x.tmp", f"a.{gone}.tmp"]
    for name in [*names, f"{start}{gone}-x.tmp"]:
        (tmp_path / name).mkdir()
    clean_folder(tmp_path, "a")
    assert sorted(os.listdir(tmp_path)) == sorted(names)
    clean_folder(tmp_path / "nowhere", "a")


def test_files_that_are_being_written_are_kept(tmp_path: Path) -> None:
    with replacing(tmp_path / "a") as temporary:
        temporary.write_text("whole")
        clean_folder(tmp_path)
        clean_folder(tmp_path, "a")
    assert (tmp_path / "a").read_text() == "whole"


def test_what_cannot_be_removed_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    leftover = tmp_path / f".a.{platform.node()}-{2**40}-x.tmp"
    leftover.mkdir()
    rmtree = shutil.rmtree

    def refuse(folder: Path) -> None:
        if folder == leftover:
            raise PermissionError(1, "not yours", str(folder))
        rmtree(folder)

    monkeypatch.setattr(shutil, "rmtree", refuse)
    write("file", path, "whole")
    assert path.read_text() == "whole" and leftover.exists()


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    """Files whose names another user can guess lead elsewhere."""
    victim, path = tmp_path / "victim", tmp_path / "a"
    victim.write_text("precious")
    for name in (".a.tmp", f".a.{platform.node()}-{os.getpid()}.tmp"):
        (tmp_path / name).symlink_to(victim)
    write("file", path, "new")
    assert victim.read_text() == "precious" and path.read_text() == "new"
    with replacing(path) as temporary:
        assert temporary.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_synced_before_and_after_the_rename(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The content, then the rename, then the folder that holds the name."""
    events: list[str] = []
    path, fsync = tmp_path / "a", os.fsync

    def traced(number: int) -> None:
        events.append("sync " + Path(os.readlink(f"/proc/self/fd/{number}")).name)
        fsync(number)

    for name in ("replace", "rename"):
        call = getattr(os, name)
        monkeypatch.setattr(os, name, lambda a, b, f=call: (events.append("rename"), f(a, b)))
    monkeypatch.setattr(os, "fsync", traced)
    write(kind, path, "new")
    content = ["sync a"] if kind == "file" else ["sync a.txt", "sync a"]
    assert events == [*content, "rename", f"sync {tmp_path.name}"]


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
    (kept,) = (file for file in tmp_path.rglob("x") if file.read_text() == "old")
    assert (kept.parent == out) == (last == 2)
    replaced()
    assert os.listdir(tmp_path) == ["out"]
    assert (out / "x").read_text() == "new"


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("process", [os.getpid(), 2**40], ids=["own number", "other number"])
def test_the_only_copy_of_a_killed_process_is_put_back(
    there: bool, process: int, tmp_path: Path
) -> None:
    """The process was killed between two renames; in a restarted container it had our number."""
    out = tmp_path / "out"
    left = tmp_path / f".out.{platform.node()}-{process}-x.tmp"
    for folder in (left / "out", left / "replaced", *([out] if there else [])):
        folder.mkdir(parents=True)
        (folder / "x").write_text(folder.name)

    def interrupted() -> None:
        with replacing_folder(out) as folder:
            assert not list(folder.iterdir())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert os.listdir(tmp_path) == ["out"]
    assert (out / "x").read_text() == ("out" if there else "replaced")


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
        with pytest.raises(ValueError, match="expected --out to be a folder, got a file: "):
            require_writable_folder(tmp_path / name, replace=replace)
    monkeypatch.setattr(os, "mkdir", refuse)
    existing = "a folder can be made" if replace else "files can be written"
    for name, can in (("old", existing), ("new/deep", "a folder can be made")):
        message = f"expected --out where {can}, got {tmp_path / name} (Operation not permitted)"
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            require_writable_folder(tmp_path / name, replace=replace)
    assert {path.name for path in tmp_path.iterdir()} == {"old", "file", "lost"}


def test_a_mount_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    require_writable_folder(Path(), replace=True)
    monkeypatch.setattr(Path, "is_mount", lambda path: path == tmp_path)
    require_writable_folder(tmp_path)
    with pytest.raises(ValueError, match="expected --out within a mounted folder, got the mount"):
        require_writable_folder(tmp_path, replace=True)
