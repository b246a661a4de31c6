"""Reference classifiers of scikit-learn on unit rows.

Where rows are many, a stratified sample is fitted, and the page says so. Settings are chosen by the
log-loss of the validation rows of the first fold.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from scipy.linalg import solve
from scipy.special import softmax
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from torch import Tensor

from resultant._core import chunks
from resultant._core.text import counted
from resultant.analysis.candidates import Candidate, Predictions, joined, predict
from resultant.analysis.data import BALANCED, FeatureSet, Plan
from resultant.analysis.metrics import stratified
from resultant.classifiers.calibration import fit_scale

LEVELS = ("none", "fast", "all")

# Settings that are tried.
PENALTIES = (0.001, 0.01, 0.1, 1.0)
SHRINKAGES = (0.1, 0.5)
NEIGHBOURS = (1, 5, 10, 20)

# Gradient at which the solver of a logistic regression stops.
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Budget:
    """Sizes up to which all rows are fitted; beyond them a stratified sample is."""

    cells: float  # rows times classes times dimension of a logistic regression
    trial: float  # share of the rows while a setting is chosen
    steps: float  # cells times iterations of a logistic regression at most
    iterations: int  # its iterations at most
    classes: int  # its classes; it is left out beyond
    products: float  # test rows times rows times dimension of nearest neighbours
    entries: float  # rows times dimension of discriminant analysis and of centroids


BUDGETS = {
    "fast": Budget(8e7, 0.2, 2e10, 100, 2000, 4e9, 2e7),
    "all": Budget(6e10, 0.05, 1e14, 1000, 20_000, 1e14, 1e9),
}


class Neighbours(KNeighborsClassifier):
    """Nearest neighbours of unit rows by one product, whose votes are smoothed by one vote for all
    classes."""

    def fit(self, X: Any, y: Any) -> Self:
        """Keep rows [N, p] of classes [N]."""
        self.classes_, own = np.unique(y, return_inverse=True)
        self.x_, self.y_ = torch.as_tensor(X).T, torch.as_tensor(own)
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return the smoothed shares of the votes [n, C]; among equal votes the first class
        wins."""
        x, C = torch.as_tensor(X, dtype=self.x_.dtype), len(self.classes_)
        k = min(int(self.n_neighbors or 1), len(self.y_))
        votes = torch.full((len(x), C), 1 / C)
        for at in chunks.row_slices(len(x), 4 * len(self.y_), chunks.MATRIX_BYTES):
            nearest = self.y_[(x[at] @ self.x_).topk(k, 1).indices]
            votes[at].scatter_add_(1, nearest, torch.ones(nearest.shape))
        return (votes / (k + 1)).numpy()


