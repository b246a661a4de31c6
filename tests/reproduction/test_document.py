"""REPRODUCTION.md and its pages are what the records say."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

import pytest

from resultant_reproduction import Evidence
from resultant_reproduction.claims import HEADINGS, Claim
from resultant_reproduction.document import contents, panels
from resultant_reproduction.spec import load
from resultant_reproduction.value import VERDICTS

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
