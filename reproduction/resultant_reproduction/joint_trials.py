"""Beyond the paper: joint training with less of a classifier in it. The paper does not say which
views the classifier reads, and its numbers and ours differ there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from resultant_reproduction.artefact import Artefact, Cell, Change, Outcome, printed, rows
from resultant_reproduction.controls import COLUMNS, TABLES
from resultant_reproduction.evidence import Evidence
from resultant_reproduction.plan import joint_trials, wanted
from resultant_reproduction.records import paired
from resultant_reproduction.rules import equals, significant
from resultant_reproduction.training import JOINT

TITLES = {
    "kept": "both views, weight 1 (kept)",
    "one-view": "one view, weight 1",
    "half-weight": "both views, weight 1/2",
}


def _readouts() -> list[tuple[str, str, str, str]]:
    """What is printed of native joint networks at IF 100: data set, name, path, number."""
    own, *_ = rows(TABLES["c10-if100-f"])
    found = [
        ("cifar10", f"CIFAR-10 {column}", path, text)
        for (objective, column, path), text in zip(COLUMNS, own[2:], strict=True)
        if objective == "joint"
    ]
    heads = {name: text for name, text, *_ in rows(JOINT)}
    return [*found, ("cifar100", "CIFAR-100 FC", "last.accuracy", heads["CIFAR-100 / 100"])]


def trials(evidence: Evidence) -> Outcome:
    """Every trial beside the printed numbers, and what it changes from what is kept."""
    cells, changes = [], []
    kept: dict[str, Mapping[int, float]] = {}
    for trial, title in TITLES.items():
        for dataset, column, path, text in _readouts():
            config = joint_trials(dataset)[trial]
            found = evidence.records.values(config, "native", 0.0, path)
            ours = evidence.records.value(config, "native", 0.0, path)
            cells.append(Cell(title, column, printed(text), ours, wanted=wanted(config)))
            if trial == "kept":
                kept[column] = found
            elif differences := paired(found, kept[column]):
                changes.append(Change(column, f"{title} - kept", None, differences))
    note = (
        "E, P: probes fitted to all training images. FC: the classifier, last epoch. The paper "
        "prints the weight as 1, which is kept."
    )
    return Outcome(cells, changes, notes=[note], headline=_headline(cells, changes))


def _headline(cells: Sequence[Cell], changes: Sequence[Change]) -> str:
    """How far each of the trials is from the printed numbers, and whether it is told apart from
    what is kept."""
    parts, far = [], {}
    for title in TITLES.values():
        apart = [c.difference for c in cells if c.row == title]
        known = [abs(d) for d in apart if d is not None]
        if known:
            said = " / ".join("–" if d is None else f"{d:+z.2f}" for d in apart)
            parts.append(f"{title} {said}")
        if len(known) == len(apart):
            far[title] = fmean(known)
    columns = " / ".join(dict.fromkeys(cell.column for cell in cells))
    told = f"Joint training at IF 100, ours less the paper's (points), {columns}: "
    told += "; ".join(parts) + "."
    if len(far) == len(TITLES):
        nearest = min(far, key=far.__getitem__)
        told += f" Nearest by the mean of their sizes: {nearest} ({far[nearest]:.2f})."
        seen = [f"{c.what} on {c.row}" for c in significant(changes)]
        least = min((p for c in changes if (p := c.p_value) is not None), default=None)
        if least is not None:
            apart = f"these are: {', '.join(seen)}" if seen else f"none is (least {equals(least)})"
            told += f" Told apart from what is kept by Holm's correction: {apart}."
    return told if parts else ""


ARTEFACTS = (
    Artefact(
        "joint-protocol",
        "beyond:joint-protocol",
        "Joint training with less of a classifier, native, IF 100",
        trials,
        ("joint", "trials"),
    ),
)
