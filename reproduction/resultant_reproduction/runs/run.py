"""Run a plan: train and evaluate the runs without records, job by job, and append their records.

An interrupted job continues from its checkpoint, and its records are appended together. A failed
job does not stop the others. A job is CIFAR runs side by side, or one run on photographs.
"""

import hashlib
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import torch

from resultant._core.device import require_device
from resultant._core.validation import DivergedError
from resultant.classes.statistics import ClassStatistics
from resultant.images.source import ImageSplits
from resultant.training.config import RESULTS, Run
from resultant.training.image_sets import resolved, train_images
from resultant.training.job import Job, Progress, Trained
from resultant.training.log import read_metrics
from resultant_reproduction.cifar.data import Cifar, load_cifar
from resultant_reproduction.cifar.evaluation import cifar_features
from resultant_reproduction.cifar.job import CifarJob
from resultant_reproduction.cifar.stack import Stacks
from resultant_reproduction.cifar.train import train_cifar
from resultant_reproduction.frozen.calibration import calibrate
from resultant_reproduction.frozen.space import FrozenSpace
from resultant_reproduction.frozen.summarize import (
    fit_space,
    power_diagnostic,
    summaries,
    summarize_state,
)
from resultant_reproduction.frozen.temperature_path import temperature_path
from resultant_reproduction.frozen.tuned import tuned
from resultant_reproduction.recipes.config import CIFAR
from resultant_reproduction.recipes.evaluation import Features, evaluate, image_features
from resultant_reproduction.recipes.published import open_dataset
from resultant_reproduction.recipes.records import Record, append
from resultant_reproduction.runs.plans import ROUND, PlannedJob, missing, plan, workload
from resultant_reproduction.runs.records import Records, all_rounds, folders, round_folder

Say = Callable[[str], object]

# Metrics that a trajectory keeps.
ERRORS = product(("gradient", "increment"), ("", "_without_intercept"), ("", "mean_"))
TRAJECTORY = (
    *("epoch", "gain_mean", "gain_sd", "applied_gain_sd", "intercept_drift"),
    *(f"{mean}{kind}_error{end}" for kind, end, mean in ERRORS),
    "increment_plane",
)
# Metrics that a followed training keeps.
COURSE = ("epoch", "loss", "kappa_min", "gain_mean")


class OutOfTimeError(Exception):
    """The time limit is reached; the checkpoint holds the training so far."""


def _reporter(planned: PlannedJob, say: Say, end: float) -> Callable[[Progress], None]:
    """Return a function that reports the progress of a job, and ends it after its time."""
    last_report = 0.0

    def report(progress: Progress) -> None:
        nonlocal last_report
        epoch, of = progress.before + progress.epoch, progress.before + progress.epochs
        if not progress.epoch:
            say(f"{planned.name}: {progress.resumed}")
        elif epoch == of or time.monotonic() - last_report > 15:
            last_report = time.monotonic()
            say(
                f"{planned.name}: epoch {epoch}/{of}, {progress.views_per_second:,.0f} views/s, "
                f"{progress.seconds_left:.0f} s left"
            )
        if progress.saved and time.monotonic() > end:
            raise OutOfTimeError

    return report


