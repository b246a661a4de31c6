"""The page of an analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from resultant._core.text import counted, file_name, listed, shown
from resultant.analysis import Analysis
from resultant.analysis.fits import FITS
from resultant.classes.groups import GROUPS
from resultant.report import decision_figures, explorer_figures, theory_figures
from resultant.report.charts import Chart, kept
from resultant.report.explorer import Side, choice_of, rows_of
from resultant.report.page import Page, Section
from resultant.report.plots import ClassColumns
from resultant.report.summary import foremost, headline, reason_of_features, summary
from resultant.report.table import Table
from resultant.report.tables import (
    cosine_tables,
    decision_tables,
    fit_tables,
    gain_tables,
    pair_tables,
    rules,
)
from resultant.report.words import ONE_SIZE

# Titles of questions that features may leave unanswered.
TITLES = {
    "advice": "Rules and references",
    "gradients": "Pure Angular and cosine",
    "support": "Rows that a class needs",
    "self_inclusion": "Self-inclusion",
    "fit": "Fit of the vMF distribution",
    "fits": "Other fits of the classes",
}


def analysis_page(
    analyses: Mapping[str, Analysis],
    where: str,
    names: Sequence[str],
    notes: Sequence[str],
    about: Mapping[str, Any],
    sides: Mapping[str, Side] | None = None,
) -> Page:
    """Return the page about the features of a store.

    Args:
        analyses: Analyses by the names of their features.
        where: Name of the source.
        names: Names of the classes [C].
        notes: Sentences about the preparation of the features.
        about: Source, metadata and versions for results.json; the footer shows the versions.
        sides: Numbers of sliders and arcs, by the names of features that have them.
    """
    first, sides = foremost(analyses), sides or {}
    ordered = sorted(analyses, key=lambda name: name != first)
    sections = []
    for slug, name in zip(slugs(ordered), ordered, strict=True):
        a = analyses[name]
        side = sides.get(name, Side(a))
        title = f"{name}: " if name != first else ""
        sections += _sections(slug, title, side, names, unfolded=name == first)
    if len(analyses) > 1 and sections:
        why = reason_of_features(analyses, first)
        lead = f"{why[0].upper()}{why[1:]}. {sections[0].text}"
        sections[0] = replace(sections[0], text=lead)
    advice, s = analyses[first].advice, analyses[first].space
    return Page(
        title=f"{where}: {s.num_classes:,} classes, {s.fitting:,} training and {s.held_out:,} "
        "held-out rows",
        facts=summary(analyses, where, names),
        sections=sections,
        notes=[*notes, *(n for name in ordered for n in _notes(name, analyses[name], names))],
        footer=footer(about),
        headline=headline(analyses[first]),
        warnings=[] if advice is None else [w.text for w in advice.warnings],
        snippets=snippets(analyses[first]),
        results={
            **about,
            "summary": dict(summary(analyses, where, names)),
            "recommended": first,
            "notes": list(notes),
            "class_names": list(names),
            "features": {name: analyses[name].to_dict() for name in ordered},
        },
    )


def snippets(a: Analysis) -> list[tuple[str, str]]:
    """Return Python that fits the advised rule, and a better reference, each with a heading."""
    if (advice := a.advice) is None:
        return []
    both = (
        (f"Use {advice.row(advice.advised).name}", advice.snippet),
        (f"Use {advice.row(advice.best).name}", advice.reference_snippet),
    )
    return [(heading, code) for heading, code in both if code]


def _sections(
    slug: str, title: str, side: Side, names: Sequence[str], *, unfolded: bool
) -> list[Section]:
    a, classes = side.analysis, class_columns(side.analysis, names)

    def section(
        name: str,
        heading: str,
        text: str,
        drawings: Sequence[Chart | None] = (),
        tables: Sequence[Table] = (),
        *,
        open: bool = False,
        **more: Any,
    ) -> Section | None:
        figures, omitted = kept(drawings)
        if not figures and not tables and not omitted:
            return None
        return Section(
            f"{slug}-{name}",
            f"{title}{heading}",
            "\n".join([text, *omitted]),
            figures,
            tables,
            open=open and unfolded,
            group=slug,
            classes=classes,
            **more,
        )

    table = rules(a)
    moves = a.grid is not None
    sections = [
        section("rules", "Rules and references", _text(a), (), [table] if table else (), open=True),
        section(
            "explore",
            "Move the sliders",
            "Change the rule and its settings, and see what happens to this file. Click a class in "
            "any figure, or type its name, to follow it through all figures. " + rows_of([side])
            if moves
            else "",
            explorer_figures.charts([side]) if moves else (),
            open=True,
            sides=[side] if moves else (),
        ),
        section(
            "gains",
            "Gains of the classes",
            "A class that gathers tightly around its direction has a steep score: a high gain.",
            (decision_figures.gains(a), theory_figures.intercepts(a, names)),
            gain_tables(a, names),
            open=True,
        ),
        section(
            "pairs",
            "Between two classes",
            "An edit of the gains moves the boundaries between classes. Choose two classes and see "
            "their scores on the arc from one to the other; the sliders above apply here too."
            + choice_of(side),
            (
                *(explorer_figures.arc_charts(side) if side.arcs is not None else ()),
                *(theory_figures.boundaries(a), theory_figures.typical(a)),
            ),
            pair_tables(a, names),
            arcs=side.arcs is not None,
        ),
        section(
            "cosine",
            "Cosine rule and certificates",
            "With equal gains the exact score is nearly the cosine rule; certificates say for "
            "which rows the two must agree.",
            (theory_figures.cosine(a), theory_figures.certificate(a), theory_figures.margins(a)),
            cosine_tables(a),
        ),
        section(
            "fit",
            "Calibration, fit and few rows",
            "Confidence against accuracy, the fit of the distribution, and the effect of the "
            "number of rows.",
            (
                *(decision_figures.calibration(a), theory_figures.fit(a)),
                *(theory_figures.support(a), theory_figures.self_inclusion(a)),
            ),
            fit_tables(a),
        ),
        section("numbers", "All realizations", "", (), decision_tables(a, names)),
    ]
    return [s for s in sections if s is not None]


def class_columns(a: Analysis, names: Sequence[str]) -> ClassColumns:
    """Return the numbers that figures show for a class; the page fills those of the sliders."""
    columns: dict[str, Sequence[Any]] = {}
    if (g := a.gains) is not None:
        columns["training rows"] = g.count.tolist()
        if g.group is not None:
            columns["group"] = [GROUPS[i] for i in g.group.tolist()]
        columns["gain"] = g.gain.tolist()
    if a.grid is not None:
        columns["held-out rows"] = a.grid.queries.tolist()
        # The sliders fill these; as text, since Bokeh would write NaN.
        for heading in ("Native (%)", "this rule (%)", "change (points)"):
            columns[heading] = ["–"] * len(names)
    return ClassColumns(names, columns)


def slugs(names: Sequence[str]) -> list[str]:
    """Return unique names for files and anchors.

    Example:
        >>> slugs(["a/b", "A b"])
        ['a-b', 'a-b-1']
    """
    unique: list[str] = []
    for name in names:
        slug = file_name(name)
        unique.append(slug if slug not in unique else f"{slug}-{len(unique)}")
    return unique


def footer(about: Mapping[str, Any]) -> str:
    versions: Mapping[str, str] = about.get("versions", {})
    text = ", ".join(f"{name} {version}" for name, version in versions.items())
    return text and f"{text}."


def _text(a: Analysis) -> str:
    s = a.space
    groups = ", ".join(f"{n} {name}" for name, n in s.groups.items() if n)
    groups = f"{groups} classes" if groups else ONE_SIZE
    fitted = FITS.get(s.estimator, s.estimator)
    return (
        f"{s.dim} dimensions, temperature {s.tau:g}, concentrations fitted by {fitted}; {groups}."
    )


def sampled(a: Analysis) -> str:
    """Return a sentence about a sample of the held-out rows, or ""."""
    if a.grid is None or (judged := int(a.grid.queries.sum())) == a.space.held_out:
        return ""
    rows = f"a random {judged:,} of the {a.space.held_out:,} held-out rows"
    return f"figures, and tables other than that of the rules, are of {rows}."


def _notes(name: str, a: Analysis, names: Sequence[str]) -> list[str]:
    notes = [
        f"{name}: “{TITLES.get(question, question)}” is left out: {why}."
        for question, why in (a.notes or {}).items()
    ]
    if sample := sampled(a):
        notes.append(f"{name}: {sample}")
    if a.gains is not None and a.gains.capped:
        number = counted(len(a.gains.capped), "class", "classes")
        classes = listed(shown(names[c]) for c in a.gains.capped)
        notes.append(f"{name}: the concentration of {number} is at its upper limit: {classes}.")
    return notes
