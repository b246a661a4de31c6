"""Files replaced as a whole, leftovers of killed processes, checks, locks, and a full disk."""

import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from resultant._core import files, tensor_files
from resultant._core.files import lock_folder, replacing, write_text
from resultant.classes.statistics import ClassStatistics
from resultant.features.store import write_store
from resultant.report import style
from small_features import small_features

HEAD = """
import os, sys, time
from pathlib import Path
from resultant._core.files import lock_folder, replacing

path = Path(sys.argv[1])
"""
# Writes half of the file, reports it, and waits.
HALF = """
with replacing(path) as temporary:
    temporary.write_text("half")
    print("half", flush=True)
    time.sleep(600)
"""
# The child closes its copy of the descriptor of the lock before os.fork returns.
HOLDER = """
with lock_folder(path):
    print("held", flush=True)
    if os.fork() == 0:
        print(os.getpid(), flush=True)
    time.sleep(60)
"""


@contextmanager
def running(program: str, path: Path, line: str) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that has printed the line and waits."""
    call = [sys.executable, "-c", HEAD + program, str(path)]
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == f"{line}\n"
        try:
            yield child
        finally:
            child.kill()


def test_leftovers_of_the_dead_are_removed_and_of_the_living_kept(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "a.b"
    with running(HALF, path, "half") as killed, running(HALF, other, "half") as elsewhere:
        pass
    with running(HALF, path, "half") as alive:
        write_text(path, "whole")
        names = [p.name for p in tmp_path.iterdir()]
        assert not [name for name in names if f"-{killed.pid}-" in name]
        # A living process still writes the same file, and the other file was not written again.
        for child in (alive, elsewhere):
            assert [name for name in names if f"-{child.pid}-" in name]
    write_text(path, "again")
    write_text(other, "other")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "a.b"]
    assert path.read_text() == "again"


def test_others_files_are_kept(tmp_path: Path) -> None:
    """Folders of other machines, folders of other names, and files that are being written; a
    leftover with our own number is that of a restarted container."""
    gone, start = 2**40, f".a.{platform.node()}-"
    names = [f".a.elsewhere-{gone}-x.tmp", f"{start}{gone}-x.txt", f"{start}x.tmp", f"a.{gone}.tmp"]
    for name in (*names, f"{start}{gone}-x.tmp", f"{start}{os.getpid()}-x.tmp"):
        (tmp_path / name).mkdir()
    files.clean_folder(tmp_path, "a")
    assert sorted(os.listdir(tmp_path)) == sorted(names)
    files.clean_folder(tmp_path / "nowhere", "a")
    with replacing(tmp_path / "a") as temporary:
        temporary.write_text("whole")
        files.clean_folder(tmp_path)
    assert (tmp_path / "a").read_text() == "whole"


def test_an_error_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the writer, or when the file is renamed."""
    path = tmp_path / "new" / "a"
    write_text(path, "old")

    def broken() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="full"):
        broken()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        write_text(path, "new")
    assert path.read_text() == "old" and os.listdir(path.parent) == ["a"]


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    """Files whose names another user can guess lead elsewhere."""
    victim, path = tmp_path / "victim", tmp_path / "a"
    victim.write_text("precious")
    for name in (".a.tmp", f".a.{platform.node()}-{os.getpid()}.tmp"):
        (tmp_path / name).symlink_to(victim)
    write_text(path, "new")
    assert victim.read_text() == "precious" and path.read_text() == "new"
    with replacing(path) as temporary:
        assert temporary.parent.stat().st_mode & 0o777 == 0o700


