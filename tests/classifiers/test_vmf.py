"""Classifiers against SciPy's Bessel functions, and as scikit-learn estimators."""

import pickle
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from scipy.special import softmax
from scipy.stats import vonmises_fisher
from sklearn import base
from sklearn.preprocessing import normalize
from sklearn.utils.estimator_checks import parametrize_with_checks

import frozen_data
from classifiers.labelled import P, sample
from resultant._core import memory
from resultant.classes.rule import REALIZATIONS, Rule
from resultant.classes.scores import realize
from resultant.classifiers.cross_validated import VMFClassifierCV
from resultant.classifiers.inputs import SparseRows
from resultant.classifiers.mixture import VMFMixture
from resultant.classifiers.vmf import CosinePrototypeClassifier, VMFClassifier

clone: Any = base.clone
unit: Any = normalize
TAU = 0.2
BOTH = [VMFClassifier(), CosinePrototypeClassifier()]
WHITENED = [clone(c).set_params(whiten="within", shrinkage=0.3) for c in BOTH]
OTHERS = [
    VMFClassifier("auto"),
    VMFClassifier(components=2),
    VMFClassifier(refine=1.0),
    VMFClassifierCV(("native", "angular"), 0.0, 0.1, cv=3, whiten=None, components=1),
    VMFMixture(),
]


(X, Y), (Q, _) = sample(), sample(20, seed=1)


def same_scores(a: Any, b: Any, Q: np.ndarray) -> None:
    ours, theirs = (c.decision_function(Q) for c in (a, b))
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def naive_scores(realization: str, prior: float) -> np.ndarray:
    """Return the scores for beta = 0 and estimator mle, by definition."""
    mu, kappa = zip(*(frozen_data.fitted(unit(X[c == Y])) for c in range(4)), strict=True)
    state = SimpleNamespace(
        mu=torch.tensor(np.stack(mu)), kappa=torch.tensor(kappa, dtype=torch.float64)
    )
    counts = torch.bincount(torch.from_numpy(Y))
    space: Any = SimpleNamespace(state=state, dim=P, tau=TAU, counts=counts)
    return frozen_data.scores(space, realization, 0.0, prior, torch.from_numpy(Q))


