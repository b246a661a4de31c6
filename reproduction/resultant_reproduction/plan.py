"""The trainings of the paper as data: the jobs of a plan, the jobs without records, their cost.

Torch is not imported, so that `resultant reproduce list` answers at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

from resultant.training.config import CIFAR, REALIZATIONS, Run, TrainConfig, preset
from resultant.training.records import Record, identity
from resultant_reproduction.records import Records

RULES = tuple(name for name in REALIZATIONS if name != "cosine")
BOTH = ("native", "angular")
SETS = ("cifar10", "cifar100")
IMBALANCES = (10, 50, 100)
CLASSES = {"cifar10": 10, "cifar100": 100}
PER_CLASS = {"cifar10": 5000, "cifar100": 500}
# Training images of a dataset that stands in for ImageNet-LT.
STAND_IN = "tiny-imagenet-lt"
STAND_IN_IMAGES = 21_549

# Epochs after which gradients are compared (fig:training-gain, fig:c10-trajectory).
DIAGNOSED = (1, 5, 10, 20, 40, 60, 80, 100, 120, 140, 160, 180, 200)


@dataclass(frozen=True)
class PlannedJob:
    """Runs of one configuration that are trained together."""

    name: str
    config: TrainConfig
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
def controlled(dataset: str, imbalance: float, **changes: object) -> TrainConfig:
    """Return the controlled two-view recipe (sec:controlled-training-protocol)."""
    return preset("cifar-controlled", dataset=dataset, imbalance=float(imbalance), **changes)


@cache
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


def _settings(objective: str, **keep: Any) -> Callable[[Sequence[int]], Iterator[PlannedJob]]:
    """Return the jobs of all rules in the settings of CIFAR."""

    def make(seeds: Sequence[int]) -> Iterator[PlannedJob]:
        for dataset, imbalance in product(SETS, IMBALANCES):
            config = controlled(dataset, imbalance, objective=objective)
            yield PlannedJob(f"{dataset}-if{imbalance}", config, _runs(RULES, seeds), **keep)

    return make


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


# Seeds of the headline in the order of protocol.md.
BLOCKS = ((10, 11, 12, 13), (14, 15, 16), (17, 18, 19))


def _headline(seeds: Sequence[int]) -> Iterator[PlannedJob]:
    for i, block in enumerate(BLOCKS):
        own = [seed for seed in block if seed in seeds]
        for dataset, imbalance in product(reversed(SETS), reversed(IMBALANCES)):
            runs = _runs(("native", "temperature", "angular"), own)
            if runs:
                name = f"{dataset}-if{imbalance}-{i + 1}"
                config = controlled(dataset, imbalance)
                yield PlannedJob(name, config, runs, analyzed=(), tuned=("native",))


def stand_in(architecture: str = "resnet50", objective: str = "contrastive") -> TrainConfig:
    """Return the recipe of photographs that stand in for ImageNet-LT (group 2 of protocol.md)."""
    return preset(
        STAND_IN,
        architecture=architecture,
        objective=objective,
        classification_view=objective == "joint",
        epochs=100,
    )


# Arms of the stand-in: realization and beta.
PHOTO_ARMS = (
    *(("native", 0.0), ("temperature", 0.0), ("preserve", 0.0), ("angular", 0.0)),
    ("angular", 1.5),
)
PHOTO_BOTH = (PHOTO_ARMS[0], PHOTO_ARMS[3])
# Pairs of seeds that are trained one after the other.
PHOTO_BLOCKS = ((0, 1), (2, 3))


def _tiny(seeds: Sequence[int]) -> Iterator[PlannedJob]:
    kinds = (
        ("resnet50", stand_in(), PHOTO_ARMS),
        ("resnet50-joint", stand_in(objective="joint"), PHOTO_BOTH),
        ("resnext50", stand_in("resnext50_32x4d"), PHOTO_BOTH),
    )
    rest = tuple(seed for seed in seeds if all(seed not in block for block in PHOTO_BLOCKS))
    for block, (name, config, arms) in product((*PHOTO_BLOCKS, rest), kinds):
        # Photographs are trained one run at a time.
        for seed, arm in product([seed for seed in block if seed in seeds], arms):
            run = Run(*arm, seed)
            yield PlannedJob(
                f"{name}-{run.name}", config, (run,), calibrated=True, tuned=("native",)
            )


# In an order that spans a wide range early.
DIMENSIONS = (128, 512, 32, 2048, 64, 1024, 256)


def _dimension(seeds: Sequence[int]) -> Iterator[PlannedJob]:
    for p in DIMENSIONS:
        # The plan main has p = 128.
        config, calibrated = controlled("cifar100", 100, dim=p), p != DIMENSIONS[0]
        yield PlannedJob(f"p{p}", config, _runs(("native",), seeds), calibrated=calibrated)


def other_losses() -> dict[str, TrainConfig]:
    """Return the recipe with other losses than ProCo's, by name (group 4 of protocol.md)."""
    plain = {"objective": "joint", "contrastive_weight": 0.0, "classifier_prior": 0.0}
    changes = {
        "supcon": {"contrastive": "supcon"},
        "balanced": {"contrastive": "balanced"},
        "cross-entropy": plain,
    }
    return {name: controlled("cifar100", 100, **own) for name, own in changes.items()}


