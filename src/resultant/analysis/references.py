r"""Reference classifiers of scikit-learn on the same directions as the vMF rules.

Settings (C of logistic regression, k of kNN, the exponent of tau-normalization) and the scale of
the scores are chosen on rows that are not fitted, by the same loss as the settings of the vMF
rules.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant.analysis.choice import ChoosingRows
from resultant.analysis.judging import FinishedRule
from resultant.analysis.space import FrozenSpace, Progress, unit_chunks

REFERENCES = ("none", "fast", "all")

NAMES = {
    "logistic": "Logistic regression",
    "logistic-balanced": "Logistic regression, balanced",
    "tau-normalized": "Linear probe, tau-normalized",
    "lda": "LDA, empirical prior",
    "lda-equal": "LDA, equal prior",
    "knn": "kNN, cosine",
    "centroid": "Nearest centroid",
}

# Settings that are tried; C is extended threefold beyond an edge that is best.
COSTS = (3.0, 10.0, 30.0)
COST_LIMITS = (1e-3, 1e5)
# Rows times classes that choose settings of references.
CHOOSING_CELLS = 1e6

NEIGHBOURS = (1, 3, 5, 10, 20, 50)
EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)


@dataclass(frozen=True)
class Budget:
    """Sizes up to which all rows are fitted; beyond them a stratified sample is.

    Attributes:
        cells: Rows times classes of a logistic regression.
        trial_cells: The same while C is chosen.
        neighbours: Rows of kNN, and products of held-out rows, rows and dimension.
        covariance: Classes times squared dimension of shrinkage LDA; it is left out beyond.
        iterations: Iterations of a logistic regression.
    """

    cells: float
    trial_cells: float
    neighbours: tuple[float, float]
    covariance: float
    iterations: int


BUDGETS = {
    "fast": Budget(1.2e6, 2e5, (4e3, 5e10), 2e8, 40),
    "all": Budget(1e9, 2e6, (1e6, 1e14), 4e9, 1000),
}


class _Data:
    """Unit rows of a space as NumPy arrays: rows to fit, and a division that chooses settings."""

    def __init__(self, space: FrozenSpace, rows: ChoosingRows, budget: Budget) -> None:
        self.space, self.budget, self.rows = space, budget, rows
        self.C = space.num_classes
        fitted = torch.arange(len(space.labels))
        if space.fitting is not None:
            fitted = space.fitting.nonzero().squeeze(1)
        self.fitted = fitted
        self.device = torch.device("cpu")

    def sample(self, number: float, pool: Tensor | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return at most about ``number`` unit rows and labels, at least two rows per class."""
        pool = self.fitted if pool is None else pool
        index = stratified(self.space.labels[pool], number)
        return self.read(self.space.train, self.space.labels, pool[index])

    def read(self, vectors: Any, labels: Tensor, index: Tensor) -> tuple[np.ndarray, np.ndarray]:
        x = torch.empty(len(index), self.space.dim)
        for at, z, _ in unit_chunks(
            vectors, labels, 1 << 13, torch.float32, self.device, rows=index
        ):
            x[at] = z
        return x.numpy(), labels[index].numpy()

    def trial(self, number: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, Tensor, Tensor]:
        """Return rows and labels that are fitted while settings are chosen, and the rows, labels
        and weights that choose."""
        rows, space = self.rows, self.space
        pool, index, own, weights = self.fitted, rows.index, rows.labels, rows.weights
        if rows.folds is not None:
            # One fold chooses, the others are fitted.
            pool, index = ((rows.folds != 0).nonzero()[:, 0], (rows.folds == 0).nonzero()[:, 0])
            index = index[stratified(space.labels[index], CHOOSING_CELLS / self.C)]
            own = space.labels[index]
            mass = torch.ones(self.C) if rows.metric == "balanced" else space.counts
            weights = (mass / torch.bincount(own, minlength=self.C).clamp_min(1)).double()[own]
        x, y = self.sample(number, pool)
        seen = torch.from_numpy(np.isin(own.numpy(), y))
        source = space.val if rows.split == "val" else space.train
        labels = space.val_labels if rows.split == "val" else space.labels
        assert source is not None and labels is not None
        query, own = self.read(source, labels, index[seen])
        return x, y, query, torch.from_numpy(own), weights[seen] / weights[seen].sum()


def stratified(labels: Tensor, number: float, seed: int = 0) -> Tensor:
    """Draw about ``number`` rows, each class in proportion but with two rows or more, in order."""
    from resultant.analysis.sampling import rank_in_class

    if number >= len(labels):
        return torch.arange(len(labels))
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    rank = torch.empty_like(order)
    rank[order] = rank_in_class(labels[order])
    kept = (number / len(labels) * torch.bincount(labels).double()).ceil().clamp_min(2)
    return (rank < kept[labels]).nonzero().squeeze(1)