@pytest.mark.slow
@parametrize_with_checks([*BOTH, WHITENED[0], *OTHERS])
def test_scikit_learn_estimator(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@pytest.mark.parametrize("prior", [0.0, 0.7])
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_scores_against_definition(realization: str, prior: float) -> None:
    fitted = VMFClassifier(TAU, realization, prior=prior, scale=1.0).fit(X, Y)
    expected = naive_scores(realization, prior)
    np.testing.assert_allclose(fitted.decision_function(Q), expected, rtol=1e-9, atol=1e-9)
    assert (fitted.predict(Q) == expected.argmax(1)).all()
    proba = softmax(expected, axis=1)
    np.testing.assert_allclose(fitted.predict_proba(Q), proba, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(fitted.predict_log_proba(Q), np.log(proba), rtol=1e-8, atol=1e-9)


def test_prototypes_against_cosines() -> None:
    mu = unit(np.stack([unit(X[c == Y]).mean(0) for c in range(4)]))
    pi = np.bincount(Y) / len(Y)
    fitted = CosinePrototypeClassifier(0.3, prior=0.5, scale=1.0).fit(X, Y)
    expected = unit(Q) @ mu.T / 0.3 + 0.5 * np.log(pi)
    np.testing.assert_allclose(fitted.decision_function(Q), expected, rtol=1e-12)
    np.testing.assert_allclose(fitted.class_prior_, pi, rtol=1e-14)
    # The length of rows does not matter.
    plain = VMFClassifier().fit(X, Y).predict_proba(Q)
    for scale in (1e-300, 1e-150, 1e200):
        scaled = VMFClassifier().fit(scale * X, Y).predict_proba(scale * Q)
        np.testing.assert_allclose(scaled, plain, rtol=1e-9)


@pytest.mark.parametrize(
    "estimator",
    [
        *BOTH,
        VMFClassifier("auto", whiten="within"),
        VMFClassifier(components="auto"),
        VMFClassifierCV(
            ("native", "angular"), temperature=0.1, components=(1, 2), cv=3, refine=None
        ),
    ],
)
def test_weights_are_repetitions(estimator: Any) -> None:
    """Also in the folds and seeds that are drawn, for rows in any order."""
    w = np.random.default_rng(2).integers(0, 4, len(Y))
    order = np.random.default_rng(3).permutation(len(Y))
    repeated = clone(estimator).set_params(prior=1.0).fit(X.repeat(w, 0), Y.repeat(w))
    weighted = clone(estimator).set_params(prior=1.0)
    weighted.fit(X[order], Y[order], sample_weight=w[order])
    same_scores(weighted, repeated, Q)


def test_partial_fit_exists_where_it_works() -> None:
    refused: Any = {"components": 2}, {"temperature": "auto"}, {"whiten": "within"}
    for options in refused:
        with pytest.raises(AttributeError, match="partial_fit") as error:
            _ = VMFClassifier(**options).partial_fit
        assert str(error.value).endswith("; use fit")


@pytest.mark.slow
@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_tensors_are_arrays(estimator: Any, dtype: torch.dtype) -> None:
    (X, y), (Q, t) = sample(), sample(20, seed=1)
    X, y, Q, t = (torch.from_numpy(a) for a in (X, y, Q, t))
    X, Q = X.to(dtype), Q.to(dtype)
    tensors = clone(estimator).fit(X, y, torch.ones(len(y)))
    arrays = clone(estimator).fit(X.numpy(), y.numpy())
    for method in ("decision_function", "predict_proba", "predict_log_proba"):
        ours, theirs = getattr(tensors, method)(Q), getattr(arrays, method)(Q.numpy())
        assert isinstance(ours, torch.Tensor) and isinstance(theirs, np.ndarray)
        assert ours.dtype == dtype and theirs.dtype == Q.numpy().dtype
        np.testing.assert_array_equal(ours.numpy(), theirs)
    assert torch.equal(tensors.predict(Q), torch.from_numpy(arrays.predict(Q.numpy())))
    names = clone(estimator).fit(X, np.array(["a", "b", "c", "d"])[y.numpy()])
    assert isinstance(names.predict(Q), np.ndarray)
    assert tensors.score(Q, t) == arrays.score(Q.numpy(), t.numpy())
    exact = clone(estimator).fit(X.double(), y).predict_proba(Q.double())
    torch.testing.assert_close(tensors.predict_proba(Q).double(), exact, rtol=2e-4, atol=1e-6)
    assert tensors.predict_proba(Q.half()).dtype == torch.float32
    assert clone(estimator).fit((100 * X).long(), y).predict_proba((9 * Q).long()).dtype == (
        torch.float64
    )


def test_unusual_classes() -> None:
    """Classes without rows are never predicted; two classes, and one."""
    early = VMFClassifier(prior=1.0).partial_fit(X[Y < 3], Y[Y < 3], classes=[0, 1, 2, 3, 9])
    alone = VMFClassifier(prior=1.0).fit(X[Y < 3], Y[Y < 3])
    assert (early.predict_proba(Q)[:, 3:] == 0).all()
    assert np.isneginf(np.asarray(early.decision_function(Q))[:, 3:]).all()
    np.testing.assert_array_equal(early.predict_proba(Q)[:, :3], alone.predict_proba(Q))
    np.testing.assert_allclose(early.log_marginal(Q), alone.log_marginal(Q), rtol=1e-13)
    two = VMFClassifier(prior=1.0).fit(X[Y < 2], Y[Y < 2])
    odds = np.diff(np.log(two.predict_proba(X)), axis=1)[:, 0]
    np.testing.assert_allclose(two.decision_function(X), odds, rtol=1e-9, atol=1e-9)
    assert ((odds > 0) == two.predict(X)).all()
    one = VMFClassifier().fit(X[Y == 2], Y[Y == 2])
    assert (one.predict(X) == 2).all() and (one.predict_proba(X) == 1).all()


def test_classes_without_an_ordinary_fit() -> None:
    """Classes of one sample, equal samples and opposite samples."""
    e = np.eye(P)
    X = np.stack([e[0], e[1], 3 * e[1], e[2], -5 * e[2]])
    y = np.array([0, 1, 1, 2, 2])
    fitted = VMFClassifier(TAU, "native").fit(X, y)
    assert fitted.state_.kappa.tolist() == pytest.approx([(P - 1) * 2.0**45] * 2 + [0.0], rel=1e-3)
    assert fitted.statistics_.count.tolist() == [1, 2, 2]
    assert np.isfinite(fitted.predict_proba(X)).all()
    assert np.array_equal(fitted.predict(X[:3]), y[:3])
    with pytest.raises(ValueError, match=r"resultants A > 0 .* 1 of 3 not: class 2 \(0\)"):
        VMFClassifier(realization="temperature").fit(X, y)


@pytest.mark.parametrize("estimator", [*BOTH, *WHITENED], ids=str)
@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor, csr_array])
def test_rows_of_zeros_and_empty_batches(estimator: Any, kind: Any) -> None:
    X, y = sample()
    X[y == 2] = 0
    fitted = clone(estimator).set_params(scale=1.0).fit(kind(X), y)
    # A class of rows of zeros has no direction, and a query of zeros has cosine 0 everywhere.
    zero = torch.zeros(1, P, dtype=torch.float64)
    assert fitted.statistics_.mean_length[2] == 0 and not np.asarray(fitted.directions(zero)).any()
    expected = zero[0, :4]
    if isinstance(estimator, VMFClassifier):
        expected = realize(fitted.state_, Rule(0.1, "angular")).at(expected)
    torch.testing.assert_close(fitted.decision_function(zero)[0], expected)
    for call in (lambda: fitted.predict(kind(X[:0])), lambda: fitted.partial_fit(kind(X[:0]), [])):
        with pytest.raises(ValueError, match=r"N >= 1|minimum of 1"):
            call()


