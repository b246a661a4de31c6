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


def quickly_trained(job: PlannedJob) -> list[dict[str, Any]]:
    """The records of a job without its training."""
    return [
        {**record, "run": run.name, "whole_seconds": 1.0}
        for run, record in zip(job.runs, left_by(job, "power"), strict=True)
    ]


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
def test_seeds_of_a_kind_are_trained_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them diverges."""
    runs = tuple(Run("angular", 0.0, seed) for seed in (0, 1, 2))
    put(monkeypatch, planned("one", runs))
    parts = []

    def diverging(job: PlannedJob, *args: Any, **options: Any) -> list[dict[str, Any]]:
        parts.append([r.seed for r in job.runs])
        if runs[1] in job.runs:
            raise DivergedError(f"expected a finite loss, got nan of {runs[1].name}")
        return quickly_trained(job)

    monkeypatch.setattr(run, "run_job", diverging)
    assert call(tmp_path)[0] == 1 and parts == [[0, 1, 2], [0], [1], [2]]
    assert trained(tmp_path) == [runs[0].name, runs[2].name]


@pytest.mark.slow
def test_other_failures_are_reported_and_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint of other settings is reported, and its folder is left untouched."""
    first, second = (
        planned(name, (Run(), Run("angular", 0.0, 0)), dim=dim)
        for name, dim in (("first", 8), ("second", 9))
    )
    put(monkeypatch, planned("first", first.runs, dim=10))
    call(tmp_path)
    (tmp_path / "power.jsonl").unlink()
    put(monkeypatch, first, second)
    left, text = call(tmp_path)
    assert left == 1 and len(trained(tmp_path)) == 2
    (message,) = (line for line in text if "failed" in line)
    assert message.startswith(
        "first, native-seed0, angular-beta0-seed0: failed: expected the check"
    )
    assert sorted(path.name for path in (tmp_path / "out" / "power").iterdir()) == [
        *("first", "second")
    ]


@pytest.mark.slow
def test_out_of_time_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that fails is not what a call has time for."""
    jobs = [planned("bad", (HOPELESS,)), *(planned(f"{dim}", (Run(),), dim=dim) for dim in (9, 10))]
    put(monkeypatch, *jobs)
    # The first of these ends the training of a job, the second adds its records.
    assert [call(tmp_path, minutes=1e-9)[0] for _ in range(4)] == [3, 2, 2, 1]


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


@pytest.mark.slow
@pytest.mark.parametrize("error", [torch.OutOfMemoryError("out of memory"), OSError("disk full")])
def test_a_machine_that_fails_one_job(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is reported as failed and not trained in parts, and the next job is trained."""
    jobs = [planned(f"{dim}", (Run(), Run("angular")), dim=dim) for dim in (9, 10)]
    put(monkeypatch, *jobs)
    begun = []

    def failing(job: PlannedJob, *args: Any, **options: Any) -> list[dict[str, Any]]:
        begun.append(job.name)
        if job.name == "9":
            raise error
        return quickly_trained(job)

    monkeypatch.setattr(run, "run_job", failing)
    left, text = call(tmp_path)
    assert left == 1 and begun == ["9", "10"]
    assert any(line.endswith(f": failed: {error}") for line in text)
    assert text[-1] == "power: incomplete records: 9"
