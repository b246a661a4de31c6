r"""Reference classifiers on unit rows, fitted by scikit-learn.

C of logistic regression has the least cross-entropy on the rows that choose, as the settings of the
vMF rules have. Our solver (`softmax`) chooses C, and finds the weights that scikit-learn's solver
starts from: its estimator, and its test of convergence, are what is reported.

NumPy and scikit-learn alone: `reference_process` runs the fits without torch.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# Settings that are tried; C is extended threefold beyond an edge that is best.
COSTS = (3.0, 10.0)
COST_LIMITS = (1e-3, 1e5)

# Values of k that are tried.
NEIGHBOURS = (1, 3, 5, 10, 20, 50)

# Largest slope at which fits of some rows stop, scikit-learn's default; and those of all rows:
# ours, near enough for the predictions of a longer fit, and scikit-learn's, which has little left
# to do unless ours fails. The penalty changes the slope of the mean loss by little from one C to
# the next: with 1e-3 a warm start would stop before its first step, whatever C.
SAMPLE_TOLERANCE = 1e-4
START_TOLERANCE = 8e-7
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Task:
    """References to fit, and their rows.

    Attributes:
        num_classes: C.
        metric: "accuracy" or "balanced".
        iterations: The most iterations of a logistic regression.
        total: Training rows, of which some may be fitted.
        x: Unit rows [n, p] in float32 of which samples are drawn.
        y: Their classes [n].
        samples: Positions in ``x`` by key: the rows that are fitted while settings are chosen, and
            those of the final fit.
        query: Unit rows [m, p] that choose.
        own: Their classes [m].
        weights: Their weights [m].
    """

    num_classes: int
    metric: str
    iterations: int
    total: int
    x: np.ndarray
    y: np.ndarray
    samples: Mapping[str, tuple[np.ndarray, np.ndarray]]
    query: np.ndarray
    own: np.ndarray
    weights: np.ndarray

    def rows(self, key: str, final: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and classes of the final fit, or those while settings are chosen."""
        at = self.samples[key][final]
        return self.x[at], self.y[at]


@dataclass(frozen=True)
class Fit:
    """A reference that is fitted.

    Attributes:
        key: Its name.
        settings: Chosen settings by name.
        seconds: Seconds of the final fit, and of the fit that it starts from.
        rows: Rows of the final fit.
        stopped: Iterations after which the solver was stopped, 0 if it had converged.
        arrays: Weights [C, p + 1], ``trial`` of the rows while settings are chosen and ``final`` of
            all: the last column are the intercepts, -inf for a class without rows. kNN has the
            classes ``near`` [m, k] of the neighbours of the rows that choose.
    """

    key: str
    settings: dict[str, Any]
    seconds: float
    rows: int
    stopped: int = 0
    arrays: dict[str, np.ndarray] = field(default_factory=dict, repr=False)


class ReferenceFits:
    """References that are fitted in this process; `ReferenceProcess` has the same methods."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def begin(self, task: Task) -> int:
        """Take a task; return its number."""
        self.tasks.append(task)
        return len(self.tasks) - 1

    def finish(self, number: int) -> list[Fit]:
        """Return the fits of a task."""
        return fit_references(self.tasks[number])

    def neighbours(self, number: int, rows: np.ndarray, k: int) -> np.ndarray:
        """Return the classes [n, k] of the nearest rows of the final kNN, the nearest first."""
        return nearest(*self.tasks[number].rows("knn", True), rows, k)


def fit_references(task: Task) -> list[Fit]:
    """Fit the references that a task has samples for."""
    from sklearn import config_context

    families = {"logistic": _logistic, "lda": _lda, "centroid": _centroid, "knn": _neighbours}
    # Features are finite: they were checked when they were read. A solver that was stopped, and
    # classes of one row, are no news for the caller.
    quick = config_context(assume_finite=True, skip_parameter_validation=True)
    with quick, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = [family(task) for key, family in families.items() if key in task.samples]
        return [fit for fits in fitted for fit in fits]


def _lda(task: Task) -> list[Fit]:
    """Shrinkage LDA with the prior of the rows; an equal prior moves the intercepts alone."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    arrays, equal, seconds, rows = {}, {}, 0.0, 0
    for name, final in (("trial", False), ("final", True)):
        x, y = task.rows("lda", final)
        if len(np.unique(y)) == len(y):
            # LDA needs a class of two rows.
            x, y = task.rows("lda", True)
        started = time.perf_counter()
        model = LinearDiscriminantAnalysis("lsqr", shrinkage="auto").fit(x, y)
        seconds, rows = time.perf_counter() - started, len(x)
        arrays[name] = _weights(model, task.num_classes)
        equal[name] = arrays[name].copy()
        equal[name][model.classes_, -1] -= np.log(model.priors_)
    return [
        Fit("lda", {}, seconds, rows, arrays=arrays),
        Fit("lda-equal", {}, seconds, rows, arrays=equal),
    ]


