"""Figures and names of a report, by themselves."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from resultant.analysis import FrozenSpace, analyze_space
from resultant.report.analysis_page import drawings, slugs
from resultant.report.figures import (
    Drawing,
    Panel,
    log_heights,
)
from resultant.report.tables import tables
from small_features import NAMES, small_features

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


def test_classes_without_a_direction() -> None:
    """Of rows that cancel: no class has a temperature, and the page says what is left."""
    half = torch.randn(60, 4, generator=torch.Generator().manual_seed(0)).repeat_interleave(2, 0)
    half[1::2] *= -1
    y = (torch.arange(120) // 2) % 3
    a = analyze_space(FrozenSpace.fit(half, y, half[:30], y[:30]))
    assert a.boundaries is not None and a.boundaries.undefined == (0, 1, 2)
    (pairs,) = (t for t in tables(a, "abc") if t.name == "pairs")
    assert [row[-1] for row in pairs.rows] == [None] * 3
    assert all(d.figure() for d in drawings(a, "abc"))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("high", [0.0, 0.4])
def test_log_axes_are_labelled(high: float) -> None:
    """Also where they have no power of ten, or nothing that has a logarithm."""

    def draw(ax: Any) -> None:
        ax.plot([1, 2], [high / 2, high])
        log_heights(ax)

    figure = Panel("d", "D", "S.", "fig:x", draw).figure()
    axis = figure.axes[0].yaxis
    assert (axis.get_scale() == "log") == (high > 0)
    shown = [*axis.get_ticklabels(), *axis.get_ticklabels(minor=True)]
    assert sum(bool(text.get_text()) for text in shown) >= 2


def test_drawing_on_nothing_raises_nothing() -> None:
    """A class without held-out rows leaves gaps, not errors."""
    arrays = small_features()
    keep = arrays["test/labels"] != 3
    z, y = arrays["test/projection"][keep], arrays["test/labels"][keep]
    space = FrozenSpace.fit(arrays["train/projection"], arrays["train/labels"], z, y)
    found = analyze_space(space, ("gains", "grid", "recommendation"))
    for drawing in drawings(found, NAMES):
        assert isinstance(drawing, Drawing) and "nan" not in drawing.sentence
        drawing.figure()
    (classes,) = (t for t in tables(found, NAMES) if t.name == "classes")
    assert classes.rows[-1][0] == NAMES[3] and torch.tensor(classes.rows[-1][-1]).isnan()


def test_slugs() -> None:
    assert slugs(["a/b", "../../a b", "A-B", "é", "x"]) == [
        "a-b",
        "a-b-1",
        "a-b-2",
        "features",
        "x",
    ]
