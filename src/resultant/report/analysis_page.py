"""What the page of an analysis says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from resultant.analysis import Analysis
from resultant.report import decision_figures, theory_figures
from resultant.report.figures import Drawing
from resultant.report.page import Page, Section
from resultant.report.summary import foremost, summary
from resultant.report.tables import tables
from resultant.report.words import ONE_SIZE, counted, listed, shown


def analysis_page(
    analyses: Mapping[str, Analysis],
    where: str,
    names: Sequence[str],
    notes: Sequence[str],
    about: Mapping[str, Any],
) -> Page:
    """The page of one or more feature spaces of a store; ``names`` [C] of the classes.

    ``about`` (versions, metadata) goes into results.json and, what is short, below the page.
    """
    first = foremost(analyses)
    ordered = sorted(analyses, key=lambda name: name != first)
    return Page(
        title=f"{where}: angular gain of {analyses[first].space.num_classes:,} classes",
        facts=summary(analyses, where, names),
        sections=[
            Section(slug, name, _text(a), drawings(a, names), tables(a, names))
            for slug, name in zip(slugs(ordered), ordered, strict=True)
            for a in (analyses[name],)
        ],
        notes=[*notes, *(n for name in ordered for n in _notes(name, analyses[name], names))],
        footer=footer(about),
        results={
            **about,
            "summary": dict(summary(analyses, where, names)),
            "recommended": first,
            "notes": list(notes),
            "class_names": list(names),
            "features": {name: analyses[name].to_dict() for name in ordered},
        },
    )


def drawings(a: Analysis, names: Sequence[str]) -> list[Drawing]:
    """Return the figures of the questions that were answered; ``names`` [C] of the classes."""
    figures = [
        decision_figures.gains(a),
        decision_figures.accuracy(a),
        decision_figures.groups(a),
        decision_figures.classes(a),
        decision_figures.calibration(a),
        decision_figures.prior(a),
        theory_figures.cosine(a),
        theory_figures.certificate(a),
        theory_figures.boundaries(a),
        theory_figures.margins(a),
        theory_figures.typical(a),
        theory_figures.intercepts(a, names),
        theory_figures.support(a),
        theory_figures.self_inclusion(a),
        theory_figures.fit(a),
    ]
    return [figure for figure in figures if figure is not None]


def slugs(names: Sequence[str]) -> list[str]:
    """Names fit for files and anchors, each its own."""
    found: list[str] = []
    for name in names:
        slug = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower() or "features"
        found.append(slug if slug not in found else f"{slug}-{len(found)}")
    return found


def footer(about: Mapping[str, Any]) -> str:
    versions: Mapping[str, str] = about.get("versions", {})
    said = ", ".join(f"{name} {version}" for name, version in versions.items())
    return said and f"{said}."


def _text(a: Analysis) -> str:
    s = a.space
    groups = ", ".join(f"{n} {name}" for name, n in s.groups.items()) or ONE_SIZE
    text = f"{s.dim} dimensions, temperature {s.tau:g}, concentrations by {s.estimator}; {groups}."
    return text if a.recommendation is None else f"{a.recommendation.reason} {text}"


def _notes(name: str, a: Analysis, names: Sequence[str]) -> list[str]:
    found = [f"{name}: {question} is left out, {why}" for question, why in (a.notes or {}).items()]
    if a.gains is not None and a.gains.capped:
        number = counted(len(a.gains.capped), "class", "classes")
        which = listed(shown(names[c]) for c in a.gains.capped)
        found.append(f"{name}: the concentration of {number} is at the cap: {which}.")
    return found
