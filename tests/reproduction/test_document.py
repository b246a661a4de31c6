"""REPRODUCTION.md, its pages and its claims are what records and printed tables say."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path
from statistics import fmean

import pytest

from resultant_reproduction import Evidence
from resultant_reproduction.claims import HEADINGS, MIXED, Claim, printed, tally, together
from resultant_reproduction.document import contents, panels
from resultant_reproduction.spec import load, printed_rows
from resultant_reproduction.value import (
    CONFIRMED,
    INCONCLUSIVE,
    NEEDS_DATA,
    NOT_REPRODUCED,
    OTHER_SIZE,
    VERDICTS,
    Judgement,
    Value,
    judge_number,
)

ROOT = Path(__file__).parents[2]
DOCUMENT, PAGES = ROOT / "REPRODUCTION.md", ROOT / "reproduction" / "pages"
AGAIN = "run: resultant reproduce all --text REPRODUCTION.md --out reproduction/pages"


@pytest.mark.slow
def test_document_is_made_from_the_records(evidence: Evidence, judged: dict[str, Claim]) -> None:
    for path, text in contents(DOCUMENT, PAGES, evidence, judged).items():
        kept = path.read_text().splitlines()
        differing = [
            pair for pair in zip(text.splitlines(), kept, strict=False) if len({*pair}) > 1
        ]
        assert not differing, f"{AGAIN}; {path.name}: {differing[0]}"
        assert len(text.splitlines()) == len(kept), f"{AGAIN}; {path.name}"


def test_protocol_is_that_of_before_the_runs() -> None:
    """Rules that are changed after a run are none; an appendix comes before its first run."""
    text = (ROOT / "reproduction" / "protocol.md").read_bytes()
    assert (
        sha256(text).hexdigest()
        == "cad0b43cd674b2fe18721387c1d4b450d110166d2a40991d952de3a1ea7e745f"
    )


def test_document_is_short() -> None:
    text = DOCUMENT.read_text()
    assert len(text.encode()) <= 40_000
    rows = text.partition("## Scoreboard")[2].partition("\n\nOf ")[0].strip().splitlines()
    assert len(rows) == 2 + 8


@pytest.mark.parametrize(
    "path", [DOCUMENT, *sorted(PAGES.glob("*.md"))], ids=lambda path: path.name
)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text()):
        assert "://" in target or (path.parent / target).exists(), f"{target} in {path.name}"


@pytest.mark.slow
def test_forest_plot_has_the_effects(evidence: Evidence, judged: dict[str, Claim]) -> None:
    drawn = (PAGES / "forest.svg").read_text()
    names = [
        (name, j) for own in panels(evidence.every, judged).values() for name, j in own.items()
    ]
    assert 8 <= len(names) <= 12
    for name, judgement in names:
        assert judgement.ours is not None and f"{name} [{judgement.ours.n}]" in drawn


@pytest.mark.slow
def test_claims_are_complete(judged: dict[str, Claim]) -> None:
    questions = [question["name"] for question in load("claims")["question"]]
    assert 40 <= len(judged) <= 60 and len(questions) == 8
    for name, claim in judged.items():
        assert claim.entry["question"] in questions, name
        assert claim.judgement.verdict in VERDICTS, name
        assert len(claim.row()) == len(HEADINGS) and all(claim.row()), name
    assert {question["claim"] for question in load("claims")["question"]} <= set(judged)


CLAIMS = {entry["name"]: entry for entry in load("claims")["claim"]}


def _changes(prior: str, first: int) -> list[float]:
    """Pure Angular at beta 0 less ProCo at IF 50 and 100, two columns of the control tables."""
    changes = []
    for imbalance in (50, 100):
        rows = {tuple(row[:2]): row[2:] for row in printed_rows(f"c10-if{imbalance}-{prior}")}
        after, before = rows["Pure Angular", "0"], rows["ProCo", "1"]
        changes += [float(after[i]) - float(before[i]) for i in (first, first + 1)]
    return changes


def test_printed_numbers_follow_from_the_tables() -> None:
    uniform, frequency, joint = _changes("u", 0), _changes("f", 0), _changes("u", 2)
    for name, own in (("prior-matters", frequency), ("objective-matters", joint)):
        less = [a - b for a, b in zip(own, uniform, strict=True)]
        assert CLAIMS[name]["printed"] == pytest.approx(less)
    changes = [float(row[-1]) for row in printed_rows("joint-fc")[:-1]]
    contrast = fmean(v for v in changes if v > 0) - fmean(v for v in changes if v < 0)
    assert CLAIMS["joint-mixed"]["printed"] == pytest.approx(contrast, abs=1e-4)
    rows = [row for row in printed_rows("cosine-diagnostics") if row[0].startswith("CIFAR-100")]
    shares = [100 * float(row[3]) / float(row[2]) for row in rows if row[1] == "Encoder"]
    assert CLAIMS["low-margin"]["printed"] == pytest.approx(shares, abs=1e-4)
    last = load("printed/figures")["training-gain"]["last"]
    for name, key in (("power-applied-gain", "applied_gain_sd"), ("power-native-gain", "gain_sd")):
        _, reduced, increased = map(float, last[key])
        assert CLAIMS[name]["printed"] == pytest.approx(increased - reduced)
    # The mean of a printed column over the conditions of the claim.
    assert printed(CLAIMS["frozen-cifar100-encoder"]) == pytest.approx((3.63 + 4.39 + 4.82) / 3)
    assert printed(CLAIMS["frozen-cifar10"]) == pytest.approx(-(0.75 + 0.14 + 0.74 + 0.23) / 4)


def claim(verdict: str, **entry: object) -> Claim:
    return Claim({"kind": "number", **entry}, Judgement(verdict), "", "", "")


@pytest.mark.parametrize(
    ("verdicts", "row"),
    [
        ([CONFIRMED, CONFIRMED, INCONCLUSIVE], CONFIRMED),
        ([CONFIRMED, OTHER_SIZE, NEEDS_DATA], OTHER_SIZE),
        ([NOT_REPRODUCED, INCONCLUSIVE], NOT_REPRODUCED),
        ([OTHER_SIZE, NOT_REPRODUCED], MIXED),
        ([INCONCLUSIVE, NEEDS_DATA], INCONCLUSIVE),
        ([NEEDS_DATA, NEEDS_DATA], NEEDS_DATA),
    ],
)
def test_the_verdict_of_a_row_follows_from_its_claims(verdicts: list[str], row: str) -> None:
    claims = [claim(verdict) for verdict in verdicts]
    assert together(claims) == row
    # A variant is shown, and counts nowhere.
    assert together([*claims, claim(NOT_REPRODUCED, variant_of="another")]) == row
    assert "not reproduced" not in tally([claim(NOT_REPRODUCED, variant_of="another")])


@pytest.mark.parametrize(
    ("values", "uninformative"), [((-40.0, 110.0), True), ((32.0, 32.5), False)]
)
def test_an_interval_on_both_sides_of_the_threshold_confirms_nothing(
    values: tuple[float, float], uninformative: bool
) -> None:
    judgement = judge_number([(1.0, Value.over(values))], 32.2, 10.0)
    entry = {"kind": "number", "printed": 32.2, "threshold": 10.0}
    own = Claim(entry, judgement, "", "", "")
    assert judgement.verdict == CONFIRMED and own.uninformative is uninformative
    assert ("uninformative" in own.verdict) is uninformative
    assert together([own]) == (INCONCLUSIVE if uninformative else CONFIRMED)
