"""Tables, maps of changes and trajectories, from artificial records."""

from __future__ import annotations

from typing import Any

import pytest

from paper_evidence import angular_training
from resultant_reproduction import ARTEFACTS, Evidence, Records, controls
from resultant_reproduction.plan import controlled, official, planned_seeds
from training_records import record


def probed(name: str, realization: str, beta: float, seed: int, value: float) -> dict[str, Any]:
    config = controls.control_config(name, "contrastive")
    spaces = {space: {"accuracy": value} for space in ("encoder", "projection")}
    return record(config, realization, beta, seed, probes={"balanced": spaces})


def test_maps_pair_seeds() -> None:
    """A policy of one seed is compared with the native run of that seed, not with all of them."""
    artefact, name = ARTEFACTS["c10-pure-complete"], "c10-if100-f"
    values = [("native", 0.0, 0, 0.80), ("native", 0.0, 1, 0.90), ("angular", 0.5, 0, 0.81)]
    evidence = Evidence(Records([probed(name, *value) for value in values]))
    outcome = artefact.compute(evidence)
    assert outcome.notes == [
        "2 of 84 changes have records, of 1 seed each; 2 of 2 have the printed sign. Mean and sd "
        "over these 2 changes, which share their ProCo networks: +1.00 ± 0.00 points, +0.26 ± 0.16 "
        "printed."
    ]
    assert artefact.compute(Evidence(Records())).notes == []
    known = {(c.row, c.what): c for c in controls.compare_controls(name, evidence)[1]}
    assert known["Pure Angular 0.5", "contrastive E"].differences == pytest.approx((1.0,))
    assert len(outcome.cells) == 84
    assert {(c.row, c.column): c.content() for c in outcome.cells if c.ours} == {
        ("IF100-F E", "Pure Angular 0.5"): "+0.37 / +1.00 [1]",
        ("IF100-F P", "Pure Angular 0.5"): "+0.14 / +1.00 [1]",
    }
    assert artefact.status(outcome) == "partly rerun (2 of 84)"


def followed(
    realization: str, beta: float, seed: int = 0, objective: str = "contrastive", more: float = 0.0
) -> dict[str, Any]:
    config = controls.control_config("c10-if50-u", objective)
    facts = {
        "epoch": [1, 100, 200],
        "intercept_drift": [0.0, None, 0.25 + more],
        "gradient_error": [2.0, 3.0, 4.0 + more],
    }
    return record(config, realization, beta, seed, trajectory=facts)


def test_trajectories_are_drawn_and_described() -> None:
    records = [
        followed("native", 0.0),
        followed("angular", 0.5),
        followed("angular", 0.5, seed=1, more=0.5),
        followed("temperature", 0.0, objective="joint", more=1.0),
    ]
    artefact = ARTEFACTS["c10-trajectory"]
    assert artefact.status(artefact.compute(Evidence(Records()))) == "not run yet"
    outcome = artefact.compute(Evidence(Records(records)))
    # Of seven policies and two objectives.
    assert artefact.status(outcome) == "partly rerun (3 of 14)"
    cells = {(c.row, c.column): c.content() for c in outcome.cells}
    assert len(cells) == 28
    assert cells["native", "contrastive, gradient error (%)"] == "4.000 [1]"
    assert cells["angular 0.5", "contrastive, mean |intercept drift|"] == "0.500 ± 0.354 [2]"
    assert cells["temperature 0", "joint, gradient error (%)"] == "5.000 [1]"
    assert cells["temperature 0", "contrastive, gradient error (%)"] == "no record"
    assert "native seed 0; temperature 0 none;" in outcome.notes[0]
    assert outcome.notes[0].endswith("angular 0 none; angular 0.5 seeds 0, 1.")
    assert outcome.draw is not None
    axes: Any = outcome.draw().axes
    titles = [ax.get_title(loc="left") for ax in axes]
    assert titles == ["(a) contrastive", "(b) contrastive", "(c) joint", "(d) joint"]
    assert [len(ax.lines) for ax in axes] == [2, 2, 1, 1]
    # The mean over seeds, without the epoch that has no number.
    assert axes[0].lines[1].get_xydata().tolist() == [[1, 0], [200, 0.5]]
    assert axes[3].lines[0].get_xydata().tolist() == [[1, 2], [100, 3], [200, 5]]


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
