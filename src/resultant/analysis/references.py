"""The classifiers of scikit-learn that an analysis compares with, as a table of pipelines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.linalg import solve
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from resultant._core.text import counted
from resultant.analysis.split import BALANCED, FeatureSet, Plan

LEVELS = ("none", "fast", "all")


class Discriminant(LinearDiscriminantAnalysis):
    """Discriminant analysis whose covariance is one product rather than one per class."""

    def fit(self, X: Any, y: Any) -> Self:
        """Fit rows [N, p] of classes [N]."""
        self.classes_, own = np.unique(y, return_inverse=True)
        count, one = np.bincount(own), (np.ones(len(own)), (own, np.arange(len(own))))
        mean = csr_array(one) @ X / count[:, None]
        self.priors_ = count / len(own) if self.priors is None else np.asarray(self.priors)
        if len(self.priors_) != len(count):
            # Classes whose rows are all of one group may lack in a fold.
            self.priors_ = np.full(len(count), 1 / len(count))
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


@dataclass(frozen=True)
class Reference:
    """One row of the table: a classifier, the settings that are tried, and what a fit costs."""

    key: str  # class of scikit-learn, with what differs from its defaults
    name: str
    rank: float  # place in the order from simple to complex
    model: Any
    scalings: tuple[tuple[Any, ...], ...]  # first steps of the pipelines that are tried
    grid: tuple[dict[str, Any], ...]  # settings of the classifier that are tried
    cost: str  # "linear" in rows, "classes": rows times classes, "pairs": rows times test rows

    def pipelines(self) -> list[Pipeline]:
        """Return all pipelines, not fitted."""
        made = []
        for settings in self.grid:
            for steps in self.scalings:
                last: Any = clone(self.model)
                made.append(make_pipeline(*map(clone, steps), last.set_params(**settings)))
        return made


STANDARD, UNIT = (StandardScaler(),), (Normalizer(),)
BOTH = (STANDARD, UNIT)
SHRINKAGES = tuple({"shrinkage": s} for s in (0.01, 0.1, 0.5))
PENALTIES = tuple({"C": c} for c in (0.001, 0.01, 0.1, 1.0))
NEIGHBOURS = tuple({"n_neighbors": k} for k in (1, 5, 10, 20))

# Multiplications of a fit up to which all rows are fitted; beyond, a stratified sample is. They are
# a minute of one core for "fast".
BUDGETS = {
    "fast": {"linear": 2e9, "classes": 3e9, "pairs": 2e11},
    "all": {"linear": 1e11, "classes": 1e11, "pairs": 1e14},
}
# Share of these rows on which settings are tried, and iterations of a logistic regression.
TRIAL = {"fast": 0.2, "all": 0.1}
ITERATIONS = {"fast": 200, "all": 1000}
# Classes beyond which a logistic regression is left out.
CLASSES = {"fast": 2000, "all": 20_000}


def table(data: FeatureSet, plan: Plan, level: str) -> list[Reference]:
    """Return the references of a level; "fast" ones have the prior of the metric."""
    if level not in LEVELS:
        raise ValueError(f"expected references among {LEVELS}, got {level!r}")
    if level == "none":
        return []
    equal = np.full(data.num_classes, 1 / data.num_classes)
    # Of a logistic regression on unit rows, the penalty would depend on the dimension.
    scaled = (STANDARD, (*UNIT, *STANDARD))
    centroid, near = NearestCentroid(), KNeighborsClassifier()
    rows = [
        Reference("NearestCentroid", "nearest centroid", 0, centroid, BOTH, ({},), "linear"),
        Reference(
            "KNeighborsClassifier", "nearest neighbours", 70, near, BOTH, NEIGHBOURS, "pairs"
        ),
    ]
    for even in [plan.metric == BALANCED] if level == "fast" else [False, True]:
        lda: Any = Discriminant("lsqr", priors=equal if even else None)
        key = "LinearDiscriminantAnalysis" + "(equal prior)" * even
        name = "linear discriminant analysis" + ", equal prior" * even
        rows.append(Reference(key, name, 30, lda, BOTH, SHRINKAGES, "linear"))
        if data.num_classes > CLASSES[level]:
            continue
        weight = "balanced" if even else None
        lr = LogisticRegression(class_weight=weight, max_iter=ITERATIONS[level])
        key, name = "LogisticRegression" + "(balanced)" * even, "balanced " * even
        name += "logistic regression"
        rows.append(Reference(key, name, 50 + even, lr, scaled, PENALTIES, "classes"))
    return sorted(rows, key=lambda row: row.rank)


def affordable(reference: Reference, data: FeatureSet, plan: Plan, level: str) -> float:
    """Return about the number of training rows that a fit can afford."""
    per_row = {
        "linear": data.dim,
        "classes": data.dim * data.num_classes,
        "pairs": data.dim * len(plan.test),
    }
    number = BUDGETS[level][reference.cost] / per_row[reference.cost]
    return max(number, 2.0 * data.num_classes)


def left_out(data: FeatureSet, level: str) -> str:
    """Return a sentence about references that are too large, or ""."""
    if level == "none" or data.num_classes <= CLASSES[level]:
        return ""
    hint = "; --references all fits it" if level == "fast" else ""
    size = counted(data.num_classes, "class", "classes")
    return f"Logistic regression is left out: {size} take too long{hint}."


def code_of(pipeline: Pipeline) -> str:
    """Return Python that builds and fits a pipeline, from scikit-learn's own representation."""
    imports, words = [("sklearn.pipeline", "make_pipeline")], []
    for _, step in pipeline.steps:
        known = type(step).__module__.startswith("sklearn")
        kind: Any = type(step) if known else type(step).__base__
        settings, priors = step.get_params(), ""
        if isinstance(settings.get("priors"), np.ndarray):
            priors = f", priors=[1 / {len(settings.pop('priors'))}] * {len(step.priors)})"
        text = " ".join(repr(kind(**settings)).split())
        words.append(text[:-1] + priors if priors else text)
        imports.append((kind.__module__.split("._")[0], kind.__name__))
    lines = [f"from {module} import {name}" for module, name in sorted(imports)]
    return "\n".join([*lines, "", f"model = make_pipeline({', '.join(words)}).fit(X, y)"])


def settings_of(pipeline: Pipeline, reference: Reference) -> dict[str, Any]:
    """Return the chosen settings by parameter name, and the scaling of the rows."""
    last: Any = pipeline[-1]
    chosen = {name: getattr(last, name) for name in reference.grid[0]}
    if getattr(last, "class_weight", None) is not None:
        chosen["class_weight"] = last.class_weight
    return {**chosen, "rows": "unit length" if type(pipeline[0]) is Normalizer else "standardized"}
