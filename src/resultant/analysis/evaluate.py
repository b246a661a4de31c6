"""Classifiers that an analysis tries: validated alike, one chosen, all evaluated on test rows."""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from resultant._core.text import class_name, signed
from resultant.analysis import metrics
from resultant.analysis.data import ACCURACY, BALANCED, FeatureSet, Plan, Split, row_weights
from resultant.analysis.result import Confusion, Method, Recommendation, Reliability
from resultant.analysis.space import named_groups
from resultant.classes.groups import shot_groups
from resultant.classifiers.calibration import calibration_error, confidence_bins

# A probability of zero counts as this one in a log-loss, as in scikit-learn.
SMALLEST = float(np.finfo(np.float64).eps)

# Rows below which calibration errors are not computed.
FEW_ROWS = 30

# Standard errors by which a method must beat the largest class: one of a dozen methods does so by
# chance in six cases of a hundred.
BEATS = 2.6

# Classes of a confusion matrix at most, and confused pairs that are kept.
MATRIX_CLASSES = 200
PAIRS = 50


class Predictions(NamedTuple):
    """Predictions of one model."""

    predicted: Tensor  # classes [n] of the largest probability
    confidence: Tensor  # the largest probability [n]
    loss: Tensor  # log-loss [n], from the probability of the own class
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Candidate:
    """A classifier with its settings, validated, and fitted to all training rows."""

    key: str  # unique name, see `resultant.analysis.result.Method`
    name: str  # name for people
    family: str  # "vmf", "scikit-learn" or "baseline"
    rank: float  # place in the order from simple to complex; ties go to the smaller one
    settings: dict[str, Any]
    code: str  # Python that builds the classifier
    validated: Predictions  # predictions of the validation rows by a fit without them
    model: Any  # classifier with predict_proba, fitted to all training rows or to a sample of them
    fit_seconds: float  # seconds of this fit
    rows: int  # rows of this fit
    note: str = ""  # a sentence about sampling or convergence, or ""


def majority(data: FeatureSet, plan: Plan) -> Candidate:
    """Return the baseline that always predicts the largest class."""
    from sklearn.dummy import DummyClassifier

    y = data.train.y.numpy()
    model = DummyClassifier(strategy="prior").fit(y[:, None], y)
    checked = predict([model], plan.validation, plan.rows, data.num_classes)[0]
    about = ("majority", "always the largest class", "baseline", -1, {}, "")
    return Candidate(*about, checked, model, 0.0, len(data.fitted))


def predict(
    models: Sequence[Any], split: Split, rows: Tensor, num_classes: int
) -> list[Predictions]:
    """Predict some rows [n] of a split by several models; every row is read once."""
    columns = torch.empty(len(models), 3, len(rows), dtype=torch.float64)
    seconds = len(models) * [0.0]
    for at, parts in split.map(partial(_predict, models, num_classes), rows, num_classes):
        for i, (part, spent) in enumerate(parts):
            columns[i, :, at] = part
            seconds[i] += spent
    return [Predictions(c[0].long(), c[1], c[2], s) for c, s in zip(columns, seconds, strict=True)]


def _predict(
    models: Sequence[Any], num_classes: int, x: Tensor, y: Tensor
) -> list[tuple[Tensor, float]]:
    """Return class, confidence and log-loss [3, k] of rows [k, p], and seconds, per model."""
    parts, shared = [], {}
    for model in models:
        started, sums = time.perf_counter(), getattr(model, "statistics_", None)
        if sums is not None and id(sums) not in shared:
            # Methods of one fit share the cosines; each counts their time.
            shared[id(sums)] = model._cosines(x.to(sums.device)), time.perf_counter() - started
            started = time.perf_counter()
        cosine, before = shared.get(id(sums), (None, 0.0))
        p = probabilities(model, x, num_classes, cosine)
        confidence, predicted = p.max(1)
        loss = -p.gather(1, y[:, None])[:, 0].double().clamp_min(SMALLEST).log()
        part = torch.stack([predicted.double(), confidence.double(), loss])
        parts.append((part, before + time.perf_counter() - started))
    return parts


