"""A figure as data: axes and marks, drawn by chart.js on a page and by matplotlib in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from resultant.report import style

# Colours and shapes of head, medium and tail classes.
GROUP_COLOURS = (style.SKY, style.GREEN, style.RED)
GROUP_SHAPES = ("circle", "square", "triangle")

Values = Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Axis:
    """An axis: label, logarithmic scale, fixed ends, and names of the positions 0, 1, ..."""

    label: str = ""
    log: bool = False
    ends: tuple[float, float] | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Points:
    """Points ``x`` [n], ``y`` [n].

    Attributes:
        colour, shape: One for all points, or one per point.
        low, high: Ends [n] of horizontal intervals.
        classes: Classes [n] or pairs of classes [n, 2], whose names the card shows.
        text: Texts [n] of the card; by default the names of the classes and the values.
        legend: Entries of the legend: label, colour and shape.
        colours: Further colours [n] per point by name, from which the page offers a choice.
    """

    x: Values
    y: Values
    label: str = ""
    colour: str | Sequence[str] = style.BLUE
    shape: str | Sequence[str] = "circle"
    hollow: bool = False
    size: float = 7
    low: Values = ()
    high: Values = ()
    classes: Values = ()
    text: Sequence[str] = ()
    legend: Sequence[tuple[str, str, str]] = ()
    colours: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Line:
    """A line through points ``x`` [n], ``y`` [n], with or without marks."""

    x: Values
    y: Values
    label: str = ""
    colour: str = style.BLUE
    dash: str = "solid"
    marks: bool = False


@dataclass(frozen=True, eq=False)
class Bars:
    """Bars of height ``y`` [n] at ``x`` [n], each ``width`` wide."""

    x: Values
    y: Values
    width: float
    label: str = ""
    colour: str = style.BLUE


@dataclass(frozen=True)
class Level:
    """A straight line across the figure at a height, or at a position if ``upright``."""

    at: float
    upright: bool = False
    colour: str = style.GREY
    dash: str = "dashed"


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of a matrix in columns ``x`` [n] and rows ``y`` [n], darker for a larger ``share``."""

    x: Values
    y: Values
    share: Values
    text: Sequence[str]
    colour: str = style.BLUE


Mark = Points | Line | Bars | Level | Cells


@dataclass(frozen=True)
class Chart:
    """A figure of one panel.

    Attributes:
        name: Name for files.
        title: Heading.
        sentence: Caption: the meaning and the numbers.
        x, y: The axes.
        marks: The marks, the lowest first.
        paper: The paper's number of the corresponding table, figure or section, with its label.
        diagonal: Also draw x = y.
        square: Draw a matrix, without ticks.
    """

    name: str
    title: str
    sentence: str
    x: Axis = field(default_factory=Axis)
    y: Axis = field(default_factory=Axis)
    marks: tuple[Mark, ...] = ()
    paper: str = ""
    diagonal: bool = False
    square: bool = False

    def document(self) -> dict[str, Any]:
        """Return the axes and marks as JSON types, as chart.js reads them."""
        marks = [{"type": type(mark).__name__.lower(), **_fields(mark)} for mark in self.marks]
        axes = {"x": _fields(self.x), "y": _fields(self.y)}
        return {**axes, "marks": marks, "diagonal": self.diagonal, "square": self.square}

    @property
    def empty(self) -> bool:
        """True if no mark has a finite value."""
        values = [m.y for m in self.marks if not isinstance(m, Level)]
        return not any(np.isfinite(np.asarray(y, dtype=float)).any() for y in values)


def by_group(group: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    """Return colours, shapes and legend of points by their shot groups [n]; {} without names."""
    if not names:
        return {}
    return {
        "colour": [GROUP_COLOURS[g] for g in group],
        "shape": [GROUP_SHAPES[g] for g in group],
        "legend": [
            (name, GROUP_COLOURS[g], GROUP_SHAPES[g])
            for g, name in enumerate(names)
            if (group == g).any()
        ],
    }


def numbers(values: Any) -> Any:
    """Return values as JSON types: None for numbers that are not finite, six digits of others."""
    if isinstance(values, np.ndarray):
        if values.dtype.kind == "f":
            finite = np.isfinite(values)
            size = np.abs(np.where(finite & (values != 0), values, 1))
            scale = 10.0 ** (5 - np.floor(np.log10(size)))
            kept = np.round(np.where(finite, values, 0) * scale) / scale
            rounded = np.array(kept, dtype=object)
            rounded[~finite] = None
            return rounded.tolist()
        return values.tolist()
    if isinstance(values, float):
        return numbers(np.array(values))
    if isinstance(values, Mapping):
        return {name: numbers(value) for name, value in values.items()}
    if isinstance(values, list | tuple):
        if values and all(isinstance(v, float) for v in values):
            return numbers(np.array(values))
        return [numbers(v) for v in values]
    return values


def _fields(item: Any) -> dict[str, Any]:
    """Return the fields that are set, as JSON types."""
    values = {f.name: getattr(item, f.name) for f in fields(item)}
    return {
        name: numbers(v)
        for name, v in values.items()
        if not (v is None or v is False or (hasattr(v, "__len__") and len(v) == 0))
    }
