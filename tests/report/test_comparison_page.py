"""The page of a comparison without some answers."""

from __future__ import annotations

import torch

from resultant.analysis import Analysis
from resultant.report import comparison_page
from resultant.report.comparison import recommended, verdict
from resultant.report.explorer import Side


def test_questions_without_answers_have_no_figure(analysis: Analysis) -> None:
    bare = Analysis(analysis.space)
    assert comparison_page.drawings((bare, analysis)) == []
    assert recommended(bare).realization == "native"
    rows = {row[0]: row[1:] for row in comparison_page.table((bare, analysis)).rows}
    assert rows["classes"] == (6, 6, 0)
    a, b, difference = rows["mean gain"]
    assert a is None and b is not None and difference is None


def test_page_without_answers(analysis: Analysis) -> None:
    """It has no empty section."""
    bare = Analysis(analysis.space)
    right = torch.arange(10) % 2 == 0
    verdicts = {"z": verdict(right, right, same_rows=True)}
    pair = Side(bare, "A"), Side(bare, "B")
    page = comparison_page.comparison_page({"z": pair}, verdicts, ["a", "b"], "abcdef", [], {})
    assert [section.title for section in page.sections] == ["Side by side"]
    assert not page.warnings and page.sections[0].drawings == []
