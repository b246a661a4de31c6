"""Other recipes: ProCo's public one, and joint training with less of a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from resultant_reproduction.controls import COLUMNS
from resultant_reproduction.evidence import CONDITIONS, Evidence
from resultant_reproduction.formats import p_equation
from resultant_reproduction.plan import joint_trials, official
from resultant_reproduction.spec import Cell, Change, Outcome, printed_rows
from resultant_reproduction.stats import significant
from resultant_reproduction.tables import Entry, compare

# The authors' public logs: last and best epoch on the test set.
LOGS = {
    "CIFAR-10 / 50": ("88.07", "88.17"),
    "CIFAR-10 / 100": ("85.63", "85.93"),
    "CIFAR-100 / 50": ("56.82", "57.13"),
    "CIFAR-100 / 100": ("52.76", "52.84"),
}


def recipe(evidence: Evidence) -> Outcome:
    """The three-view joint recipe and the authors' public logs."""
    entries = [
        Entry(row, column, text, (official(*CONDITIONS[row]), "native", 0.0), f"last.{key}")  # type: ignore[misc]
        for row, texts in LOGS.items()
        for column, key, text in zip(
            ("last epoch", "best epoch"), ("accuracy", "best_accuracy"), texts, strict=True
        )
    ]
    return Outcome(compare(evidence, entries)[0])


TRIALS = {
    "kept": "both views, weight 1 (kept)",
    "one-view": "one view, weight 1",
    "half-weight": "both views, weight 1/2",
}


def _joint_readouts() -> list[tuple[str, str, str, str]]:
    """Printed numbers of native joint networks at IF 100: dataset, column, path, number."""
    native, *_ = printed_rows("c10-if100-f")
    readouts = [
        ("cifar10", f"CIFAR-10 {column}", path, text)
        for (objective, column, path), text in zip(COLUMNS, native[2:], strict=True)
        if objective == "joint"
    ]
    heads = {name: text for name, text, *_ in printed_rows("joint-fc")}
    return [*readouts, ("cifar100", "CIFAR-100 FC", "last.accuracy", heads["CIFAR-100 / 100"])]


def trials(evidence: Evidence) -> Outcome:
    """Joint training with less of a classifier. The paper does not say which views the classifier
    reads, and its numbers and ours differ there."""
    entries = [
        Entry(title, column, text, (joint_trials(dataset)[trial], "native", 0.0), path)
        for trial, title in TRIALS.items()
        for dataset, column, path, text in _joint_readouts()
    ]
    cells, changes = compare(evidence, entries)
    changes = [
        replace(c, row=c.what, what=f"{c.row} - kept", paper=None) for c in changes if c.differences
    ]
    return Outcome(cells, changes, headline=_trials_headline(cells, changes))


def _trials_headline(cells: Sequence[Cell], changes: Sequence[Change]) -> str:
    """Distance of each trial from the printed numbers, and its tests against the kept one."""
    parts, distance = [], {}
    for title in TRIALS.values():
        differences = [c.difference for c in cells if c.row == title]
        known = [abs(d) for d in differences if d is not None]
        if known:
            texts = " / ".join("–" if d is None else f"{d:+z.2f}" for d in differences)
            parts.append(f"{title} {texts}")
        if len(known) == len(differences):
            distance[title] = fmean(known)
    columns = " / ".join(dict.fromkeys(cell.column for cell in cells))
    text = f"Joint training at IF 100, ours less the paper's (points), {columns}: "
    text += "; ".join(parts) + "."
    if len(distance) == len(TRIALS):
        nearest = min(distance, key=distance.__getitem__)
        text += f" Nearest by the mean of their sizes: {nearest} ({distance[nearest]:.2f})."
        seen = [f"{c.what} on {c.row}" for c in significant(changes)]
        least = min((p for c in changes if (p := c.p_value) is not None), default=None)
        if least is not None:
            apart = f"none is (least {p_equation(least)})"
            if seen:
                apart = f"these are: {', '.join(seen)}"
            text += f" Distinguished from what is kept by Holm's correction: {apart}."
    return text if parts else ""
