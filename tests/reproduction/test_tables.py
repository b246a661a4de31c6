"""Tables of trainings and the claims about them, from artificial records."""

from __future__ import annotations

from typing import Any

from paper_evidence import angular_training
from resultant_reproduction import ARTEFACTS, Records
from resultant_reproduction.plan import controlled, official, planned_seeds
from training_records import record


def test_fewer_and_more_seeds_than_planned() -> None:
    config, path = controlled("cifar10", 100), "CIFAR-10 / 100, Encoder"

    def cell(seeds: int) -> Any:
        records = [record(config, "native", 0.0, seed) for seed in range(seeds)]
        for r in records:
            value = {"accuracy": 0.6 + 0.01 * r["seed"]}
            r["probes"] = {"long_tail": {"encoder": value, "projection": value}}
        outcome = angular_training(Records(records))
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
