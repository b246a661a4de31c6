"""Charts as figures of matplotlib, for PDF and PNG files."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from resultant.report import style
from resultant.report.charts import (
    GROUP_COLOURS,
    GROUP_SHAPES,
    Bars,
    Chart,
    Level,
    Line,
    Points,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# More points are drawn as an image within the vector file.
VECTOR_POINTS = 2000

DASHES = {"solid": "-", "dashed": "--", "dotted": ":"}
SHAPES = {"circle": "o", "square": "s", "triangle": "^"}


def draw(chart: Chart) -> Figure:
    """Return a chart as a figure, laid out once for all its files."""
    # Not pyplot, which would keep the figure and choose a display.
    from matplotlib.figure import Figure

    with style.style():
        figure = Figure(figsize=(4.0, 2.9))
        ax = figure.subplots()
        for mark in chart.marks:
            _draw(ax, mark)
        if chart.diagonal:
            _diagonal(ax)
        _axes(ax, chart)
        handles, labels = ax.get_legend_handles_labels()
        if handles:
            columns = 3 if max(map(len, labels)) < 14 else 2
            figure.legend(handles, labels, loc="outside lower center", ncols=columns)
        figure.draw_without_rendering()
    figure.set_layout_engine(None)
    return figure


def _draw(ax: Axes, mark: Points | Line | Bars | Level) -> None:
    if isinstance(mark, Points):
        _points(ax, mark)
    elif isinstance(mark, Line):
        kind = ("o" if mark.marks else "") + DASHES[mark.dash]
        look: dict[str, Any] = {"color": mark.colour, "linewidth": mark.width}
        ax.plot(mark.x, mark.y, kind, label=mark.label or None, **look)
    elif isinstance(mark, Bars):
        ax.bar(mark.x, mark.height, mark.width, color=mark.colour, label=mark.label or None)
    else:
        line = ax.axvline if mark.upright else ax.axhline
        look = {"color": mark.colour, "linestyle": DASHES[mark.dash], "linewidth": 1}
        line(mark.at, label=mark.label or None, **look)


def _points(ax: Axes, mark: Points) -> None:
    parts: list[tuple[Any, str | None, str, str]] = []
    if mark.group is None:
        parts.append((torch.ones_like(mark.y, dtype=torch.bool), mark.label, mark.colour, "circle"))
    else:
        for i, (name, colour) in enumerate(GROUP_COLOURS.items()):
            # Hollow points repeat groups that already have an entry in the legend.
            label = None if mark.hollow else name
            parts.append((mark.group == i, label, colour, GROUP_SHAPES[name]))
    for members, label, colour, shape in parts:
        chosen = members & mark.y.isfinite() & mark.x.isfinite()
        if not chosen.any():
            continue
        look: dict[str, Any] = {"color": colour, "markersize": mark.size / 2, "alpha": 0.9}
        if mark.hollow:
            look |= {"markerfacecolor": "none", "markeredgewidth": 0.7}
        image = int(chosen.sum()) > VECTOR_POINTS
        x, y = mark.x[chosen], mark.y[chosen]
        ax.plot(x, y, SHAPES[shape], label=label or None, rasterized=image, **look)


def _diagonal(ax: Axes) -> None:
    ends = [
        max(ax.dataLim.x0, ax.dataLim.y0),
        min(ax.dataLim.x1, ax.dataLim.y1),
    ]
    ax.plot(ends, ends, ":", color=style.GREY, linewidth=1)


def _axes(ax: Axes, chart: Chart) -> None:
    ax.set(xlabel=chart.x.label, ylabel=chart.y.label)
    if chart.x.log and math.isfinite(ax.dataLim.minposx):
        ax.set_xscale("log")
    if chart.y.log and math.isfinite(ax.dataLim.minposy):
        ax.set_yscale("log")
    if chart.x.ends is not None:
        ax.set_xlim(*chart.x.ends)
    if chart.y.ends is not None:
        ax.set_ylim(*chart.y.ends)
    if chart.x.factors:
        ax.grid(axis="x", visible=False)
    for name, axis in (("x", ax.xaxis), ("y", ax.yaxis)):
        if ticks := chart.ticks(name):
            axis.set_ticks(*zip(*ticks, strict=True))
            axis.set_minor_formatter("")
