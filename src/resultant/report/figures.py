"""What a figure of the report is, and what several of them are drawn with."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from resultant.analysis import GridPoint
from resultant.classes.groups import GROUPS
from resultant.report import style
from resultant.report.words import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    "native": style.GREY,
    "temperature": style.ORANGE,
    "preserve": style.GREEN,
    "angular": style.BLUE,
    "cosine": style.PURPLE,
}
# None of a realization; black is the colour of the text in a page, light or dark.
GROUP_COLOURS = dict(zip(GROUPS, (style.SKY, "black", style.RED), strict=True))

# Bins of fewer rows say nothing of a confidence: one row is a share right of zero or one.
FEWEST = 20

# More points than these are drawn as an image within the vector file.
VECTOR_POINTS = 2000


@dataclass(frozen=True)
class Drawing(ABC):
    """A figure: what it shows in a sentence, and the paper's label of the same."""

    name: str
    title: str
    sentence: str
    label: str

    @abstractmethod
    def figure(self) -> Figure:
        """It, laid out once for the three files that it goes into."""


@dataclass(frozen=True)
class Panel(Drawing):
    """A figure of one panel, and how to draw it."""

    draw: Callable[[Axes], object]

    def figure(self) -> Figure:
        with style.style():
            figure, (ax,) = style.panels(width=4.0, height=2.9)
            self.draw(ax)
            handles, labels = ax.get_legend_handles_labels()
            if handles:
                widest = max(map(len, labels))
                columns = 3 if widest < 14 else 2
                figure.legend(handles, labels, loc="outside lower center", ncols=columns)
            for axis in (ax.xaxis, ax.yaxis):
                if axis.get_scale() == "log":
                    axis.set_major_formatter("{x:g}")
                    low, high = axis.get_view_interval()
                    powers = sum(low <= at <= high for at in axis.get_majorticklocs())
                    axis.set_minor_formatter("{x:g}" if powers < 2 else "")
            figure.draw_without_rendering()
        figure.set_layout_engine(None)
        return figure


def reliability_curves(ax: Axes, named: Mapping[str, tuple[GridPoint, str]]) -> None:
    """How often predictions of a confidence are right, for points in their colours."""
    top, drawn = 1.0, []
    for name, (point, colour) in named.items():
        if (r := point.reliability) is None:
            continue
        kept = (r.count >= FEWEST).nonzero()[:, 0]
        line = r.confidence[kept], r.accuracy[kept]
        # A share of one is on the edge, and is shown whole.
        ax.plot(*line, "o-", color=colour, label=name, clip_on=False)
        drawn += r.confidence[kept].tolist()
    # A mark by itself is seen against the whole range.
    if len(drawn) > len(named):
        top = max(drawn)
    ax.plot([0, top], [0, top], color=style.GREY, linestyle=":", linewidth=1)
    ax.set(xlabel="confidence", ylabel="share right", xlim=(0, 1.05 * top), ylim=(0, 1))


def sparse_bins(points: Iterable[GridPoint | None]) -> str:
    """A sentence on the bins that `reliability_curves` leaves out, and where few are left."""
    counts = [p.reliability.count for p in points if p is not None and p.reliability is not None]
    said = f"Of {len(counts[0])} equal bins of confidence those of fewer than {FEWEST} rows are "
    hidden = max(int(n[n < FEWEST].sum()) for n in counts)
    said += f"not drawn ({counted(hidden, 'row', 'rows')} at most)"
    left = max(int((n >= FEWEST).sum()) for n in counts)
    return said + {0: ": no curve is left.", 1: ": a single mark is left."}.get(left, ".")


def dots(
    ax: Axes,
    x: Tensor,
    y: Tensor,
    colour: str,
    label: str | None = None,
    marker: str = ".",
    size: float = 5,
    hollow: bool = False,
) -> None:
    """Points, as an image where they are very many."""
    image = len(x) > VECTOR_POINTS
    style = {"color": colour, "markersize": size, "alpha": 0.9}
    if hollow:
        style |= {"markerfacecolor": "none", "markeredgewidth": 0.7}
    ax.plot(x, y, marker, label=label, rasterized=image, **style)


def by_group(ax: Axes, x: Tensor, y: Tensor, group: Tensor | None, *, hollow: bool = False) -> None:
    """Points in the colours of the shot groups, if there are any; hollow ones have no names of
    their own."""
    parts = [(group == g, *of) for g, of in enumerate(GROUP_COLOURS.items()) if group is not None]
    for members, name, colour in parts or [(y.isfinite(), None, "black")]:
        chosen = members & y.isfinite()
        if chosen.any():
            if hollow:
                dots(ax, x[chosen], y[chosen], colour, marker="o", size=3.5, hollow=True)
            else:
                dots(ax, x[chosen], y[chosen], colour, name)


def log_heights(ax: Axes) -> None:
    """A logarithmic scale, if anything above zero was drawn."""
    if math.isfinite(ax.dataLim.minposy):
        ax.set_yscale("log")


def diagonal(ax: Axes, values: Tensor) -> None:
    ends = [float(values.min()), float(values.max())]
    ax.plot(ends, ends, color=style.GREY, linestyle=":", linewidth=1)
