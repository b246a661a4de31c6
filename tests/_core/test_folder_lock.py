"""Locks of folders: one job at a time, and a killed job leaves the folder free."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from resultant._core.files import LOCK, lock_folder

pytest.importorskip("fcntl")

HOLDER = """
import os, sys, time
from pathlib import Path
from resultant._core.files import lock_folder

with lock_folder(Path(sys.argv[1])):
    print("held", flush=True)
    if os.fork() == 0:
        # From the child, which closes its copy of the lock's descriptor before os.fork returns.
        print(os.getpid(), flush=True)
    time.sleep(60)
"""


@contextmanager
def held(out: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Yield another process that holds the lock, and the number of a running child of it."""
    call = [sys.executable, "-c", HOLDER, str(out)]
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        child = int(holder.stdout.readline())
        assert child > 1
        try:
            yield holder, child
        finally:
            holder.kill()
            os.kill(child, signal.SIGKILL)


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path: Path) -> None:
    """A child of the killed process, such as a data loader, may still be alive."""
    with held(tmp_path) as (holder, child):
        who = f"in use by process {holder.pid} on {platform.node()}; wait"
        rule = f"that no other training writes to, got .*, {who}"
        with pytest.raises(ValueError, match=rule), lock_folder(tmp_path):
            pass
        assert [path.name for path in tmp_path.iterdir()] == [LOCK]
        # Other ranks of the job that holds the lock.
        with lock_folder(tmp_path, rank=1):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        os.kill(child, 0)
        assert (tmp_path / LOCK).exists()
        with lock_folder(tmp_path):
            assert (tmp_path / LOCK).read_text().startswith(f"process {os.getpid()} on ")
    assert not list(tmp_path.iterdir())


def test_the_same_process_is_refused(tmp_path: Path) -> None:
    """Every name of the folder is refused, and the first lock is still held."""
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "out")
    with lock_folder(tmp_path / "out"):
        for again in (tmp_path / "out", tmp_path / "link"):
            with pytest.raises(ValueError, match="in use by this process"), lock_folder(again):
                pass
        assert (tmp_path / "out" / LOCK).exists()
    with lock_folder(tmp_path / "out"):
        pass
    assert not list((tmp_path / "out").iterdir())


def test_a_folder_is_free_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), lock_folder(tmp_path / "new"):
        raise KeyboardInterrupt
    assert not list((tmp_path / "new").iterdir())


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
