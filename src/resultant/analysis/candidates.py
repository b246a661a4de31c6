"""Classifiers that an analysis tries, validated alike on the same rows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant.analysis.data import FeatureSet, Plan, Split

# A probability of zero counts as this one in a log-loss, as in scikit-learn.
SMALLEST = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of one model."""

    predicted: Tensor  # classes [n] of the largest probability
    confidence: Tensor  # the largest probability [n]
    loss: Tensor  # log-loss [n], from the probability of the own class
    seconds: float = 0.0

    @staticmethod
    def of(p: Tensor, y: Tensor, seconds: float = 0.0) -> Predictions:
        """Return the predictions of probabilities [n, C] for rows of classes [n]."""
        confidence, predicted = p.max(1)
        loss = -p.gather(1, y[:, None])[:, 0].double().clamp_min(SMALLEST).log()
        return Predictions(predicted, confidence.double(), loss, seconds)


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
    # The classifier with a method predict_proba, fitted to all training rows or to a sample of
    # them.
    model: Any
    fit_seconds: float  # seconds of this fit
    rows: int  # rows of this fit
    note: str = ""  # a sentence about sampling or convergence, or ""


def predict(
    models: Sequence[Any], split: Split, rows: Tensor, num_classes: int
) -> list[Predictions]:
    """Predict some rows [n] of a split by several models; every row is read once."""
    results = []
    for _ in models:
        confidence, loss = torch.empty(2, len(rows), dtype=torch.float64)
        results.append(Predictions(torch.empty(len(rows), dtype=torch.int64), confidence, loss))
    for at, parts in split.map(partial(_predict, models, num_classes), rows, num_classes):
        for i, part in enumerate(parts):
            done = results[i]
            done.predicted[at], done.confidence[at] = part.predicted, part.confidence
            done.loss[at] = part.loss
            results[i] = replace(done, seconds=done.seconds + part.seconds)
    return results


def _predict(models: Sequence[Any], num_classes: int, x: Tensor, y: Tensor) -> list[Predictions]:
    parts = []
    for model in models:
        started = time.perf_counter()
        p = probabilities(model, x, num_classes)
        parts.append(Predictions.of(p, y, time.perf_counter() - started))
    return parts


def joined(parts: Iterable[Predictions]) -> Predictions:
    """Join the predictions of several folds."""
    parts = list(parts)
    columns = ([getattr(p, name) for p in parts] for name in ("predicted", "confidence", "loss"))
    return Predictions(*map(torch.cat, columns), seconds=sum(part.seconds for part in parts))


def probabilities(model: Any, x: Tensor, num_classes: int) -> Tensor:
    """Return the probabilities [n, C] of a model for rows [n, p], on the CPU; zero for classes
    that the model was not fitted to."""
    rows = x if hasattr(model, "statistics_") else x.numpy()
    p = torch.as_tensor(model.predict_proba(rows)).cpu()
    if p.shape[1] == num_classes:
        return p
    return p.new_zeros(len(p), num_classes).index_copy_(1, torch.as_tensor(model.classes_), p)


class Majority:
    """Always the largest class, with the shares of all classes as probabilities."""

    def __init__(self, counts: Tensor) -> None:
        self.share = (counts / counts.sum()).numpy()

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the shares [n, C] of the classes."""
        return np.broadcast_to(self.share, (len(X), len(self.share))).copy()


def majority(data: FeatureSet, plan: Plan) -> Candidate:
    """Return the baseline that always predicts the largest class."""
    model = Majority(data.counts)
    checked = predict([model], plan.validation, plan.rows, data.num_classes)[0]
    about = ("majority", "always the largest class", "baseline", -1, {}, "")
    return Candidate(*about, checked, model, 0.0, len(data.fitted))
