"""The numbers of the kept pages, computed again from the records and the packaged features."""

import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import ttest_ind

from resultant.cli import main as cli
from resultant_reproduction import Evidence, Records
from resultant_reproduction.pages.beyond import answer, contrasts, estimate, kept, listed, rows
from resultant_reproduction.runs.items import catalog
from resultant_reproduction.runs.plans import stand_in
from training_records import probed

PAGES = Path(__file__).parents[2] / "reproduction" / "pages"
FINAL = [name for name, entry in catalog().items() if entry.final]
DIGESTS = {
    "pages": "3909a105783aa8bf5f33af6f713ca16588dcd029ddef34d731f0f3b77025264b",
    "records": "5871140452b86b3582d33d8144f9c939be87779499d63f9b9a486c1638648b78",
}


def shown(page: list[str], row: str, column: str | None) -> str:
    """Return the row of a table of a page, or its cell in a column."""
    headings = ""
    for line in page:
        headings = line if line.startswith("|  |") else headings
        if re.match(rf"\| {re.escape(row)}( \||\b[^|]* \[)", line):
            cells = dict(zip(headings.split(" | "), line.split(" | "), strict=True))
            return line if column is None else cells.get(column) or cells[f"{column} |"]
    raise AssertionError(row)


def hyphenated(study: str) -> str:
    """Return a kept page with the hyphens of Python for minus signs."""
    return kept(study, ".md").replace("−", "-")


@pytest.mark.parametrize("study", [name for name in FINAL if name != "baseline"])
def test_rows_of_the_page(study: str, evidence: Evidence) -> None:
    """Mean and interval of every contrast are in its row."""
    page, entries = hyphenated(study).splitlines(), [*contrasts(study)]
    assert len(entries) >= 8 and len(rows(study, evidence)) == len(entries)
    for entry in entries:
        ours = estimate(evidence, entry)
        assert ours is not None and ours.low is not None and ours.high is not None
        numbers = [ours.mean] if entry.get("level") else [ours.mean, ours.low, ours.high]
        sign = "" if entry.get("level") else "+"
        found = [f"{number:{sign},.{entry.get('digits', 2)}f}" for number in numbers]
        # A mean that rounds to zero has no minus sign.
        found[0] = re.sub(r"^-(0\.0*)$", r"+\1", found[0])
        text = shown(page, entry["row"], entry.get("column"))
        assert all(number in text for number in found), (entry, found)


def test_the_command_prints_page_and_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["reproduce", "beyond-losses", "--out", str(tmp_path)]) == 0
    page, _, computed = capsys.readouterr().out.partition("of these records")
    assert "Is it ProCo's or everyone's?" in page and "SupCon, projection" in computed
    assert (tmp_path / "beyond-losses.md").read_text() == kept("losses", ".md")
    # Without records there are no numbers.
    none = Evidence(Records())
    assert {text for *_, text in rows("losses", none)} == {"no record"}
    assert rows("baseline", none) == [] and answer("frozen-rules", none).headline == ""


def test_kept_pages_and_their_records_are_as_they_were() -> None:
    """Counts, slopes and ratios in the sentences of these pages were computed from these records;
    whoever changes either computes the sentences again."""
    results = PAGES.parent / "results"
    pages = [path for name in FINAL for path in sorted(PAGES.glob(f"beyond-{name}.*"))]
    records = [*sorted(results.glob("*.json*")), *sorted(results.glob("second-round/*.jsonl"))]
    digests = {
        name: sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
        for name, paths in (("pages", pages), ("records", records))
    }
    assert digests == DIGESTS


def test_effects_that_the_document_lists() -> None:
    """Direction against the printed effect; of a network trained twice one record counts."""
    arms = (0.30, 0.31, 0.305), (0.33, 0.34, 0.338), (0.28, 0.281, 0.282)
    native, higher, lower = (
        [probed(stand_in(), rule, seed, v) for seed, v in enumerate(values)]
        for rule, values in zip(("native", "angular", "angular"), arms, strict=True)
    )

    def text(*records: dict[str, Any], kind: str = "trained") -> str:
        return listed(kind, Evidence(Records(), second=Records(records)))

    encoder, projection = re.split(r"(?<=\)), ", text(*native, *lower, *native, *higher))
    welch: Any = ttest_ind(arms[1], arms[0], equal_var=False)
    low, high = (100 * end for end in welch.confidence_interval())
    assert encoder == f"encoder +3.10 [{low:+.2f}, {high:+.2f}] [3 and 3] (same direction)"
    assert projection == encoder.replace("encoder", "projection")
    assert "(other direction)" in text(*native, *lower)
    assert text(native[2], higher[0]).startswith("encoder +2.50 [1 and 1] (open), projection")
    assert text(*native, *higher, kind="frozen") == ""
