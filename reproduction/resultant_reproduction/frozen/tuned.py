"""Native and Pure Angular on frozen features, each at its own temperature."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from resultant.classes.scores import class_scores
from resultant.classes.statistics import ClassStatistics
from resultant_reproduction.frozen.space import rank_in_class

# The rules that are compared.
BOTH = ("native", "angular")
# In descending order: of equal accuracies the first is chosen.
TEMPERATURES = (1.0, 0.5, 0.2, 0.1, 0.07, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 5e-4, 2e-4, 1e-4)
SHARED = 0.1
FOLDS = 5


def tuned(x: Tensor, y: Tensor, queries: Tensor, labels: Tensor) -> dict[str, dict[str, Any]]:
    """Compute the accuracy of both rules at 0.1 and at temperatures chosen by validation, from
    training features ``x`` [N, p] of classes ``y`` [N] and test features [M, p] of classes [M]:
    ``halves`` of the test rows choose for each other, ``folds`` of the training rows for all."""
    x, queries = (F.normalize(a.double(), dim=-1) for a in (x, queries))
    num_classes = int(y.max()) + 1
    statistics = ClassStatistics(num_classes, x.shape[1], device=x.device)
    statistics.update(x, y)
    half, fold = rank_in_class(labels.cpu()) % 2, rank_in_class(y.cpu()) % FOLDS
    half, fold = half.to(x.device), fold.to(x.device)
    # A class with one row is fitted in every fold.
    fold[torch.bincount(y)[y] == 1] = -1
    curves = {rule: ([], [], []) for rule in BOTH}
    for (rule, own), tau in product(curves.items(), TEMPERATURES):
        right = _decide(statistics, queries, tau, rule) == labels
        predicted = torch.full_like(y, -1)
        for k in range(FOLDS):
            held = fold == k
            part = ClassStatistics(num_classes, x.shape[1], device=x.device)
            part.update(x[held], y[held])
            predicted[held] = _decide(statistics.without(part), x[held], tau, rule)
        held = fold >= 0
        own[0].append(float(right[half == 0].double().mean()))
        own[1].append(float(right[half == 1].double().mean()))
        own[2].append(_balanced(predicted[held], y[held]))
    return {rule: _choose(*own) for rule, own in curves.items()}


def _choose(
    first: Sequence[float], second: Sequence[float], folds: Sequence[float]
) -> dict[str, Any]:
    best = [max(range(len(own)), key=own.__getitem__) for own in (first, second, folds)]
    both = [(a + b) / 2 for a, b in zip(first, second, strict=True)]
    return {
        "shared": both[TEMPERATURES.index(SHARED)],
        "halves": (first[best[1]] + second[best[0]]) / 2,
        "folds": both[best[2]],
        "temperatures": [TEMPERATURES[i] for i in best],
        "curves": {"first": list(first), "second": list(second), "folds": list(folds)},
    }


def _decide(statistics: ClassStatistics, z: Tensor, tau: float, rule: str) -> Tensor:
    return class_scores(z, statistics.state("proco"), tau, rule).argmax(-1)


def _balanced(predicted: Tensor, labels: Tensor) -> float:
    right = (predicted == labels).double()
    counts = torch.bincount(labels)
    per_class = right.new_zeros(len(counts)).index_add_(0, labels, right)
    return float((per_class / counts)[counts > 0].mean())
