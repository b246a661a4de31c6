"""The page that compares two sets of features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from resultant.analysis import Analysis
from resultant.classes.groups import GROUPS
from resultant.classes.rule import EDITED
from resultant.report import decision_figures, explorer_figures
from resultant.report.analysis_page import class_columns, footer, sampled, slugs, snippets
from resultant.report.charts import Axis, Chart, Points, kept
from resultant.report.comparison import SIDES, Verdict, advised_rule, answer, headline
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
    number,
    percent,
    points,
    rule_name,
)

# Questions of `resultant.analysis` that a comparison needs.
QUESTIONS = ("gains", "grid", "cosine", "intercepts")

Pair = tuple[Analysis, Analysis]


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
    # The side of the better class directions stands for both.
    nearest = {
        name: max(
            (side.analysis for side in pair), key=lambda a: a.advice.nearest if a.advice else 0.0
        )
        for name, pair in pairs.items()
    }
    first = foremost(nearest)
    best = pairs[first]
    facts = [
        ("better", answer(verdicts[first])),
        ("compared", f"A = {wheres[0]}, B = {wheres[1]}"),
    ]
    for name, pair in pairs.items():
        if name != first:
            facts.append((name, answer(verdicts[name])))
        for side in pair:
            facts.append((f"{name} {side.name}", advised_rule(side.analysis)))
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
        [*notes, *(f"{s.name}: {text}" for s in best if (text := sampled(s.analysis)))],
        footer(about.get("A", {})),
        results,
        headline=headline(first, verdicts[first], best),
        warnings=_warnings(verdicts[first], best),
        # The better side first, which is unfolded.
        snippets=[
            (f"{side.name}: {heading}", code)
            for side in sorted(best, key=lambda side: side.name != verdicts[first].better)
            for heading, code in snippets(side.analysis)
        ],
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
