"""The jobs of the training plans in ``plans.toml``, the jobs without records, their cost.

Torch is not imported, so that `resultant reproduce list` answers at once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from itertools import product
from typing import Any

from resultant.training.config import REALIZATIONS, Run
from resultant_reproduction.cells.cells import load
from resultant_reproduction.recipes.config import CIFAR, PaperConfig, preset
from resultant_reproduction.recipes.records import Record, identity
from resultant_reproduction.runs.records import Records

RULES = tuple(name for name in REALIZATIONS if name != "cosine")
IMBALANCES = (10, 50, 100)
CLASSES = {"cifar10": 10, "cifar100": 100}
PER_CLASS = {"cifar10": 5000, "cifar100": 500}
# Training images of Tiny-ImageNet-LT, which stands in for ImageNet-LT.
STAND_IN_IMAGES = 21_549

# Epochs after which gradients are compared (fig:training-gain, fig:c10-trajectory).
DIAGNOSED = (1, 5, 10, 20, 40, 60, 80, 100, 120, 140, 160, 180, 200)


@dataclass(frozen=True)
class PlannedJob:
    """Runs of one configuration that are trained together."""

    name: str
    config: PaperConfig
    runs: tuple[Run, ...]
    # Epochs after which leading and exact gradients are compared.
    gradient_epochs: tuple[int, ...] = ()
    # Realizations whose frozen analysis is kept.
    analyzed: tuple[str, ...] = ("native",)
    # Realizations for which all rules are compared at the last state of training.
    ended: tuple[str, ...] = ()
    # Frozen analyses include rules with a fitted scale.
    calibrated: bool = False
    # Realizations whose frozen rules are also judged at chosen temperatures.
    tuned: tuple[str, ...] = ()
    # Realizations whose native frozen rule is followed from high to low temperature.
    path: tuple[str, ...] = ()
    # The least concentration and the mean gain of every epoch are kept.
    followed: bool = False
    # Linear probes are trained on the features.
    probed: bool = True

    @property
    def diagnosed(self) -> tuple[int, ...]:
        """The ``gradient_epochs`` within the training."""
        return tuple(epoch for epoch in self.gradient_epochs if epoch <= self.config.epochs)

    @property
    def views(self) -> int:
        """Number of views in the training."""
        c = self.config
        steps = self.images // c.batch_size
        return len(self.runs) * c.epochs * steps * c.batch_size * c.views

    @property
    def images(self) -> int:
        """Number of training images."""
        c = self.config
        if c.dataset not in CIFAR:
            return STAND_IN_IMAGES
        # As `resultant.images.longtail.long_tail_counts`, which loads torch.
        largest, last, factor = PER_CLASS[c.dataset], CLASSES[c.dataset] - 1, 1 / c.imbalance
        return sum(int(largest * factor ** (i / last)) for i in range(last + 1))


@dataclass(frozen=True)
class Plan:
    """Jobs in the order of their execution; ``make`` builds them from seeds."""

    name: str
    title: str
    seeds: tuple[int, ...]
    make: Callable[[Sequence[int]], Iterator[PlannedJob]]

    def jobs(self, seeds: Sequence[int] | None = None) -> list[PlannedJob]:
        """Build the jobs, for the planned seeds unless others are named."""
        return list(self.make(self.seeds if seeds is None else tuple(seeds)))


@cache
def _cifar(name: str, dataset: str, imbalance: float, **changes: object) -> PaperConfig:
    return preset(name, dataset=dataset, imbalance=float(imbalance), **changes)


# The controlled two-view recipe (sec:controlled-training-protocol), and ProCo's public three-view
# recipe, which matches the historical table best.
controlled, official = partial(_cifar, "cifar-controlled"), partial(_cifar, "cifar-official")


# Parts of records that a job keeps, as in `PlannedJob`.
KEPT = ("analyzed", "ended", "tuned", "calibrated", "path", "followed", "probed")


def _expand(jobs: Sequence[dict[str, Any]], seeds: Sequence[int]) -> Iterator[PlannedJob]:
    """Expand the jobs of a plan in ``plans.toml`` for some seeds."""
    known = {field.name for field in fields(PaperConfig)}
    for job in jobs:
        over, cases = job.get("over", {}), job.get("cases", ())
        named = {seed for case in cases for seed in case.get("seeds", ())}
        for values in product(*over.values()):
            at = dict(zip(over, values, strict=True))
            own, changes = dict(job), {key: at[key] for key in at if key in known}
            changes |= job.get("config", {})
            for case in cases:
                if all(case[key] == at[key] for key in case if key in at):
                    own |= case
                    changes |= case.get("config", {})
            if "imbalance" in changes:
                changes["imbalance"] = float(changes["imbalance"])
            chosen = [s for s in seeds if (s in own["seeds"] if "seeds" in own else s not in named)]
            arms = [(rule, float(beta)) for rule, *betas in own["arms"] for beta in betas]
            runs = [Run(*arm, seed) for seed, arm in product(chosen, arms)]
            parts = {key: own[key] for key in KEPT if key in own}
            kept: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in parts.items()}
            kept["gradient_epochs"] = DIAGNOSED if own.get("diagnosed") else ()
            config = preset(own.get("preset", "cifar-controlled"), **changes)
            name = own["name"].format(**at)
            if own.get("one_run_per_job"):
                for run in runs:
                    yield PlannedJob(f"{name}-{run.name}", config, (run,), **kept)
            elif runs:
                yield PlannedJob(name, config, tuple(runs), **kept)


PLANS = {
    name: Plan(name, about["title"], tuple(about["seeds"]), partial(_expand, about["jobs"]))
    for name, about in load("runs/plans").items()
}
# Round of each plan: 1 for those of the paper, later ones have their rules in protocol.md.
ROUND = {name: about.get("round", 1) for name, about in load("runs/plans").items()}


@cache
def stand_in(architecture: str = "resnet50", objective: str = "contrastive") -> PaperConfig:
    """Return the recipe of photographs that stand in for ImageNet-LT (group 2 of protocol.md)."""
    configs = (job.config for job in PLANS["tiny"].jobs((0,)))
    kind = (architecture, objective)
    return next(c for c in configs if (c.architecture, c.objective) == kind)


@cache
def _planned() -> dict[str, set[int]]:
    """Return the seeds of the plans of the first round together, by kind of run."""
    seeds: dict[str, set[int]] = {}
    first = (plan for plan in PLANS.values() if ROUND[plan.name] == 1)
    for job in (job for plan in first for job in plan.jobs()):
        for run in job.runs:
            kind = identity(job.config, run.realization, run.beta)
            seeds.setdefault(kind, set()).add(run.seed)
    return seeds


def planned_seeds(config: PaperConfig, realization: str = "native", beta: float = 0.0) -> int:
    """Return the number of planned seeds of a kind of run."""
    return len(_planned().get(identity(config, realization, beta), ()))


def plan(name: str) -> Plan:
    """Look up a plan."""
    if name not in PLANS:
        raise ValueError(f"expected a plan, one of {', '.join(PLANS)}, got {name!r}")
    return PLANS[name]


def _is_complete(record: Record, job: PlannedJob, run: Run) -> bool:
    """Test whether a record has all parts that a job keeps of a run."""
    analyzed = run.realization in job.analyzed
    parts = {
        "analysis": analyzed,
        "calibration": analyzed and job.calibrated,
        "ended": run.realization in job.ended,
        "path": run.realization in job.path,
        "course": job.followed,
    }
    # A plan skips the probes of the balanced set if some of its images are missing.
    pools = {"long_tail"} if "plan" in record else {"long_tail", "balanced"}
    pools = pools if job.probed else set()
    complete = all(part in record for part, needed in parts.items() if needed)
    # The trajectory has the errors of all diagnosed epochs.
    course = record.get("trajectory", {})
    increments = ("increment_error",) if job.config.family == "power" else ()
    names = ("epoch", "gradient_error", *increments)
    rows = zip(*(course.get(name, ()) for name in names), strict=False)
    diagnosed = {epoch for epoch, *errors in rows if None not in errors} >= set(job.diagnosed)
    return complete and diagnosed and pools <= record.get("probes", {}).keys()


def missing(jobs: Sequence[PlannedJob], records: Records) -> list[PlannedJob]:
    """Return the jobs with incomplete records, reduced to the runs concerned."""

    def is_recorded(job: PlannedJob, run: Run) -> bool:
        record = records.seeds(job.config, run.realization, run.beta).get(run.seed)
        return record is not None and _is_complete(record, job, run)

    left = ([run for run in job.runs if not is_recorded(job, run)] for job in jobs)
    return [replace(job, runs=tuple(own)) for job, own in zip(jobs, left, strict=True) if own]


def workload(jobs: Sequence[PlannedJob]) -> str:
    """Describe the number of jobs, runs and views; empty without jobs."""
    views, runs = sum(job.views for job in jobs), sum(len(job.runs) for job in jobs)
    counts = ((len(jobs), "job"), (runs, "run"))
    names = ", ".join(f"{n} {what}{'s' if n > 1 else ''}" for n, what in counts)
    return f"{names}, {views / 1e6:,.0f} million views" if jobs else ""
