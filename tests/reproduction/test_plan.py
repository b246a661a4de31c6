"""Plans as data: their jobs, and what is left of them."""

from __future__ import annotations

from typing import Any

import pytest

from resultant.training.config import Run
from resultant_reproduction.plan import PLANS, PlannedJob, missing, workload
from resultant_reproduction.records import Records
from tiny_cifar import tiny_config
from training_records import left_by

# Sizes of the long-tailed subsets, IF 10, 50 and 100.
SIZES = {"cifar10": (20_431, 13_996, 12_406), "cifar100": (19_573, 12_608, 10_847)}


def test_main_plan() -> None:
    jobs = PLANS["main"].jobs()
    assert [len(job.runs) for job in jobs] == [12] * 6
    images = [size // 256 * 256 for sizes in SIZES.values() for size in sizes]
    assert [job.views for job in jobs] == [12 * 200 * 2 * n for n in images]
    assert workload(jobs) == "6 jobs, 72 runs, 428 million views" and workload([]) == ""
    assert {run.seed for job in PLANS["main"].jobs((7,)) for run in job.runs} == {7}


def test_other_plans() -> None:
    numbers = {name: sum(len(job.runs) for job in plan.jobs()) for name, plan in PLANS.items()}
    assert numbers == {
        "main": 72,
        "joint": 72,
        "controls": 74,
        "power": 36,
        "headline": 180,
        "official": 6,
        "failure": 6,
        "beyond": 30,
        "members": 6,
        "trials": 18,
        "tiny": 36,
        "dimension": 21,
        "losses": 9,
    }
    for name in ("joint", "controls"):
        joint = [job for job in PLANS[name].jobs() if job.config.objective == "joint"]
        assert joint and not any(r.realization in job.analyzed for job in joint for r in job.runs)
    uniform = [job for job in PLANS["controls"].jobs() if "-u-" in job.name]
    assert {job.config.prior for job in uniform} == {0.0}
    # Seeds of no block are trained with the last one.
    for name, block in (("headline", "3"), ("tiny", "seed99")):
        own = PLANS[name].jobs((99,))
        assert own and all(job.name.endswith(block) for job in own)
    for plan in PLANS.values():
        names = [job.name for job in plan.jobs()]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("part", ["analysis", "ended", "trajectory", "probes"])
def test_a_record_that_lacks_a_part_is_missing(part: str) -> None:
    both = (Run("native", 0.0, 0), Run("temperature", 0.0, 0))
    job = PlannedJob("one", tiny_config(), both, (1,), ended=("native",))
    whole, other = left_by(job, "main")
    assert missing([job], Records([whole, other])) == []
    del whole[part]
    (left,) = missing([job], Records([whole, other]))
    assert left.runs == both[:1]
    # Nothing that was not asked for is missed.
    plain = PlannedJob("one", tiny_config(), both, analyzed=())
    assert bool(missing([plain], Records([whole, other]))) == (part == "probes")


@pytest.mark.parametrize("family", ["linear", "power"])
def test_a_trajectory_without_errors_is_missing(family: str) -> None:
    """A trajectory has one error per planned epoch, and two in the power family."""
    asked = (1, 2, 50)
    job = PlannedJob("one", tiny_config(family=family), (Run(),), asked)
    (whole,) = left_by(job, "main")
    course = whole["trajectory"]
    assert course["epoch"] == [1, 2] and missing([job], Records([whole])) == []

    def lacks(**changes: Any) -> bool:
        other = {**whole, "trajectory": {**course, **changes}}
        return missing([job], Records([other])) == [job]

    assert lacks(epoch=[1, 3]) and lacks(epoch=[1], gradient_error=[0.5])
    assert lacks(gradient_error=[0.5, None])
    assert lacks(increment_error=[None, {}]) == (family == "power")
    for name in ("epoch", "gradient_error"):
        part = {key: value for key, value in course.items() if key != name}
        assert missing([job], Records([{**whole, "trajectory": part}])) == [job]


def test_probes_of_the_balanced_set() -> None:
    """A plan has these probes if it has the images; a training outside the plans is asked for
    them."""
    job = PlannedJob("one", tiny_config(), (Run(),))
    (records,) = left_by(job, "main")
    del records["probes"]["balanced"]
    assert missing([job], Records([records])) == []
    del records["plan"]
    assert missing([job], Records([records])) == [job]
