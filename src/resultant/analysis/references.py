"""Reference classifiers of scikit-learn on unit rows, fitted in this process.

Where rows are many, a stratified sample is fitted, and the page says so. Settings are chosen by the
log-loss of the validation rows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from resultant._core.text import counted
from resultant.analysis.candidates import Candidate, Predictions, joined, predict
from resultant.analysis.data import BALANCED, FeatureSet, Plan
from resultant.analysis.sampling import stratified

LEVELS = ("none", "fast", "all")

# Strengths of the penalty and numbers of neighbours that are tried.
PENALTIES = (0.001, 0.01, 0.1, 1.0)
NEIGHBOURS = (1, 5, 10, 20)


@dataclass(frozen=True)
class Budget:
    """Sizes up to which all rows are fitted; beyond them a stratified sample is.

    Attributes:
        cells: Rows times classes times dimension of a logistic regression.
        trial: Share of the cells while its penalty is chosen.
        classes: Classes of a logistic regression; it is left out beyond.
        products: Test rows times rows times dimension of nearest neighbours.
        covariance: Classes times squared dimension of discriminant analysis; it is left out beyond.
        entries: Rows times dimension of discriminant analysis and of centroids.
        iterations: Iterations of a logistic regression at most.
    """

    cells: float
    trial: float
    classes: int
    products: float
    covariance: float
    entries: float
    iterations: int


BUDGETS = {
    "fast": Budget(8e7, 0.2, 2000, 2e9, 2e8, 2e7, 100),
    "all": Budget(6e10, 0.05, 20_000, 1e14, 4e9, 1e9, 1000),
}


class Neighbours:
    """Nearest neighbours whose shares of votes are smoothed by one vote for all classes.

    Args:
        model: A fitted pipeline that ends in nearest neighbours.
        k: Neighbours.
    """

    def __init__(self, model: Any, k: int) -> None:
        self.model, self.k = model, k

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the smoothed shares [n, C]; among equal votes the first class wins."""
        votes = self.model.predict_proba(X)
        return (self.k * votes + 1 / votes.shape[1]) / (self.k + 1)


