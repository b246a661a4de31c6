"""Two feature sets by their recommended methods: one paired verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from resultant._core.text import signed
from resultant.analysis.analyze import Evaluated
from resultant.analysis.data import row_weights
from resultant.analysis.metrics import NORMAL, SIGNIFICANCE, mean_and_error, paired_gain
from resultant.analysis.plain import Difference
from resultant.analysis.result import SetComparison
from resultant.features.identities import match_rows

WORDS = {
    "better": "B is better than A",
    "worse": "A is better than B",
    "tie": "A and B are not significantly different",
}


def compare_sets(evaluated: Sequence[Evaluated], a: int, b: int) -> SetComparison:
    """Compare two evaluated feature sets.

    Test rows are paired by their identities. Equal labels do not show that rows are the same:
    without identities in both sets, the difference is that of two samples.
    """
    sides = evaluated[a], evaluated[b]
    metric, values = sides[0].result.data.metric, []
    hits = [side.tested[side.used].predicted == side.labels for side in sides]
    order = _matched(*sides)
    if order is not None:
        labels, (before, after) = sides[0].labels[order[0]], (hits[0][order[0]], hits[1][order[1]])
        difference = Difference.of(*paired_gain(before, after, row_weights(labels, metric)))
        number, rows = len(before), "the same test rows"
        if difference.p_value < SIGNIFICANCE:
            rows += f", p = {difference.p_value:.2g}"
    else:
        (x, x_error), (y, y_error) = (
            mean_and_error(h.double(), row_weights(side.labels, metric))
            for h, side in zip(hits, sides, strict=True)
        )
        gain, error = y - x, math.hypot(x_error, y_error)
        low, high = max(-1.0, gain - NORMAL * error), min(1.0, gain + NORMAL * error)
        difference = Difference.of(gain, low, high, math.nan, error)
        number, rows = sum(map(len, hits)), "test rows that are not known to be the same"
    for side in sides:
        method = side.result.method(side.used)
        values.append(f"{100 * method.metric(metric).value:.1f} % with {method.name}")
    d = difference
    value, low, high = (signed(100 * v) for v in (d.gain, d.low, d.high))
    points = f"{value} points [{low}, {high}]"
    text = f"{WORDS[d.verdict]}: {metric} {values[0]} against {values[1]}; {points} for B on {rows}"
    return SetComparison(a, b, metric, difference, order is not None, number, f"{text}.")


def _matched(a: Evaluated, b: Evaluated) -> tuple[Tensor, Tensor] | None:
    """Return the order of the evaluated rows of both sides that pairs them, or None."""
    known = [side.data.test.identities for side in (a, b)]
    if known[0] is None or known[1] is None:
        return None
    match = match_rows(known[0][a.plan.test], known[1][b.plan.test])
    return (match.a, match.b) if match.kind in ("same", "reordered") else None
