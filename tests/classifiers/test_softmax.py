"""Logistic regression and shrinkage LDA against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from resultant.classifiers.references import shrinkage_lda
from resultant.classifiers.softmax import SoftmaxFit


def rows(number: int, classes: int) -> tuple[Tensor, Tensor]:
    """Unit rows with a common direction and columns of different size, classes of falling size."""
    draws = torch.Generator().manual_seed(0)
    y = (torch.rand(number, generator=draws).square() * classes).long()
    means = torch.randn(classes, 6, generator=draws)
    x = (means[y] + torch.randn(number, 6, generator=draws)) * torch.logspace(0, -2, 6) + 1
    return torch.nn.functional.normalize(x), y


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("cost", [0.3, 300.0])
def test_logistic_regression_is_that_of_scikit_learn(
    balanced: bool, classes: int, cost: float
) -> None:
    x, y = rows(200, classes)
    # A class without rows, and one of another number.
    fitted, steps = SoftmaxFit(x, y + 1, classes + 1, balanced).solve(cost, 1e-6, 300)
    weight = "balanced" if balanced else None
    model = LogisticRegression(C=cost, class_weight=weight, tol=1e-9, max_iter=5000)
    model.fit(x.double().numpy(), y.numpy())
    expected = model.predict_log_proba(x.double().numpy())
    scores = fitted(x)
    assert 0 < steps < 300 and bool((scores[:, 0] == -torch.inf).all())
    np.testing.assert_allclose(scores.log_softmax(1)[:, 1:], expected, rtol=1e-3, atol=3e-3)


def test_a_warm_start_ends_at_the_same_place() -> None:
    x, y = rows(200, 5)
    fit = SoftmaxFit(x, y, 5, False)
    cold, steps = fit.solve(10.0, 1e-6, 300)
    warm, _ = fit.solve(10.0, 1e-6, 300, fit.solve(30.0, 1e-6, 300)[0])
    assert fit.solve(10.0, 1e-5, 300, cold)[1] < steps / 2
    torch.testing.assert_close(warm(x).log_softmax(1), cold(x).log_softmax(1), atol=2e-3, rtol=0)


def test_lda_is_that_of_scikit_learn() -> None:
    x, y = rows(300, 4)
    # A constant column, and a class of two rows.
    x, y = torch.cat([x, torch.ones(300, 1)], 1), torch.cat([y[:-2], torch.tensor([5, 5])])
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(x.numpy(), y.numpy())
    fitted = shrinkage_lda(x, y, 6)
    expected, kept = model.decision_function(x.numpy()), torch.from_numpy(model.classes_)
    scores = fitted["lda"](x)
    differences = (scores - scores[:, :1])[:, kept]
    np.testing.assert_allclose(differences, expected - expected[:, :1], rtol=1e-3, atol=2e-3)
    equal = (fitted["lda-equal"].bias - fitted["lda"].bias)[kept]
    np.testing.assert_allclose(equal, -np.log(model.priors_), rtol=1e-5)
    assert float(scores[0, 4]) == -torch.inf
