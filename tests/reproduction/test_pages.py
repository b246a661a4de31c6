"""The pages: what the records say, regenerated equal to the committed files."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from resultant._core.text import with_minus
from resultant_reproduction import ARTEFACTS, Evidence, Outcome, Records
from resultant_reproduction.catalog import catalog
from resultant_reproduction.figures import comparison, svg
from resultant_reproduction.pages import contents, link_labels, make_page, page_name
from resultant_reproduction.spec import Cell, parse_cell
from resultant_reproduction.value import Value

PAGES = Path(__file__).parents[2] / "reproduction" / "pages"
AGAIN = "run: resultant reproduce all --out reproduction/pages"
# Figures that are compared: of every mechanism, none whose paths depend on the last digits.
DRAWN = (
    "table-01",
    "figure-01",
    "figure-03",
    "table-02",
    "figure-04",
    "figure-12",
    "figure-15",
    "figure-18",
)


def rounded(drawing: str) -> list[str | float]:
    """Split a drawing into text and numbers, without the ids of clips and markers, which are
    hashes of all digits."""
    parts = re.split(r"(-?\d+\.?\d*)", re.sub(r"#?\b[mp][0-9a-f]{10}\b", "", drawing))
    return [float(part) if i % 2 else part for i, part in enumerate(parts)]


@pytest.mark.slow
def test_pages_are_what_the_records_say(
    records: Records, evidence: Evidence, outcomes: dict[str, Outcome]
) -> None:
    for name, artefact in ARTEFACTS.items():
        page = make_page(artefact, evidence, outcomes[name])
        assert page.text == (PAGES / f"{page.name}.md").read_text(), AGAIN
        if page.name in DRAWN:
            assert page.svg is not None
            ours, kept = map(rounded, (page.svg, (PAGES / f"{page.name}.svg").read_text()))
            # A hundredth of a point is the last digit.
            assert ours == pytest.approx(kept, abs=0.02), f"{page.name}.svg; {AGAIN}"
    statuses = {name: ARTEFACTS[name].status(outcome) for name, outcome in outcomes.items()}
    assert contents(statuses) == (PAGES / "README.md").read_text(), AGAIN


def test_every_page_has_its_figure_and_every_figure_a_page() -> None:
    names = {page_name(entry.label) for entry in catalog().values()}
    pictures = {path.stem: path for path in PAGES.glob("*.svg") if path.stem in names}
    texts = {name: (PAGES / f"{name}.md").read_text() for name in names}
    shown = {name for name, text in texts.items() if f"({name}.svg)" in text}
    # Settings are texts and have none.
    assert shown == set(pictures) >= names - {"table-16", "table-17"}
    for path in pictures.values():
        drawing = path.read_text()
        assert len(drawing) < 60_000, f"{path.name} has {len(drawing)} bytes"
        assert "<image" not in drawing and "<dc:date>" not in drawing


def test_pages_open_with_their_number() -> None:
    for entry in catalog().values():
        text = (PAGES / f"{page_name(entry.label)}.md").read_text()
        title, _, shows, *_ = text.splitlines()
        assert title.startswith(("# Table ", "# Figure ", "# Beyond"))
        assert shows == with_minus(entry.shows)
        levels = [len(marks) for marks in re.findall(r"^(#+) ", text, flags=re.M)]
        assert all(b <= a + 1 for a, b in itertools.pairwise(levels))


def test_names_and_links() -> None:
    assert page_name("tab:angular-training") == "table-01"
    assert page_name("fig:realization") == "figure-04"
    assert page_name("beyond:baseline") == "beyond-baseline"
    assert link_labels("of tab:joint-fc and sec:root-solving, beyond:beta-sweep") == (
        "of [Table 15](table-15.md) and Appendix J.3, [beta sweep](beyond-beta-sweep.md)"
    )
    # Numbers by label are those of the printed tables and figures.
    printed = PAGES.parent / "resultant_reproduction" / "printed"
    for kind, file in (("table", "tables"), ("figure", "figures")):
        for name, about in tomllib.loads((printed / f"{file}.toml").read_text()).items():
            assert page_name(f"{kind[:3]}:{name}") == f"{kind}-{about['number']:02}"


def test_numbers_of_labels_keep_their_digits() -> None:
    """The file has coordinates of two decimals; titles are text."""
    cells = [Cell("r", "0.12345", parse_cell("1.5"), Value(1.625, 0.1, 3), planned=3)]
    drawing = svg(comparison(cells))
    assert ">0.12345<" in drawing
    assert not re.search(r'[ "]-?\d+\.\d{3,}', re.sub(r">[^<]*<", "><", drawing))
    assert svg(comparison(cells)) == drawing


def test_a_difference_is_drawn_where_it_is() -> None:
    cells = [
        Cell("a", "x", parse_cell("1.5 ± 0.2"), Value(1.75, 0.1, 3), planned=3),
        Cell("b", "x", parse_cell("2.0"), Value(1.0), planned=1),
        Cell("c", "x", parse_cell("2.0"), None, external=True),
    ]
    ax: Any = comparison(cells).axes[0]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a [3]", "b [1]"]
    marks = [line for line in ax.lines if line.get_marker() == "o" and len(line.get_xdata())]
    assert [(*line.get_xdata(), round(line.get_ydata()[0])) for line in marks] == [
        (0.25, 0),
        (-1.0, 1),
    ]
    assert [line.get_markerfacecolor() == "none" for line in marks] == [False, True]
    # Without numbers of ours the printed ones are drawn.
    ax = comparison(cells[2:]).axes[0]
    assert [list(line.get_xdata()) for line in ax.lines if line.get_marker() == "D"][-1] == [2.0]
