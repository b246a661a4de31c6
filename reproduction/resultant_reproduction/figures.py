"""Drawing mechanisms: charts of curves, forest, heat map, bars and trajectories.

Every function takes plain numbers by name and returns a figure in the style of `resultant.report`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

from resultant.report import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from resultant_reproduction.courses import Course

# Readable on light and on dark shades of a map; unlike style.BLACK it does not follow the page.
INK = "#1A1A1B"


LOG: dict[str, Any] = {"xscale": "log", "yscale": "log"}


class Curve(NamedTuple):
    """One series of a chart: a line or marks, with error bars or a shaded band.

    Args:
        x: Abscissas [N].
        y: Ordinates [N]; both empty for an entry of the legend alone.
        look: Line and marker in the notation of matplotlib, such as ``"o--"``.
        label: Entry of the legend; none if None.
        color: Colour; the next one of the style if None.
        error: Half lengths [N] of error bars.
        band: Lower and upper ends [N] of a shaded band.
        more: Other properties of the line.
    """

    x: Any = ()
    y: Any = ()
    look: str = "-"
    label: str | None = None
    color: Any = None
    error: Any = None
    band: tuple[Any, Any] | None = None
    more: Mapping[str, Any] = {}


def means(
    points: Mapping[float, tuple[float, float]], look: str, color: str, label: str | None = None
) -> Curve:
    """Return the curve of means with error bars, from mean and half length by abscissa."""
    mean, error = ([pair[i] for pair in points.values()] for i in (0, 1))
    return Curve([*points], mean, look, label, color, error)


class Chart(NamedTuple):
    """One panel: curves, labels, and settings for ``Axes.set`` such as scales and limits."""

    curves: Iterable[Curve]
    xlabel: str
    ylabel: str
    title: str = ""
    more: Mapping[str, Any] = {}


def draw_chart(ax: Axes, chart: Chart) -> None:
    """Draw the curves of a chart."""
    for curve in chart.curves:
        look: Any = {"color": curve.color, "label": curve.label, **curve.more}
        if curve.error is None:
            (line,) = ax.plot(curve.x, curve.y, curve.look, **look)
        else:
            look = {"capsize": 2, **look}
            line = ax.errorbar(curve.x, curve.y, curve.error, fmt=curve.look, **look).lines[0]
        if curve.band is not None:
            ax.fill_between(curve.x, *curve.band, color=line.get_color(), alpha=0.2, lw=0)
    # Last: limits that are set before the curves would hold for all sides.
    ax.set(xlabel=chart.xlabel, ylabel=chart.ylabel, **chart.more)
    ax.set_title(chart.title, loc="left")


def draw_charts(
    charts: Sequence[Chart],
    *,
    columns: int | None = None,
    width: float = 3.5,
    height: float = 2.8,
    legend: int = 3,
    under: bool = False,
    letters: str = "abcdefgh",
) -> Figure:
    """Draw charts side by side, lettered if there are several.

    Args:
        charts: The panels, row by row.
        columns: Panels per row; all in one row if None.
        width: Width of a panel in inches.
        height: Height of a panel in inches.
        legend: Columns of the legend.
        under: One legend under each panel, instead of the fullest one below all.
        letters: Names of the panels.

    Returns:
        The figure.
    """
    columns = columns or len(charts)
    with style.style():
        size = {"width": width, "height": height}
        figure, axes = style.panels(columns, -(-len(charts) // columns), **size)
        for ax, chart in zip(axes, charts, strict=False):
            draw_chart(ax, chart)
            if under:
                style.legend_under(ax, columns=legend)
        for ax in axes[len(charts) :]:
            ax.axis("off")
        if len(charts) > 1 or len(letters) == 1:
            style.letter(axes[: len(charts)], letters)
        if not under:
            fullest = max(axes, key=lambda ax: len(ax.get_legend_handles_labels()[1]))
            style.legend_below(figure, fullest, columns=legend)
    return figure


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


def course(values: Course, look: str, color: str, label: str | None = None) -> Curve:
    """Return the curve of the mean over seeds, with the range of several seeds as a band."""
    epochs, seeds = list(values.values), list(values.values.values())
    band = [[bound(own) for own in seeds] for bound in (min, max)]
    more = {"marker": "."} if len(epochs) == 1 else {}
    both = (band[0], band[1]) if len(values.seeds) > 1 else None
    return Curve(epochs, list(map(fmean, seeds)), look, label, color, band=both, more=more)


def trajectories(
    rows: Mapping[str, Mapping[str, Mapping[str, Course]]], looks: Mapping[str, tuple[str, str]]
) -> Figure:
    """Draw one row of panels per title and one panel per y label, with courses by name; the first
    panel of a row has a symmetric log scale. ``looks`` are dash and colour by name."""
    charts = []
    for title, row in rows.items():
        for ylabel, courses in row.items():
            curves = [course(own, *looks[name], name) for name, own in courses.items()]
            charts.append(Chart(curves, "epoch", ylabel, title))
    columns = len(charts) // len(rows)
    figure = draw_charts(charts, columns=columns, legend=4)
    for ax in figure.axes[::columns]:
        ax.set_yscale("symlog", linthresh=1e-3)
    return figure