def joined(parts: Iterable[Predictions]) -> Predictions:
    """Join the predictions of several folds."""
    predicted, confidence, loss = map(torch.cat, zip(*(part[:3] for part in parts), strict=True))
    return Predictions(predicted, confidence, loss)


def probabilities(model: Any, x: Tensor, num_classes: int, cosine: Tensor | None = None) -> Tensor:
    """Return the probabilities [n, C] of rows [n, p]; zero for classes that were not fitted."""
    if hasattr(model, "statistics_"):
        p = model._logits(x, cosine).softmax(-1).cpu()
    else:
        p = torch.as_tensor(model.predict_proba(x.numpy()))
    if p.shape[1] == num_classes:
        return p
    return p.new_zeros(len(p), num_classes).index_copy_(1, torch.as_tensor(model.classes_), p)


def choose(candidates: Sequence[Candidate], plan: Plan, vmf: str | None) -> tuple[str, str | None]:
    """Return the keys of the best method on the validation rows, and of that to use: the simplest
    at most one paired standard error behind, or None if it does not beat the largest class."""
    hits = {c.key: (c.validated.predicted == plan.labels).double() for c in candidates}
    able = [c for c in candidates if c.family == "scikit-learn" or c.key == vmf]
    best = max(able, key=lambda c: (float(hits[c.key] @ plan.weights), -c.rank))

    def ties(c: Candidate) -> bool:
        behind, error = metrics.mean_and_error(hits[best.key] - hits[c.key], plan.weights)
        return behind <= error

    chosen = min(filter(ties, able), key=lambda c: c.rank)
    ahead, error = metrics.mean_and_error(hits[chosen.key] - hits["majority"], plan.weights)
    return best.key, chosen.key if ahead > BEATS * error else None


def evaluate(
    candidates: Sequence[Candidate], key: str | None, data: FeatureSet, plan: Plan
) -> tuple[tuple[Method, ...], dict[str, Predictions]]:
    """Evaluate all methods on the test rows."""
    labels = data.test.y[plan.test]
    results = predict([c.model for c in candidates], data.test, plan.test, data.num_classes)
    tested = {c.key: result for c, result in zip(candidates, results, strict=True)}
    weights, equal = row_weights(labels, plan.metric), row_weights(labels, ACCURACY)
    group, names = shot_groups(data.counts), named_groups(data.counts)
    methods = []
    for c, found in zip(candidates, results, strict=True):
        hits, difference, reliability = found.predicted == labels, None, None
        if key is not None and key != c.key:
            both = tested[key].predicted == labels, hits
            difference = metrics.paired_gain(*both, weights, len(candidates) - 1)
        right = hits.double()
        per_class = metrics.class_means(right, labels, data.num_classes)
        if len(labels) >= FEW_ROWS:
            bins = confidence_bins(found.confidence.numpy(), right.numpy())
            reliability = Reliability(*bins, calibration_error(*bins))
        method = Method(
            *(c.key, c.name, c.family, c.settings, c.code),
            validation=_share((c.validated.predicted == plan.labels).double(), plan.weights),
            validation_loss=_mean(c.validated.loss, plan.weights),
            accuracy=_share(right, equal),
            balanced=_share(right, row_weights(labels, BALANCED)),
            log_loss=_mean(found.loss, equal),
            reliability=reliability,
            groups={name: float(per_class[group == g].nanmean()) for g, name in enumerate(names)},
            class_accuracy=per_class.numpy(),
            difference=difference,
            fit_seconds=c.fit_seconds,
            predict_seconds=found.seconds,
            rows=c.rows,
            note=c.note,
        )
        methods.append(method)
    methods.sort(key=lambda m: -m.validation.value)
    return tuple(methods), tested


