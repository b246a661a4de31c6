"""Calibration of the vMF classifier: a scale, or scikit-learn's methods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import PredefinedSplit

from resultant import VMFClassifier, expected_calibration_error

P = 6


def sample(n: int = 120, seed: int = 0, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    centres = np.random.default_rng(7).normal(size=(classes, P))
    return centres[y] + 0.9 * rng.normal(size=(n, P)), y


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("classes", [2, 3])
def test_calibrate_is_that_of_scikit_learn(method: str, classes: int, tmp_path: Path) -> None:
    """On rows kept apart; a saved classifier gives the same probabilities."""
    (X, y), (V, v), (Q, _) = (sample(seed=seed, classes=classes) for seed in range(3))
    ours = VMFClassifier(temperature=0.3).fit(X, y)
    decided = ours.predict(Q)
    ours.calibrate(V, v, method)
    assert ours.scale_ is not None
    scaled = VMFClassifier(temperature=0.3, scale=ours.scale_).fit(X, y)
    theirs: Any = CalibratedClassifierCV(FrozenEstimator(scaled), method=method).fit(V, v)
    np.testing.assert_allclose(ours.predict_proba(Q), theirs.predict_proba(Q), atol=1e-9)
    assert (ours.predict(Q) == decided).all()
    ours.save(tmp_path / "a.safetensors")
    again = VMFClassifier.load(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(again.predict_proba(Q), ours.predict_proba(Q))
    tensor = again.predict_log_proba(torch.from_numpy(Q))
    assert isinstance(tensor, torch.Tensor)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(tensor.numpy(), np.log(ours.predict_proba(Q)), atol=1e-9)


def test_folds_of_the_fitted_rows_are_those_of_scikit_learn() -> None:
    (X, y), (Q, _) = sample(), sample(seed=1)
    folds = np.arange(len(y)) % 4
    ours = VMFClassifier(temperature=0.3).fit(X, y).calibrate(X, y, "sigmoid", folds=folds)
    assert ours.scale_ is not None
    scaled = VMFClassifier(temperature=0.3, scale=ours.scale_)
    options: dict[str, Any] = {"method": "sigmoid", "cv": PredefinedSplit(folds), "ensemble": False}
    theirs: Any = CalibratedClassifierCV(scaled, **options).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(Q), theirs.predict_proba(Q), atol=1e-9)


def test_one_row_of_a_class_calibrates() -> None:
    X, y = sample()
    kept = (y < 2) | (np.arange(len(y)) == 2)
    fitted = VMFClassifier(temperature=0.3).fit(X, y).calibrate(X[kept], y[kept], "isotonic")
    assert np.isfinite(fitted.predict_proba(X)).all()


@pytest.mark.parametrize(
    ("method", "components"), [("scale", 1), ("sigmoid", 1), ("isotonic", 1), ("sigmoid", 2)]
)
def test_fit_calibrates_on_rows_left_out(method: str, components: int) -> None:
    """The probabilities of scores that are far too sharp become better."""
    (X, y), (Q, t) = sample(120 // components), sample(seed=1)
    options: dict[str, Any] = {"temperature": 0.004, "components": components}
    plain = VMFClassifier(**options).fit(X, y)
    ours = VMFClassifier(**options, calibration=method).fit(X, y)
    before, after = (expected_calibration_error(c.predict_proba(Q), t) for c in (plain, ours))
    assert after < before - 0.05 and (ours.predict(Q) == plain.predict(Q)).all()
    assert ours.scale_ is not None and ours.scale_ < 1
    assert ours.set_params(calibration=None).fit(X, y).scale_ is None


def test_calibration_is_refused_where_it_cannot_be() -> None:
    X, y = sample()
    with pytest.raises(ValueError, match=r"calibration to be one of .* got 'platt'"):
        VMFClassifier(calibration="platt").fit(X, y)
    with pytest.raises(ValueError, match="calibration=None in partial_fit"):
        VMFClassifier(calibration="scale").partial_fit(X, y, classes=[0, 1, 2])
    fitted = VMFClassifier().fit(X, y)
    with pytest.raises(ValueError, match="got None"):
        fitted.calibrate(X, y, None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"a row of each class .* none of class 2; use 'scale'"):
        fitted.calibrate(X[y < 2], y[y < 2], "isotonic")
    with pytest.raises(ValueError, match="labels among the classes"):
        fitted.calibrate(X, y + 1)
    with pytest.raises(ValueError, match=r"folds \[120\] of integers, two or more of them, got"):
        fitted.calibrate(X, y, folds=np.zeros(len(y), int))
    with pytest.raises(ValueError, match="a row of a class with other rows, got none"):
        fitted.calibrate(X, y, folds=y)
    with pytest.raises(ValueError, match="a class of 5 rows or more"):
        VMFClassifier(components=2, calibration="scale").fit(X[:9], y[:9])


def test_rows_added_later_drop_the_calibration() -> None:
    X, y = sample()
    fitted = VMFClassifier(temperature=0.004).fit(X, y).calibrate(X, y, "sigmoid")
    fitted.partial_fit(X, y)
    plain = VMFClassifier(temperature=0.004).fit(np.concatenate([X, X]), np.concatenate([y, y]))
    np.testing.assert_allclose(fitted.predict_proba(X), plain.predict_proba(X), atol=1e-12)
