"""Tables of trainings and the claims about them, from artificial records."""

from __future__ import annotations

from typing import Any

import pytest

from resultant_reproduction import ARTEFACTS, Evidence, Records, tables
from resultant_reproduction.plan import PLANS, controlled, official, planned_seeds
from training_records import record


def test_stronger_views() -> None:
    """Paired changes within a kind of views and between kinds, and their texts."""
    plain = controlled("cifar10", 100)
    job = next(job for job in PLANS["beyond"].jobs() if job.name == "views")
    assert job.config == controlled("cifar10", 100, contrastive_view="autoaugment")
    assert [(r.realization, r.seed) for r in job.runs] == [
        (name, seed) for seed in range(3) for name in ("native", "angular")
    ]
    result = []
    for config, level in ((plain, 0.68), (job.config, 0.72)):
        for run in job.runs:
            more = (0.003 + 0.001 * run.seed) * (run.realization == "angular") + 0.01 * run.seed
            spaces = {"encoder": {"accuracy": level + more}, "projection": {"accuracy": 0.7}}
            result.append(record(config, run.realization, run.beta, run.seed))
            result[-1]["probes"] = {"long_tail": spaces}
    artefact = ARTEFACTS["stronger-views"]
    outcome = artefact.compute(Evidence(Records(result)))
    changes = {(c.row, c.what): c for c in outcome.changes}
    ours = changes["AutoAugment views, encoder", "Pure Angular - ProCo"]
    assert ours.differences == pytest.approx((0.3, 0.4, 0.5)) and ours.verdict == "–"
    between = changes["ProCo, encoder", "AutoAugment - SimCLR"]
    assert between.differences == pytest.approx((4.0,) * 3)
    assert "Pure Angular on AutoAugment views 73.40 ± 1.10 [3]" in outcome.notes[0]
    assert artefact.status(outcome) == "rerun"
    less = artefact.compute(Evidence(Records(result[:6])))
    assert artefact.status(less) == "not run yet" and len(less.changes) == 2
    assert artefact.compute(Evidence(Records())).notes == []


def test_fewer_and_more_seeds_than_planned() -> None:
    config, path = controlled("cifar10", 100), "CIFAR-10 / 100, Encoder"

    def cell(seeds: int) -> Any:
        records = [record(config, "native", 0.0, seed) for seed in range(seeds)]
        for r in records:
            value = {"accuracy": 0.6 + 0.01 * r["seed"]}
            r["probes"] = {"long_tail": {"encoder": value, "projection": value}}
        outcome = tables.angular_training(Evidence(Records(records)))
        result = {(c.row, c.column): c for c in outcome.cells}
        return ARTEFACTS["angular-training"].status(outcome), result[path, "ProCo"]

    status, two = cell(2)
    assert two.partial and two.content() == "68.24 ± 0.16 / 60.50 ± 0.71 [2 of 3]"
    assert status.startswith("partly rerun (2 of 70, 2 with fewer seeds than planned; 10 need")
    assert cell(1)[1].content() == "68.24 ± 0.16 / 60.00 [1 of 3]"
    status, six = cell(6)
    assert not six.partial and six.content() == "68.24 ± 0.16 / 62.50 ± 1.87 [6]"
    assert status.startswith("partly rerun (2 of 70; 10 need")
    # Power has seed 0 of ProCo's public recipe, official the others.
    assert (
        planned_seeds(official("cifar10", 100))
        == planned_seeds(official("cifar10", 100, family="power"))
        == 3
    )
    assert planned_seeds(config, "angular") == 3 and not planned_seeds(controlled("cifar10", 30))
