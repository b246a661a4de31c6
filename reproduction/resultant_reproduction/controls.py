"""The CIFAR-10 control matrix: seven tables, three maps of changes and a trajectory
(sec:cifar10-controls)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from resultant.report import style
from resultant.training.config import TrainConfig
from resultant_reproduction.artefact import (
    LATER,
    Artefact,
    Cell,
    Change,
    Outcome,
    Value,
    printed,
    rows,
)
from resultant_reproduction.courses import Course, seeds_of, unprinted
from resultant_reproduction.evidence import Evidence
from resultant_reproduction.figures import heat_maps, trajectories
from resultant_reproduction.plan import controlled, wanted
from resultant_reproduction.records import paired, path_of
from resultant_reproduction.rules import counted, span

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLES = {
    "c10-if1-u": """
ProCo | 1 | 92.15 | 92.91 | 92.95 | 93.04 | 92.81
Temperature | 0 | 92.09 | 93.13 | 92.77 | 92.60 | 92.54
Temperature | 0.5 | 92.32 | 92.95 | 92.40 | 92.32 | 92.38
Intercept-preserving | 0 | 92.46 | 93.01 | 93.01 | 93.04 | 92.85
Intercept-preserving | 0.5 | 92.59 | 93.19 | 92.84 | 92.89 | 92.55
Pure Angular | 0 | 92.13 | 93.05 | 93.06 | 93.12 | 92.87
Pure Angular | 0.5 | 92.62 | 93.11 | 92.60 | 92.38 | 92.27
""",
    "c10-if10-u": """
ProCo | 1 | 88.97 | 88.63 | 88.57 | 88.28 | 86.32
Temperature | 0 | 88.34 | 87.58 | 88.66 | 88.01 | 85.96
Temperature | 0.5 | 88.29 | 88.21 | 88.20 | 87.84 | 85.96
Intercept-preserving | 0 | 88.61 | 88.20 | 88.36 | 87.96 | 85.62
Intercept-preserving | 0.5 | 88.51 | 88.24 | 88.34 | 87.96 | 85.83
Pure Angular | 0 | 88.70 | 88.83 | 88.00 | 87.54 | 86.07
Pure Angular | 0.5 | 88.73 | 88.87 | 88.48 | 88.11 | 86.35
""",
    "c10-if10-f": """
ProCo | 1 | 88.60 | 88.41 | 88.44 | 88.19 | 87.46
Temperature | 0 | 88.60 | 88.94 | 88.23 | 88.00 | 87.29
Temperature | 0.5 | 88.55 | 88.34 | 88.31 | 88.10 | 87.34
Intercept-preserving | 0 | 88.74 | 89.02 | 88.23 | 87.96 | 87.41
Intercept-preserving | 0.5 | 88.35 | 88.53 | 88.44 | 87.76 | 87.27
Pure Angular | 0 | 88.98 | 89.19 | 88.49 | 87.96 | 87.24
Pure Angular | 0.5 | 88.58 | 88.24 | 88.11 | 87.79 | 87.43
""",
    "c10-if50-u": """
ProCo | 1 | 82.70 | 81.52 | 83.70 | 82.29 | 76.14
Temperature | 0 | 76.82 | 68.89 | 83.63 | 81.89 | 75.81
Temperature | 0.5 | 80.98 | 78.34 | 83.97 | 82.07 | 76.04
Intercept-preserving | 0 | 78.18 | 72.34 | 83.78 | 81.73 | 75.23
Intercept-preserving | 0.5 | 81.54 | 79.21 | 83.36 | 81.88 | 76.28
Pure Angular | 0 | 77.64 | 70.61 | 84.09 | 81.95 | 76.30
Pure Angular | 0.5 | 81.55 | 79.55 | 84.24 | 82.10 | 75.52
""",
    "c10-if50-f": """
