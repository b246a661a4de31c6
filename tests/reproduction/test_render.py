"""The report: generated from the packaged records, it equals the committed file."""

from __future__ import annotations

from dataclasses import astuple, replace
from pathlib import Path

import pytest

from resultant.training.config import Run
from resultant.training.records import append
from resultant_reproduction import ARTEFACTS, Outcome, Records, catalog
from resultant_reproduction.catalog import plan_rows
from resultant_reproduction.plan import PLANS, Plan, PlannedJob, controlled, missing
from resultant_reproduction.render import artefact_rows, as_json, markdown
from resultant_reproduction.spec import FAILS, UNTESTED, Artefact, Cell, Claim, parse_cell
from resultant_reproduction.templating import fill, unwrap
from resultant_reproduction.training_claims import SHARED
from resultant_reproduction.value import Value
from training_records import record

REPORT = Path(__file__).parents[2] / "reproduction" / "REPORT.md"


@pytest.mark.slow
def test_the_report_is_made_from_the_records(
    records: Records, outcomes: dict[str, Outcome], evaluated: list[Claim]
) -> None:
    built = markdown(ARTEFACTS, outcomes, evaluated, records).splitlines()
    kept = REPORT.read_text().splitlines()
    differing = [pair for pair in zip(built, kept, strict=False) if pair[0] != pair[1]]
    again = "run: resultant reproduce all --text reproduction/REPORT.md"
    assert not differing, f"{again}; first differing lines: {differing[0]}"
    assert len(built) == len(kept), again


@pytest.mark.slow
def test_json_has_every_number(outcomes: dict[str, Outcome], evaluated: list[Claim]) -> None:
    built = as_json(ARTEFACTS, outcomes, evaluated)
    assert len(built["claims"]) == len(evaluated) and set(built["artefacts"]) == set(ARTEFACTS)
    for name, outcome in outcomes.items():
        cells = built["artefacts"][name]["cells"]
        assert [c["text"] for c in cells] == [c.content() for c in outcome.cells]
        means = [None if c.ours is None else c.ours.mean for c in outcome.cells]
        assert [c["ours"] and c["ours"]["mean"] for c in cells] == means


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
    monkeypatch.setattr(catalog, "PLANS", small)
    paper = parse_cell("86.28")
    have, none = Cell("a", "b", paper, Value(86.0)), Cell("a", "b", paper)
    away = replace(none, external=True)
    table = Artefact("t", "tab:t", "", lambda evidence: Outcome(), ("main", "joint"), "images")

    def named(*cells: Cell) -> str:
        ((*_, how),) = artefact_rows({"t": table}, {"t": Outcome(cells)}, Records.read(tmp_path))
        return how

    both = "`resultant reproduce run main`, `resultant reproduce run joint`"
    assert named(have, none) == both
    probes = {"long_tail": {}, "balanced": {}}
    config = controlled("cifar10", 100)
    records = [record(config, *astuple(run), probes=probes, analysis={}) for run in runs]
    append(tmp_path / "any.jsonl", records[:1])
    assert named(have, none) == both
    append(tmp_path / "any.jsonl", records)
    assert named(have, none) == "`resultant reproduce run joint`"
    assert named(have, none, away) == "`resultant reproduce run joint`, images, see below"
    # Training adds nothing where only data are missing, or nothing is.
    assert named(have, away) == "images, see below"
    assert named(have) == ""


def test_plans_of_the_packaged_records(records: Records) -> None:
    """Nothing that is complete is to be run again."""
    left = {row[0] for row in plan_rows(records) if row[3].partition(";")[0] != "nothing"}
    assert left == {name for name, plan in PLANS.items() if missing(plan.jobs(), records)}
    assert "main" not in left


def _report(claims: list[Claim], outcome: Outcome | None = None) -> str:
    artefact = Artefact("a", "tab:a", "A title", lambda evidence: Outcome())
    outcomes = {} if outcome is None else {"a": outcome}
    return markdown({"a": artefact}, outcomes, claims, Records())


def test_claims_of_the_same_runs() -> None:
    """Several claims that do not hold are one finding if they share their runs."""
    claims = [
        Claim("sec", name, "", "", FAILS, f"rule{SHARED}" if shared else "rule")
        for name, shared in (("a", True), ("b", True), ("c", False))
    ]
    text = _report(claims[:2])
    assert "All that do not hold are of the same runs: one finding, not 2." in text
    text = _report(claims)
    assert "2 of those that do not hold are of the same runs: one finding, not 2." in text
    assert "one finding" not in _report(claims[1:])


def test_sections() -> None:
    """Claims that cannot be tested are listed apart; a headline is first in its section too."""
    claims = [
        Claim("sec:x", "One", "1", "1.1", "holds", "a rule"),
        Claim("sec:y", "Two", "2", "", UNTESTED, "images"),
        Claim("sec:z", "Three|3", "3", "3.1", "holds", "a rule"),
    ]
    short, _, rest = _report(claims, Outcome(headline="It is so.")).partition("## Artefacts")
    assert "- 3 claims; holds: 2, cannot be tested here: 1.\n- It is so. (tab:a)\n" in short
    here, _, apart = rest.partition("## Claims that cannot be tested here")
    assert r"| Three\|3 (sec:z) | 3 | 3.1 | holds | a rule |" in here and "Two" not in here
    assert "| Two (sec:y) | 2 | images |" in apart and "One" not in apart
    assert "## tab:a\n\nA title: rerun.\n\nIt is so.\n" in apart
    assert "## Claims that cannot be tested here" not in _report(claims[:1])


def test_wrapped_templates() -> None:
    assert unwrap("a\nb\n\n- c\n  d\n- e\n") == "a b\n\n- c d\n- e"
    assert all(len(line) > 100 for line in fill("reading.md").splitlines())
