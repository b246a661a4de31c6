"""The trainings of the paper as data: the jobs of a plan, the jobs without records, their cost.

Torch is not imported, so that `resultant reproduce list` answers at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from statistics import linear_regression, median
from typing import NamedTuple

from resultant.training.config import REALIZATIONS, STACK, Run, TrainConfig, preset
from resultant.training.records import Record, identity
from resultant_reproduction.records import Records, dig

RULES = tuple(name for name in REALIZATIONS if name != "cosine")
BOTH = ("native", "angular")
SETS = ("cifar10", "cifar100")
IMBALANCES = (10, 50, 100)
CLASSES = {"cifar10": 10, "cifar100": 100}
PER_CLASS = {"cifar10": 5000, "cifar100": 500}

# Epochs after which gradients are compared (fig:training-gain, fig:c10-trajectory).
DIAGNOSED = (1, 5, 10, 20, 40, 60, 80, 100, 120, 140, 160, 180, 200)


@dataclass(frozen=True)
class PlannedJob:
    """Runs of one configuration that are trained together.

    Attributes:
        name: Name within the plan.
        config: The training settings.
        runs: The runs.
        gradient_epochs: Epochs after which leading and exact gradients are compared.
        analyzed: Realizations whose frozen analysis is kept.
        ended: Realizations for which all rules are compared at the last state of training.
    """

    name: str
    config: TrainConfig
    runs: tuple[Run, ...]
    gradient_epochs: tuple[int, ...] = ()
    analyzed: tuple[str, ...] = ("native",)
    ended: tuple[str, ...] = ()

    @property
    def diagnosed(self) -> tuple[int, ...]:
        """The ``gradient_epochs`` within the training."""
        return tuple(epoch for epoch in self.gradient_epochs if epoch <= self.config.epochs)

    @property
    def views(self) -> int:
        """Number of views in the training."""
        c = self.config
        # As `resultant.images.longtail.long_tail_counts`, which loads torch.
        largest, last, factor = PER_CLASS[c.dataset], CLASSES[c.dataset] - 1, 1 / c.imbalance
        images = sum(int(largest * factor ** (i / last)) for i in range(last + 1))
        steps = images // c.batch_size
        return len(self.runs) * c.epochs * steps * c.batch_size * c.views


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


def controlled(dataset: str, imbalance: float, **changes: object) -> TrainConfig:
    """Return the controlled two-view recipe (sec:controlled-training-protocol)."""
    return preset("cifar-controlled", dataset=dataset, imbalance=float(imbalance), **changes)


def official(dataset: str, imbalance: float, **changes: object) -> TrainConfig:
    """Return ProCo's public three-view recipe, which matches the historical table best."""
    return preset("cifar-official", dataset=dataset, imbalance=float(imbalance), **changes)


def stronger_views() -> TrainConfig:
    """Return the controlled recipe with AutoAugment and Cutout views, CIFAR-10 IF 100."""
    return controlled("cifar10", 100, contrastive_view="autoaugment")


def joint_trials(dataset: str) -> dict[str, TrainConfig]:
    """Return the recipe of joint training at IF 100, and variants with a weaker classifier."""
    changes = {"kept": {}, "one-view": {"classifier_views": 1}, "half-weight": {"alpha": 0.5}}
    return {
        name: controlled(dataset, 100, objective="joint", **own) for name, own in changes.items()
    }


def _runs(
    realizations: Sequence[str], seeds: Sequence[int], betas: Sequence[float] = (0.0,)
) -> tuple[Run, ...]:
    runs = (
        Run(name, 0.0 if name == "native" else beta, seed)
        for seed, name, beta in product(seeds, realizations, betas)
    )
    return tuple(dict.fromkeys(runs))


def _main(seeds: Sequence[int]) -> Iterator[PlannedJob]:
    for dataset, imbalance in product(SETS, IMBALANCES):
        yield PlannedJob(
            f"{dataset}-if{imbalance}", controlled(dataset, imbalance), _runs(RULES, seeds)
        )


def _joint(seeds: Sequence[int]) -> Iterator[PlannedJob]:
    for dataset, imbalance in product(SETS, IMBALANCES):
        config = controlled(dataset, imbalance, objective="joint")
        runs = _runs(RULES, seeds)
        yield PlannedJob(f"{dataset}-if{imbalance}", config, runs, analyzed=())


def _controls(seeds: Sequence[int]) -> Iterator[PlannedJob]:
    # The plans main and joint have native and beta = 0 under the frequency prior.
    for imbalance, objective in product((1, *IMBALANCES), ("contrastive", "joint")):
        config = controlled("cifar10", imbalance, objective=objective, prior=0.0)
        diagnosed = DIAGNOSED if imbalance == 50 else ()
        runs = _runs(RULES, seeds, (0.0, 0.5))
        analyzed = ("native",) if objective == "contrastive" else ()
        yield PlannedJob(f"if{imbalance}-u-{objective}", config, runs, diagnosed, analyzed)
    for imbalance, objective in product(IMBALANCES, ("contrastive", "joint")):
        config = controlled("cifar10", imbalance, objective=objective)
        yield PlannedJob(f"if{imbalance}-f-{objective}", config, _runs(RULES[1:], seeds, (0.5,)))


