"""Jobs that are refused, and the order of their runs."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

from resultant.training.config import Run
from resultant.training.job import Job, Progress
from tiny_job import TWO, config


def test_runs_of_one_seed_are_neighbours(tmp_path: Path) -> None:
    job = Job(config(), (Run(seed=1), Run("angular"), Run("angular", seed=1), Run()), tmp_path)
    assert [run.seed for run in job.runs] == [0, 0, 1, 1]


def test_precision_of_a_device(tmp_path: Path) -> None:
    job = Job(config(precision="bfloat16"), TWO, tmp_path)
    assert job.on(torch.device("cuda")) is job
    assert job.on(torch.device("cpu")).config == config(precision="float32")


def test_without_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="expected tensorboard: pip install tensorboard"):
        Job(config(), TWO, tmp_path / "out", tensorboard=True)
    assert not (tmp_path / "out").exists()


def test_progress_of_a_continued_job() -> None:
    progress = Progress(2, 8, 30.0, 100.0, before=2)
    assert progress.seconds_left == 90.0
    assert progress.resumed == "continues after epoch 2/10"
    assert Progress(0, 0, 0.0, 0.0, before=10).resumed == "already trained to epoch 10/10"
