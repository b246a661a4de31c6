"""The training loop on a GPU: several stacks at once, and a job that is continued."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from resultant.training.cifar import train_cifar
from resultant.training.config import Run
from resultant.training.job import Job, Progress, Trained
from tiny_job import DATA, config, metrics

RUNS = (Run("native", seed=0), Run("angular", 0.5, 1), Run("temperature", 0.5, 2))


@pytest.fixture(autouse=True)
def _repeatable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the order in which the samples of a class are added may differ, in float64."""
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)


def losses(out: Path) -> dict[tuple[str, int], float]:
    return {(row["run"], row["epoch"]): row["loss"] for row in metrics(out)}


def learned(trained: Trained) -> dict[str, torch.Tensor]:
    """Change of the first layer's weights in training, for each run."""
    from resultant.training.stack import build

    changes = {}
    for run, stack, index in trained.networks():
        start = build(stack.config, [run], None).state_dict()["encoder.conv1.weight"][0]
        changes[run.name] = stack.network.state_dict()["encoder.conv1.weight"][index].cpu() - start
    return changes


@pytest.mark.gpu
def test_stacks_at_once_equal_single_stacks(tmp_path: Path) -> None:
    """Graphs that shared memory by mistake would change each other's results."""
    setting = config(objective="joint", epochs=4)
    together = train_cifar(Job(setting, RUNS, tmp_path / "all", stack=1), DATA, "cuda")
    assert len({stack.stream for stack in together.stacks}) == len(RUNS)
    at_once, weights = losses(tmp_path / "all"), learned(together)
    assert len(at_once) == 4 * len(RUNS)
    for run in RUNS:
        out = tmp_path / run.name
        alone = learned(train_cifar(Job(setting, (run,), out), DATA, "cuda"))[run.name]
        for key, loss in losses(out).items():
            assert at_once[key] == pytest.approx(loss, rel=1e-4), key
        assert (weights[run.name] - alone).norm() <= 1e-2 * alone.norm() > 0


@pytest.mark.gpu
def test_resumes(tmp_path: Path) -> None:
    """Stopped after its second epoch, a job ends as an undisturbed one."""

    def stop(progress: Progress) -> None:
        if progress.epoch == 2:
            raise KeyboardInterrupt

    def job(name: str) -> Job:
        return Job(config(epochs=4), RUNS, tmp_path / name, checkpoint_every=2, stack=2)

    whole = train_cifar(job("whole"), DATA, "cuda")
    with pytest.raises(KeyboardInterrupt):
        train_cifar(job("stopped"), DATA, "cuda", on_progress=stop)
    seen: list[Any] = []
    trained = train_cifar(job("stopped"), DATA, "cuda", on_progress=seen.append)
    assert [(progress.before, progress.epoch) for progress in seen] == [(2, 0), (2, 1), (2, 2)]
    expected = losses(tmp_path / "whole")
    assert expected.keys() == losses(tmp_path / "stopped").keys() and len(expected) == 4 * len(RUNS)
    assert losses(tmp_path / "stopped") == pytest.approx(expected, rel=1e-4)
    for name, a in learned(trained).items():
        b = learned(whole)[name]
        assert (a - b).norm() <= 1e-2 * b.norm() > 0