@pytest.mark.parametrize("estimator", [*BOTH, *WHITENED], ids=str)
def test_sparse_rows_are_dense_rows(estimator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (X, y), (Q, _) = sample(), sample(20, seed=1)
    X, Q = (np.where(np.abs(a) > 0.5, a, 0.0) for a in (X, Q))
    dense = clone(estimator).fit(X, y)
    monkeypatch.setattr(memory, "MATRIX_BYTES", 3 * 8 * P)
    rows_of = SparseRows.__getitem__

    def chunk(rows: SparseRows, at: Any) -> torch.Tensor:
        some = rows_of(rows, at)
        assert len(some) <= 3, "expected rows chunk by chunk"
        return some

    monkeypatch.setattr(SparseRows, "__getitem__", chunk)
    thin = clone(estimator).set_params(scale=dense.scale_).fit(csr_array(X), y)
    np.testing.assert_allclose(thin.predict_proba(csr_array(Q)), dense.predict_proba(Q), rtol=1e-7)


@pytest.mark.parametrize(
    "bad", [{"scale": -1.0}, {"prior": "much"}, {"realization": "polar"}, {"temperature": 0.0}]
)
def test_a_refused_partial_fit_changes_nothing(bad: dict[str, Any]) -> None:
    fitted = VMFClassifier().fit(X, Y)
    before = np.asarray(fitted.predict_proba(Q)), fitted.statistics_.total.clone()
    good = {name: getattr(fitted, name) for name in bad}
    for call in (fitted.set_params(**bad).partial_fit, fitted.fit):
        with pytest.raises(ValueError, match="expected"):
            call(X, Y)
    fitted.set_params(**good)
    assert torch.equal(fitted.statistics_.total, before[1])
    np.testing.assert_array_equal(fitted.predict_proba(Q), before[0])


METRIC = VMFClassifier(whiten="within", shrinkage=0.3).fit(X, Y).metric_


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        (VMFClassifier(), "whiten", "within"),
        (VMFClassifier(), "estimator", "proco"),
        (VMFClassifier(), "components", 2),
        (VMFClassifier(), "refine", 1.0),
        (VMFClassifier(refine=1.0), "lift", 1.0),
        (VMFClassifier(whiten="within", shrinkage=0.3), "whiten", None),
        (VMFClassifier(whiten="within", shrinkage=0.3), "shrinkage", 0.5),
        (VMFClassifier(whiten="within", shrinkage=0.3), "center", False),
        (VMFClassifier(whiten="within", shrinkage=0.3), "whiten", METRIC),
        (VMFClassifier(whiten=METRIC), "whiten", replace(METRIC, mean=-METRIC.mean)),
        (CosinePrototypeClassifier(), "whiten", "within"),
        (VMFClassifierCV("angular", 0.0, 0.1, whiten=None), "whiten", "within"),
    ],
    ids=str,
)
@pytest.mark.parametrize("by", ["set_params", "attribute"])
def test_a_changed_parameter_of_the_fit_is_refused(
    given: Any, name: str, value: Any, by: str, tmp_path: Path
) -> None:
    """Never the old classes under a new parameter; set back or fitted again it counts."""
    fitted = clone(given).fit(X, Y)
    before, old = fitted.predict_proba(Q), getattr(fitted, name)
    expected = clone(given).set_params(**{name: value})
    fitted.set_params(**{name: value}) if by == "set_params" else setattr(fitted, name, value)
    calls = [lambda: fitted.predict(Q), lambda: fitted.decision_function(Q)]
    if not isinstance(given, VMFClassifierCV):
        calls.append(lambda: fitted.save(tmp_path / "a.safetensors"))
    if hasattr(fitted, "partial_fit"):
        calls += [lambda: fitted.partial_fit(X, Y), lambda: fitted.forget(X[:3], Y[:3])]
    for call in calls:
        with pytest.raises(ValueError, match=f"expected {name}=.* as in the fit, got {name}=.*fit"):
            call()
    again = pickle.loads(pickle.dumps(fitted))
    with pytest.raises(ValueError, match="as in the fit"):
        again.predict(Q)
    np.testing.assert_array_equal(fitted.set_params(**{name: old}).predict_proba(Q), before)
    fitted.set_params(**{name: value}).fit(X, Y)
    np.testing.assert_array_equal(fitted.predict_proba(Q), expected.fit(X, Y).predict_proba(Q))


