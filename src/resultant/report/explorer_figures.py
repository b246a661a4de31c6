"""Figures that follow the sliders of a page, drawn at the settings that the sliders begin with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from resultant._core.text import counted
from resultant.analysis import RealizationGrid
from resultant.classes.groups import GROUPS, group_rule
from resultant.classes.rule import EDITED
from resultant.report import style
from resultant.report.charts import Axis, Bars, Chart, Level, Line, Points
from resultant.report.explorer import Side, start
from resultant.report.words import Settings

# Held-out rows of a class below which the steps of its accuracy are visible.
FEW = 5

# Colours of the sides; one side is an analysis, two are a comparison.
SIDE_COLOURS = (style.BLUE, style.ORANGE)


def charts(sides: Sequence[Side]) -> list[Chart]:
    """Return the figures that follow the sliders, drawn at the settings they begin with."""
    at = start(sides)
    slices = [_along_beta(sides, at), _along_tau(sides, at), _along_prior(sides, at)]
    groups = _by_group(sides, at)
    drawn = [chart for chart in slices if chart is not None]
    return [*drawn, *([] if groups is None else [groups]), _per_class(sides, at)]


def _along(sides: Sequence[Side], at: Settings, which: str) -> list[Line]:
    """Lines of the chosen rule and of native along one slider."""
    lines = []
    # Native and cosine have no beta: Pure Angular shows what beta would do.
    moved = "angular" if which == "beta" and at.realization not in EDITED else at.realization
    for i, side in enumerate(sides):
        for role, rule in (("native", "native"), ("rule", moved)):
            xs, ys = [], []
            for x, grid, here in _steps(side, at._replace(realization=rule), which):
                point = grid.point(here.realization, here.beta, here.prior)
                xs.append(x)
                ys.append(float("nan") if point.accuracy is None else 100 * point.accuracy)
            native = role == "native"
            label = f"{side.name} " * bool(side.name) + ("Native" if native else "this rule")
            colour = style.GREY if native and len(sides) == 1 else SIDE_COLOURS[i]
            dash = "dashed" if native else "solid"
            line = Line(xs, ys, label, colour, dash, marks=not native, name=f"{i}-{role}")
            lines.append(line)
    return lines


def _steps(side: Side, at: Settings, which: str) -> list[tuple[float, RealizationGrid, Settings]]:
    if which == "tau":
        return [(t, g, at) for t, g in zip(side.taus, side.grids, strict=True)]
    grid = side.grid
    if which == "beta":
        return [(b, grid, at._replace(beta=b)) for b in grid.betas]
    return [(g, grid, at._replace(prior=g)) for g in grid.gammas]


def _slice(sides: Sequence[Side], at: Settings, which: str, x: Axis, *words: str) -> Chart:
    none = torch.empty(0)
    here = Points(none, none, "these settings", style.RED, size=11, name="now")
    name, title, sentence, label = words
    y = Axis("accuracy (%)")
    return Chart(name, title, sentence, label, x, y, (*_along(sides, at, which), here), live=True)


def _along_beta(sides: Sequence[Side], at: Settings) -> Chart:
    return _slice(
        *(sides, at, "beta", Axis("β: 0 makes the gains equal, 1 keeps them")),
        "along-beta",
        "Accuracy along β",
        "β = 1 keeps all gains as they are, β = 0 makes them equal. A flat line says that the "
        "differences of the gains do not matter for this file. Native and Cosine have no β: the "
        "line is then Pure Angular, which is Native at β = 1 and nearly Cosine at β = 0.",
        "tab:frozen-vmf-realizations",
    )


def _along_tau(sides: Sequence[Side], at: Settings) -> Chart | None:
    if len(sides[0].taus) < 2:
        return None
    return _slice(
        *(sides, at, "tau", Axis("temperature τ", log=True)),
        "along-temperature",
        "Accuracy along the temperature",
        "The temperature mostly scales the scores: it changes how sure a rule is, and rarely what "
        "it predicts.",
        "sec:backbone-calibration-extension",
    )


def _along_prior(sides: Sequence[Side], at: Settings) -> Chart | None:
    if len(sides[0].grid.gammas) < 2:
        return None
    return _slice(
        *(sides, at, "gamma", Axis("γ, the weight of the log prior")),
        "along-prior",
        "Accuracy along the prior",
        "A positive weight favours classes with many training rows, a negative weight those with "
        "few.",
        "sec:prior-dependent-frozen",
    )


def _by_group(sides: Sequence[Side], at: Settings) -> Chart | None:
    present = [g for g in GROUPS if sides[0].analysis.space.groups.get(g)]
    if not present:
        return None
    shown = [(side, at, side.name, SIDE_COLOURS[i], f"{i}-rule") for i, side in enumerate(sides)]
    if len(sides) == 1:
        native = at._replace(realization="native")
        shown = [
            (sides[0], native, "Native", style.GREY, "0-native"),
            (sides[0], at, "this rule", style.BLUE, "0-rule"),
        ]
    bars = []
    for i, (side, here, label, colour, name) in enumerate(shown):
        groups = side.point(here).groups or {}
        heights = [100 * (groups.get(g) or 0) for g in present]
        x = [j + 0.4 * i - 0.2 for j in range(len(present))]
        bars.append(Bars(x, heights, 0.37, label, colour, name=name))
    return Chart(
        "groups",
        "Head, medium and tail classes",
        "Mean accuracy of the classes of each group at the settings of the sliders; "
        f"{group_rule(sides[0].analysis.space.num_classes)}.",
        "sec:frozen-states",
        Axis("", factors=tuple(present)),
        Axis("mean accuracy (%)"),
        tuple(bars),
        live=True,
    )


def _per_class(sides: Sequence[Side], at: Settings) -> Chart:
    a = sides[0].analysis
    group = None if a.gains is None else a.gains.group
    if len(sides) == 2:
        both = [_accuracies(side, at) for side in sides]
        return Chart(
            "classes",
            "Accuracy per class, A and B",
            "Classes above the diagonal are more accurate in B, at the settings of the sliders."
            + _resolution(sides[0]),
            "tab:frozen-vmf-realizations",
            Axis("accuracy in A (%)"),
            Axis("accuracy in B (%)"),
            (Points(both[0], both[1], kind="class", group=group, name="classes"),),
            diagonal=True,
            live=True,
        )
    gain = torch.zeros(a.space.num_classes) if a.gains is None else a.gains.gain
    mean = float(gain.mean())
    change = _accuracies(sides[0], at) - _accuracies(sides[0], at._replace(realization="native"))
    return Chart(
        "classes",
        "Change per class",
        "Change of the accuracy of each class from Native at the same temperature and prior. "
        "Classes with a gain below the mean are left of the dashed line." + _resolution(sides[0]),
        "tab:frozen-vmf-realizations",
        Axis("gain g = A / τ"),
        Axis("change of accuracy (points)"),
        (
            Level(0),
            Level(mean, upright=True, dash="dashed"),
            Points(gain, change, kind="class", group=group, name="classes"),
        ),
        live=True,
    )


def _resolution(side: Side) -> str:
    """Return a sentence about classes whose accuracy counts few rows, or ""."""
    queries = side.grids[0].queries
    number = int(queries[queries > 0].median()) if bool((queries > 0).any()) else FEW
    if number >= FEW:
        return ""
    rows = counted(number, "held-out row", "held-out rows")
    return (
        f" Most classes count {rows} here, so theirs moves in steps of {100 / number:.0f} points."
    )


def _accuracies(side: Side, at: Settings) -> Tensor:
    """Accuracies per class [C] in percent, NaN where unknown."""
    point = side.point(at)
    if point.per_class is None:
        return torch.full((side.analysis.space.num_classes,), torch.nan, dtype=torch.float64)
    return 100 * point.per_class


def arc_charts(side: Side) -> list[Chart]:
    """Return the figures of two chosen classes, which the page fills."""
    prefix = f"{side.name}: " * bool(side.name)
    first, second = style.BLUE, style.RED
    empty: dict[str, Any] = {"x": [], "y": [], "marks": False}
    scores = (
        Line(**empty, label="first class, Native", colour=first, width=2, name="first-before"),
        Line(**empty, label="second class, Native", colour=second, width=2, name="second-before"),
        Line(**empty, label="first, this rule", colour=first, dash="dashed", name="first-after"),
        Line(**empty, label="second, this rule", colour=second, dash="dashed", name="second-after"),
        Line(**empty, label="boundary, Native", colour=style.GREY, name="boundary-before"),
        Line(
            **empty,
            label="boundary, this rule",
            colour=style.GREY,
            dash="dashed",
            name="boundary-after",
        ),
    )
    certified = (
        Line(**empty, label="margin", colour=style.BLUE, width=2, name="margin"),
        Line(**empty, label="residual range", colour=style.ORANGE, width=2, name="residual"),
    )
    angle = Axis("angle from the first class (degrees)")
    suffix = f"-{side.name.lower()}" * bool(side.name)
    return [
        Chart(
            f"arc{suffix}",
            f"{prefix}Scores between two classes",
            "Scores of two classes along the shortest arc between their directions. The class with "
            "the higher score wins; the decision boundary is where the lines cross.",
            "fig:main-boundaries",
            angle,
            Axis("score"),
            scores,
            live=True,
        ),
        Chart(
            f"arc-certificate{suffix}",
            f"{prefix}Certificate between two classes",
            "Where the margin is above the residual range, Pure Angular at β = 0 and cosine are "
            "certain to choose the same of the two classes.",
            "eq:cosine-margin-certificate",
            angle,
            Axis("score units"),
            certified,
            live=True,
        ),
    ]
