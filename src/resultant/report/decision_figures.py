"""Figures of the gains of the classes, and of the decisions that a realization changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resultant._core.text import counted
from resultant.analysis import Analysis
from resultant.classes.groups import GROUPS, group_rule
from resultant.classes.rule import EDITED
from resultant.report import style
from resultant.report.figures import (
    COLOURS,
    Drawing,
    Panel,
    by_group,
    reliability_curves,
    sparse_bins,
)
from resultant.report.words import NAMES, before_and_after, percent, points, rule_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def gains(a: Analysis) -> Drawing | None:
    if (r := a.gains) is None:
        return None

    def draw(ax: Axes) -> None:
        by_group(ax, r.count, r.gain, r.group)
        if r.corrected_spread is not None:
            by_group(ax, r.count, r.corrected_gain, r.group, hollow=True)
        ax.axhline(r.mean, color=style.GREY, linestyle="--", linewidth=1)
        ax.set(xscale="log", xlabel="training rows of the class", ylabel="gain $g_c=A_c/\\tau$")

    with_counts, corrected = "", ""
    if r.rank_correlation is not None:
        with_counts = f"; their rank correlation with class size is {r.rank_correlation:+.2f}"
    if r.corrected_spread is not None:
        corrected = f" the spread is {percent(r.corrected_spread)}"
        if r.corrected_rank_correlation is not None:
            corrected += f" and the rank correlation {r.corrected_rank_correlation:+.2f}"
        corrected = (
            " The mean of few rows is too long on average, which raises the gains of small "
            f"classes; without this bias (hollow marks){corrected}. The correction removes the "
            "effect of the number of rows, but not the random error, which is largest in small "
            "classes."
        )
    if r.uncorrected:
        single = counted(len(r.uncorrected), "class with one row is", "classes with one row are")
        corrected += f" {single} left out of the correction."
    return Panel(
        "gains",
        "Gains of the classes",
        "One shared temperature gives the classes different angular scales: their gains range from "
        f"{r.minimum:.2f} to {r.maximum:.2f}, a spread of {percent(r.spread)} around the mean of "
        f"{r.mean:.2f}{with_counts}.{corrected}",
        "fig:gain-discovery",
        draw,
    )


def accuracy(a: Analysis) -> Drawing | None:
    grid, both = a.grid, before_and_after(a)
    if grid is None or both is None:
        return None
    native, best = both

    def draw(ax: Axes) -> None:
        # The curves often coincide: each is thinner than the one below.
        for name, width in zip(EDITED, (5.5, 3.0, 1.0), strict=True):
            line = sorted(
                (p.beta, 100 * p.accuracy)
                for p in grid.points
                if p.realization == name and p.gamma == 0 and p.accuracy is not None
            )
            if line:
                x, y = zip(*line, strict=True)
                (curve,) = ax.plot(x, y, "o-", color=COLOURS[name], label=NAMES[name])
                curve.set(linewidth=width, markersize=3 + 1.5 * width)
        for name in ("native", "cosine"):
            accuracy = grid.point(name).accuracy
            if accuracy is not None:
                at, colour = 100 * accuracy, COLOURS[name]
                ax.axhline(at, color=colour, linestyle="--", label=NAMES[name])
        ax.set(xlabel="β, the fraction of the gain differences that is kept", ylabel="accuracy (%)")

    other = f"{rule_name(best.realization, best.beta)} {percent(best.accuracy)}"
    if best is native:
        other = "no other realization is more accurate on the half of the rows that chooses"
    return Panel(
        "accuracy",
        "Accuracy of the realizations",
        f"{NAMES['native']} classifies {percent(native.accuracy)} of all held-out rows correctly, "
        f"{other}.",
        "tab:frozen-vmf-realizations",
        draw,
    )


def groups(a: Analysis) -> Drawing | None:
    if a.grid is None or a.grid.point("native").groups is None:
        return None
    native = a.grid.point("native").groups or {}
    present = [g for g in GROUPS if native.get(g) is not None]
    changes: dict[str, list[float]] = {}
    for name in (*EDITED, "cosine"):
        groups = _at_zero(a, name)
        if groups:
            changes[name] = [100 * ((groups[g] or 0) - (native[g] or 0)) for g in present]
    if not changes or not present:
        return None

    def draw(ax: Axes) -> None:
        width = 0.8 / len(changes)
        for i, (name, values) in enumerate(changes.items()):
            positions = [j + (i + 0.5) * width - 0.4 for j in range(len(present))]
            ax.bar(positions, values, width, color=COLOURS[name], label=NAMES[name])
        ax.axhline(0, color=style.GREY, linewidth=0.8)
        ax.set_xticks(range(len(present)), present)
        ax.grid(axis="x", visible=False)
        ax.set_ylabel(f"change from {NAMES['native']} (points)")

    shown = "angular" if "angular" in changes else next(iter(changes))
    text = ", ".join(f"{g} {v:+.2f}" for g, v in zip(present, changes[shown], strict=True))
    return Panel(
        "groups",
        "Head, medium and tail classes",
        f"Equal gains ({rule_name(shown, 0.0)}) change the mean accuracy of the classes by "
        f"{text} percentage points; {group_rule(a.space.num_classes)}.",
        "sec:frozen-states",
        draw,
    )


def _at_zero(a: Analysis, name: str) -> dict[str, float | None] | None:
    try:
        return None if a.grid is None else a.grid.point(name, 0.0).groups
    except KeyError:
        return None


def classes(a: Analysis) -> Drawing | None:
    both = before_and_after(a)
    if both is None or a.gains is None or both[1].per_class is None:
        return None
    native, best = both
    if best is native:
        return None
    assert native.per_class is not None and best.per_class is not None
    change = 100 * (best.per_class - native.per_class)
    gains = a.gains

    def draw(ax: Axes) -> None:
        by_group(ax, gains.gain, change, gains.group)
        ax.axhline(0, color=style.GREY, linewidth=0.8)
        ax.axvline(gains.mean, color=style.GREY, linestyle="--", linewidth=1)
        ax.set(xlabel="gain $g_c$", ylabel="change of accuracy (points)")

    return Panel(
        "classes",
        "Change per class",
        f"{rule_name(best.realization, best.beta)} raises the accuracy of "
        f"{int((change > 0).sum())} classes and lowers the accuracy of {int((change < 0).sum())}; "
        "classes with a low gain are left of the mean (dashed).",
        "tab:frozen-vmf-realizations",
        draw,
    )


def calibration(a: Analysis) -> Drawing | None:
    both = before_and_after(a)
    if both is None or both[1].reliability is None or both[0].ece is None or both[1].ece is None:
        return None

    def draw(ax: Axes) -> None:
        reliability_curves(
            ax,
            {
                rule_name(point.realization, point.beta): (point, COLOURS[point.realization])
                for point in both
            },
        )

    native, best = both
    error = f"{NAMES['native']} has an expected calibration error of {percent(native.ece)}"
    if best is not native:
        error += f", {rule_name(best.realization, best.beta)} of {percent(best.ece)}"
    return Panel(
        "calibration",
        "Calibration",
        f"{error}; a calibrated rule lies on the dotted diagonal. {sparse_bins(both)}",
        "sec:backbone-calibration-extension",
        draw,
    )


def prior(a: Analysis) -> Drawing | None:
    if a.grid is None or len(a.grid.gammas) < 2:
        return None
    grid, curves = a.grid, {}
    for name in ("native", "angular", "cosine"):
        curves[name] = [
            (p.gamma, 100 * p.accuracy)
            for p in grid.points
            if p.realization == name
            and p.accuracy is not None
            and (name != "angular" or p.beta == 0)
        ]
    if not all(curves.values()):
        return None

    def draw(ax: Axes) -> None:
        for name, line in curves.items():
            x, y = zip(*sorted(line), strict=True)
            style = "o--" if name == "cosine" else "o-"
            ax.plot(x, y, style, color=COLOURS[name], label=NAMES[name])
        ax.set(xlabel="γ, the weight of the log prior", ylabel="accuracy (%)")

    ends = [
        points((dict(curves["angular"])[g] - dict(curves["native"])[g]) / 100)
        for g in (grid.gammas[0], grid.gammas[-1])
    ]
    return Panel(
        "prior",
        "Effect of a class prior",
        f"With the class sizes as a prior, {NAMES['angular']} at β = 0 differs from "
        f"{NAMES['native']} by {ends[0]} points at γ = {grid.gammas[0]:g} and by {ends[1]} at "
        f"γ = {grid.gammas[-1]:g}.",
        "sec:prior-dependent-frozen",
        draw,
    )
