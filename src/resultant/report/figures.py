"""A figure of a report, and drawing helpers that several figures share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from resultant._core.text import counted
from resultant.analysis import GridPoint
from resultant.classes.groups import GROUPS
from resultant.report import style

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
# Different from those of the realizations; black follows the colour of the text of a page.
GROUP_COLOURS = dict(zip(GROUPS, (style.SKY, "black", style.RED), strict=True))

# Bins with fewer rows are not drawn: a single row has an accuracy of zero or one.
FEWEST = 20

# More points are drawn as an image within the vector file.
VECTOR_POINTS = 2000


@dataclass(frozen=True)
class Drawing(ABC):
    """A figure of a report.

    Attributes:
        name: Name for files.
        title: Heading.
        sentence: Caption: the meaning and the numbers.
        label: The paper's label of the corresponding table, figure or section.
    """

    name: str
    title: str
    sentence: str
    label: str

    @abstractmethod
    def figure(self) -> Figure:
        """Return the figure, laid out once for all its files."""


@dataclass(frozen=True)
class Panel(Drawing):
    """A figure of one panel; ``draw`` draws it."""

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
    """Draw accuracy against confidence, one curve per name in its colour."""
    top, drawn = 1.0, []
    for name, (point, colour) in named.items():
        if (r := point.reliability) is None:
            continue
        kept = (r.count >= FEWEST).nonzero()[:, 0]
        line = r.confidence[kept], r.accuracy[kept]
        # Marks at an accuracy of one lie on the edge and are drawn whole.
        ax.plot(*line, "o-", color=colour, label=name, clip_on=False)
        drawn += r.confidence[kept].tolist()
    # A single mark is drawn against the whole range.
    if len(drawn) > len(named):
        top = max(drawn)
    ax.plot([0, top], [0, top], color=style.GREY, linestyle=":", linewidth=1)
    ax.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1.05 * top), ylim=(0, 1))


def sparse_bins(points: Iterable[GridPoint | None]) -> str:
    """Return a sentence about the bins that `reliability_curves` leaves out."""
    counts = [p.reliability.count for p in points if p is not None and p.reliability is not None]
    hidden = max(int(n[n < FEWEST].sum()) for n in counts)
    text = f"Bins with fewer than {FEWEST} rows are not drawn: at most "
    text += f"{counted(hidden, 'row', 'rows')} in {len(counts[0])} bins"
    left = max(int((n >= FEWEST).sum()) for n in counts)
    return text + {0: "; no curve is left.", 1: "; a single mark is left."}.get(left, ".")


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
    """Draw points, as an image if there are very many."""
    image = len(x) > VECTOR_POINTS
    style = {"color": colour, "markersize": size, "alpha": 0.9}
    if hollow:
        style |= {"markerfacecolor": "none", "markeredgewidth": 0.7}
    ax.plot(x, y, marker, label=label, rasterized=image, **style)


def by_group(ax: Axes, x: Tensor, y: Tensor, group: Tensor | None, *, hollow: bool = False) -> None:
    """Draw points in the colours of the shot groups, if there are any; hollow points have no
    entry in the legend."""
    parts = [(group == g, *c) for g, c in enumerate(GROUP_COLOURS.items()) if group is not None]
    for members, name, colour in parts or [(y.isfinite(), None, "black")]:
        chosen = members & y.isfinite()
        if chosen.any():
            if hollow:
                dots(ax, x[chosen], y[chosen], colour, marker="o", size=3.5, hollow=True)
            else:
                dots(ax, x[chosen], y[chosen], colour, name)


def log_heights(ax: Axes) -> None:
    """Use a logarithmic scale if a positive value was drawn."""
    if math.isfinite(ax.dataLim.minposy):
        ax.set_yscale("log")


def diagonal(ax: Axes, values: Tensor) -> None:
    ends = [float(values.min()), float(values.max())]
    ax.plot(ends, ends, color=style.GREY, linestyle=":", linewidth=1)
