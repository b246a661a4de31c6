"""Checkpoints of jobs: when they are written, and which are continued or refused."""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from resultant._core import tensor_files
from resultant._core.network_files import CHECKPOINT
from resultant._core.termination import TerminatedError, terminable
from resultant.training import loop
from resultant.training.cifar import train_cifar
from resultant.training.config import Run
from resultant.training.job import Job, Progress
from resultant.training.stack import Stack
from tiny_job import DATA, TWO, config, joint_job, metrics, stop_after


@pytest.fixture
def _forty_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch takes forty seconds."""
    now = 0.0

    def start_epoch(self: Stack, epoch: int, inner: Any = Stack.start_epoch) -> None:
        nonlocal now
        now += 40.0
        inner(self, epoch)

    monkeypatch.setattr(Stack, "start_epoch", start_epoch)
    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: now))


@pytest.mark.slow
@pytest.mark.usefixtures("_forty_seconds")
def test_saved_after_a_minute(tmp_path: Path) -> None:
    """Slow epochs are saved early; stopped there, a job ends as an undisturbed one."""
    run = Run("angular", 0.5)
    whole, broken = (Job(config(epochs=6), (run,), tmp_path / name, 5) for name in "ab")
    seen: list[tuple[int, bool]] = []

    def note(progress: Progress) -> None:
        seen.append((progress.epoch, progress.saved))
        path = whole.out / CHECKPOINT
        epoch = tensor_files.load(path)[1]["epoch"] if path.exists() else 0
        assert (epoch == progress.epoch) == progress.saved

    train_cifar(whole, DATA, on_progress=note)
    # After 80 s, after 160 s, the fifth epoch, and the last.
    assert [epoch for epoch, saved in seen if saved] == [2, 4, 5, 6] and len(seen) == 6
    with pytest.raises(KeyboardInterrupt):
        train_cifar(broken, DATA, on_progress=stop_after(3))
    assert tensor_files.load(broken.out / CHECKPOINT)[1]["epoch"] == 2
    resumed: list[Progress] = []
    train_cifar(broken, DATA, on_progress=resumed.append)
    assert [progress.epoch for progress in resumed] == [0, 1, 2, 3, 4]
    assert resumed[0].resumed == "continues after epoch 2/6" and not resumed[0].saved
    # The seconds of the earlier call do not count towards the minute.
    assert [progress.before + progress.epoch for progress in resumed if progress.saved] == [4, 5, 6]
    assert metrics(broken.out) == metrics(whole.out)
    again: list[Progress] = []
    train_cifar(broken, DATA, on_progress=again.append)
    assert [progress.resumed for progress in again] == ["already trained to epoch 6/6"]


@pytest.mark.slow
def test_checkpoint_from_before_a_setting(whole: Path, tmp_path: Path) -> None:
    """A setting that the checkpoint lacks had the value that is the default."""
    tensors, about = tensor_files.load(whole / CHECKPOINT)
    del about["config"]["estimator"]
    tensor_files.save(tmp_path / CHECKPOINT, tensors, about)
    shutil.copy(whole / "metrics.jsonl", tmp_path)
    assert train_cifar(joint_job(tmp_path), DATA).metrics["native-seed1"]["epoch"] == 4
    for facts in ({"epoch": 0}, {"epoch": 5}, {"seconds": -1.0}):
        tensor_files.save(tmp_path / CHECKPOINT, tensors, about | facts)
        with pytest.raises(ValueError, match=r"expected epochs in \(0, 4\] and their seconds in "):
            train_cifar(joint_job(tmp_path), DATA)
    with pytest.raises(ValueError, match=r"another in its config: estimator proco"):
        train_cifar(joint_job(tmp_path, estimator="mle"), DATA)


@pytest.mark.slow
def test_checkpoint_of_another_job_is_refused(whole: Path) -> None:
    job = joint_job(whole)
    images = replace(DATA, train_images=255 - DATA.train_images)
    others: list[tuple[Job, Any, str]] = [
        (joint_job(whole, learning_rate=0.5), DATA, r"its config: learning_rate 0\.02; choose"),
        (replace(job, runs=(*TWO, Run(seed=7))), DATA, r"its runs: .*'beta': 0\.5"),
        (replace(job, stack=1), DATA, "its stack: 12"),
        (job, images, r"its images: \w{64}"),
    ]
    for other, data, got in others:
        rule = r"expected the checkpoint of this job in .*checkpoint\.safetensors, got another in "
        with pytest.raises(ValueError, match=rule + got):
            train_cifar(other, data)
    assert len(metrics(whole)) == 8


@pytest.mark.slow
def test_a_broken_checkpoint(one_epoch_again: Job) -> None:
    """Cut off, empty, or with a flipped bit."""
    path = one_epoch_again.out / CHECKPOINT
    data = path.read_bytes()
    flipped = data[:-100] + bytes([data[-100] ^ 1]) + data[-99:]
    for broken in (b"", data[: len(data) // 2], flipped):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"; choose another folder to start again$"):
            train_cifar(one_epoch_again, DATA)


@pytest.mark.slow
def test_sigterm_saves_the_epoch(whole: Path, tmp_path: Path) -> None:
    """The epoch is finished and saved; a second signal does not wait; the job ends as another."""

    def terminate(progress: Progress, times: int = 1) -> None:
        for _ in range(times if progress.epoch == 1 and not progress.before else 0):
            os.kill(os.getpid(), signal.SIGTERM)

    job = replace(joint_job(tmp_path), checkpoint_every=100)
    with terminable():
        with pytest.raises(TerminatedError, match=r"^$"):
            train_cifar(job, DATA, on_progress=partial(terminate, times=2))
        assert not (tmp_path / CHECKPOINT).exists()
    with terminable(), pytest.raises(TerminatedError, match="saved after epoch 2/4"):
        train_cifar(job, DATA, on_progress=terminate)
    assert tensor_files.load(tmp_path / CHECKPOINT)[1]["epoch"] == 2
    train_cifar(job, DATA)
    assert metrics(tmp_path) == metrics(whole)
