"""What a figure of the report is, and what several of them are drawn with."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from resultant import figures
from resultant.frozen import GridPoint
from resultant.shots import GROUPS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    "native": figures.GREY,
    "temperature": figures.ORANGE,
    "preserve": figures.GREEN,
    "angular": figures.BLUE,
    "cosine": figures.PURPLE,
}
GROUP_COLOURS = dict(zip(GROUPS, (figures.BLUE, figures.ORANGE, figures.GREEN), strict=True))
EDITED = ("temperature", "preserve", "angular")

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
        with figures.style():
            figure, (ax,) = figures.panels(width=4.0, height=2.9)
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
    top = 0.0
    for name, (point, colour) in named.items():
        if (r := point.reliability) is None:
            continue
        kept = (r.count > 0).nonzero()[:, 0]
        ax.plot(r.confidence[kept], r.accuracy[kept], "o-", color=colour, label=name)
        top = max(top, float(r.confidence[kept].max()))
    ax.plot([0, top], [0, top], color=figures.GREY, linestyle=":", linewidth=1)
    ax.set(xlabel="confidence", ylabel="share right", xlim=(0, 1.05 * top), ylim=(0, 1))


def dots(
    ax: Axes,
    x: Tensor,
    y: Tensor,
    colour: str,
    label: str | None = None,
    marker: str = ".",
    size: float = 5,
) -> None:
    """Points, as an image where they are very many."""
    image = len(x) > VECTOR_POINTS
    style = {"color": colour, "markersize": size, "alpha": 0.75}
    ax.plot(x, y, marker, label=label, rasterized=image, **style)


def by_group(ax: Axes, x: Tensor, y: Tensor, group: Tensor) -> None:
    for g, (name, colour) in enumerate(GROUP_COLOURS.items()):
        chosen = (group == g) & y.isfinite()
        if chosen.any():
            dots(ax, x[chosen], y[chosen], colour, name)


def log_heights(ax: Axes) -> None:
    """A logarithmic scale, if anything above zero was drawn."""
    if math.isfinite(ax.dataLim.minposy):
        ax.set_yscale("log")


def diagonal(ax: Axes, values: Tensor) -> None:
    ends = [float(values.min()), float(values.max())]
    ax.plot(ends, ends, color=figures.GREY, linestyle=":", linewidth=1)
