"""Figures of a report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from resultant.analysis import Analysis
from resultant.analysis.decisions import Reliability
from resultant.report import decision_figures
from resultant.report.figures import (
    COLOURS,
    GROUP_COLOURS,
    Panel,
    log_heights,
    reliability_curves,
    sparse_bins,
)
from resultant.report.summary import summary
from small_features import NAMES


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("high", [0.0, 0.4])
def test_log_axes_are_labelled(high: float) -> None:
    """Also without a power of ten in range, or without positive values."""

    def draw(ax: Any) -> None:
        ax.plot([1, 2], [high / 2, high])
        log_heights(ax)

    figure = Panel("d", "D", "S.", "fig:x", draw).figure()
    axis = figure.axes[0].yaxis
    assert (axis.get_scale() == "log") == (high > 0)
    shown = [*axis.get_ticklabels(), *axis.get_ticklabels(minor=True)]
    assert sum(bool(text.get_text()) for text in shown) >= 2


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
    hollow = [x for x in drawn.figure().axes[0].lines if x.get_markerfacecolor() == "none"]
    assert sum(len(x.get_xdata()) for x in hollow) == 6  # type: ignore[arg-type]
    none = replace(g, corrected_spread=None, corrected_rank_correlation=None)
    bare = decision_figures.gains(replace(a, gains=none))
    assert bare is not None and "bias" not in bare.sentence
    assert "bias" not in dict(summary({"z": replace(a, gains=none)}, "f", NAMES))["angular gain"]


@pytest.mark.parametrize(("count", "marks"), [([9998, 2, 0], 1), ([30, 19, 20], 2), ([9, 9, 9], 0)])
def test_bins_of_few_rows_are_not_drawn(count: list[int], marks: int, analysis: Analysis) -> None:
    assert analysis.grid is not None
    at = torch.tensor([0.02, 0.4, 0.9])
    native = analysis.grid.point("native")
    point = replace(native, reliability=Reliability(torch.tensor(count), at, at))
    panel = Panel("c", "C", "S.", "fig:x", lambda ax: reliability_curves(ax, {"n": (point, "red")}))
    (ax,) = panel.figure().axes
    assert len(ax.lines[0].get_xdata()) == marks  # type: ignore[arg-type]
    assert ax.get_xlim()[1] == pytest.approx(1.05 * (0.9 if marks > 1 else 1))
    text = sparse_bins([point, None])
    hidden = sum(n for n in count if n < 20)
    assert f"at most {hidden:,} rows in 3 bins" in text
    assert ("a single mark" in text) == (marks == 1)
    assert ("no curve" in text) == (marks == 0)


def test_curves_that_coincide_are_all_visible(analysis: Analysis) -> None:
    """Each is thinner than those below; no group has the colour of a realization."""
    drawn = decision_figures.accuracy(analysis)
    assert drawn is not None
    curves = [x for x in drawn.figure().axes[0].lines if x.get_marker() == "o"]
    widths = [x.get_linewidth() for x in curves]
    assert len(widths) == 3 and widths == sorted(set(widths), reverse=True)
    assert [x.get_markersize() > x.get_linewidth() for x in curves] == [True] * 3
    assert not set(GROUP_COLOURS.values()) & set(COLOURS.values())


def test_marks_at_an_accuracy_of_one_are_drawn_whole(analysis: Analysis) -> None:
    drawn = decision_figures.calibration(analysis)
    assert drawn is not None
    (ax,) = drawn.figure().axes
    curves = [line for line in ax.lines if line.get_marker() == "o"]
    assert curves and not any(line.get_clip_on() for line in curves)
