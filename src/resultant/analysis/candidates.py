"""Classifiers that an analysis tries, validated alike on the same rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from resultant.analysis.data import Split

# A probability of zero counts as this one in a log-loss, as in scikit-learn.
SMALLEST = float(np.finfo(np.float64).eps)

# Dtypes of predicted classes, confidences and losses.
DTYPES = (torch.int64, torch.float64, torch.float64)


class Model(Protocol):
    """A fitted classifier of the classes 0 to C - 1."""

    def predict_proba(self, X: Any, /) -> Any:
        """Return probabilities [n, C] of rows [n, p]."""
        ...


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of one model.

    Attributes:
        predicted: Classes [n] of the largest probability.
        confidence: The largest probability [n].
        loss: Log-loss [n], from the probability of the own class.
        seconds: Seconds of the model.
    """

    predicted: Tensor
    confidence: Tensor
    loss: Tensor
    seconds: float


@dataclass(frozen=True, eq=False)
class Candidate:
    """A classifier with its settings, validated, and fitted to all training rows.

    Attributes:
        key: Unique name, see `resultant.analysis.result.Method`.
        name: Name for people.
        family: "vmf", "scikit-learn" or "baseline".
        rank: Place in the order from simple to complex; ties go to the smaller one.
        settings: Settings by name of the API.
        code: Python that builds the classifier.
        validated: Predictions of the validation rows by a fit without them.
        model: The classifier, fitted to all training rows or to a sample of them.
        fit_seconds: Seconds of this fit.
        rows: Rows of this fit.
        note: A sentence about sampling or convergence, or "".
    """

    key: str
    name: str
    family: str
    rank: float
    settings: dict[str, Any]
    code: str
    validated: Predictions
    model: Any
    fit_seconds: float
    rows: int
    note: str = ""


def predict(
    models: Sequence[Model], split: Split, rows: Tensor | None, num_classes: int
) -> list[Predictions]:
    """Predict some rows of a split by several models; every row is read once.

    Args:
        models: Fitted classifiers.
        split: The split.
        rows: Indices [n], by default all rows.
        num_classes: C.

    Returns:
        Predictions of each model.
    """
    number = len(split) if rows is None else len(rows)
    results = [
        Predictions(*(torch.empty(number, dtype=d) for d in DTYPES), seconds=0.0) for _ in models
    ]
    for at, parts in split.map(partial(_predict, models), rows, num_classes):
        for i, part in enumerate(parts):
            done = results[i]
            done.predicted[at], done.confidence[at] = part.predicted, part.confidence
            done.loss[at] = part.loss
            results[i] = replace(done, seconds=done.seconds + part.seconds)
    return results


def _predict(models: Sequence[Model], x: Tensor, y: Tensor) -> list[Predictions]:
    """Predict vectors [k, p] of classes [k] by several models."""
    parts = []
    for model in models:
        started = time.perf_counter()
        p = probabilities(model, x)
        confidence, predicted = p.max(1)
        own = p.gather(1, y[:, None])[:, 0].double()
        loss = -own.clamp_min(SMALLEST).log()
        seconds = time.perf_counter() - started
        parts.append(Predictions(predicted, confidence.double(), loss, seconds))
    return parts


def joined(parts: Sequence[Predictions]) -> Predictions:
    """Join the predictions of several folds."""
    columns = ([getattr(p, name) for p in parts] for name in ("predicted", "confidence", "loss"))
    return Predictions(*map(torch.cat, columns), seconds=sum(part.seconds for part in parts))


def probabilities(model: Model, x: Tensor) -> Tensor:
    """Return the probabilities [n, C] of a model for rows [n, p], on the CPU."""
    rows = x if hasattr(model, "statistics_") else x.numpy()
    return torch.as_tensor(model.predict_proba(rows)).cpu()


class Majority:
    """Always the largest class, with the shares of all classes as probabilities.

    Args:
        counts: Training rows [C].
    """

    def __init__(self, counts: Tensor) -> None:
        self.share = (counts / counts.sum()).numpy()

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the shares [n, C] of the classes."""
        return np.broadcast_to(self.share, (len(X), len(self.share))).copy()
