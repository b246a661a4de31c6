"""Drawing mechanisms: charts of curves, and the charts of tables; figures as small SVG files.

A figure is a list of `Chart`, one per panel. Every function takes plain numbers.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from resultant.report import style
from resultant_reproduction.cells.cells import Cell, Change
from resultant_reproduction.cells.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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

# Ours and the printed number of one row.
Pair = tuple[Estimate | None, Estimate | None]

LOG: dict[str, Any] = {"xscale": "log", "yscale": "log"}
HOLLOW: dict[str, Any] = {"mfc": "none"}


class Curve(NamedTuple):
    """One series of a chart; without points an entry of the legend alone."""

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


class Chart(NamedTuple):
    """One panel; ``more`` is for ``Axes.set``, and ``paint`` draws what curves cannot."""

    curves: Iterable[Curve]
    xlabel: str = ""
    ylabel: str = ""
    title: str = ""
    more: Mapping[str, Any] = {}
    paint: Callable[[Axes], object] | None = None
    from_zero: bool = False


def _draw(ax: Axes, chart: Chart) -> None:
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
    if chart.from_zero:
        ax.set_ylim(bottom=0)
    ax.set_title(chart.title, loc="left")


def draw_charts(
    charts: Sequence[Chart],
    *,
    columns: int | None = None,
    width: float = 3.5,
    height: float = 2.8,
    legend: int = 3,
    under: bool = False,
    ratios: Sequence[float] | None = None,
) -> Figure:
    """Draw charts side by side, lettered if there are several, in rows of ``columns`` panels of
    this size in inches, with ``ratios`` of heights; with a legend of ``legend`` columns ``under``
    each panel, or the fullest one below all."""
    # Not pyplot, which would keep the figure and choose a display.
    from matplotlib.figure import Figure

    columns = columns or len(charts)
    rows = -(-len(charts) // columns)
    with style.style():
        figure = Figure(figsize=(columns * width, rows * height))
        axes = list(figure.subplots(rows, columns, squeeze=False, height_ratios=ratios).flat)
        for ax, chart in zip(axes, charts, strict=False):
            _draw(ax, chart)
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
            legends = (ax.get_legend_handles_labels() for ax in axes)
            handles, labels = max(legends, key=lambda pair: len(pair[1]))
            if labels:
                figure.legend(handles, labels, loc="outside lower center", ncols=legend)
    return figure


def labelled(panels: Iterable[Any], specs: Iterable[Mapping[str, Any]]) -> list[Chart]:
    """Make charts of the panels that are curves, with labels and limits in their order."""
    more = iter(specs)
    return [own if isinstance(own, Chart) else Chart(own, **next(more)) for own in panels]


def shades(n: int) -> list[Any]:
    """Return n colours of a sequence that are visible on light and on dark pages."""
    import matplotlib as mpl

    return [mpl.colormaps["viridis_r"](0.27 + 0.48 * i / max(1, n - 1)) for i in range(n)]


def intervals(
    panels: Mapping[str, Mapping[str, Pair]],
    xlabel: str,
    ours: str = "ours, 95 % interval",
    printed: str = "paper",
    stacked: bool = False,
) -> Figure:
    """Draw ours and the printed number of every row with intervals, hollow without, per title."""
    charts = []
    for title, rows in panels.items():
        curves = [Curve(label=ours, look="o", color=OURS)]
        if any(paper for _, paper in rows.values()):
            curves.append(Curve(label=printed, look="D", color=PAPER))
        if all(own is None for own, _ in rows.values()):
            del curves[0]
        apart = 0.14 if len(curves) > 1 else 0.0
        for y, pair in enumerate(rows.values()):
            looks = ((y + apart, "o", OURS), (y - apart, "D", PAPER))
            for i, (height, look, colour) in zip(pair, looks, strict=True):
                if i is not None:
                    if i.low is not None and i.high is not None:
                        curves.append(Curve((i.low, i.high), (height, height), color=colour))
                    face = HOLLOW if i.low is None else {}
                    curves.append(Curve([i.mean], [height], look, color=colour, more=face))
        names = [*rows] if stacked or not charts else [""] * len(rows)

        def paint(ax: Axes, names: Sequence[str] = names) -> None:
            ax.set_yticks(range(len(names)), names)
            # Room for the marks of the first and the last row.
            ax.set_ylim(len(names) - 0.5, -0.5)
            ax.axvline(0, color=style.GREY, lw=1, zorder=0)
            ax.locator_params(axis="x", nbins=4 if len(panels) > 3 else 6)

        charts.append(Chart(curves, xlabel, title=title, paint=paint))
    numbers = [len(rows) for rows in panels.values()]
    if stacked:
        height = 0.7 + 0.32 * sum(numbers) / len(numbers)
        return draw_charts(charts, columns=1, width=9.2, height=height, ratios=numbers)
    width = max(1.5, 7.6 / len(charts)) + 2.2 / len(charts)
    return draw_charts(charts, width=width, height=1.1 + 0.21 * numbers[0])


def draw_changes(changes: Sequence[Change], xlabel: str) -> Figure:
    """Draw one row per change, which names its number of seeds."""
    rows = {f"{c.row} [{len(c.differences)}]": (c.interval, exact(c.paper)) for c in changes}
    return intervals({"": rows}, xlabel)


def exact(number: float | None) -> Estimate | None:
    """Return an estimate without error."""
    return None if number is None else Estimate(number, number, number)


def comparison(cells: Sequence[Cell]) -> Figure:
    """Draw ours less the printed numbers by column and row, or the printed numbers alone."""
    known = [c for c in cells if c.paper is not None]
    ours = [c for c in known if c.ours is not None]
    empty: dict[str, Pair] = {_counted(c.row, ours): (None, None) for c in ours or known}
    panels = {c.column: dict(empty) for c in ours or known}
    for cell in ours or known:
        assert cell.paper is not None
        pair = None, exact(cell.paper.value.mean)
        if cell.ours is not None and (d := cell.difference) is not None:
            own, sd = cell.ours.sd, cell.paper.value.sd
            ends = (None, None) if own is None else (d - own, d + own)
            pair = Estimate(d, *ends), Estimate(0.0, -sd, sd) if sd else None
        panels[cell.column][_counted(cell.row, ours)] = pair
    if not ours:
        return intervals(panels, "paper")
    label = "ours less paper, mean and SD over networks"
    return intervals(panels, "ours - paper", label, "SD of the paper")


def _counted(row: str, cells: Sequence[Cell]) -> str:
    """Name a row with its number of networks, or with their range."""
    numbers = sorted({c.ours.n for c in cells if c.row == row and c.ours is not None})
    span = f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else "".join(map(str, numbers))
    return f"{row} [{span}]" if span else row


def heat_maps(
    maps: Mapping[str, Mapping[tuple[str, str], tuple[float, int] | None]], label: str
) -> Figure:
    """Draw one map per title, of values with their numbers of networks by row and column: beyond
    `LIMIT` in bold with a triangle, of one network pale and slanted, missing as a dash."""
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
            look |= {"weight": ("normal", "bold")[beyond], "style": ("normal", "italic")[single]}
            ax.text(x, y, text, ha="center", va="center", **look)
        ax.set_xlim(-0.5, len(columns) - 0.5)
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.set_xticks(range(len(columns)), columns, rotation=40, ha="right")
        ax.set_yticks(range(len(rows)), rows if title == next(iter(maps)) else [])
        ax.grid(False)
        if title == [*maps][-1]:
            ax.figure.colorbar(shade, ax=ax, extend="both", label=label)

    charts = [Chart((), title=title, paint=partial(paint, title=title)) for title in maps]
    return draw_charts(charts, width=4.4, height=1.5 + 0.25 * len(rows))


def course(
    by_epoch: Mapping[int, Sequence[float]], look: str, color: str, label: str | None = None
) -> Curve:
    """Return the mean over seeds with their range as a band; one seed is thin and pale."""
    epochs, seeds = list(by_epoch), list(by_epoch.values())
    band = [[bound(own) for own in seeds] for bound in (min, max)]
    single = max(map(len, seeds)) == 1
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
