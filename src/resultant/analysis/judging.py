"""Quality of finished rules on the same held-out rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from resultant._core.arrays import exponentials, largest
from resultant.analysis.advice import Difference, Probabilities, Reliability, RuleRow
from resultant.analysis.metrics import (
    NORMAL,
    SIGNIFICANCE,
    calibration_error,
    class_means,
    confidence_bins,
)
from resultant.analysis.space import FrozenSpace, Progress
from resultant.classes.cosines import cosines
from resultant.classifiers.calibrators import Calibrators

# Rows below which calibration errors are not computed.
FEW_ROWS = 30


class Batch(NamedTuple):
    """Held-out rows: their positions, unit vectors [n, p], and cosines [n, C] with the classes."""

    at: slice
    z: Tensor
    rho: Tensor


@dataclass(frozen=True, eq=False)
class FinishedRule:
    """A rule with its settings and its fitted scale.

    Attributes:
        key: Unique name.
        name: Name for people.
        kind: "vmf" or "reference".
        settings: Settings by name.
        scale: Factor of the scores that makes probabilities of them.
        scores: Function of a `Batch` that returns new scores [n, C].
        fit_seconds: Seconds of the fit.
        rows: Fitted rows.
        note: A sentence about the fit, or "".
        calibrators: Scikit-learn's calibration of the scores with their scale, or None.
    """

    key: str
    name: str
    kind: str
    settings: dict[str, Any]
    scale: float
    scores: Callable[[Batch], Tensor]
    fit_seconds: float
    rows: int
    note: str = ""
    calibrators: Calibrators | None = None


@dataclass(frozen=True, eq=False)
class Judgement:
    """A row of the table, and the predictions [N] behind it."""

    row: RuleRow
    prediction: Tensor


@torch.no_grad()
def judge(
    space: FrozenSpace,
    rules: Sequence[FinishedRule],
    rows: Tensor | None = None,
    progress: Progress | None = None,
) -> list[Judgement]:
    """Score held-out rows by finished rules.

    Args:
        space: The classes and the held-out rows.
        rules: The rules.
        rows: Indices [N] of the held-out rows, by default all.
        progress: Called with the name of the step and the fraction that is done.

    Returns:
        A judgement of each rule.
    """
    if not rules:
        return []
    labels = space.test_labels if rows is None else space.test_labels[rows]
    N = len(labels)
    columns = [torch.empty(5, N, dtype=torch.float64) for _ in rules]
    seconds = [0.0] * len(rules)
    mu = space.state.mu.to(space.device, space.dtype)
    for at, z, y in space.queries(rows):
        started = time.perf_counter()
        rho = cosines(z, mu)
        shared = time.perf_counter() - started
        for number, rule in enumerate(rules):
            started = time.perf_counter()
            s = rule.scores(Batch(at, z, rho))
            seconds[number] += time.perf_counter() - started
            seconds[number] += shared if rule.kind == "vmf" else 0.0
            columns[number][:, at] = _measures(s, y, rule).cpu()
        if progress is not None:
            progress("judge", at.stop / N)
    return [
        _judgement(space, rule, labels, column, spent)
        for rule, column, spent in zip(rules, columns, seconds, strict=True)
    ]


def _measures(s: Tensor, y: Tensor, rule: FinishedRule) -> Tensor:
    """Predictions, cross-entropies and confidences [5, n] without and with the calibration."""
    best, index = largest(s)
    p = None if rule.calibrators is None else rule.calibrators.predict_proba(rule.scale * s)
    d = s.sub_(best[:, None])
    own = d.gather(1, y[:, None])[:, 0]
    measures = [index.double()]
    for factor in (1.0, rule.scale) if p is None else (1.0,):
        total = exponentials(d, factor).sum(1)
        measures += [total.log().double() - factor * own.double(), 1 / total.double()]
    if p is not None:
        # An isotonic probability may be zero; as in scikit-learn it counts as the least above.
        own, top = (p.double().gather(1, at[:, None])[:, 0] for at in (y, index))
        measures += [-own.clamp_min(torch.finfo(own.dtype).eps).log(), top]
    return torch.stack(measures)


def _judgement(
    space: FrozenSpace, rule: FinishedRule, labels: Tensor, column: Tensor, seconds: float
) -> Judgement:
    prediction = column[0].long()
    right = prediction == labels
    per_class = class_means(right, labels, space.num_classes)
    accuracy = float(right.double().mean())
    low, high = wilson(accuracy, len(labels))
    before, after = (
        _probabilities(float(nll.mean()), confidence, right)
        for nll, confidence in (column[1:3], column[3:5])
    )
    row = RuleRow(
        key=rule.key,
        name=rule.name,
        kind=rule.kind,
        settings={**rule.settings, "scale": rule.scale},
        accuracy=accuracy,
        low=low,
        high=high,
        balanced=float(per_class.nanmean()),
        groups={name: mean for name, (mean,) in space.group_means(per_class[None]).items()},
        before=before,
        after=after,
        fit_seconds=rule.fit_seconds,
        predict_seconds=seconds,
        rows=rule.rows,
        note=rule.note,
    )
    return Judgement(row, prediction)


def _probabilities(nll: float, confidence: Tensor, right: Tensor) -> Probabilities:
    if len(right) < FEW_ROWS:
        return Probabilities(nll)
    bins = confidence_bins(confidence, right)
    return Probabilities(nll, float(calibration_error(*bins)), Reliability(*bins))


def wilson(accuracy: float, number: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of an accuracy of ``number`` rows.

    Example:
        >>> [round(end, 4) for end in wilson(0.5, 100)]
        [0.4038, 0.5962]
    """
    square = NORMAL**2 / number
    middle = (accuracy + square / 2) / (1 + square)
    reach = NORMAL * math.sqrt(accuracy * (1 - accuracy) / number + square / (4 * number))
    reach /= 1 + square
    return max(0.0, middle - reach), min(1.0, middle + reach)


