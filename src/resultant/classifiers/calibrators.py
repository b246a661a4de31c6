"""Scikit-learn's calibrations of scores, in a module of their own: scikit-learn loads slowly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

METHODS = ("sigmoid", "isotonic")


@dataclass(frozen=True, eq=False)
class Calibrators:
    """Monotone functions of the scores, fitted by scikit-learn, as plain numbers that can be saved.

    Two classes have one function, that of the difference of their scores; otherwise each class has
    its own, and the values are scaled to sum to one.

    Attributes:
        method: One of `METHODS`.
        classes: Number C of classes.
        x: Slopes of the sigmoids, or all points of the isotonic functions one after the other.
        y: Intercepts of the sigmoids, or values at the points.
        number: Numbers of points of the functions.
    """

    method: str
    classes: int
    x: np.ndarray
    y: np.ndarray
    number: np.ndarray

    def predict_proba(self, scores: Tensor) -> Tensor:
        """Return probabilities [N, C] of scores [N, C], as scikit-learn does."""
        s = _finite(scores)
        ends, columns = np.cumsum(self.number), []
        for k, f in enumerate((s[:, 1:] - s[:, :1] if self.classes == 2 else s).T):
            at = slice(ends[k] - self.number[k], ends[k])
            if self.method == "isotonic":
                columns.append(np.interp(f, self.x[at], self.y[at]))
            else:
                columns.append(torch.from_numpy(-(self.x[k] * f + self.y[k])).sigmoid().numpy())
        p = np.stack(columns, 1)
        if self.classes == 2:
            p = np.concatenate([1 - p, p], 1)
        else:
            total = p.sum(1, keepdims=True)
            p = np.where(total > 0, p / np.where(total > 0, total, 1), 1 / self.classes)
        return torch.from_numpy(p).to(scores)

    def tensors(self) -> dict[str, Tensor]:
        """Return the numbers by name, for a file."""
        names = ("x", "y", "number")
        return {f"calibrators.{n}": torch.from_numpy(getattr(self, n)) for n in names}

    @staticmethod
    def of(tensors: dict[str, Tensor], method: str, classes: int) -> Calibrators:
        """Return the functions of the tensors of a file."""
        names = ("x", "y", "number")
        return Calibrators(method, classes, *(tensors[f"calibrators.{n}"].numpy() for n in names))


def fit_calibrators(
    scores: Tensor, labels: Tensor, weights: Tensor | np.ndarray, method: str
) -> Calibrators:
    """Fit scikit-learn's calibration to scores [M, C] of rows that were not fitted.

    Args:
        scores: Scores.
        labels: Classes [M].
        weights: Weights [M].
        method: One of `METHODS`.

    Raises:
        ValueError: A class has no row.
    """
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.model_selection import KFold

    class Scores(ClassifierMixin, BaseEstimator):
        """A classifier whose rows are the scores [N, C] themselves."""

        def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: Any = None) -> Scores:
            self.classes_ = np.arange(X.shape[1])
            return self

        def predict(self, X: np.ndarray) -> np.ndarray:
            return X.argmax(1)

        def decision_function(self, X: np.ndarray) -> np.ndarray:
            return X[:, 1] - X[:, 0] if X.shape[1] == 2 else X

    C = scores.shape[1]
    y, w = labels.cpu().numpy(), np.asarray(torch.as_tensor(weights).cpu())
    # The prior of the sigmoid counts one row of each side: weights are counts of rows.
    w = w * (len(w) / w.sum())
    missing = np.setdiff1d(np.arange(C), y)
    if len(missing):
        rule = f"expected a row of each class to fit the calibration {method!r}"
        raise ValueError(f"{rule}, got none of class {missing[0]}; use 'scale'")
    # The model is the same in all folds, so that any folds do; listed, as scikit-learn would ask
    # for a row of each class in each fold of KFold.
    options: dict[str, Any] = {"method": method, "cv": list(KFold(2).split(y)), "ensemble": False}
    model: Any = CalibratedClassifierCV(Scores(), **options)
    model.fit(_finite(scores), y, sample_weight=w)
    fitted: list[Any] = list(model.calibrated_classifiers_)
    functions: list[Any] = fitted[0].calibrators
    if method == "sigmoid":
        pairs = [([f.a_], [f.b_]) for f in functions]
    else:
        pairs = [(f.X_thresholds_, f.y_thresholds_) for f in functions]
    number = np.array([len(x) for x, _ in pairs])
    x, values = (np.concatenate(a).astype(np.float64) for a in zip(*pairs, strict=True))
    return Calibrators(method, C, x, values, number)


def _finite(scores: Tensor) -> np.ndarray:
    """Return scores for scikit-learn, which takes no -inf of a class without rows."""
    return scores.detach().double().clamp_min(-1e30).cpu().numpy()
