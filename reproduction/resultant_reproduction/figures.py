"""Drawing mechanisms: charts of curves, and the charts of tables; figures as small SVG files.

A figure is a list of `Chart`, one per panel. Every function takes plain numbers.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

from resultant.report import style
from resultant_reproduction.spec import Cell, Change

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from resultant_reproduction.courses import Course

# The colour of text; a page replaces this black, and no other, on a dark background.
BLACK = "#000000"
# Readable on light and on dark shades of a map; unlike BLACK it does not follow the page.
INK = "#1A1A1B"
PALE = "#5F5F62"
# Signed values about zero.
DIVERGING = "RdBu_r"
# Largest value of a map with a shade of its own.
LIMIT = 5.0
PAPER, OURS = style.ORANGE, style.BLUE

# Mean, and ends of its interval.
Ends = tuple[float, float | None, float | None]

LOG: dict[str, Any] = {"xscale": "log", "yscale": "log"}
HOLLOW: dict[str, Any] = {"mfc": "none"}


class Curve(NamedTuple):
    """One series of a chart: a line or marks, with error bars or a shaded band. Without points it
    is an entry of the legend alone."""

    x: Any = ()
    y: Any = ()
    # Line and marker in the notation of matplotlib, such as "o--".
    look: str = "-"
    label: str | None = None
    color: Any = None
    # Half lengths [N] of error bars, and lower and upper ends [N] of a band.
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
    """One panel: curves, labels, settings for ``Axes.set`` such as scales and limits, and a
    function that draws on the panel what curves cannot."""

    curves: Iterable[Curve]
    xlabel: str = ""
    ylabel: str = ""
    title: str = ""
    more: Mapping[str, Any] = {}
    paint: Callable[[Axes], object] | None = None


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
    if chart.paint is not None:
        chart.paint(ax)
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
) -> Figure:
    """Draw charts side by side, lettered if there are several, in rows of ``columns`` panels of
    this size in inches; with a legend of ``legend`` columns ``under`` each panel, or the fullest
    one below all."""
    # Not pyplot, which would keep the figure and choose a display.
    from matplotlib.figure import Figure

    columns = columns or len(charts)
    rows = -(-len(charts) // columns)
    with style.style():
        figure = Figure(figsize=(columns * width, rows * height))
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        for ax, chart in zip(axes, charts, strict=False):
            draw_chart(ax, chart)
            if under and ax.get_legend_handles_labels()[1]:
                # The pad, in font sizes, leaves room for ticks and label.
                place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "borderaxespad": 4}
                ax.legend(**place, ncols=legend)
        for ax in axes[len(charts) :]:
            ax.axis("off")
        if len(charts) > 1:
            for name, ax in zip("abcdefgh", axes[: len(charts)], strict=False):
                ax.set_title(f"({name}) {ax.get_title(loc='left')}", loc="left")
        if not under:
            handles, labels = max(
                (ax.get_legend_handles_labels() for ax in axes), key=lambda pair: len(pair[1])
            )
            if labels:
                figure.legend(handles, labels, loc="outside lower center", ncols=legend)
    return figure


def shades(n: int) -> list[Any]:
    """Return n colours of a sequence that are visible on light and on dark pages."""
    import matplotlib as mpl

    return [mpl.colormaps["viridis_r"](0.27 + 0.48 * i / max(1, n - 1)) for i in range(n)]


def draw_rows(
    panels: Sequence[Chart], names: Sequence[str], width: float, line: float = 0.27, ticks: int = 0
) -> Figure:
    """Draw panels side by side that share rows from above, named in the first panel, with room for
    the marks of the first and the last; ``line`` is the height of a row."""

    def paint(ax: Axes, first: bool) -> None:
        ax.set_yticks(range(len(names)), list(names) if first else [""] * len(names))
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.axvline(0, color=style.GREY, lw=1, zorder=0)
        if ticks:
            ax.locator_params(axis="x", nbins=ticks)

    charts = [
        chart._replace(paint=lambda ax, first=not i: paint(ax, first))
        for i, chart in enumerate(panels)
    ]
    height = 0.9 if line == 0.27 else 1.1
    return draw_charts(charts, width=width, height=height + line * len(names))


def forest(changes: Sequence[Change], xlabel: str) -> Figure:
    """Draw one row per change: the printed value, ours seed by seed, and the mean of ours. A row
    names its number of seeds."""
    curves = [
        Curve(label="paper", look="D", color=PAPER),
        Curve(label="ours, mean", look="|", color=OURS, more={"ms": 10, "mew": 2}),
        Curve(label="ours, one seed", look=".", color=style.SKY),
    ]
    for y, change in enumerate(changes):
        seeds = change.differences
        if change.paper is not None:
            curves.append(Curve([change.paper], [y], "D", color=PAPER))
        if seeds:
            curves.append(Curve(seeds, [y] * len(seeds), ".", color=style.SKY))
            mean = {"ms": 14, "mew": 2}
            curves.append(Curve([fmean(seeds)], [y], "|", color=OURS, more=mean))
    if all(change.paper is None for change in changes):
        del curves[0]
    names = [f"{change.row} [{len(change.differences)}]" for change in changes]
    return draw_rows([Chart(curves, xlabel)], names, 6.4)


def intervals(panels: Mapping[str, Mapping[str, Ends]], single: Iterable[str] = ()) -> Figure:
    """Draw means with intervals, one panel per title and one row per name, from mean and ends,
    which may be None. All panels have the same names; names of a ``single`` network are hollow."""
    charts, alone = [], set(single)
    for title, rows in panels.items():
        curves = []
        for y, (name, (mean, low, high)) in enumerate(rows.items()):
            if low is not None and high is not None:
                curves.append(Curve((low, high), (y, y), color=OURS))
            curves.append(Curve([mean], [y], "o", color=OURS, more=HOLLOW if name in alone else {}))
        charts.append(Chart(curves, title))
    names = [*next(iter(panels.values()))]
    # Long names take the room of the panels.
    whole = 9.6 + 0.08 * max(0, max(map(len, names)) - 36)
    return draw_rows(charts, names, min(6.4, whole / len(charts)), ticks=5)


def comparison(cells: Sequence[Cell]) -> Figure:
    """Draw ours less the printed numbers, one panel per column and one row per row of the table;
    the printed numbers themselves if there are none of ours. Numbers of one network are hollow, and
    a row names its number of networks."""
    known = [c for c in cells if c.paper is not None]
    ours = [c for c in known if c.ours is not None]
    rows, columns = (
        list(dict.fromkeys(getattr(c, axis) for c in ours or known)) for axis in ("row", "column")
    )
    key = [Curve(label="ours less paper, mean and SD over networks", look="o", color=OURS)]
    if any(c.ours and c.ours.n == 1 for c in ours):
        key.append(Curve(label="one network", look="o", color=OURS, more=HOLLOW))
    if any(c.paper and c.paper.value.sd for c in ours):
        key.append(Curve(label="SD of the paper", color=PAPER, more={"lw": 5, "alpha": 0.5}))
    if not ours:
        key = [Curve(label="paper", look="D", color=PAPER)]
    charts = []
    for column in columns:
        own = (c for c in ours or known if c.column == column)
        curves = [curve for cell in own for curve in _compared(cell, rows.index(cell.row))]
        charts.append(Chart([*key, *curves], "ours - paper" if ours else "paper", title=column))
    width = max(1.5, 7.6 / len(charts)) + (2.2 / len(charts))
    return draw_rows(charts, [_counted(row, ours) for row in rows], width, 0.21, ticks=4)


def _counted(row: str, cells: Sequence[Cell]) -> str:
    """Name a row with its number of networks, or with their range."""
    numbers = sorted({c.ours.n for c in cells if c.row == row and c.ours is not None})
    span = f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else "".join(map(str, numbers))
    return f"{row} [{span}]" if span else row


def _compared(cell: Cell, y: int) -> list[Curve]:
    assert cell.paper is not None
    if cell.ours is None or cell.difference is None:
        return [Curve([cell.paper.value.mean], [y], "D", color=PAPER)]
    d, sd, printed = cell.difference, cell.ours.sd, cell.paper.value.sd
    curves = []
    if printed:
        wide = {"lw": 5, "alpha": 0.5, "solid_capstyle": "butt"}
        curves.append(Curve((-printed, printed), (y, y), color=PAPER, more=wide))
    if sd is not None:
        curves.append(Curve((d - sd, d + sd), (y, y), color=OURS, more={"lw": 1}))
    single = cell.ours.n == 1
    return [*curves, Curve([d], [y], "o", color=OURS, more=HOLLOW if single else {})]


def heat_maps(
    maps: Mapping[str, Mapping[tuple[str, str], tuple[float, int] | None]], label: str
) -> Figure:
    """Draw one map per title, of values with their numbers of networks by row and column.

    Values beyond `LIMIT` have its shade, and a bold number with a triangle. A value of one
    network has a pale cell and a grey, slanted number; a missing value is a dash.
    """
    known = [*next(iter(maps.values()))]
    rows, columns = (list(dict.fromkeys(names)) for names in zip(*known, strict=True))

    def paint(ax: Axes, title: str) -> None:
        import matplotlib as mpl
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize
        from matplotlib.patches import Rectangle

        # Few shades: more would be an image in the file.
        few = mpl.colormaps[DIVERGING].resampled(21)
        shade = ScalarMappable(Normalize(-LIMIT, LIMIT), few)
        for (row, column), value in maps[title].items():
            x, y = columns.index(column), rows.index(row)
            if value is None:
                ax.text(x, y, "–", ha="center", va="center", color=style.GREY)
                continue
            v, n = value
            single, beyond = n == 1, abs(v) > LIMIT
            # One network: two fifths of the strength of the shade.
            strength = 0.4 * max(-LIMIT, min(LIMIT, v)) if single else v
            colour = few((strength / LIMIT + 1) / 2)
            ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fc=colour, lw=0))
            text = f"{v:+.2f}" if round(v, 2) else "0.00"
            text += ("▲" if v > 0 else "▼") if beyond else ""
            dark = abs(v) > 0.6 * LIMIT and not single
            look = {"color": "white" if dark else PALE if single else INK, "fontsize": 7}
            look |= {"weight": "bold" if beyond else "normal"}
            look |= {"style": "italic" if single else "normal"}
            ax.text(x, y, text, ha="center", va="center", **look)
        ax.set_xlim(-0.5, len(columns) - 0.5)
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.set_xticks(range(len(columns)), columns, rotation=40, ha="right")
        ax.set_yticks(range(len(rows)), rows if title == next(iter(maps)) else [])
        ax.grid(False)
        if title == [*maps][-1]:
            ax.figure.colorbar(shade, ax=ax, extend="both", label=label)

    charts = [
        Chart((), title=title, paint=lambda ax, title=title: paint(ax, title)) for title in maps
    ]
    return draw_charts(charts, width=4.4, height=1.5 + 0.25 * len(rows))


def bars(
    groups: Mapping[str, Mapping[str, Sequence[float]]], colours: Mapping[str, str], ylabel: str
) -> Figure:
    """Draw one bar per group and kind: mean, standard deviation and seeds; a dash without seeds.
    ``groups`` are by kind and then by group, ``colours`` by kind."""
    names = list(next(iter(groups.values())))

    def paint(ax: Axes) -> None:
        for i, (kind, values) in enumerate(groups.items()):
            colour = colours[kind]
            for j, name in enumerate(names):
                x, seeds = j + 0.4 * i - 0.2, values[name]
                if not seeds:
                    ax.text(x, 0, "–", ha="center", va="bottom", color=colour)
                    continue
                # Points and error bars show on the pale face, and the edge on any page.
                look = {"color": [(colour, 0.3)], "edgecolor": colour, "lw": 1.5}
                spread = stdev(seeds) if len(seeds) > 1 else None
                ax.bar(x, fmean(seeds), 0.38, yerr=spread, **look)
                ax.plot([x] * len(seeds), seeds, ".", color=BLACK)
        ax.axhline(0, color=style.GREY, lw=1)
        ax.set_xticks(range(len(names)), [name.replace(" ", "\n") for name in names])

    key = [Curve(look="s", label=kind, color=colours[kind]) for kind in groups]
    return draw_charts([Chart(key, ylabel=ylabel, paint=paint)], width=5.2, height=3.0)


def course(values: Course, look: str, color: str, label: str | None = None) -> Curve:
    """Return the curve of the mean over seeds, with the range of several seeds as a band; the curve
    of one seed is thin and pale."""
    epochs, seeds = list(values.values), list(values.values.values())
    band = [[bound(own) for own in seeds] for bound in (min, max)]
    single = len(values.seeds) == 1
    more: dict[str, Any] = {"marker": "."} if len(epochs) == 1 else {}
    more |= {"lw": 1.0, "alpha": 0.55} if single else {}
    both = None if single else (band[0], band[1])
    return Curve(epochs, list(map(fmean, seeds)), look, label, color, band=both, more=more)


def svg(figure: Figure) -> str:
    """Return a figure as SVG: coordinates to a hundredth of a point, text as text, no dates."""
    drawn = io.StringIO()
    with style.style():
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    text = drawn.getvalue()
    text = re.sub(r"<!DOCTYPE.*?>|<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.S)
    # Within tags: numbers of labels keep their digits.
    text = re.sub(r"<[^>]*>", lambda tag: re.sub(r"-?\d+\.\d{3,}", _short, tag[0]), text)
    text = re.sub(r";? ?font-family: [^;\"]*", "", text)
    text = re.sub(r' transform="rotate\(-?0 [-\d.]+ [-\d.]+\)"', "", text)
    text = re.sub(r'<g id="(?!figure)[^"]*">', "<g>", re.sub(r"\s*\n\s*", "\n", text))
    # Groups of one element: the element alone.
    while (less := re.sub(r"<g>\n(<[^>]*/>|<text[^\n]*</text>)\n</g>", r"\1", text)) != text:
        text = less
    text = re.sub(r"\n([LQCM] )", r" \1", re.sub(r"<g>\n</g>\n", "", text))
    # Styles that repeat, once.
    looks = Counter(re.findall(r' style="([^"]*)"', text))
    classes = {look: f"s{i}" for i, (look, n) in enumerate(looks.items()) if n > 2}
    for look, name in classes.items():
        text = text.replace(f' style="{look}"', f' class="{name}"')
    rules = "\n".join(f".{name}{{{look}}}" for look, name in classes.items())
    text = text.replace("</style>", f"\n{rules}</style>", 1)
    return text.replace("<svg ", '<svg font-family="DejaVu Sans, Verdana, sans-serif" ', 1)


def _short(number: re.Match[str]) -> str:
    return f"{float(number[0]):z.2f}".rstrip("0").rstrip(".")
