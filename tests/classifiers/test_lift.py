"""Random features against their kernel, and classifiers of them."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.preprocessing import normalize

from classifiers.labelled import opposite, sample
from resultant import VMFClassifier, VMFClassifierCV
from resultant.classifiers import refine
from resultant.classifiers.inputs import Sample
from resultant.classifiers.lift import FEATURES, Lift
from resultant.classifiers.module import ScoreModule
from resultant.classifiers.validation import Validation

(X, Y), (Q, T) = opposite(), opposite(seed=1)
unit: Any = normalize


def some(dtype: Any = np.float64) -> Sample:
    weight = torch.ones(len(Y), dtype=torch.float64)
    return Sample(torch.from_numpy(X.astype(dtype)), torch.from_numpy(Y), weight, 3)


@pytest.mark.parametrize("k", [0.5, 4.0])
def test_products_of_features_are_the_kernel(k: float) -> None:
    lift = Lift.fit(some(), k)
    z = unit(X)
    centre = np.mean([z[c == Y].mean(0) for c in range(3)], axis=0)
    x = unit(z - centre)
    kernel = np.exp(k * (x @ x.T - 1))
    features = lift(torch.from_numpy(z)).numpy()
    assert features.shape == (len(X), FEATURES)
    # Orthogonal features have no more than the error of independent ones.
    assert np.abs(features @ features.T - kernel).std() < 1 / np.sqrt(FEATURES)
    assert not lift(torch.zeros(1, X.shape[1]).double()).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_classes_that_no_linear_score_divides(dtype: Any, tmp_path: Path) -> None:
    x, q = X.astype(dtype), Q.astype(dtype)
    settings: Any = {"refine": 0.1, "whiten": "within", "shrinkage": 0.3}
    linear = VMFClassifier(**settings).fit(x, Y)
    lifted = VMFClassifier(**settings, lift=1.0).fit(x, Y)
    assert linear.score(q, T) < 0.8 and lifted.score(q, T) > 0.97
    assert lifted.n_features_in_ == X.shape[1] and lifted.statistics_.dim == FEATURES
    assert np.shape(lifted.directions(q)) == (len(q), FEATURES)
    lifted.save(tmp_path / "a.safetensors")
    for again in (
        VMFClassifier.load(tmp_path / "a.safetensors"),
        pickle.loads(pickle.dumps(lifted)),
    ):
        np.testing.assert_allclose(again.predict_proba(q), lifted.predict_proba(q), rtol=1e-4)
        assert again.n_features_in_ == X.shape[1]
    # Without a refinement, they are rows like others.
    plain = VMFClassifier(whiten="within", shrinkage=0.3, lift=1.0).fit(x, Y)
    assert plain.score(q, T) > linear.score(q, T)


@pytest.mark.parametrize("refine", [0.3, None])
def test_folds_are_cold_fits(refine: float | None) -> None:
    """The features of a fold are centred by its training rows alone."""
    settings: Any = {"whiten": "within", "shrinkage": 0.3, "lift": 1.0, "refine": refine}
    splits = list(StratifiedKFold(3).split(X, Y))
    pairs: Any = [tuple(map(torch.from_numpy, pair)) for pair in splits]
    folds = Validation(some(), pairs).lifted(1.0).folds(0.3, 1, refine)
    for (train, test), fold in zip(splits, folds, strict=True):
        cold = VMFClassifier(0.1, "angular", **settings, scale=1.0).fit(X[train], Y[train])
        assert fold.y.tolist() == Y[test].tolist()
        scores = fold.scores("angular", 0.1, 0.0, 0.0).log_softmax(1)
        # Refinements end at a tolerance, and begin elsewhere here.
        error = 1e-9 if refine is None else 1e-2
        np.testing.assert_allclose(scores, cold.predict_log_proba(X[test]), rtol=error, atol=1e-9)


def test_the_validation_is_that_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The score of a search that fits to the end equals that of cold fits on the same folds."""
    monkeypatch.setattr(refine, "SEARCH_NATS", 1e-12)
    folds = StratifiedKFold(3)
    settings: Any = {"whiten": "within", "shrinkage": 0.3, "lift": 1.0, "refine": 0.3}
    settings |= {"prior": 0.0, "scale": 1.0}
    searched = VMFClassifierCV(cv=folds, **settings, extend=False).fit(X, Y)
    assert searched.best_params_["lift"] == 1.0 and searched.best_params_["refine"] == 0.3
    cold = cross_val_predict(VMFClassifier(**settings), X, Y, cv=folds, method="predict_proba")
    assert searched.best_score_ == pytest.approx(-log_loss(Y, cold), rel=1e-5)


def test_the_search_lifts() -> None:
    """Chosen where the rows need them."""
    chosen = VMFClassifierCV(cv=3, components=1).fit(X, Y)
    assert chosen.best_params_["lift"] and chosen.best_params_["refine"]
    assert chosen.score(Q, T) > 0.97
    auto = VMFClassifier(whiten="within", refine="auto", lift="auto").fit(X, Y)
    assert auto.lift_ is not None and auto.score(Q, T) > 0.97


def test_what_is_refused() -> None:
    x, y = sample()
    for bad in (0, -1.0, "much", np.inf):
        with pytest.raises(ValueError, match="lift"):
            VMFClassifier(lift=bad).fit(x, y)
    with pytest.raises(ValueError, match=r'expected refine with lift="auto", got refine=None'):
        VMFClassifier(lift="auto").fit(x, y)
    with pytest.raises(AttributeError, match=r"got lift=1\.0; use fit with all rows"):
        _ = VMFClassifier(lift=1.0).partial_fit


@pytest.mark.parametrize("lift", [None, 1.0])
def test_refined_classes_as_a_module(lift: Any) -> None:
    """The scores of `torch.export` are those of the classifier."""
    settings: Any = {"refine": 0.1, "whiten": "within", "shrinkage": 0.3, "lift": lift}
    fitted = VMFClassifier(**settings).fit(X.astype(np.float32), Y)
    rows = torch.from_numpy(Q.astype(np.float32))
    module = torch.export.export(ScoreModule(fitted), (rows,)).module()
    expected = torch.as_tensor(fitted.decision_function(rows))
    torch.testing.assert_close(module(rows), expected, rtol=1e-3, atol=1e-3)
