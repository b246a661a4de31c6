"""Reference classifiers of scikit-learn on unit rows.

Where rows are many, a stratified sample is fitted, and the page says so. Settings are chosen by the
metric on the validation rows of the first fold.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.linalg import solve
from scipy.sparse import csr_array
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from torch import Tensor

from resultant._core.text import counted
from resultant.analysis.data import BALANCED, FeatureSet, Plan
from resultant.analysis.evaluate import Candidate, joined, predict
from resultant.analysis.metrics import stratified

LEVELS = ("none", "fast", "all")

# Settings that are tried.
Grid = list[dict[str, Any]]
PENALTIES: Grid = [{"C": c} for c in (0.001, 0.01, 0.1, 1.0)]
SHRINKAGES: Grid = [{"shrinkage": s} for s in (0.1, 0.5)]
SPHERICAL: Grid = [{"shrinkage": 1.0}]
NEIGHBOURS: Grid = [{"n_neighbors": k} for k in (1, 5, 10, 20)]

# Gradient at which the solver of a logistic regression stops.
TOLERANCE = 1e-3

# Keys, names and ranks; of two, for the prior of the training rows and for equal priors.
About = tuple[str, str, int]
CENTROID: About = ("NearestCentroid", "nearest centroid", 0)
NEAREST: About = ("KNeighborsClassifier", "nearest neighbours", 70)
DISCRIMINANT: tuple[About, ...] = (
    ("LinearDiscriminantAnalysis", "linear discriminant analysis", 40),
    ("LinearDiscriminantAnalysis(equal prior)", "linear discriminant analysis, equal prior", 41),
)
LOGISTIC: tuple[About, ...] = (
    ("LogisticRegression", "logistic regression", 50),
    ("LogisticRegression(balanced)", "balanced logistic regression", 51),
)


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


class Discriminant(LinearDiscriminantAnalysis):
    """Discriminant analysis whose covariance is one product rather than one per class."""

    def fit(self, X: Any, y: Any) -> Self:
        """Fit rows [N, p] of classes [N]."""
        self.classes_, own = np.unique(y, return_inverse=True)
        count, one = np.bincount(own), (np.ones(len(own)), (own, np.arange(len(own))))
        mean = csr_array(one) @ X / count[:, None]
        self.priors_ = count / len(own) if self.priors is None else np.asarray(self.priors)
        apart = (X - mean[own]) * np.sqrt(self.priors_ / count)[own, None]
        covariance = apart.T @ apart
        shrinkage, spread = float(self.shrinkage or 0), max(covariance.trace() / X.shape[1], 1e-12)
        covariance = (1 - shrinkage) * covariance + shrinkage * spread * np.eye(len(covariance))
        coef = solve(covariance, mean.T, assume_a="pos").T
        intercept = np.log(self.priors_) - (mean * coef).sum(1) / 2
        two = len(coef) == 2
        self.coef_, self.intercept_ = (
            (np.diff(a, axis=0) if two else a).astype(X.dtype) for a in (coef, intercept)
        )
        return self


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
    entries, equal = budget.entries / p, np.full(C, 1 / C)
    # The nearest centroid has a spherical covariance.
    centroid: list[Any] = [Discriminant("lsqr", priors=equal)]
    models = [(CENTROID, centroid, SPHERICAL, entries)]
    # Fast references have the prior of the metric; all of them have both.
    priors = [plan.metric == BALANCED] if level == "fast" else [False, True]
    for even in priors:
        model = Discriminant("lsqr", priors=equal if even else None)
        models.append((DISCRIMINANT[even], [model], SHRINKAGES, entries))
    number = budget.products / (len(plan.test) * p)
    models.append((NEAREST, [KNeighborsClassifier()], NEIGHBOURS, number))
    for even in priors if budget.classes >= C and slow else ():
        number = max(2 * C, min(len(data.fitted), budget.cells / (C * p)))
        steps = int(min(budget.iterations, max(10, budget.steps / (number * C * p))))
        weight = "balanced" if even else None
        model = LogisticRegression(
            class_weight=weight, max_iter=steps, tol=TOLERANCE, warm_start=True
        )
        models.append((LOGISTIC[even], [StandardScaler(), model], PENALTIES, number))
    for about, steps, grid, number in models:
        progress(about[1])
        yield _reference(data, plan, level, about, steps, grid, number)


def left_out(data: FeatureSet, level: str, slow: bool) -> str:
    """Return a sentence about references that are too large, or ""."""
    if level == "none":
        return ""
    hint = "; --references all fits it" if level == "fast" else ""
    if data.num_classes > BUDGETS[level].classes:
        size = counted(data.num_classes, "class", "classes")
        return f"Logistic regression is left out: {size} take too long{hint}."
    return "" if slow else f"Logistic regression is fitted to the best features alone{hint}."


def _reference(
    data: FeatureSet,
    plan: Plan,
    level: str,
    about: About,
    steps: list[Any],
    grid: Grid,
    number: float,
) -> Candidate:
    """Choose settings, validate them, and fit about ``number`` rows."""
    model, last = make_pipeline(Normalizer(), *steps), steps[-1]
    fit, rows = plan.splits[0]
    scores = []
    for settings in grid if len(grid) > 1 else ():
        last.set_params(**settings)
        _fit(model, data, fit, BUDGETS[level].trial * number)
        predicted = predict([model], plan.validation, rows, data.num_classes)[0].predicted
        hits = (predicted == plan.labels[: len(rows)]).double()
        scores.append(float(hits @ plan.weights[: len(rows)]))
    settings = grid[int(np.argmax(scores))] if scores else grid[0]
    last.set_params(**settings)
    parts = []
    for fit, rows in plan.splits:
        _fit(model, data, fit, number)
        parts += predict([model], plan.validation, rows, data.num_classes)
    used, seconds = _fit(model, data, data.fitted, number)
    note = ""
    if used < len(data.fitted):
        note = f"Fitted to a stratified sample of {used:,} of {len(data.fitted):,} rows"
        note += "; --references all fits more." if level == "fast" else "."
    if np.max(getattr(last, "n_iter_", 0)) >= getattr(last, "max_iter", 1):
        note += f" The solver was stopped after {last.max_iter} iterations."
    settings = {name: getattr(last, name) for name in settings}
    if getattr(last, "class_weight", None) is not None:
        settings["class_weight"] = last.class_weight
    key, name, rank = about
    candidate = key, name, "scikit-learn", rank, settings, _code(model), joined(parts)
    return Candidate(*candidate, model, seconds, used, note.strip())


def _fit(model: Any, data: FeatureSet, rows: Tensor, number: float) -> tuple[int, float]:
    """Fit a pipeline to about ``number`` of some training rows; return rows and seconds."""
    drawn = rows[stratified(data.train.y[rows], number)]
    x, y = data.train.read(drawn).numpy(), data.train.y[drawn].numpy()
    # Classes whose rows are all of one identity may lack in the fitted rows.
    present, last = len(np.unique(y)), model[-1]
    if isinstance(getattr(last, "priors", None), np.ndarray):
        last.priors = np.full(present, 1 / present)
    if hasattr(last, "n_neighbors"):
        last.n_neighbors = min(last.n_neighbors, len(drawn))
    if getattr(last, "warm_start", False) and len(getattr(last, "classes_", y)) != present:
        last.__dict__.pop("coef_", None)
    started = time.perf_counter()
    with warnings.catch_warnings():
        # Solvers that are stopped.
        warnings.simplefilter("ignore", (UserWarning, RuntimeWarning))
        model.fit(x, y)
    return len(drawn), time.perf_counter() - started


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
