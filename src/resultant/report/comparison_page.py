"""The page that compares two sets of features."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from resultant._core.text import counted
from resultant.analysis import Analysis, Policy, Result
from resultant.analysis.metrics import NORMAL, SIGNIFICANCE, paired_gain
from resultant.classes.groups import GROUPS
from resultant.classes.rule import EDITED
from resultant.report import style
from resultant.report.analysis_page import footer, slugs
from resultant.report.figures import Drawing, Panel, dots, reliability_curves, sparse_bins
from resultant.report.page import Page, Section
from resultant.report.tables import Column, Table
from resultant.report.words import (
    NAMES,
    NATIVE_IN_PAPER,
    features_name,
    number,
    p_value,
    percent,
    points,
    rule_name,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Questions of `resultant.analysis` that a comparison needs.
QUESTIONS = ("gains", "grid", "recommendation", "cosine", "intercepts")
SIDES = ("A", "B")
COLOURS = {"A": style.BLUE, "B": style.ORANGE}

Pair = tuple[Analysis, Analysis]


@dataclass(frozen=True, eq=False)
class Verdict(Result):
    """The more accurate side on held-out rows, each side with the rule recommended for it.

    Attributes:
        better: "A" or "B" if p < 0.05, else None.
        accuracy: Accuracies of A and B.
        gain: Accuracy of B minus accuracy of A.
        low, high: Normal 95 % interval of the gain.
        p: p-value of McNemar's test on the same rows, else of the normal test.
        same_rows: True if the differences are paired.
        rows: Held-out rows of A and B.
    """

    better: str | None
    accuracy: tuple[float, float]
    gain: float
    low: float
    high: float
    p: float
    same_rows: bool
    rows: tuple[int, int]


def recommended(a: Analysis) -> Policy:
    """Return the rule that an analysis recommends, without a prior; native if there is none."""
    r = a.recommendation
    return (Policy("native") if r is None else Policy(r.realization, r.beta)).canonical


def verdict(a: Tensor, b: Tensor, *, same_rows: bool) -> Verdict:
    """Compare the accuracies of A and B.

    Args:
        a: True for the rows that A classifies correctly, [N].
        b: The same for B, [M].
        same_rows: Pair the rows of A and B, N = M.
    """
    x, y = float(a.double().mean()), float(b.double().mean())
    if same_rows:
        paired = paired_gain(a, b)
        gain, low, high, p = paired.gain, paired.low, paired.high, paired.p_value
    else:
        gain = y - x
        reach = NORMAL * math.sqrt(x * (1 - x) / len(a) + y * (1 - y) / len(b))
        low, high = max(-1.0, gain - reach), min(1.0, gain + reach)
        pooled = float(a.sum() + b.sum()) / (len(a) + len(b))
        error = math.sqrt(pooled * (1 - pooled) * (1 / len(a) + 1 / len(b)))
        p = math.erfc(abs(gain) / error / math.sqrt(2)) if error else 1.0
    better = None if p >= SIGNIFICANCE else SIDES[gain > 0]
    return Verdict(better, (x, y), gain, low, high, p, same_rows, (len(a), len(b)))


def comparison_page(
    pairs: Mapping[str, Pair],
    verdicts: Mapping[str, Verdict],
    wheres: Sequence[str],
    notes: Sequence[str],
    about: Mapping[str, Any],
) -> Page:
    """Return the page about pairs of analyses.

    Args:
        pairs: Analyses of A and B by the names of their features.
        verdicts: Verdicts by the same names.
        wheres: Names of A and B.
        notes: Sentences about the preparation of the features.
        about: Source, metadata and versions of A and B, for results.json.
    """
    first = max(verdicts, key=lambda name: max(verdicts[name].accuracy))
    facts = [
        ("better", _answer(first, verdicts[first])),
        ("compared", f"A = {wheres[0]}, B = {wheres[1]}"),
    ]
    for name, pair in pairs.items():
        if name != first:
            facts.append((name, _answer(name, verdicts[name])))
        facts += [(f"{name} {side}", _advice(a)) for side, a in zip(SIDES, pair, strict=True)]
    sections = [
        Section(slug, name, "", drawings(pair), [table(pair)])
        for slug, (name, pair) in zip(slugs(list(pairs)), pairs.items(), strict=True)
    ]
    results = {
        **about,
        "summary": dict(facts),
        "notes": list(notes),
        "better": verdicts[first].better,
        "features": {
            name: {
                "verdict": verdicts[name].to_dict(),
                **{side: a.to_dict() for side, a in zip(SIDES, pair, strict=True)},
            }
            for name, pair in pairs.items()
        },
    }
    title = f"{wheres[0]} and {wheres[1]}"
    return Page(title, facts, sections, notes, footer(about.get("A", {})), results)


def drawings(pair: Pair) -> list[Drawing]:
    """Return the figures of gains, accuracies and calibration that both sides have."""
    return [d for d in (_gains(pair), _accuracy(pair), _calibration(pair)) if d is not None]


def table(pair: Pair) -> Table:
    """Return the numbers of both sides and their differences."""
    rows = []
    for name, a, b in zip(*_numbers(pair[0]), _numbers(pair[1])[1], strict=True):
        if a is not None or b is not None:
            rows.append((name, a, b, None if a is None or b is None else b - a))
    return Table(
        "comparison",
        "Side by side",
        f"Fractions are between 0 and 1; the difference is B minus A. {NATIVE_IN_PAPER}",
        "tab:frozen-vmf",
        (Column("quantity"), Column("A"), Column("B"), Column("B - A")),
        rows,
    )


def _numbers(a: Analysis) -> tuple[list[str], list[float | int | None]]:
    values: dict[str, float | int | None] = {
        "classes": a.space.num_classes,
        "dimensions": a.space.dim,
        "rows fitted": a.space.fitting,
        "rows held out": a.space.held_out,
    }
    for name in ("native", *EDITED, "cosine"):
        point = None if a.grid is None else a.grid.point(name, 0.0)
        values[f"accuracy, {rule_name(name, 0.0)}"] = None if point is None else point.accuracy
    native = None if a.grid is None else a.grid.point("native")
    for group in GROUPS:
        groups = {} if native is None else native.groups or {}
        values[f"{NAMES['native']}, {group}"] = groups.get(group)
    values[f"calibration error, {NAMES['native']}"] = None if native is None else native.ece
    values[f"cross-entropy, {NAMES['native']}"] = None if native is None else native.nll
    values["mean gain"] = None if a.gains is None else a.gains.mean
    values["spread of gains"] = None if a.gains is None else a.gains.spread
    corrected = None if a.gains is None else a.gains.corrected_spread
    values["spread of gains, corrected for few rows"] = corrected
    values["agreement with cosine"] = None if a.cosine is None else a.cosine.agreement
    values["certified agreement with cosine"] = None if a.cosine is None else a.cosine.coverage
    drift = None if a.intercepts is None else a.intercepts.largest.get("temperature")
    values["largest drift of an intercept"] = drift
    return list(values), list(values.values())


def _answer(name: str, v: Verdict) -> str:
    rows = f"the same {counted(v.rows[0], 'row', 'rows')}"
    if not v.same_rows:
        rows = f"{v.rows[0]:,} and {v.rows[1]:,} rows, not the same"
    interval = f"95 % interval {points(v.low)} to {points(v.high)} ({p_value(v.p)}, {rows})"
    gain = f"B - A is {points(v.gain)} points, {interval}"
    if v.same_rows and v.low == v.high:
        gain = f"both are correct on the same of {counted(v.rows[0], 'row', 'rows')}"
    a, b = map(percent, v.accuracy)
    best = v.better or "neither is shown to be"
    return f"{best}: on {features_name(name)} A is {a} accurate and B {b}; {gain}"


def _advice(a: Analysis) -> str:
    r = a.recommendation
    if r is None:
        return "no recommendation"
    gain = f"{points(r.gain)} points ({points(r.low)} to {points(r.high)})"
    if r.realization == "native":
        candidate = rule_name(r.candidate, r.candidate_beta)
        kept = f"{NAMES['native']}, {percent(r.accuracy_before)} accurate"
        if r.candidate == "native":
            return kept
        changed = f"changes it by {gain}" if r.better + r.worse else "is correct on the same rows"
        return f"{kept}; {candidate} {changed}"
    used = rule_name(r.realization, r.beta)
    return f"{used}, {percent(r.accuracy_after)} accurate, {gain} more than {NAMES['native']}"


def _gains(pair: Pair) -> Drawing | None:
    a, b = pair[0].gains, pair[1].gains
    if a is None or b is None:
        return None

    def draw(ax: Axes) -> None:
        low, high = min(a.minimum, b.minimum), max(a.maximum, b.maximum)
        ax.plot([low, high], [low, high], ":", color=style.GREY, linewidth=1)
        dots(ax, a.gain, b.gain, style.GREEN)
        ax.set(xlabel="gain $g_c$ in A", ylabel="gain $g_c$ in B")

    return Panel(
        "gains",
        "Gains of the classes",
        f"{int((b.gain > a.gain).sum())} of {number(len(a.gain))} gains are higher in B. Their "
        f"spread is {percent(a.spread)} in A and {percent(b.spread)} in B, and without the bias of "
        f"few rows {percent(a.corrected_spread)} and {percent(b.corrected_spread)}.",
        "fig:gain-discovery",
        draw,
    )


def _accuracy(pair: Pair) -> Drawing | None:
    grids = [a.grid for a in pair]
    if grids[0] is None or grids[1] is None:
        return None

    def draw(ax: Axes) -> None:
        for side, grid in zip(SIDES, grids, strict=True):
            assert grid is not None
            angular = [
                (p.beta, 100 * p.accuracy)
                for p in grid.points
                if p.realization == "angular" and p.gamma == 0 and p.accuracy is not None
            ]
            x, y = zip(*sorted(angular), strict=True)
            ax.plot(x, y, "o-", color=COLOURS[side], label=f"{side}, {NAMES['angular']}")
            native = grid.point("native").accuracy
            if native is not None:
                at, label = 100 * native, f"{side}, {NAMES['native']}"
                ax.axhline(at, color=COLOURS[side], linestyle="--", label=label)
        ax.set(xlabel="β, the fraction of the gain differences that is kept", ylabel="accuracy (%)")

    native = [percent(grid.point("native").accuracy) for grid in grids if grid is not None]
    return Panel(
        "accuracy",
        "Accuracy",
        f"{NAMES['native']} classifies {native[0]} of the held-out rows of A correctly, and "
        f"{native[1]} of the held-out rows of B.",
        "tab:frozen-vmf-realizations",
        draw,
    )


def _calibration(pair: Pair) -> Drawing | None:
    points = [None if a.grid is None else a.grid.point("native") for a in pair]
    if any(p is None or p.reliability is None for p in points):
        return None

    def draw(ax: Axes) -> None:
        named = zip(SIDES, points, strict=True)
        reliability_curves(ax, {side: (p, COLOURS[side]) for side, p in named if p is not None})

    errors = [percent(None if p is None else p.ece) for p in points]
    return Panel(
        "calibration",
        "Calibration",
        f"{NAMES['native']} has an expected calibration error of {errors[0]} in A and of "
        f"{errors[1]} in B. {sparse_bins(points)}",
        "sec:backbone-calibration-extension",
        draw,
    )
