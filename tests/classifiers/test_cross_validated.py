"""The choice by cross-validation against refits from scratch, and classes of several components."""

import itertools
import pickle
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from sklearn import model_selection as folds
from sklearn.model_selection import (
    LeaveOneOut,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
)

from classifiers.labelled import P, correlated, opposite, sample
from resultant._core import memory
from resultant.classes.rule import REALIZATIONS
from resultant.classifiers import folds as folding, refine, search as search_module
from resultant.classifiers.cross_validated import VMFClassifierCV
from resultant.classifiers.vmf import VMFClassifier
from resultant.score.exact import vmf_score
from resultant.vmf.distribution import VonMisesFisher

TAU, LOSS = 0.2, "mean_test_neg_log_loss"
PLAIN: dict[str, Any] = {"whiten": None, "components": 1, "refine": None}
ONE_TAU = {"temperature": 0.1, "extend": False, **PLAIN}
SMALL = {"realization": ("native", "angular"), "beta": 0.0, "temperature": 0.1, **PLAIN}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cv", "weighted", "options"),
    [
        (StratifiedKFold(3), False, {}),
        (StratifiedKFold(2), True, {"components": (1, 2), "temperature": 0.1, "extend": False}),
        (RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0), True, {"whiten": None}),
        (ShuffleSplit(2, train_size=0.6, test_size=0.3, random_state=0), False, {"scale": 1.0}),
        (StratifiedKFold(3), True, {"balanced": True, **PLAIN}),
        (LeaveOneOut(), True, {"prior": 0.7, "estimator": "proco", **ONE_TAU}),
        (LeaveOneOut(), True, {"prior": 0.7, "balanced": True, **ONE_TAU}),
    ],
    ids=str,
)
def test_points_against_refits(
    cv: Any, weighted: bool, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every point scores as a classifier of the training rows; equal rows count each time. Refined
    classes are those of a fit to the end, where a search stops at `SEARCH_NATS`."""
    monkeypatch.setattr(refine, "SEARCH_NATS", 1e-12)
    (X, y), loo, rng = sample(), isinstance(cv, LeaveOneOut), np.random.default_rng(3)
    w = rng.integers(0, 3, len(y)).astype(float) if weighted else np.ones(len(y))
    if loo:  # also a class of one sample, and a class with one remaining sample
        X, y = np.vstack([X[:20], np.eye(P)[:3]]), np.append(y[:20], [4, 5, 5])
        w = rng.uniform(0.5, 2, len(y))
    else:
        X[2], y[2] = X[5], y[5]
    ours = VMFClassifierCV(cv="loo" if loo else cv, **options).fit(X, y, w)
    results = ours.cv_results_
    assert len(results["params"]) > 4
    for g, point in enumerate(results["params"]):
        if point.get("lift") is not None:
            continue  # the centre of a lift is that of all rows, as the docstring says
        losses, hits, seen, rows = [], [], [], []
        for train, test in cv.split(X, y):
            refit = VMFClassifier(**point, estimator=ours.estimator, scale=1.0)
            refit.fit(X[train], y[train], w[train])
            s = results["scale"][g] * np.asarray(refit.decision_function(X[test]))
            own = refit.classes_ == y[test][:, None]
            losses += (own.any(1) * logsumexp(s, axis=1) - np.where(own, s, 0).sum(1)).tolist()
            hits += (refit.classes_[s.argmax(1)] == y[test]).tolist()
            seen += own.any(1).tolist()
            rows += test.tolist()
        counts = w[rows]
        if "balanced" in options:  # classes have one weight
            counts /= np.bincount(y[rows], counts)[y[rows]]
        loss = np.average(losses, weights=counts * seen)
        exact = 1e-8 if point.get("refine") is None else 1e-4
        assert results[LOSS][g] == pytest.approx(-loss, rel=exact), point
        accuracy = np.average(hits, weights=counts)
        assert results["mean_test_accuracy"][g] == pytest.approx(accuracy, rel=1e-8), point
    assert ours.unscored_ == loo
    score = results["mean_test_score"]
    assert results["rank_test_score"][score.argmax()] == 1
    assert ours.best_score_ == score[ours.best_index_]


@pytest.mark.slow
@pytest.mark.parametrize("cv", [4, "loo"])
@pytest.mark.parametrize("whiten", [None, "within"])
def test_the_choice_is_the_classifier(cv: Any, whiten: str | None, tmp_path: Path) -> None:
    (X, y), (Q, _) = sample(), sample(20, seed=1)
    names = np.array(["ray", "cod", "eel", "ant"])
    chosen = VMFClassifierCV(cv=cv, estimator="banerjee", whiten=whiten, components=1)
    chosen.fit(X, names[y])
    assert chosen.scale_ is not None
    plain = VMFClassifier(estimator="banerjee", **chosen.best_params_, scale=chosen.scale_)
    plain.fit(X, names[y])
    chosen.save(tmp_path / "chosen.safetensors")
    again = pickle.loads(pickle.dumps(chosen))
    loaded = VMFClassifierCV.load(tmp_path / "chosen.safetensors")
    for other in (chosen, chosen.best_estimator_, again, loaded):
        np.testing.assert_array_equal(other.predict_proba(Q), plain.predict_proba(Q))
        np.testing.assert_array_equal(other.log_marginal(Q), plain.log_marginal(Q))
        assert np.array_equal(other.predict(Q), plain.predict(Q))
    assert type(loaded) is VMFClassifier and not hasattr(chosen, "partial_fit")


def test_the_metric_is_chosen_where_it_helps() -> None:
    (X, y), (Q, t) = correlated(), correlated(300, seed=1)
    chosen = VMFClassifierCV(components=1, refine=None).fit(X, y)
    assert chosen.best_params_["whiten"] == "within"
    plain = VMFClassifierCV(components=1, whiten=None, refine=None).fit(X, y)
    assert plain.best_params_["whiten"] is None
    assert chosen.score(Q, t) > plain.score(Q, t) + 0.1
    assert chosen.comparisons_["shrinkage"]["interval"][0] > 0


def test_a_rule_of_sums_is_not_refined() -> None:
    """Unless a precision is asked for: ``auto`` leaves what the user chose."""
    X, y = sample()
    asked: Any = {"realization": "native"}, {"temperature": (0.1, 1.0)}, {"cv": "loo"}
    for settings in (*asked, {"components": (1, 2)}, {"beta": 0.5}):
        assert "refine" not in VMFClassifierCV(**{"cv": 2, **settings}).fit(X, y).best_params_
    assert VMFClassifierCV(cv=2, lift=None).fit(X, y).best_params_["refine"] > 0
    chosen = VMFClassifierCV(cv=2, refine=(None, 0.3), lift=None).fit(X, y)
    kinds = {bool(point.get("refine")) for point in chosen.cv_results_["params"]}
    assert (
        kinds == {False, True} and chosen.comparisons_["refine"]["reference"].get("refine") is None
    )


@pytest.mark.slow
@pytest.mark.parametrize("cv", [3, "loo"])
def test_tensors_and_chunks(cv: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = sample()
    settings: dict[str, Any] = {"cv": cv, "components": 1, "temperature": 0.1}
    arrays = VMFClassifierCV(**settings).fit(X, y)
    monkeypatch.setattr(memory, "MATRIX_BYTES", 7 * 8 * 16)
    tensors = VMFClassifierCV(**settings).fit(torch.from_numpy(X), torch.from_numpy(y))
    np.testing.assert_allclose(tensors.cv_results_[LOSS], arrays.cv_results_[LOSS], rtol=1e-9)
    assert tensors.best_params_ == arrays.best_params_


def test_groups_share_a_fold_and_splits_of_a_user_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of a row in one group: folds without groups see each row in training."""
    X = sample(40)[0]
    groups = np.repeat(np.arange(40), 3)
    rng = np.random.default_rng(0)
    copies = X.repeat(3, 0) + 1e-3 * rng.normal(size=(120, P))
    # Labels that rows do not carry: only copies predict them.
    labels = rng.integers(0, 30, 40).repeat(3)
    settings: Any = {**SMALL, "scoring": "accuracy"}
    leaky = VMFClassifierCV(**settings).fit(copies, labels)
    names = np.array([f"g{k}" for k in groups])
    honest = VMFClassifierCV(**settings).fit(copies, labels, groups=names)
    given = VMFClassifierCV(cv=folds.GroupKFold(5), **settings).fit(copies, labels, groups=groups)
    assert leaky.best_score_ > 0.3
    assert max(honest.best_score_, given.best_score_) < 0.15
    # Numbered folds of many rows become one split; a splitter and groups keep theirs.
    monkeypatch.setattr(folding, "LEAST_ROWS", 10)
    monkeypatch.setattr(folding, "CELLS", 40)
    X, y = sample(80)
    for cv, groups, number in ((3, None, 1), (StratifiedKFold(3), None, 3), (3, np.arange(80), 3)):
        results = VMFClassifierCV(cv=cv, **SMALL).fit(X, y, groups=groups).cv_results_
        assert len([k for k in results if re.fullmatch(r"split\d_test_score", k)]) == number


@pytest.mark.parametrize("scoring", ["neg_log_loss", "accuracy"])
def test_comparisons(scoring: str) -> None:
    """Gains are differences of scores; the first values are the reference of all parameters."""
    X, y = sample()
    chosen = VMFClassifierCV(scoring=scoring, components=1, refine=None).fit(X, y)
    results, points = chosen.cv_results_, chosen.cv_results_["params"]
    mean = results["mean_test_score"]
    for name, comparison in chosen.comparisons_.items():
        reference = points.index(comparison["reference"])
        assert comparison["gain"] == pytest.approx(mean.max() - mean[reference], abs=1e-9), name
        low, high = comparison["interval"]
        assert (high - low) / 2 == pytest.approx(1.96 * comparison["standard_error"])
    first = chosen.comparisons_["prior"]["reference"]
    pool = [g for g, point in enumerate(points) if point["prior"] == 0.0]
    assert first["prior"] == 0.0 and mean[points.index(first)] == max(mean[pool])


def test_values_extend_and_points_that_cannot_be_realized_are_left_out() -> None:
    """Too warm values extend to the best one below them; opposite rows have no temperature."""
    X, y = sample()
    fixed = {"cv": 3, **PLAIN}
    wide = VMFClassifierCV("native", 1.0, (4.0, 2.0), 0.0, **fixed).fit(X, y)
    assert wide.best_params_["temperature"] < 2.0
    narrow = VMFClassifierCV("native", 1.0, (4.0, 2.0), 0.0, extend=False, **fixed).fit(X, y)
    assert narrow.best_params_["temperature"] == 2.0
    one = VMFClassifierCV("native", 1.0, 4.0, 0.0, **fixed).fit(X, y)
    assert len(one.cv_results_["params"]) == 1
    X, y = np.vstack([X, np.eye(P)[:3], -np.eye(P)[:3]]), np.append(y, [4] * 6)
    fold = np.append(np.arange(60) % 3, [0, 1, 2, 0, 1, 2])
    splits = [(fold != k, np.flatnonzero(fold == k).tolist()) for k in range(3)]
    chosen = VMFClassifierCV(cv=splits, **PLAIN).fit(X, y)
    assert set(chosen.cv_results_["param_realization"]) == {"native", "cosine", "angular"}
    with pytest.raises(ValueError, match="a point that can be realized, got none"):
        VMFClassifierCV("temperature", cv=splits, **PLAIN).fit(X, y)


@pytest.mark.gpu
@pytest.mark.parametrize("cv", [3, "loo"])
def test_on_a_gpu(cv: Any) -> None:
    X, y = sample()
    here = VMFClassifierCV(cv=cv, components=1).fit(X, y)
    there = VMFClassifierCV(cv=cv, components=1, device="cuda").fit(X, y)
    np.testing.assert_allclose(there.cv_results_[LOSS], here.cv_results_[LOSS], rtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("components", [2, "auto"])
@pytest.mark.parametrize("realization", ["native", "angular", "cosine"])
def test_components_separate_what_one_direction_cannot(components: Any, realization: str) -> None:
    (X, y), (Q, t) = opposite(), opposite(seed=1)
    one = VMFClassifier(TAU, realization).fit(X, y)
    many = VMFClassifier(TAU, realization, components=components).fit(X, y)
    assert one.score(Q, t) < 0.8 and many.score(Q, t) > 0.99 and many.components_ is not None
    assert many.components_.number.tolist() == ([2, 2, 2] if components == 2 else [2, 2, 1])


@pytest.mark.slow
def test_scores_and_densities_are_sums_over_components() -> None:
    X, y = opposite()
    fitted = VMFClassifier(TAU, "native", prior=0.5, components=3, scale=1.0).fit(X, y)
    many, z = fitted.components_, torch.nn.functional.normalize(torch.from_numpy(X[:7]), dim=1)
    assert many is not None and many.number.tolist() == [3, 3, 3]
    scores, density = np.zeros((7, 3)), torch.zeros(7, dtype=torch.float64)
    for m, c in enumerate(many.owner.tolist()):
        mu, kappa, share = many.state.mu[m], many.state.kappa[m], many.log_weight[m].exp()
        score = vmf_score(z @ mu, kappa, TAU, X.shape[1])
        scores[:, c] += (score.exp() * share).numpy()
        law = VonMisesFisher(mu, kappa)
        density += law.log_prob(z).exp() * share * float(fitted.class_prior_[c])
    expected = np.log(scores) + 0.5 * np.log(fitted.class_prior_)
    np.testing.assert_allclose(fitted.decision_function(X[:7]), expected, rtol=1e-9)
    np.testing.assert_allclose(fitted.log_marginal(X[:7]), density.log(), rtol=1e-9)
    # The search finds the number of components.
    settings: Any = {"realization": "native", "temperature": 0.1, "whiten": None}
    many, (Q, t) = VMFClassifierCV(components="auto", **settings), opposite(seed=1)
    chosen = many.fit(X, y)
    assert chosen.best_params_["components"] > 1 and chosen.score(Q, t) > 0.99
    plain = VMFClassifierCV(components=1, **settings).fit(X, y)
    assert plain.best_params_["components"] == 1 and plain.score(Q, t) < 0.8


@pytest.mark.slow
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_one_component_is_the_plain_classifier(realization: str) -> None:
    """Fitted by EM with ``auto``, on classes of one component."""
    torch.manual_seed(0)
    mu = torch.nn.functional.normalize(torch.randn(3, 8, dtype=torch.float64), dim=1)
    X = torch.cat([VonMisesFisher(m, 12.0).sample((30,)) for m in mu])
    y = np.repeat(np.arange(3), 30)
    plain, auto = (
        VMFClassifier(TAU, realization, components=k, scale=1.0).fit(X, y) for k in (1, "auto")
    )
    assert auto.components_ is not None and auto.components_.number.tolist() == [1, 1, 1]
    np.testing.assert_allclose(auto.predict_proba(X), plain.predict_proba(X), rtol=1e-8)


def test_small_and_empty_classes() -> None:
    X, y = opposite(10)
    X, y = np.vstack([X, np.eye(6)[3:5]]), np.append(y, [3, 4])
    weight = np.ones(len(y))
    weight[y == 4] = 0.0
    fitted = VMFClassifier(TAU, components=3).fit(X, y, sample_weight=weight)
    assert fitted.components_ is not None
    assert fitted.components_.number.tolist() == [3, 3, 3, 1]
    proba = np.asarray(fitted.predict_proba(X))
    assert np.isfinite(proba).all() and (proba[:, 4] == 0).all()
    assert fitted.predict(X[-2:-1]).tolist() == [3]


def test_refined_classes_of_balanced_queries_may_have_less_than_their_shares() -> None:
    """A long tail, scored by all classes alike; a prior that is given stays."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), (60, 30, 8, 3))
    X = np.eye(6)[y] + 0.5 * rng.normal(size=(len(y), 6))
    settings: Any = {"cv": 3, "balanced": True, "lift": None}
    tried = VMFClassifierCV(**settings).fit(X, y).cv_results_["param_prior"]
    assert {0.0, -0.5} <= set(tried.tolist())
    fixed: Any
    for fixed in ({"prior": 0.0}, {"refine": None}):
        assert VMFClassifierCV(**settings, **fixed).fit(X, y).best_params_["prior"] == 0.0


@pytest.mark.parametrize("refine", [None, "auto"])
def test_a_limit_of_time_takes_the_first_points(
    refine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order of the points is that of a search without a limit, which has no warning."""
    X, y = sample()
    whole = VMFClassifierCV(refine=refine, cv=3, lift=None).fit(X, y)
    clock = SimpleNamespace(monotonic=itertools.count().__next__)
    monkeypatch.setattr(search_module, "time", clock)
    with pytest.warns(UserWarning, match=r"stopped after 3\.5 s and 3 points; a larger time_limit"):
        some = VMFClassifierCV(refine=refine, cv=3, lift=None, time_limit=3.5).fit(X, y)
    assert some.cv_results_["params"] == whole.cv_results_["params"][:3]
    assert some.best_params_ in some.cv_results_["params"]
    assert some.predict(X).shape == (len(X),)
    bad: Any
    for bad in (0, -1.0, "much"):
        with pytest.raises(ValueError, match="expected time_limit"):
            VMFClassifierCV(time_limit=bad).fit(X, y)
