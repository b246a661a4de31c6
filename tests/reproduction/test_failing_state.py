"""Plans with runs that cannot be trained: the other runs have records, and failures are
reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from resultant._core.validation import DivergedError
from resultant.training.config import Run
from resultant.training.records import read_lines
from resultant_reproduction import run
from resultant_reproduction.plan import Plan, PlannedJob, missing
from resultant_reproduction.records import Records
from tiny_cifar import tiny_cifar, tiny_config
from training_records import left_by

DATA = tiny_cifar(size=4)
# So strong that class temperatures are not positive.
HOPELESS = Run("temperature", 30.0, 0)


def planned(name: str, runs: Sequence[Run], epochs: int = 1, dim: int = 8) -> PlannedJob:
    """Without frozen summaries, which take their time."""
    return PlannedJob(name, tiny_config(epochs=epochs, dim=dim), tuple(runs), analyzed=())


def put(patch: pytest.MonkeyPatch, *jobs: PlannedJob) -> None:
    """These jobs in the place of the plan power."""
    small = Plan("power", "", (0,), lambda seeds: iter(jobs))
    patch.setattr(run, "plan", lambda name: small)
    patch.setattr(run, "load_cifar", lambda name, root: DATA)


def call(folder: Path, **options: Any) -> tuple[int, list[str]]:
    """Return the number of jobs left and the reported lines."""
    messages: list[str] = []
    left = run.run_plan(
        "power", folder, folder / "out", folder, "cpu", say=messages.append, **options
    )
    return left, messages


def trained(folder: Path) -> list[str]:
    return [record["run"] for record in read_lines(folder / "power.jsonl")]


@pytest.mark.slow
def test_a_run_that_cannot_be_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other runs of the job and later jobs have records, and a second call trains none of them."""
    put(monkeypatch, planned("bad", (HOPELESS, Run())), planned("good", (Run(),), dim=9))
    left, text = call(tmp_path)
    assert left == 1 and trained(tmp_path) == ["native-seed0", "native-seed0"]
    failed = [line for line in text if "failed: expected target gains > 0" in line]
    assert failed[0].startswith("bad, temperature-beta30-seed0, native-seed0: ")
    assert failed[0].endswith("; now in 2 parts")
    assert failed[1].startswith("bad, temperature-beta30-seed0: ") and len(failed) == 2
    assert text[-1] == "power: incomplete records: bad"
    before = (tmp_path / "power.jsonl").read_bytes()
    left, text = call(tmp_path)
    assert left == 1 and (tmp_path / "power.jsonl").read_bytes() == before
    assert text[0] == "power: 1 of 2 jobs have their records" and text[-1].endswith(": bad")


@pytest.mark.slow
def test_a_job_that_was_trained_without_gradients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job stays incomplete at every call once gradients are planned."""

    def job(epochs: Sequence[int]) -> PlannedJob:
        return replace(planned("one", (Run(),), epochs=2), gradient_epochs=tuple(epochs))

    put(monkeypatch, job(()))
    assert call(tmp_path)[0] == 0
    put(monkeypatch, job((1, 2)))
    for _ in range(2):
        left, text = call(tmp_path)
        assert left == 1 == len(missing([job((1, 2))], Records.read(tmp_path)))
        assert any("one, native-seed0: failed: expected" in line for line in text)
        assert text[-1] == "power: incomplete records: one"


RUNS = (Run("native"), Run("angular"), Run("angular", 0.0, 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "parts"),
    [
        (DivergedError("expected a finite loss, got nan"), [3, 1, 2, 1, 1]),
        (torch.OutOfMemoryError("out of memory"), [3]),
        (OSError("disk full"), [3]),
    ],
)
def test_a_job_that_fails(
    error: Exception, parts: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Diverged runs are trained by kind and then by seed, others not; the next job is trained."""
    put(monkeypatch, *(planned(f"{dim}", RUNS, dim=dim) for dim in (9, 10)))
    begun: list[tuple[str, int]] = []

    def failing(job: PlannedJob, *args: Any, **options: Any) -> list[dict[str, Any]]:
        begun.append((job.name, len(job.runs)))
        if job.name == "9" and RUNS[2] in job.runs:
            raise error
        return [
            {**record, "run": run.name, "whole_seconds": 1.0}
            for run, record in zip(job.runs, left_by(job, "power"), strict=True)
        ]

    monkeypatch.setattr(run, "run_job", failing)
    left, text = call(tmp_path)
    assert left == 1 and begun == [*(("9", n) for n in parts), ("10", 3)]
    assert len(trained(tmp_path)) == (5 if len(parts) > 1 else 3)
    assert text[-1] == "power: incomplete records: 9"
    assert any(f": failed: {error}" in line for line in text)
