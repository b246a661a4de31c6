"""Scikit-learn's calibrations of scores, in a module of their own: scikit-learn loads slowly."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import KFold
from torch import Tensor

METHODS = ("sigmoid", "isotonic")


class _Scores(ClassifierMixin, BaseEstimator):
    """A classifier whose rows are the scores [N, C] themselves."""

    def __init__(self, classes: int) -> None:
        self.classes = classes
        self.classes_ = np.arange(classes)

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: Any = None) -> _Scores:
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return X.argmax(1)

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        return X[:, 1] - X[:, 0] if self.classes == 2 else X


def finite_scores(scores: Tensor) -> np.ndarray:
    """Return scores for scikit-learn, which takes no -inf of a class without rows."""
    return scores.double().clamp_min(-1e30).cpu().numpy()


def calibrators(
    scores: np.ndarray, labels: np.ndarray, weights: np.ndarray, method: str
) -> CalibratedClassifierCV:
    """Fit scikit-learn's calibration to scores [M, C] of rows that were not fitted.

    Args:
        scores: Scores of `finite_scores`.
        labels: Classes [M].
        weights: Weights [M].
        method: One of `METHODS`.

    Returns:
        A classifier of scores, with `predict_proba`.
    """
    # The model is the same in all folds, so that any folds do.
    options: dict[str, Any] = {"method": method, "cv": KFold(2), "ensemble": False}
    model = CalibratedClassifierCV(_Scores(scores.shape[1]), **options)
    return model.fit(scores, labels, sample_weight=weights)
