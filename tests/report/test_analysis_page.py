"""The page of an analysis: figures and tables of the answers, names of classes, file names."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

from resultant.analysis import Analysis, FrozenSpace, analyze_space
from resultant.report.analysis_page import analysis_page, drawings, slugs
from resultant.report.figures import Drawing
from resultant.report.page import render
from resultant.report.summary import summary
from resultant.report.tables import tables
from small_features import NAMES, small_features


@pytest.mark.slow
def test_every_question_has_its_figure(analysis: Analysis) -> None:
    figures = {d.name: d for d in drawings(analysis, NAMES)}
    assert set(figures) == {
        *("gains", "accuracy", "groups", "classes", "calibration", "prior", "cosine"),
        *("certificate", "boundaries", "margins", "typical", "intercepts", "self-inclusion"),
        *("fit", *(["support"] if analysis.support is not None else [])),
    }
    for d in figures.values():
        assert re.fullmatch(r"(fig|tab|sec|eq):[\w-]+", d.label)
        assert d.sentence.endswith(".") and "nan" not in d.sentence.lower()
    # All pairs of six classes.
    assert "of 15 pairs" in figures["typical"].sentence


@pytest.mark.slow
def test_questions_without_answers_are_left_out(analysis: Analysis) -> None:
    bare = Analysis(analysis.space)
    assert drawings(bare, NAMES) == [] and tables(bare, NAMES) == []
    (use, *_) = summary({"z": bare}, "file", NAMES)
    assert use == ("use", "no recommendation: not asked")
    page = analysis_page({"z": bare}, "file", NAMES, [], {})
    assert "no recommendation" in render(page, {})


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
    (section,) = page.sections
    (drawn,) = (d for d in section.drawings if d.name == "intercepts")
    assert ("(five)" if names is NAMES else "(class 1)") in drawn.sentence
    (table,) = (t for t in section.tables if t.name == "same-state")
    (column,) = (i for i, c in enumerate(table.columns) if c.name == "most predicted")
    expected = [names[row.top_class] for row in analysis.same_state.rows]
    assert [row[column] for row in table.rows] == expected
    one = replace(analysis, gains=replace(analysis.gains, capped=(2,)))
    (note,) = analysis_page({"z": one}, "file", names, [], {}).notes
    assert note == f"z: the concentration of 1 class is at its upper limit: {names[2]}."


@pytest.mark.slow
def test_classes_without_a_direction() -> None:
    """Rows that cancel: no class has a temperature, and the other results are shown."""
    half = torch.randn(60, 4, generator=torch.Generator().manual_seed(0)).repeat_interleave(2, 0)
    half[1::2] *= -1
    y = (torch.arange(120) // 2) % 3
    a = analyze_space(FrozenSpace.fit(half, y, half[:30], y[:30]))
    assert a.boundaries is not None and a.boundaries.undefined == (0, 1, 2)
    (pairs,) = (t for t in tables(a, "abc") if t.name == "pairs")
    assert [row[-1] for row in pairs.rows] == [None] * 3
    assert all(d.figure() for d in drawings(a, "abc"))


@pytest.mark.slow
def test_class_without_held_out_rows() -> None:
    """Gaps, not errors."""
    arrays = small_features()
    keep = arrays["test/labels"] != 3
    z, y = arrays["test/projection"][keep], arrays["test/labels"][keep]
    space = FrozenSpace.fit(arrays["train/projection"], arrays["train/labels"], z, y)
    a = analyze_space(space, ("gains", "grid", "recommendation"))
    for drawing in drawings(a, NAMES):
        assert isinstance(drawing, Drawing) and "nan" not in drawing.sentence
        drawing.figure()
    (classes,) = (t for t in tables(a, NAMES) if t.name == "classes")
    assert classes.rows[-1][0] == NAMES[3] and torch.tensor(classes.rows[-1][-1]).isnan()


def test_slugs() -> None:
    assert slugs(["a/b", "../../a b", "A-B", "é", "x"]) == [
        "a-b",
        "a-b-1",
        "a-b-2",
        "features",
        "x",
    ]