ProCo | 1 | 84.86 | 83.91 | 83.42 | 82.04 | 80.52
Temperature | 0 | 84.57 | 83.61 | 83.36 | 82.95 | 80.46
Temperature | 0.5 | 85.16 | 84.31 | 84.25 | 83.37 | 81.24
Intercept-preserving | 0 | 84.60 | 84.19 | 84.13 | 83.07 | 80.81
Intercept-preserving | 0.5 | 84.38 | 84.04 | 84.60 | 82.93 | 80.79
Pure Angular | 0 | 85.05 | 84.26 | 83.47 | 82.65 | 80.79
Pure Angular | 0.5 | 84.78 | 83.90 | 84.25 | 82.71 | 80.80
""",
    "c10-if100-u": """
ProCo | 1 | 78.28 | 74.65 | 81.64 | 79.55 | 71.25
Temperature | 0 | 70.46 | 57.88 | 81.10 | 76.62 | 71.58
Temperature | 0.5 | 74.56 | 67.21 | 81.93 | 79.16 | 71.28
Intercept-preserving | 0 | 70.65 | 58.17 | 81.44 | 79.14 | 71.44
Intercept-preserving | 0.5 | 74.82 | 67.63 | 81.42 | 78.43 | 71.31
Pure Angular | 0 | 70.18 | 54.81 | 81.39 | 78.40 | 71.70
Pure Angular | 0.5 | 75.41 | 67.30 | 81.57 | 78.30 | 71.43
""",
    "c10-if100-f": """
ProCo | 1 | 82.49 | 81.32 | 81.50 | 80.13 | 77.79
Temperature | 0 | 82.43 | 80.56 | 81.56 | 79.72 | 77.39
Temperature | 0.5 | 82.15 | 80.41 | 81.29 | 79.52 | 77.11
Intercept-preserving | 0 | 82.64 | 81.49 | 80.90 | 79.31 | 76.71
Intercept-preserving | 0.5 | 82.71 | 81.53 | 81.12 | 78.91 | 76.36
Pure Angular | 0 | 82.51 | 81.19 | 80.89 | 79.07 | 76.50
Pure Angular | 0.5 | 82.86 | 81.46 | 80.89 | 79.31 | 77.37
""",
}

REALIZATION = {
    "ProCo": "native",
    "Temperature": "temperature",
    "Intercept-preserving": "preserve",
    "Pure Angular": "angular",
}
COLUMNS = (
    ("contrastive", "E", path_of("encoder", "balanced")),
    ("contrastive", "P", path_of("projection", "balanced")),
    ("joint", "E", path_of("encoder", "balanced")),
    ("joint", "P", path_of("projection", "balanced")),
    ("joint", "FC", "last.accuracy"),
)


def control_config(name: str, objective: str) -> TrainConfig:
    """The training of a table: ``c10-if50-u`` is IF 50 with a uniform prior."""
    _, imbalance, prior = name.split("-")
    gamma = 0.0 if prior == "u" else 1.0
    return controlled("cifar10", float(imbalance[2:]), objective=objective, prior=gamma)


def control_changes(name: str, evidence: Evidence) -> list[Change]:
    """Every policy of a table less ProCo, over the seeds that both have."""
    return _table(name, evidence)[1]


# Where contrastive Pure Angular is compared under both priors.
IMBALANCES = ("IF50", "IF100")


def control_table(name: str, evidence: Evidence) -> Outcome:
    """One of the seven tables; every policy against ProCo is a change to be tested."""
    cells, changes = _table(name, evidence)
    tested = [change for change in changes if change.differences]
    later = any(c.ours and c.ours.n > c.wanted for c in cells)
    return Outcome(cells, tested, notes=[LATER] if later else [])


def _table(name: str, evidence: Evidence) -> tuple[list[Cell], list[Change]]:
    cells, changes = [], []
    native: list[tuple[float, dict[int, float]]] = []
    for title, strength, *texts in rows(TABLES[name]):
        realization, beta = REALIZATION[title], float(strength)
        row = title if realization == "native" else f"{title} {strength}"
        for i, ((objective, column, path), text) in enumerate(zip(COLUMNS, texts, strict=True)):
            config, paper = control_config(name, objective), printed(text)
            assert paper is not None
            found = evidence.records.values(config, realization, beta, path)
            ours = evidence.records.value(config, realization, beta, path)
            seeds = wanted(config, realization, beta)
            cells.append(Cell(row, f"{objective} {column}", paper, ours, wanted=seeds))
            if realization == "native":
                native.append((paper.value.mean, found))
                continue
            before, own = native[i]
            delta = round(paper.value.mean - before, 2)
            changes.append(Change(row, f"{objective} {column}", delta, paired(found, own)))
    return cells, changes


def change_map(names: tuple[str, ...], objective: str, evidence: Evidence) -> Outcome:
    """Changes from ProCo in all settings, ours over paired seeds: the paper's beside ours."""
    cells = []
    for name in names:
        values, changes = _table(name, evidence)
        planned = {(cell.row, cell.column): cell.wanted for cell in values}
        for change in changes:
            kind, _, column = change.what.partition(" ")
            if kind == objective:
                seeds = min(planned[row, change.what] for row in (change.row, "ProCo"))
                place, paper = f"{name[4:].upper()} {column}", printed(f"{change.paper:+.2f}")
                cells.append(Cell(place, change.row, paper, change.ours, wanted=seeds))
    drawings = {"changes": lambda: _draw_map(cells)}
    headline = _in_short(cells, objective)
    return Outcome(cells, drawings=drawings, notes=_signs(cells), headline=headline)


