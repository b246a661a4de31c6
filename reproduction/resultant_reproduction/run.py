"""Run a plan: train what has no record yet, job by job, and add records with frozen summaries.

A job that was stopped goes on from its checkpoint, and its records are added all at once. One that
fails does not stop the others. Where the packages of the command line are not installed,
``python -m resultant_reproduction.run PLAN`` does what ``resultant reproduce run PLAN`` does.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from resultant._core.device import require_device
from resultant._core.validation import DivergedError
from resultant.analysis import FrozenSpace
from resultant.cli.arguments import DATA_VARIABLE
from resultant.images.cifar import Cifar, load_cifar
from resultant.training.cifar import train_cifar
from resultant.training.config import RESULTS, STACK
from resultant.training.evaluation import CifarFeatures, cifar_features, evaluate_cifar
from resultant.training.job import Job, Progress, Trained
from resultant.training.log import read_metrics
from resultant.training.records import Record, append
from resultant_reproduction.increments import power_diagnostic
from resultant_reproduction.plan import (
    PLANS,
    Pace,
    PlannedJob,
    estimate,
    missing,
    outlook,
    plan,
)
from resultant_reproduction.records import Records, folders
from resultant_reproduction.summary import SPACES, summaries, summarize_state

Say = Callable[[str], object]

# What a trajectory keeps of metrics.jsonl.
TRAJECTORY = (
    "epoch",
    "gain_mean",
    "gain_sd",
    "applied_gain_sd",
    "intercept_drift",
    "gradient_error",
    "mean_gradient_error",
    "increment_error",
    "mean_increment_error",
    "increment_plane",
)


# Of a pace that is a GPU's.
NO_GPU = "; this machine has no GPU and takes far longer"


class OutOfTimeError(Exception):
    """The minutes of a call are over; what was trained is in the checkpoint."""


def run_plan(
    name: str,
    data: Path = Path("data"),
    work: Path = Path("out/plans"),
    results: Path = RESULTS,
    device: torch.device | str = "auto",
    *,
    seeds: Sequence[int] = (),
    jobs: Sequence[str] = (),
    minutes: float | None = None,
    beside: int = 0,
    dry_run: bool = False,
    stack: int = STACK,
    checkpoint_every: int = 10,
    say: Say = print,
) -> int:
    """Train the runs of a plan that lack a record, or a part of it, in the folder ``results``, and
    add theirs to ``results/NAME.jsonl``; how many jobs remain.

    Records of other plans count, and those of an installed package where ``results`` is the usual
    folder: no run that has a whole one is trained again. ``seeds`` are others than planned, and
    ``jobs`` some of the plan; networks and checkpoints go to ``work/NAME/JOB``. A call that was
    killed, or whose ``minutes`` were over, is taken up by the next one. A job that fails is told
    and the others are done; if a run of it diverged, its kinds of runs are trained apart, and then
    its seeds. ``dry_run`` says what would be trained and how long it takes, and does not look for
    images.

    Calls for different plans can share a device, one evaluating while another trains: ``beside``
    says how many others do, so that the times in these records are not taken for the device's own.
    Two calls at once must not write the same file of records: it is read and written anew, and what
    another call added in between would be lost. A job that another call is at is told as failed.
    """
    if minutes is not None and not 0 < minutes < math.inf:
        raise ValueError(f"expected minutes > 0 and finite, got {minutes:g}")
    if beside < 0:
        raise ValueError(f"expected beside >= 0, got {beside}")
    planned = plan(name).jobs(seeds or None)
    unknown = set(jobs) - {job.name for job in planned}
    if unknown:
        known = ", ".join(job.name for job in planned)
        raise ValueError(f"expected jobs of {name} ({known}), got {', '.join(sorted(unknown))}")
    wanted = [job for job in planned if not jobs or job.name in jobs]
    read = folders(Path(results))
    records = Records.read(*read)
    left, pace = missing(wanted, records), Pace.of(records)
    where = f", in {results} or among ours" if len(read) > 1 else ""
    say(f"{name}: {len(wanted) - len(left)} of {len(wanted)} jobs have their records{where}")
    if left:
        slower = "" if pace.device == "CPU" or torch.cuda.is_available() else NO_GPU
        say(f"left: {estimate(left, pace)} ({pace.said()}{slower})")
    if dry_run:
        for line in outlook(wanted, records, pace):
            say(line)
        return len(left)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    device = require_device(device)
    images = _images(left, data)
    end = math.inf if minutes is None else time.monotonic() + 60 * minutes
    whole = {job.name: job for job in plan(name).jobs()}
    options = {"stack": stack, "checkpoint_every": checkpoint_every, "end": end, "beside": beside}

    def train(job: PlannedJob) -> None:
        folder = Path(work) / name / _folder(job, whole[job.name])
        made = run_job(job, images[job.config.dataset], folder, device, say=say, **options)
        made = [{**record, "plan": name} for record in made]
        path, seconds = Path(results) / f"{name}.jsonl", made[0]["whole_seconds"]
        append(path, made)
        say(f"{job.name}: {len(made)} records in {path} after {seconds:.0f} s")
        if missing([job], Records(made)):
            rule = "expected all that the plan keeps of a run"
            raise ValueError(f"{rule}, got less from {folder}; remove it to train again")

    if not _in_turn(left, train, end, say):
        say(f"{minutes:g} minutes are over; the same call goes on from here")
    remain = missing(wanted, Records.read(*read))
    if remain:
        say(f"{name}: without all records: {', '.join(job.name for job in remain)}")
    return len(remain)


def _in_turn(
    jobs: Sequence[PlannedJob], train: Callable[[PlannedJob], object], end: float, say: Say
) -> bool:
    """Train jobs, those that fail in parts where that may help; whether there was time for all.
    Something is trained in any case: after the end as well, up to a checkpoint, where all before
    failed."""
    queue, begun = deque(jobs), False
    while queue:
        job = queue.popleft()
        try:
            if begun and time.monotonic() > end:
                return False
            train(job)
            begun = True
        except OutOfTimeError:
            return False
        except (ValueError, OSError, torch.OutOfMemoryError) as error:
            parts = _apart(job) if isinstance(error, DivergedError) else []
            told = f"{job.name}, {', '.join(run.name for run in job.runs)}: failed: {error}"
            say(f"{told}; now in {len(parts)} parts" if parts else told)
            queue.extendleft(reversed(parts))
    return True


def _apart(job: PlannedJob) -> list[PlannedJob]:
    """A job as several, by the kinds of its runs, or run by run if they are of one kind; none of a
    single run."""
    kinds = list(dict.fromkeys((run.realization, run.beta) for run in job.runs))
    parts = [
        tuple(run for run in job.runs if (run.realization, run.beta) == kind) for kind in kinds
    ]
    if len(parts) == 1:
        parts = [(run,) for run in job.runs]
    return [replace(job, runs=runs) for runs in parts] if len(parts) > 1 else []


def _folder(job: PlannedJob, whole: PlannedJob) -> str:
    """A name for a job or for a part of it: the same for the same runs, and no other's."""
    if job.runs == whole.runs:
        return job.name
    runs = " ".join(sorted(run.name for run in job.runs))
    return f"{job.name}-{hashlib.sha256(runs.encode()).hexdigest()[:12]}"


