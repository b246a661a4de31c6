"""The style of every figure, and figures as files; matplotlib is imported when one is drawn."""

from __future__ import annotations

import io
import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resultant._core.files import make_folder, replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# One colour per meaning, from the palette of Okabe and Ito for colour-blind readers.
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, GREY = "#CC79A7", "#56B4E9", "#8A8A8A"
CYCLE = (BLUE, ORANGE, GREEN, PURPLE, RED, SKY)

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


def style() -> AbstractContextManager[None]:
    """Draw in this style within a ``with`` block."""
    import matplotlib as mpl
    from cycler import cycler

    settings: Any = {**STYLE, "axes.prop_cycle": cycler(color=CYCLE)}
    return mpl.rc_context(settings)


def save(figure: Figure, stem: str | os.PathLike[str]) -> list[Path]:
    """Write a figure as ``stem.pdf`` and ``stem.png``, whole or absent; return the paths."""
    stem = Path(stem)
    make_folder(stem.parent)
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in ("pdf", "png")]
    # No dates: the same numbers give the same file.
    for path, metadata in zip(paths, ({"CreationDate": None}, None), strict=True):
        # In memory: on a full disk, matplotlib may raise errors other than OSError.
        drawn = io.BytesIO()
        # The style includes the resolution and the fonts of the file.
        with style():
            figure.savefig(drawn, format=path.suffix[1:], metadata=metadata)
        with replacing(path) as temporary:
            temporary.write_bytes(drawn.getbuffer())
    return paths
