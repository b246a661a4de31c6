"""What is said of artefacts: how far they are rerun, and what would add to them."""

from __future__ import annotations

from dataclasses import astuple, replace
from pathlib import Path

import pytest

from resultant.training.config import Run
from resultant.training.records import append
from resultant_reproduction import ARTEFACTS, Evidence, Records, words
from resultant_reproduction.artefact import FAILS, Artefact, Cell, Claim, Outcome, Value, printed
from resultant_reproduction.plan import Plan, PlannedJob, controlled
from resultant_reproduction.training_claims import SHARED
from resultant_reproduction.words import listing, markdown, standing, unfinished
from training_records import record

RESULTS = Path(__file__).parents[2] / "reproduction" / "results"


def test_status() -> None:
    """What is there, what asks for trainings and what for data, in the number that it has."""
    paper, ours = printed("86.28"), Value(86.0)
    have, none = Cell("a", "b", paper, ours), Cell("a", "b", paper)
    away, begun = Cell("a", "b", paper, foreign=True), Cell("a", "b", paper, ours, wanted=3)
    table = Artefact("t", "tab:t", "", lambda evidence: Outcome(), ("main",), "images")
    figure = replace(table, plans=())
    for artefact, cells, status, lacking in (
        (table, [have], "rerun", (0, 0)),
        (table, [have, away], "partly rerun (1 of 2; 1 needs data we may not ship)", (0, 1)),
        (table, [have, away, away], "partly rerun (1 of 3; 2 need data we may not ship)", (0, 2)),
        (table, [have, begun], "partly rerun (2 of 2, 1 with fewer seeds than planned)", (1, 0)),
        (table, [have, none], "partly rerun (1 of 2)", (1, 0)),
        (table, [none, away], "not run yet", (1, 1)),
        (figure, [have, none], "partly rerun (1 of 2; 1 needs data we may not ship)", (0, 1)),
        (figure, [none], "needs data we may not ship", (0, 1)),
    ):
        outcome = Outcome(cells)
        assert artefact.status(outcome) == status and artefact.lacking(outcome) == lacking


def test_listing_names_plans_that_have_something_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = (Run(), Run("angular"))
    small = {
        name: Plan(name, "", (0,), lambda seeds, own=own: iter([PlannedJob("job", *own)]))
        for name, own in (
            ("main", (controlled("cifar10", 100), runs)),
            ("joint", (controlled("cifar10", 100, objective="joint"), runs)),
        )
    }
    monkeypatch.setattr(words, "PLANS", small)
    paper = printed("86.28")
    have, none = Cell("a", "b", paper, Value(86.0)), Cell("a", "b", paper)
    away = replace(none, foreign=True)
    table = Artefact("t", "tab:t", "", lambda evidence: Outcome(), ("main", "joint"), "images")

    def named(*cells: Cell) -> str:
        ((*_, how),) = listing({"t": table}, {"t": Outcome(cells)}, Records.read(tmp_path))
        return how

    both = "`resultant reproduce run main`, `resultant reproduce run joint`"
    assert named(have, none) == both
    probes = {"long_tail": {}, "balanced": {}}
    config = controlled("cifar10", 100)
    made = [record(config, *astuple(run), probes=probes, analysis={}) for run in runs]
    append(tmp_path / "any.jsonl", made[:1])
    assert named(have, none) == both
    append(tmp_path / "any.jsonl", made)
    assert named(have, none) == "`resultant reproduce run joint`"
    assert named(have, none, away) == "`resultant reproduce run joint`, images, see below"
    # No training adds to what lacks nothing but data, and nothing to what is there.
    assert named(have, away) == "images, see below"
    assert named(have) == ""


def test_listing_of_the_records() -> None:
    """Nothing that is complete in results/ is to be run again."""
    records = Records.read(RESULTS)
    left = {row[0] for row in standing(records) if row[3].partition(";")[0] != "nothing"}
    assert left == unfinished(records) and "main" not in left
    evidence = Evidence(records)
    made = {name: ARTEFACTS[name].compute(evidence) for name in ("angular-training", "c10-if10-f")}
    for *_, how in listing(ARTEFACTS, made, records):
        assert "run main" not in how


def test_claims_of_the_same_runs() -> None:
    """Several that do not hold are told to be one finding; one is one."""
    claims = [
        Claim("sec", name, "", "", FAILS, f"rule{SHARED}" if shared else "rule")
        for name, shared in (("a", True), ("b", True), ("c", False))
    ]

    def said(told: list[Claim]) -> str:
        return markdown({}, {}, told, Records(), "").partition("## Artefacts")[0]

    assert "All that do not hold are of the same runs: one finding, not 2." in said(claims[:2])
    assert "2 of those that do not hold are of the same runs: one finding, not 2." in said(claims)
    assert "one finding" not in said(claims[1:])
