"""Plans and records: the jobs, what is left of them, and the records that count."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from resultant.training.config import Run
from resultant_reproduction import Records
from resultant_reproduction.runs.plans import (
    PLANS,
    ROUND,
    PlannedJob,
    controlled,
    missing,
    official,
    planned_seeds,
    workload,
)
from tiny_cifar import tiny_config
from training_records import left_by, record

# Sizes of the long-tailed subsets, IF 10, 50 and 100.
SIZES = {"cifar10": (20_431, 13_996, 12_406), "cifar100": (19_573, 12_608, 10_847)}
RUNS = {"main": 72, "joint": 72, "controls": 74, "power": 36, "headline": 180, "failure": 6}
RUNS |= {"official": 6, "beyond": 30, "members": 6, "trials": 18, "tiny": 36, "losses": 9}
RUNS |= {"dimension": 21, "path": 24, "collapse": 24, "score": 135, "gradients": 9}


def test_plans() -> None:
    assert PLANS.keys() == RUNS.keys()
    jobs = PLANS["main"].jobs()
    assert [len(job.runs) for job in jobs] == [12] * 6
    images = [size // 256 * 256 for sizes in SIZES.values() for size in sizes]
    assert [job.views for job in jobs] == [12 * 200 * 2 * n for n in images]
    assert workload(jobs) == "6 jobs, 72 runs, 428 million views" and workload([]) == ""
    assert {run.seed for job in PLANS["main"].jobs((7,)) for run in job.runs} == {7}
    for name, plan in PLANS.items():
        jobs = plan.jobs()
        assert sum(len(job.runs) for job in jobs) == RUNS[name]
        assert len({job.name for job in jobs}) == len(jobs)
    seeds = {late: set[int]() for late in (False, True)}
    for name, plan in PLANS.items():
        seeds[ROUND[name] == 3] |= {run.seed for job in plan.jobs() for run in job.runs}
    assert not seeds[False] & seeds[True], "the third round has new seeds"
    for name in ("joint", "controls"):
        joint = [job for job in PLANS[name].jobs() if job.config.objective == "joint"]
        assert joint and not any(r.realization in job.analyzed for job in joint for r in job.runs)
    uniform = [job for job in PLANS["controls"].jobs() if "-u-" in job.name]
    assert {job.config.prior for job in uniform} == {0.0}
    # Seeds of no block are trained with the last one.
    for name, block in (("headline", "3"), ("tiny", "seed99")):
        own = PLANS[name].jobs((99,))
        assert own and all(job.name.endswith(block) for job in own)
    # Power has seed 0 of ProCo's public recipe, official the others.
    public = official("cifar10", 100), official("cifar10", 100, family="power")
    assert [*map(planned_seeds, public)] == [3, 3]
    assert planned_seeds(controlled("cifar10", 100), "angular") == 3
    assert not planned_seeds(controlled("cifar10", 30))


def test_order_of_the_plans() -> None:
    """The order that protocol.md fixes."""
    jobs = PLANS["tiny"].jobs()
    assert [len(job.runs) for job in jobs] == [1] * 36
    seeds = [0] * 5 + [1] * 5 + [0, 0, 1, 1] * 2 + [2] * 5 + [3] * 5 + [2, 2, 3, 3] * 2
    assert [job.runs[0].seed for job in jobs] == seeds
    assert all(job.config.epochs == 100 and job.config.temperature == 0.07 for job in jobs)
    assert [job.config.views for job in jobs[:18]] == [2] * 10 + [3] * 4 + [2] * 4
    assert {job.config.architecture for job in jobs[14:18]} == {"resnext50_32x4d"}
    dims = [job.config.dim for job in PLANS["dimension"].jobs()]
    assert dims[:2] == [128, 512] and sorted(dims) == [2**k for k in range(5, 12)]
    losses = [job.config for job in PLANS["losses"].jobs()]
    kinds = [(c.contrastive, c.contrastive_weight, c.classifier_prior) for c in losses]
    assert kinds == [("supcon", 1, None), ("balanced", 1, None), ("proco", 0, 0)]


@pytest.mark.parametrize("part", ["analysis", "ended", "trajectory", "probes"])
def test_a_record_that_lacks_a_part_is_missing(part: str) -> None:
    both = (Run("native"), Run("temperature"))
    job = PlannedJob("one", tiny_config(), both, (1,), ended=("native",))
    whole, other = left_by(job, "main")
    assert missing([job], Records([whole, other])) == []
    del whole[part]
    assert [left.runs for left in missing([job], Records([whole, other]))] == [both[:1]]
    # Nothing that was not asked for is missed.
    plain = PlannedJob("one", tiny_config(), both, analyzed=())
    assert bool(missing([plain], Records([whole, other]))) == (part == "probes")


@pytest.mark.parametrize("family", ["linear", "power"])
def test_errors_and_probes_that_are_missing(family: str) -> None:
    """A trajectory has one error per planned epoch, and two in the power family. A plan has probes
    of the balanced set if it has the images; a training outside the plans is asked for them."""
    job = PlannedJob("one", tiny_config(family=family), (Run(),), (1, 2, 50))
    (whole,) = left_by(job, "main")
    course = whole["trajectory"]
    assert course["epoch"] == [1, 2] and missing([job], Records([whole])) == []

    def lacks(left_out: str = "", **changes: Any) -> bool:
        trajectory = {k: v for k, v in (course | changes).items() if k != left_out}
        return missing([job], Records([whole | {"trajectory": trajectory}])) == [job]

    assert lacks(epoch=[1, 3]) and lacks(epoch=[1], gradient_error=[0.5])
    assert lacks(gradient_error=[0.5, None]) and lacks("epoch") and lacks("gradient_error")
    assert lacks(increment_error=[None, {}]) == (family == "power")
    del whole["probes"]["balanced"]
    assert missing([job], Records([whole])) == []
    del whole["plan"]
    assert missing([job], Records([whole])) == [job]


def test_records_are_found_by_what_was_trained(tmp_path: Path) -> None:
    config = controlled("cifar10", 100)
    old = record(config, "native", 0.0, 1, last={"accuracy": 0.5})
    for name in ("clip", "fuse", "leave_out"):
        del old["config"][name]
    short = record(controlled("cifar10", 100, epochs=3), "native", 0.0, 2)
    records = Records([old, short, record(config, "angular", 0.5, 1)])
    assert list(records.seeds(config)) == [1]
    assert records.values(config, "native", 1.0, "last.accuracy") == {1: 50.0}
    assert records.values(config, "native", 1.0, "last.loss") == {}
    assert not records.seeds(config, "angular", 0.0) and records.seeds(config, "angular", 0.5)
    for other in (controlled("cifar10", 50), controlled("cifar10", 100, prior=0.0)):
        assert not records.seeds(other)
    (tmp_path / "main.jsonl").write_text(f'{json.dumps(old)}\n{{"run": 1}}\n')
    with pytest.raises(ValueError, match=r"expected a record at .*main.jsonl:2, got"):
        Records.read(tmp_path)


def test_the_fuller_record_counts() -> None:
    config = controlled("cifar10", 100)
    full = record(config, "native", 0.0, 0, analysis={}, plan="main")
    bare = record(config, "native", 0.0, 0, probes={"long_tail": {}, "balanced": {}})
    for both in ([full, bare], [bare, full]):
        records = Records(both)
        assert records.seeds(config)[0]["plan"] == "main" and records.set_aside == [bare]
    # The rules at the last state count more than the analysis, and that than a trajectory.
    parts: list[dict[str, Any]] = [{"ended": {}}, {"analysis": {}}, {"trajectory": {}}, {}]
    for more, less in pairwise(parts):
        for both in ([more, less], [less, more]):
            built = [record(config, "native", 0.0, 0, **part) for part in both]
            assert more.keys() <= Records(built).seeds(config)[0].keys()
    twice = Records([bare, {**bare, "plan": "again"}])
    assert twice.seeds(config)[0]["plan"] == "again" and twice.set_aside == [bare]
    # A copy of a record, or a fuller record of the same training, is no second training.
    first = record(config, "native", 0.0, 0, job_seconds=7.5)
    again = record(config, "native", 0.0, 0, job_seconds=8.5, analysis={})
    fuller = {**first, "analysis": {}, "trajectory": {}}
    assert Records([first, again, first, again]).trainings(config) == [again, first]
    assert Records([first, again, fuller]).trainings(config) == [fuller, again]
    assert Records([first, fuller]).trainings(config) == [fuller]
