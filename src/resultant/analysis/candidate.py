"""One classifier on its way through an analysis: each step fills in a part."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from resultant.analysis.split import Split

# A probability of zero counts as this one in a log-loss, as in scikit-learn.
SMALLEST = float(np.finfo(np.float64).eps)


class Predictions(NamedTuple):
    """Predictions of one model."""

    predicted: Tensor  # classes [n] of the largest probability
    confidence: Tensor  # the largest probability [n]
    loss: Tensor  # log-loss [n], from the probability of the own class
    seconds: float = 0.0


@dataclass(eq=False)
class Candidate:
    """A classifier: first its settings, then its predictions of validation rows, then the final fit
    and its predictions of test rows."""

    key: str  # unique name, see `resultant.analysis.result.Method`
    name: str  # name for people
    family: str  # "vmf", "scikit-learn" or "baseline"
    rank: float  # place in the order from simple to complex; ties go to the smaller one
    make: Callable[[], Any]  # returns the classifier, not fitted
    settings: dict[str, Any] = field(default_factory=dict)
    code: str = ""  # Python that builds the classifier
    number: float = float("inf")  # training rows at most; beyond, a stratified sample
    note: str = ""  # a sentence about convergence, or ""
    # Filled in by `resultant.analysis.fit`: predictions of each validation row by a fit without it,
    # the classifier fitted to all training rows or to a sample, the rows and seconds of this fit.
    validated: Predictions | None = None
    model: Any = None
    rows: int = 0
    fit_seconds: float = 0.0
    # Filled in by `resultant.analysis.evaluate`: predictions of the test rows.
    tested: Predictions | None = None

    def hits(self, labels: Tensor) -> Tensor:
        """Return correct predictions of the validation rows, 1 or 0 in float64."""
        assert self.validated is not None, "choose after fit"
        return (self.validated.predicted == labels).double()


def predictions(p: Tensor, y: Tensor) -> Predictions:
    """Return the predictions of probabilities [n, C] of rows of classes [n]."""
    confidence, predicted = p.max(1)
    loss = -p.gather(1, y[:, None])[:, 0].double().clamp_min(SMALLEST).log()
    return Predictions(predicted, confidence.double(), loss)


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
    parts = []
    for model in models:
        started = time.perf_counter()
        found = predictions(probabilities(model, x, num_classes), y)
        part = torch.stack([found.predicted.double(), found.confidence, found.loss])
        parts.append((part, time.perf_counter() - started))
    return parts


def probabilities(model: Any, x: Tensor, num_classes: int) -> Tensor:
    """Return the probabilities [n, C] of rows [n, p]; zero for classes that were not fitted."""
    return of_all(model, model.predict_proba(x.numpy()), num_classes, 0.0)


def of_all(model: Any, values: Any, num_classes: int, missing: float) -> Tensor:
    """Return values of fitted classes in columns of all classes [n, C]."""
    values = torch.as_tensor(values)
    if values.shape[1] == num_classes:
        return values
    every = values.new_full((len(values), num_classes), missing)
    return every.index_copy_(1, torch.as_tensor(model.classes_), values)