def _images(jobs: Sequence[PlannedJob], root: Path) -> dict[str, Cifar]:
    """Load the datasets of the jobs, by name."""
    return {name: load_cifar(name, root) for name in {job.config.dataset: None for job in jobs}}


def run_job(
    planned: PlannedJob,
    data: Cifar,
    out: Path,
    device: torch.device | str,
    *,
    stack: int = STACK,
    checkpoint_every: int = 10,
    beside: int = 0,
    end: float = math.inf,
    say: Say = print,
) -> list[Record]:
    """Train a job and evaluate it: one record a run, with a frozen summary where one is read.

    ``job_seconds`` of a record are those of the training loop, ``whole_seconds`` of all; of calls
    that this one continues, those of epochs that were not lost.
    After the ``end``, of the monotonic clock, it stops at the next checkpoint.
    """
    began, said = time.monotonic(), [0.0]

    def watch(progress: Progress) -> None:
        epoch, of = progress.before + progress.epoch, progress.before + progress.epochs
        if not progress.epoch:
            say(f"{planned.name}: {progress.resumed}")
        elif epoch == of or time.monotonic() - said[0] > 15:
            said[0] = time.monotonic()
            say(
                f"{planned.name}: epoch {epoch}/{of}, {progress.views_per_second:,.0f} views/s, "
                f"{progress.seconds_left:.0f} s left"
            )
        if progress.saved and time.monotonic() > end:
            raise OutOfTimeError

    job = Job(
        planned.config,
        planned.runs,
        out,
        checkpoint_every=checkpoint_every,
        gradient_epochs=planned.watched,
        stack=stack,
        concurrent_jobs=beside,
    )
    diagnostic = power_diagnostic if planned.config.family == "power" else None
    trained = train_cifar(job, data, device, watch, diagnostic)
    features = cifar_features(trained, data)
    records: list[Record] = evaluate_cifar(trained, data, features=features)
    by_run = {record["run"]: record for record in records}
    for record in records:
        record["us_a_view"] = 1e6 * trained.seconds / _views(record, trained)
    for name, found in frozen_summaries(features, planned).items():
        by_run[name]["analysis"] = found
    for name, found in last_states(features, trained, planned).items():
        by_run[name]["ended"] = found
    if planned.gradient_epochs:
        for name, found in trajectories(out / "metrics.jsonl", job.gradient_epochs).items():
            by_run[name]["trajectory"] = found
    for record in records:
        record["whole_seconds"] = trained.earlier + time.monotonic() - began
    return records


