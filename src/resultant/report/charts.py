"""A figure as data: axes and marks, drawn by Bokeh on a page and by matplotlib in a file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from resultant.classes.groups import GROUPS
from resultant.report import style

# Colours and shapes of the shot groups, and those of classes without groups.
GROUP_COLOURS: dict[str, str] = dict(zip(GROUPS, (style.SKY, style.GREEN, style.RED), strict=True))
GROUP_SHAPES: dict[str, str] = dict(zip(GROUPS, ("circle", "square", "triangle"), strict=True))

# Fewer values do not make a figure.
FEWEST_POINTS = 3
SINGLE = "it would show a single mark"


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
class Chart:
    """A figure of one panel.

    Attributes:
        name: Name for files.
        title: Heading.
        sentence: Caption: the meaning and the numbers.
        label: The paper's label of the corresponding table, figure or section.
        x, y: The axes.
        marks: Points, lines, bars and levels, the lowest first.
        diagonal: Also draw x = y.
        live: The page changes the figure when a slider moves.
    """

    name: str
    title: str
    sentence: str
    label: str
    x: Axis = field(default_factory=lambda: Axis(""))
    y: Axis = field(default_factory=lambda: Axis(""))
    marks: tuple[Mark, ...] = ()
    diagonal: bool = False
    live: bool = False

    def ticks(self, axis: str) -> list[tuple[float, str]]:
        """Return positions and labels of the ticks of a logarithmic axis, "x" or "y"; others are
        left to the library that draws."""
        own: Axis = getattr(self, axis)
        if own.factors:
            return [(float(i), name) for i, name in enumerate(own.factors)]
        if not own.log:
            return []
        drawn = [
            torch.as_tensor(getattr(m, axis)) for m in self.marks if isinstance(m, Points | Line)
        ]
        values = torch.cat([v.flatten().double() for v in drawn]) if drawn else torch.empty(0)
        values = values[values.isfinite() & (values > 0)]
        return log_ticks(float(values.min()), float(values.max())) if len(values) else []

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
                return f"it would show {drawn} marks only" if drawn > 1 else SINGLE
        if any(isinstance(m, Line) for m in values) and max(numbers) < 2:
            return SINGLE
        if all(isinstance(m, Bars) for m in values) and not any(bool(y.any()) for y in shown):
            return "all values are zero"
        return ""


def log_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return ticks between two positive numbers with their labels.

    Example:
        >>> [label for _, label in log_ticks(3, 250)]
        ['3', '10', '30', '100']
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    step, inside = max(1, math.ceil((last - first) / 6)), []
    for digits in ((1,), (1, 3), (1, 2, 5), (1, 1.2, 1.5, *range(2, 10))):
        at = [d * 10.0**e for e in range(first, last + 1, step) for d in digits]
        inside = [v for v in at if low <= v * 1.001 and v <= high * 1.001]
        if len(inside) > 2:
            break
    # A range within two of these numbers has its ends.
    return [(v, _tick(v)) for v in inside or sorted({low, high})]


def _tick(value: float) -> str:
    if 1e-4 <= value < 1e5:
        return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
    digit, power = f"{value:.0e}".split("e")
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{'' if digit == '1' else f'{digit}·'}10{raised}"


def kept(charts: Sequence[Chart | None]) -> tuple[list[Chart], list[str]]:
    """Return the figures that show something, and a sentence about each of the others."""
    drawn, omitted = [], []
    for chart in charts:
        if chart is None:
            continue
        why = "" if chart.live else chart.missing()
        if why:
            omitted.append(f"The figure “{chart.title}” is left out: {why}.")
        else:
            drawn.append(chart)
    return drawn, omitted
