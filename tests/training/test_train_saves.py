"""When a job is saved, and what is said where it is taken up again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from resultant._core import tensor_files
from resultant._core.network_files import CHECKPOINT
from resultant.training import hooks
from resultant.training.cifar import train_cifar
from resultant.training.config import Run
from resultant.training.job import Job, Progress
from resultant.training.stack import Stack
from tiny_job import DATA, TWO, config, metrics


@pytest.fixture
def _forty_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is what an epoch takes."""
    now = 0.0

    def start_epoch(self: Stack, epoch: int, inner: Any = Stack.start_epoch) -> None:
        nonlocal now
        now += 40.0
        inner(self, epoch)

    monkeypatch.setattr(Stack, "start_epoch", start_epoch)
    monkeypatch.setattr(hooks, "time", SimpleNamespace(perf_counter=lambda: now))


@pytest.mark.usefixtures("_forty_seconds")
def test_saved_after_a_minute(tmp_path: Path) -> None:
    """Besides every so many epochs; stopped there, it ends as one that nobody disturbed."""
    whole, broken = (Job(config(epochs=6), TWO, tmp_path / name, 5) for name in "ab")
    seen: list[tuple[int, bool]] = []

    def note(progress: Progress) -> None:
        seen.append((progress.epoch, progress.saved))
        path = whole.out / CHECKPOINT
        kept = tensor_files.load(path)[1]["epoch"] if path.exists() else 0
        assert (kept == progress.epoch) == progress.saved

    train_cifar(whole, DATA, on_progress=note)
    # After 80 s, 160 s, the fifth in any case, and the last.
    assert [epoch for epoch, saved in seen if saved] == [2, 4, 5, 6] and len(seen) == 6

    def stop(progress: Progress) -> None:
        if progress.epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_cifar(broken, DATA, on_progress=stop)
    assert tensor_files.load(broken.out / CHECKPOINT)[1]["epoch"] == 2
    resumed: list[Progress] = []
    train_cifar(broken, DATA, on_progress=resumed.append)
    assert [progress.epoch for progress in resumed] == [0, 1, 2, 3, 4]
    assert resumed[0].resumed == "continues after epoch 2/6" and not resumed[0].saved
    # What an earlier call took is no time since its checkpoint.
    assert [progress.before + progress.epoch for progress in resumed if progress.saved] == [4, 5, 6]
    assert metrics(broken.out) == metrics(whole.out)
    for run in TWO:
        left, right = (
            tensor_files.load(j.out / f"{run.name}.safetensors") for j in (whole, broken)
        )
        assert left[1] == right[1] and left[0].keys() == right[0].keys()
        assert all(a.equal(right[0][name]) for name, a in left[0].items())
    again: list[Progress] = []
    train_cifar(broken, DATA, on_progress=again.append)
    assert [progress.resumed for progress in again] == ["already trained to epoch 6/6"]


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_broken_checkpoint(share: float, tmp_path: Path) -> None:
    job = Job(config(epochs=1), TWO, tmp_path)
    train_cifar(job, DATA)
    path = tmp_path / CHECKPOINT
    held = path.read_bytes()
    path.write_bytes(held[: int(share * len(held))])
    message = r"expected a whole safetensors file, got .*; choose another folder to start again$"
    with pytest.raises(ValueError, match=message):
        train_cifar(job, DATA)


def test_runs_in_another_order(tmp_path: Path) -> None:
    runs = Run("native", seed=1), Run("angular", 0.5, 1)
    train_cifar(Job(config(epochs=1), runs, tmp_path), DATA)
    with pytest.raises(ValueError, match="got one with its runs in another order in "):
        train_cifar(Job(config(epochs=1), runs[::-1], tmp_path), DATA)


def test_runs_that_are_not_ours(tmp_path: Path) -> None:
    """Of runs that this version does not know, or whose names are the same, all is told."""
    runs = Run("angular", 0.12345678), Run("angular", 0.5)
    train_cifar(Job(config(epochs=1), runs, tmp_path), DATA)
    others = Run("angular", 0.12345679), runs[1]
    with pytest.raises(ValueError, match=r"got one without angular-beta0\.123457-seed0 and with"):
        train_cifar(Job(config(epochs=1), others, tmp_path), DATA)
    tensors, about = tensor_files.load(tmp_path / CHECKPOINT)
    about["runs"][1]["mood"] = "good"
    tensor_files.save(tmp_path / CHECKPOINT, tensors, about)
    with pytest.raises(ValueError, match=r"and with \{.*'mood': 'good'\} in .*checkpoint"):
        train_cifar(Job(config(epochs=1), runs, tmp_path), DATA)


def test_seconds_of_all_calls(tmp_path: Path) -> None:
    """What an earlier call took is counted once, and one that trains nothing adds nothing."""
    job = Job(config(epochs=2), (Run(),), tmp_path, checkpoint_every=1, concurrent_jobs=2)

    def stop(progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_cifar(job, DATA, on_progress=stop)
    first = tensor_files.load(tmp_path / "checkpoint.safetensors")[1]["seconds"]
    rest = train_cifar(replace(job, concurrent_jobs=1), DATA)
    assert 0 < rest.earlier == first < rest.seconds
    again = train_cifar(replace(job, concurrent_jobs=3), DATA)
    assert again.earlier == again.seconds == rest.seconds
    # Where seconds were added, others were beside it.
    assert again.concurrent_jobs == rest.concurrent_jobs == 2