def test_log_marginal_against_scipy() -> None:
    """A density of the fit alone."""
    fitted = VMFClassifier(realization="cosine", prior=3.0).fit(X, Y)
    density = sum(
        np.mean(c == Y) * vonmises_fisher(*vonmises_fisher.fit(unit(X[c == Y]))).pdf(unit(Q))
        for c in range(4)
    )
    np.testing.assert_allclose(fitted.log_marginal(Q), np.log(density), rtol=1e-7)
    ours = fitted.log_marginal(torch.from_numpy(Q).float())
    assert isinstance(ours, torch.Tensor) and ours.dtype == torch.float32
    np.testing.assert_allclose(ours, np.log(density), rtol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("estimator", BOTH)
def test_on_a_gpu(estimator: Any) -> None:
    (X, y), (Q, t) = sample(), sample(20, seed=1)
    here, there = clone(estimator).fit(X, y), clone(estimator).set_params(device="cuda").fit(X, y)
    assert there.statistics_.device.type == "cuda"
    np.testing.assert_allclose(there.predict_proba(Q), here.predict_proba(Q), rtol=1e-9)
    queries = torch.from_numpy(Q).cuda()
    assert here.predict_proba(queries).device == queries.device
    assert clone(estimator).fit(queries, torch.from_numpy(t).cuda()).score(queries, t) > 0