def _in_short(cells: Sequence[Cell], objective: str) -> str:
    """How many of the changes that have records are below zero, and their mean, by prior."""
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
    return (
        f"CIFAR-10, {objective} training, changes by any edit (points): {'; '.join(parts)}; "
        f"{counted(c.ours.n for c in cells if c.ours)} a change; counts and means are not tested, "
        "for changes share their ProCo networks."
    )


def _signs(cells: Sequence[Cell]) -> list[str]:
    """How many changes have the printed sign, where one is printed, and the means of both."""
    known = [(c.paper.value.mean, c.ours) for c in cells if c.paper and c.ours]
    if not known:
        return []
    pairs = [(paper, ours.mean) for paper, ours in known]
    signed = [pair for pair in pairs if pair[0]]
    alike = sum(paper * ours > 0 for paper, ours in signed)
    theirs, means = (Value.of(list(own)) for own in zip(*pairs, strict=True))
    assert theirs is not None and means is not None
    none = len(known) - len(signed)
    left_out = f" ({none} printed as 0.00 left out)" if none else ""
    most = max(v.n for _, v in known)
    seeds = f"{span([float(v.n) for _, v in known], 0)} seed{'s' if most > 1 else ''}"
    return [
        f"{len(known)} of {len(cells)} changes have records, of {seeds} each; {alike} of "
        f"{len(signed)} have the printed sign{left_out}. Mean and sd over these {len(known)} "
        f"changes, which share their ProCo networks: {means.said(2, sign=True)} points, "
        f"{theirs.said(2, sign=True)} printed."
    ]


def _draw_map(cells: Sequence[Cell]) -> Figure:
    maps = {
        "paper": {(c.row, c.column): c.paper and c.paper.value.mean for c in cells},
        "ours": {(c.row, c.column): c.ours and c.ours.mean for c in cells},
    }
    return heat_maps(maps, "percentage points from ProCo")


OBJECTIVES = ("contrastive", "joint")
# By realization, the colours of reports; dashed at beta = 0.5.
COLOURS = {
    "native": style.GREY,
    "temperature": style.ORANGE,
    "preserve": style.GREEN,
    "angular": style.BLUE,
}
POLICIES = {
    "native": ("native", 0.0),
    **{f"{name} {beta:g}": (name, beta) for name in list(COLOURS)[1:] for beta in (0.0, 0.5)},
}
FOLLOWED = {"intercept_drift": "mean |intercept drift|", "gradient_error": "gradient error (%)"}


