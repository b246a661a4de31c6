"""The page of an analysis: sections, figures and tables of the answers, names of classes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from resultant.analysis import Analysis, FrozenSpace, analyze_space
from resultant.report.analysis_page import analysis_page, slugs
from resultant.report.chart_files import draw
from resultant.report.charts import Chart
from resultant.report.page import Page, render, write_page
from resultant.report.paper import NUMBERS
from resultant.report.summary import summary
from resultant.report.table import Table
from small_features import NAMES, small_features


def drawings(page: Page) -> dict[str, Chart]:
    return {d.name: d for section in page.sections for d in section.drawings}


def tables(page: Page) -> dict[str, Table]:
    return {t.name: t for section in page.sections for t in section.tables}


def test_every_question_has_its_figure(report: Page, analysis: Analysis) -> None:
    figures = drawings(report)
    assert set(figures) == {
        *("along-beta", "along-temperature", "along-prior", "groups", "classes", "gains"),
        *("intercepts", "arc", "arc-certificate", "boundaries", "typical", "cosine"),
        *("certificate", "margins", "calibration", "fit", "self-inclusion"),
        *(["support"] if analysis.support is not None else []),
    }
    for d in figures.values():
        assert d.label in NUMBERS
        assert d.sentence.endswith(".") and "nan" not in d.sentence.lower()
    # All pairs of six classes.
    assert "of 15 pairs" in figures["typical"].sentence


def test_the_first_screen_is_the_advice(report: Page, folder: Path) -> None:
    """Three sentences, the snippet and the warnings, then the rules with the advised one marked."""
    assert [heading for heading, _ in report.headline] == ["found", "do", "worth"]
    html = (folder / "index.html").read_text()
    places = [
        html.index(text)
        for text in (
            *("</a> is best.", "One pass &amp; no tuning."),
            *("print(&#34;&lt;fit&gt; &amp; save&#34;)", "3 rows are in both"),
        )
    ]
    places.append(html.index("Rules and references"))
    assert places == sorted(places)
    first = report.sections[0]
    assert first.open and [t.name for t in first.tables] == ["rules"]
    rows = first.tables[0]
    assert rows.marked == {1: "advised", 2: "best"}
    assert [row[0] for row in rows.rows] == ["Native", "Pure Angular", "Logistic regression"]


def test_questions_without_answers_are_left_out(analysis: Analysis) -> None:
    bare = Analysis(analysis.space)
    (use, *_) = summary({"z": bare}, "file", NAMES)
    assert use == ("use", "no advice: not asked")
    page = analysis_page({"z": bare}, "file", NAMES, [], {})
    assert page.sections == []
    assert "no advice" in render(page)


@pytest.mark.parametrize("names", [NAMES, tuple("246810")])
def test_classes_have_their_names(analysis: Analysis, names: tuple[str, ...]) -> None:
    """Everywhere; without names, by the labels of the file."""
    assert analysis.gains is not None and analysis.intercepts is not None
    assert analysis.same_state is not None
    a = replace(
        analysis,
        gains=replace(analysis.gains, capped=(1, 3)),
        intercepts=replace(analysis.intercepts, worst_class=4),
    )
    page = analysis_page({"z": a}, "file", names, [], {})
    assert (
        f"z: the concentration of 2 classes is at its upper limit: {names[1]}, {names[3]}."
        in page.notes
    )
    drawn = drawings(page)["intercepts"]
    assert ("(five)" if names is NAMES else "(class 1)") in drawn.sentence
    table = tables(page)["same-state"]
    (column,) = (i for i, c in enumerate(table.columns) if c.name == "most predicted")
    expected = [names[row.top_class] for row in analysis.same_state.rows]
    assert [row[column] for row in table.rows] == expected
    one = replace(analysis, gains=replace(analysis.gains, capped=(2,)))
    (note,) = analysis_page({"z": one}, "file", names, [], {}).notes
    assert note == f"z: the concentration of 1 class is at its upper limit: {names[2]}."


@pytest.mark.slow
def test_classes_without_a_direction(tmp_path: Path) -> None:
    """Rows that cancel: no class has a temperature, and the other results are shown."""
    half = torch.randn(60, 4, generator=torch.Generator().manual_seed(0)).repeat_interleave(2, 0)
    half[1::2] *= -1
    y = (torch.arange(120) // 2) % 3
    a = analyze_space(
        FrozenSpace.fit(half, y, half[:30], y[:30]), ("gains", "grid", "boundaries", "cosine")
    )
    assert a.boundaries is not None and a.boundaries.undefined == (0, 1, 2)
    page = analysis_page({"z": a}, "file", "abc", [], {})
    assert [row[-1] for row in tables(page)["pairs"].rows] == [None] * 3
    assert all(draw(d) for d in drawings(page).values())
    write_page(tmp_path, page)


@pytest.mark.slow
def test_class_without_held_out_rows() -> None:
    """Gaps, not errors."""
    arrays = small_features()
    keep = arrays["test/labels"] != 3
    z, y = arrays["test/projection"][keep], arrays["test/labels"][keep]
    space = FrozenSpace.fit(arrays["train/projection"], arrays["train/labels"], z, y)
    a = analyze_space(space, ("gains", "grid"))
    page = analysis_page({"z": a}, "file", NAMES, [], {})
    for drawing in drawings(page).values():
        assert "nan" not in drawing.sentence
        draw(drawing)
    classes = tables(page)["classes"]
    assert classes.rows[-1][0] == NAMES[3] and torch.tensor(classes.rows[-1][-1]).isnan()


def test_figures_that_show_nothing_are_left_out_with_a_sentence(analysis: Analysis) -> None:
    assert analysis.cosine is not None and analysis.gains is not None
    none = torch.zeros(10, dtype=torch.int64)
    two = torch.full((6,), torch.nan)
    two[:2] = 1.0
    a = replace(
        analysis,
        cosine=replace(analysis.cosine, decile_disagreements=none, disagreements=0),
        gains=replace(analysis.gains, gain=two, corrected_spread=None),
    )
    page = analysis_page({"z": a}, "file", NAMES, [], {})
    assert not {"cosine", "gains"} & set(drawings(page))
    text = "\n".join(section.text for section in page.sections)
    left_out = r"The figure “Agreement with a cosine classifier” is left out: all values are zero\."
    assert re.search(left_out, text)
    assert "The figure “Gains of the classes” is left out: it would show 2 marks only." in text


def test_other_features_are_folded(analysis: Analysis) -> None:
    page = analysis_page({"a": analysis, "b": analysis}, "file", NAMES, [], {})
    assert {s.key for s in page.sections if s.open} == {"a"}
    assert all(s.title.startswith("b: ") for s in page.sections if s.key == "b")
    # The links lead to all sections of the first, and to the first of the others.
    assert sum(s.key == "b" for s in page.linked()) == 1


def test_slugs() -> None:
    assert slugs(["a/b", "../../a b", "A-B", "é", "x"]) == [
        "a-b",
        "a-b-1",
        "a-b-2",
        "features",
        "x",
    ]
