"""Train and evaluate one planned job: CIFAR runs side by side, or one run on photographs.

A record has probes and frozen decisions, and the frozen summaries, calibrations, last states and
trajectories that its job asks for.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from resultant.analysis import FrozenSpace
from resultant.images.cifar import Cifar
from resultant.images.source import ImageSplits
from resultant.training.cifar import train_cifar
from resultant.training.evaluation import Features, evaluate, network_features
from resultant.training.image_sets import resolved, train_images
from resultant.training.job import Job, Progress, Trained
from resultant.training.log import read_metrics
from resultant.training.records import Record
from resultant_reproduction.calibration import calibrate
from resultant_reproduction.increments import power_diagnostic
from resultant_reproduction.plan import PlannedJob
from resultant_reproduction.summarize import fit_space, summaries, summarize_state
from resultant_reproduction.tuned import tuned

Say = Callable[[str], object]

# Metrics that a trajectory keeps.
TRAJECTORY = (
    *("epoch", "gain_mean", "gain_sd", "applied_gain_sd", "intercept_drift"),
    *(
        f"{mean}{kind}_error{end}"
        for kind, end, mean in product(
            ("gradient", "increment"), ("", "_without_intercept"), ("", "mean_")
        )
    ),
    "increment_plane",
)


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
    """Train and evaluate a job; return one record per run.

    ``whole_seconds`` of a record include the epochs of earlier calls. After ``end`` of the
    monotonic clock the training stops at the next checkpoint. ``store`` keeps decoded photographs.
    Other options are those of `Job`.
    """
    start, report = time.monotonic(), _reporter(planned, say, end)
    if isinstance(data, Cifar):
        options["gradient_epochs"] = planned.diagnosed
        job = Job(planned.config, planned.runs, out, **options)
        diagnostic = power_diagnostic if planned.config.family == "power" else None
        trained = train_cifar(job, data, device, report, diagnostic)
    else:
        # The record has the classifier of the last epoch.
        options["test_every"] = planned.config.epochs
        job = Job(resolved(planned.config), planned.runs, out, **options)
        trained = train_images(job, data, device, on_progress=report, store=store, note=say)
    features = network_features(trained, data)
    records: list[Record] = evaluate(trained, data, features=features)
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
        "calibration": by_space(_calibrated, planned.analyzed if planned.calibrated else ()),
        "ended": last_states(features, trained, planned),
    }
    if planned.gradient_epochs:
        parts["trajectory"] = trajectories(out / "metrics.jsonl", job.gradient_epochs)
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
    labels, queries = train.labels.cpu(), test.labels.cpu()
    evaluated = {}
    for i, (run, _, _) in enumerate(trained.networks()):
        if run.realization in realizations:
            x, z = train.of_run(i), test.of_run(i)
            evaluated[run.name] = {s: evaluation(x[s], labels, z[s], queries) for s in x}
    return evaluated


def _calibrated(*rows: Tensor) -> dict[str, Any]:
    return calibrate(fit_space(*rows))


def last_states(
    features: Features, trained: Trained, planned: PlannedJob
) -> dict[str, dict[str, Any]]:
    """Compare all rules at the last state of runs, by name (sec:same-state-diagnostic)."""
    config = trained.job.config
    labels, queries = features.train.labels.cpu(), features.test.labels.cpu()
    states = {}
    for i, (run, stack, index) in enumerate(trained.networks()):
        if run.realization in planned.ended:
            train, test = (a.of_run(i)["projection"] for a in (features.train, features.test))
            space = FrozenSpace(
                *("projection", train, labels, test, queries, None, None),
                *(stack.proco.bank.run_statistics(index).to("cpu"), config.temperature),
                *(config.estimator, torch.float64),
            )
            states[run.name] = summarize_state(space, config.prior)
    return states


def trajectories(path: Path, epochs: Sequence[int]) -> dict[str, dict[str, list[Any]]]:
    """Read metrics of each run at some epochs; None for a missing value."""
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
