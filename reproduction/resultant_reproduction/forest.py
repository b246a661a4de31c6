"""The forest plot of the headline effects: printed and ours, in two panels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from resultant_reproduction.verdicts import Estimate, Judgement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Mid-tones are readable on a white and on a dark page.
INK, OURS, PAPER = "#7a7a7a", "#1f77b4", "#d9822b"

Panels = Mapping[str, Mapping[str, Judgement]]


def draw(panels: Panels, printed: str = "paper") -> Figure:
    """Draw the effects by panel and name, with 95 % intervals and the numbers of networks; an
    effect without an interval is hollow. ``printed`` names the printed effects in the legend."""
    from matplotlib.figure import Figure

    rows = [len(panel) for panel in panels.values()]
    figure = Figure(figsize=(9.2, 0.46 * sum(rows) + 1.9), layout="constrained")
    axes = figure.subplots(len(panels), 1, gridspec_kw={"height_ratios": rows}, squeeze=False)
    for ax, (letter, (title, effects)) in zip(
        axes[:, 0], zip("abc", panels.items(), strict=False), strict=True
    ):
        _panel(ax, f"({letter}) {title}" if len(panels) > 1 else title, effects, printed)
    axes[-1, 0].set_xlabel("percentage points", color=INK)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    legend = figure.legend(handles, labels, loc="outside lower right", ncols=2, frameon=False)
    for text in legend.get_texts():
        text.set_color(INK)
    return figure


def _panel(ax: Axes, title: str, effects: Mapping[str, Judgement], printed: str) -> None:
    ax.axvline(0, color=INK, linewidth=0.8)
    for y, judgement in enumerate(effects.values()):
        ours, paper = judgement.ours, judgement.paper
        if ours is not None:
            _mark(ax, y + 0.14, ours, OURS, "o", "ours, 95 % interval" if not y else "")
        if paper is None and judgement.printed is not None:
            paper = Estimate(judgement.printed, low=judgement.printed, high=judgement.printed)
        if paper is not None:
            _mark(ax, y - 0.14, paper, PAPER, "D", printed if not y else "")
    counts = [j.ours.n if j.ours else 0 for j in effects.values()]
    names = [f"{name}  [{n}]" for name, n in zip(effects, counts, strict=True)]
    ax.set_yticks(range(len(names)), names, color=INK)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_title(title, loc="left", fontsize=10, color=INK)
    ax.tick_params(colors=INK)
    ax.grid(axis="x", color=INK, alpha=0.2)
    for name, spine in ax.spines.items():
        spine.set_visible(name == "bottom")
        spine.set_color(INK)


def _mark(ax: Axes, y: float, effect: Estimate, colour: str, shape: str, label: str) -> None:
    if effect.low is not None and effect.high is not None and effect.low < effect.high:
        ax.plot([effect.low, effect.high], [y, y], color=colour, linewidth=1.6)
    face = "none" if effect.low is None else colour
    ax.plot([effect.mean], [y], shape, color=colour, mfc=face, ms=5.5, label=label or None)


def save(panels: Panels, path: Path) -> None:
    """Write the figure as an SVG that depends on nothing but the numbers."""
    import io

    from matplotlib import rc_context

    from resultant._core import files

    stream = io.StringIO()
    with rc_context({"svg.hashsalt": "resultant", "svg.fonttype": "none", "font.size": 9}):
        metadata = {"Date": None, "Creator": None}
        draw(panels).savefig(stream, format="svg", metadata=metadata, transparent=True)
    lines = (line.rstrip() for line in stream.getvalue().splitlines())
    files.write_text(path, "\n".join(lines) + "\n")