def trajectory(evidence: Evidence) -> Outcome:
    """fig:c10-trajectory: intercept drift and leading-gradient error, IF 50, uniform prior."""
    cells, parts = [], {}
    shown: dict[str, dict[str, dict[str, Course]]] = {objective: {} for objective in OBJECTIVES}
    for name, policy in POLICIES.items():
        for objective, lines in shown.items():
            config = control_config("c10-if50-u", objective)
            known = evidence.records.seeds(config, *policy)
            found = {key: course for key in FOLLOWED if (course := Course.of(known, key))}
            parts[f"{objective}, {name}"] = len(found) == len(FOLLOWED)
            if found:
                lines[name] = found
            for key, what in FOLLOWED.items():
                ours = found[key].at(config.epochs) if key in found else None
                column = f"{objective}, {what}"
                cells.append(unprinted(name, column, ours, 3, wanted(config, *policy)))
    lines = {objective: own for objective, own in shown.items() if own}
    notes = [
        "The paper does not say of which training objective its trajectories are: ours are of "
        "both. Numbers in the table are of the last epoch."
    ]
    for objective, own in lines.items():
        drifts = {name: own.get(name, {}).get("intercept_drift") for name in POLICIES}
        notes.append(f"{objective.capitalize()}: {seeds_of(drifts)}.")
    drawings: dict[str, Callable[[], Figure]] = {}
    if lines:
        drawings["trajectory"] = lambda: _draw_courses(lines)
    return Outcome(cells, drawings=drawings, parts=parts, notes=notes)


def _draw_courses(shown: Mapping[str, Mapping[str, Mapping[str, Course]]]) -> Figure:
    """A row of panels per objective."""
    panels = {
        objective: {
            what: {name: own[key] for name, own in lines.items() if key in own}
            for key, what in FOLLOWED.items()
        }
        for objective, lines in shown.items()
    }
    looks = {
        name: ("--" if name.endswith("0.5") else "-", COLOURS[realization])
        for name, (realization, _) in POLICIES.items()
    }
    return trajectories(panels, looks)


UNIFORM = tuple(name for name in TABLES if name.endswith("u"))
FREQUENCY = tuple(name for name in TABLES if name.endswith("f"))
MAPS = {
    "c10-pure-complete": (tuple(TABLES), "contrastive", "Contrastive-only training, all settings"),
    "c10-joint-uniform-complete": (UNIFORM, "joint", "Joint training with a uniform prior"),
    "c10-joint-actual-complete": (FREQUENCY, "joint", "Joint training with the frequency prior"),
}


def _plans(names: tuple[str, ...], objectives: Sequence[str] = OBJECTIVES) -> tuple[str, ...]:
    """Native and beta = 0 under the frequency prior are in main and joint, by objective."""
    others = {"contrastive": "main", "joint": "joint"} if set(names) & set(FREQUENCY) else {}
    return (*(others[objective] for objective in objectives if others), "controls")


def _title(name: str) -> str:
    _, imbalance, prior = name.split("-")
    return f"CIFAR-10, {imbalance.upper()}, {'uniform' if prior == 'u' else 'frequency'} prior"


ARTEFACTS = (
    *(
        Artefact(name, f"tab:{name}", _title(name), partial(control_table, name), _plans((name,)))
        for name in TABLES
    ),
    *(
        Artefact(
            *(name, f"fig:{name}", title, partial(change_map, names, objective)),
            _plans(names, (objective,)),
        )
        for name, (names, objective, title) in MAPS.items()
    ),
    Artefact(
        "c10-trajectory",
        "fig:c10-trajectory",
        "Score and gradient trajectories during training",
        trajectory,
        ("controls",),
    ),
)
