"""The question "When does direct temperature lose a class?" (protocol, group 7).

The intercept exceeds the largest score of a cosine once a kappa falls below sqrt(p gbar / 2). The
rule that was written before the runs asks whether it does in any epoch; that of the last epoch was
read after them.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from resultant.report import style
from resultant_reproduction.cells.cells import Cell, Outcome, say
from resultant_reproduction.cells.charts import HOLLOW, Chart, Curve, draw_charts
from resultant_reproduction.runs.evidence import Evidence
from resultant_reproduction.runs.plans import controlled
from resultant_reproduction.runs.records import dig
from resultant_reproduction.studies.collapse import FEW

DIMENSIONS = (32, 128, 512)
# Part of the runs that may disagree before the law fails.
TOLERATED = 0.1


class Course(NamedTuple):
    """A training under direct temperature, from its records of every epoch."""

    dim: int
    seed: int
    kappas: Sequence[float]  # least of an epoch
    gains: Sequence[float]  # mean of that epoch
    distinct: int  # classes among the predictions at the end

    @property
    def least(self) -> float:
        return min(self.kappas)

    @property
    def depths(self) -> list[float]:
        """The quotient of kappa and its threshold, in each epoch."""
        pairs = zip(self.kappas, self.gains, strict=True)
        return [kappa / math.sqrt(self.dim * gain / 2) for kappa, gain in pairs]

    @property
    def depth(self) -> float:
        """The least quotient; below one the training passes."""
        return min(self.depths)

    @property
    def passed(self) -> bool:
        return self.depth < 1

    @property
    def below_at_end(self) -> bool:
        return self.depths[-1] < 1

    @property
    def collapsed(self) -> bool:
        return self.distinct < FEW


def courses(evidence: Evidence) -> list[Course]:
    found = []
    for dim in DIMENSIONS:
        config = controlled("cifar100", 10, prior=0.0, dim=dim)
        for seed, record in sorted(evidence.third.seeds(config, "temperature", 0.0).items()):
            distinct = dig(record, "ended.same_state.temperature.distinct")
            if "course" in record and distinct is not None:
                own = record["course"]
                pairs = zip(own["kappa_min"], own["gain_mean"], strict=True)
                kappas, gains = zip(*(p for p in pairs if None not in p), strict=True)
                found.append(Course(dim, seed, kappas, gains, int(distinct)))
    return found


def law(found: Sequence[Course]) -> str:
    """Judge the law as the protocol says."""
    apart = sum(own.passed != own.collapsed for own in found)
    if not apart and len({own.collapsed for own in found}) == 2:
        return "the law holds"
    return "the law fails" if apart > TOLERATED * len(found) else "open"


def threshold(own: Sequence[Course]) -> tuple[float, float] | None:
    """The largest least kappa of a collapsed training and the smallest of one that was not."""
    lost = [course.least for course in own if course.collapsed]
    kept = [course.least for course in own if not course.collapsed]
    return (max(lost), min(kept)) if lost and kept else None


def exponent(found: Sequence[Course]) -> float | None:
    """The slope of the logarithm of the threshold; None unless all dimensions have one."""
    ends = [threshold([own for own in found if own.dim == dim]) for dim in DIMENSIONS]
    if any(pair is None for pair in ends):
        return None
    middles = [math.log((pair[0] + pair[1]) / 2) for pair in ends if pair is not None]
    return float(np.polyfit(np.log(DIMENSIONS), middles, 1)[0])


def collapse_law(evidence: Evidence) -> Outcome:
    """Trainings by dimension, the judgement of the law, and the depth of every training."""
    found = courses(evidence)
    if not found:
        return Outcome()
    cells = []
    for dim in DIMENSIONS:
        own = [course for course in found if course.dim == dim]
        if not own:
            continue
        pair = threshold(own)
        apart = [c.seed for c in own if c.passed != c.collapsed]
        texts = {
            "passed": sum(c.passed for c in own),
            "below at the end": sum(c.below_at_end for c in own),
            "collapsed": sum(c.collapsed for c in own),
            "disagree": ", ".join(f"seed {seed}" for seed in apart) or "none",
            "least kappa": f"{min(c.least for c in own):.3g} to {max(c.least for c in own):.3g}",
            "threshold between": f"{pair[0]:.3g} and {pair[1]:.3g}" if pair else "–",
        }
        row = f"p = {dim} [{len(own)}]"
        cells += [Cell(row, title, None, None, text=str(text)) for title, text in texts.items()]
    slope = exponent(found)
    text = say(
        "collapse-law",
        verdict=law(found),
        n=len(found),
        apart=sum(c.passed != c.collapsed for c in found),
        lost=sum(c.collapsed for c in found),
        back=sum(c.passed and not c.below_at_end for c in found),
        agree=sum(c.below_at_end == c.collapsed for c in found),
        slope=say("collapse-no-exponent")
        if slope is None
        else say("collapse-exponent", slope=f"{slope:.2f}"),
    )
    return Outcome(cells, draw=lambda: draw_charts([_chart(found)], width=5), headline=text)


def _chart(found: Sequence[Course]) -> Chart:
    """Least kappa over its threshold, by dimension."""
    curves = []
    for collapsed, label, look, color in (
        (True, "lost its classes", "s", style.RED),
        (False, "kept them", "o", style.BLUE),
    ):
        own = [course for course in found if course.collapsed == collapsed]
        # Seeds side by side.
        x = [course.dim * 2 ** (0.08 * (course.seed - 23.5)) for course in own]
        curves.append(Curve(x, [c.depth for c in own], look, label, color, more=HOLLOW))
    ends = (DIMENSIONS[0] / 2, DIMENSIONS[-1] * 2)
    curves.append(Curve(ends, (1, 1), "--", "threshold", "0.4"))
    ticks = {"xticks": DIMENSIONS, "xticklabels": DIMENSIONS, "xlim": ends}
    more = {"xscale": "log", "yscale": "log"} | ticks
    return Chart(curves, "dimension p", "least κ / √(p ḡ / 2)", more=more)