def _centroid(task: Task) -> list[Fit]:
    """Nearest centroids: squared distances are linear in unit rows."""
    from sklearn.neighbors import NearestCentroid

    arrays, seconds, rows = {}, 0.0, 0
    for name, final in (("trial", False), ("final", True)):
        x, y = task.rows("centroid", final)
        started = time.perf_counter()
        model: Any = NearestCentroid().fit(x, y)
        seconds, rows = time.perf_counter() - started, len(x)
        mean = model.centroids_.astype(np.float64)
        weights = np.concatenate([2 * mean, -(mean**2).sum(1, keepdims=True)], 1)
        arrays[name] = _placed(weights, model.classes_, task.num_classes)
    return [Fit("centroid", {}, seconds, rows, arrays=arrays)]


def _neighbours(task: Task) -> list[Fit]:
    x, y = task.rows("knn", False)
    near = nearest(x, y, task.query, min(NEIGHBOURS[-1], len(x)))
    return [Fit("knn", {}, 0.0, len(task.samples["knn"][1]), arrays={"near": near})]


def nearest(x: np.ndarray, y: np.ndarray, query: np.ndarray, k: int) -> np.ndarray:
    """Return the classes [m, k] of the nearest of the rows ``x`` [n, p], the nearest first."""
    from sklearn.neighbors import KNeighborsClassifier

    # Distances of unit rows order them as cosines do, and scikit-learn finds them three times as
    # fast.
    model = KNeighborsClassifier(k, algorithm="brute").fit(x, y)
    return y[model.kneighbors(query, return_distance=False)]


def _logistic(task: Task) -> list[Fit]:
    from resultant.classifiers.softmax import SoftmaxFit

    C, fits = task.num_classes, []
    # That of the metric comes first, and chooses C for both.
    order = ["logistic", "logistic-balanced"]
    costs = COSTS
    for key in order if task.metric == "accuracy" else order[::-1]:
        x, y = task.rows(key, False)
        trial = SoftmaxFit(x, y, key != "logistic")
        cost, weights, seconds = _cost(trial, costs, task)
        costs = (cost,)
        arrays = {"trial": _placed(weights, trial.classes, C)}
        full_x, full_y = task.rows(key, True)
        # The same penalty per row; two digits are enough.
        penalty = float(f"{cost * len(x) / len(full_x):.2g}")
        started = time.perf_counter()
        model = finished_logistic(
            *(full_x, full_y, penalty, key != "logistic", task.iterations, arrays["trial"]),
            sample=len(full_x) < task.total,
        )
        seconds += time.perf_counter() - started
        arrays["final"] = _weights(model, C)
        steps = int(model.n_iter_.max())
        stopped = steps if steps >= task.iterations else 0
        fits.append(Fit(key, {"C": penalty}, seconds, len(full_x), stopped, arrays))
    return fits


