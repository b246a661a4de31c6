"""A figure as data: axes and marks, drawn by Bokeh on a page and by matplotlib in a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from resultant.classes.groups import GROUPS
from resultant.report import style
from resultant.report.figures import Drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {
    "native": style.GREY,
    "temperature": style.ORANGE,
    "preserve": style.GREEN,
    "angular": style.BLUE,
    "cosine": style.PURPLE,
}
# Colours and shapes of the shot groups, and those of classes without groups.
GROUP_COLOURS: dict[str, str] = dict(zip(GROUPS, (style.SKY, style.GREEN, style.RED), strict=True))
GROUP_SHAPES: dict[str, str] = dict(zip(GROUPS, ("circle", "square", "triangle"), strict=True))

# Fewer values do not make a figure.
FEWEST_POINTS = 3


@dataclass(frozen=True)
class Axis:
    """An axis: its label, a logarithmic scale, and fixed ends; ``factors`` name its positions."""

    label: str
    log: bool = False
    ends: tuple[float, float] | None = None
    factors: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Points:
    """Points ``x`` [n], ``y`` [n].

    Attributes:
        kind: "class" or "pair" for points that belong to classes; a click follows them.
        members: Classes [n] or [n, 2] of the points; by default the classes in their order.
        group: Shot groups [n], which give colours and shapes.
        hollow: Draw circles without a face.
        name: Name by which the page finds the mark, for marks that it changes.
    """

    x: Tensor
    y: Tensor
    label: str = ""
    colour: str = style.BLUE
    kind: str = ""
    members: Tensor | None = None
    group: Tensor | None = None
    hollow: bool = False
    size: float = 7
    name: str = ""


@dataclass(frozen=True, eq=False)
class Line:
    """A line through points ``x`` [n], ``y`` [n], with or without marks."""

    x: Sequence[float]
    y: Sequence[float]
    label: str = ""
    colour: str = style.BLUE
    dash: str = "solid"
    marks: bool = True
    width: float = 1.5
    name: str = ""


@dataclass(frozen=True, eq=False)
class Bars:
    """Bars of ``height`` [n] at ``x`` [n], each ``width`` wide."""

    x: Sequence[float]
    height: Sequence[float]
    width: float
    label: str = ""
    colour: str = style.BLUE
    name: str = ""


@dataclass(frozen=True)
class Level:
    """A straight line across the figure at a height, or at a position if ``upright``."""

    at: float
    label: str = ""
    upright: bool = False
    colour: str = style.GREY
    dash: str = "solid"


Mark = Points | Line | Bars | Level


@dataclass(frozen=True)
class Chart(Drawing):
    """A figure of one panel.

    Attributes:
        x, y: The axes.
        marks: Points, lines, bars and levels, the lowest first.
        diagonal: Also draw x = y.
        live: The page changes the figure when a slider moves.
    """

    x: Axis = field(default_factory=lambda: Axis(""))
    y: Axis = field(default_factory=lambda: Axis(""))
    marks: tuple[Mark, ...] = ()
    diagonal: bool = False
    live: bool = False

    def figure(self) -> Figure:
        from resultant.report.chart_files import draw

        return draw(self)

    def legend(self) -> list[tuple[str, str, str]]:
        """Return labels with their colours and shapes, without repetitions."""
        entries = []
        for mark in self.marks:
            if isinstance(mark, Points) and mark.group is not None and not mark.hollow:
                present = [name for i, name in enumerate(GROUPS) if bool((mark.group == i).any())]
                entries += [(name, GROUP_COLOURS[name], GROUP_SHAPES[name]) for name in present]
            elif mark.label:
                shape = "bar" if isinstance(mark, Bars) else getattr(mark, "dash", "circle")
                shape = "ring" if isinstance(mark, Points) and mark.hollow else shape
                entries.append((mark.label, mark.colour, shape))
        return list(dict.fromkeys(entries)) if len(entries) > 1 else []

    def missing(self) -> str:
        """Return why the figure would show nothing; empty if it shows something."""
        values = [m for m in self.marks if not isinstance(m, Level)]
        shown = [torch.as_tensor(m.height if isinstance(m, Bars) else m.y) for m in values]
        numbers = [int(y.isfinite().sum()) for y in shown]
        if not sum(numbers):
            return "there is no value to draw"
        points = [m for m in values if isinstance(m, Points)]
        if points and len(points) == len(values):
            drawn = max(numbers)
            if drawn < FEWEST_POINTS:
                return f"there are only {drawn} points" if drawn > 1 else "there is a single point"
        if any(isinstance(m, Line) for m in values) and max(numbers) < 2:
            return "a single mark is left"
        if all(isinstance(m, Bars) for m in values) and not any(bool(y.any()) for y in shown):
            return "all values are zero"
        return ""


def kept(charts: Sequence[Drawing | None]) -> tuple[list[Drawing], list[str]]:
    """Return the figures that show something, and a sentence about each of the others."""
    drawn, omitted = [], []
    for chart in charts:
        if chart is None:
            continue
        why = chart.missing() if isinstance(chart, Chart) and not chart.live else ""
        if why:
            omitted.append(f"The figure “{chart.title}” is left out: {why}.")
        else:
            drawn.append(chart)
    return drawn, omitted
