"""Logistic regression against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from resultant.classifiers.references import finished_logistic
from resultant.classifiers.softmax import SoftmaxFit


def rows(number: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows with a common direction and columns of different size, classes of falling size."""
    draws = torch.Generator().manual_seed(0)
    y = (torch.rand(number, generator=draws).square() * classes).long()
    means = torch.randn(classes, 6, generator=draws)
    x = (means[y] + torch.randn(number, 6, generator=draws)) * torch.logspace(0, -2, 6) + 1
    return torch.nn.functional.normalize(x).numpy(), y.numpy()


def log_probabilities(weights: np.ndarray, x: np.ndarray) -> np.ndarray:
    scores = torch.from_numpy(x @ weights[:, :-1].T + weights[:, -1])
    return scores.log_softmax(1).numpy()


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("cost", [0.3, 300.0])
def test_logistic_regression_is_that_of_scikit_learn(
    balanced: bool, classes: int, cost: float
) -> None:
    """Ours to its tolerance; scikit-learn's from there is scikit-learn's from zero."""
    x, y = rows(200, classes)
    weight = "balanced" if balanced else None
    model = LogisticRegression(C=cost, class_weight=weight, tol=1e-9, max_iter=5000)
    model.fit(x.astype(float), y)
    expected = model.predict_log_proba(x.astype(float))
    # Classes may have any number.
    fit = SoftmaxFit(x, y + 1, balanced)
    assert fit.classes.tolist() == list(range(1, classes + 1))
    result = log_probabilities(fit.solve(cost, 1e-6, 300), x)
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=3e-3)
    finished = finished_logistic(x, y, cost, balanced, 1000)
    assert finished.n_iter_.max() < 1000
    result = finished.predict_log_proba(x.astype(float))
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=3e-3)


def test_a_warm_start_ends_at_the_same_place() -> None:
    x, y = rows(200, 5)
    fit = SoftmaxFit(x, y, False)
    cold, warm = fit.solve(10.0, 1e-6, 300), fit.solve(30.0, 1e-6, 300)
    warm = fit.solve(10.0, 1e-6, 300, warm)
    np.testing.assert_allclose(
        log_probabilities(warm, x), log_probabilities(cold, x), atol=2e-3, rtol=0
    )
