"""Maps of changes, trajectories and the power family, from artificial records."""

from typing import Any

import pytest

from resultant_reproduction import ITEMS, Evidence, Records
from resultant_reproduction.cells.cells import Outcome
from resultant_reproduction.runs.plans import controlled
from resultant_reproduction.studies import control_matrix as controls
from training_records import angular_training, probed, record


def computed(name: str, records: list[dict[str, Any]]) -> tuple[Outcome, str, dict[Any, str]]:
    """The outcome of an item of given records, its status, and its cells."""
    outcome = ITEMS[name].compute(Evidence(Records(records)))
    cells = {(c.row, c.column): c.content() for c in outcome.cells}
    return outcome, ITEMS[name].status(outcome), cells


def axes(outcome: Outcome) -> Any:
    assert outcome.draw is not None
    return outcome.draw().axes


def test_maps_pair_seeds() -> None:
    """A policy of one seed is compared with the native run of that seed, not with all of them."""
    config, records = controls.control_config("c10-if100-f", "contrastive"), []
    for rule, beta, seed, value in (
        ("native", 0.0, 0, 0.8),
        ("native", 0.0, 1, 0.9),
        ("angular", 0.5, 0, 0.81),
    ):
        spaces = {space: {"accuracy": value} for space in ("encoder", "projection")}
        records.append(record(config, rule, beta, seed, probes={"balanced": spaces}))
    outcome, status, cells = computed("c10-pure-complete", records)
    assert outcome.notes == [
        "2 of 84 changes have records, of 1 seed each; 2 of 2 have the printed sign. Mean and sd "
        "over these 2 changes, which share their ProCo networks: +1.00 ± 0.00 points, +0.26 ± 0.16 "
        "printed."
    ]
    assert computed("c10-pure-complete", [])[0].notes == []
    assert len(cells) == 84 and {k: v for k, v in cells.items() if "no record" not in v} == {
        ("IF100-F E", "Pure Angular 0.5"): "+0.37 / +1.00 [1]",
        ("IF100-F P", "Pure Angular 0.5"): "+0.14 / +1.00 [1]",
    }
    assert status == "partly rerun (2 of 84)"


@pytest.mark.parametrize(
    ("seeds", "ours", "fewer"),
    [
        (1, "60.00 [1 of 3]", ", 2 with fewer seeds than planned"),
        (2, "60.50 ± 0.71 [2 of 3]", ", 2 with fewer seeds than planned"),
        (6, "62.50 ± 1.87 [6]", ""),
    ],
)
def test_fewer_and_more_seeds_than_planned(seeds: int, ours: str, fewer: str) -> None:
    config = controlled("cifar10", 100)
    records = [probed(config, "native", seed, 0.6 + 0.01 * seed) for seed in range(seeds)]
    outcome = angular_training(Records(records))
    cells = {(c.row, c.column): c for c in outcome.cells}
    cell = cells["CIFAR-10 / 100, Encoder", "ProCo"]
    assert cell.partial == bool(fewer) and cell.content() == f"68.24 ± 0.16 / {ours}"
    status = ITEMS["angular-training"].status(outcome)
    assert status.startswith(f"partly rerun (2 of 70{fewer}; 10 need")
