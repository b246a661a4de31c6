"""Run a plan: train what has no record yet, job by job, and add records with frozen summaries.

Plain functions, without a command line. A job that was stopped goes on from its checkpoint.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from resultant.data.cifar import Cifar, load_cifar
from resultant.data.longtail import long_tail_indices
from resultant.evaluation import evaluate_cifar
from resultant.gain import realize
from resultant.geometry import loss_gradient, stacked_relative_error
from resultant.models import StackedResNet32
from resultant.paper.plan import US_A_VIEW, PlannedJob, estimate, plan
from resultant.paper.records import Record, Records, append, dig, read_lines
from resultant.paper.summary import SPACES, summaries
from resultant.train import QUERIES, STACK, Job, Progress, Trained, outputs, train_cifar

Say = Callable[[str], object]

# What a trajectory keeps of metrics.jsonl.
TRAJECTORY = (
    "epoch",
    "gain_mean",
    "gain_sd",
    "applied_gain_sd",
    "intercept_drift",
    "gradient_error",
)

# sec:historical-power-temperature: the strengths beside native.
POWERS = {"reduced": 0.5, "increased": 1.5}


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
    say: Say = print,
) -> int:
    """Train the jobs of a plan that are not complete in ``results/NAME.jsonl``; how many were.

    ``only`` names jobs of the plan; networks and checkpoints go to ``out/NAME/JOB``.
    """
    jobs = plan(name).jobs(seeds)
    unknown = set(only) - {job.name for job in jobs}
    if unknown:
        known = ", ".join(job.name for job in jobs)
        raise ValueError(f"expected jobs of {name} ({known}), got {', '.join(sorted(unknown))}")
    wanted = [job for job in jobs if not only or job.name in only]
    path = Path(results) / f"{name}.jsonl"
    left = missing(wanted, Records(read_lines(path)))
    say(f"{name}: {len(wanted) - len(left)} of {len(wanted)} jobs have their records")
    if left:
        say(f"left: {estimate(left, measured(Records.read(Path(results))))}")
    loaded: dict[str, Cifar] = {}

    def data(dataset: str) -> Cifar:
        if dataset not in loaded:
            loaded[dataset] = load_cifar(dataset, data_root)
        return loaded[dataset]

    for job in left:
        data(job.config.dataset)
    for job in left:
        folder = Path(out) / name / job.name
        if seeds is not None:
            folder = folder.with_name(f"{job.name}-seeds{'-'.join(map(str, seeds))}")
        options = {"stack": stack, "checkpoint_every": checkpoint_every}
        records = run_job(job, data(job.config.dataset), folder, device, say=say, **options)
        append(path, [{**record, "plan": name} for record in records])
        say(f"{job.name}: {len(records)} records in {path}")
    return len(left)


def missing(jobs: Sequence[PlannedJob], records: Records) -> list[PlannedJob]:
    """The jobs of which a run has no record."""
    return [job for job in jobs if not all(records.has(job.config, run) for run in job.runs)]


def measured(records: Records) -> float:
    """Microseconds a view: the median of the records, or what is usual."""
    known = sorted(v for r in records if (v := dig(r, "us_a_view")) is not None)
    return known[len(known) // 2] if known else US_A_VIEW


def run_job(
    planned: PlannedJob,
    data: Cifar,
    out: Path,
    device: torch.device | str,
    *,
    stack: int = STACK,
    checkpoint_every: int = 10,
    say: Say = print,
) -> list[Record]:
    """Train a job and evaluate it: one record a run, with a frozen summary where one is read."""
    said = [0.0]

    def watch(progress: Progress) -> None:
        epoch, of = progress.before + progress.epoch, progress.before + progress.epochs
        if epoch == of or time.monotonic() - said[0] > 15:
            said[0] = time.monotonic()
            say(
                f"{planned.name}: epoch {epoch}/{of}, {progress.views_a_second:,.0f} views/s, "
                f"{progress.seconds_left:.0f} s left"
            )

    job = Job(
        planned.config,
        planned.runs,
        out,
        checkpoint_every=checkpoint_every,
        gradient_epochs=tuple(e for e in planned.gradient_epochs if e <= planned.config.epochs),
        stack=stack,
    )
    trained = train_cifar(job, data, device, watch)
    records: list[Record] = evaluate_cifar(trained, data)
    by_run = {record["run"]: record for record in records}
    if trained.epochs:
        share = trained.epochs / planned.config.epochs
        for record in records:
            views = _views(record, trained)
            record["us_a_view"] = 1e6 * trained.seconds / (views * share)
    for name, found in frozen_summaries(trained, data, planned).items():
        by_run[name]["analysis"] = found
    if planned.gradient_epochs:
        for name, found in trajectories(out / "metrics.jsonl", job.gradient_epochs).items():
            by_run[name]["trajectory"] = found
    if planned.config.family == "power":
        for name, found in increments(trained, data).items():
            by_run[name]["increments"] = found
    return records


def _views(record: Record, trained: Trained) -> float:
    config = trained.job.config
    steps = record["train_images"] // config.batch_size
    return len(trained.job.runs) * config.epochs * steps * config.batch_size * config.views


def frozen_summaries(
    trained: Trained, data: Cifar, planned: PlannedJob
) -> dict[str, dict[str, Any]]:
    """The frozen summaries of native models, and of all where no frequency prior was used and few
    runs are (the state of fig:realization), by the name of the run."""
    members = long_tail_indices(data.train_labels, data.num_classes, planned.config.imbalance)
    labels, queries = data.train_labels[members], data.test_labels
    images = torch.cat([data.train_images[members], data.test_images])
    held: dict[str, tuple[dict, dict]] = {}
    for stack in trained.stacks:
        chosen = [i for i, run in enumerate(stack.runs) if _summarized(planned, run.realization)]
        if not chosen:
            continue
        assert isinstance(stack.network, StackedResNet32)
        found = outputs(stack.network, images.to(stack.device), torch.float32)
        for i in chosen:
            both = {name: getattr(found, name)[i].cpu() for name in SPACES}
            held[stack.runs[i].name] = (
                {name: x[: len(members)] for name, x in both.items()},
                {name: x[len(members) :] for name, x in both.items()},
            )
    with ThreadPoolExecutor(max_workers=4) as pool:
        waiting = {
            name: pool.submit(summaries, train, labels, test, queries)
            for name, (train, test) in held.items()
        }
        return {name: future.result() for name, future in waiting.items()}


def _summarized(planned: PlannedJob, realization: str) -> bool:
    only_temperature = {run.realization for run in planned.runs} == {"native", "temperature"}
    failure = only_temperature and planned.config.prior == 0
    return planned.config.objective == "contrastive" and (realization == "native" or failure)


def trajectories(path: Path, epochs: Sequence[int]) -> dict[str, dict[str, list[float | None]]]:
    """What metrics.jsonl says of each run at some epochs."""
    found: dict[str, dict[str, list[float | None]]] = {}
    for line in path.read_text().splitlines():
        values = json.loads(line)
        if values["epoch"] in epochs:
            lists = found.setdefault(values["run"], {name: [] for name in TRAJECTORY})
            for name in TRAJECTORY:
                lists[name].append(values.get(name))
    return found


def increments(trained: Trained, data: Cifar) -> dict[str, dict[str, float]]:
    """How well leading gradients tell the exact change from the native policy to the power family
    (sec:historical-gradient): errors in percent by strength, at the last state of each run."""
    config = trained.job.config
    members = long_tail_indices(data.train_labels, data.num_classes, config.imbalance)
    chosen = members[torch.linspace(0, len(members) - 1, min(QUERIES, len(members))).long()]
    labels = data.train_labels[chosen]
    found = {}
    for stack in trained.stacks:
        assert isinstance(stack.network, StackedResNet32)
        images = data.train_images[chosen].to(stack.device)
        z = outputs(stack.network, images, torch.float32).projection.cpu().double()
        for i, run in enumerate(stack.runs):
            state = stack.proco.state(i).to("cpu")
            offset = stack.proco.log_prior.cpu().double().expand(len(stack.runs), -1)[i]
            native = realize(state, config.temperature, offset=offset)
            before = [loss_gradient(z[i], labels, r) for r in (native, native.linear())]
            found[run.name] = {}
            for name, beta in POWERS.items():
                rule = realize(
                    *(state, config.temperature, "temperature", beta),
                    family="power",
                    offset=offset,
                )
                after = [loss_gradient(z[i], labels, r) for r in (rule, rule.linear())]
                exact, leading = (b - a for a, b in zip(before, after, strict=True))
                found[run.name][name] = stacked_relative_error(exact, leading)
    return found