def reference_rules(
    space: FrozenSpace, rows: ChoosingRows, level: str, progress: Progress | None = None
) -> list[FinishedRule]:
    """Fit the references of a level, ``fast`` or ``all``.

    ``fast`` fits logistic regression and kNN to a stratified sample where rows times classes are
    many, and leaves out LDA where its covariances are; ``all`` does so much later.

    Args:
        space: The classes and their rows.
        rows: The rows that choose settings.
        level: One of `REFERENCES`.
        progress: Called with the name of the step and the fraction that is done.

    Returns:
        The fitted references.

    Raises:
        ValueError: The level is not one of these.
    """
    if level not in REFERENCES:
        raise ValueError(f"expected references among {REFERENCES}, got {level!r}")
    if level == "none":
        return []
    from threadpoolctl import threadpool_limits

    data, rules = _Data(space, rows, BUDGETS[level]), []
    # Convergence within the iterations of the budget is not needed for a reference. Small products
    # are no faster on several threads of BLAS, which wait for one another beside those of torch.
    with warnings.catch_warnings(), threadpool_limits(1, "blas"):
        warnings.simplefilter("ignore")
        for number, family in enumerate((_centroid, _lda, _knn, _logistic)):
            rules += family(data)
            if progress is not None:
                progress("references", (number + 1) / 4)
    order = list(NAMES)
    return sorted(rules, key=lambda rule: order.index(rule.key))


def _rule(
    data: _Data,
    key: str,
    settings: dict[str, Any],
    scale: float,
    scores: Callable[[Tensor], Tensor],
    seconds: float,
    rows: int,
) -> FinishedRule:
    total = len(data.fitted)
    note = "" if rows == total else f"Fitted to a stratified sample of {rows:,} of {total:,} rows."
    return FinishedRule(key, NAMES[key], "reference", settings, scale, scores, seconds, rows, note)


def _chosen(trials: Iterator[tuple[Any, Tensor]], y: Tensor, weights: Tensor) -> tuple[Any, float]:
    """Return the setting with the smallest loss after its own scale, and the scale."""
    from resultant.classifiers.calibration import fit_scale, log_losses

    best: tuple[float, Any, float] | None = None
    for setting, scores in trials:
        scale = fit_scale(scores, y, weights)
        loss = float(log_losses(scores, y, scale) @ weights)
        if best is None or loss < best[0]:
            best = loss, setting, scale
    assert best is not None
    return best[1], best[2]


def _linear(weight: np.ndarray, bias: np.ndarray, classes: np.ndarray, C: int) -> Any:
    """Scores of a linear classifier; classes that were not fitted have score -inf."""
    w, b = torch.zeros(C, weight.shape[1]), torch.full((C,), -torch.inf)
    w[classes], b[classes] = torch.as_tensor(weight).float(), torch.as_tensor(bias).float()

    def scores(z: Tensor) -> Tensor:
        return torch.addmm(b.to(z), z, w.T.to(z))

    return scores


