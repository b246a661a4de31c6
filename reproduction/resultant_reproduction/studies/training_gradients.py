"""The question "Which errors of leading gradients does the paper print?" (protocol, group 9).

Four definitions: errors of all queries stacked or their mean, of a leading score with the intercept
of the class or without.
"""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from resultant.report import style
from resultant_reproduction.cells.cells import Cell, Outcome, say
from resultant_reproduction.cells.charts import HOLLOW, Chart, Curve, draw_charts
from resultant_reproduction.cells.statistics import (
    CONFIRMED,
    INCONCLUSIVE,
    NEEDS_DATA,
    NOT_REPRODUCED,
    Estimate,
    Value,
    contrast,
)
from resultant_reproduction.runs.evidence import Evidence
from resultant_reproduction.studies.official_recipe import POLICIES, SHOWN

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Definitions by the names of their metrics: before the kind of the error, and after it.
DEFINITIONS = {
    "stacked, with the intercept": ("", ""),
    "mean over queries, with the intercept": ("mean_", ""),
    "stacked, without": ("", "_without_intercept"),
    "mean over queries, without": ("mean_", "_without_intercept"),
}
# The one that comes nearest, which claims show.
NEAREST = "mean over queries, without"
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


def errors(evidence: Evidence, definition: str, kind: str) -> list[float]:
    """The error at the last epoch by network (%), that of increments as the mean over changes."""
    (mean, end), values = DEFINITIONS[definition], []
    for policy in POLICIES.values():
        for record in evidence.third.seeds(SHOWN, *policy).values():
            value = record["trajectory"][f"{mean}{kind}_error{end}"][-1]
            values.append(fmean(value.values()) if isinstance(value, dict) else value)
    return values


def fits(evidence: Evidence) -> dict[str, dict[str, Fit]]:
    """The fit of each printed number by definition; empty without records."""
    found: dict[str, dict[str, Fit]] = {}
    for definition in DEFINITIONS:
        for kind, printed in PRINTED.items():
            if values := errors(evidence, definition, kind):
                own = found.setdefault(definition, {})
                own[kind] = Fit(contrast([(1.0, Value.over(values))]), printed)
    return found


def verdict(found: dict[str, dict[str, Fit]]) -> str:
    """Judge both numbers by the definitions together, as the protocol says."""
    if not found:
        return NEEDS_DATA
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
    nearest = found[NEAREST]
    texts = {kind: fit.ours.text(2, sign=False) for kind, fit in nearest.items()}
    number = nearest["gradient"].ours.n
    text = say("gradients", n=number, nearest=NEAREST, verdict=verdict(found), **texts)
    return Outcome(
        cells,
        draw=lambda: draw_charts([_chart(found, kind) for kind in PRINTED], height=3.4),
        headline=text,
    )


def _text(fit: Fit) -> str:
    mark = ", fits" if fit.fits else ", contains it" if fit.contains else ""
    return fit.ours.text(2, sign=False) + mark


def _chart(found: dict[str, dict[str, Fit]], kind: str) -> Chart:
    """The error by definition with its interval, and the printed one."""
    ours, at = [own[kind].ours for own in found.values()], [*range(len(found))]
    reach = [0.0 if own.high is None else own.high - own.mean for own in ours]
    curves = [
        Curve(at, [own.mean for own in ours], "o", "ours", style.BLUE, reach, more=HOLLOW),
        Curve((at[0], at[-1]), [PRINTED[kind]] * 2, "--", "printed", style.ORANGE),
    ]
    names = [title.removesuffix(" the intercept").replace(", ", ",\n") for title in found]
    more = {"xticks": at, "xticklabels": names, "xlim": (-0.5, at[-1] + 0.5)}
    return Chart(curves, "the intercept", f"error of {TITLES[kind]} (%)", more=more, paint=_turned)


def _turned(ax: Axes) -> None:
    ax.tick_params(axis="x", labelsize=7)
    ax.set_ylim(bottom=0)
