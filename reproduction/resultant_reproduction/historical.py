"""The historical power-temperature family: classifiers, gains and gradients, common readouts
(sec:historical-power-temperature)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from resultant.report import style
from resultant.training.config import TrainConfig
from resultant.training.records import Record
from resultant_reproduction.artefact import Artefact, Cell, Change, Outcome, Value, printed, rows
from resultant_reproduction.courses import Course, seeds_of, unprinted
from resultant_reproduction.evidence import Evidence
from resultant_reproduction.figures import bars
from resultant_reproduction.plan import official, wanted
from resultant_reproduction.records import paired, path_of
from resultant_reproduction.special_figures import draw_training_gain
from resultant_reproduction.summarize import SPACES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADS = """
ProCo | 87.57 | 85.39 | 55.78 | 51.34
Reduced gain disparity | 87.72 | 85.10 | 56.62 | 51.72
Increased gain disparity | 87.56 | 85.14 | 55.99 | 52.05
"""

SETTINGS = (("cifar10", 50), ("cifar10", 100), ("cifar100", 50), ("cifar100", 100))
COLUMNS = ("CIFAR-10 / 50", "CIFAR-10 / 100", "CIFAR-100 / 50", "CIFAR-100 / 100")
# Realization and beta of the power family.
POLICIES = {
    "ProCo": ("native", 0.0),
    "Reduced gain disparity": ("temperature", 0.5),
    "Increased gain disparity": ("temperature", 1.5),
}
# Dash and colour.
LOOKS = {
    "ProCo": ("-", style.BLACK),
    "Reduced gain disparity": ("--", style.BLUE),
    "Increased gain disparity": (":", style.ORANGE),
}
# The interventions by their names in records.
STRENGTHS = {"reduced": "Reduced gain disparity", "increased": "Increased gain disparity"}
INTERVENTIONS = tuple(STRENGTHS.values())
# What is printed of the last epoch: label, what, its name in records, and the numbers policy by
# policy. The gains are of CIFAR-100 IF 100, and the errors, of which no setting is named, are taken
# to be.
ENDS = (
    (
        *("sec:historical-power-temperature", "sd of applied gain", "applied_gain_sd"),
        ("0.630", "0.349", "0.948"),
    ),
    (
        *("sec:historical-power-temperature", "sd of native gain", "gain_sd"),
        ("0.630", "0.684", "0.648"),
    ),
    (
        *("sec:historical-gradient", "leading gradient error (%)", "gradient_error"),
        ("4.87", "5.34", "4.57"),
    ),
)


# sec:historical-gradient does not say whether its relative errors of gradients are of those of all
# queries stacked or means over queries; of increments it says "mean relative error". What these are
# called, and begin with in records.
MEASURES = {"stacked": "", "mean over queries": "mean_"}


def measures(key: str) -> dict[str, str]:
    """Under which names records have a number, by the ways to measure it: of an error both, of
    others one, which needs no name."""
    error = key.endswith("_error")
    return {name: f"{begin}{key}" for name, begin in MEASURES.items()} if error else {"": key}


def planned(policy: str) -> int:
    """How many seeds of a policy the plans have; as many in every setting."""
    return wanted(shown(), *POLICIES[policy])


def shown() -> TrainConfig:
    """The setting of fig:common-readouts and of the printed gains, taken to be that of
    fig:training-gain and the printed errors."""
    return official(*SETTINGS[-1], family="power")


def settings() -> dict[str, TrainConfig]:
    """By name, the one that is `shown` first."""
    found = {
        column: official(*setting, family="power")
        for column, setting in zip(COLUMNS, SETTINGS, strict=True)
    }
    return dict(reversed(found.items()))


def heads(evidence: Evidence) -> Outcome:
    """tab:historical-power-temperature: the classifiers of three-view joint training, and the
    interventions against ProCo as changes to be tested."""
    cells, changes, best = [], [], []
    native: dict[str, tuple[float, dict[int, float]]] = {}
    for policy, *texts in rows(HEADS):
        for column, setting, text in zip(COLUMNS, SETTINGS, texts, strict=True):
            config, paper = official(*setting, family="power"), printed(text)
            assert paper is not None
            found = evidence.records.values(config, *POLICIES[policy], "last.accuracy")
            seeds = wanted(config, *POLICIES[policy])
            ours = Value.of(list(found.values()))
            cells.append(Cell(policy, column, paper, ours, wanted=seeds))
            before, own = native.setdefault(column, (paper.value.mean, found))
            if policy != "ProCo" and (differences := paired(found, own)):
                delta = round(paper.value.mean - before, 2)
                changes.append(Change(column, f"{policy} - ProCo", delta, differences))
            top = evidence.records.value(config, *POLICIES[policy], "last.best_accuracy")
            if top is not None:
                best.append(f"{policy}, {column}: {top.said(2)} [{top.n}]")
    notes = [
        "Final epoch, as sec:historical-classification says of the printed numbers, which have no "
        "spread and are taken to be single runs."
    ]
    if best:
        notes.append(f"Best epoch on the test set: {'; '.join(best)}.")
    return Outcome(cells, changes, notes=notes)


def increment_errors(
    records: Mapping[int, Record], key: str = "increment_error"
) -> dict[str, Course]:
    """Errors of leading gradient increments over the epochs, by strength; ``key`` is their name in
    records, one of `measures`."""
    found = {s: Course.of(records, f"{key}.{s}") for s in STRENGTHS}
    return {s: course for s, course in found.items() if course is not None}


def increment_plane(records: Mapping[int, Record]) -> tuple[int, int, dict[str, Any]] | None:
    """Projected increments of the first seed that has some: seed, its last epoch, and these."""
    for seed, record in records.items():
        told = record.get("trajectory", {})
        rows = zip(told.get("epoch", ()), told.get("increment_plane", ()), strict=False)
        if known := [(seed, *row) for row in rows if row[1] is not None]:
            return max(known, key=lambda row: row[1])
    return None


def training_gain(evidence: Evidence) -> Outcome:
    """fig:training-gain: gain dispersion, the error of leading gradient increments, and these on a
    plane, CIFAR-100 IF 100; in the table the other settings too."""
    config = shown()
    known = {name: evidence.records.seeds(config, *policy) for name, policy in POLICIES.items()}
    applied, native = (
        {name: c for name, own in known.items() if (c := Course.of(own, key))}
        for key in ("applied_gain_sd", "gain_sd")
    )
    errors = {name: found for name, own in known.items() if (found := increment_errors(own))}
    planes = {name: plane for name, own in known.items() if (plane := increment_plane(own))}

    def draw() -> Figure:
        named = {
            state: {STRENGTHS[strength]: course for strength, course in own.items()}
            for state, own in errors.items()
        }
        plane, plane_of = None, ""
        for state, (seed, epoch, ends) in list(planes.items())[:1]:
            plane = {name: ends[strength] for strength, name in STRENGTHS.items()}
            plane_of = f"{state}, seed {seed}, epoch {epoch}"
        return draw_training_gain(applied, native, named, plane, plane_of, LOOKS)

    followed = {n for n, e in errors.items() if any(len(c.values) > 1 for c in e.values())}
    parts = {
        f"{what}, {name}": name in there
        for what, there in (("gain dispersion", applied), ("increment errors", followed))
        for name in POLICIES
    }
    parts["projected increments"] = bool(planes)
    notes = [
        f"In the table, numbers of epoch {config.epochs}; drawn is CIFAR-100 / 100. The paper "
        "names that setting for its gains, and none for the errors and the figure, which are taken "
        "to be of it too. Errors are of the gradients of all queries stacked, as drawn, or means "
        "over queries: of gradients the paper does not say which, of increments it says mean; the "
        "older records have the first alone. (b) Colours are of the intervention, line styles of "
        "the state. (c) Tangent gradients of all queries "
        "are stacked to a vector; the paper does not say which plane it takes, ours is the one "
        "through zero that is nearest to the exact and leading increments "
        "of both interventions at the state that is named."
    ]
    if applied:
        seeds = seeds_of({name: applied.get(name) for name in POLICIES})
        notes.append(
            f"(a), (b) Lines: {seeds}; of several seeds their mean, shaded from the least to the "
            "largest."
        )
    for state, (seed, epoch, plane) in list(planes.items())[:1]:
        notes.append(
            f"(c) One network, {state} of seed {seed} at epoch {epoch}: "
            f"{100 * plane['share']:.2f} % of their squared lengths are in the plane."
        )
    there = bool(applied or errors or planes)
    drawings: dict[str, Callable[[], Figure]] = {"training-gain": draw} if there else {}
    return Outcome(_ends(evidence), drawings=drawings, parts=parts, notes=notes)


def _ends(evidence: Evidence) -> list[Cell]:
    """The last epoch in every setting, beside what is printed of the one that is `shown`."""
    cells = []
    for place, config in settings().items():
        for i, (name, policy) in enumerate(POLICIES.items()):
            row, known = f"{place}, {name}", evidence.records.seeds(config, *policy)
            for _, what, number, texts in ENDS:
                paper = printed(texts[i])
                assert paper is not None
                for measure, key in measures(number).items():
                    ours = evidence.records.value(config, *policy, f"last.{key}", 1.0)
                    column, seeds = _measured(what, measure, planned(name))
                    cell = unprinted(row, column, ours, paper.digits, seeds)
                    cells.append(replace(cell, paper=paper) if config == shown() else cell)
            for measure, key in measures("increment_error").items():
                found = increment_errors(known, key)
                for strength in STRENGTHS:
                    ours = found[strength].at(config.epochs) if strength in found else None
                    what = f"error of the {strength} increment (%)"
                    column, seeds = _measured(what, measure, planned(name))
                    cells.append(unprinted(row, column, ours, 2, seeds))
    return cells


def _measured(what: str, measure: str, seeds: int) -> tuple[str, int]:
    """The column of a number by one measure, and how many seeds are planned. The second measure of
    errors is of those records that have it, and no plan asks for it again."""
    return (f"{what}, {measure}", 0) if measure == list(MEASURES)[1] else (what, seeds)


def common_readouts(evidence: Evidence) -> Outcome:
    """fig:common-readouts: linear probes of the historical models against those of ProCo, CIFAR-100
    IF 100; in the table the other settings too."""
    cells, changes = [], []
    for (place, config), pool, space in product(
        settings().items(), ("long_tail", "balanced"), SPACES
    ):
        path, at = path_of(space, pool), f"{pool.replace('_', '-')} {space}"
        found = {n: evidence.records.values(config, *p, path) for n, p in POLICIES.items()}
        for name, own in found.items():
            ours = Value.of(list(own.values()))
            cells.append(unprinted(f"{place}, {name}", at, ours, 2, planned(name)))
        for name in INTERVENTIONS if config == shown() else ():
            differences = paired(found[name], found["ProCo"])
            changes.append(Change(at, f"{name} - ProCo", None, differences))
    tested = [change for change in changes if change.differences]
    drawings: dict[str, Callable[[], Figure]] = {}
    notes = [
        "The paper does not say which images the probes are fitted on: ours are of both pools, "
        "of the last epoch, in percent. Its figure is of CIFAR-100 / 100, and so are our changes; "
        "the other settings are in the table alone."
    ]
    if tested:
        drawings["readouts"] = lambda: _draw_readouts(changes)
        notes.append(
            "Bars are means over the seeds that both kinds have, lines their standard deviation, "
            "points the seeds."
        )
    parts = {f"{change.what}, {change.row}": bool(change.differences) for change in changes}
    return Outcome(cells, tested, drawings, parts, notes)


def _draw_readouts(changes: Sequence[Change]) -> Figure:
    """Changes from ProCo; a dash where there is none."""
    groups = {
        name: {c.row: c.differences for c in changes if c.what == f"{name} - ProCo"}
        for name in INTERVENTIONS
    }
    colours = {name: colour for name, (_, colour) in LOOKS.items()}
    return bars(groups, colours, "points from ProCo")


ARTEFACTS = (
    Artefact(
        "historical-power-temperature",
        "tab:historical-power-temperature",
        "Power-temperature intervention, classifier accuracy",
        heads,
        ("power", "official"),
    ),
    Artefact(
        "training-gain",
        "fig:training-gain",
        "Angular gain and local gradients during training, CIFAR-100 IF 100",
        training_gain,
        ("power",),
    ),
    Artefact(
        "common-readouts",
        "fig:common-readouts",
        "Changes in common linear readouts, CIFAR-100 IF 100",
        common_readouts,
        ("power",),
    ),
)
