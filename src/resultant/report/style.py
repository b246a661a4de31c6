"""The style of every figure, and figures as files.

matplotlib is imported by the functions that draw; everything else works without it.
"""

from __future__ import annotations

import importlib.util
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resultant._core.files import make_folder, replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# One colour per meaning, from the palette of Okabe and Ito for colour-blind readers.
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, GREY = "#CC79A7", "#56B4E9", "#8A8A8A"
# The colour of text; a page replaces this black, and no other, on a dark background.
BLACK = "#000000"
CYCLE = (BLUE, ORANGE, GREEN, PURPLE, RED, SKY)

# A sequence of orders or dimensions, from light to dark.
SEQUENCE = "viridis_r"
# Signed values about zero.
DIVERGING = "RdBu_r"

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "mathtext.fontset": "dejavusans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 200,
    # Text stays text in a vector file.
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "resultant",
}

# No dates: the same numbers give the same file.
METADATA = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}


def available() -> bool:
    """Return True if matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def require() -> None:
    """Raise a ValueError with the command to install matplotlib if it is missing."""
    if not available():
        raise ValueError("expected matplotlib to draw figures: pip install resultant[report]")


@contextmanager
def style() -> Iterator[None]:
    """Draw in this style within a ``with`` block."""
    require()
    import matplotlib as mpl
    from cycler import cycler

    settings: Any = {**STYLE, "axes.prop_cycle": cycler(color=CYCLE)}
    with mpl.rc_context(settings):
        yield


def panels(
    columns: int = 1, rows: int = 1, *, width: float = 3.5, height: float = 2.8
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its panels, row by row, each of this size in inches.

    Call it within `style`.

    Example:
        >>> with style():
        ...     figure, axes = panels(2)
        >>> len(axes)
        2
    """
    from matplotlib.figure import Figure

    # Not pyplot, which would keep the figure and choose a display.
    figure = Figure(figsize=(columns * width, rows * height))
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, list(axes.flat)


def shades(n: int) -> list[Any]:
    """Return n colours of a sequence that are visible on light and on dark pages."""
    import matplotlib as mpl

    return [mpl.colormaps[SEQUENCE](0.27 + 0.48 * i / max(1, n - 1)) for i in range(n)]


def legend_below(figure: Figure, axes: Axes, *, columns: int = 3) -> None:
    """Put the legend of these axes below all panels."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def legend_under(ax: Axes, *, columns: int = 1) -> None:
    """Put the legend of a panel below the panel."""
    # The pad, in font sizes, leaves room for ticks and label.
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0), borderaxespad=4, ncols=columns)


def save(
    figure: Figure, stem: str | os.PathLike[str], formats: Sequence[str] = ("pdf", "png")
) -> list[Path]:
    """Write a figure as ``stem.pdf`` and ``stem.png``; return the paths.

    Each file is complete or absent.

    Args:
        figure: A figure of matplotlib.
        stem: Path of the files without the suffix; the folder is created.
        formats: Suffixes.
    """
    stem = Path(stem)
    make_folder(stem.parent)
    written = []
    for suffix in formats:
        path = stem.with_name(f"{stem.name}.{suffix}")
        # In memory: on a full disk, matplotlib may raise errors other than OSError.
        drawn = io.BytesIO()
        # The style includes the resolution and the fonts of the file.
        with style():
            figure.savefig(drawn, format=suffix, metadata=METADATA.get(suffix))
        with replacing(path) as temporary:
            temporary.write_bytes(drawn.getbuffer())
        written.append(path)
    return written


def letter(axes: Iterable[Axes], names: Iterable[str] = "abcdefgh") -> None:
    """Put (a), (b), ... before the titles of panels."""
    for name, ax in zip(names, axes, strict=False):
        ax.set_title(f"({name}) {ax.get_title(loc='left')}", loc="left")
