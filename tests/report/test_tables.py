"""The tables of a report."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest

from resultant.report import words
from resultant.report.page import Page, Section, render
from resultant.report.tables import SHOWN, Column, Table


def test_long_tables_are_shown_in_part(tmp_path: Path) -> None:
    rows = [(f"c{i}", None if i % 2 else i / 3, float("nan")) for i in range(SHOWN + 5)]
    columns = (Column("name"), Column("third", words.percent), Column("none"))
    table = Table("t", "T", "S.", "tab:x", columns, rows)
    assert len(table.shown()) == SHOWN
    assert table.shown()[1][1] == (words.MISSING, "", True)
    assert table.shown()[2][1] == ("66.67\u00a0%", repr(2 / 3), True)
    html = render(Page("p", [("use", "x")], [Section("s", "S", "", (), (table,))]), {})
    assert f"The first {SHOWN} of {SHOWN + 5} rows." in html
    table.write(tmp_path / "t.csv")
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert len(lines) == SHOWN + 6 and lines[2] == "c1,," and lines[3] == f"c2,{2 / 3!r},"


@pytest.mark.slow
def test_name_of_native_in_the_paper_is_given_once(report: Page, folder: Path) -> None:
    text = (folder / "index.html").read_text()
    assert text.lower().count("original vmf") == 1
    assert words.NATIVE_IN_PAPER in unescape(text)
    assert "are labels of the paper <cite>Does a Shared Temperature" in text
    (table,) = (t for t in report.sections[0].tables if t.name == "realizations")
    assert table.sentence.endswith(words.NATIVE_IN_PAPER)
    assert {row[0] for row in table.rows} == set(words.NAMES.values())
    (classes,) = (t for t in report.sections[0].tables if t.name == "classes")
    assert "native" in [c.name for c in classes.columns]
