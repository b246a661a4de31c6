"""Sets of classes: p-values against a count by refits, promises, files."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from scipy.stats import mannwhitneyu
from sklearn import base
from sklearn.datasets import load_digits

from classifiers.labelled import sample
from resultant import CosinePrototypeClassifier, VMFClassifier, VMFClassifierCV
from resultant.classifiers import sums
from resultant.classifiers.conformal import Conformal

clone: Any = base.clone
X, Y = sample(60)
Q, T = sample(30, seed=1)
MODELS: list[Any] = [
    VMFClassifier(scale=4.0),
    VMFClassifier(scale=4.0, prior=1.0, realization="native", estimator="corrected"),
    VMFClassifier(scale=4.0, whiten="within", shrinkage=0.3),
    CosinePrototypeClassifier(scale=4.0),
]


def counted(model: Any, X: Any, Y: Any, Q: Any) -> np.ndarray:
    """P-values [N, C] by a refit without each row; log-probabilities with one more outcome."""

    def scores(fitted: Any, rows: Any) -> np.ndarray:
        s = np.asarray(fitted._scores(rows))
        every = np.full((len(rows), 4), -np.inf)
        every[:, fitted.classes_] = s
        return every

    left_out = [
        scores(clone(model).fit(np.delete(X, i, 0), np.delete(Y, i)), X[i : i + 1])[0]
        for i in range(len(Y))
    ]
    new, old = scores(clone(model).fit(X, Y), Q), np.array(left_out)
    own = old[np.arange(len(Y)), Y]
    none = np.quantile(own[np.isfinite(own)], 0.1)
    own = own - np.logaddexp(logsumexp(old, 1), none)
    new = new - np.logaddexp(logsumexp(new, 1), none)[:, None]
    return np.stack(
        [
            (1 + (rank <= new[:, c, None] + 1e-9).sum(1)) / (len(rank) + 1)
            for c, rank in enumerate(own[c == Y] for c in range(4))
        ],
        1,
    )


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_p_values_count_refits(model: Any) -> None:
    """Exact without a metric; with one, each row leaves it by an update of first order."""
    rows = np.concatenate([X[Y != 3], X[Y == 3][:1]])  # a class of one row
    labels = np.concatenate([Y[Y != 3], [3]])
    p = clone(model).fit(rows, labels).p_values(Q)
    expected = counted(model, rows, labels, Q)
    if model.whiten is None:
        np.testing.assert_allclose(p, expected, rtol=1e-6)
    assert np.abs(p - expected).max() < 0.1
    # A class of one row can never be excluded at an error below one half.
    assert (p[:, 3] >= 0.5).all()
    sets = clone(model).fit(rows, labels).predict_set(Q, error=0.3)
    assert sets.dtype == bool and (sets == (p > 0.3)).all()


def test_the_least_error_at_which_a_class_is_excluded() -> None:
    """Nine rows have p-values from a tenth on."""
    x = np.random.default_rng(0).normal(size=(18, 5)) * 0.1 + np.repeat(np.eye(5)[:2], 9, 0)
    fitted = VMFClassifier().fit(x, np.repeat([0, 1], 9))
    assert (
        fitted.predict_set(-x, error=0.0999).all() and not fitted.predict_set(-x, error=0.1).any()
    )


def test_copies_count_and_streams_are_fits() -> None:
    whole: Any = VMFClassifier().fit(np.concatenate([X, X[:9]]), np.concatenate([Y, Y[:9]]))
    stream = VMFClassifier().partial_fit(X, Y)
    before = stream.p_values(Q)
    stream.partial_fit(X[:9], Y[:9])
    np.testing.assert_allclose(stream.p_values(Q), whole.p_values(Q), rtol=1e-6)
    assert whole.conformal_.number.tolist() == np.bincount(np.r_[Y, Y[:9]]).tolist()
    np.testing.assert_allclose(stream.forget(X[:9], Y[:9]).p_values(Q), before, rtol=1e-6)


def draws(number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of three overlapping classes, and of a fourth of few."""
    rng = np.random.default_rng(seed)
    y = rng.choice(4, number, p=[0.4, 0.3, 0.25, 0.05])
    return np.eye(8)[y] + 0.6 * rng.normal(size=(number, 8)), y


