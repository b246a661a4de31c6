"""Charts as figures of matplotlib, for PDF and PNG files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from resultant.report import style
from resultant.report.charts import Bars, Cells, Chart, Line, Mark, Points

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

    rows = len(chart.y.names)
    with style.style():
        figure = Figure(figsize=(4.4, 4.4 if chart.square else max(2.9, 0.22 * rows + 1)))
        ax = figure.subplots()
        if chart.diagonal:
            _diagonal(ax, chart)
        for mark in chart.marks:
            _draw(ax, mark)
        _axes(ax, chart)
        handles, labels = ax.get_legend_handles_labels()
        if len(handles) > 1:
            columns = 3 if max(map(len, labels)) < 14 else 2
            figure.legend(handles, labels, loc="outside lower center", ncols=columns)
        figure.draw_without_rendering()
    figure.set_layout_engine(None)
    return figure


def _draw(ax: Axes, mark: Mark) -> None:
    if isinstance(mark, Points):
        _points(ax, mark)
    elif isinstance(mark, Line):
        kind = ("o" if mark.marks else "") + DASHES[mark.dash]
        ax.plot(mark.x, mark.y, kind, color=mark.colour, label=mark.label or None)
    elif isinstance(mark, Bars):
        ax.bar(mark.x, mark.y, mark.width, color=mark.colour, label=mark.label or None)
    elif isinstance(mark, Cells):
        shade: Any = np.sqrt(np.asarray(mark.share, dtype=float))
        ax.scatter(mark.x, mark.y, c=mark.colour, alpha=shade, marker="s", s=4, rasterized=True)
    else:
        line = ax.axvline if mark.upright else ax.axhline
        line(mark.at, color=mark.colour, linestyle=DASHES[mark.dash], linewidth=1)


def _points(ax: Axes, mark: Points) -> None:
    x, y = (np.asarray(v, dtype=float) for v in (mark.x, mark.y))
    colour, shape = (
        np.full(len(x), v) if isinstance(v, str) else np.asarray(v)
        for v in (mark.colour, mark.shape)
    )
    labels = {(c, s): label for label, c, s in mark.legend}
    if len(mark.low):
        ax.hlines(y, mark.low, mark.high, colors=list(colour), linewidth=1.5)
    for c, s in dict.fromkeys(zip(colour.tolist(), shape.tolist(), strict=True)):
        chosen = (colour == c) & (shape == s) & np.isfinite(x) & np.isfinite(y)
        look: dict[str, Any] = {"color": c, "markersize": mark.size / 2, "alpha": 0.9}
        if mark.hollow:
            look |= {"markerfacecolor": "none", "markeredgewidth": 0.7}
        label = labels.get((c, s), mark.label) or None
        image = int(chosen.sum()) > VECTOR_POINTS
        ax.plot(x[chosen], y[chosen], SHAPES[s], label=label, rasterized=image, **look)


def _diagonal(ax: Axes, chart: Chart) -> None:
    """Draw x = y where both axes have values."""
    ends = []
    for name in ("x", "y"):
        values = np.concatenate([np.asarray(getattr(m, name), dtype=float) for m in chart.marks])
        ends.append((np.nanmin(values), np.nanmax(values)))
    low, high = max(e[0] for e in ends), min(e[1] for e in ends)
    ax.plot([low, high], [low, high], ":", color=style.GREY, linewidth=1)


def _axes(ax: Axes, chart: Chart) -> None:
    ax.set(xlabel=chart.x.label, ylabel=chart.y.label)
    for name, own, axis in (("x", chart.x, ax.xaxis), ("y", chart.y, ax.yaxis)):
        if own.log:
            ax.set(**{f"{name}scale": "log"})
        if own.ends is not None:
            ax.set(**{f"{name}lim": own.ends})
        if own.names and not chart.square:
            axis.set_ticks(range(len(own.names)), own.names)
    if chart.y.names:
        ax.invert_yaxis()
