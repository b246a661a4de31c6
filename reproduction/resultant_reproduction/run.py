"""Run a plan: train the runs without records, job by job, and append their records.

An interrupted job continues from its checkpoint, and its records are appended together. A failed
job does not stop the others.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from resultant._core.device import require_device
from resultant._core.validation import DivergedError
from resultant.images.cifar import load_cifar
from resultant.training.config import CIFAR, RESULTS, Run
from resultant.training.image_sets import open_dataset
from resultant.training.records import append
from resultant_reproduction.jobs import OutOfTimeError, Say, run_job
from resultant_reproduction.plan import SECOND_ROUND, PlannedJob, missing, plan, workload
from resultant_reproduction.records import Records, both_rounds, folders


def run_plan(
    name: str,
    data: Path = Path("data"),
    work: Path = Path("out/plans"),
    results: Path = RESULTS,
    device: torch.device | str = "cpu",
    *,
    seeds: Sequence[int] = (),
    jobs: Sequence[str] = (),
    minutes: float | None = None,
    concurrent_jobs: int = 0,
    dry_run: bool = False,
    checkpoint_every: int = 10,
    say: Say = print,
) -> int:
    """Train the runs of a plan without complete records, and append to ``results/NAME.jsonl``;
    return the number of jobs without complete records.

    Records of other plans count, and the packaged ones if ``results`` is the default folder. Two
    calls at once must not write the same file. Networks and checkpoints are in ``work/NAME/JOB``.
    """
    if minutes is not None and not 0 < minutes < math.inf:
        raise ValueError(f"expected minutes > 0 and finite, got {minutes:g}")
    if concurrent_jobs < 0:
        raise ValueError(f"expected concurrent_jobs >= 0, got {concurrent_jobs}")
    planned = plan(name).jobs(seeds or None)
    unknown = set(jobs) - {job.name for job in planned}
    if unknown:
        known = ", ".join(job.name for job in planned)
        raise ValueError(f"expected jobs of {name} ({known}), got {', '.join(sorted(unknown))}")
    chosen = [job for job in planned if not jobs or job.name in jobs]
    places = folders(Path(results))
    records = Records.read(*both_rounds(places))
    left = missing(chosen, records)
    where = f", in {results} or packaged" if len(places) > 1 else ""
    say(f"{name}: {len(chosen) - len(left)} of {len(chosen)} jobs have their records{where}")
    if left:
        say(f"left: {workload(left)}")
    if dry_run:
        for job in chosen:
            rest = missing([job], records)
            done = len(job.runs) - sum(len(part.runs) for part in rest)
            say(f"{job.name}: {done} of {len(job.runs)} records, {workload(rest) or 'done'}")
        return len(left)
    device = require_device(device)
    images = {
        key: load_cifar(key, data) if key in CIFAR else open_dataset(config, data)
        for key, config in {job.config.dataset: job.config for job in left}.items()
    }
    end = math.inf if minutes is None else time.monotonic() + 60 * minutes
    whole = {job.name: job for job in plan(name).jobs()}
    options: dict[str, Any] = {"checkpoint_every": checkpoint_every, "end": end, "say": say}
    options |= {"concurrent_jobs": concurrent_jobs, "store": Path(work) / "store"}

    def train(job: PlannedJob) -> None:
        folder = Path(work) / name / _folder(job, whole[job.name])
        new = run_job(job, images[job.config.dataset], folder, device, **options)
        new = [{**record, "plan": name} for record in new]
        own = both_rounds([Path(results)])[name in SECOND_ROUND]
        path, seconds = own / f"{name}.jsonl", new[0]["whole_seconds"]
        append(path, new)
        say(f"{job.name}: {len(new)} records in {path} after {seconds:.0f} s")
        if missing([job], Records(new)):
            rule = "expected all parts of a record that the plan keeps"
            raise ValueError(f"{rule}, got fewer from {folder}; remove it to train again")

    if not _in_turn(left, train, end, say):
        say(f"{minutes:g} minutes are over; repeat the call to continue")
    remain = missing(chosen, Records.read(*both_rounds(places)))
    if remain:
        say(f"{name}: incomplete records: {', '.join(job.name for job in remain)}")
    return len(remain)


def _in_turn(
    jobs: Sequence[PlannedJob], train: Callable[[PlannedJob], object], end: float, say: Say
) -> bool:
    """Train jobs in turn, diverged jobs in parts; return False if the time is over. At least one
    job is trained up to a checkpoint, also after the end."""
    queue, started = deque(jobs), False
    while queue:
        job = queue.popleft()
        try:
            if started and time.monotonic() > end:
                return False
            train(job)
            started = True
        except OutOfTimeError:
            return False
        except (ValueError, OSError, torch.OutOfMemoryError) as error:
            parts = _split(job) if isinstance(error, DivergedError) else []
            report = f"{job.name}, {', '.join(run.name for run in job.runs)}: failed: {error}"
            say(f"{report}; now in {len(parts)} parts" if parts else report)
            queue.extendleft(reversed(parts))
    return True


def _split(job: PlannedJob) -> list[PlannedJob]:
    """Split a job by the kinds of its runs, or run by run if all are of one kind."""
    kinds: dict[tuple[str, float], list[Run]] = {}
    for run in job.runs:
        kinds.setdefault((run.realization, run.beta), []).append(run)
    parts = [*kinds.values()] if len(kinds) > 1 else [[run] for run in job.runs]
    return [replace(job, runs=tuple(runs)) for runs in parts] if len(parts) > 1 else []


def _folder(job: PlannedJob, whole: PlannedJob) -> str:
    """Return a name for a job or a part of it that depends on the runs only."""
    if job.runs == whole.runs:
        return job.name
    runs = " ".join(sorted(run.name for run in job.runs))
    return f"{job.name}-{hashlib.sha256(runs.encode()).hexdigest()[:12]}"