def test_synced_before_and_after_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The content, then the rename, then the folder that holds the name."""
    events: list[str] = []
    fsync, replace = os.fsync, os.replace

    def traced(number: int) -> None:
        events.append("sync " + Path(os.readlink(f"/proc/self/fd/{number}")).name)
        fsync(number)

    monkeypatch.setattr(os, "replace", lambda a, b: (events.append("rename"), replace(a, b)))
    monkeypatch.setattr(os, "fsync", traced)
    write_text(tmp_path / "a", "new")
    assert events == ["sync a", "rename", f"sync {tmp_path.name}"]


def test_rights_of_a_new_file(tmp_path: Path) -> None:
    """Also if a writer creates its own file, which only its owner may read."""
    path, plain = tmp_path / "a", tmp_path / "plain"
    plain.write_text("")
    with replacing(path) as temporary:
        temporary.unlink()
        temporary.touch(0o600)
    assert path.stat().st_mode == plain.stat().st_mode


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    """Root would replace a device or a pipe by a file."""
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")
    for path, expected in (
        (tmp_path, f"expected a file to write, got the folder {tmp_path}"),
        (tmp_path / "no" / "a", f"expected a folder to write a in, got {tmp_path / 'no'}"),
        (tmp_path / "file" / "a", f"expected a folder to write a in, got {tmp_path / 'file'}"),
        (tmp_path / "pipe", f"got the device or pipe {tmp_path / 'pipe'}"),
        (Path(os.devnull), f"got the device or pipe {os.devnull}"),
    ):
        with pytest.raises(OSError, match=re.escape(expected)), replacing(path):
            raise AssertionError("not reached")
    assert (tmp_path / "pipe").is_fifo() and Path(os.devnull).is_char_device()


def test_folders_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the folder of the option; nothing is created."""

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted", str(tmp_path / "tmp1234"))

    (tmp_path / "old").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "lost").symlink_to(tmp_path / "nowhere")
    for name in ("old", "new/deep"):
        files.require_writable_folder(tmp_path / name)
    for name in ("file", "file/deep", "lost/deep"):
        with pytest.raises(ValueError, match="expected --out to be a folder, got a file: "):
            files.require_writable_folder(tmp_path / name)
    monkeypatch.setattr(os, "mkdir", refuse)
    for name, can in (("old", "files can be written"), ("new/deep", "a folder can be made")):
        message = f"expected --out where {can}, got {tmp_path / name} (Operation not permitted)"
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            files.require_writable_folder(tmp_path / name)
    assert {path.name for path in tmp_path.iterdir()} == {"old", "file", "lost"}


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path: Path) -> None:
    """A child of the killed process, such as a data loader, may still be alive."""
    pytest.importorskip("fcntl")
    with running(HOLDER, tmp_path, "held") as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        who = f"in use by process {holder.pid} on {platform.node()}; wait"
        rule = f"that no other training writes to, got .*, {who}"
        with pytest.raises(ValueError, match=rule), lock_folder(tmp_path):
            pass
        assert [path.name for path in tmp_path.iterdir()] == [files.LOCK]
        # Other ranks of the job that holds the lock.
        with lock_folder(tmp_path, rank=1):
            pass
        holder.kill()
        holder.wait()
        os.kill(child, 0)
        assert (tmp_path / files.LOCK).exists()
        with lock_folder(tmp_path):
            assert (tmp_path / files.LOCK).read_text().startswith(f"process {os.getpid()} on ")
        os.kill(child, signal.SIGKILL)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [38, 95])
def test_a_file_system_without_locks(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every job is let in, as on some network disks."""

    def unsupported(*_: object) -> None:
        raise OSError(number, "Not supported")

    with lock_folder(tmp_path):
        monkeypatch.setattr("fcntl.flock", unsupported)
        with lock_folder(tmp_path):
            pass
        monkeypatch.undo()


resource = pytest.importorskip("resource")


@contextmanager
def no_room(size: int) -> Iterator[None]:
    """Limit files to ``size`` bytes, as on a full disk; Python ignores the signal."""
    usual, compiled = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, usual[1]))
    # Python would keep a part of a compiled module.
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
        sys.dont_write_bytecode = compiled


TENSORS: dict[str, Callable[[Path], None]] = {
    "checkpoint": lambda path: tensor_files.save(path, {"x": torch.zeros(10_000)}, {}),
    "statistics": lambda path: ClassStatistics(100, 100).save(path),
    "features": lambda path: write_store(path, small_features()),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_tensors(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_text("old")
    message = f"^{re.escape(f'expected to write all of {path}, got: ')}.*too large"
    with pytest.raises(OSError, match=message), no_room(1000):
        TENSORS[kind](path)
    assert path.read_text() == "old" and os.listdir(tmp_path) == [path.name]
    TENSORS[kind](path)
    assert path.stat().st_size > 1000


@pytest.mark.slow
def test_figures(tmp_path: Path) -> None:
    """Also without room for a header, where matplotlib would fail on exit."""
    figures = pytest.importorskip("matplotlib.figure")
    path = tmp_path / "a.pdf"
    path.write_text("old")
    with style.style():
        figure = figures.Figure()
        figure.subplots().plot([1, 2], [3, 4])
    for size in (0, 1000):
        message = re.escape(f"too large: '{path}'")
        with pytest.raises(OSError, match=message), no_room(size):
            style.save(figure, tmp_path / "a")
        assert path.read_text() == "old" and os.listdir(tmp_path) == [path.name]
