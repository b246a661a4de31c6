"""Calibration in cross-validation: a scale for each point, and scikit-learn's methods."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from resultant.classifiers.cross_validated import VMFClassifierCV
from resultant.classifiers.vmf import VMFClassifier

P = 6


def sample(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    y[:20] = np.arange(20) % 4
    noise = 0.5 * (1 + y[:, None]) / 2 * rng.normal(size=(n, P))
    return np.random.default_rng(7).normal(size=(4, P))[y] + noise, y


@pytest.mark.slow
def test_points_are_compared_with_a_scale_of_their_own() -> None:
    """The loss of each point is that of its scores with the best factor for all rows left out."""
    X, y = sample()
    cv = StratifiedKFold(3)
    grid: dict[str, Any] = {
        "temperature": [0.1],
        "realization": ["native", "angular", "cosine"],
        "beta": [0.0, 0.5],
        "prior": [0.0, 1.0],
    }
    ours = VMFClassifierCV(**grid, cv=cv, extend=False).fit(X, y)
    results = ours.cv_results_
    for g, point in enumerate(results["params"]):
        scores: Any = cross_val_predict(
            VMFClassifier(**point), X, y, cv=cv, method="decision_function"
        )
        own = np.asarray(scores) - logsumexp(scores, axis=1, keepdims=True)

        def loss(scale: float, own: np.ndarray = own) -> float:
            rows = scale * own
            rows = np.asarray(logsumexp(rows, axis=1, keepdims=True)) - rows
            # Each row counts for all classes a little, as one row more would.
            share = 1 / (len(y) + 1)
            return float(((1 - share) * rows[np.arange(len(y)), y] + share * rows.mean(1)).mean())

        scale = results["scale"][g]
        best: Any = minimize_scalar(loss, bracket=(scale / 2, scale * 2))
        assert loss(scale) == pytest.approx(best.fun, rel=1e-4)
        p = softmax(scale * own, axis=1)
        folds = [log_loss(y[test], p[test]) for _, test in cv.split(X, y)]
        assert -results["mean_test_neg_log_loss"][g] == pytest.approx(np.mean(folds), rel=1e-8)
    assert ours.scale_ == results["scale"][ours.best_index_]


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("classes", [2, 4])
def test_calibration_of_scikit_learn(method: str, classes: int) -> None:
    """Probabilities are those of CalibratedClassifierCV on the scores of rows left out."""
    (X, y), (Q, _) = sample(), sample(20, seed=1)
    X, y = X[y < classes], y[y < classes]
    one: dict[str, Any] = {"realization": "angular", "beta": 0.0, "temperature": 0.1, "prior": 1.0}
    ours = VMFClassifierCV(**one, cv=3, calibration=method).fit(X, y)
    model = VMFClassifier(**one, scale=ours.scale_)
    theirs = CalibratedClassifierCV(model, method=method, cv=3, ensemble=False)  # type: ignore[arg-type]
    theirs.fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(Q), theirs.predict_proba(Q), atol=1e-9)
    assert (ours.predict(Q) == model.fit(X, y).predict(Q)).all()
    again = pickle.loads(pickle.dumps(ours))
    np.testing.assert_array_equal(again.predict_proba(Q), ours.predict_proba(Q))
    frozen = CalibratedClassifierCV(FrozenEstimator(model), method=method).fit(X, y)
    assert np.allclose(frozen.predict_proba(Q).sum(1), 1)


def test_probabilities_are_calibrated_on_rows_left_out() -> None:
    """The scale is that of the left-out scores, and makes the log-loss of new rows smaller."""
    (X, y), (Q, t) = sample(), sample(80, seed=1)
    warm = VMFClassifierCV("native", 1.0, 2.0, 0.0, cv=4).fit(X, y)
    plain = VMFClassifier(2.0, "native", 1.0).fit(X, y)
    before, after = (log_loss(t, c.predict_proba(Q)) for c in (plain, warm))
    assert warm.scale_ > 1 and after < before