def metric_weights(labels: Tensor, metric: str) -> Tensor:
    """Weights [N] whose mean of correct predictions is the metric: equal, or equal per class."""
    if metric == "accuracy":
        return torch.full((len(labels),), 1 / len(labels), dtype=torch.float64)
    weights = 1 / torch.bincount(labels).double()[labels]
    return weights / weights.sum()


def difference(
    after: Tensor, before: Tensor, weights: Tensor, margin: float, comparisons: int = 1
) -> Difference:
    """Compare correct predictions ``after`` [N] bool with those ``before`` [N] bool.

    The interval is normal and holds for all ``comparisons`` together at 95 % (Bonferroni). The
    variance of the paired differences has one more row that each rule alone predicts correctly
    (Agresti and Min): without a difference among ten rows, rules are undecided, not equivalent.

    Args:
        after: Correct predictions of one rule.
        before: Correct predictions of the other rule.
        weights: Weights [N] that sum to one.
        margin: Differences below are ties.
        comparisons: Number of comparisons that are made on the same rows.

    Example:
        >>> a, b = torch.arange(400) < 300, torch.arange(400) < 200
        >>> difference(a, b, metric_weights(torch.zeros(400).long(), "accuracy"), 0.005).verdict
        'better'
    """
    d = after.double() - before.double()
    gain = float(d @ weights)
    quantile = float(torch.special.ndtri(torch.tensor(1 - SIGNIFICANCE / 2 / comparisons).double()))
    variance = (weights * (d - gain)).square().sum() + 2 * weights.square().mean()
    reach = quantile * math.sqrt(float(variance))
    low, high = max(-1.0, gain - reach), min(1.0, gain + reach)
    verdict = "undecided"
    if abs(gain) >= margin and not low <= 0 <= high:
        verdict = "better" if gain > 0 else "worse"
    elif -margin < low and high < margin:
        verdict = "equivalent"
    return Difference(gain, low, high, verdict)


def compared(
    judgements: Sequence[Judgement], advised: str, labels: Tensor, metric: str, margin: float
) -> tuple[RuleRow, ...]:
    """Return the rows of the table with their differences to the advised rule."""
    weights = metric_weights(labels, metric)
    right: Mapping[str, Tensor] = {j.row.key: j.prediction == labels for j in judgements}
    rows = []
    for j in judgements:
        row = j.row
        if row.key != advised:
            change = difference(
                right[row.key], right[advised], weights, margin, len(judgements) - 1
            )
            row = replace(row, difference=change)
        rows.append(row)
    return tuple(rows)
