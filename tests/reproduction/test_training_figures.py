"""Maps of changes, trajectories and the power family, from artificial records."""

from typing import Any

import numpy as np
import pytest

from resultant_reproduction import ITEMS, Evidence, Records
from resultant_reproduction.cells.cells import Outcome
from resultant_reproduction.runs.plans import controlled, official
from resultant_reproduction.studies import control_matrix as controls
from resultant_reproduction.studies.official_recipe import POLICIES
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


def test_trajectories_are_drawn_and_described() -> None:
    records = []
    for objective, rule, beta, seed, more in (
        ("contrastive", "native", 0.0, 0, 0.0),
        ("contrastive", "angular", 0.5, 0, 0.0),
        ("contrastive", "angular", 0.5, 1, 0.5),
        ("joint", "temperature", 0.0, 0, 1.0),
    ):
        facts = {"epoch": [1, 100, 200], "intercept_drift": [0.0, None, 0.25 + more]}
        facts["gradient_error"] = [2.0, 3.0, 4.0 + more]
        config = controls.control_config("c10-if50-u", objective)
        records.append(record(config, rule, beta, seed, trajectory=facts))
    assert computed("c10-trajectory", [])[1] == "not run yet"
    outcome, status, cells = computed("c10-trajectory", records)
    # Of seven policies and two objectives.
    assert status == "partly rerun (3 of 14)" and len(cells) == 28
    assert cells["native", "contrastive, gradient error (%)"] == "4.000 [1]"
    assert cells["angular 0.5", "contrastive, mean |intercept drift|"] == "0.500 ± 0.354 [2]"
    assert cells["temperature 0", "joint, gradient error (%)"] == "5.000 [1]"
    assert cells["temperature 0", "contrastive, gradient error (%)"] == "no record"
    assert "native seed 0; temperature 0 none;" in outcome.notes[0]
    assert outcome.notes[0].endswith("angular 0 none; angular 0.5 seeds 0, 1.")
    panels = axes(outcome)
    assert [ax.get_title("left")[4:] for ax in panels] == ["contrastive"] * 2 + ["joint"] * 2
    assert [len(ax.lines) for ax in panels] == [2, 2, 1, 1]
    # The mean over seeds, without the epoch that has no number.
    assert panels[0].lines[1].get_xydata().tolist() == [[1, 0], [200, 0.5]]
    assert panels[3].lines[0].get_xydata().tolist() == [[1, 2], [100, 3], [200, 5]]


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


CONFIG = official("cifar100", 100, family="power")
PLANE = {
    "share": 0.99,
    "reduced": {"exact": [-1.0, 0.1], "leading": [-1.1, 0.0]},
    "increased": {"exact": [2.0, 0.2], "leading": [2.2, 0.1]},
}


def followed(
    policy: str, seed: int = 0, *, epochs: bool = True, more: float = 0.0
) -> dict[str, Any]:
    """A record of the power family with or without increments over epochs, ``more`` than those of
    others."""
    trajectory: dict[str, Any] = {"epoch": [1, 100, 200], "gain_sd": [0.1, 0.2, 0.3]}
    trajectory["applied_gain_sd"] = [v + more for v in (0.2, 0.3, 0.4)]
    trajectory["gradient_error"] = [4.0, 5.0, 6.0]
    if epochs:
        errors = [{"reduced": e + more, "increased": e + more + 1} for e in (7.0, 8.0)]
        trajectory["increment_error"] = [None, *errors]
        trajectory["mean_increment_error"] = [None, *[{"reduced": 9.0, "increased": 9.0}] * 2]
        trajectory["increment_plane"] = [None, PLANE, {**PLANE, "share": 0.98}]
    last = {"applied_gain_sd": 0.4, "gain_sd": 0.3, "gradient_error": 6.0}
    last |= {"mean_gradient_error": 9.0} if epochs else {}
    return record(CONFIG, *POLICIES[policy], seed, last=last, trajectory=trajectory)


def every(*seeds: int, **others: Any) -> list[dict[str, Any]]:
    return [followed(policy, seed, **others) for seed in seeds for policy in POLICIES]


