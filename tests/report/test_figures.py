"""Charts and their files."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from resultant.analysis import Analysis
from resultant.analysis.advice import Reliability
from resultant.report import decision_figures
from resultant.report.chart_files import draw
from resultant.report.charts import Axis, Bars, Chart, Level, Line, Points
from resultant.report.plots import POINTS, Plots
from resultant.report.summary import summary
from small_features import NAMES


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("high", [0.0, 0.4])
def test_log_axes_are_labelled(high: float) -> None:
    """Also without a power of ten in range, or without positive values."""
    line = Line([1, 2], [high / 2, high])
    axis = draw(Chart("d", "D", "S.", "fig:x", y=Axis("", log=True), marks=(line,))).axes[0].yaxis
    assert (axis.get_scale() == "log") == (high > 0)
    shown = [*axis.get_ticklabels(), *axis.get_ticklabels(minor=True)]
    assert sum(bool(text.get_text()) for text in shown) >= 2


def test_every_mark_is_drawn_in_a_file() -> None:
    x = torch.tensor([0.0, 1.0, 2.0, torch.nan])
    marks = (
        Points(x, x, "points", group=torch.tensor([0, 1, 2, 2])),
        Line([0, 1], [0, 1], "line", dash="dotted"),
        Bars([0, 1], [1, 2], 0.5, "bars"),
        Level(1, "level", upright=True),
    )
    axis = Axis("x", ends=(0, 2), factors=("a", "b"))
    (ax,) = draw(Chart("d", "D", "S.", "fig:x", axis, marks=marks, diagonal=True)).axes
    labels = [text.get_text() for text in ax.figure.legends[0].texts]  # type: ignore[union-attr]
    assert labels == ["head", "medium", "tail", "line", "level", "bars"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["a", "b"]
    # Three groups, the line, the level and the diagonal.
    assert len(ax.lines) == 6 and len(ax.patches) == 2


def test_gains_with_and_without_the_bias_of_few_rows(analysis: Analysis) -> None:
    g = analysis.gains
    assert g is not None
    g = replace(g, rank_correlation=-0.37, corrected_rank_correlation=0.03, uncorrected=(4, 5))
    a = replace(analysis, gains=replace(g, spread=0.008, corrected_spread=0.006))
    drawn = decision_figures.gains(a)
    assert drawn is not None
    for text in (drawn.sentence, dict(summary({"z": a}, "file", NAMES))["angular gain"]):
        for number in ("0.80\u00a0%", "0.60\u00a0%", "-0.37", "+0.03"):
            assert number in text
    assert "2 classes with one row are left out of the correction" in drawn.sentence
    assert "without 2 classes of one row" in text
    hollow = [m for m in drawn.marks if isinstance(m, Points) and m.hollow]
    assert len(hollow) == 1 and torch.equal(hollow[0].y, g.corrected_gain)
    none = replace(g, corrected_spread=None, corrected_rank_correlation=None)
    bare = decision_figures.gains(replace(a, gains=none))
    assert bare is not None and "bias" not in bare.sentence
    assert "bias" not in dict(summary({"z": replace(a, gains=none)}, "f", NAMES))["angular gain"]


@pytest.mark.parametrize(("count", "marks"), [([9998, 2, 0], 1), ([30, 19, 20], 2), ([9, 9, 9], 0)])
def test_bins_of_few_rows_are_not_drawn(count: list[int], marks: int) -> None:
    at = torch.tensor([0.02, 0.4, 0.9])
    bins = Reliability(torch.tensor(count), at, at)
    chart = decision_figures.reliability("S.", {"n": (bins, "red")})
    curves = [m for m in chart.marks if isinstance(m, Line) and m.label]
    assert sum(len(curve.x) for curve in curves) == marks
    assert bool(chart.missing()) == (marks < 2)


@pytest.mark.parametrize(
    ("marks", "why"),
    [
        ((), "there is no value to draw"),
        ((Level(0), Points(torch.tensor([1.0, 2]), torch.tensor([1.0, 2]))), "2 marks only"),
        ((Points(torch.ones(1), torch.ones(1)),), "a single mark"),
        ((Line([1.0], [2.0]),), "a single mark"),
        ((Bars([0, 1], [0, 0], 1),), "all values are zero"),
        ((Bars([0, 1], [0, 1], 1),), ""),
        ((Points(torch.ones(3), torch.ones(3)),), ""),
        ((Line([1.0, 2.0], [2.0, 2.0]),), ""),
    ],
)
def test_a_figure_that_shows_nothing_says_why(marks: tuple, why: str) -> None:  # type: ignore[type-arg]
    found = Chart("d", "D", "S.", "fig:x", marks=marks).missing()
    assert why in found and bool(found) == bool(why)


def test_the_numbers_of_a_page_are_json() -> None:
    """Values that are not finite are null; samples of many points are thinned, classes are not."""
    many = torch.arange(3.0 * POINTS)
    marks = (Points(many, many), Points(many, many.log(), kind="class"), Level(1))
    plots = Plots()
    plots.add("s", "g", Chart("c", "C", "S.", "fig:x", marks=marks), None)
    assert "g-c" in plots and len(plots) == 1
    sample, classes, level = plots.document()["sections"]["s"][0]["marks"]
    assert len(sample["x"]) == POINTS and len(classes["x"]) == 3 * POINTS
    assert classes["y"][0] is None and level["at"] == 1
