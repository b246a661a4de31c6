r"""Logistic regression and shrinkage LDA on unit rows, as scikit-learn defines them.

Loading scikit-learn takes as long as loading torch, and its softmax ten times as long as that of
torch: the summary of an analysis would wait for both. Fits by torch have the same optimum, as tests
show; on request the final fits are those of scikit-learn itself.

C of logistic regression, the exponent of tau-normalization and the scale of the scores have the
least cross-entropy on the rows that choose, as the settings of the vMF rules have.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from resultant._core.background import require_process
from resultant.classifiers.calibration import fit_scale, log_losses
from resultant.classifiers.softmax import Linear, SoftmaxFit

# Settings that are tried; C is extended threefold beyond an edge that is best.
COSTS = (3.0, 10.0)
COST_LIMITS = (1e-3, 1e5)

# Largest slope at which a trial stops, as in scikit-learn, and the final fit. The penalty changes
# the slope of the mean loss by little from one C to the next: with 1e-3 a warm start would stop
# before its first step, whatever C.
TRIAL_TOLERANCE = 1e-4
TOLERANCE = 3e-6
EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)


@dataclass(frozen=True)
class Task:
    """References to fit, and their rows.

    Attributes:
        num_classes: C.
        metric: "accuracy" or "balanced".
        iterations: The most iterations of a logistic regression.
        x: Unit rows [n, p] in float32 of which samples are drawn.
        y: Their classes [n].
        samples: Positions in ``x`` by ``lda``, ``logistic`` and ``logistic-balanced``: the rows
            that are fitted while settings are chosen, and those of the final fit.
        query: Unit rows [m, p] that choose.
        own: Their classes [m].
        weights: Their weights [m].
        by_scikit_learn: scikit-learn itself makes the final fits.
    """

    num_classes: int
    metric: str
    iterations: int
    x: Tensor
    y: Tensor
    samples: Mapping[str, tuple[Tensor, Tensor]]
    query: Tensor
    own: Tensor
    weights: Tensor
    by_scikit_learn: bool = False

    def fitted(self, key: str) -> tuple[Tensor, Tensor]:
        """Rows and classes of the final fit."""
        at = self.samples[key][1]
        return self.x[at], self.y[at]

    def trial(self, key: str) -> tuple[Tensor, Tensor, Chooser]:
        """Rows and classes that are fitted while settings are chosen, and the rows that choose."""
        at = self.samples[key][0]
        y = self.y[at]
        return self.x[at], y, Chooser.of(self.query, self.own, self.weights, y)


@dataclass(frozen=True)
class Chooser:
    """Rows [m, p] that choose, with classes [m] and weights [m]."""

    query: Tensor
    own: Tensor
    weights: Tensor

    @staticmethod
    def of(query: Tensor, own: Tensor, weights: Tensor, fitted: Tensor) -> Chooser:
        """Return the rows whose class is among the ``fitted`` [n]; the others cannot choose."""
        seen = torch.isin(own, fitted)
        return Chooser(query[seen], own[seen], weights[seen] / weights[seen].sum())

    def loss(self, scores: Tensor) -> tuple[float, float]:
        """Return the mean cross-entropy of scores [m, C] after their own scale, and the scale."""
        scale = fit_scale(scores, self.own, self.weights)
        return float(log_losses(scores, self.own, scale) @ self.weights), scale

    def best(self, trials: Iterator[tuple[Any, Tensor]]) -> tuple[Any, float]:
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
        linear: Its scores.
        stopped: Iterations after which the solver was stopped, 0 if it had converged.
    """

    key: str
    settings: dict[str, Any]
    scale: float
    seconds: float
    rows: int
    linear: Linear = field(repr=False)
    stopped: int = 0


@torch.no_grad()
def fit_references(task: Task) -> list[Reference]:
    """Fit the references that a task has samples for."""
    families = (("logistic", _logistic), ("lda", _lda))
    return [r for key, family in families if key in task.samples for r in family(task)]