class Centroids(NearestCentroid):
    """Nearest centroids, with one scale of the squared distances for probabilities."""

    def fit(self, X: Any, y: Any) -> Self:
        """Average rows [N, p] of classes [N]."""
        self.classes_, own = np.unique(y, return_inverse=True)
        self.centroids_ = (class_sums(X, own) / np.bincount(own)[:, None]).astype(X.dtype)
        self.scale_ = fit_scale(torch.as_tensor(self._scores(X)), torch.as_tensor(own))
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return probabilities [n, C]."""
        return softmax(self.scale_ * self._scores(X), 1)

    def _scores(self, X: Any) -> Any:
        """Half of the squared distances [n, C], negative and up to a number per row."""
        return X @ self.centroids_.T - (self.centroids_**2).sum(1) / 2


class Discriminant(LinearDiscriminantAnalysis):
    """Discriminant analysis whose covariance is one product rather than one per class."""

    def fit(self, X: Any, y: Any) -> Self:
        """Fit rows [N, p] of classes [N]."""
        self.classes_, own = np.unique(y, return_inverse=True)
        count, mean = np.bincount(own), class_sums(X, own) / np.bincount(own)[:, None]
        self.priors_ = count / len(own) if self.priors is None else np.asarray(self.priors)
        apart = (X - mean[own]) * np.sqrt(self.priors_ / count)[own, None]
        covariance = apart.T @ apart
        shrinkage, spread = (
            float(self.shrinkage or 0),
            max(np.trace(covariance) / len(covariance), 1e-12),
        )
        covariance = (1 - shrinkage) * covariance + shrinkage * spread * np.eye(len(covariance))
        coef = solve(covariance, mean.T, assume_a="pos").T
        intercept = np.log(self.priors_) - (mean * coef).sum(1) / 2
        two = len(coef) == 2
        self.coef_, self.intercept_ = (np.diff(a, axis=0) if two else a for a in (coef, intercept))
        return self


def class_sums(X: Any, own: Any) -> np.ndarray:
    """Sum rows [N, p] per class [N], in float64."""
    total = torch.zeros(int(own.max()) + 1, X.shape[1], dtype=torch.float64)
    return total.index_add_(0, torch.as_tensor(own), torch.as_tensor(X).double()).numpy()


def references(
    data: FeatureSet,
    plan: Plan,
    level: str,
    *,
    slow: bool = True,
    progress: Callable[[str], object] = lambda _: None,
) -> Iterator[Candidate]:
    """Fit and validate the references."""
    if level not in LEVELS:
        raise ValueError(f"expected references among {LEVELS}, got {level!r}")
    if level == "none":
        return
    budget, C, p = BUDGETS[level], data.num_classes, data.dim
    fit = _Fit(data, plan, level)
    progress("nearest centroid")
    about = ("NearestCentroid", "nearest centroid", 0)
    yield fit.reference(*about, [Centroids()], [{}], budget.entries / p)
    # Fast references have the prior of the metric; all of them have both.
    priors = [plan.metric == BALANCED] if level == "fast" else [False, True]
    for equal in priors:
        progress("linear discriminant analysis")
        about = ("LinearDiscriminantAnalysis", "linear discriminant analysis", 40)
        if equal:
            about = (f"{about[0]}(equal prior)", f"{about[1]}, equal prior", 41)
        model = Discriminant("lsqr", priors=np.full(C, 1 / C) if equal else None)
        grid = [{"shrinkage": s} for s in SHRINKAGES]
        yield fit.reference(*about, [model], grid, budget.entries / p)
    progress("nearest neighbours")
    about = ("KNeighborsClassifier", "nearest neighbours", 70)
    grid = [{"n_neighbors": k} for k in NEIGHBOURS]
    yield fit.reference(*about, [Neighbours()], grid, budget.products / (len(plan.test) * p))
    for balanced in priors if budget.classes >= C and slow else ():
        progress("logistic regression")
        about, weight = ("LogisticRegression", "logistic regression", 50), None
        if balanced:
            about = (f"{about[0]}(balanced)", f"balanced {about[1]}", 51)
            weight = "balanced"
        number = max(2 * C, min(len(data.fitted), budget.cells / (C * p)))
        steps = int(min(budget.iterations, max(10, budget.steps / (number * C * p))))
        model = LogisticRegression(
            class_weight=weight, max_iter=steps, tol=TOLERANCE, warm_start=True
        )
        grid = [{"C": c} for c in PENALTIES]
        yield fit.reference(*about, [StandardScaler(), model], grid, number)


def left_out(data: FeatureSet, level: str, slow: bool) -> str:
    """Return a sentence about references that are too large, or ""."""
    if level == "none":
        return ""
    hint = "; --references all fits it" if level == "fast" else ""
    if data.num_classes > BUDGETS[level].classes:
        size = counted(data.num_classes, "class", "classes")
        return f"Logistic regression is left out: {size} take too long{hint}."
    return "" if slow else f"Logistic regression is fitted to the best features alone{hint}."


class _Fit:
    """Fits of references to samples of the training rows, and their validation."""

    def __init__(self, data: FeatureSet, plan: Plan, level: str) -> None:
        self.data, self.plan, self.level = data, plan, level

    def reference(
        self,
        key: str,
        name: str,
        rank: int,
        steps: list[Any],
        grid: list[dict[str, Any]],
        number: float,
    ) -> Candidate:
        """Choose one of several settings, validate it, and fit it to all training rows.

        A model that can begins each fit at its last solution.
        """
        model, last, settings = make_pipeline(Normalizer(), *steps), steps[-1], grid[0]
        if len(grid) > 1:
            fit, rows = self.plan.splits[0]
            trials, share = [], BUDGETS[self.level].trial
            for settings in grid:
                last.set_params(**settings)
                self._fitted(model, fit, share * number)
                trials += self._predicted(model, rows)
            settings = grid[self._least(trials)]
            last.set_params(**settings)
        parts = []
        for fit, rows in self.plan.splits:
            self._fitted(model, fit, number)
            parts += self._predicted(model, rows)
        rows, seconds = self._fitted(model, self.data.fitted, number)
        note = self._note(rows)
        if np.max(getattr(last, "n_iter_", 0)) >= getattr(last, "max_iter", 1):
            note += f" The solver was stopped after {last.max_iter} iterations."
        if getattr(last, "class_weight", None) is not None:
            settings = {**settings, "class_weight": last.class_weight}
        about = (key, name, "scikit-learn", rank, settings, _code(model), joined(parts))
        return Candidate(*about, model, seconds, rows, note.strip())

    def _fitted(self, model: Any, rows: Tensor, number: float) -> tuple[int, float]:
        """Fit a pipeline to about ``number`` of some training rows; return rows and seconds."""
        drawn = rows[stratified(self.data.train.y[rows], number)]
        x, y = self.data.train.read(drawn).numpy(), self.data.train.y[drawn].numpy()
        # Classes whose rows are all of one identity may lack in the fitted rows.
        present, last = len(np.unique(y)), model[-1]
        if isinstance(getattr(last, "priors", None), np.ndarray):
            last.priors = np.full(present, 1 / present)
        if getattr(last, "warm_start", False) and len(getattr(last, "classes_", y)) != present:
            last.__dict__.pop("coef_", None)
        started = time.perf_counter()
        with warnings.catch_warnings():
            # Solvers that are stopped, LDA of few rows, and centroids of constant columns.
            warnings.simplefilter("ignore", (UserWarning, RuntimeWarning))
            model.fit(x, y)
        return len(drawn), time.perf_counter() - started

    def _predicted(self, model: Any, rows: Tensor) -> list[Predictions]:
        return predict([model], self.plan.validation, rows, self.data.num_classes)

    def _least(self, validated: list[Predictions]) -> int:
        weights = self.plan.weights[: len(self.plan.splits[0][1])]
        return int(np.argmin([float(v.loss @ weights) for v in validated]))

    def _note(self, rows: int) -> str:
        total, hint = len(self.data.fitted), "; --references all fits more"
        if rows == total:
            return ""
        text = f"Fitted to a stratified sample of {rows:,} of {total:,} rows"
        return f"{text}{hint if self.level == 'fast' else ''}."


def _code(model: Any) -> str:
    """Return Python that builds and fits a pipeline, from scikit-learn's own representation."""
    imports, words = [("sklearn.pipeline", "make_pipeline")], []
    for _, step in model.steps:
        known = type(step).__module__.startswith("sklearn")
        kind: Any = type(step) if known else type(step).__base__
        settings, priors = step.get_params(), ""
        if isinstance(settings.get("priors"), np.ndarray):
            priors = f", priors=[1 / {len(settings.pop('priors'))}] * {len(step.priors)})"
        if "warm_start" in settings:
            settings["warm_start"] = False
        text = " ".join(repr(kind(**settings)).split())
        words.append(text[:-1] + priors if priors else text)
        imports.append((kind.__module__.split("._")[0], kind.__name__))
    lines = [f"from {module} import {name}" for module, name in sorted(imports)]
    return "\n".join([*lines, "", f"model = make_pipeline({', '.join(words)}).fit(X, y)"])