@pytest.mark.parametrize("calibrated", [False, True])
@pytest.mark.parametrize("model", [VMFClassifier(), VMFClassifier(whiten="within", shrinkage=0.2)])
def test_the_promise_holds_per_class(model: Any, calibrated: bool) -> None:
    """Means over draws of all rows, within four standard errors of at most the error; p-values of
    the held-out rows are uniform on ranks, so that misses are not far fewer either."""
    missed = np.zeros((60, 4))
    size = np.zeros((60, 4))
    for seed in range(60):
        x, y = draws(300, seed)
        fitted = clone(model).fit(x, y)
        if calibrated:
            fitted.calibrate(*draws(200, 10_000 + seed))
        x, y = draws(400, 20_000 + seed)
        own = np.asarray(fitted.predict_set(x, error=0.2))[np.arange(400), y]
        missed[seed] = [1 - own[y == c].mean() for c in range(4)]
        size[seed] = np.asarray(fitted.conformal_.number)
    error = missed.std(0) / np.sqrt(60)
    assert (missed.mean(0) < 0.2 + 4 * error).all(), missed.mean(0)
    assert (missed.mean(0)[:3] > 0.2 - 4 * error[:3] - 2 / size.mean(0)[:3]).all()


def test_rows_of_the_fit_are_ranked_by_fits_without_them() -> None:
    """The scale and the p-values of the scores of each fit for its rows, collected by hand."""
    X, y = sample(seed=3)
    settings: dict[str, Any] = {"temperature": 0.2, "whiten": "within"}
    model, turn = VMFClassifier(**settings).fit(X, y), np.arange(len(y)) % 3
    without, scores = [], np.empty((len(y), len(model.classes_)))
    for k in range(3):
        other = VMFClassifier(**settings).fit(X[turn != k], y[turn != k])
        without.append((np.flatnonzero(turn == k), other))
        scores[turn == k] = other.decision_function(X[turn == k]) / other.scale_
    model.calibrate(X, y, without=without)
    codes = np.searchsorted(model.classes_, y)

    def loss(log_scale: float) -> float:
        s, few = np.exp(log_scale) * scores, 1 / (len(y) + 1)
        own = s[np.arange(len(y)), codes]
        return float((logsumexp(s, 1) - (1 - few) * own - few * s.mean(1)).sum())

    best: Any = minimize_scalar(loss, bounds=(-8, 8), method="bounded", options={"xatol": 1e-9})
    assert model.scale_ == pytest.approx(np.exp(best.x), rel=1e-3)
    known: Any = model.conformal_
    s = scores * known.scale
    every: Any = logsumexp(s, 1)
    total = np.logaddexp(every, -np.inf if known.none is None else known.none)
    own = (s - total[:, None])[np.arange(len(y)), codes]
    expected = np.concatenate([np.sort(own[codes == c]) for c in range(len(model.classes_))])
    np.testing.assert_allclose(known.scores, expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="a fit without each of the rows, got none for some"):
        model.calibrate(X, y, without=without[:2])
    other = VMFClassifier(**settings).fit(X[y != y[0]], y[y != y[0]])
    with pytest.raises(ValueError, match="that know the same classes, got others"):
        model.calibrate(X, y, without=[(np.arange(len(y)), other)])


def test_groups_of_classes_of_few_rows() -> None:
    """Up to the least number of rows that can be excluded, in the order of size."""
    settings: Any = {"scale": 1.0, "none": None, "held_out": True, "rule": None}
    for number, error, expected in (
        ([20, 3, 4, 5, 0, 9], 0.1, [0, 1, 1, 1, 4, 5]),
        ([20, 3, 4, 5, 0, 9], 0.5, [0, 1, 2, 3, 4, 5]),
        ([3, 20], 0.1, [0, 0]),
        ([3, 4], 0.1, [0, 0]),
        ([8, 9, 2, 30], 0.1, [2, 1, 2, 3]),
        ([8, 9, 2, 30, 7], 0.1, [2, 1, 2, 3, 2]),
        ([8, 2, 8, 9, 8], 0.1, [0, 0, 2, 3, 2]),
        ([5, 5, 5, 9], 0.1, [0, 0, 0, 3]),
        ([1, 1, 12], 0.05, [0, 0, 0]),
        ([9, 1, 40], 0.1, [1, 1, 2]),
        ([40, 7, 1], 0.1, [2, 2, 2]),
    ):
        y = torch.arange(len(number)).repeat_interleave(torch.tensor(number))
        known = Conformal.of(torch.zeros(len(y), len(number)), y, len(number), **settings)
        group = known.groups(error).tolist()
        same = [[a == b for b in group] for a in group]
        assert same == [[a == b for b in expected] for a in expected], number


