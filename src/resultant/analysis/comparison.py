"""Two feature sets by their recommended methods: one paired verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from resultant.analysis.analyze import Evaluated
from resultant.analysis.data import row_weights
from resultant.analysis.evaluate import metric_of
from resultant.analysis.explore import rows_of
from resultant.analysis.metrics import NORMAL, SIGNIFICANCE, mean_and_error, paired_gain
from resultant.analysis.plain import Difference
from resultant.analysis.result import FeatureResult, SetComparison


def compare_sets(evaluated: Sequence[Evaluated], a: int, b: int) -> SetComparison:
    """Compare two evaluated feature sets.

    Test rows are paired by their identities. Equal labels do not show that rows are the same:
    without identities in both sets, the difference is that of two samples.

    Args:
        evaluated: The feature sets.
        a: Index of the first one.
        b: Index of the second one.
    """
    sides = evaluated[a], evaluated[b]
    metric = sides[0].result.data.metric
    hits, labels, weights = zip(*(_hits(side, metric) for side in sides), strict=True)
    order = _matched(*sides)
    if order is not None:
        hits = tuple(h[rows] for h, rows in zip(hits, order, strict=True))
        labels = tuple(y[rows] for y, rows in zip(labels, order, strict=True))
        gain = paired_gain(hits[0], hits[1], row_weights(labels[0], metric))
        difference = Difference(*gain[:3], gain.error, gain.p_value, _verdict(*gain[1:3]))
    else:
        (x, x_error), (y, y_error) = (
            mean_and_error(h.double(), w) for h, w in zip(hits, weights, strict=True)
        )
        gain, error = y - x, math.hypot(x_error, y_error)
        low, high = max(-1.0, gain - NORMAL * error), min(1.0, gain + NORMAL * error)
        difference = Difference(gain, low, high, error, float("nan"), _verdict(low, high))
    rows = len(hits[0]) if order is not None else len(hits[0]) + len(hits[1])
    results = sides[0].result, sides[1].result
    sentence = _sentence(results, difference, metric, order is not None)
    return SetComparison(a, b, metric, difference, order is not None, rows, sentence)


def _hits(side: Evaluated, metric: str) -> tuple[Tensor, Tensor, Tensor]:
    """Correct predictions [n] of the method to use, classes [n] and weights [n]."""
    data, plan = side.fitted.data, side.fitted.plan
    labels = data.test.y if plan.test is None else data.test.y[plan.test]
    chosen = side.result.recommendation
    hits = side.tested[chosen.key or chosen.best].predicted == labels
    return hits, labels, row_weights(labels, metric)


def _matched(a: Evaluated, b: Evaluated) -> tuple[Tensor, Tensor] | None:
    """Return the order of the evaluated rows of both sides that pairs them, or None."""
    from resultant.features.identities import match_rows

    identities = []
    for side in (a, b):
        known = side.fitted.data.test.identities
        if known is None:
            return None
        identities.append(known[rows_of(side.fitted.data.test, side.fitted.plan.test)])
    match = match_rows(*identities)
    return (match.a, match.b) if match.kind in ("same", "reordered") else None


def _verdict(low: float, high: float) -> str:
    if low <= 0 <= high:
        return "tie"
    return "better" if low > 0 else "worse"


def _sentence(
    results: tuple[FeatureResult, FeatureResult], d: Difference, metric: str, paired: bool
) -> str:
    """Say which side is better, by the recommended method of each."""
    values = []
    for result in results:
        chosen = result.recommendation
        method = result.method(chosen.key or chosen.best)
        value = 100 * metric_of(method, metric).value
        values.append(f"{value:.1f} % with {method.name}")
    better = {"better": "B is better than A", "worse": "A is better than B"}
    text = better.get(d.verdict, "A and B are not significantly different")
    gain = f"{100 * d.gain:+.1f} points [{100 * d.low:+.1f}, {100 * d.high:+.1f}]"
    rows = "the same test rows" if paired else "test rows that are not known to be the same"
    if paired and d.p_value < SIGNIFICANCE:
        rows += f", p = {d.p_value:.2g}"
    return f"{text}: {metric} {values[0]} against {values[1]}; {gain} for B on {rows}."


def require_same_classes(a: Sequence[str], b: Sequence[str], paths: Sequence[object]) -> None:
    """Raise a ValueError unless two sets have the same classes by name."""
    if len(a) != len(b):
        got = f"{len(a)} in {paths[0]} and {len(b)} in {paths[1]}"
        raise ValueError(f"expected one number of classes in both, got {got}")
    for c, (in_a, in_b) in enumerate(zip(a, b, strict=True)):
        if in_a != in_b:
            got = f"{in_a!r} in {paths[0]} and {in_b!r} in {paths[1]}"
            raise ValueError(f"expected the same classes in both, but class {c} is called {got}")
