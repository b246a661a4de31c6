"""The pages and REPRODUCTION.md: what the records say, regenerated equal to the committed files."""

import itertools
import re
import tomllib
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from resultant._core.text import with_minus
from resultant_reproduction import ITEMS, Evidence, Outcome, Records
from resultant_reproduction.cells import charts
from resultant_reproduction.cells.charts import comparison, svg
from resultant_reproduction.pages import document
from resultant_reproduction.pages.claims import Claim
from resultant_reproduction.pages.write import contents, link_labels, make_page
from resultant_reproduction.runs.items import catalog, page_name

ROOT = Path(__file__).parents[2]
DOCUMENT, PAGES = ROOT / "REPRODUCTION.md", ROOT / "reproduction" / "pages"
AGAIN = "run: resultant reproduce all --text REPRODUCTION.md --out reproduction/pages"
# Figures that are compared: of every mechanism, none whose paths depend on the last digits.
DRAWN = ("table-01", "table-02", *(f"figure-{n:02}" for n in (1, 3, 4, 12, 13, 14, 15, 18)))


def alike(drawing: str, name: str) -> None:
    """Compare a drawing with the kept one: text and numbers, without the ids of clips and markers,
    which are hashes of all digits. A hundredth of a point is the last digit."""
    ours, kept = (
        re.split(r"(-?\d+\.?\d*)", re.sub(r"#?\b[mp][0-9a-f]{10}\b", "", text))
        for text in (drawing, (PAGES / f"{name}.svg").read_text())
    )
    assert ours[::2] == kept[::2], f"{name}.svg; {AGAIN}"
    numbers = ([*map(float, own[1::2])] for own in (ours, kept))
    assert next(numbers) == pytest.approx(next(numbers), abs=0.02), f"{name}.svg; {AGAIN}"


@pytest.mark.slow
def test_pages_are_what_the_records_say(
    evidence: Evidence, outcomes: dict[str, Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charts, "svg", lambda figure: figure)
    for name, item in ITEMS.items():
        # One mechanism draws most tables.
        drawn = comparison if page_name(item.entry.label) in DRAWN else len
        monkeypatch.setattr(charts, "comparison", drawn)
        page = make_page(item, evidence, outcomes[name])
        assert page.text == (PAGES / f"{page.name}.md").read_text(), AGAIN
        if page.name in DRAWN:
            figure: Any = page.svg
            alike(svg(figure), page.name)
    statuses = {name: ITEMS[name].status(outcome) for name, outcome in outcomes.items()}
    assert contents(statuses) == (PAGES / "README.md").read_text(), AGAIN


@pytest.mark.slow
def test_pages_of_a_part_of_the_records(evidence: Evidence, outcomes: dict[str, Outcome]) -> None:
    """Of one network of most kinds: what lacks seeds says so, and figures are of those that are."""
    rounds = evidence.records, evidence.second, evidence.third
    first, *later = (Records(r for r in own if r["seed"] in (0, 20, 23)) for own in rounds)
    few = Evidence(first, None, *later)
    for name in ("angular-training", "c10-if50-f", "c10-trajectory", "training-gain"):
        item, whole = ITEMS[name], outcomes[name]
        outcome = item.compute(few)
        page = make_page(item, few, outcome)
        assert "with fewer seeds than planned" in page.text or name == "c10-trajectory"
        for own, cell in zip(outcome.cells, whole.cells, strict=True):
            assert (own.row, own.column) == (cell.row, cell.column)
            assert own.ours is None or (cell.ours is not None and own.ours.n <= cell.ours.n)
        assert page.svg is not None and "no record" not in page.svg
    for name in ("c10-trajectory", "training-gain", "common-readouts"):
        assert ITEMS[name].status(ITEMS[name].compute(Evidence(later[0]))) == "not run yet"


@pytest.mark.slow
def test_document_is_made_from_the_records(
    evidence: Evidence, judged: dict[str, Claim], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "claims", lambda evidence: judged)
    text, pages = (tmp_path / path.relative_to(ROOT) for path in (DOCUMENT, PAGES))
    document.write(text, pages, evidence)
    for path in (text, *pages.iterdir()):
        if path.suffix != ".svg":
            kept = ROOT / path.relative_to(tmp_path)
            assert path.read_text().splitlines() == kept.read_text().splitlines(), AGAIN
    alike((pages / "forest.svg").read_text(), "forest")
    assert 8 <= sum(map(len, document.panels(evidence.every, judged).values())) <= 12
    assert len(DOCUMENT.read_bytes()) <= 40_000


def test_protocol_is_that_of_before_the_runs() -> None:
    """Rules that are changed after a run are none; an appendix comes before its first run."""
    text = (ROOT / "reproduction" / "protocol.md").read_bytes()
    rounds = re.split(rb"\n(?:# Protocol of the third round|## 9\. |# Appendix on numbers)", text)
    assert [sha256(part).hexdigest() for part in rounds] == [
        "cad0b43cd674b2fe18721387c1d4b450d110166d2a40991d952de3a1ea7e745f",
        "0e39b409ab5baa2878ba297a8ae82fcad78279332fc28cb6f90b5931de22060f",
        "2b58d97a53c79a6ffeb1bded374669193614c7a338a98b5e64ddda90c1474f8d",
        "ac1ca376b1010f72dda135f1b3541eb4520b6cd0b5d24a11befef28da07e1835",
    ]


def test_links_lead_somewhere() -> None:
    for path in (DOCUMENT, *PAGES.glob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text()):
            assert "://" in target or (path.parent / target).exists(), f"{target} in {path.name}"


def test_every_page_has_its_title_and_figure_and_every_figure_a_page() -> None:
    names, shown = {page_name(entry.label) for entry in catalog().values()}, set()
    for entry in catalog().values():
        name = page_name(entry.label)
        text = (PAGES / f"{name}.md").read_text()
        title, _, shows, *_ = text.splitlines()
        assert title.startswith(("# Table ", "# Figure ", "# Beyond"))
        assert shows == with_minus(entry.shows)
        levels = [len(marks) for marks in re.findall(r"^(#+) ", text, flags=re.M)]
        assert all(b <= a + 1 for a, b in itertools.pairwise(levels))
        shown |= {*re.findall(rf"\(({name})\.svg\)", text)}
    pictures = {path.stem: path.read_text() for path in PAGES.glob("*.svg") if path.stem in names}
    # Settings are texts and have none, as a study that is judged when all its networks are there.
    assert shown == set(pictures) >= names - {"table-16", "table-17", "beyond-training-score"}
    for name, drawing in pictures.items():
        assert len(drawing) < 60_000, f"{name}.svg has {len(drawing)} bytes"
        assert "<image" not in drawing and "<dc:date>" not in drawing


def test_names_and_links() -> None:
    assert link_labels("of tab:joint-fc and sec:root-solving, beyond:beta-sweep") == (
        "of [Table 15](table-15.md) and Appendix J.3, [beta sweep](beyond-beta-sweep.md)"
    )
    # Numbers by label are those of the printed tables and figures.
    printed = PAGES.parent / "resultant_reproduction" / "printed"
    for kind, file in (("table", "tables"), ("figure", "figures")):
        for name, about in tomllib.loads((printed / f"{file}.toml").read_text()).items():
            assert page_name(f"{kind[:3]}:{name}") == f"{kind}-{about['number']:02}"
