"""What edits change on CIFAR-10 under a uniform prior (tab:c10-if50-u and its likes), and Pure
Angular under the frequency prior beside it."""

from __future__ import annotations

from itertools import product

from resultant_reproduction.artefact import SIGNIFICANCE, Value
from resultant_reproduction.controls import (
    IMBALANCES,
    OBJECTIVES,
    POLICIES,
    UNIFORM,
    control_config,
)
from resultant_reproduction.evidence import Evidence
from resultant_reproduction.intervals import Interval, over_settings
from resultant_reproduction.records import paired, path_of
from resultant_reproduction.summarize import SPACES

# Changes by imbalance and space; before that, their differences by seed, and by prior too.
READOUTS: tuple[tuple[str, str], ...] = tuple(product(IMBALANCES, SPACES))
Changes = dict[tuple[str, str], Interval]
Differences = dict[tuple[str, str, str], dict[int, float]]


def equalized(evidence: Evidence, pool: str, objective: str = "contrastive") -> Differences:
    """Pure Angular less ProCo, probes on a pool of images (points), by seed."""
    found: Differences = {}
    for imbalance, space, prior in product(IMBALANCES, SPACES, ("u", "f")):
        config = control_config(f"c10-{imbalance.lower()}-{prior}", objective)
        after, before = (
            evidence.records.values(config, r, 0.0, path_of(space, pool))
            for r in ("angular", "native")
        )
        found[imbalance, space, prior] = paired(after, before)
    return found


def under(prior: str, known: Differences, level: float = SIGNIFICANCE) -> Changes:
    """The changes under a prior, with intervals of the ``level`` over seeds."""
    found = {at: over_settings([[*known[*at, prior].values()]], level) for at in READOUTS}
    return {at: change for at, change in found.items() if change is not None}


def any_edit(evidence: Evidence) -> dict[str, dict[float, list[Value]]]:
    """What every edit of the control matrix changes from ProCo under a uniform prior, long-tail
    probes of both spaces (points), by kind of training and by imbalance."""
    found: dict[str, dict[float, list[Value]]] = {}
    for objective, table, space in product(OBJECTIVES, UNIFORM, SPACES):
        config, path = control_config(table, objective), path_of(space)
        native = evidence.records.values(config, "native", 0.0, path)
        changes = [
            change
            for edit in POLICIES.values()
            for own in (paired(evidence.records.values(config, *edit, path), native),)
            if edit[0] != "native" and (change := Value.of([*own.values()])) is not None
        ]
        if changes:
            found.setdefault(objective, {}).setdefault(config.imbalance, []).extend(changes)
    return found
