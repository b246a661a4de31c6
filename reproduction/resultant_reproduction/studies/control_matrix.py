"""The CIFAR-10 control matrix: seven tables, three maps of changes and a trajectory
(sec:cifar10-controls)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from statistics import fmean
from typing import TYPE_CHECKING

from resultant.report import style
from resultant_reproduction.cells import cells as spec
from resultant_reproduction.cells.charts import Chart, course, draw_charts, heat_maps
from resultant_reproduction.cells.statistics import Value
from resultant_reproduction.cells.text import span
from resultant_reproduction.recipes.config import PaperConfig
from resultant_reproduction.runs.evidence import Evidence
from resultant_reproduction.runs.plans import RULES, controlled, planned_seeds
from resultant_reproduction.runs.records import Course, probe_path, seeds_of
from resultant_reproduction.studies.collapse import symlog
from resultant_reproduction.studies.tables import Entry, compare

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLES = tuple(name for name in spec.load("printed/tables") if name.startswith("c10-"))
UNIFORM = tuple(name for name in TABLES if name.endswith("u"))
FREQUENCY = tuple(name for name in TABLES if name.endswith("f"))

OBJECTIVES = ("contrastive", "joint")
PROBED = {"E": probe_path("encoder", "balanced"), "P": probe_path("projection", "balanced")}
COLUMNS = (
    *((objective, *column) for objective, column in product(OBJECTIVES, PROBED.items())),
    ("joint", "FC", "last.accuracy"),
)
POLICIES = {
    "native": ("native", 0.0),
    **{f"{name} {beta:g}": (name, beta) for name in RULES[1:] for beta in (0.0, 0.5)},
}

COLOURS = dict(zip(RULES, (style.GREY, style.ORANGE, style.GREEN, style.BLUE), strict=True))


def control_config(name: str, objective: str) -> PaperConfig:
    """Training configuration of a table: ``c10-if50-u`` is IF 50 with a uniform prior."""
    _, imbalance, prior = name.split("-")
    gamma = 0.0 if prior == "u" else 1.0
    return controlled("cifar10", float(imbalance[2:]), objective=objective, prior=gamma)


def printed_realizations(name: str) -> dict[str, str]:
    """Realizations by their titles in a table, which prints them in order."""
    titles = dict.fromkeys(title for title, *_ in spec.printed_rows(name))
    return dict(zip(titles, RULES, strict=True))


def compare_controls(name: str, evidence: Evidence) -> tuple[list[spec.Cell], list[spec.Change]]:
    """Cells of a table, and every policy less ProCo."""
    entries, realizations = [], printed_realizations(name)
    for title, beta, *texts in spec.printed_rows(name):
        realization = realizations[title]
        row = title if realization == "native" else f"{title} {beta}"
        for (objective, column, path), text in zip(COLUMNS, texts, strict=True):
            kind = (control_config(name, objective), realization, float(beta))
            entries.append(Entry(row, f"{objective} {column}", text, kind, path))
    return compare(evidence.records, entries)


def control_table(name: str, evidence: Evidence) -> spec.Outcome:
    """One of the seven tables."""
    cells, changes = compare_controls(name, evidence)
    later = any(c.ours and c.ours.n > c.planned for c in cells)
    tested = [change for change in changes if change.differences]
    return spec.Outcome(cells, tested, notes=[spec.say("later-seeds")] if later else [])


MAPS = {
    "c10-pure-complete": (TABLES, "contrastive"),
    "c10-joint-uniform-complete": (UNIFORM, "joint"),
    "c10-joint-actual-complete": (FREQUENCY, "joint"),
}


def change_map(figure: str, evidence: Evidence) -> spec.Outcome:
    """Changes from ProCo in several tables, ours over paired seeds."""
    cells: list[spec.Cell] = []
    names, objective = MAPS[figure]
    for name in names:
        values, changes = compare_controls(name, evidence)
        planned = {(cell.row, cell.column): cell.planned for cell in values}
        for change in changes:
            kind, _, column = change.what.partition(" ")
            if kind == objective:
                seeds = min(planned[row, change.what] for row in (change.row, "ProCo"))
                row, paper = f"{name[4:].upper()} {column}", spec.parse_cell(f"{change.paper:+.2f}")
                cells.append(spec.Cell(row, change.row, paper, change.ours, planned=seeds))
    headline, notes = _map_headline(cells, objective), _sign_counts(cells)
    return spec.Outcome(cells, (), lambda: _draw_map(cells), notes=notes, headline=headline)


def _map_headline(cells: Sequence[spec.Cell], objective: str) -> str:
    parts = []
    for prior, mark in (("a uniform", "-U "), ("the frequency", "-F ")):
        own = (c for c in cells if mark in c.row)
        known = [(c.ours.mean, c.paper.value.mean) for c in own if c.ours and c.paper]
        if known:
            ours, theirs = (
                f"{sum(v < 0 for v in own)} of {len(own)} below ProCo, mean {fmean(own):+.2f}"
                for own in zip(*known, strict=True)
            )
            parts.append(f"under {prior} prior {ours} (printed {theirs})")
    if not parts:
        return ""
    networks = f"n = {span([c.ours.n for c in cells if c.ours], 0)}"
    return spec.say("map-headline", objective=objective, parts="; ".join(parts), networks=networks)


def _sign_counts(cells: Sequence[spec.Cell]) -> list[str]:
    known = [(c.paper.value.mean, c.ours) for c in cells if c.paper and c.ours]
    if not known:
        return []
    pairs = [(paper, ours.mean) for paper, ours in known]
    signed = [pair for pair in pairs if pair[0]]
    same = sum(paper * ours > 0 for paper, ours in signed)
    theirs, means = (Value.of(list(own)) for own in zip(*pairs, strict=True))
    assert theirs is not None and means is not None
    none, seeds = len(known) - len(signed), [v.n for _, v in known]
    texts = {
        "seeds": f"{span(seeds, 0)} seed{'s' if max(seeds) > 1 else ''}",
        "left_out": f" ({none} printed as 0.00 left out)" if none else "",
        "ours": means.text(2, sign=True),
        "theirs": theirs.text(2, sign=True),
    }
    counts = {"known": len(known), "cells": len(cells), "same": same, "signed": len(signed)}
    return [spec.say("map-signs", **texts, **counts)]


def _draw_map(cells: Sequence[spec.Cell]) -> Figure:
    maps = {
        # The paper does not say how many networks its changes are of.
        "paper": {(c.row, c.column): c.paper and (c.paper.value.mean, 0) for c in cells},
        "ours": {(c.row, c.column): c.ours and (c.ours.mean, c.ours.n) for c in cells},
    }
    return heat_maps(maps, "percentage points from ProCo")


FOLLOWED = {"intercept_drift": "mean |intercept drift|", "gradient_error": "gradient error (%)"}


def trajectory(evidence: Evidence) -> spec.Outcome:
    """fig:c10-trajectory: intercept drift and leading-gradient error, IF 50, uniform prior."""
    cells, parts = [], {}
    lines: dict[str, dict[str, dict[str, Course]]] = {}
    for (name, policy), objective in product(POLICIES.items(), OBJECTIVES):
        config = control_config("c10-if50-u", objective)
        records = evidence.records.seeds(config, *policy)
        courses = {key: course for key in FOLLOWED if (course := Course.of(records, key))}
        parts[f"{objective}, {name}"] = len(courses) == len(FOLLOWED)
        if courses:
            lines.setdefault(objective, {})[name] = courses
        for key, title in FOLLOWED.items():
            ours = courses[key].at(config.epochs) if key in courses else None
            planned = planned_seeds(config, *policy)
            cells.append(spec.unprinted(name, f"{objective}, {title}", ours, 3, planned))
    notes = []
    for objective, own in lines.items():
        drifts = {name: own.get(name, {}).get("intercept_drift") for name in POLICIES}
        notes.append(f"{objective.capitalize()}: {seeds_of(drifts)}.")
    draw = (lambda: _draw_courses(lines)) if lines else None
    return spec.Outcome(cells, draw=draw, parts=parts, notes=notes)


def _draw_courses(lines: dict[str, dict[str, dict[str, Course]]]) -> Figure:
    looks = {
        name: ("--" if name.endswith("0.5") else "-", COLOURS[realization])
        for name, (realization, _) in POLICIES.items()
    }
    charts = []
    for (objective, courses), (key, ylabel) in product(lines.items(), FOLLOWED.items()):
        curves = [course(own[key].values, *looks[n], n) for n, own in courses.items() if key in own]
        paint = partial(symlog, linear=1e-3) if key == "intercept_drift" else None
        charts.append(Chart(curves, "epoch", ylabel, objective, paint=paint))
    return draw_charts(charts, columns=len(FOLLOWED), legend=4)
