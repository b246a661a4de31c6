"""The trainings of the paper as data: which jobs a plan has, which have records, what is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import median

from resultant.data.longtail import long_tail_counts
from resultant.paper.records import Records, dig
from resultant.presets import Run, TrainConfig, preset

REALIZATIONS = ("native", "temperature", "preserve", "angular")
EDITED = REALIZATIONS[1:]
BOTH = ("native", "angular")
SETS = ("cifar10", "cifar100")
IMBALANCES = (10, 50, 100)
CLASSES = {"cifar10": 10, "cifar100": 100}
PER_CLASS = {"cifar10": 5000, "cifar100": 500}

# fig:training-gain, fig:c10-trajectory: where gradients are compared.
WATCHED = (1, 5, 10, 20, 40, 60, 80, 100, 120, 140, 160, 180, 200)

# Microseconds a view where no record tells: an H200, runs side by side.
US_A_VIEW = 7.5


@dataclass(frozen=True)
class PlannedJob:
    """Runs of one configuration that are trained together.

    Leading and exact gradients are compared after ``gradient_epochs``; of contrastive training
    the frozen analysis of the realizations ``analyzed`` is kept.
    """

    name: str
    config: TrainConfig
    runs: tuple[Run, ...]
    gradient_epochs: tuple[int, ...] = ()
    analyzed: tuple[str, ...] = ("native",)

    @property
    def views(self) -> int:
        """Images that pass through a network while it is trained."""
        c = self.config
        images = long_tail_counts(PER_CLASS[c.dataset], CLASSES[c.dataset], c.imbalance).sum()
        steps = int(images) // c.batch_size
        return len(self.runs) * c.epochs * steps * c.batch_size * c.views


@dataclass(frozen=True)
class Plan:
    """Jobs in the order in which they are run, for some seeds."""

    name: str
    title: str
    seeds: tuple[int, ...]
    make: Callable[[Sequence[int]], Iterator[PlannedJob]]

    def jobs(self, seeds: Sequence[int] | None = None) -> list[PlannedJob]:
        return list(self.make(self.seeds if seeds is None else tuple(seeds)))


def controlled(dataset: str, imbalance: float, **changes: object) -> TrainConfig:
    """The controlled two-view recipe (sec:controlled-training-protocol)."""
    return preset("cifar-controlled", dataset=dataset, imbalance=float(imbalance), **changes)


def official(dataset: str, imbalance: float, **changes: object) -> TrainConfig:
    """ProCo's public three-view recipe, which the historical table looks like."""
    return preset("cifar-official", dataset=dataset, imbalance=float(imbalance), **changes)


def stronger_views() -> TrainConfig:
    """The controlled recipe on AutoAugment and Cutout, CIFAR-10 IF 100."""
    return controlled("cifar10", 100, contrastive_view="autoaugment")


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
            f"{dataset}-if{imbalance}", controlled(dataset, imbalance), _runs(REALIZATIONS, seeds)
        )


def _joint(seeds: Sequence[int]) -> Iterator[PlannedJob]:
    for dataset, imbalance in product(SETS, IMBALANCES):
        config = controlled(dataset, imbalance, objective="joint")
        yield PlannedJob(f"{dataset}-if{imbalance}", config, _runs(REALIZATIONS, seeds))


def _controls(seeds: Sequence[int]) -> Iterator[PlannedJob]:
    # Under the frequency prior, main and joint have native and beta = 0.
    for imbalance, objective in product((1, *IMBALANCES), ("contrastive", "joint")):
        config = controlled("cifar10", imbalance, objective=objective, prior=0.0)
        watched = WATCHED if imbalance == 50 else ()
        runs = _runs(REALIZATIONS, seeds, (0.0, 0.5))
        yield PlannedJob(f"if{imbalance}-u-{objective}", config, runs, watched)
    for imbalance, objective in product(IMBALANCES, ("contrastive", "joint")):
        config = controlled("cifar10", imbalance, objective=objective)
        yield PlannedJob(f"if{imbalance}-f-{objective}", config, _runs(EDITED, seeds, (0.5,)))


