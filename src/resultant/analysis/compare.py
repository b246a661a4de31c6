"""The verdict on two feature sets."""

from collections.abc import Sequence

from resultant._core.text import signed
from resultant.analysis import metrics
from resultant.analysis.choose import percent
from resultant.analysis.result import SetComparison
from resultant.analysis.run import Study
from resultant.analysis.split import row_weights
from resultant.features.identities import match_rows

WORDS = {"better": "B is better than A", "worse": "A is better than B"}
WORDS["tie"] = "A and B are not significantly different"


def compare_sets(studies: Sequence[Study], a: int, b: int) -> SetComparison:
    """Compare two feature sets on test rows paired by their identities, or else on two samples."""
    sides = studies[a], studies[b]
    metric, values = sides[0].plan.metric, []
    labels = [side.data.test.y[side.plan.test] for side in sides]
    known = [side.data.test.identities for side in sides]
    match = None
    if known[0] is not None and known[1] is not None:
        match = match_rows(known[0][sides[0].plan.test], known[1][sides[1].plan.test])
    paired = match is not None and match.kind in ("same", "reordered")
    if match is not None and paired:
        weights = row_weights(labels[0][match.a], metric)
        d = metrics.paired_gain(sides[0].right[match.a], sides[1].right[match.b], weights)
        number, rows = len(match.a), "the same test rows"
    else:
        d = metrics.unpaired_gain(
            *((s.right, row_weights(y, metric)) for s, y in zip(sides, labels, strict=True))
        )
        number, rows = sum(map(len, labels)), "test rows that are not known to be the same"
    for side, name in zip(sides, "AB", strict=True):
        assert side.result is not None, "summarize before"
        method = side.result.method(side.used.key)
        values.append(f"{name} has {percent(method.metric(metric))} with {method.name}")
    value, low, high = (signed(100 * v) for v in (d.gain, d.low, d.high))
    text = f"{WORDS[d.verdict]}: {metric} of {' and '.join(values)}; {value} points [{low}, {high}]"
    text += f" for B on {rows}, p = {d.p_value:.2g}."
    return SetComparison(a, b, metric, d, paired, number, text)
