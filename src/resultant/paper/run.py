"""Run a plan: train what has no record yet, job by job, and add records with frozen summaries.

A job that was stopped goes on from its checkpoint, and its records are added all at once. Where
the packages of the command line are not installed, ``python -m resultant.paper.run PLAN`` does what
``resultant reproduce run PLAN`` does.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from resultant.data.cifar import Cifar, load_cifar
from resultant.evaluation import CifarFeatures, cifar_features, evaluate_cifar
from resultant.frozen import FrozenSpace
from resultant.paper.increments import power_diagnostic
from resultant.paper.plan import (
    PLANS,
    Pace,
    PlannedJob,
    estimate,
    missing,
    outlook,
    plan,
)
from resultant.paper.records import Records
from resultant.paper.summary import SPACES, summaries, summarize_state
from resultant.records import Record, append
from resultant.train import STACK, Job, Progress, Trained, train_cifar

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


class OutOfTimeError(Exception):
    """The minutes of a call are over; what was trained is in the checkpoint."""


def run_plan(
    name: str,
    data_root: Path,
    out: Path = Path("out/plans"),
    results: Path = Path("results"),
    device: torch.device | str = "cuda",
    *,
    seeds: Sequence[int] | None = None,
    only: Sequence[str] = (),
    stack: int = STACK,
    checkpoint_every: int = 10,
    minutes: float | None = None,
    beside: int = 0,
    dry_run: bool = False,
    say: Say = print,
) -> int:
    """Train the runs of a plan that lack a record, or a part of it, in the folder ``results``, and
    add theirs to ``results/NAME.jsonl``; how many jobs remain.

    Records of other plans count: no run that has a whole one is trained again. ``only`` names jobs
    of the plan; networks and checkpoints go to ``out/NAME/JOB``. A call that was killed, or whose
    ``minutes`` were over, is taken up by the next one. ``dry_run`` says what would be trained and
    how long it takes, and does not look for images.

    Calls for different plans can share a device, one evaluating while another trains: ``beside``
    says how many others do, so that the times in these records are not taken for the device's own.
    Two calls at once must write neither the same file of records nor the same ``out``: a file is
    read and written anew, and what another call added in between would be lost.
    """
    if minutes is not None and not 0 < minutes < math.inf:
        raise ValueError(f"expected minutes > 0 and finite, got {minutes:g}")
    if beside < 0:
        raise ValueError(f"expected beside >= 0, got {beside}")
    jobs = plan(name).jobs(seeds)
    unknown = set(only) - {job.name for job in jobs}
    if unknown:
        known = ", ".join(job.name for job in jobs)
        raise ValueError(f"expected jobs of {name} ({known}), got {', '.join(sorted(unknown))}")
    wanted = [job for job in jobs if not only or job.name in only]
    path = Path(results) / f"{name}.jsonl"
    records = Records.read(Path(results))
    left, pace = missing(wanted, records), Pace.of(records)
    say(f"{name}: {len(wanted) - len(left)} of {len(wanted)} jobs have their records")
    if left:
        say(f"left: {estimate(left, pace)} ({pace.said()})")
    if dry_run:
        for line in outlook(wanted, records, pace):
            say(line)
        return len(left)
    data = _images(left, data_root, say)
    end = math.inf if minutes is None else time.monotonic() + 60 * minutes
    whole = {job.name: job for job in plan(name).jobs()}
    options = {"stack": stack, "checkpoint_every": checkpoint_every, "end": end, "beside": beside}
    for done, job in enumerate(left):
        folder = Path(out) / name / _folder(job, whole[job.name])
        try:
            if done and time.monotonic() > end:
                raise OutOfTimeError
            made = run_job(job, data[job.config.dataset], folder, device, say=say, **options)
        except OutOfTimeError:
            say(f"{job.name}: {minutes:g} minutes are over; the same call goes on from here")
            return len(left) - done
        append(path, [{**record, "plan": name} for record in made])
        seconds = made[0]["whole_seconds"]
        say(f"{job.name}: {len(made)} records in {path} after {seconds:.0f} s")
    return 0


def _folder(job: PlannedJob, whole: PlannedJob) -> str:
    """A name for a job or for a part of it: the same for the same runs, and no other's."""
    if job.runs == whole.runs:
        return job.name
    runs = " ".join(sorted(run.name for run in job.runs))
    return f"{job.name}-{hashlib.sha256(runs.encode()).hexdigest()[:12]}"


def _images(jobs: Sequence[PlannedJob], root: Path, say: Say) -> dict[str, Cifar]:
    """The data sets of jobs by name, with the images that each of them trains on."""
    loaded: dict[str, Cifar] = {}
    for job in jobs:
        dataset = job.config.dataset
        if dataset not in loaded:
            data = loaded[dataset] = load_cifar(dataset, root)
            if data.held is not None:
                there = f"{len(data.held):,} of {len(data.train_labels):,} training images"
                say(f"{dataset}: {there} in {root}: no probes of the balanced set")
        data = loaded[dataset]
        members = data.members(job.config.imbalance, job.config.subset)
        lacking = len(data.missing(members))
        if lacking:
            rule = f"expected the {len(members):,} training images of {job.name} in {root}"
            raise ValueError(f"{rule}, got all but {lacking:,} of them")
    return loaded


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
        if epoch == of or time.monotonic() - said[0] > 15:
            said[0] = time.monotonic()
            say(
                f"{planned.name}: epoch {epoch}/{of}, {progress.views_a_second:,.0f} views/s, "
                f"{progress.seconds_left:.0f} s left"
            )
        saved = epoch == of or epoch % checkpoint_every == 0
        if saved and time.monotonic() > end:
            raise OutOfTimeError

    job = Job(
        planned.config,
        planned.runs,
        out,
        checkpoint_every=checkpoint_every,
        gradient_epochs=tuple(e for e in planned.gradient_epochs if e <= planned.config.epochs),
        stack=stack,
        beside=beside,
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
    for line in path.read_text().splitlines():
        values = json.loads(line)
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


def main(argv: Sequence[str] | None = None) -> int:
    """The command line without its packages; 1 if something of the plan is left."""
    parser = argparse.ArgumentParser(
        prog="python -m resultant.paper.run",
        description="Train what a plan has no records of; a call that was stopped is continued.",
    )
    parser.add_argument("plan", choices=list(PLANS))
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of CIFAR")
    parser.add_argument(
        "--work", type=Path, default=Path("out/plans"), help="checkpoints, networks"
    )
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of records")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seeds", type=int, nargs="+", help="if not those of the plan")
    parser.add_argument("--jobs", nargs="+", default=(), metavar="JOB", help="some jobs of it")
    parser.add_argument("--stack", type=int, default=STACK, help="runs trained as one network")
    parser.add_argument("--checkpoint-every", type=int, default=10, help="epochs")
    parser.add_argument("--minutes", type=float, help="stop at a checkpoint after so long")
    parser.add_argument("--beside", type=int, default=0, help="other calls on the same device")
    parser.add_argument("--dry-run", action="store_true", help="say what there is to do")
    given = vars(parser.parse_args(argv))
    places = [given.pop(key) for key in ("plan", "data", "work", "results", "device")]
    try:
        left = run_plan(*places, only=given.pop("jobs"), **given)
    except (ValueError, FileNotFoundError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return int(left > 0 and not given["dry_run"])


if __name__ == "__main__":
    sys.exit(main())
