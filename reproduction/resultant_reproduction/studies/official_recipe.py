"""The historical power-temperature family: classifiers, gains and gradients, common readouts
(sec:historical-power-temperature)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from resultant.report import style
from resultant_reproduction.cells import cells as spec, charts as figures
from resultant_reproduction.cells.charts import Chart, Curve, course
from resultant_reproduction.cells.statistics import Value
from resultant_reproduction.frozen.summarize import SPACES
from resultant_reproduction.recipes.records import Record
from resultant_reproduction.runs.evidence import CONDITIONS, Evidence
from resultant_reproduction.runs.plans import official, planned_seeds
from resultant_reproduction.runs.records import Course, paired, probe_path, seeds_of
from resultant_reproduction.studies.tables import Entry, compare

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = spec.load("printed/tables")["historical-power-temperature"]["columns"][1:]
# Realization and beta of the power family.
POLICIES = {
    "ProCo": ("native", 0.0),
    "Reduced gain disparity": ("temperature", 0.5),
    "Increased gain disparity": ("temperature", 1.5),
}
# Dash and colour, and interventions by their names in records.
DRAWN = ("-", figures.BLACK), ("--", style.BLUE), (":", style.ORANGE)
LOOKS = dict(zip(POLICIES, DRAWN, strict=True))
STRENGTHS = {"reduced": "Reduced gain disparity", "increased": "Increased gain disparity"}
# Settings of the family, and that of fig:common-readouts, taken to be that of fig:training-gain.
SETTINGS = {
    column: official(*CONDITIONS[column], family="power")  # type: ignore[misc]
    for column in reversed(COLUMNS)
}
SHOWN = next(iter(SETTINGS.values()))
# Planned seeds of a policy, the same in every setting.
PLANNED = {name: planned_seeds(SHOWN, *policy) for name, policy in POLICIES.items()}
# Numbers of the last epoch in records. The gains are of CIFAR-100 IF 100, and the errors, for which
# no setting is named, are taken to be. sec:historical-gradient does not say whether its relative
# errors of gradients stack all queries or are means over queries; of increments it says "mean
# relative error".
MEAN = ", mean over queries"
LAST = {
    "sd of applied gain": "applied_gain_sd",
    "sd of native gain": "gain_sd",
    "leading gradient error (%)": "gradient_error",
    f"leading gradient error (%){MEAN}": "mean_gradient_error",
}
INCREMENTS = {
    f"error of the {strength} increment (%){end}": (key, strength)
    for end, key in (("", "increment_error"), (MEAN, "mean_increment_error"))
    for strength in STRENGTHS
}


def printed_last(key: str) -> list[str]:
    """Printed numbers of the last epoch, one per policy."""
    return spec.load("printed/figures")["training-gain"]["last"][key.removeprefix("mean_")]


def heads(evidence: Evidence) -> spec.Outcome:
    """tab:historical-power-temperature: classifiers of three-view joint training."""
    best = []
    entries = [
        Entry(policy, column, text, (SETTINGS[column], *POLICIES[policy]), "last.accuracy")
        for policy, *texts in spec.printed_rows("historical-power-temperature")
        for column, text in zip(COLUMNS, texts, strict=True)
    ]
    cells, changes = compare(evidence.records, entries)
    changes = [replace(c, row=c.what, what=f"{c.row} - ProCo") for c in changes if c.differences]
    for entry in entries:
        top = evidence.records.value(*entry.kind, "last.best_accuracy")
        if top is not None:
            best.append(f"{entry.row}, {entry.column}: {top.text(2)} [{top.n}]")
    notes = [f"Best epoch on the test set: {'; '.join(best)}."] if best else []
    return spec.Outcome(cells, changes, notes=notes)


def increment_errors(
    records: Mapping[int, Record], key: str = "increment_error"
) -> dict[str, Course]:
    """Errors of leading increments over epochs, by strength, for a key of `measures`."""
    courses = {s: Course.of(records, f"{key}.{s}") for s in STRENGTHS}
    return {s: course for s, course in courses.items() if course is not None}


def increment_plane(records: Mapping[int, Record]) -> tuple[int, int, dict[str, Any]] | None:
    """Projected increments of the first seed that has any: seed, last epoch and increments."""
    for seed, record in records.items():
        trajectory = record.get("trajectory", {})
        rows = zip(trajectory.get("epoch", ()), trajectory.get("increment_plane", ()), strict=False)
        if planes := [(seed, *row) for row in rows if row[1] is not None]:
            return max(planes, key=lambda row: row[1])
    return None


def training_gain(evidence: Evidence) -> spec.Outcome:
    """fig:training-gain: dispersion of gains, increment errors, increments on a plane."""
    records = {name: evidence.records.seeds(SHOWN, *policy) for name, policy in POLICIES.items()}
    applied, native = (
        {name: c for name, own in records.items() if (c := Course.of(own, key))}
        for key in ("applied_gain_sd", "gain_sd")
    )
    errors = {name: courses for name, own in records.items() if (courses := increment_errors(own))}
    planes = {name: plane for name, own in records.items() if (plane := increment_plane(own))}
    first = dict(list(planes.items())[:1])

    followed = {n for n, e in errors.items() if any(len(c.values) > 1 for c in e.values())}
    parts = {
        f"{title}, {name}": name in available
        for title, available in (("gain dispersion", applied), ("increment errors", followed))
        for name in POLICIES
    }
    parts["projected increments"] = bool(planes)
    notes = []
    if applied:
        seeds = seeds_of({name: applied.get(name) for name in POLICIES})
        notes.append(spec.say("gain-courses", seeds=seeds))
    for state, (seed, epoch, plane) in first.items():
        about = {"state": state, "seed": seed, "epoch": epoch}
        notes.append(spec.say("increment-plane", **about, share=100 * plane["share"]))
    some = applied or errors or planes
    draw = (lambda: _draw_training_gain(applied, native, errors, first)) if some else None
    return spec.Outcome(_last_epoch(evidence), draw=draw, parts=parts, notes=notes)


def _last_epoch(evidence: Evidence) -> list[spec.Cell]:
    """Numbers of the last epoch in every setting, with the printed ones of `SHOWN`."""
    cells = []
    for (place, config), (i, name) in product(SETTINGS.items(), enumerate(POLICIES)):
        kind, numbers = (config, *POLICIES[name]), {}
        for title, key in LAST.items():
            ours = evidence.records.value(*kind, f"last.{key}", 1.0)
            numbers[title] = ours, spec.parse_cell(printed_last(key)[i])
        for title, (key, strength) in INCREMENTS.items():
            course = increment_errors(evidence.records.seeds(*kind), key).get(strength)
            numbers[title] = course and course.at(config.epochs), None
        for title, (ours, paper) in numbers.items():
            seeds, digits = PLANNED[name], paper.digits if paper else 2
            seeds = 0 if title.endswith(MEAN) else seeds
            cell = spec.unprinted(f"{place}, {name}", title, ours, digits, seeds)
            cells.append(replace(cell, paper=paper) if config == SHOWN else cell)
    return cells


def common_readouts(evidence: Evidence) -> spec.Outcome:
    """fig:common-readouts: linear probes of the interventions and of ProCo."""
    cells, changes = [], []
    pools = ("long_tail", "balanced")
    for (place, config), pool, space in product(SETTINGS.items(), pools, SPACES):
        path, readout = probe_path(space, pool), f"{pool.replace('_', '-')} {space}"
        values = {n: evidence.records.values(config, *p, path) for n, p in POLICIES.items()}
        for name, own in values.items():
            ours = Value.of(list(own.values()))
            cells.append(spec.unprinted(f"{place}, {name}", readout, ours, 2, PLANNED[name]))
        for name in STRENGTHS.values() if config == SHOWN else ():
            differences = paired(values[name], values["ProCo"])
            changes.append(spec.Change(readout, f"{name} - ProCo", None, differences))
    tested = [change for change in changes if change.differences]
    parts = {f"{change.what}, {change.row}": bool(change.differences) for change in changes}
    panels = {
        name: {c.row: (c.interval, None) for c in changes if c.what == f"{name} - ProCo"}
        for name in STRENGTHS.values()
    }
    draw = (lambda: figures.intervals(panels, "points from ProCo")) if tested else None
    return spec.Outcome(cells, tested, draw, parts)


def _draw_training_gain(
    applied: Mapping[str, Course],
    native: Mapping[str, Course],
    errors: Mapping[str, Mapping[str, Course]],
    plane: Mapping[str, tuple[int, int, dict[str, Any]]],
) -> Figure:
    """Draw gains and increment errors over epochs, and the plane of one network."""
    printed = {key: [*map(float, printed_last(key))] for key in ("gain_sd", "applied_gain_sd")}
    last = max((e for c in applied.values() for e in c.values), default=0)
    gains = [course(own.values, "-", LOOKS[name][1], name) for name, own in applied.items()]
    gains += [course(own.values, ":", LOOKS[name][1]) for name, own in native.items()]
    labels = ("paper, native gain", figures.HOLLOW), ("paper, last epoch", {})
    for key, (label, face) in zip(printed, labels, strict=True):
        gains.append(Curve(look="D", label=label, color=style.GREY, more=face))
        for (_, colour), value in zip(LOOKS.values(), printed[key], strict=True):
            gains.append(Curve([last], [value], "D", color=colour, more={**face, "zorder": 5}))
    # Dashes are states, and colours interventions.
    increments = [Curve(look=LOOKS[s][0], label=f"state: {s}", color=style.GREY) for s in errors]
    increments += [
        course(own.values, LOOKS[state][0], LOOKS[STRENGTHS[strength]][1])
        for state, courses in errors.items()
        for strength, own in courses.items()
    ]
    ends, wide = [*map(float, printed_last("increment_error"))], {"lw": 5, "alpha": 0.6}
    increments.append(Curve([last, last], ends, "-", "paper, last epoch", style.GREY, more=wide))
    arrows: list[Curve] = []
    # Leading increments almost hide the exact ones. Axes of one scale would put both on one line.
    large = {"lw": 2.2, "ms": 8, "mfc": "none", "zorder": 3}
    kinds: dict[str, Any] = {"exact": ("o-", {}), "leading": ("o--", large)}
    for (_, _, own), (kind, (look, more)) in product(plane.values(), kinds.items()):
        arrows.append(Curve(look=look, label=kind, color=style.GREY, more=more))
        for strength, name in STRENGTHS.items():
            x, y = own[strength][kind]
            more = {**more, "markevery": [1]}
            arrows.append(Curve((0, x), (0, y), look, color=LOOKS[name][1], more=more))
    drawn_of = [f"first axis; {name}, seed {s}, epoch {e}" for name, (s, e, _) in plane.items()]
    none = ["" if present else "no record" for present in (applied, errors, plane)]
    charts = [
        Chart(gains, "epoch", "sd of gain (dotted: native)", none[0]),
        Chart(increments, "epoch", "leading increment error (%)", none[1]),
        Chart(arrows, "".join(drawn_of), "second axis (other scale)", none[2]),
    ]
    return figures.draw_charts(charts, width=3.2, height=3.6, legend=1, under=True)
