"""The choice on sums against GridSearchCV and refits from scratch."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LeaveOneOut,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.utils.estimator_checks import parametrize_with_checks

from resultant._core import chunks
from resultant.classes.rule import REALIZATIONS
from resultant.classifiers.cross_validated import VMFClassifierCV
from resultant.classifiers.vmf import VMFClassifier
from resultant.vmf.distribution import VonMisesFisher

P = 6

# The check truncates its rows to integers, which leaves a row of zeros.
REFUSES_ZEROS = {"check_estimators_dtypes": "a row of zeros has no direction"}

GRID: dict[str, Any] = {
    "temperature": [0.1],
    "realization": list(REALIZATIONS),
    "beta": [0.0, 0.5],
    "prior": [0.0, 1.0],
}
SMALL: dict[str, Any] = {"realization": ("native", "angular"), "beta": 0.0, "temperature": 0.1}


def sample(n: int = 60, seed: int = 0, p: int = P) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    y[:20] = np.arange(20) % 4
    noise = 0.5 * (1 + y[:, None]) / 2 * rng.normal(size=(n, p))
    return np.random.default_rng(7).normal(size=(4, p))[y] + noise, y


def by_point(results: dict[str, Any], column: str) -> dict[tuple, float]:
    """Return a column of cv_results_ by parameters."""
    names = ("temperature", "realization", "beta", "prior")
    return {
        tuple(point[name] for name in names): float(value)
        for point, value in zip(results["params"], results[column], strict=True)
    }


@pytest.mark.slow
@parametrize_with_checks(
    [VMFClassifierCV(cv=3, **SMALL)], expected_failed_checks=lambda _: REFUSES_ZEROS
)
def test_scikit_learn_estimator(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cv", "dtype", "grid"),
    [
        (StratifiedKFold(2), np.float64, {"temperature": [0.1, 0.4], "beta": [0.5]}),
        (
            RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0),
            np.float32,
            {"prior": [1.0]},
        ),
        (
            ShuffleSplit(2, train_size=0.5, test_size=0.2, random_state=0),
            np.float64,
            {"prior": [0.0]},
        ),
    ],
)
def test_folds_against_grid_search(cv: Any, dtype: type, grid: dict[str, Any]) -> None:
    X, y = sample()
    X, grid = X.astype(dtype), GRID | grid
    ours = VMFClassifierCV(**grid, cv=cv, extend=False, calibration=None).fit(X, y)
    scorings = ["neg_log_loss", "accuracy"]
    search = GridSearchCV(VMFClassifier(), grid, cv=cv, scoring=scorings, refit=False).fit(X, y)
    tolerance = 1e-9 if dtype == np.float64 else 1e-4
    splits = [f"split{k}" for k in range(cv.get_n_splits())]
    for column in (f"{s}_test_{m}" for s in ("mean", "std", *splits) for m in scorings):
        mine, theirs = (by_point(s.cv_results_, column) for s in (ours, search))
        rules = 2 + 3 * len(grid["beta"])  # native and cosine once
        assert len(mine) == len(grid["temperature"]) * rules * len(grid["prior"])
        expected = {point: theirs[point] for point in mine}
        assert mine == pytest.approx(expected, rel=tolerance, abs=tolerance), column
    score = ours.cv_results_["mean_test_score"]
    assert ours.cv_results_["rank_test_score"][score.argmax()] == 1
    assert ours.best_score_ == score[ours.best_index_]


@pytest.mark.slow
def test_the_choice_is_the_plainest_tie() -> None:
    """Ties of accuracy and of log-loss by loops over rows, and steps from Native at 0.1."""
    X, y = sample(24)
    grid: dict[str, Any] = {"realization": ("native", "angular"), "temperature": (0.1, 0.02)}
    chosen = VMFClassifierCV(cv=LeaveOneOut(), extend=False, **grid).fit(X, y)
    results, points = chosen.cv_results_, chosen.cv_results_["params"]
    rows = {
        name: np.stack([results[f"split{k}_test_{name}"] for k in range(len(y))], 1)
        for name in ("neg_log_loss", "accuracy")
    }
    best, ties = int(results["rank_test_score"].argmin()), {}
    for i, point in enumerate(points):
        lost = {name: values[best] - values[i] for name, values in rows.items()}
        error = {name: 2 * values.std() / math.sqrt(len(y)) for name, values in lost.items()}
        margin = {"neg_log_loss": 0.01 * max(1, -rows["neg_log_loss"][best].mean())}
        margin["accuracy"] = 0.005
        if any(lost[name].mean() > max(margin[name], error[name]) for name in rows):
            continue
        steps = abs(math.log2(point["temperature"] / 0.1))
        steps += min(2 * abs(point["prior"]), 1 + 2 * abs(point["prior"] - 1))
        ties[i] = steps + (0 if point["realization"] == "native" else 1 + 2 * abs(point["beta"]))
    assert chosen.best_index_ in ties and len(ties) > 1
    assert ties[chosen.best_index_] == min(ties.values())


@pytest.mark.slow
def test_leaving_one_out_against_refits() -> None:
    """Weights, a class of one sample, and a class with one remaining sample."""
    X, y = sample(20)
    X, y = np.vstack([X, np.eye(P)[:3]]), np.append(y, [4, 5, 5])
    w = np.random.default_rng(1).uniform(0.5, 2, len(y))
    grid: dict[str, Any] = GRID | {"prior": 0.7}
    ours = VMFClassifierCV(**grid, cv="loo", estimator="proco", calibration=None)
    ours.fit(X, y, w)
    assert ours.unscored_ == 1
    points = ours.cv_results_["params"]
    logp, hit = (np.zeros((len(points), len(y))) for _ in range(2))
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        refit = VMFClassifier(estimator="proco").fit(X[rest], y[rest], w[rest])
        for g, point in enumerate(points):
            refit.set_params(**point)
            log_p = np.asarray(refit.predict_log_proba(X[[i]]))[0]
            logp[g, i] = log_p[refit.classes_ == y[i]].sum()  # zero without the class
            hit[g, i] = refit.classes_[log_p.argmax()] == y[i]
    seen = w * (y != 4)
    expected = {"neg_log_loss": logp @ seen / seen.sum(), "accuracy": hit @ w / w.sum()}
    for name, values in expected.items():
        mean = ours.cv_results_[f"mean_test_{name}"]
        np.testing.assert_allclose(mean, values, rtol=1e-8, err_msg=name)
    assert "split0_test_score" not in ours.cv_results_


@pytest.mark.slow
def test_leaving_one_out_is_as_many_folds() -> None:
    X, y = sample(20)
    exact, folds = (VMFClassifierCV(**GRID, cv=cv).fit(X, y) for cv in ("loo", LeaveOneOut()))
    for name in ("mean_test_score", "std_test_score", "mean_test_accuracy"):
        np.testing.assert_allclose(exact.cv_results_[name], folds.cv_results_[name], rtol=1e-8)
    for name, ours in exact.matters_.items():
        theirs = folds.matters_[name]
        assert ours["reference"] == theirs["reference"]
        assert ours["standard_error"] == pytest.approx(theirs["standard_error"], rel=1e-6)
        assert ours["held_out_gain"] == pytest.approx(theirs["held_out_gain"], abs=1e-9)
        assert ours["interval"] == pytest.approx(theirs["interval"], abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("cv", [4, "loo"])
def test_the_choice_is_the_classifier(cv: Any) -> None:
    (X, y), (Q, _) = sample(), sample(20, seed=1)
    names = np.array(["ray", "cod", "eel", "ant"])
    chosen = VMFClassifierCV(cv=cv, estimator="banerjee").fit(X, names[y])
    plain = VMFClassifier(estimator="banerjee", **chosen.best_params_, scale=chosen.scale_)
    plain.fit(X, names[y])
    np.testing.assert_array_equal(chosen.predict_proba(Q), plain.predict_proba(Q))
    np.testing.assert_array_equal(chosen.log_marginal(Q), plain.log_marginal(Q))
    assert (chosen.predict(Q) == plain.predict(Q)).all()
    again = pickle.loads(pickle.dumps(chosen))
    np.testing.assert_array_equal(again.predict_proba(Q), plain.predict_proba(Q))
    assert not hasattr(chosen, "partial_fit")


@pytest.mark.slow
@pytest.mark.parametrize("cv", [3, "loo"])
def test_tensors_and_chunks(cv: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = sample()
    arrays = VMFClassifierCV(**GRID, cv=cv).fit(X, y)
    monkeypatch.setattr(chunks, "MATRIX_BYTES", 7 * 8 * 16)  # 7 rows with a kappa each
    tensors = VMFClassifierCV(**GRID, cv=cv).fit(torch.from_numpy(X), torch.from_numpy(y))
    for name in ("mean_test_neg_log_loss", "mean_test_accuracy"):
        ours, theirs = tensors.cv_results_[name], arrays.cv_results_[name]
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    assert tensors.best_params_ == arrays.best_params_


@pytest.mark.slow
def test_weights_are_repetitions() -> None:
    X, y = sample()
    w = np.random.default_rng(3).integers(0, 3, len(y))
    fold = np.arange(len(y)) % 3
    splits = [[np.flatnonzero(f != k) for k in range(3)] for f in (fold, fold.repeat(w))]
    tests = [[np.flatnonzero(f == k) for k in range(3)] for f in (fold, fold.repeat(w))]
    weighted, repeated = (
        VMFClassifierCV(cv=list(zip(train, test, strict=True)), balanced=True, **GRID)
        for train, test in zip(splits, tests, strict=True)
    )
    weighted.fit(X, y, w)
    repeated.fit(X.repeat(w, 0), y.repeat(w))
    for name in ("mean_test_neg_log_loss", "std_test_accuracy"):
        ours, theirs = weighted.cv_results_[name], repeated.cv_results_[name]
        np.testing.assert_allclose(ours, theirs, rtol=1e-8)


@pytest.mark.slow
def test_balanced_scores_give_classes_one_weight() -> None:
    X, y = sample(30)
    chosen = VMFClassifierCV(cv="loo", scoring="accuracy", balanced=True, **SMALL).fit(X, y)
    plain = VMFClassifier(**chosen.best_params_)
    predicted: Any = cross_val_predict(plain, X, y, cv=LeaveOneOut())
    hits = np.asarray(predicted) == y
    assert chosen.best_score_ == pytest.approx(np.mean([hits[y == c].mean() for c in range(4)]))


@pytest.mark.slow
@pytest.mark.parametrize("cv", [5, KFold(12, shuffle=True, random_state=0), "loo"])
def test_matters(cv: Any) -> None:
    """Gain, error and held-out gain equal loops over the columns of cv_results_."""
    X, y = sample()
    chosen = VMFClassifierCV(**GRID, cv=cv, scoring="accuracy").fit(X, y)
    results, points = chosen.cv_results_, chosen.cv_results_["params"]
    top = int(np.argmax(results["mean_test_accuracy"]))
    first = {"temperature": 0.1, "realization": "native", "beta": 0.0, "prior": 0.0}
    assert set(chosen.matters_) == {*first, "all"}
    assert chosen.matters_["all"]["reference"] == points[0] == first
    mean = results["mean_test_score"]
    for name, comparison in chosen.matters_.items():
        kept = first if name == "all" else {name: first[name]}
        pool = [g for g, point in enumerate(points) if point | kept == point]
        assert comparison["gain"] == pytest.approx(max(mean) - max(mean[pool]), abs=1e-12)
        assert points.index(comparison["reference"]) in pool
        low, high = comparison["interval"]
        assert low <= comparison["gain"] + 1e-12 and comparison["gain"] - 1e-12 <= high
        if cv == "loo":
            continue
        number = 5 if cv == 5 else 12
        table = np.stack([results[f"split{k}_test_score"] for k in range(number)], 1)
        reference = points.index(comparison["reference"])
        difference = table[top] - table[reference]
        error = difference.std(ddof=1) / math.sqrt(number)
        assert comparison["standard_error"] == pytest.approx(error, abs=1e-12)
        held_out = np.zeros(number)
        for k in range(number):
            others = [j for j in range(number) if j % 10 != k % 10]
            best = table[:, others].mean(1).round(10).argmax()
            held_out[k] = table[best, k] - table[reference, k]
        assert comparison["held_out_gain"] == pytest.approx(held_out.mean(), abs=1e-12), name


def test_interval_covers_the_difference_of_means() -> None:
    """With many rows the bootstrap has the width of the normal interval."""
    X, y = sample(1500)
    chosen = VMFClassifierCV(cv="loo", **SMALL).fit(X, y).matters_["all"]
    low, high = chosen["interval"]
    assert (high - low) / (2 * 1.96 * chosen["standard_error"]) == pytest.approx(1, abs=0.12)
    assert low < chosen["gain"] < high


@pytest.mark.slow
def test_finds_the_prior_of_a_mixture() -> None:
    """For a vMF mixture of unequal shares the gain of the prior exceeds its standard error."""
    torch.manual_seed(3)
    y = torch.where(torch.arange(900) < 450, torch.arange(900) % 3, 0)
    kappa = torch.tensor([5.0, 10.0, 20.0], dtype=torch.float64)
    X = VonMisesFisher(torch.eye(6, dtype=torch.float64)[y], kappa[y]).sample()
    chosen = VMFClassifierCV(cv="loo", calibration=None).fit(X, y)
    prior = chosen.matters_["prior"]
    assert chosen.best_params_["prior"] == 1.0
    assert prior["gain"] > 3 * prior["standard_error"] and prior["interval"][0] > 0
    assert prior["interval"][0] < prior["held_out_gain"] <= prior["gain"] + 1e-12


@pytest.mark.slow
def test_points_that_cannot_be_realized_come_last() -> None:
    """Opposite rows have A = 0, and no class temperature."""
    X, y = sample()
    e = np.eye(P)
    X, y = np.vstack([X, e[:3], -e[:3]]), np.append(y, [4] * 6)
    fold = np.append(np.arange(60) % 3, [0, 1, 2, 0, 1, 2])
    splits = [(fold != k, np.flatnonzero(fold == k).tolist()) for k in range(3)]
    chosen = VMFClassifierCV(cv=splits).fit(X, y)
    lost = np.isin(chosen.cv_results_["param_realization"], ["temperature", "preserve"])
    assert (np.isnan(chosen.cv_results_["mean_test_score"]) == lost).all()
    ranks = chosen.cv_results_["rank_test_score"]
    assert ranks[lost].min() > ranks[~lost].max()
    assert np.isfinite(list(chosen.matters_["all"]["interval"])).all()
    with pytest.raises(ValueError, match="a point that can be realized, got none"):
        VMFClassifierCV(realization="temperature", cv=splits).fit(X, y)


@pytest.mark.slow
def test_rows_without_a_training_class() -> None:
    """Such rows are errors in accuracy and left out of the likelihood."""
    X, y = sample()
    X, y = np.vstack([X, np.ones(P)]), np.append(y, 9)
    fold = np.arange(len(y)) % 2
    splits = [(fold != k, fold == k) for k in range(2)]
    chosen = VMFClassifierCV(**GRID, cv=splits, calibration=None).fit(X, y)
    assert chosen.unscored_ == 1
    logp, hit = (np.zeros((len(chosen.cv_results_["params"]), 2)) for _ in range(2))
    for k, (train, test) in enumerate(splits):
        refit = VMFClassifier().fit(X[train], y[train])
        known = np.isin(y[test], refit.classes_)
        at = np.searchsorted(refit.classes_, y[test][known])
        for g, point in enumerate(chosen.cv_results_["params"]):
            log_p = np.asarray(refit.set_params(**point).predict_log_proba(X[test]))
            logp[g, k] = log_p[known, at].mean()
            hit[g, k] = (refit.classes_[log_p.argmax(1)] == y[test]).mean()
    for name, expected in (("neg_log_loss", logp), ("accuracy", hit)):
        mean = chosen.cv_results_[f"mean_test_{name}"]
        np.testing.assert_allclose(mean, expected.mean(1), rtol=1e-9)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"realization": ("native", "polar")}, "realizations among .*got 'polar'"),
        ({"beta": ()}, "expected one value of beta or more, got none"),
        ({"temperature": (0.1, -1)}, "expected temperature > 0, got -1"),
        ({"prior": (0.0, math.inf)}, "expected prior to be a finite number, got .*inf"),
        ({"calibration": "beta"}, r"expected calibration to be one of \(None, .*got 'beta'"),
        ({"scoring": "f1"}, "expected scoring to be one of .*got 'f1'"),
        ({"cv": "loop"}, "Expected `cv` as an integer"),
        ({"cv": [(np.array([0, 0, 1]), np.array([2]))]}, "each row at most once"),
        ({"estimator": "map"}, "expected estimator to be one of .*got 'map'"),
    ],
)
def test_parameters_are_checked(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VMFClassifierCV(**parameters).fit(*sample())


@pytest.mark.gpu
@pytest.mark.parametrize("cv", [3, "loo"])
def test_on_a_gpu(cv: Any) -> None:
    X, y = sample()
    here = VMFClassifierCV(**GRID, cv=cv).fit(X, y)
    there = VMFClassifierCV(**GRID, cv=cv, device="cuda").fit(X, y)
    name = "mean_test_neg_log_loss"
    np.testing.assert_allclose(there.cv_results_[name], here.cv_results_[name], rtol=1e-9)


@pytest.mark.slow
def test_the_grid_extends_itself_beyond_its_edge() -> None:
    """The best temperature of a grid that is too warm is found below it; others are kept."""
    X, y = sample()
    wide = VMFClassifierCV("native", 1.0, (4.0, 2.0), 0.0, cv=3).fit(X, y)
    found = wide.best_params_["temperature"]
    taus = sorted(set(wide.cv_results_["param_temperature"]))
    assert found < 2.0 and taus[0] < found < taus[-1]
    assert wide.cv_results_["params"][0]["temperature"] == 4.0
    narrow = VMFClassifierCV("native", 1.0, (4.0, 2.0), 0.0, cv=3, extend=False).fit(X, y)
    assert narrow.best_params_["temperature"] == 2.0
    one = VMFClassifierCV("native", 1.0, 4.0, 0.0, cv=3).fit(X, y)
    assert len(one.cv_results_["params"]) == 1


@pytest.mark.parametrize(("name", "low", "high"), [("beta", -1.0, 3.0), ("prior", -2.0, 2.0)])
def test_betas_and_priors_extend_themselves(name: str, low: float, high: float) -> None:
    """The best value is inside the values that were tried, or at the limit of its axis."""
    X, y = sample()
    given: dict[str, Any] = {"beta": 0.0, "prior": 0.0}
    given[name] = (-0.5, -1.0)
    found = VMFClassifierCV("angular", temperature=0.1, cv=3, **given).fit(X, y)
    best, tried = found.best_params_[name], sorted(set(found.cv_results_[f"param_{name}"]))
    assert tried[0] < best < tried[-1] or best in (low, high)
    assert len(found.cv_results_["params"]) == len(tried) > 2
