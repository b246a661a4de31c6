"""Next steps in sentences of the numbers: labels to check, classes that need rows, and what
more rows would bring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from resultant._core.text import class_name, counted, in_points, listed, shortened
from resultant.analysis import metrics
from resultant.analysis.candidate import Candidate, predict
from resultant.analysis.fit import fitted_model
from resultant.analysis.metrics import Difference, stratified
from resultant.analysis.result import Confusion, CurvePoint, FeatureData, Method, RowTable
from resultant.analysis.split import FeatureSet, Plan, row_weights

# Shares of the training rows of a learning curve.
SHARES = (0.125, 0.25, 0.5, 1.0)

# Classes that are named at most, and how far below the mean accuracy of all they are.
WORST, BELOW = 3, 0.1
# Accuracy on the test rows from which most labels that a classifier disagrees with are wrong.
MOSTLY_RIGHT = 0.8

# Share of a class that is taken for one other class, and test rows, from which a pair is named.
CONFUSED, ROWS = 0.1, 3


def learning_curve(data: FeatureSet, plan: Plan, used: Candidate) -> tuple[CurvePoint, ...]:
    """Evaluate a method, with its settings, after fits to parts of the training rows."""
    labels = data.test.y[plan.test]
    weights, models, sizes = row_weights(labels, plan.metric), [], []
    for share in SHARES:
        rows = data.fitted[stratified(data.train.y[data.fitted], share * len(data.fitted))]
        if len(rows) == len(data.fitted) and share < 1:
            continue
        models.append(fitted_model(used, data, rows, {})[0])
        sizes.append(len(rows))
    tested = predict(models, data.test, plan.test, data.num_classes)
    hits = [one.predicted == labels for one in tested]
    same = plan.test_copies
    gains = (metrics.paired_gain(h, hits[-1], weights, copies=same) for h in hits)
    return tuple(
        CurvePoint(n, metrics.share(h, weights, same), gain)
        for n, h, gain in zip(sizes, hits, gains, strict=True)
    )


def next_steps(
    data: FeatureData,
    used: Method,
    confusion: Confusion,
    tables: dict[str, RowTable],
    curve: Sequence[CurvePoint],
) -> Iterator[str]:
    """Yield sentences about what to do next."""
    unexpected = ""
    if (errors := tables.get("label")) is not None and errors.total:
        begin = f"begin with {shortened(errors.places.name(0), 120)}"
        doubt = own_errors(used)
        if used.accuracy.value < MOSTLY_RIGHT:
            labels = counted(errors.total, "label disagrees", "labels disagree")
            unexpected = f"{labels} clearly with {doubt}. To look for wrong ones, {begin}."
        else:
            labels = counted(errors.total, "label that disagrees", "labels that disagree")
            first = f"Check {labels} clearly with {doubt}; {begin}"
            most, number = np.unique(errors.label, return_counts=True)
            if len(errors.label) == errors.total and number.max() > max(2, errors.total / 4):
                own = class_name(data.class_names[most[number.argmax()]])
                first += f"; {number.max():,} of them have the label {own}"
            yield f"{first}. Correct or remove the wrong ones, and analyze again."
    accuracy, count = used.class_accuracy, data.train_count
    mean = float(np.nanmean(accuracy))
    order = np.argsort(accuracy, kind="stable")
    low = [c for c in order if accuracy[c] < mean - BELOW][:WORST]
    if few := [c for c in low if count[c] < np.median(count)]:
        words = [
            f"{class_name(data.class_names[c])} ({counted(int(count[c]), 'row', 'rows')}, "
            f"{100 * accuracy[c]:.0f} %)"
            for c in few
        ]
        yield f"Collect rows of {listed(words)}: few rows, and the least accurate classes."
    pairs = list(zip(confusion.pairs.tolist(), confusion.count, confusion.share, strict=True))
    often = [(share, pair) for pair, number, share in pairs if number >= ROWS]
    if often and max(often)[0] >= CONFUSED:
        share, (true, other) = max(often)
        names = (class_name(data.class_names[c]) for c in (true, other))
        text = "Compare the definitions of {} and {}: ".format(*names)
        text += f"{100 * share:.0f} % of the first are taken for the second"
        back = next((s for pair, _, s in pairs if pair == [other, true]), None)
        yield text + (f", {100 * back:.0f} % of the second for the first." if back else ".")
    if len(curve) > 1:
        share = curve[-2].rows / curve[-1].rows
        yield f"{used.name} {about_rows(data, curve[-2].rest, share)}"
    if unexpected:
        yield unexpected


def own_errors(used: Method) -> str:
    """Name a method that labels disagree with, and say how often it is wrong itself."""
    wrong, low, high = (
        f"{100 * (1 - v):.1f}" for v in (used.accuracy.value, used.accuracy.high, used.accuracy.low)
    )
    text = f"{used.name}, which is itself wrong on {wrong} % of the test rows (95 % interval {low}"
    return f"{text} to {high} %, wrong labels counted as its errors): look before you change any"


def about_rows(data: FeatureData, gain: Difference, share: float) -> str:
    """Return what more rows may bring, by the gain of all rows over a part of them."""
    text = f"gains {in_points(gain.gain, gain.low, gain.high)} of {data.metric}"
    text += f" by all training rows instead of {100 * share:.0f} % of them"
    if gain.verdict == "better":
        return f"{text}: more rows of this kind are likely to help."
    return f"{text}: more rows of this kind are not known to help."