def _views(record: Record, trained: Trained) -> float:
    config = trained.job.config
    steps = record["train_images"] // config.batch_size
    return len(trained.job.runs) * config.epochs * steps * config.batch_size * config.views


def frozen_summaries(
    features: CifarFeatures, planned: PlannedJob
) -> dict[str, dict[str, dict[str, Any]]]:
    """The frozen summaries of the runs that the plan wants analyzed, by their names."""
    labels, queries = features.labels[features.members].cpu(), features.test_labels.cpu()
    found = {}
    for i, run in enumerate(features.runs):
        if run.realization in planned.analyzed:
            both = {name: features.subset(name, i) for name in SPACES}
            train, test = ({name: pair[k] for name, pair in both.items()} for k in (0, 1))
            found[run.name] = summaries(train, labels, test, queries)
    return found


def last_states(
    features: CifarFeatures, trained: Trained, planned: PlannedJob
) -> dict[str, dict[str, Any]]:
    """All rules at the last state of some runs, by their names: the classes as training left them
    in the bank, and held-out Projection features (sec:same-state-diagnostic)."""
    config = trained.job.config
    labels, queries = features.labels[features.members].cpu(), features.test_labels.cpu()
    found = {}
    for i, (run, stack, place) in enumerate(trained.networks()):
        if run.realization in planned.ended:
            train, test = (x.cpu() for x in features.subset("projection", i))
            space = FrozenSpace(
                *("projection", train, labels, test, queries, None, None),
                *(stack.proco.bank.statistics(place).to("cpu"), config.temperature),
                *(config.estimator, torch.float64),
            )
            found[run.name] = summarize_state(space, config.prior)
    return found


def trajectories(path: Path, epochs: Sequence[int]) -> dict[str, dict[str, list[Any]]]:
    """What metrics.jsonl says of each run at some epochs, None where it is silent; without what it
    says of none."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for values in read_metrics(path):
        if values["epoch"] in epochs:
            rows.setdefault(values["run"], []).append(values)
    return {
        run: {
            name: [values.get(name) for values in own]
            for name in TRAJECTORY
            if any(name in values for values in own)
        }
        for run, own in rows.items()
    }


def parser() -> argparse.ArgumentParser:
    """The options of ``resultant reproduce run`` by the same names; defaults are `run_plan`'s."""
    made = argparse.ArgumentParser(
        prog="python -m resultant_reproduction.run",
        description="Train what a plan has no records of; a call that was stopped is continued.",
        argument_default=argparse.SUPPRESS,
    )
    made.add_argument("name", choices=list(PLANS), metavar="PLAN", help=", ".join(PLANS))
    made.add_argument("--data", type=Path, help="folder of CIFAR")
    made.add_argument("--work", type=Path, help="folder for networks and checkpoints")
    made.add_argument("--results", type=Path, help="folder of records")
    made.add_argument("--device", help="auto, cpu, cuda or cuda:N")
    made.add_argument("--seeds", type=int, nargs="+", help="if not those of the plan")
    made.add_argument("--jobs", nargs="+", metavar="JOB", help="some jobs of it")
    made.add_argument("--minutes", type=float, help="stop at a checkpoint after so long")
    made.add_argument("--beside", type=int, help="other calls on the same device")
    made.add_argument("--dry-run", action="store_true", help="say what there is to do")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """The command line without its packages; 1 if something of the plan is left."""
    given = vars(parser().parse_args(argv))
    given.setdefault("data", Path(os.environ.get(DATA_VARIABLE, "data")))
    try:
        left = run_plan(**given)
    except (ValueError, FileNotFoundError) as error:
        print(f"{parser().prog}: {error}", file=sys.stderr)
        return 2
    return int(left > 0 and "dry_run" not in given)


if __name__ == "__main__":
    sys.exit(main())
