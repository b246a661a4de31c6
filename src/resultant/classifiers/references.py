r"""Reference classifiers of scikit-learn on unit rows, with settings chosen on rows left out.

C of logistic regression, the exponent of tau-normalization and the scale of the scores have the
least cross-entropy on the rows that choose, as the settings of the vMF rules have. Nothing here
needs torch: a process of its own fits the references while torch loads and works.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from resultant.classifiers.scale import cross_entropies, scale_of

# The function that fits references, the modules of scikit-learn that it needs, and a package that
# they would load for data frames.
FIT = "resultant.classifiers.references:fit_references"
MODULES = ("sklearn.linear_model", "sklearn.discriminant_analysis", "threadpoolctl")
WITHOUT = ("pandas",)

# Settings that are tried; C is extended threefold beyond an edge that is best.
COSTS = (3.0, 10.0)
COST_LIMITS = (1e-3, 1e5)

# Largest slope at which the solver stops, as in scikit-learn. The penalty changes the slope of the
# mean loss by little from one C to the next: with 1e-3 a warm start would stop before its first
# step, whatever C.
TOLERANCE = 1e-4
EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)

# A function of unit rows [n, p] that returns scores [n, C].
Scores = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Task:
    """References to fit, and their rows.

    Attributes:
        num_classes: C.
        metric: "accuracy" or "balanced".
        iterations: The most iterations of a logistic regression.
        x: Unit rows [n, p] of which samples are drawn.
        y: Their classes [n].
        samples: Positions in ``x`` by ``lda``, ``logistic`` and ``logistic-balanced``: the rows
            that are fitted while settings are chosen, and those of the final fit.
        query: Unit rows [m, p] that choose.
        own: Their classes [m].
        weights: Their weights [m].
    """

    num_classes: int
    metric: str
    iterations: int
    x: np.ndarray
    y: np.ndarray
    samples: Mapping[str, tuple[np.ndarray, np.ndarray]]
    query: np.ndarray
    own: np.ndarray
    weights: np.ndarray

    def fitted(self, key: str) -> tuple[np.ndarray, np.ndarray]:
        """Rows and classes of the final fit."""
        at = self.samples[key][1]
        return self.x[at], self.y[at]

    def trial(self, key: str) -> tuple[np.ndarray, np.ndarray, Chooser]:
        """Rows and classes that are fitted while settings are chosen, and the rows that choose."""
        at = self.samples[key][0]
        y = self.y[at]
        # A class without a fitted row cannot choose.
        seen = np.isin(self.own, y)
        weights = self.weights[seen]
        return self.x[at], y, Chooser(self.query[seen], self.own[seen], weights / weights.sum())


@dataclass(frozen=True)
class Chooser:
    """Rows [m, p] that choose, with classes [m] and weights [m]."""

    query: np.ndarray
    own: np.ndarray
    weights: np.ndarray

    def loss(self, scores: np.ndarray) -> tuple[float, float]:
        """Return the mean cross-entropy of scores [m, C] after their own scale, and the scale."""
        scale = scale_of(scores, self.own, self.weights)
        return float(cross_entropies(scores, self.own, scale) @ self.weights), scale

    def best(self, trials: Iterator[tuple[Any, np.ndarray]]) -> tuple[Any, float]:
        """Return the setting of the smallest loss, and its scale."""
        tried = [(*self.loss(scores), setting) for setting, scores in trials]
        _, scale, setting = min(tried, key=lambda trial: trial[0])
        return setting, scale


@dataclass(frozen=True)
class Reference:
    """A fitted reference.

    Attributes:
        key: Its name.
        settings: Chosen settings by name.
        scale: Factor of the scores that makes probabilities of them.
        seconds: Seconds of the final fit, and of the fit that it starts from.
        rows: Rows of the final fit.
        weight: Weights [C, p].
        bias: Intercepts [C]; -inf for a class that was not fitted.
        stopped: Iterations after which the solver was stopped, 0 if it had converged.
    """

    key: str
    settings: dict[str, Any]
    scale: float
    seconds: float
    rows: int
    weight: np.ndarray = field(repr=False)
    bias: np.ndarray = field(repr=False)
    stopped: int = 0


@dataclass(frozen=True)
class Linear:
    """A linear classifier: weights [C, p] and intercepts [C]."""

    weight: np.ndarray
    bias: np.ndarray

    @staticmethod
    def of(weight: np.ndarray, bias: np.ndarray, classes: np.ndarray, C: int) -> Linear:
        """Return the classifier of some of C classes; two classes may have one row of weights."""
        if len(weight) == 1 and len(classes) == 2:
            weight, bias = (np.concatenate([-a / 2, a / 2]) for a in (weight, bias))
        w = np.zeros((C, weight.shape[1]), np.float32)
        b = np.full(C, -np.inf, np.float32)
        w[classes], b[classes] = weight, bias
        return Linear(w, b)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return x @ self.weight.T + self.bias


def fit_references(task: Task) -> list[Reference]:
    """Fit the references that a task has samples for."""
    from threadpoolctl import threadpool_limits

    families = [f for key, f in (("logistic", _logistic), ("lda", _lda)) if key in task.samples]
    # Convergence within the iterations of the budget is not needed for a reference. Small products
    # are no faster on several threads of BLAS, which wait for one another beside those of torch.
    with (
        warnings.catch_warnings(),
        threadpool_limits(1, "blas"),
        ThreadPoolExecutor(len(families)) as threads,
    ):
        warnings.simplefilter("ignore")
        fitted = threads.map(lambda family: _fitted(family, task), families)
        return [reference for references in fitted for reference in references]


def _fitted(family: Callable[[Task], list[Reference]], task: Task) -> list[Reference]:
    from sklearn import config_context

    # Rows are checked already; hundreds of fits of small classes are not checked again.
    with config_context(assume_finite=True, skip_parameter_validation=True):
        return family(task)


def _lda(task: Task) -> list[Reference]:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    def fit(x: np.ndarray, y: np.ndarray) -> dict[str, Linear]:
        lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(x, y)
        # The same covariance for both: the prior changes the intercepts alone.
        log_prior = np.log(lda.priors_)
        if len(log_prior) == 2:
            log_prior = np.diff(log_prior)
        return {
            "lda": Linear.of(lda.coef_, lda.intercept_, lda.classes_, task.num_classes),
            "lda-equal": Linear.of(
                lda.coef_, lda.intercept_ - log_prior, lda.classes_, task.num_classes
            ),
        }

    x, y, chooser = task.trial("lda")
    trial = fit(x, y)
    x, y = task.fitted("lda")
    started = time.perf_counter()
    fitted = fit(x, y)
    seconds = time.perf_counter() - started
    return [
        Reference(
            *(key, {}, chooser.loss(trial[key](chooser.query))[1], seconds, len(x)),
            *(linear.weight, linear.bias),
        )
        for key, linear in fitted.items()
    ]


def _logistic(task: Task) -> list[Reference]:
    from sklearn.linear_model import LogisticRegression

    C, references = task.num_classes, []
    # That of the metric comes first, and chooses C for both.
    kinds = {"logistic": None, "logistic-balanced": "balanced"}
    order = list(kinds) if task.metric == "accuracy" else list(kinds)[::-1]
    cost = None
    for key in order:
        x, y, chooser = task.trial(key)
        full_x, full_y = task.fitted(key)
        center = _mean_of_centroids(full_x, full_y)

        def linear(model: Any, exponent: float | None = None, center: np.ndarray = center) -> Any:
            weight, bias = model.coef_, model.intercept_
            if exponent is not None:
                weight = weight / np.linalg.norm(weight, axis=1, keepdims=True) ** exponent
                bias = -weight @ center
            return Linear.of(weight, bias, model.classes_, C)

        settings = {"class_weight": kinds[key], "max_iter": task.iterations}
        trial = LogisticRegression(tol=TOLERANCE, warm_start=True, **settings)
        costs = COSTS if cost is None else (cost,)
        cost, scale, model, seconds = _cost(trial, costs, x, y, linear, chooser)
        if len(x) < len(full_x) / 2:
            # A model of few rows says nothing about the scale of one of many; the fit has its own.
            scale = 1.0
        # The same penalty per row; two digits are enough.
        penalty = float(f"{cost * len(x) / len(full_x):.2g}")
        final = copy(model).set_params(C=penalty)
        started = time.perf_counter()
        if not np.array_equal(final.classes_, np.unique(full_y)):
            final, seconds = LogisticRegression(C=penalty, tol=TOLERANCE, **settings), 0.0
        final.fit(full_x, full_y)
        seconds += time.perf_counter() - started
        common, fitted = (seconds, len(full_x)), linear(final)
        steps = int(np.max(final.n_iter_))
        stopped = steps if steps >= task.iterations else 0
        references.append(
            Reference(
                key, {"C": penalty}, scale, *common, fitted.weight, fitted.bias, stopped=stopped
            )
        )
        if key == "logistic":
            tried = ((e, linear(model, e)(chooser.query)) for e in EXPONENTS)
            exponent, scale = chooser.best(tried)
            chosen, fitted = {"C": penalty, "tau": exponent}, linear(final, exponent)
            references.append(
                Reference(
                    *("tau-normalized", chosen, scale, *common, fitted.weight, fitted.bias),
                    stopped=stopped,
                )
            )
    return references


def _cost(
    model: Any,
    costs: tuple[float, ...],
    x: np.ndarray,
    y: np.ndarray,
    linear: Callable[[Any], Linear],
    chooser: Chooser,
) -> tuple[float, float, Any, float]:
    """Choose C along a path of warm starts; a path of several values is extended while its edge is
    best. Return C, the scale of the scores, the model that was fitted with C, and its seconds."""
    tried: dict[float, tuple[float, float, Any, float]] = {}

    def fit(cost: float) -> None:
        started = time.perf_counter()
        model.set_params(C=cost).fit(x, y)
        seconds = time.perf_counter() - started
        tried[cost] = *chooser.loss(linear(model)(chooser.query)), copy(model), seconds

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
    """Return the mean [p] of the means of the classes."""
    weights = 1 / np.bincount(y)[y]
    return weights @ x / weights.sum()
