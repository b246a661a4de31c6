"""Contrastive Pure Angular under a uniform prior on CIFAR-10 (tab:c10-if50-u, tab:c10-if100-u),
where it is known from single seeds."""

from __future__ import annotations

from itertools import product

from resultant.paper.artefact import SIGNIFICANCE
from resultant.paper.controls import IMBALANCES, control_config
from resultant.paper.evidence import Evidence
from resultant.paper.intervals import Interval, over_alike
from resultant.paper.records import paired, path_of
from resultant.paper.summary import SPACES

# Where the sd over seeds of a single one is taken from.
ELSEWHERE = "under the frequency prior (main) or at the other imbalance"

# Changes by imbalance and space; before that, their differences over seeds by prior too.
Uniform = dict[tuple[str, str], Interval]
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


def under_uniform(known: Differences, level: float = SIGNIFICANCE, times: float = 1.0) -> Uniform:
    """The changes under a uniform prior, with intervals of the ``level``. One seed has one too, by
    so many ``times`` the sd of the same difference where there are more of them (`over_alike`)."""
    found = {
        (imbalance, space): over_alike(*with_others(known, imbalance, space), level, times)
        for imbalance, space in product(IMBALANCES, SPACES)
    }
    return {at: change for at, change in found.items() if change is not None}


def with_others(
    known: Differences, imbalance: str, space: str
) -> tuple[list[float], list[list[float]]]:
    """The differences of a readout under a uniform prior, and the same of others in its space."""
    own = (imbalance, space, "u")
    others = [[*d.values()] for at, d in known.items() if at != own and at[1] == space]
    return [*known[own].values()], others
