"""Settings, schedules, jobs and records of runs, and refused values."""

import importlib.util
import math
import re
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from resultant.classes import rule
from resultant.training import config
from resultant.training.config import Run, TrainConfig
from resultant.training.job import Job
from resultant.training.records import append, read_lines


def test_schedules() -> None:
    for warmup in (0, 5):
        settings = TrainConfig(warmup=warmup)
        for epoch in range(warmup, 90):
            part = (epoch - warmup + 1) / (90 - warmup + 1)
            expected = 0.05 * (1 + math.cos(math.pi * part))
            assert settings.rate(epoch) == pytest.approx(expected, rel=1e-13)
        rates = [settings.rate(epoch) for epoch in range(warmup)]
        assert rates == pytest.approx([0.02, 0.04, 0.06, 0.08, 0.1][:warmup])
    steps = TrainConfig(schedule="step", epochs=400, warmup=10, milestones=(0.9, 0.95))
    rates = [steps.rate(epoch) for epoch in (9, 10, 359, 360, 379, 380, 399)]
    assert rates == pytest.approx([0.1, 0.1, 0.1, 0.01, 0.01, 0.001, 0.001])


CONTRASTIVE = partial(TrainConfig, objective="contrastive", classification_view=False)
JOB = partial(Job, config=TrainConfig(), runs=(Run(),), out=Path("out"))
# Settings that are refused, and the fact in the message.
REFUSED: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (TrainConfig, {"epochs": 0}, "epochs >= 1, got 0"),
    (TrainConfig, {"temperature": 1e-12}, "temperature >= 7.62939453125e-06, got 1e-12"),
    (TrainConfig, {"momentum": 1.0}, "momentum < 1, got 1.0"),
    (TrainConfig, {"alpha": "1"}, "alpha to be a finite number, got '1'"),
    (CONTRASTIVE, {"contrastive_weight": 0.0}, "contrastive_weight > 0 for the contrastive obj"),
    (
        TrainConfig,
        {"contrastive_weight": 0.0, "alpha": 0.0},
        "contrastive_weight or alpha > 0 for the joint objective, got 0",
    ),
    (TrainConfig, {"warmup": 90}, r"warmup in \[0, 90\), fewer than epochs, got 90"),
    (TrainConfig, {"milestones": (0.8, 0.8)}, r"milestones to ascend, got \(0.8, 0.8\)"),
    (TrainConfig, {"leave_out": 1}, "leave_out to be True or False, got 1"),
    (TrainConfig, {"classifier_views": 3}, r"classifier_views to be one of \(1, 2\), got 3"),
    (CONTRASTIVE, {"classifier_views": 1}, "only in joint .* got it with no classifier"),
    (TrainConfig, {"classifier_views": 1}, "got it with a third view"),
    (TrainConfig, {"architecture": 32}, "architecture to be a name, got 32"),
    (TrainConfig, {"pretrained": True, "weights": "a.pth"}, r"pretrained or .* both: a\.pth"),
    (TrainConfig, {"mean": (0.5, 0.5)}, r"mean to be three numbers, std > 0, got \(0.5, 0.5\)"),
    (Run, {"realization": "exact"}, "realization to be one of .* got 'exact'"),
    (Run, {"seed": 99999999999999999999}, "seed < 4294967296, got 99999999999999999999"),
    (JOB, {"runs": ()}, "one run or more, got none"),
    (JOB, {"test_every": 0}, "test_every >= 1, got 0"),
    (JOB, {"runs": (Run(), Run("angular"), Run())}, "different runs, got native-seed0 twice"),
    (Run, {"seed": True}, "seed to be an integer, got True"),
]


@pytest.mark.parametrize(("make", "changes", "message"), REFUSED)
def test_refused(make: Callable[..., Any], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**changes)


def test_runs_and_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of runs; the precision follows the device."""
    assert Run("angular", 0.5, 3).name == "angular-beta0.5-seed3"
    assert Run("native", 0.5).name == "native-seed0"
    assert Run(seed=2**32 - 1).seed == 2**32 - 1
    assert config.REALIZATIONS == rule.REALIZATIONS
    job = Job(TrainConfig(), (Run(),), tmp_path)
    assert job.on(torch.device("cuda")) is job
    assert job.on(torch.device("cpu")).config == TrainConfig(precision="float32")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="expected tensorboard: pip install tensorboard"):
        Job(TrainConfig(), (Run(),), tmp_path, log="tensorboard")


def test_append_replaces_records_of_the_same_run(tmp_path: Path) -> None:
    def record(rate: float, **more: Any) -> dict[str, Any]:
        return {"run": "native-seed0", "config": asdict(TrainConfig(learning_rate=rate)), **more}

    path = tmp_path / "records.jsonl"
    append(path, [record(0.1, loss=1.0), record(0.2, loss=2.0)])
    # A file of an earlier version has settings of other recipes, and may lack later ones.
    earlier = record(0.1, loss=3.0)
    earlier["config"] |= {"imbalance": 100.0, "fuse": True}
    del earlier["config"]["leave_out"]
    append(path, [earlier])
    assert [r["loss"] for r in read_lines(path)] == [2.0, 3.0]
    path.write_text(path.read_text() + '{"run": 1}\n')
    with pytest.raises(ValueError, match=rf"expected a record at {re.escape(str(path))}:3, got"):
        read_lines(path)