def _power(seeds: Sequence[int]) -> Iterator[PlannedJob]:
    # Native is temperature at beta = 1 in either family.
    for dataset, imbalance in product(SETS, (50, 100)):
        config = official(dataset, imbalance, family="power")
        runs = _runs(("native", "temperature"), seeds, (0.5, 1.5))
        yield PlannedJob(f"{dataset}-if{imbalance}", config, runs, DIAGNOSED)


def _official(seeds: Sequence[int]) -> Iterator[PlannedJob]:
    # The plan power has the same runs, with their analysis.
    for dataset in SETS:
        runs = _runs(("native",), seeds)
        yield PlannedJob(f"{dataset}-if100", official(dataset, 100), runs, analyzed=())


def _failure(seeds: Sequence[int]) -> Iterator[PlannedJob]:
    config = controlled("cifar100", 10, prior=0.0)
    both = ("native", "temperature")
    yield PlannedJob("cifar100-if10-u", config, _runs(both, seeds), analyzed=both, ended=both)


def _beyond(seeds: Sequence[int]) -> Iterator[PlannedJob]:
    # The plan main has native (beta = 1) and beta = 0.
    config = controlled("cifar100", 100)
    yield PlannedJob("beta", config, _runs(("angular",), seeds, (-0.5, 0.5, 1.5, 2.0)))
    for name, changes in (("mle", {"estimator": "mle"}), ("leave-out", {"leave_out": True})):
        yield PlannedJob(name, controlled("cifar100", 100, **changes), _runs(BOTH, seeds))
    yield PlannedJob("views", stronger_views(), _runs(BOTH, seeds))


def _members(seeds: Sequence[int]) -> Iterator[PlannedJob]:
    for subset in (1, 2):
        config = controlled("cifar100", 100, subset=subset)
        yield PlannedJob(f"subset{subset}", config, _runs(("native",), seeds), analyzed=())


def _trials(seeds: Sequence[int]) -> Iterator[PlannedJob]:
    for dataset in SETS:
        for name, config in joint_trials(dataset).items():
            yield PlannedJob(f"{dataset}-{name}", config, _runs(("native",), seeds), analyzed=())


# The plan of the second round, and its seeds in the order of protocol.md.
SECOND_ROUND = "headline"
BLOCKS = ((10, 11, 12, 13), (14, 15, 16), (17, 18, 19))


def _headline(seeds: Sequence[int]) -> Iterator[PlannedJob]:
    for i, block in enumerate(BLOCKS):
        own = [seed for seed in block if seed in seeds]
        for dataset, imbalance in product(reversed(SETS), reversed(IMBALANCES)):
            runs = _runs(("native", "temperature", "angular"), own)
            if runs:
                name = f"{dataset}-if{imbalance}-{i + 1}"
                yield PlannedJob(name, controlled(dataset, imbalance), runs, analyzed=())


PLANS = {
    plan.name: plan
    for plan in (
        Plan("main", "tab:angular-training and the frozen tables", (0, 1, 2), _main),
        Plan("joint", "tab:joint-fc", (0, 1, 2), _joint),
        Plan("controls", "the CIFAR-10 control matrix", (0,), _controls),
        Plan("power", "tab:historical-power-temperature", (0, 1, 2), _power),
        Plan("official", "ProCo's public recipe alone", (0, 1, 2), _official),
        Plan("failure", "the state of fig:realization", (0, 1, 2), _failure),
        Plan("beyond", "a sweep of beta, other estimators of kappa, views", (0, 1, 2), _beyond),
        Plan(
            SECOND_ROUND,
            "training with an equal gain, ten more seeds",
            (*range(10, 20),),
            _headline,
        ),
        Plan("members", "native ProCo on other subsets of CIFAR-100, IF 100", (0, 1, 2), _members),
        Plan("trials", "native joint training with less of a classifier", (0, 1, 2), _trials),
    )
}


@cache
def _planned() -> dict[str, set[int]]:
    """Return the seeds of the plans of the first round together, by kind of run."""
    seeds: dict[str, set[int]] = {}
    first = (plan for plan in PLANS.values() if plan.name != SECOND_ROUND)
    for job in (job for plan in first for job in plan.jobs()):
        for run in job.runs:
            kind = identity(job.config, run.realization, run.beta)
            seeds.setdefault(kind, set()).add(run.seed)
    return seeds


def planned_seeds(config: TrainConfig, realization: str = "native", beta: float = 0.0) -> int:
    """Return the number of planned seeds of a kind of run."""
    return len(_planned().get(identity(config, realization, beta), ()))


def plan(name: str) -> Plan:
    """Look up a plan."""
    if name not in PLANS:
        raise ValueError(f"expected a plan, one of {', '.join(PLANS)}, got {name!r}")
    return PLANS[name]


