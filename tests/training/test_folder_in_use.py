"""One job at a time in a folder, and one that was killed leaves it free."""

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

from resultant._core import distributed
from resultant.training import checkpoints as job_files
from resultant.training.checkpoints import IN_USE, lock_folder
from resultant.training.cifar import train_cifar
from resultant.training.job import Job
from tiny_job import DATA, TWO, config, metrics

pytest.importorskip("fcntl")

HOLDER = """
import os, sys, time
from pathlib import Path
from resultant.training.checkpoints import lock_folder

with lock_folder(Path(sys.argv[1])):
    print("held", flush=True)
    if sys.argv[2:] == ["fork"]:
        child = os.fork()
        if child:
            print(child, flush=True)
    time.sleep(60)
"""


@contextmanager
def held(out: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Another process at work in the folder."""
    call = [sys.executable, "-c", HOLDER, str(out), *words]
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        try:
            yield holder
        finally:
            holder.kill()


def test_a_second_job_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the first is at work, and no more once it was killed."""
    job = Job(config(epochs=1), TWO, tmp_path)
    with held(tmp_path) as holder:
        who = f"in use by process {holder.pid} on {platform.node()}; wait"
        with pytest.raises(ValueError, match=f"that no other training writes to, got .*, {who}"):
            train_cifar(job, DATA)
        assert [path.name for path in tmp_path.iterdir()] == [IN_USE]
        # The other processes of torchrun are those of the first one.
        monkeypatch.setattr(distributed, "rank", lambda: 1)
        with lock_folder(tmp_path):
            pass
        monkeypatch.undo()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert (tmp_path / IN_USE).exists()
        train_cifar(job, DATA)
    assert len(metrics(tmp_path)) == len(TWO)
    assert not (tmp_path / IN_USE).exists()


def test_processes_that_live_on_do_not_hold_it(tmp_path: Path) -> None:
    """Those that read images outlive a process that is killed by seconds."""
    with held(tmp_path, "fork") as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        assert child > 1
        try:
            holder.send_signal(signal.SIGKILL)
            holder.wait()
            with lock_folder(tmp_path):
                assert (tmp_path / IN_USE).read_text().startswith(f"process {os.getpid()} on ")
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_folder_is_free_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), lock_folder(tmp_path / "new"):
        raise KeyboardInterrupt
    assert not list((tmp_path / "new").iterdir())


def test_where_there_are_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On some network disks, and on Windows, everyone is let in."""

    def unsupported(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    with held(tmp_path):
        with monkeypatch.context() as patch:
            patch.setattr("fcntl.lockf", unsupported)
            with lock_folder(tmp_path):
                pass
        monkeypatch.setattr(job_files, "fcntl", None)
        with lock_folder(tmp_path):
            pass


def test_the_same_process_is_refused_too(tmp_path: Path) -> None:
    """By whichever name of the folder, and the first still holds it: a lock is the process's."""
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "out")
    with lock_folder(tmp_path / "out"):
        for again in (tmp_path / "out", tmp_path / "link"):
            with pytest.raises(ValueError, match="in use by this process"), lock_folder(again):
                pass
        assert (tmp_path / "out" / IN_USE).exists()
    with lock_folder(tmp_path / "out"):
        pass
    assert not (tmp_path / "out" / IN_USE).exists()