class Widened:
    """A model that was fitted to some of the classes, with probability zero for the others.

    Args:
        model: A fitted classifier of the classes ``model.classes_``.
        num_classes: C.
    """

    def __init__(self, model: Any, num_classes: int) -> None:
        self.model, self.num_classes = model, num_classes

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return probabilities [n, C]."""
        p = np.zeros((len(X), self.num_classes))
        p[:, self.model.classes_] = self.model.predict_proba(X)
        return p


def references(
    data: FeatureSet,
    plan: Plan,
    level: str,
    *,
    slow: bool = True,
    progress: Callable[[str], object] | None = None,
) -> Iterator[Candidate]:
    """Fit and validate the references.

    Args:
        data: The rows.
        plan: The validation rows.
        level: "none", "fast" or "all": how many rows are fitted.
        slow: Also fit logistic regressions.
        progress: Called with the name of a reference before its fit.

    Raises:
        ValueError: The level is not one of `LEVELS`.
    """
    if level not in LEVELS:
        raise ValueError(f"expected references among {LEVELS}, got {level!r}")
    if level == "none":
        return
    budget, C, p = BUDGETS[level], data.num_classes, data.dim
    fit = _Fit(data, plan, level, progress)
    yield fit.centroid(budget.entries / p)
    # Fast references have the prior of the metric; all of them have both.
    balanced = [plan.metric == BALANCED] if level == "fast" else [False, True]
    if C * p**2 <= budget.covariance:
        for equal in balanced:
            yield fit.discriminant(equal, budget.entries / p)
    tested = len(data.test) if plan.test is None else len(plan.test)
    yield fit.neighbours(budget.products / (tested * p))
    if budget.classes >= C and slow:
        for equal in balanced:
            yield fit.logistic(equal, budget)


def left_out(data: FeatureSet, level: str, slow: bool) -> str:
    """Return a sentence about references that are too large, or ""."""
    if level == "none":
        return ""
    budget, size = BUDGETS[level], counted(data.num_classes, "class", "classes")
    hint = "; --references all fits it" if level == "fast" else ""
    texts = []
    if data.num_classes * data.dim**2 > budget.covariance:
        texts.append(f"LDA is left out: {size} of {data.dim:,} dimensions are too large{hint}.")
    if data.num_classes > budget.classes:
        texts.append(f"Logistic regression is left out: {size} take too long{hint}.")
    elif not slow:
        texts.append(f"Logistic regression is fitted to the best features alone{hint}.")
    return " ".join(texts)


class _Fit:
    """Fits of references to samples of the training rows, and their validation."""

    def __init__(
        self, data: FeatureSet, plan: Plan, level: str, progress: Callable[[str], object] | None
    ) -> None:
        self.data, self.plan, self.level, self.progress = data, plan, level, progress

    def centroid(self, number: float) -> Candidate:
        """Fit nearest centroids."""
        from sklearn.neighbors import NearestCentroid

        validated = self._crossed(lambda _: _on_units(NearestCentroid()), number)
        model = _on_units(NearestCentroid())
        return self._finished(
            "NearestCentroid", "nearest centroid", 0, {}, model, validated, number
        )

    def discriminant(self, equal: bool, number: float) -> Candidate:
        """Fit discriminant analysis, with the shares of the classes as prior or an equal one."""
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

        def model(rows: Tensor) -> Any:
            # Classes whose rows are all of one identity may lack in the fitted rows.
            C = len(self.data.train.y[rows].unique())
            prior = np.full(C, 1 / C) if equal else None
            return _on_units(LinearDiscriminantAnalysis("lsqr", shrinkage="auto", priors=prior))

        validated = self._crossed(model, number)
        key, name = "LinearDiscriminantAnalysis", "linear discriminant analysis"
        if equal:
            key, name = f"{key}(equal prior)", f"{name}, equal prior"
        final = model(self.data.fitted)
        return self._finished(key, name, 40 + equal, {}, final, validated, number)

    def neighbours(self, number: float) -> Candidate:
        """Fit nearest neighbours, and choose their number."""
        from sklearn.neighbors import KNeighborsClassifier

        rows = self._drawn(self.plan.fit, number)
        ks = [k for k in NEIGHBOURS if k <= len(rows)]
        models = [_on_units(KNeighborsClassifier(k, algorithm="brute")) for k in ks]
        trials = [
            Neighbours(self._fitted(m, self.plan.fit, number)[0], k)
            for m, k in zip(models, ks, strict=True)
        ]
        k = ks[self._least(self._trial(trials))]

        def model(_: Tensor) -> Any:
            return _on_units(KNeighborsClassifier(k, algorithm="brute"))

        def wrap(fitted: Any) -> Any:
            return Neighbours(fitted, k)

        return self._finished(
            *("KNeighborsClassifier", "nearest neighbours", 70, {"n_neighbors": k}),
            *(model(rows), self._crossed(model, number, wrap), number, wrap),
        )

    def logistic(self, balanced: bool, budget: Budget) -> Candidate:
        """Fit a logistic regression: choose its penalty on few rows, validate it, fit all rows from
        there."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.preprocessing import StandardScaler

        number = budget.cells / (self.data.num_classes * self.data.dim)
        weight = "balanced" if balanced else None
        settings = {"class_weight": weight, "max_iter": budget.iterations, "tol": 1e-3}
        model = _on_units(
            StandardScaler(), LogisticRegression(**settings, C=PENALTIES[0], warm_start=True)
        )
        trials = []
        # Solutions are near each other: each begins at the one before.
        for penalty in PENALTIES:
            model[-1].set_params(C=penalty)
            self._fitted(model, self.plan.fit, budget.trial * number)
            trials += self._trial([model])
        best = PENALTIES[self._least(trials)]
        model[-1].set_params(C=best)

        def started(rows: Tensor) -> Any:
            # A solution for other classes is no start.
            same = len(model.classes_) == len(self.data.train.y[rows].unique())
            return model.set_params(logisticregression__warm_start=same)

        validated = self._crossed(started, number)
        started(self.data.fitted)
        key, name = "LogisticRegression", "logistic regression"
        shown: dict[str, Any] = {"C": best}
        if balanced:
            key, name = f"{key}(balanced)", f"balanced {name}"
            shown["class_weight"] = weight
        return self._finished(key, name, 50 + balanced, shown, model, validated, number)

    def _fitted(self, model: Any, rows: Tensor, number: float) -> tuple[Any, int, float]:
        """Fit a model to about ``number`` of some training rows; return rows and seconds too."""
        from sklearn.exceptions import ConvergenceWarning

        drawn = self._drawn(rows, number)
        x, y = self.data.train.read(drawn).numpy(), self.data.train.y[drawn].numpy()
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            # LDA of few rows, and centroids of constant columns.
            warnings.simplefilter("ignore", (UserWarning, RuntimeWarning))
            model.fit(x, y)
        return model, len(drawn), time.perf_counter() - started

    def _drawn(self, rows: Tensor, number: float) -> Tensor:
        return rows[stratified(self.data.train.y[rows], number)]

    def _trial(self, models: list[Any]) -> list[Predictions]:
        """Predict the validation rows of the first fold."""
        wide, rows = [self._wide(model) for model in models], self.plan.splits[0][1]
        return predict(wide, self.plan.validation, rows, self.data.num_classes)

    def _crossed(
        self,
        model: Callable[[Tensor], Any],
        number: float,
        wrap: Callable[[Any], Any] = lambda fitted: fitted,
    ) -> Predictions:
        """Predict the validation rows of each fold by a ``model`` of its training rows."""
        parts = []
        for fit, rows in self.plan.splits:
            fitted = self._wide(wrap(self._fitted(model(fit), fit, number)[0]))
            parts += predict([fitted], self.plan.validation, rows, self.data.num_classes)
        return joined(parts)

    def _wide(self, model: Any) -> Any:
        inner = model.model if isinstance(model, Neighbours) else model
        if len(inner.classes_) == self.data.num_classes:
            return model
        return Widened(inner, self.data.num_classes)

    def _least(self, validated: list[Predictions]) -> int:
        weights = self.plan.weights[: len(self.plan.splits[0][1])]
        losses = [float(v.loss @ weights) for v in validated]
        return int(np.argmin(losses))

    def _finished(
        self,
        key: str,
        name: str,
        rank: int,
        settings: dict[str, Any],
        model: Any,
        validated: Predictions,
        number: float,
        wrap: Callable[[Any], Any] = lambda fitted: fitted,
    ) -> Candidate:
        """Fit the final model."""
        if self.progress is not None:
            self.progress(name)
        fitted, rows, seconds = self._fitted(model, self.data.fitted, number)
        notes, total = [], len(self.data.fitted)
        if rows < total:
            hint = "; --references all fits more" if self.level == "fast" else ""
            notes.append(f"Fitted to a stratified sample of {rows:,} of {total:,} rows{hint}.")
        steps = getattr(fitted[-1], "n_iter_", None)
        if steps is not None and int(np.max(steps)) >= fitted[-1].max_iter:
            notes.append(f"The solver was stopped after {fitted[-1].max_iter} iterations.")
        model = self._wide(wrap(fitted))
        code = _code(model)
        return Candidate(
            *(key, name, "scikit-learn", rank, settings, code, validated, model, seconds, rows),
            " ".join(notes),
        )


def _on_units(*steps: Any) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer

    return make_pipeline(Normalizer(), *steps)


def _code(model: Any) -> str:
    """Return Python that builds and fits a pipeline, from scikit-learn's own representation."""
    from sklearn.base import clone

    steps: list[Any] = [clone(step) for _, step in getattr(model, "model", model).steps]
    last, priors = steps[-1], ""
    if isinstance(getattr(last, "priors", None), np.ndarray):
        priors = f", priors=[1 / {len(last.priors)}] * {len(last.priors)})"
        last.set_params(priors=None)
    if getattr(last, "warm_start", False):
        last.set_params(warm_start=False)
    words = ", ".join(" ".join(repr(step).split()) for step in steps)
    words = words[:-1] + priors if priors else words
    imports = sorted((type(s).__module__.split("._")[0], type(s).__name__) for s in steps)
    lines = [f"from {module} import {name}" for module, name in imports]
    lines += ["from sklearn.pipeline import make_pipeline", ""]
    return "\n".join([*lines, f"model = make_pipeline({words}).fit(X, y)"])
