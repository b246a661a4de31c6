"""Refined classes against their definition, logistic regression and the rule of sums."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn import base
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from classifiers.labelled import P, sample
from resultant import CosinePrototypeClassifier, VMFClassifier
from resultant._core import memory
from resultant._core.arrays import directions
from resultant.classes.metric import Metric
from resultant.classifiers import refine
from resultant.classifiers.inputs import Sample
from resultant.classifiers.left_out import left_out_gain
from resultant.classifiers.refine import Batches, Refinement
from resultant.classifiers.validation import Validation

clone: Any = base.clone
(X, Y), (Q, _) = sample(90), sample(20, seed=1)
GAIN, PRECISION = 6.0, 0.3


def weighted(x: np.ndarray, y: np.ndarray, w: Any = None, classes: int = 5) -> Sample:
    """Rows of four classes, and of a fifth that has none or one."""
    weight = torch.ones(len(y), dtype=torch.float64) if w is None else torch.as_tensor(w).double()
    return Sample(torch.from_numpy(x), torch.from_numpy(y), weight, classes)


def refinement(some: Sample, metric: Metric | None = None, gain: float = GAIN) -> Refinement:
    return Refinement(Batches(some, metric), some.sums(metric=metric), gain)


def naive(x: Tensor, y: Tensor, w: Tensor, precision: float, gain: float = GAIN) -> np.ndarray:
    """Minimize the function of the definition by SciPy, with gradients of torch, from zeros."""
    C, p = int(y.max()) + 1, x.shape[1]
    R = torch.stack([(w[y == c, None] * x[y == c]).sum(0) for c in range(C)])
    n = torch.stack([w[y == c].sum() for c in range(C)])
    mu = torch.nn.functional.normalize(R, dim=1)
    m = x @ mu.T
    for i, c in enumerate(y.tolist()):
        rest = R[c] - min(float(w[i]), 1.0) * x[i]
        if n[c] > 1:
            m[i, c] = rest @ x[i] / rest.norm()
    offset = (n / n.sum()).log() + gain * m

    def function(v: np.ndarray) -> tuple[float, np.ndarray]:
        delta = torch.from_numpy(v).reshape(C, p).requires_grad_()
        logp = (offset + x @ delta.T).log_softmax(1)[torch.arange(len(y)), y]
        value = -(w * logp).sum() + precision / 2 * delta.square().sum()
        value.backward()
        assert delta.grad is not None
        return float(value.detach()), delta.grad.numpy().ravel()

    options = {"gtol": 1e-9, "ftol": 1e-15, "maxiter": 5000, "maxcor": 50}
    best = minimize(function, np.zeros(C * p), jac=True, method="L-BFGS-B", options=options)
    return (gain * mu).numpy() + best.x.reshape(C, p)


@pytest.mark.parametrize("precision", [10.0, 0.3, 0.01])
@pytest.mark.parametrize("whitened", [False, True])
def test_the_least_of_its_definition(precision: float, whitened: bool) -> None:
    """Also with weights, and a class of one row."""
    x, y = np.concatenate([X, X[:1] + 1]), np.append(Y, 4)
    w = np.append(np.random.default_rng(0).integers(1, 4, len(Y)), 1.0)
    some = weighted(x, y, w)
    metric = Metric.fit(some.scattered, 0.3) if whitened else None
    fitted = refinement(some, metric)
    units = torch.cat([batch.x for batch in fitted.batches])
    expected = naive(units, some.y, some.w, precision)
    theta = fitted.fit(precision, nats=0).numpy()
    np.testing.assert_allclose(theta, expected, atol=1e-6 * np.abs(expected).max())
    # Whatever it starts from, also to the default accuracy.
    start = torch.randn(theta.shape, generator=torch.Generator().manual_seed(0)).double()
    other = fitted.fit(precision, start).numpy()
    np.testing.assert_allclose(other, expected, atol=1e-4 * np.abs(expected).max())


def test_without_gain_it_is_logistic_regression() -> None:
    """Classes of equal shares, without an intercept, have that solution."""
    y = np.arange(90) % 3
    some = weighted(X[:90], y, classes=3)
    metric = Metric.fit(some.scattered, 0.5)
    fitted = refinement(some, metric, gain=0.0)
    (batch,) = fitted.batches
    for precision in (1.0, 1e-3):
        model = LogisticRegression(C=1 / precision, fit_intercept=False, tol=1e-9, max_iter=10_000)
        expected = model.fit(batch.x.numpy(), y).coef_
        theta = fitted.fit(precision, nats=0)
        np.testing.assert_allclose(theta, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("whiten", [None, "within"])
def test_an_infinite_precision_is_the_rule_of_sums(whiten: Any) -> None:
    options: Any = {"whiten": whiten, "shrinkage": 0.3}
    refined = VMFClassifier(refine=1e9, **options).fit(X, Y)
    plain = CosinePrototypeClassifier(**options).fit(X, Y)
    assert refined.refined_ is not None
    np.testing.assert_allclose(refined.refined_.direction, plain.state_.mu, atol=1e-6)
    np.testing.assert_allclose(refined.refined_.gain / refined.refined_.gain[0], 1, atol=1e-6)
    np.testing.assert_array_equal(refined.predict(Q), plain.predict(Q))


def fit_theta(some: Sample) -> Tensor:
    return refinement(some, Metric.fit(some.scattered, 0.3)).fit(PRECISION, nats=0)


def test_weights_are_rows_in_any_order_and_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    w, order = rng.integers(0, 4, len(Y)), rng.permutation(len(Y))
    expected = fit_theta(weighted(X[order], Y[order], w[order], 4))
    x, y = X.repeat(w, 0), Y.repeat(w)
    torch.testing.assert_close(fit_theta(weighted(x, y, classes=4)), expected, rtol=0, atol=1e-6)
    # Rows that are read again in every pass, sixteen at a time.
    monkeypatch.setattr(memory, "MATRIX_BYTES", 16 * 8 * P)
    monkeypatch.setattr(refine, "KEPT_BYTES", 0)
    torch.testing.assert_close(fit_theta(weighted(x, y, classes=4)), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("whiten", [None, "within"])
def test_a_classifier_of_linear_scores(whiten: Any, dtype: Any, tmp_path: Path) -> None:
    """Saved, pickled, cloned, sparse, of tensors; a class without rows is never predicted."""
    x, q = X.astype(dtype), Q.astype(dtype)
    w = np.where(Y == 2, 0.0, 1.0)
    settings: Any = {"refine": 0.5, "whiten": whiten, "shrinkage": 0.4, "prior": 0.5}
    fitted = VMFClassifier(**settings).fit(x, Y, w)
    p = fitted.predict_proba(q)
    assert (p[:, 2] == 0).all() and p.dtype == dtype
    theta = fitted.refined_
    assert theta is not None and theta.gain[2] == 0
    units = np.asarray(fitted.directions(q), np.float64)
    prior = 0.5 * np.log(np.where(fitted.class_prior_ > 0, fitted.class_prior_, 1.0))
    scores = fitted._scale() * (units @ theta.theta.double().numpy().T + prior)
    scores[:, 2] = -np.inf
    np.testing.assert_allclose(fitted.decision_function(q), scores, rtol=1e-4, atol=1e-4)
    fitted.save(tmp_path / "a.safetensors")
    for again in (
        VMFClassifier.load(tmp_path / "a.safetensors"),
        pickle.loads(pickle.dumps(fitted)),
        clone(fitted).fit(torch.from_numpy(x), Y, w),
        clone(fitted).fit(x, np.array(["a", "b", "c", "d"])[Y], w),
    ):
        np.testing.assert_allclose(again.predict_proba(q), p, rtol=1e-5, atol=1e-6)
    thin = clone(fitted).fit(csr_array(x), Y, w).predict_proba(csr_array(q))
    np.testing.assert_allclose(thin, p, rtol=1e-2, atol=1e-3)
    # The density remains that of the vMF classes.
    plain = VMFClassifier(**settings | {"refine": None}).fit(x, Y, w)
    np.testing.assert_array_equal(fitted.log_marginal(q), plain.log_marginal(q))


@pytest.mark.parametrize("shrinkage", [None, 0.3])
def test_validated_rows_are_those_of_a_fit(shrinkage: Any) -> None:
    """Scores of a fold by classes of its training rows alone, from the fit of another metric."""
    some = weighted(X, Y, classes=4)
    validation = Validation.of_folds(some, 3)
    if shrinkage is not None:
        validation.folds(0.9, 1, 3.0)
    for k, fold in enumerate(validation.folds(shrinkage, 1, PRECISION)):
        gain = validation._refinable[k].gains[shrinkage]
        train = some.at(validation.train[k])
        metric = shrinkage and Metric.fit(train.scattered, shrinkage)
        plain = shrinkage and train.summed
        own = left_out_gain(train, train.sums(metric=metric), metric, plain)
        assert gain == pytest.approx(own, rel=1e-9)
        theta = refinement(train, metric, gain).fit(PRECISION)
        rows = directions(some.rows[validation.index[validation.split == k]])[0]
        expected = (rows if metric is None else metric.transform(rows)) @ theta.T
        # The function is convex by the precision at least.
        bound = (2 * refine.SEARCH_NATS * len(train.y) / PRECISION) ** 0.5
        difference = (fold.scores("angular", 0.1, 0.0, 0.0) - expected).norm(dim=1)
        assert float(difference.max()) <= 2 * bound < 0.2 * float(theta.norm())


def test_what_is_refused() -> None:
    bad: Any
    for bad in (0, -1.0, "much", np.inf):
        with pytest.raises(ValueError, match="refine"):
            VMFClassifier(refine=bad).fit(X, Y)
    for name, bad in (("realization", "native"), ("beta", 0.5), ("components", 2)):
        with pytest.raises(ValueError, match=f"expected {name}=.* with refine=1.0, got {name}="):
            clone(VMFClassifier(refine=1.0)).set_params(**{name: bad}).fit(X, Y)
    fitted = VMFClassifier(refine=1.0).fit(X, Y)
    with pytest.raises(AttributeError, match=r"got refine=1\.0; use fit with all rows"):
        fitted.partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"expected realization='angular' with refine=1\.0"):
        fitted.set_params(realization="native").predict(X)


def test_the_gain_is_that_of_left_out_rows() -> None:
    """In the middle of the scale that folds find."""
    some = weighted(X, Y, classes=4)
    gain = left_out_gain(some, some.sums(), None, None)
    theirs = CosinePrototypeClassifier(temperature=1.0).fit(X, Y).scale_
    assert theirs is not None and theirs / 2 < gain < theirs * 2


@pytest.mark.parametrize(("classes", "rows", "noise"), [(10, 40, 0.7), (40, 100, 1.2)])
def test_a_fit_and_its_folds_have_nearly_one_gain(classes: int, rows: int, noise: float) -> None:
    """Else scores of validation rows are longer or shorter than those of new rows, and sets of
    classes cover less or more than they promise. Separable classes, whose gain is that of the
    smoothing, and many rows of which few are errors, which decide."""
    rng = np.random.default_rng(0)
    y = np.arange(classes * rows) % classes
    x = rng.normal(size=(classes, 32))[y] + noise * rng.normal(size=(len(y), 32))
    some = weighted(x, y, classes=classes)
    validation = Validation.of_folds(some)
    number = len(validation.folds(None, 1, PRECISION))
    gains = [validation._refinable[k].gains[None] for k in range(number)]
    assert np.mean(gains) == pytest.approx(left_out_gain(some, some.summed, None, None), rel=0.01)


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    here = VMFClassifier(refine=0.5, whiten="within", shrinkage=0.4).fit(X, Y)
    there = clone(here).set_params(device="cuda").fit(X, Y)
    np.testing.assert_allclose(there.predict_proba(Q), here.predict_proba(Q), rtol=1e-4, atol=1e-5)
