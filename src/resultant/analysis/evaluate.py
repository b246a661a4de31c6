"""Choose a method on the validation rows, and evaluate all on the test rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from resultant._core.text import class_name, signed
from resultant.analysis.candidates import Candidate, Predictions, predict
from resultant.analysis.data import BALANCED, FeatureSet, Plan, row_weights
from resultant.analysis.metrics import NORMAL, class_means, mean_and_error, paired_gain, wilson
from resultant.analysis.plain import Estimate
from resultant.analysis.result import Confusion, Method, Recommendation, Reliability
from resultant.classifiers.calibration import calibration_error, confidence_bins

# Rows below which calibration errors are not computed.
FEW_ROWS = 30

# Standard errors by which a method must beat the largest class: one of a dozen methods does so by
# chance in six cases of a hundred.
BEATS = 2.6

# Classes of a confusion matrix at most, and confused pairs that are kept.
MATRIX_CLASSES = 200
PAIRS = 50


@dataclass(frozen=True)
class Choice:
    """The keys of the method with the best validation score, and of the recommended one or None."""

    best: str
    key: str | None

    @property
    def used(self) -> str:
        """The recommended method, or the best one."""
        return self.key or self.best


def choose(candidates: Sequence[Candidate], plan: Plan, vmf: str | None) -> Choice:
    """Choose a method by its metric on the validation rows.

    A method ties with the best one if it is at most one standard error of the paired difference
    behind; the simplest of these is chosen (`Candidate.rank`).
    """
    hits = {c.key: (c.validated.predicted == plan.labels).double() for c in candidates}
    able = [c for c in candidates if c.family == "scikit-learn" or c.key == vmf]
    best = max(able, key=lambda c: (float(hits[c.key] @ plan.weights), -c.rank))
    ties = []
    for c in able:
        behind, error = mean_and_error(hits[best.key] - hits[c.key], plan.weights)
        if behind <= error:
            ties.append(c)
    chosen = min(ties, key=lambda c: c.rank)
    ahead, error = mean_and_error(hits[chosen.key] - hits["majority"], plan.weights)
    return Choice(best.key, chosen.key if ahead > BEATS * error else None)


def evaluate(
    candidates: Sequence[Candidate], choice: Choice, data: FeatureSet, plan: Plan
) -> tuple[tuple[Method, ...], dict[str, Predictions], Tensor]:
    """Evaluate all methods on the test rows."""
    labels = data.test.y[plan.test]
    results = predict([c.model for c in candidates], data.test, plan.test, data.num_classes)
    tested = {c.key: result for c, result in zip(candidates, results, strict=True)}
    weights = row_weights(labels, plan.metric)
    right = {key: result.predicted == labels for key, result in tested.items()}
    methods = []
    for c in candidates:
        difference = None
        if choice.key not in (None, c.key):
            both = right[choice.key], right[c.key]
            difference = paired_gain(*both, weights, len(candidates) - 1)
        methods.append(replace(_method(c, tested[c.key], data, plan), difference=difference))
    methods.sort(key=lambda m: -m.validation.value)
    return tuple(methods), tested, labels


def _method(c: Candidate, tested: Predictions, data: FeatureSet, plan: Plan) -> Method:
    labels = data.test.y[plan.test]
    right = (tested.predicted == labels).double()
    per_class = class_means(right, labels, data.num_classes)
    equal = torch.full_like(right, 1 / len(labels))
    reliability = None
    if len(labels) >= FEW_ROWS:
        bins = confidence_bins(tested.confidence.numpy(), right.numpy())
        reliability = Reliability(*bins, calibration_error(*bins))
    return Method(
        *(c.key, c.name, c.family, c.settings, c.code),
        validation=share((c.validated.predicted == plan.labels).double(), plan.weights),
        validation_loss=_mean(c.validated.loss, plan.weights),
        accuracy=share(right, equal),
        balanced=share(right, row_weights(labels, BALANCED)),
        log_loss=_mean(tested.loss, equal),
        reliability=reliability,
        groups={
            name: float(per_class[data.groups == g].nanmean())
            for g, name in enumerate(data.group_names)
        },
        class_accuracy=per_class.numpy(),
        difference=None,
        fit_seconds=c.fit_seconds,
        predict_seconds=tested.seconds,
        rows=c.rows,
        note=c.note,
    )


def share(hits: Tensor, weights: Tensor) -> Estimate:
    """A weighted share of correct predictions, with Wilson's interval for as many rows as the
    weights are worth."""
    mean, error = mean_and_error(hits, weights)
    mean = min(max(mean, 0.0), 1.0)
    worth = 1 / float(weights.square().sum())
    return Estimate(mean, *wilson(mean, worth), error)


def _mean(values: Tensor, weights: Tensor) -> Estimate:
    mean, error = mean_and_error(values, weights)
    return Estimate(mean, mean - NORMAL * error, mean + NORMAL * error, error)


def confusion(predicted: Tensor, labels: Tensor, num_classes: int) -> Confusion:
    """Count the errors between classes."""
    wrong = predicted != labels
    cells, count = (labels * num_classes + predicted)[wrong].unique(return_counts=True)
    top = count.argsort(descending=True, stable=True)[:PAIRS]
    true, other = cells[top] // num_classes, cells[top] % num_classes
    rows = torch.bincount(labels, minlength=num_classes)
    matrix = order = None
    if num_classes <= MATRIX_CLASSES:
        whole = torch.bincount(labels * num_classes + predicted, minlength=num_classes**2)
        matrix = whole.view(num_classes, num_classes).numpy()
        order = _confused_order(matrix)
    return Confusion(
        torch.stack([true, other], 1).numpy(),
        count[top].numpy(),
        (count[top] / rows[true]).double().numpy(),
        matrix,
        order,
    )


def _confused_order(matrix: np.ndarray) -> np.ndarray:
    """Return the order [C] of classes in which confused ones are side by side."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    C = len(matrix)
    if C < 3:
        return np.arange(C)
    share = matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
    distance = 1 - np.minimum((share + share.T) / 2, 1)
    np.fill_diagonal(distance, 0.0)
    return leaves_list(linkage(squareform(distance, checks=False), "average"))


