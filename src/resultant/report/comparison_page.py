"""The page that compares two sets of features."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from resultant._core.text import counted
from resultant.analysis import Analysis, Policy, Result
from resultant.analysis.headline import rule_text
from resultant.analysis.metrics import NORMAL, SIGNIFICANCE, paired_gain
from resultant.classes.groups import GROUPS
from resultant.classes.rule import EDITED
from resultant.report import decision_figures, explorer_figures
from resultant.report.analysis_page import class_columns, footer, slugs, snippets
from resultant.report.charts import Axis, Chart, Points, kept
from resultant.report.explorer import Side, choice_of, rows_of
from resultant.report.page import Page, Section
from resultant.report.plots import ClassColumns
from resultant.report.summary import foremost
from resultant.report.table import Column, Table
from resultant.report.tables import rules
from resultant.report.words import (
    NAMES,
    NATIVE_IN_PAPER,
    Share,
    features_name,
    number,
    p_value,
    percent,
    points,
    rule_name,
    settings,
)

# Questions of `resultant.analysis` that a comparison needs.
QUESTIONS = ("gains", "grid", "cosine", "intercepts")
SIDES = ("A", "B")

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
    """Return the rule that is advised for a side; native if there is none."""
    if a.advice is not None:
        at = settings(a)
        return Policy(at.realization, at.beta, at.prior).canonical
    return Policy("native").canonical


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
    pairs: Mapping[str, tuple[Side, Side]],
    verdicts: Mapping[str, Verdict],
    wheres: Sequence[str],
    names: Sequence[str],
    notes: Sequence[str],
    about: Mapping[str, Any],
) -> Page:
    """Return the page about pairs of analyses.

    Args:
        pairs: Sides A and B by the names of their features.
        verdicts: Verdicts by the same names.
        wheres: Names of A and B.
        names: Names of the classes [C].
        notes: Sentences about the preparation of the features.
        about: Source, metadata and versions of A and B, for results.json.
    """
    first = foremost({name: max(pair, key=_nearest).analysis for name, pair in pairs.items()})
    best = pairs[first]
    facts = [
        ("better", _answer(verdicts[first])),
        ("compared", f"A = {wheres[0]}, B = {wheres[1]}"),
    ]
    for name, pair in pairs.items():
        if name != first:
            facts.append((name, _answer(verdicts[name])))
        for side in pair:
            facts.append((f"{name} {side.name}", _advice(side.analysis)))
    ordered = sorted(pairs, key=lambda name: name != first)
    sections: list[Section] = []
    for slug, name in zip(slugs(ordered), ordered, strict=True):
        title = "" if name == first else f"{name}: "
        sections += _sections(slug, title, pairs[name], names, unfolded=name == first)
    results = {
        **about,
        "summary": dict(facts),
        "notes": list(notes),
        "better": verdicts[first].better,
        "features": {
            name: {
                "verdict": verdicts[name].to_dict(),
                **{side.name: side.analysis.to_dict() for side in pair},
            }
            for name, pair in pairs.items()
        },
    }
    return Page(
        f"Comparison: A = {wheres[0]}, B = {wheres[1]}",
        facts,
        sections,
        notes,
        footer(about.get("A", {})),
        results,
        headline=_headline(first, verdicts[first], best),
        warnings=_warnings(verdicts[first], best),
        # The better side first, which is unfolded.
        snippets=[
            (f"{side.name}: {heading}", code)
            for side in sorted(best, key=lambda side: side.name != verdicts[first].better)
            for heading, code in snippets(side.analysis)
        ],
    )


def _nearest(side: Side) -> float:
    return 0.0 if side.analysis.advice is None else side.analysis.advice.nearest


def _headline(name: str, v: Verdict, pair: tuple[Side, Side]) -> list[tuple[str, str]]:
    """Return the three sentences of the page."""
    used = [recommended(side.analysis) for side in pair]
    rules_ = [rule_name(policy.realization, policy.beta) for policy in used]
    if v.better is None:
        do = "Take the side that is cheaper to make, or compare on more held-out rows."
    else:
        side = SIDES.index(v.better)
        chosen, advice = rules_[side], pair[side].analysis.advice
        if advice is not None:
            chosen = rule_text(advice.row(advice.advised))
        do = f"Use the {features_name(name)} of {v.better}, with {chosen}."
        if advice is not None and advice.verdict == "reference":
            do += f" For accuracy alone {advice.row(advice.best).name} is better than it there."
    return [("found", _found(v)), ("do", do), ("worth", _worth(pair, used))]


def _found(v: Verdict) -> str:
    better, _, rest = _answer(v).partition(": ")
    subject = f"{better} is better" if v.better else "Neither side is shown to be better"
    return f"{subject}: {rest}."


def _worth(pair: tuple[Side, Side], used: Sequence[Policy]) -> str:
    """Return who gains from the difference: groups and classes."""
    at = [
        None if side.analysis.grid is None else side.analysis.grid.point(*policy)
        for side, policy in zip(pair, used, strict=True)
    ]
    if any(p is None or p.per_class is None for p in at):
        return "The classes cannot be compared one by one."
    (a, b) = (p for p in at if p is not None)
    assert a.per_class is not None and b.per_class is not None
    change = b.per_class - a.per_class
    up, down = int((change > 0).sum()), int((change < 0).sum())
    rise = counted(up, "class is", "classes are") if up else "No class is"
    text = f"{rise} more accurate in B, {f'{down:,}' if down else 'none'} in A"
    groups = [
        f"{g} {points(after - before)}"
        for g in GROUPS
        if (before := (a.groups or {}).get(g)) is not None
        and (after := (b.groups or {}).get(g)) is not None
    ]
    return (
        f"{text}; the mean accuracy changes by {', '.join(groups)} points."
        if groups
        else f"{text}."
    )


def _warnings(v: Verdict, pair: tuple[Side, Side]) -> list[str]:
    warnings = []
    if not v.same_rows:
        warnings.append(
            "The held-out rows of A and B are not known to be the same, so the difference is "
            "tested as one of independent rows, which needs more rows to be seen. Give both files "
            "an array of identities, or name it with --identities."
        )
    for side in pair:
        if (advice := side.analysis.advice) is not None:
            warnings += [f"{side.name}: {w.text}" for w in advice.warnings]
    return warnings


def _sections(
    slug: str, title: str, pair: tuple[Side, Side], names: Sequence[str], *, unfolded: bool
) -> list[Section]:
    both = (pair[0].analysis, pair[1].analysis)
    figures, omitted = kept(drawings(both))
    tables = [table(both)]
    for side in pair:
        if (own := rules(side.analysis)) is not None:
            named = replace(own, name=f"rules-{side.name.lower()}", title=f"Rules of {side.name}")
            tables.append(named)
    common: dict[str, Any] = {"group": slug, "classes": _columns(both, names)}
    sections = [
        Section(
            f"{slug}-sides",
            f"{title}Side by side",
            "\n".join(omitted),
            figures,
            tables,
            open=unfolded,
            **common,
        )
    ]
    if all(a.grid is not None for a in both):
        sections.append(
            Section(
                f"{slug}-explore",
                f"{title}Move the sliders",
                "The same rule and settings on both sides. Click a class in any figure, or type "
                f"its name, to follow it through all figures. {rows_of(pair)}",
                explorer_figures.charts(pair),
                open=unfolded,
                sides=pair,
                **common,
            )
        )
    if all(side.arcs is not None for side in pair):
        sections.append(
            Section(
                f"{slug}-pairs",
                f"{title}Between two classes",
                "Choose two classes and see their scores on the arc from one to the other, in A "
                "and in B; the sliders above apply here too." + choice_of(pair[0]),
                [chart for side in pair for chart in explorer_figures.arc_charts(side)],
                open=False,
                arcs=True,
                **common,
            )
        )
    return sections


def _columns(both: Pair, names: Sequence[str]) -> ClassColumns:
    """Return the numbers that figures show for a class; the sliders fill the accuracies."""
    columns = class_columns(both[0], names).columns
    own = {k: v for k, v in columns.items() if k in ("training rows", "group")}
    gains = {
        f"gain in {s}": a.gains.gain.tolist() for s, a in zip(SIDES, both, strict=True) if a.gains
    }
    nothing = ["–"] * len(names)
    return ClassColumns(names, {**own, **gains, "A (%)": nothing, "B (%)": nothing})


def drawings(pair: Pair) -> list[Chart]:
    """Return the figures of gains and calibration that both sides have."""
    return [d for d in (_gains(pair), _calibration(pair)) if d is not None]


def table(pair: Pair) -> Table:
    """Return the numbers of both sides and their differences."""
    rows = []
    for name, a, b in zip(*_numbers(pair[0]), _numbers(pair[1])[1], strict=True):
        if a is not None or b is not None:
            d = None if a is None or b is None else b - a
            rows.append((name, a, b, Share(d) if isinstance(a, Share) and d is not None else d))
    return Table(
        "comparison",
        "Side by side",
        f"The difference of two percentages is in points. {NATIVE_IN_PAPER}",
        "tab:frozen-vmf",
        (Column("quantity"), Column("A"), Column("B"), Column("B - A", _difference)),
        rows,
    )


def _difference(value: float | None) -> str:
    return f"{points(value)} points" if isinstance(value, Share) else number(value)


def _numbers(a: Analysis) -> tuple[list[str], list[float | int | None]]:
    def share(value: float | None) -> Share | None:
        return None if value is None else Share(value)

    grid, gains, cosine = a.grid, a.gains, a.cosine
    values: dict[str, float | int | None] = {
        "classes": a.space.num_classes,
        "dimensions": a.space.dim,
        "rows fitted": a.space.fitting,
        "rows held out": a.space.held_out,
    }
    for name in ("native", *EDITED, "cosine"):
        point = None if grid is None else grid.point(name, 0.0)
        values[f"accuracy, {rule_name(name, 0.0)}"] = share(point and point.accuracy)
    native = None if grid is None else grid.point("native")
    for group in GROUPS:
        groups = {} if native is None else native.groups or {}
        values[f"accuracy, {NAMES['native']}, {group} classes"] = share(groups.get(group))
    after = a.advice and a.advice.row(a.advice.advised).after
    values["calibration error, advised rule, calibrated"] = share(after and after.ece)
    values["log-loss, advised rule, calibrated"] = after and after.nll
    values["mean gain"] = gains and gains.mean
    values["spread of gains"] = share(gains and gains.spread)
    values["spread of gains without the bias of few rows"] = share(gains and gains.corrected_spread)
    values["agreement with cosine"] = share(cosine and cosine.agreement)
    values["certified agreement with cosine"] = share(cosine and cosine.coverage)
    drift = None if a.intercepts is None else a.intercepts.largest.get("temperature")
    values["largest drift of an intercept"] = drift
    return list(values), list(values.values())


def _answer(v: Verdict) -> str:
    a, b = map(percent, v.accuracy)
    rows = f"the same {counted(v.rows[0], 'held-out row', 'held-out rows')}"
    if not v.same_rows:
        rows = f"{v.rows[0]:,} and {v.rows[1]:,} held-out rows, which are not known to be the same"
    gain = f"B - A is {points(v.gain)} points [{points(v.low)}, {points(v.high)}], {p_value(v.p)}"
    if v.same_rows and v.low == v.high:
        gain = "both are correct on the same rows"
    best = v.better or "neither is shown to be"
    return f"{best}: {a} accuracy in A and {b} in B on {rows}; {gain}"


def _advice(a: Analysis) -> str:
    if a.advice is not None:
        row = a.advice.row(a.advice.advised)
        policy = recommended(a)
        return f"{rule_name(policy.realization, policy.beta)}, {percent(row.accuracy)} accurate"
    return "no advice"


def _gains(pair: Pair) -> Chart | None:
    a, b = pair[0].gains, pair[1].gains
    if a is None or b is None:
        return None
    return Chart(
        "gains",
        "Gains of the classes",
        f"{int((b.gain > a.gain).sum())} of {number(len(a.gain))} gains are higher in B. Their "
        f"spread is {percent(a.spread)} in A and {percent(b.spread)} in B, and without the bias of "
        f"few rows {percent(a.corrected_spread)} and {percent(b.corrected_spread)}.",
        "fig:gain-discovery",
        Axis("gain g in A"),
        Axis("gain g in B"),
        (Points(a.gain, b.gain, kind="class", group=a.group),),
        diagonal=True,
    )


def _calibration(pair: Pair) -> Chart | None:
    named, errors = {}, []
    for name, a, colour in zip(SIDES, pair, explorer_figures.SIDE_COLOURS, strict=True):
        if a.advice is None or (after := a.advice.row(a.advice.advised).after).reliability is None:
            return None
        named[name] = after.reliability, colour
        errors.append(f"{percent(after.ece)} in {name}")
    sentence = f"The calibrated advised rule has a calibration error of {' and '.join(errors)}."
    return decision_figures.reliability(sentence, named)