@pytest.mark.parametrize("calibrated", [False, True])
def test_the_promise_holds_for_groups_of_like_size(calibrated: bool) -> None:
    """Five classes of about four known rows, which nothing else can exclude: means over draws of
    misses in the group, within four standard errors, and of p-values as they are defined."""
    share = np.array([0.45, 0.3, 0.05, 0.05, 0.05, 0.05, 0.05])

    def draw(number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        y = np.concatenate([np.arange(7), rng.choice(7, number - 7, p=share)])
        return np.eye(9)[y] + 0.5 * rng.normal(size=(number, 9)), y

    missed, sizes = [], []
    for seed in range(60):
        fitted = VMFClassifier(scale=8.0).fit(*draw(80, seed))
        if calibrated:
            fitted.calibrate(*draw(80, 10_000 + seed))
        x, y = draw(400, 20_000 + seed)
        sets = np.asarray(fitted.predict_set(x, 0.1, per_class="size"))
        own = sets[np.arange(400), y]
        missed.append([1 - own[part].mean() for part in (y == 0, y == 1, y > 1)])
        alone = np.asarray(fitted.predict_set(x, 0.1))
        sizes.append([sets.sum(1).mean(), alone.sum(1).mean()])
        known = fitted._known_scores()
        assert known is not None
        many = known.number >= 9
        assert alone[:, ~many].all()
        if known.number[~many].sum() >= 9:
            assert np.array_equal(sets[:, many], alone[:, many])
    error = np.std(missed, 0) / np.sqrt(60)
    assert (np.mean(missed, 0) < 0.1 + 4 * error).all(), np.mean(missed, 0)
    assert np.mean(sizes, 0)[0] < 0.7 * np.mean(sizes, 0)[1], np.mean(sizes, 0)


def test_a_new_class_has_empty_sets_more_often() -> None:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    (X, X_test), (y, y_test) = (np.split(a[order], [900]) for a in (X, y))
    fitted = VMFClassifier(whiten="within", shrinkage=0.3).fit(X[y < 8], y[y < 8])
    empty: Any = ~np.asarray(fitted.predict_set(X_test, error=0.05)).any(1)
    known = np.asarray(y_test < 8)
    assert np.mean(empty[known]) < 0.05 and np.mean(empty[~known]) > 0.4


def test_pooled_sets_are_smaller_and_promise_the_mean() -> None:
    x, y = draws(600, 0)
    fitted = VMFClassifier().fit(x, y)
    x, y = draws(4000, 1)
    pooled = fitted.predict_set(x, error=0.1, per_class=False)
    assert abs(1 - pooled[np.arange(4000), y].mean() - 0.1) < 0.03
    assert pooled.sum() < fitted.predict_set(x, error=0.1).sum()
    # Calibration rows count alike.
    fitted.calibrate(*draws(2000, 2))
    pooled = fitted.predict_set(x, error=0.1, per_class=False)
    assert abs(1 - pooled[np.arange(4000), y].mean() - 0.1) < 0.03


@pytest.mark.parametrize("calibrated", [False, True])
def test_files_and_searches_keep_the_p_values(calibrated: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    chosen = VMFClassifierCV(components=1, cv=3).fit(X, Y)
    for made in (VMFClassifier().fit(X, Y), chosen, VMFClassifier().partial_fit(X, Y)):
        if calibrated:
            made.calibrate(Q, T)
        made.save(path)
        again = VMFClassifier.load(path)
        np.testing.assert_array_equal(again.p_values(X), made.p_values(X))
        sets = made.predict_set(torch.from_numpy(X), 0.2)
        assert isinstance(sets, torch.Tensor) and sets.dtype == torch.bool
        np.testing.assert_array_equal(sets.numpy(), made.predict_set(X, 0.2))


@pytest.mark.parametrize(
    "options",
    [{"components": 2}, {"refine": 0.3}, {"refine": "auto"}, {"refine": 0.3, "lift": 1.0}],
)
def test_classes_without_sums_rank_all_their_rows(options: Any, tmp_path: Path) -> None:
    """Each row is known by the fit of a fold without it."""
    x, y = draws(900, 0)
    fitted = VMFClassifier(**options).fit(x, y)
    assert fitted._conformal().number.tolist() == np.bincount(y).tolist()
    new, t = draws(4000, 1)
    own = fitted.predict_set(new, 0.2)[np.arange(4000), t]
    assert [1 - own[t == c].mean() for c in range(3)] == pytest.approx([0.2] * 3, abs=0.1)
    fitted.save(tmp_path / "a.safetensors")
    again = VMFClassifier.load(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(again.predict_set(new), fitted.predict_set(new))
    # A file of other parameters has no rows to rank.
    again.set_params(prior=0.5).save(tmp_path / "b.safetensors")
    with pytest.raises(ValueError, match=r"kept rows for p-values, or one after calibrate\(X, y\)"):
        VMFClassifier.load(tmp_path / "b.safetensors").predict_set(new)
    given: Any = VMFClassifier(**options, scale=2.0).fit(x, y)
    assert given.calibrate(*draws(500, 2)).conformal_.held_out


def test_p_values_do_not_outlive_their_scores() -> None:
    fitted: Any = VMFClassifier().fit(X, Y).calibrate(Q, T)
    with pytest.warns(UserWarning, match="p-values are those of the kept rows; call calibrate"):
        changed = fitted.set_params(temperature=0.5).p_values(X)
    fitted.set_params(temperature=0.1).calibrate(Q, T)
    with pytest.warns(UserWarning, match="added rows have other scores: p-values"):
        fitted.partial_fit(X[:3], Y[:3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = fitted.forget(X[:3], Y[:3]).set_params(temperature=0.5).p_values(X)
    settings = VMFClassifier(temperature=0.5, scale=fitted.scale_).fit(X, Y)
    np.testing.assert_allclose(again, settings.p_values(X))
    assert changed.shape == again.shape and not fitted.conformal_.held_out


@pytest.mark.parametrize("error", [0, 1, -0.1, float("nan")])
def test_errors_outside_of_the_promise_are_refused(error: Any) -> None:
    with pytest.raises(ValueError, match="expected error"):
        VMFClassifier().fit(X, Y).predict_set(Q, error)


def test_many_rows_are_ranked_among_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 999 rows of each class are kept; a class of fewer has as many p-values."""
    x, y = draws(6000, 0)
    number = VMFClassifier().fit(x, y)._conformal().number
    assert number.max() == 999 and number[3] == (y == 3).sum()
    monkeypatch.setattr(sums, "KEPT_NUMBERS", 20 * 4 * 8)
    assert VMFClassifier().fit(x, y)._conformal().number.tolist() == [20] * 4


@pytest.mark.parametrize("model", [VMFClassifier(), VMFClassifier(whiten="within", shrinkage=0.2)])
def test_batches_that_do_not_fit_are_found(model: Any) -> None:
    """At most the promised share of like batches is below a threshold, nearly all shifted ones are,
    and of permuted labels too."""
    fitted = clone(model).fit(*draws(600, 0))
    like, shifted, permuted = [], [], []
    for seed in range(150):
        x, y = draws(50, 1_000 + seed)
        like.append(fitted.batch_p_value(x, y))
        shifted.append(fitted.batch_p_value(x + 1.5 * np.eye(8)[7], y))
        permuted.append(fitted.batch_p_value(x, (y + 1) % 4))
    # A fit of the rows is one draw, which all batches share.
    assert np.mean(np.array(like) < 0.01) < 0.04 and np.mean(np.array(like) < 0.5) < 0.75
    assert np.mean(np.array(shifted) < 0.01) > 0.5 and np.mean(np.array(permuted) < 1e-3) > 0.95


def test_a_batch_p_value_is_a_rank_test() -> None:
    """The value of one class is that of SciPy, without its correction for ties and continuity."""
    x, y = draws(80, 0)
    fitted, (new, t) = VMFClassifier().fit(x, y), draws(60, 1)
    own = fitted._conformal().of_class(0).numpy()
    other = fitted._scores(new[t == 0])[:, 0] / fitted._scale()
    expected = mannwhitneyu(
        other.numpy(), own, alternative="less", method="asymptotic", use_continuity=False
    ).pvalue
    assert fitted.batch_p_value(new[t == 0], t[t == 0]) == pytest.approx(expected, rel=1e-9)
    # Rows of unknown labels are not compared.
    labels = np.where(t == 0, 0, 9)
    assert fitted.batch_p_value(new, labels) == pytest.approx(expected, rel=1e-9)
    assert fitted.batch_p_value(new, np.full(60, 9)) == 1