def test_training_gain_is_drawn() -> None:
    """Increments are of the seeds that have some, a mean over them and the first one's plane."""
    first = followed("ProCo", epochs=False)
    records = [first, *every(0)[1:], *every(1), *every(2, more=0.5)]
    outcome, status, cells = computed("training-gain", records)
    assert status == "partly rerun (19 of 19, 2 with fewer seeds than planned)"
    row = "CIFAR-100 / 100, ProCo"
    assert cells[row, "error of the reduced increment (%)"] == "8.25 ± 0.35 [2 of 3]"
    gains, errors, plane = panels = axes(outcome)
    assert not any("no record" in ax.get_title(loc="left") for ax in panels)
    # Applied and native dispersion of three states, and twice the printed numbers of the last epoch
    # after an entry of the legend; three states, two interventions of each and the printed range;
    # twice an entry and two increments of the first.
    assert [len(ax.lines) for ax in panels] == [6 + 8, 3 + 6 + 1, 6]
    lines = (*gains.lines[7:10], *gains.lines[11:], *errors.lines[3:5], errors.lines[-1])
    numbers = [0.630, 0.684, 0.648, 0.630, 0.349, 0.948, 7.25, 8.25, 8.82]
    assert [line.get_ydata()[0] for line in lines] == numbers
    ends = [line.get_xydata()[-1].tolist() for line in (*plane.lines[1:3], *plane.lines[4:])]
    assert ends == [PLANE[n][k] for k in ("exact", "leading") for n in ("reduced", "increased")]
    assert plane.get_xlabel() == "first axis; ProCo, seed 1, epoch 200"
    assert "Lines: seeds 0, 1, 2;" in outcome.notes[0]
    assert outcome.notes[1].startswith("(c) One network, ProCo of seed 1 at epoch 200: 98.00 % of")
    # An empty panel says that it is empty.
    outcome, status, _ = computed("training-gain", every(0, 1, 2, epochs=False))
    panels = axes(outcome)
    assert status == "partly rerun (12 of 19)" and [len(ax.lines) for ax in panels] == [14, 1, 0]
    assert [ax.get_title(loc="left")[4:] for ax in panels].count("no record") == 2
    outcome, status, _ = computed("training-gain", [])
    assert status == "not run yet" and outcome.draw is None


def test_common_readouts_are_tested() -> None:
    """Long-tail probes of the encoder: ProCo, and networks at differences of 1.0, 1.1, 1.2."""
    records = []
    for seed, step in enumerate((0.010, 0.011, 0.012)):
        for policy, value in (("ProCo", 0.5), ("Reduced gain disparity", 0.5 + step)):
            own = {"long_tail": {"encoder": {"accuracy": value + 0.01 * seed}}}
            records.append(record(CONFIG, *POLICIES[policy], seed, probes=own))
    outcome, status, cells = computed("common-readouts", records[:4])
    assert status == "partly rerun (1 of 8, 2 with fewer seeds than planned)"
    (change,) = outcome.changes
    assert (change.row, change.what) == ("long-tail encoder", "Reduced gain disparity - ProCo")
    assert len(cells) == 4 * 12
    assert cells["CIFAR-100 / 100, ProCo", change.row] == "50.50 ± 0.71 [2 of 3]"
    assert cells["CIFAR-100 / 100, Increased gain disparity", change.row] == "no record"
    assert change.differences == pytest.approx((1.0, 1.1)) and change.verdict == "–"
    # The only row that is drawn: the mean with Student's interval of two seeds.
    reduced, increased = (ax.lines for ax in axes(outcome))
    ends, reach = [1.05] * 2, np.tan(0.475 * np.pi) * np.array([-0.05, 0.05])
    assert reduced[1].get_xdata() == pytest.approx(ends + reach)
    assert reduced[2].get_xdata() == pytest.approx([1.05])
    assert len(reduced) == 4 and len(increased) == 1
    assert computed("common-readouts", records)[1] == "partly rerun (1 of 8)"
    outcome, status, _ = computed("common-readouts", [])
    assert status == "not run yet" and outcome.draw is None
