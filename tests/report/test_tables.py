"""The tables of a report."""

from __future__ import annotations

from resultant.report import words
from resultant.report.page import Page, Section, render
from resultant.report.table import SHOWN, Column, Table, share


def test_long_tables_are_shown_in_part() -> None:
    rows = [(f"c{i}", None if i % 2 else i / 3, float("nan"), "x") for i in range(SHOWN + 5)]
    columns = (Column("name"), share("third"), Column("none"), Column("note", small=True))
    table = Table("t", "T", "S.", "tab:x", columns, rows)
    assert len(table.shown()) == SHOWN
    assert table.shown()[1][1] == (words.MISSING, "", True, "")
    # A column without values is in the CSV file alone.
    assert table.shown()[2] == [("c2", "c2", False, "x"), ("66.67", repr(2 / 3), True, "")]
    assert [column.name for column, _ in table.heads()] == ["name", "third"]
    html = render(Page("p", [("use", "x")], [Section("s", "S", "", (), (table,))]))
    assert f"The first {SHOWN} of {SHOWN + 5} rows." in html
    assert 'third <span class="unit">(%)</span>' in html and "<small>x</small>" in html
    lines = table.csv().decode().splitlines()
    assert len(lines) == SHOWN + 6 and lines[2] == "c1,,,x" and lines[3] == f"c2,{2 / 3!r},,x"


def test_classes_and_realizations_have_their_columns(report: Page) -> None:
    tables = {t.name: t for section in report.sections for t in section.tables}
    realizations = tables["realizations"]
    assert realizations.sentence.endswith(words.NATIVE_IN_PAPER)
    assert {row[0] for row in realizations.rows} == set(words.NAMES.values())
    assert "Native" in [c.name for c in tables["classes"].columns]