def _is_complete(record: Record, job: PlannedJob, run: Run) -> bool:
    """Test whether a record has all parts that a job keeps of a run."""
    parts = {"analysis": run.realization in job.analyzed, "ended": run.realization in job.ended}
    # A plan skips the probes of the balanced set if some of its images are missing.
    pools = {"long_tail"} if "plan" in record else {"long_tail", "balanced"}
    complete = all(part in record for part, needed in parts.items() if needed)
    return complete and pools <= record.get("probes", {}).keys() and _has_errors(record, job)


def _has_errors(record: Record, job: PlannedJob) -> bool:
    """Test whether the trajectory of a record has the errors of all diagnosed epochs."""
    course = record.get("trajectory", {})
    increments = ("increment_error",) if job.config.family == "power" else ()
    names = ("epoch", "gradient_error", *increments)
    rows = zip(*(course.get(name, ()) for name in names), strict=False)
    return {epoch for epoch, *errors in rows if None not in errors} >= set(job.diagnosed)


def missing(jobs: Sequence[PlannedJob], records: Records) -> list[PlannedJob]:
    """Return the jobs with incomplete records, reduced to the runs concerned. Records of all plans
    count."""

    def is_recorded(job: PlannedJob, run: Run) -> bool:
        record = records.seeds(job.config, run.realization, run.beta).get(run.seed)
        return record is not None and _is_complete(record, job, run)

    left = (
        replace(job, runs=tuple(run for run in job.runs if not is_recorded(job, run)))
        for job in jobs
    )
    return [job for job in left if job.runs]


class Pace(NamedTuple):
    """Time of a job with k runs trained together: ``each`` + ``shared`` / k microseconds per view,
    and ``around`` seconds outside the training loop, on a ``device``."""

    each: float = 2.9
    shared: float = 5.9
    around: float = 48.0
    device: str = "NVIDIA H200"

    @staticmethod
    def of(records: Records) -> Pace:
        """Fit the pace to jobs that had their device alone, on a GPU if any record is from a GPU: a
        line in 1 / k, or the default pace scaled if all jobs have one size."""
        # Records call the number of concurrent jobs "beside".
        alone = (r for r in records if not r.get("beside"))
        timed = [(r, us) for r in alone if (us := dig(r, "us_a_view")) is not None]
        timed = [(r, us) for r, us in timed if "device" in r.get("versions", {})] or timed
        jobs = {(r.get("job_runs", 1), us): r for r, us in timed}
        spent = [(dig(r, "whole_seconds"), dig(r, "job_seconds")) for r in jobs.values()]
        around = [a - b for a, b in spent if a is not None and b is not None]
        if not jobs:
            return Pace()
        devices = dict.fromkeys(r.get("versions", {}).get("device", "CPU") for r in jobs.values())
        pace = Pace(around=median(around or [Pace().around]), device=", ".join(devices))
        shares = [1 / min(runs, STACK) for runs, _ in jobs]
        if len(set(shares)) > 1:
            shared, each = linear_regression(shares, [us for _, us in jobs])
            if shared >= 0 and each > 0:
                return pace._replace(each=each, shared=shared)
        scale = median(us / pace.microseconds(runs) for runs, us in jobs)
        return pace._replace(each=scale * pace.each, shared=scale * pace.shared)

    def microseconds(self, runs: int) -> float:
        """Return the time per view."""
        return self.each + self.shared / min(runs, STACK)

    def minutes(self, jobs: Sequence[PlannedJob]) -> float:
        """Return the time of jobs in turn."""
        loops = sum(job.views * self.microseconds(len(job.runs)) for job in jobs) / 1e6
        return (loops + self.around * len(jobs)) / 60

    def text(self) -> str:
        """Describe the pace."""
        return (
            f"on {self.device}: {self.each:.2g} + {self.shared:.2g} / k us per view for k runs "
            f"trained together, and {self.around:.0f} s per job outside its training loop"
        )


def minutes_text(minutes: float) -> str:
    """Format a time, at least one minute."""
    return f"{max(1, round(minutes)):,} minute{'s' if round(minutes) > 1 else ''}"


def estimate(jobs: Sequence[PlannedJob], pace: Pace) -> str:
    """Describe the number of jobs, runs and views, and their time."""
    views, runs = sum(job.views for job in jobs), sum(len(job.runs) for job in jobs)
    both = ((len(jobs), "job"), (runs, "run"))
    jobs_and_runs = ", ".join(f"{n} {what}{'s' if n > 1 else ''}" for n, what in both)
    return f"{jobs_and_runs}, {views / 1e6:,.0f} million views: {minutes_text(pace.minutes(jobs))}"


def outlook(jobs: Sequence[PlannedJob], records: Records, pace: Pace) -> list[str]:
    """Describe each job in one line: its records, and the time of the runs without records."""
    lines = []
    for job in jobs:
        left = missing([job], records)
        done = len(job.runs) - sum(len(part.runs) for part in left)
        rest = minutes_text(pace.minutes(left)) if left else "done"
        lines.append(f"{job.name}: {done} of {len(job.runs)} records, {rest}")
    return lines