def _binary(weight: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two rows of weights for the one of two classes."""
    if len(weight) == 1:
        return np.concatenate([-weight / 2, weight / 2]), np.concatenate([-bias / 2, bias / 2])
    return weight, bias


def _centroid(data: _Data) -> list[FinishedRule]:
    from sklearn.neighbors import NearestCentroid

    x, y, query, own, weights = data.trial(np.inf)

    def fit(x: np.ndarray, y: np.ndarray) -> Any:
        centroids = NearestCentroid().fit(x, y).centroids_
        return _linear(2 * centroids, -(centroids**2).sum(1), np.unique(y), data.C)

    _, scale = _chosen(iter([(None, fit(x, y)(torch.from_numpy(query)))]), own, weights)
    x, y = data.sample(np.inf)
    started = time.perf_counter()
    scores = fit(x, y)
    seconds = time.perf_counter() - started
    return [_rule(data, "centroid", {}, scale, scores, seconds, len(x))]


def _lda(data: _Data) -> list[FinishedRule]:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    if data.C * data.space.dim**2 > data.budget.covariance:
        return []

    def fit(x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
        lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(x, y)
        weight, bias = _binary(lda.coef_, lda.intercept_)
        # The same covariance for both: the prior changes the intercepts alone.
        log_prior = np.log(lda.priors_)
        return {
            "lda": _linear(weight, bias, lda.classes_, data.C),
            "lda-equal": _linear(weight, bias - log_prior, lda.classes_, data.C),
        }

    x, y, query, own, weights = data.trial(np.inf)
    trial, z = fit(x, y), torch.from_numpy(query)
    x, y = data.sample(np.inf)
    started = time.perf_counter()
    fitted = fit(x, y)
    seconds, rules = time.perf_counter() - started, []
    for key, scores in fitted.items():
        _, scale = _chosen(iter([(None, trial[key](z))]), own, weights)
        rules.append(_rule(data, key, {}, scale, scores, seconds, len(x)))
    return rules


def _knn(data: _Data) -> list[FinishedRule]:
    from sklearn.neighbors import NearestNeighbors

    def fit(x: np.ndarray, y: np.ndarray) -> Callable[[Tensor, int], Tensor]:
        # Euclidean neighbours of unit vectors are those of the cosine, and faster.
        index, labels = NearestNeighbors(algorithm="brute").fit(x), torch.from_numpy(y)

        def nearest(z: Tensor, k: int) -> Tensor:
            rows = index.kneighbors(z.float().cpu().numpy(), k, return_distance=False)
            return labels[torch.from_numpy(rows)]

        return nearest

    most, products = data.budget.neighbours
    number = min(most, products / (len(data.space.test) * data.space.dim))
    x, y, query, own, weights = data.trial(number)
    ks = [k for k in NEIGHBOURS if k <= len(x)]
    near = fit(x, y)(torch.from_numpy(query), ks[-1])
    trials = ((k, _votes(near[:, :k], data.C)) for k in ks)
    k, scale = _chosen(trials, own, weights)
    x, y = data.sample(number)
    started = time.perf_counter()
    nearest = fit(x, y)
    seconds = time.perf_counter() - started

    def scores(z: Tensor) -> Tensor:
        return _votes(nearest(z, k), data.C).to(z)

    return [_rule(data, "knn", {"k": k}, scale, scores, seconds, len(x))]


def _votes(near: Tensor, C: int) -> Tensor:
    """Logarithms of the shares [n, C] of votes of neighbours [n, k], with one vote for all classes.

    Among equal votes the first class wins, as in scikit-learn.
    """
    votes = torch.zeros(len(near), C)
    votes.scatter_add_(1, near, torch.ones(()).expand(near.shape))
    return ((votes + 1 / C) / (near.shape[1] + 1)).log()


def _logistic(data: _Data) -> list[FinishedRule]:
    from sklearn.linear_model import LogisticRegression

    budget, rules = data.budget, []
    x, y, query, own, weights = data.trial(budget.trial_cells / data.C)
    z = torch.from_numpy(query)
    # That of the metric comes first, has most of the budget, and chooses C for both.
    kinds = {"logistic": None, "logistic-balanced": "balanced"}
    order = list(kinds) if data.rows.metric == "accuracy" else list(kinds)[::-1]
    cost = None
    for key, cells in zip(order, (budget.cells, budget.cells / 8), strict=True):
        full_x, full_y = data.sample(cells / data.C)
        center = _mean_of_centroids(full_x, full_y)

        def scores(model: Any, exponent: float | None = None, center: np.ndarray = center) -> Any:
            weight, bias = _binary(model.coef_, model.intercept_)
            if exponent is not None:
                weight = weight / np.linalg.norm(weight, axis=1, keepdims=True) ** exponent
                bias = -weight @ center
            return _linear(weight, bias, model.classes_, data.C)

        settings = {"class_weight": kinds[key], "max_iter": budget.iterations}
        trial = LogisticRegression(tol=1e-3, warm_start=True, **settings)
        costs = COSTS if cost is None else (cost,)
        cost, scale, model = _cost(trial, costs, x, y, scores, z, own, weights)
        if len(x) < len(full_x) / 2:
            # A model of few rows says nothing about the scale of one of many; the fit has its own.
            scale = 1.0
        # The same penalty per row; two digits are enough.
        fitted = float(f"{cost * len(x) / len(full_x):.2g}")
        final = LogisticRegression(C=fitted, **settings)
        started = time.perf_counter()
        final.fit(full_x, full_y)
        common = time.perf_counter() - started, len(full_x)
        rules.append(_rule(data, key, {"C": fitted}, scale, scores(final), *common))
        if key == "logistic":
            tried = ((e, scores(model, e)(z)) for e in EXPONENTS)
            exponent, scale = _chosen(tried, own, weights)
            chosen, linear = {"C": fitted, "tau": exponent}, scores(final, exponent)
            rules.append(_rule(data, "tau-normalized", chosen, scale, linear, *common))
    return rules


def _cost(
    model: Any,
    costs: tuple[float, ...],
    x: np.ndarray,
    y: np.ndarray,
    scores: Callable[[Any], Callable[[Tensor], Tensor]],
    z: Tensor,
    own: Tensor,
    weights: Tensor,
) -> tuple[float, float, Any]:
    """Choose C along a path of warm starts; a path of several values is extended while its edge is
    best. Return C, the scale of the scores and the model that was fitted with C."""
    from resultant.classifiers.calibration import fit_scale, log_losses

    tried: dict[float, tuple[float, float, Any]] = {}

    def fit(cost: float) -> None:
        model.set_params(C=cost).fit(x, y)
        s = scores(model)(z)
        scale = fit_scale(s, own, weights)
        loss = float(log_losses(s, own, scale) @ weights)
        tried[cost] = loss, scale, copy(model)

    for cost in costs:
        fit(cost)
    while True:
        best = min(tried, key=lambda cost: tried[cost][0])
        low, high = min(tried), max(tried)
        outside = best / 3 if best == low else best * 3
        inside = len(costs) == 1 or best not in (low, high)
        if inside or not COST_LIMITS[0] <= outside <= COST_LIMITS[1]:
            return best, *tried[best][1:]
        fit(outside)


def _mean_of_centroids(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    classes, index = np.unique(y, return_inverse=True)
    total = np.zeros((len(classes), x.shape[1]))
    np.add.at(total, index, x)
    return (total / np.bincount(index)[:, None]).mean(0)