def _power(seeds: Sequence[int]) -> Iterator[PlannedJob]:
    # Native is temperature at beta = 1 in either family.
    for dataset, imbalance in product(SETS, (50, 100)):
        config = official(dataset, imbalance, family="power")
        runs = _runs(("native", "temperature"), seeds, (0.5, 1.5))
        yield PlannedJob(f"{dataset}-if{imbalance}", config, runs, WATCHED)


def _official(seeds: Sequence[int]) -> Iterator[PlannedJob]:
    for dataset in SETS:
        yield PlannedJob(f"{dataset}-if100", official(dataset, 100), _runs(("native",), seeds))


def _failure(seeds: Sequence[int]) -> Iterator[PlannedJob]:
    config = controlled("cifar100", 10, prior=0.0)
    both = ("native", "temperature")
    yield PlannedJob("cifar100-if10-u", config, _runs(both, seeds), analyzed=both)


def _beyond(seeds: Sequence[int]) -> Iterator[PlannedJob]:
    # Native (beta = 1) and beta = 0 are in main.
    config = controlled("cifar100", 100)
    yield PlannedJob("beta", config, _runs(("angular",), seeds, (-0.5, 0.5, 1.5, 2.0)))
    for name, changes in (("mle", {"estimator": "mle"}), ("leave-out", {"leave_out": True})):
        yield PlannedJob(name, controlled("cifar100", 100, **changes), _runs(BOTH, seeds))
    yield PlannedJob("views", stronger_views(), _runs(BOTH, seeds))


PLANS = {
    plan.name: plan
    for plan in (
        Plan("main", "tab:angular-training and the frozen tables", (0, 1, 2), _main),
        Plan("joint", "tab:joint-fc", (0,), _joint),
        Plan("controls", "the CIFAR-10 control matrix", (0,), _controls),
        Plan("power", "tab:historical-power-temperature", (0,), _power),
        Plan("official", "ProCo's public recipe, beside seed 0 of power", (1, 2), _official),
        Plan("failure", "the state of fig:realization", (0,), _failure),
        Plan("beyond", "a sweep of beta, other estimators of kappa, views", (0, 1, 2), _beyond),
    )
}


def plan(name: str) -> Plan:
    if name not in PLANS:
        raise ValueError(f"expected a plan, one of {', '.join(PLANS)}, got {name!r}")
    return PLANS[name]


def missing(jobs: Sequence[PlannedJob], records: Records) -> list[PlannedJob]:
    """The jobs of which a run has no record, with such runs alone."""
    left = (
        replace(job, runs=tuple(run for run in job.runs if not records.has(job.config, run)))
        for job in jobs
    )
    return [job for job in left if job.runs]


def measured(records: Records) -> float:
    """Microseconds a view: the median of the records, those of a GPU if there are any."""
    timed = [(v, r) for r in records if (v := dig(r, "us_a_view")) is not None]
    on_gpu = [v for v, r in timed if "device" in r.get("versions", {})]
    return median(on_gpu or [v for v, _ in timed] or [US_A_VIEW])


def minutes(jobs: Sequence[PlannedJob], us_a_view: float = US_A_VIEW) -> float:
    return sum(job.views for job in jobs) * us_a_view / 60e6


def estimate(jobs: Sequence[PlannedJob], us_a_view: float = US_A_VIEW) -> str:
    """What jobs cost, in a line."""
    views, runs = sum(job.views for job in jobs), sum(len(job.runs) for job in jobs)
    cost = f"{views / 1e6:,.0f} million views at {us_a_view:.1f} us a view"
    return f"{len(jobs)} jobs, {runs} runs, {cost}: {minutes(jobs, us_a_view):,.0f} minutes"


def outlook(jobs: Sequence[PlannedJob], records: Records, us_a_view: float) -> list[str]:
    """A line a job: its runs, how long they take, and whether they have their records."""
    lines = []
    for job in jobs:
        left = missing([job], records)
        known = len(job.runs) - sum(len(part.runs) for part in left)
        stands = f"{minutes(left, us_a_view):.0f} minutes" if left else "done"
        lines.append(f"{job.name}: {known} of {len(job.runs)} records, {stands}")
    return lines
