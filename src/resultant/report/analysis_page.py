"""The page of an analysis."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from resultant._core.text import counted, listed, shown
from resultant.analysis import Analysis
from resultant.report import decision_figures, theory_figures
from resultant.report.figures import Drawing
from resultant.report.page import Page, Section
from resultant.report.summary import foremost, summary
from resultant.report.tables import tables
from resultant.report.words import ONE_SIZE


def analysis_page(
    analyses: Mapping[str, Analysis],
    where: str,
    names: Sequence[str],
    notes: Sequence[str],
    about: Mapping[str, Any],
) -> Page:
    """Return the page about the features of a store.

    Args:
        analyses: Analyses by the names of their features.
        where: Name of the source.
        names: Names of the classes [C].
        notes: Sentences about the preparation of the features.
        about: Source, metadata and versions for results.json; the footer shows the versions.
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
    """Return unique names for files and anchors.

    Example:
        >>> slugs(["a/b", "A b"])
        ['a-b', 'a-b-1']
    """
    unique: list[str] = []
    for name in names:
        slug = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower() or "features"
        unique.append(slug if slug not in unique else f"{slug}-{len(unique)}")
    return unique


def footer(about: Mapping[str, Any]) -> str:
    versions: Mapping[str, str] = about.get("versions", {})
    text = ", ".join(f"{name} {version}" for name, version in versions.items())
    return text and f"{text}."


def _text(a: Analysis) -> str:
    s = a.space
    groups = ", ".join(f"{n} {name}" for name, n in s.groups.items()) or ONE_SIZE
    text = f"{s.dim} dimensions, temperature {s.tau:g}, estimator {s.estimator}; {groups}."
    return text if a.recommendation is None else f"{a.recommendation.reason} {text}"


def _notes(name: str, a: Analysis, names: Sequence[str]) -> list[str]:
    notes = [f"{name}: {question} is left out, {why}" for question, why in (a.notes or {}).items()]
    if a.gains is not None and a.gains.capped:
        number = counted(len(a.gains.capped), "class", "classes")
        classes = listed(shown(names[c]) for c in a.gains.capped)
        notes.append(f"{name}: the concentration of {number} is at its upper limit: {classes}.")
    return notes