def _lda(task: Task) -> list[Reference]:
    x, y, chooser = task.trial("lda")
    trial = shrinkage_lda(x, y, task.num_classes)
    x, y = task.fitted("lda")
    fit = scikit_learn_lda if task.by_scikit_learn else shrinkage_lda
    started = time.perf_counter()
    fitted = fit(x, y, task.num_classes)
    seconds = time.perf_counter() - started
    return [
        Reference(key, {}, chooser.loss(trial[key](chooser.query))[1], seconds, len(x), linear)
        for key, linear in fitted.items()
    ]


def shrinkage_lda(x: Tensor, y: Tensor, num_classes: int) -> dict[str, Linear]:
    """Fit LDA whose covariance is the mean of the Ledoit-Wolf estimates of the classes.

    Args:
        x: Rows [n, p].
        y: Classes [n].
        num_classes: C.

    Returns:
        The classifier ``lda`` with the prior of the rows, and ``lda-equal`` with an equal prior,
        which has other intercepts alone.
    """
    classes, index, count = y.unique(return_inverse=True, return_counts=True)
    prior, order = count.double() / len(y), index.argsort(stable=True)
    covariance = torch.zeros(x.shape[1], x.shape[1], dtype=torch.float64, device=x.device)
    means = []
    for share, rows in zip(prior.tolist(), order.split(count.tolist()), strict=True):
        require_process()
        means.append(x[rows].double().mean(0))
        covariance += share * ledoit_wolf(x[rows] - means[-1].to(x.dtype))
    mean = torch.stack(means)
    weight = torch.linalg.lstsq(covariance.cpu(), mean.T.cpu(), driver="gelsd").solution.T.to(mean)
    bias = -(mean * weight).sum(1) / 2
    return {
        "lda": Linear.of(weight, bias + prior.log(), classes, num_classes),
        "lda-equal": Linear.of(weight, bias, classes, num_classes),
    }


def scikit_learn_lda(x: Tensor, y: Tensor, num_classes: int) -> dict[str, Linear]:
    """Fit `shrinkage_lda` by scikit-learn."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(x.numpy(), y.numpy())
    fitted = _linear(model, num_classes)
    prior = torch.as_tensor(model.priors_).log()
    bias = fitted.bias.clone()
    bias[torch.as_tensor(model.classes_)] -= prior.to(bias)
    return {"lda": fitted, "lda-equal": Linear(fitted.weight, bias)}


def scikit_learn_logistic(
    x: Tensor, y: Tensor, num_classes: int, balanced: bool, cost: float, iterations: int
) -> tuple[Linear, int]:
    """Fit logistic regression by scikit-learn; return it and the number of iterations."""
    from sklearn.linear_model import LogisticRegression

    weight = "balanced" if balanced else None
    model = LogisticRegression(C=cost, class_weight=weight, tol=1e-8, max_iter=iterations)
    with warnings.catch_warnings():
        # A solver that was stopped is said in the note of the reference.
        warnings.simplefilter("ignore")
        model.fit(x.double().numpy(), y.numpy())
    return _linear(model, num_classes), int(model.n_iter_.max())


def _linear(model: Any, num_classes: int) -> Linear:
    """Return a linear model of scikit-learn, which has one row of weights for two classes."""
    weight, bias = torch.as_tensor(model.coef_), torch.as_tensor(model.intercept_)
    if len(weight) == 1:
        weight, bias = (torch.cat([-a / 2, a / 2]) for a in (weight, bias))
    return Linear.of(weight, bias, torch.as_tensor(model.classes_), num_classes)


def ledoit_wolf(x: Tensor) -> Tensor:
    """Estimate the covariance [p, p] in float64 of centred rows [n, p]: entries of unit variance
    are shrunk towards the identity (Ledoit and Wolf), as scikit-learn's LDA does."""
    n, p = x.shape
    deviation = x.double().square().mean(0).sqrt()
    # An entry that is constant up to rounding stays zero.
    constant = deviation <= 10 * torch.finfo(x.dtype).eps * x.abs().amax()
    deviation = torch.where(constant, 1.0, deviation)
    z = x / deviation.to(x.dtype)
    sample = (z.T @ z).double() / n
    mean, size = sample.trace() / p, sample.square().sum()
    spread = size - p * mean.square()
    noise = (z.square().sum(1).square().sum().double() / n - size) / n
    share = float((noise / spread).clamp(0, 1)) if spread > 0 else 0.0
    sample *= 1 - share
    sample.diagonal().add_(share * mean)
    return deviation[:, None] * sample * deviation


