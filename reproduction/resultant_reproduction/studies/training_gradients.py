"""The question "Which errors of leading gradients does the paper print?" (protocol, group 9).

Four definitions: errors of all queries stacked or their mean, of a leading score with the intercept
of the class or without.
"""

from statistics import fmean
from typing import NamedTuple

from resultant_reproduction.cells.cells import Cell, Outcome, say
from resultant_reproduction.cells.statistics import (
    CONFIRMED,
    INCONCLUSIVE,
    NOT_REPRODUCED,
    Estimate,
    over_settings,
)
from resultant_reproduction.runs.evidence import Evidence
from resultant_reproduction.studies.official_recipe import POLICIES, SHOWN

# Definitions by the names of their metrics: before the kind of the error, and after it.
DEFINITIONS = {
    "stacked, with the intercept": ("", ""),
    "mean over queries, with the intercept": ("mean_", ""),
    "stacked, without": ("", "_without_intercept"),
    "mean over queries, without": ("mean_", "_without_intercept"),
}
# Printed (%): the mean of 4.87, 5.34 and 4.57, and the middle of 8.82 to 10.18.
PRINTED = {"gradient": 14.78 / 3, "increment": 9.5}
TITLES = {"gradient": "leading gradients", "increment": "increments"}
# Largest distance of the interval from the printed number, as a part of that.
MARGIN = 0.25


class Fit(NamedTuple):
    """Ours by one definition and how it stands to the printed number."""

    ours: Estimate
    printed: float

    @property
    def contains(self) -> bool:
        return bool(self.ours.contains(self.printed))

    @property
    def fits(self) -> bool:
        own, reach = self.ours, MARGIN * self.printed
        if own.low is None or own.high is None:
            return False
        return self.contains and max(self.printed - own.low, own.high - self.printed) <= reach


def fits(evidence: Evidence) -> dict[str, dict[str, Fit]]:
    """The fit of each printed number by definition; empty without records of all policies."""
    records = [
        [r for r in evidence.third.seeds(SHOWN, *policy).values() if "trajectory" in r]
        for policy in POLICIES.values()
    ]
    if not all(records):
        return {}
    found: dict[str, dict[str, Fit]] = {}
    for title, (mean, end) in DEFINITIONS.items():
        for kind, printed in PRINTED.items():
            name = f"{mean}{kind}_error{end}"
            last = [[record["trajectory"][name][-1] for record in own] for own in records]
            values = [
                [fmean(v.values()) if isinstance(v, dict) else v for v in own] for own in last
            ]
            estimate = over_settings(values)
            assert estimate is not None
            found.setdefault(title, {})[kind] = Fit(estimate, printed)
    return found


def verdict(found: dict[str, dict[str, Fit]]) -> str:
    """Judge both numbers by the definitions together, as the protocol says."""
    if any(all(fit.fits for fit in own.values()) for own in found.values()):
        return CONFIRMED
    if any(all(fit.contains for fit in own.values()) for own in found.values()):
        return INCONCLUSIVE
    return NOT_REPRODUCED


def training_gradients(evidence: Evidence) -> Outcome:
    """Both numbers by each definition."""
    found = fits(evidence)
    if not found:
        return Outcome()
    cells = [
        Cell(title, f"{TITLES[kind]} ({fit.printed:.2f})", None, None, text=_text(fit))
        for title, own in found.items()
        for kind, fit in own.items()
    ]
    number = next(iter(found.values()))["gradient"].ours.n
    texts = {kind: _matching(found, kind) for kind in PRINTED}
    return Outcome(cells, headline=say("gradients", n=number, verdict=verdict(found), **texts))


def _text(fit: Fit) -> str:
    mark = ", fits" if fit.fits else ", contains it" if fit.contains else ""
    return fit.ours.text(2, sign=False) + mark


def _matching(found: dict[str, dict[str, Fit]], kind: str) -> str:
    """Name the definitions that fit a printed number."""
    return "; ".join(title for title, own in found.items() if own[kind].fits) or "none"
