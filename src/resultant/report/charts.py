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
    """Points ``x`` [n], ``y`` [n] with horizontal intervals from ``low`` to ``high`` [n].

    Colour and shape are one for all points or one per point; ``colours`` are further ones by name,
    from which the page offers a choice. A card shows the ``text`` [n] of a point, else the names of
    its ``classes`` [n] or [n, 2]. Entries of the ``legend`` are label, colour and shape.
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
    """A figure of one panel, its ``marks`` from the lowest to the highest.

    ``name`` is for files, ``sentence`` is the caption, and ``paper`` the number and label of the
    part of the paper that it repeats. ``diagonal`` draws x = y too, ``square`` omits the ticks.
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
    colour, shape = ([kinds[g] for g in group] for kinds in (GROUP_COLOURS, GROUP_SHAPES))
    entries = zip(names, GROUP_COLOURS, GROUP_SHAPES, strict=False)
    legend = [entry for g, entry in enumerate(entries) if (group == g).any()]
    return {"colour": colour, "shape": shape, "legend": legend}


def numbers(values: Any) -> Any:
    """Return values as JSON types: None for numbers that are not finite, six digits of others."""
    if isinstance(values, Mapping):
        return {name: numbers(value) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return [numbers(value) for value in values]
    if isinstance(values, float):
        return float(f"{values:.6g}") if np.isfinite(values) else None
    if isinstance(values, np.ndarray):
        return numbers(values.tolist()) if values.dtype.kind == "f" else values.tolist()
    return values


def _fields(item: Any) -> dict[str, Any]:
    """Return the fields that are set, as JSON types."""
    values = {f.name: getattr(item, f.name) for f in fields(item)}
    return {
        name: numbers(v)
        for name, v in values.items()
        if not (v is None or v is False or (hasattr(v, "__len__") and len(v) == 0))
    }
