"""Beyond the paper: the change by Pure Angular on frozen features when both rules have their own
temperature (protocol, group 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from statistics import fmean, median
from typing import Any

from resultant_reproduction.evidence import CONDITIONS, Evidence, is_external, trained_as
from resultant_reproduction.figures import intervals
from resultant_reproduction.plan import stand_in
from resultant_reproduction.spec import Cell, Outcome
from resultant_reproduction.stats import Interval, over_settings
from resultant_reproduction.summarize import SPACES
from resultant_reproduction.tuned import PLACE, RULES, packaged_numbers
from resultant_reproduction.value import Value

# How the temperatures are chosen, with the titles of the columns.
CHOICES = {
    "shared": "both at 0.1",
    "halves": "by half of the test images",
    "folds": "by folds of the training images",
}

# Accuracies by space, rule and choice.
Network = Mapping[str, Mapping[str, Mapping[str, Any]]]


def networks(evidence: Evidence) -> dict[str, list[Network]]:
    """Read the accuracies of native networks, by setting."""
    configs = {name: trained_as(name) for name in CONDITIONS if not is_external(name)}
    configs["Tiny-ImageNet-LT"] = stand_in()
    found = {
        name: [r["tuned"] for r in evidence.every.seeds(config).values() if "tuned" in r]
        for name, config in configs.items()
    }
    return {name: own for name, own in found.items() if own}


def change(network: Network, choice: str, spaces: Sequence[str] = SPACES) -> float:
    """Angular less native, points, the mean over spaces."""
    native, angular = ([network[space][rule][choice] for space in spaces] for rule in RULES)
    return 100 * (fmean(angular) - fmean(native))


def effects(
    evidence: Evidence, spaces: Sequence[str] = SPACES, dataset: str = "CIFAR"
) -> dict[str, Interval | None]:
    """Mean change over the settings whose names begin with a dataset, by choice of the
    temperatures."""
    settings = [own for name, own in networks(evidence).items() if name.startswith(dataset)]
    return {
        choice: over_settings([[change(n, choice, spaces) for n in own] for own in settings])
        for choice in CHOICES
    }


def verdict(shared: Interval, chosen: Interval) -> str:
    """Apply the rule of the protocol."""
    if chosen.low is None or chosen.high is None:
        return "not tested"
    if chosen.low <= 0:
        return "all of it goes"
    if chosen.high < shared.mean / 2:
        return "most of it goes"
    return "it remains" if chosen.low > shared.mean / 2 else "open"


def tuned_rules(evidence: Evidence) -> Outcome:
    """Both rules at 0.1 and at chosen temperatures, by setting."""
    rows = networks(evidence)
    if stored := packaged_numbers():
        rows[PLACE] = [stored]
    cells, drawn = [], {title: {} for title in CHOICES.values()}
    for name, own in rows.items():
        row = f"{name} [{len(own)}]"
        for choice, title in CHOICES.items():
            for rule in RULES:
                value = 100 * fmean(n[space][rule][choice] for n in own for space in SPACES)
                cells.append(Cell(row, f"{rule}, {title}", None, Value(value), text=f"{value:.2f}"))
            interval = over_settings([[change(n, choice) for n in own]])
            assert interval is not None
            cells.append(
                Cell(row, f"change, {title}", None, Value(interval.mean), text=interval.text())
            )
            drawn[title][row] = interval[:3]
    single = [f"{name} [1]" for name, own in rows.items() if len(own) == 1]
    note = (
        "Accuracy in percent on the test images, change in percentage points, means over encoder "
        "and projection; in brackets the networks, all trained as native. Features of networks "
        "trained before the protocol was extended are not stored, so their temperatures cannot be "
        "chosen."
    )
    return Outcome(
        cells,
        draw=lambda: intervals(drawn, single),
        notes=[note, _temperatures(rows)],
        headline=answer(evidence),
    )


def answer(evidence: Evidence) -> str:
    """State the effect at 0.1 and at chosen temperatures, with the verdict of the protocol."""
    shared, halves, folds = effects(evidence).values()
    if shared is None or halves is None or folds is None:
        return ""
    before, after, _ = effects(evidence, ("encoder",)).values()
    assert before is not None and after is not None
    return (
        f"With both rules at temperature 0.1, Pure Angular changes the accuracy of frozen features "
        f"by {shared.text()} points over {shared.n} networks of CIFAR; with a temperature chosen "
        f"for each rule on other test images by {halves.text()} ({verdict(shared, halves)}), and "
        f"with one chosen on the training images by {folds.text()} ({verdict(shared, folds)}). "
        f"On encoders alone: {before.text()} before, {after.text()} after."
    )


def _temperatures(rows: Mapping[str, Sequence[Network]]) -> str:
    """Name the middle of the chosen temperatures and their range, by space and rule."""
    texts = []
    for space, rule in product(SPACES, RULES):
        chosen = [t for own in rows.values() for n in own for t in n[space][rule]["temperatures"]]
        middle, ends = median(chosen), (min(chosen), max(chosen))
        texts.append(f"{rule} on {space}s {middle:g} ({ends[0]:g} to {ends[1]:g})")
    return f"Chosen temperatures, median and range: {'; '.join(texts)}."