def _logistic(task: Task) -> list[Reference]:
    C, references = task.num_classes, []
    # That of the metric comes first, and chooses C for both.
    order = ["logistic", "logistic-balanced"]
    cost = None
    for key in order if task.metric == "accuracy" else order[::-1]:
        x, y, chooser = task.trial(key)
        full_x, full_y = task.fitted(key)
        trial = SoftmaxFit(x, y, C, key != "logistic")
        costs = COSTS if cost is None else (cost,)
        cost, (_, scale, start, seconds) = _cost(trial, costs, task.iterations, chooser)
        if len(x) < len(full_x) / 2:
            # A model of few rows says nothing about the scale of one of many; the fit has its own.
            scale = 1.0
        # The same penalty per row; two digits are enough.
        penalty = float(f"{cost * len(x) / len(full_x):.2g}")
        started = time.perf_counter()
        rows = (full_x, full_y, C, key != "logistic")
        if task.by_scikit_learn:
            fitted, steps = scikit_learn_logistic(*rows, penalty, task.iterations)
            # It starts from zero.
            seconds = 0.0
        else:
            fitted, steps = SoftmaxFit(*rows).solve(penalty, TOLERANCE, task.iterations, start)
        common = (seconds + time.perf_counter() - started, len(full_x))
        stopped = steps if steps >= task.iterations else 0
        references.append(Reference(key, {"C": penalty}, scale, *common, fitted, stopped))
        if key == "logistic":
            center = _mean_of_centroids(full_x, full_y)
            tried = ((e, start.normalized(e, center)(chooser.query)) for e in EXPONENTS)
            exponent, scale = chooser.best(tried)
            chosen, fitted = {"C": penalty, "tau": exponent}, fitted.normalized(exponent, center)
            references.append(Reference("tau-normalized", chosen, scale, *common, fitted, stopped))
    return references


def _cost(
    trial: SoftmaxFit, costs: tuple[float, ...], iterations: int, chooser: Chooser
) -> tuple[float, tuple[float, float, Linear, float]]:
    """Choose C along a path of warm starts; a path of several values is extended while its edge is
    best. Return C, and the loss, the scale, the fit with C and its seconds."""
    tried: dict[float, tuple[float, float, Linear, float]] = {}
    model: Linear | None = None

    def fit(cost: float) -> Linear:
        started = time.perf_counter()
        fitted, _ = trial.solve(cost, TRIAL_TOLERANCE, iterations, model)
        seconds = time.perf_counter() - started
        tried[cost] = *chooser.loss(fitted(chooser.query)), fitted, seconds
        return fitted

    for cost in costs:
        model = fit(cost)
    while True:
        best = min(tried, key=lambda cost: tried[cost][0])
        low, high = min(tried), max(tried)
        outside = best / 3 if best == low else best * 3
        inside = len(costs) == 1 or best not in (low, high)
        if inside or not COST_LIMITS[0] <= outside <= COST_LIMITS[1]:
            return best, tried[best]
        model = fit(outside)


def _mean_of_centroids(x: Tensor, y: Tensor) -> Tensor:
    """Return the mean [p] of the means of the classes."""
    weights = 1 / torch.bincount(y)[y].to(x.dtype)
    return weights @ x / weights.sum()