def finished_logistic(
    x: np.ndarray,
    y: np.ndarray,
    cost: float,
    balanced: bool,
    iterations: int,
    start: np.ndarray | None = None,
    *,
    sample: bool = False,
) -> Any:
    """Fit logistic regression by scikit-learn, from the optimum of our solver.

    Args:
        x: Rows [n, p] in float32.
        y: Classes [n].
        cost: The inverse strength C of the penalty.
        balanced: Weigh the classes equally.
        iterations: The most iterations of either solver.
        start: Weights [C, p + 1] of all classes that our solver starts from.
        sample: The rows are some of all: scikit-learn's default tolerance is enough.

    Returns:
        The LogisticRegression.
    """
    from sklearn.linear_model import LogisticRegression

    from resultant.classifiers.softmax import SoftmaxFit

    ours = SoftmaxFit(x, y, balanced)
    known = None
    if start is not None:
        known = start[ours.classes].astype(np.float64)
        known[~np.isfinite(known)] = 0.0
    first, last = (SAMPLE_TOLERANCE,) * 2 if sample else (START_TOLERANCE, TOLERANCE)
    weights = ours.solve(cost, first, iterations, known)
    if len(weights) == 2:
        # Two classes have one row of weights.
        weights = weights[1:] - weights[:1]
    model = LogisticRegression(
        C=cost,
        class_weight="balanced" if balanced else None,
        tol=last,
        max_iter=iterations,
        warm_start=True,
    )
    model.coef_, model.intercept_ = weights[:, :-1], weights[:, -1]
    # In float32 its solver stops away from the optimum.
    return model.fit(x.astype(np.float64), y)


def _cost(trial: Any, costs: tuple[float, ...], task: Task) -> tuple[float, np.ndarray, float]:
    """Choose C along a path of warm starts; a path of several values is extended while its edge is
    best. Return C, the weights with C and the seconds of their fit."""
    tried: dict[float, tuple[float, np.ndarray, float]] = {}
    # Rows whose class is not fitted cannot choose.
    seen = np.isin(task.own, trial.classes)
    own, weights = np.searchsorted(trial.classes, task.own[seen]), task.weights[seen]
    query, weights = task.query[seen], weights / weights.sum()
    model = None

    def fit(cost: float) -> np.ndarray:
        started = time.perf_counter()
        fitted = trial.solve(cost, SAMPLE_TOLERANCE, task.iterations, model)
        seconds = time.perf_counter() - started
        scores = query @ fitted[:, :-1].T.astype(np.float32) + fitted[:, -1].astype(np.float32)
        tried[cost] = scaled_loss(scores, own, weights), fitted, seconds
        return fitted

    for cost in costs:
        model = fit(cost)
    while True:
        best = min(tried, key=lambda cost: tried[cost][0])
        low, high = min(tried), max(tried)
        outside = best / 3 if best == low else best * 3
        inside = len(costs) == 1 or best not in (low, high)
        if inside or not COST_LIMITS[0] <= outside <= COST_LIMITS[1]:
            return best, *tried[best][1:]
        model = fit(outside)


def scaled_loss(scores: np.ndarray, own: np.ndarray, weights: np.ndarray) -> float:
    """Return the least cross-entropy of softmax(s * scores) over factors s.

    Args:
        scores: Scores [m, K].
        own: Their columns [m] of the correct class.
        weights: Weights [m] that sum to one.
    """
    from scipy.optimize import minimize_scalar

    d = scores - scores.max(1, keepdims=True)
    mine = float(weights @ np.take_along_axis(d, own[:, None], 1)[:, 0])

    def loss(log_scale: float) -> float:
        scale = float(np.exp(log_scale))
        return float(weights @ np.log(np.exp(scale * d).sum(1))) - scale * mine

    # A thousandth of the loss is far below the differences between values of C that matter.
    found: Any = minimize_scalar(loss, bounds=(-6, 6), method="bounded", options={"xatol": 0.01})
    return float(found.fun)


def _weights(model: Any, num_classes: int) -> np.ndarray:
    """Return a linear model of scikit-learn, which has one row of weights for two classes."""
    weights = np.concatenate([model.coef_, model.intercept_[:, None]], 1)
    if len(weights) == 1:
        weights = np.concatenate([-weights / 2, weights / 2])
    return _placed(weights, model.classes_, num_classes)


def _placed(weights: np.ndarray, classes: np.ndarray, num_classes: int) -> np.ndarray:
    """Return weights [C, p + 1] in float32 of the ``classes`` [K] among C."""
    placed = np.zeros((num_classes, weights.shape[1]), np.float32)
    placed[:, -1] = -np.inf
    placed[classes] = weights
    return placed