def recommend(
    methods: Sequence[Method], choice: Choice, data: FeatureSet, plan: Plan
) -> Recommendation:
    """Put the choice into two sentences."""
    named = {m.key: m for m in methods}
    m, best = named[choice.used], named[choice.best]
    if choice.key is None:
        words = class_name(data.class_names[int(data.counts.argmax())])
        sentences = (
            "These features do not carry these labels.",
            f"On {plan.words}, no method is clearly ahead of always predicting {words} "
            f"({_percent(named['majority'].validation)} {plan.metric}; the best is {best.name} "
            f"with {_percent(best.validation)}).",
        )
        return Recommendation(None, choice.best, sentences, "")
    value = m.metric(plan.metric)
    first = (
        f"Use {m.name}: {_percent(value)} {plan.metric} on the test rows "
        f"({100 * value.low:.1f} to {100 * value.high:.1f})."
    )
    reason = f"It has the best {plan.metric} on the validation rows ({_percent(m.validation)})"
    if best.key != m.key:
        reason = (
            f"It is the simplest method within one standard error of the best on the validation "
            f"rows ({_percent(m.validation)}; {best.name} {_percent(best.validation)})"
        )
    others = [o for o in methods if o.family != "baseline" and o.difference is not None]
    if others:
        other = max(others, key=lambda o: o.metric(plan.metric).value)
        d = other.difference
        assert d is not None
        value, low, high = (signed(-100 * v) for v in (d.gain, d.high, d.low))
        gain = f"{value} points [{low}, {high}]"
        word = {"tie": "ties with", "worse": "beats", "better": "is behind"}[d.verdict]
        reason += f"; on the test rows it {word} {other.name}: {gain}"
    return Recommendation(choice.key, choice.best, (first, f"{reason}."), m.code)


def _percent(value: Estimate) -> str:
    return f"{100 * value.value:.1f} %"
