"""A figure as data: axes and marks, which chart.js draws on a page, and matplotlib for files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from resultant.report import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours and shapes of head, medium and tail classes.
GROUP_COLOURS = (style.SKY, style.GREEN, style.RED)
GROUP_SHAPES = ("circle", "square", "triangle")

# More points are drawn as an image within the vector file.
VECTOR_POINTS = 2000

DASHES = {"solid": "-", "dashed": "--", "dotted": ":"}
SHAPES = {"circle": "o", "square": "s", "triangle": "^"}

Values = Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Axis:
    """An axis: label, logarithmic scale, fixed ends, and names of the positions 0, 1, ..."""

    label: str = ""
    log: bool = False
    ends: tuple[float, float] | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Mark:
    """Points, a line, bars, cells of a matrix, or a level: a straight line across the figure."""

    type: Literal["points", "line", "bars", "cells", "level"]
    x: Values = ()
    y: Values = ()
    label: str = ""
    colour: str | Sequence[str] = style.BLUE  # of all points or one per point, as the shape
    shape: str | Sequence[str] = "circle"
    hollow: bool = False
    size: float = 7
    low: Values = ()  # ends of horizontal intervals of points
    high: Values = ()
    classes: Values = ()  # [n] or [n, 2]; a card shows their names, or the text
    text: Sequence[str] = ()
    inside: Sequence[str] = ()  # short texts within cells
    legend: Sequence[tuple[str, str, str]] = ()  # label, colour, shape
    colours: Mapping[str, Sequence[str]] = field(default_factory=dict)  # a choice on the page
    dash: str = "solid"
    marks: bool = False  # points on a line
    width: Any = None  # of bars
    share: Values = ()  # of cells: larger ones are darker
    at: Any = None  # the height of a level


def level(at: float) -> Mark:
    """Return a dashed line at a height."""
    return Mark("level", at=at, colour=style.GREY, dash="dashed")


def diagonal(low: float, high: float) -> Mark:
    """Return a dotted line of equal coordinates."""
    return Mark("line", [low, high], [low, high], colour=style.GREY, dash="dotted")


@dataclass(frozen=True)
class Chart:
    """A figure of one panel with its caption ``sentence``; ``square`` has ticks only for names."""

    name: str
    title: str
    sentence: str
    x: Axis
    y: Axis
    marks: tuple[Mark, ...] = ()
    paper: str = ""  # the part of the paper that it repeats
    square: bool = False

    @property
    def empty(self) -> bool:
        """True if no mark has a finite value."""
        return not any(np.isfinite(np.asarray(m.y, dtype=float)).any() for m in self.marks)


def by_group(group: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    """Return colours, shapes and legend of points by their shot groups [n]; {} without names."""
    if not names:
        return {}
    colour, shape = ([kinds[g] for g in group] for kinds in (GROUP_COLOURS, GROUP_SHAPES))
    entries = zip(names, GROUP_COLOURS, GROUP_SHAPES, strict=False)
    legend = [entry for g, entry in enumerate(entries) if (group == g).any()]
    return {"colour": colour, "shape": shape, "legend": legend}


def numbers(values: Any) -> Any:
    """Return values as JSON types: six digits, None if not finite; the given fields of charts."""
    if isinstance(values, float):
        return float(f"{values:.6g}") if math.isfinite(values) else None
    if isinstance(values, Axis | Mark | Chart):
        every = ((f.name, getattr(values, f.name)) for f in fields(values))
        given = ((n, v) for n, v in every if not (isinstance(v, Sized) and len(v) == 0))
        return {n: numbers(v) for n, v in given if v is not None and v is not False}
    if isinstance(values, Mapping):
        return {name: numbers(value) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return [numbers(value) for value in values]
    if isinstance(values, np.ndarray):
        return numbers(values.tolist()) if values.dtype.kind == "f" else values.tolist()
    return values


def draw(chart: Chart) -> Figure:
    """Return a chart as a figure, laid out once for all its files."""
    # Not pyplot, which would keep the figure and choose a display.
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    rows = len(chart.y.names)
    # A name of a class is no formula.
    with style.style(), rc_context({"text.parse_math": False}):
        figure = Figure(figsize=(4.4, 4.4 if chart.square else max(2.9, 0.22 * rows + 1)))
        ax = figure.subplots()
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
    look: dict[str, Any] = {"color": mark.colour, "label": mark.label or None}
    if mark.type == "points":
        _points(ax, mark)
    elif mark.type == "line":
        ax.plot(mark.x, mark.y, ("o" if mark.marks else "") + DASHES[mark.dash], **look)
    elif mark.type == "bars":
        ax.bar(mark.x, mark.y, mark.width, **look)
    elif mark.type == "cells":
        shade: Any = np.sqrt(np.asarray(mark.share, dtype=float))
        ax.scatter(mark.x, mark.y, c=mark.colour, alpha=shade, marker="s", s=4, rasterized=True)
        for x, y, text in zip(mark.x, mark.y, mark.inside, strict=False):
            ax.text(x, y, text, ha="center", va="center", fontsize=7)
    else:
        ax.axhline(mark.at, color=mark.colour, linestyle=DASHES[mark.dash], linewidth=1)


def _points(ax: Axes, mark: Mark) -> None:
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


def _axes(ax: Axes, chart: Chart) -> None:
    ax.set(xlabel=chart.x.label, ylabel=chart.y.label)
    for name, own, axis in (("x", chart.x, ax.xaxis), ("y", chart.y, ax.yaxis)):
        if own.log:
            ax.set(**{f"{name}scale": "log"})
        if own.ends is not None:
            ax.set(**{f"{name}lim": own.ends})
        if any(own.names):
            turned: Any = {"rotation": 90} if chart.square and name == "x" else {}
            axis.set_ticks(range(len(own.names)), own.names, **turned)
    if chart.y.names:
        ax.invert_yaxis()