def run_job(
    planned: PlannedJob,
    data: Cifar | ImageSplits,
    out: Path,
    device: torch.device | str,
    *,
    store: Path | None = None,
    end: float = math.inf,
    say: Say = print,
    **options: Any,
) -> list[Record]:
    """Train and evaluate a job, until the checkpoint after ``end`` of the monotonic clock, with
    options of `Job`; return one record per run. ``store`` keeps decoded photographs."""
    start, report = time.monotonic(), _reporter(planned, say, end)
    if isinstance(data, Cifar):
        options["gradient_epochs"] = planned.diagnosed
        job: Job = CifarJob(planned.config, planned.runs, out, **options)
        diagnostic = power_diagnostic if planned.config.family == "power" else None
        trained: Trained[Any] = train_cifar(job, data, device, report, diagnostic)
        features, held_out = cifar_features(trained, data), None
    else:
        # The record has the classifier of the last epoch.
        options["test_every"] = planned.config.epochs
        job = Job(resolved(planned.config), planned.runs, out, **options)
        trained = train_images(job, data, device, on_progress=report, store=store, note=say)
        features, held_out = image_features(trained, data), data.held_out
    records: list[Record] = (
        evaluate(trained, features, data.num_classes, held_out)
        if planned.probed
        else trained.records(len(features.train.labels))
    )
    config, kept = trained.job.config, ("mean", "std")
    for record in records:
        steps = config.epochs * (record["train_images"] // config.batch_size)
        views = len(trained.job.runs) * steps * config.batch_size * config.views
        record["us_a_view"] = 1e6 * trained.seconds / views
        # The settings of the plan, without the channels that are read from the network.
        record["config"] |= {name: getattr(planned.config, name) for name in kept}
    by_space = partial(_by_space, features, trained)
    parts = {
        "analysis": by_space(summaries, planned.analyzed),
        "tuned": by_space(tuned, planned.tuned),
        "path": by_space(temperature_path, planned.path),
        "calibration": by_space(
            lambda *rows: calibrate(fit_space(*rows)),
            planned.analyzed if planned.calibrated else (),
        ),
        "ended": last_states(features, trained, planned),
    }
    if planned.followed:
        parts["course"] = trajectories(out / "metrics.jsonl", range(1, config.epochs + 1), COURSE)
    if planned.gradient_epochs:
        parts["trajectory"] = trajectories(out / "metrics.jsonl", planned.diagnosed)
    for record in records:
        record |= {part: own[record["run"]] for part, own in parts.items() if record["run"] in own}
        record["whole_seconds"] = trained.earlier + time.monotonic() - start
    return records


def _by_space(
    features: Features,
    trained: Trained,
    evaluation: Callable[..., dict[str, Any]],
    realizations: Sequence[str],
) -> dict[str, dict[str, Any]]:
    """Evaluate every space of the runs of these realizations, by name of the run."""
    train, test = features.train, features.test
    evaluated = {}
    for i, run in enumerate(trained.job.runs):
        if run.realization in realizations:
            x, z = ({s: runs[i] for s, runs in a.spaces.items()} for a in (train, test))
            device = x["encoder"].device
            labels, queries = train.labels.to(device), test.labels.to(device)
            evaluated[run.name] = {s: evaluation(x[s], labels, z[s], queries) for s in x}
    return evaluated


def last_states(
    features: Features, trained: Trained, planned: PlannedJob
) -> dict[str, dict[str, Any]]:
    """Compare all rules at the last state of runs, by name (sec:same-state-diagnostic)."""
    config = trained.job.config
    labels, queries = features.train.labels.cpu(), features.test.labels.cpu()
    states = {}
    for i, run in enumerate(trained.job.runs):
        if run.realization in planned.ended:
            train, test = (a.of_run(i)["projection"] for a in (features.train, features.test))
            space = FrozenSpace(
                name="projection",
                train=train,
                labels=labels,
                test=test,
                test_labels=queries,
                fitting=None,
                identities=None,
                statistics=_statistics(trained, i).to("cpu"),
                tau=config.temperature,
                estimator=config.estimator,
                dtype=torch.float64,
            )
            states[run.name] = summarize_state(space, config.prior)
    return states


def _statistics(trained: Trained[Any], i: int) -> ClassStatistics:
    """Return the class statistics of a run at the end of its training."""
    if not isinstance(trained.trainee, Stacks):
        return trained.trainee.contrastive.bank.statistics()
    _, stack, index = list(trained.trainee.networks())[i]
    return stack.proco.bank.run_statistics(index)


def trajectories(
    path: Path, epochs: Sequence[int], names: Sequence[str] = TRAJECTORY
) -> dict[str, dict[str, list[Any]]]:
    """Read metrics of each run at some epochs; None for a missing value."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for values in read_metrics(path):
        if values["epoch"] in epochs:
            rows.setdefault(values["run"], []).append(values)
    return {
        run: {
            name: [values.get(name) for values in own]
            for name in names
            if any(name in values for values in own)
        }
        for run, own in rows.items()
    }


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
    """Train the runs of a plan without complete records, append to ``results/NAME.jsonl``, and
    return the number of jobs without complete records. Records of other plans count, and the
    packaged ones with the default folder. Two calls at once must not write the same file."""
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
    records = Records.read(*all_rounds(places))
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
    if not left and len(places) > 1 and not missing(chosen, Records.read(*all_rounds(places[:1]))):
        rule = f"expected a plan without packaged records; {name} has them all. To train it anew"
        call = f"resultant reproduce run {name} --data DATA --results NEW"
        raise ValueError(f"{rule}, name a new folder: {call} ({workload(chosen)}{_cost(chosen)})")
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
        own = round_folder(Path(results), ROUND[name])
        path, seconds = own / f"{name}.jsonl", new[0]["whole_seconds"]
        append(path, new)
        say(f"{job.name}: {len(new)} records in {path} after {seconds:.0f} s")
        if missing([job], Records(new)):
            rule = "expected all parts of a record that the plan keeps"
            raise ValueError(f"{rule}, got fewer from {folder}; remove it to train again")

    if not _in_turn(left, train, end, say):
        say(f"{minutes:g} minutes are over; repeat the call to continue")
    remain = missing(chosen, Records.read(*all_rounds(places)))
    if remain:
        say(f"{name}: incomplete records: {', '.join(job.name for job in remain)}")
    return len(remain)


def _cost(jobs: Sequence[PlannedJob]) -> str:
    """Say how long jobs take where their packaged records say it; empty otherwise."""
    records = Records.read(*all_rounds(folders(RESULTS)[:1]))
    known = [
        record
        for job in jobs
        for run in job.runs
        for record in records.trainings(job.config, run.realization, run.beta)
        if "us_a_view" in record
    ]
    if not known:
        return ""
    views, device = sum(job.views for job in jobs), known[0]["versions"].get("device", "one GPU")
    minutes = views * median(record["us_a_view"] for record in known) / 6e7
    return f", {minutes:,.0f} minutes on {device}"


def _in_turn(
    jobs: Sequence[PlannedJob], train: Callable[[PlannedJob], object], end: float, say: Say
) -> bool:
    """Train jobs in turn, diverged ones in parts, at least to a checkpoint; False after the end."""
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