def _share(hits: Tensor, weights: Tensor) -> metrics.Estimate:
    """Return a weighted share with Wilson's interval for the effective number of rows."""
    mean, error = metrics.mean_and_error(hits, weights)
    mean, number = min(max(mean, 0.0), 1.0), 1 / float(weights.square().sum())
    square = metrics.NORMAL**2 / number
    middle = (mean + square / 2) / (1 + square)
    reach = metrics.NORMAL * math.sqrt(mean * (1 - mean) / number + square / (4 * number))
    reach /= 1 + square
    return metrics.Estimate(mean, max(0.0, middle - reach), min(1.0, middle + reach), error)


def _mean(values: Tensor, weights: Tensor) -> metrics.Estimate:
    mean, error = metrics.mean_and_error(values, weights)
    reach = metrics.NORMAL * error
    return metrics.Estimate(mean, mean - reach, mean + reach, error)


def confusion(predicted: Tensor, labels: Tensor, num_classes: int) -> Confusion:
    """Count the errors between classes."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    wrong = predicted != labels
    cells, count = (labels * num_classes + predicted)[wrong].unique(return_counts=True)
    top = count.argsort(descending=True, stable=True)[:PAIRS]
    true, other = cells[top] // num_classes, cells[top] % num_classes
    rows = torch.bincount(labels, minlength=num_classes)
    matrix = order = None
    if num_classes <= MATRIX_CLASSES:
        whole = torch.bincount(labels * num_classes + predicted, minlength=num_classes**2)
        matrix = whole.view(num_classes, num_classes).numpy()
        order = np.arange(num_classes)
        if num_classes > 2:
            # Confused classes are side by side.
            share = matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
            distance = 1 - np.minimum((share + share.T) / 2, 1)
            np.fill_diagonal(distance, 0.0)
            order = leaves_list(linkage(squareform(distance, checks=False), "average"))
    pairs, part = torch.stack([true, other], 1), (count[top] / rows[true]).double()
    return Confusion(pairs.numpy(), count[top].numpy(), part.numpy(), matrix, order)


def recommend(
    methods: Sequence[Method], best_key: str, key: str | None, data: FeatureSet, plan: Plan
) -> Recommendation:
    """Put the choice into two sentences."""
    named = {m.key: m for m in methods}
    m, best = named[key or best_key], named[best_key]
    if key is None:
        words = class_name(data.class_names[int(data.counts.argmax())])
        reason = f"On {plan.words}, no method is clearly ahead of always predicting {words} "
        reason += f"({_percent(named['majority'].validation)} {plan.metric}; the best is "
        reason += f"{best.name} with {_percent(best.validation)})."
        first = "These features do not carry these labels."
        return Recommendation(None, best_key, (first, reason), "")
    value = m.metric(plan.metric)
    first = f"Use {m.name}: {_percent(value)} {plan.metric} on the test rows "
    first += f"({100 * value.low:.1f} to {100 * value.high:.1f})."
    reason = f"It has the best {plan.metric} on the validation rows ({_percent(m.validation)})"
    if best.key != m.key:
        reason = "It is the simplest method within one standard error of the best on the validation"
        reason += f" rows ({_percent(m.validation)}; {best.name} {_percent(best.validation)})"
    others = [o for o in methods if o.family != "baseline" and o.difference is not None]
    if others:
        other = max(others, key=lambda o: o.metric(plan.metric).value)
        d = other.difference
        assert d is not None
        gain, low, high = (signed(-100 * v) for v in (d.gain, d.high, d.low))
        word = {"tie": "ties with", "worse": "beats", "better": "is behind"}[d.verdict]
        reason += f"; on the test rows it {word} {other.name}: {gain} points [{low}, {high}]"
    return Recommendation(key, best_key, (first, f"{reason}."), m.code)


def _percent(value: metrics.Estimate) -> str:
    return f"{100 * value.value:.1f} %"
