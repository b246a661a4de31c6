"""Drawing mechanisms for numbers of training runs: forest, heat map, bars, lines and trajectories.

Every function takes plain numbers by name and returns a figure in the style of `resultant.report`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

from resultant.report import style
from resultant_reproduction.courses import Course

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Readable on light and on dark shades of a map; unlike style.BLACK it does not follow the page.
INK = "#1A1A1B"


class Line(NamedTuple):
    """A line of means with error bars: by abscissa the mean and the half length of its bar."""

    points: Mapping[float, tuple[float, float]]
    colour: str
    look: str = "o-"
    label: str | None = None


class Panel(NamedTuple):
    """The lines of one panel over beta, its y label and its title."""

    lines: Sequence[Line]
    ylabel: str
    title: str = ""


def forest(rows: Mapping[str, tuple[float, Sequence[float]]], xlabel: str) -> Figure:
    """Draw one row per name: the printed value, ours seed by seed, and the mean of ours."""
    with style.style():
        figure, (ax,) = style.panels(width=6.4, height=0.9 + 0.3 * len(rows))
        for y, (paper, seeds) in enumerate(rows.values()):
            ax.plot(paper, y, "D", color=style.ORANGE, label="" if y else "paper")
            if seeds:
                ax.plot(seeds, [y] * len(seeds), ".", color=style.SKY)
                ax.plot(fmean(seeds), y, "|", ms=14, mew=2, color=style.BLUE)
        ax.plot([], [], "|", ms=10, mew=2, color=style.BLUE, label="ours, mean")
        ax.plot([], [], ".", color=style.SKY, label="ours, one seed")
        ax.axvline(0, color=style.GREY, lw=1)
        ax.set_yticks(range(len(rows)), list(rows))
        # From above, with room for the marks of the first and the last row.
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.set_xlabel(xlabel)
        style.legend_below(figure, ax)
    return figure


def heat_maps(
    maps: Mapping[str, Mapping[tuple[str, str], float | None]], label: str, limit: float = 5.0
) -> Figure:
    """Draw one map per title, of values by row and column. Values beyond ``limit`` have one shade;
    a missing value is a dash."""
    known = [*next(iter(maps.values()))]
    rows, columns = (list(dict.fromkeys(names)) for names in zip(*known, strict=True))
    with style.style():
        figure, axes = style.panels(len(maps), width=4.2, height=1.5 + 0.27 * len(rows))
        mesh: Any = None
        for ax, (title, values) in zip(axes, maps.items(), strict=True):
            grid = [[values[row, column] for column in columns] for row in rows]
            shade: Any = [[float("nan") if v is None else v for v in line] for line in grid]
            mesh = ax.imshow(shade, cmap=style.DIVERGING, vmin=-limit, vmax=limit, aspect="auto")
            for y, line in enumerate(grid):
                for x, v in enumerate(line):
                    text = "–" if v is None else f"{v:+.2f}" if round(v, 2) else "0.00"
                    strong = v is not None and abs(v) > 0.6 * limit
                    colour = style.GREY if v is None else "white" if strong else INK
                    ax.text(x, y, text, ha="center", va="center", fontsize=7, color=colour)
            ax.set_title(title, loc="left")
            ax.set_xticks(range(len(columns)), columns, rotation=40, ha="right")
            ax.set_yticks(range(len(rows)), rows if ax is axes[0] else [])
            ax.grid(False)
        figure.colorbar(mesh, ax=axes, extend="both", label=label)
    return figure


def bars(
    groups: Mapping[str, Mapping[str, Sequence[float]]], colours: Mapping[str, str], ylabel: str
) -> Figure:
    """Draw one bar per group and kind: mean, standard deviation and seeds; a dash without seeds.
    ``groups`` are by kind and then by group, ``colours`` by kind."""
    names = list(next(iter(groups.values())))
    with style.style():
        figure, (ax,) = style.panels(width=5.2, height=3.0)
        for i, (kind, values) in enumerate(groups.items()):
            colour = colours[kind]
            ax.plot([], [], "s", color=colour, label=kind)
            for j, name in enumerate(names):
                x, seeds = j + 0.4 * i - 0.2, values[name]
                if not seeds:
                    ax.text(x, 0, "–", ha="center", va="bottom", color=colour)
                    continue
                # Points and error bars show on the pale face, and the edge on any page.
                look = {"color": [(colour, 0.3)], "edgecolor": colour, "lw": 1.5}
                spread = stdev(seeds) if len(seeds) > 1 else None
                ax.bar(x, fmean(seeds), 0.38, yerr=spread, **look)
                ax.plot([x] * len(seeds), seeds, ".", color=style.BLACK)
        ax.axhline(0, color=style.GREY, lw=1)
        ax.set_xticks(range(len(names)), [name.replace(" ", "\n") for name in names])
        ax.set_ylabel(ylabel)
        style.legend_below(figure, ax)
    return figure


def over_beta(panels: Sequence[Panel], keys: Sequence[Line] = ()) -> Figure:
    """Draw lines with error bars over beta, one panel each; ``keys`` are lines of the legend
    alone."""
    with style.style():
        figure, axes = style.panels(len(panels), width=3.6, height=3.2)
        for ax, panel in zip(axes, panels, strict=True):
            for line in panel.lines:
                mean, bar = zip(*line.points.values(), strict=True) if line.points else ((), ())
                look: Any = {"color": line.colour, "label": line.label, "capsize": 2}
                ax.errorbar([*line.points], mean, bar, fmt=line.look, **look)
            ax.axvline(1, color=style.GREY, ls=":")
            ax.set(xlabel=r"$\beta$ (dotted: native)", ylabel=panel.ylabel)
            ax.set_title(panel.title, loc="left")
        for key in keys:
            axes[0].plot([], [], key.look, color=key.colour, label=key.label)
        if len(axes) > 1:
            style.letter(axes)
        style.legend_below(figure, axes[0], columns=2)
    return figure


def draw_course(ax: Axes, course: Course, dash: str, colour: str, label: str | None = None) -> None:
    """Draw the mean over seeds, and the range of several seeds shaded."""
    epochs, values = list(course.values), list(course.values.values())
    means: Any = list(map(fmean, values))
    mark = "." if len(epochs) == 1 else None
    ax.plot(epochs, means, dash, marker=mark, color=colour, label=label)
    if len(course.seeds) > 1:
        low, high = (list(map(bound, values)) for bound in (min, max))
        ax.fill_between(epochs, low, high, color=colour, alpha=0.15, lw=0)


def trajectories(
    rows: Mapping[str, Mapping[str, Mapping[str, Course]]], looks: Mapping[str, tuple[str, str]]
) -> Figure:
    """Draw one row of panels per title and one panel per y label, with courses by name; the first
    panel of a row has a symmetric log scale. ``looks`` are dash and colour by name."""
    with style.style():
        figure, axes = style.panels(len(next(iter(rows.values()))), len(rows))
        panels = ((title, *panel) for title, row in rows.items() for panel in row.items())
        for ax, (title, ylabel, courses) in zip(axes, panels, strict=True):
            for name, course in courses.items():
                draw_course(ax, course, *looks[name], name)
            ax.set(xlabel="epoch", ylabel=ylabel)
            ax.set_title(title, loc="left")
        first = axes[:: len(axes) // len(rows)]
        for ax in first:
            ax.set_yscale("symlog", linthresh=1e-3)
        style.letter(axes)
        style.legend_below(figure, max(first, key=lambda ax: len(ax.lines)), columns=4)
    return figure


def scatter(
    panels: Sequence[tuple[str, str, Mapping[str, tuple[Any, Any]]]],
) -> Figure:
    """Draw points in one panel each: x label, y label, and coordinates by name."""
    with style.style():
        figure, axes = style.panels(len(panels))
        for ax, (xlabel, ylabel, series) in zip(axes, panels, strict=True):
            for (name, (x, y)), colour in zip(series.items(), style.CYCLE, strict=False):
                ax.plot(x, y, ".", color=colour, label=name)
            ax.set(xlabel=xlabel, ylabel=ylabel)
            style.legend_under(ax)
        style.letter(axes)
    return figure
