"""The CIFAR-10 control matrix: maps of changes and trajectories, from artificial records."""

from __future__ import annotations

from typing import Any

import pytest

from resultant_reproduction import ARTEFACTS, Evidence, Records, controls
from resultant_reproduction.spec import printed_rows
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


@pytest.mark.parametrize("seeds", [1, 2])
def test_tables_say_where_seeds_were_added(seeds: int) -> None:
    """The plan has one seed."""
    name = "c10-if50-u"
    kinds = [(r, s) for r in ("native", "angular") for s in range(seeds)]
    records = [probed(name, r, 0.0, s, 0.8 + 0.01 * s) for r, s in kinds]
    notes = ARTEFACTS[name].compute(Evidence(Records(records))).notes
    begins = ["Seeds beyond the planned ones were added"] * (seeds > 1)
    assert [note[: len(begin)] for note, begin in zip(notes, begins, strict=True)] == begins
    assert not ARTEFACTS[name].compute(Evidence(Records())).notes


def test_numbers_that_two_tables_print() -> None:
    """tab:joint-fc and the classifiers of the control matrix under the frequency prior."""
    order = ("ProCo 1", "Temperature 0", "Intercept-preserving 0", "Pure Angular 0")
    for name, *texts in printed_rows("joint-fc")[:3]:
        matrix = printed_rows(f"c10-if{name.split()[-1]}-f")
        heads = {f"{title} {beta}": own[-1] for title, beta, *own in matrix}
        assert [heads[policy] for policy in order] == texts[:4]


def test_maps_of_fewer_seeds_than_planned() -> None:
    """Under the frequency prior, beta = 0 is trained with three seeds."""
    records = [probed("c10-if50-f", r, 0.0, s, 0.8) for r in ("native", "angular") for s in (0, 1)]
    outcome = ARTEFACTS["c10-pure-complete"].compute(Evidence(Records(records)))
    status = ARTEFACTS["c10-pure-complete"].status(outcome)
    assert status == "partly rerun (2 of 84, 2 with fewer seeds than planned)"
    assert outcome.notes[0].startswith("2 of 84 changes have records, of 2 seeds each;")
    assert [c.content() for c in outcome.cells if c.ours] == [
        "+0.19 / +0.00 ± 0.00 [2 of 3]",
        "+0.35 / +0.00 ± 0.00 [2 of 3]",
    ]


def test_no_sign_is_printed_of_zero() -> None:
    """tab:c10-if10-f has 88.60 for ProCo and for temperature at beta = 0, Encoder."""
    for value, alike in ((0.81, 1), (0.79, 0)):
        records = [
            probed("c10-if10-f", "native", 0.0, 0, 0.80),
            probed("c10-if10-f", "temperature", 0.0, 0, value),
        ]
        (note,) = ARTEFACTS["c10-pure-complete"].compute(Evidence(Records(records))).notes
        message = f"{alike} of 1 have the printed sign (1 printed as 0.00 left out)"
        assert message in note and note.startswith("2 of 84 changes have records")


@pytest.mark.slow
def test_numbers_in_maps() -> None:
    """Two decimals, within their cells; zero has no sign, and a number beyond the shades a mark."""
    name = "c10-if100-u"
    records = [probed(name, "native", 0.0, 0, 0.80), probed(name, "temperature", 0.0, 0, 0.799999)]
    records += [probed(name, "angular", 0.0, 0, 0.80001), probed(name, "preserve", 0.0, 0, 0.6016)]
    draw = ARTEFACTS["c10-pure-complete"].compute(Evidence(Records(records))).draw
    assert draw is not None
    figure = draw()
    figure.draw_without_rendering()
    paper, ours = figure.axes[:2]
    sentence = [[text.get_text() for text in ax.texts] for ax in (paper, ours)]
    assert sorted(set(sentence[1])) == ["-19.84▼", "0.00", "–"] and sentence[1].count("0.00") == 4
    assert {"0.00", "-19.84▼", "+0.02"} <= set(sentence[0])
    assert not {"+0.00", "-0.00", "+0.0", "-0.0"} & {text for own in sentence for text in own}
    for ax in (paper, ours):
        wide = ax.get_window_extent().width / 6
        assert max(text.get_window_extent().width for text in ax.texts) < 0.8 * wide


def test_plans_that_are_read() -> None:
    """Under the frequency prior, native and beta = 0 are those of main, or of joint."""
    for name, plans in (
        ("c10-if50-u", ["controls"]),
        ("c10-if50-f", ["main", "joint", "controls"]),
        ("c10-pure-complete", ["main", "controls"]),
        ("c10-joint-uniform-complete", ["controls"]),
        ("c10-joint-actual-complete", ["joint", "controls"]),
    ):
        assert list(ARTEFACTS[name].entry.plans) == plans


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


def test_trajectories_of_some_policies() -> None:
    """One policy of seven is not all of the figure, nor is one objective."""
    artefact = ARTEFACTS["c10-trajectory"]

    def status(records: list[dict[str, Any]]) -> str:
        return artefact.status(artefact.compute(Evidence(Records(records))))

    assert status([]) == "not run yet"
    assert status([followed("native", 0.0)]) == "partly rerun (1 of 14)"
    contrastive = [followed(*policy) for policy in controls.POLICIES.values()]
    assert status(contrastive) == "partly rerun (7 of 14)"
    both = [
        followed(*policy, objective=objective)
        for policy in controls.POLICIES.values()
        for objective in ("contrastive", "joint")
    ]
    assert status(both) == "rerun"
    # A record without its trajectory draws nothing.
    del contrastive[0]["trajectory"]
    assert status(contrastive) == "partly rerun (6 of 14)"


def test_trajectories_are_drawn_and_described() -> None:
    records = [
        followed("native", 0.0),
        followed("angular", 0.5),
        followed("angular", 0.5, seed=1, more=0.5),
        followed("temperature", 0.0, objective="joint", more=1.0),
    ]
    outcome = ARTEFACTS["c10-trajectory"].compute(Evidence(Records(records)))
    cells = {(c.row, c.column): c.content() for c in outcome.cells}
    assert len(cells) == 28
    assert cells["native", "contrastive, gradient error (%)"] == "4.000 [1]"
    assert cells["angular 0.5", "contrastive, mean |intercept drift|"] == "0.500 ± 0.354 [2]"
    assert cells["temperature 0", "joint, gradient error (%)"] == "5.000 [1]"
    assert cells["temperature 0", "contrastive, gradient error (%)"] == "no record"
    assert "native seed 0; temperature 0 none;" in outcome.notes[1]
    assert outcome.notes[1].endswith("angular 0 none; angular 0.5 seeds 0, 1.")
    assert outcome.draw is not None
    axes: Any = outcome.draw().axes
    titles = [ax.get_title(loc="left") for ax in axes]
    assert titles == ["(a) contrastive", "(b) contrastive", "(c) joint", "(d) joint"]
    assert [len(ax.lines) for ax in axes] == [2, 2, 1, 1]
    # The mean over seeds, without the epoch that has no number.
    assert axes[0].lines[1].get_xydata().tolist() == [[1, 0], [200, 0.5]]
    assert axes[3].lines[0].get_xydata().tolist() == [[1, 2], [100, 3], [200, 5]]