def _losses(seeds: Sequence[int]) -> Iterator[PlannedJob]:
    for name, config in other_losses().items():
        yield PlannedJob(name, config, _runs(("native",), seeds), calibrated=True)


PLANS = {
    plan.name: plan
    for plan in (
        Plan(
            "main",
            "tab:angular-training and the frozen tables",
            (0, 1, 2),
            _settings("contrastive"),
        ),
        Plan("joint", "tab:joint-fc", (0, 1, 2), _settings("joint", analyzed=())),
        Plan("controls", "the CIFAR-10 control matrix", (0,), _controls),
        Plan("power", "tab:historical-power-temperature", (0, 1, 2), _power),
        Plan("official", "ProCo's public recipe alone", (0, 1, 2), _official),
        Plan("failure", "the state of fig:realization", (0, 1, 2), _failure),
        Plan("beyond", "a sweep of beta, other estimators of kappa, views", (0, 1, 2), _beyond),
        Plan("members", "native ProCo on other subsets of CIFAR-100, IF 100", (0, 1, 2), _members),
        Plan("trials", "native joint training with less of a classifier", (0, 1, 2), _trials),
        Plan(
            "headline", "training with an equal gain, ten more seeds", (*range(10, 20),), _headline
        ),
        Plan("tiny", "Tiny-ImageNet-LT in the place of ImageNet-LT", (0, 1, 2, 3), _tiny),
        Plan("dimension", "native ProCo by dimension, CIFAR-100 IF 100", (0, 1, 2), _dimension),
        Plan("losses", "other losses than ProCo's, CIFAR-100 IF 100", (0, 1, 2), _losses),
    )
}
# Plans of protocol.md.
SECOND_ROUND = ("headline", "tiny", "dimension", "losses")


@cache
def _planned() -> dict[str, set[int]]:
    """Return the seeds of the plans of the first round together, by kind of run."""
    seeds: dict[str, set[int]] = {}
    first = (plan for plan in PLANS.values() if plan.name not in SECOND_ROUND)
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
    analyzed = run.realization in job.analyzed
    parts = {
        "analysis": analyzed,
        "calibration": analyzed and job.calibrated,
        "ended": run.realization in job.ended,
    }
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


def workload(jobs: Sequence[PlannedJob]) -> str:
    """Describe the number of jobs, runs and views; empty without jobs."""
    views, runs = sum(job.views for job in jobs), sum(len(job.runs) for job in jobs)
    counts = ((len(jobs), "job"), (runs, "run"))
    names = ", ".join(f"{n} {what}{'s' if n > 1 else ''}" for n, what in counts)
    return f"{names}, {views / 1e6:,.0f} million views" if jobs else ""
