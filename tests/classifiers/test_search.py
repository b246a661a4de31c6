"""The search and its parts: scales, ties, validation folds, rows left out, and files."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from torch.nn.functional import cross_entropy

from classifiers.labelled import correlated, sample
from resultant import CosinePrototypeClassifier, Metric, VMFClassifier
from resultant.classifiers import folds as folding
from resultant.classifiers.calibration import fit_scale
from resultant.classifiers.cross_validated import VMFClassifierCV
from resultant.classifiers.folds import draw_rows, stratified_splits
from resultant.classifiers.inputs import Sample
from resultant.classifiers.left_out import left_out_fold
from resultant.classifiers.search import Candidate, Point, Search, departures, simplest
from resultant.classifiers.validation import LeaveOneOut, Validation

F64 = torch.float64


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(n_class=5, return_X_y=True)
    return np.asarray(X)[:400], np.asarray(y)[:400]


def labelled(X: np.ndarray, y: np.ndarray) -> Sample:
    weight = torch.ones(len(y), dtype=F64)
    return Sample(torch.from_numpy(X), torch.from_numpy(y), weight, int(y.max()) + 1)


def test_scale_is_the_minimum_of_the_smoothed_loss() -> None:
    generator = torch.Generator().manual_seed(0)
    s = torch.randn(200, 7, dtype=F64, generator=generator)
    y = (3 * s + 2 * torch.randn(200, 7, dtype=F64, generator=generator)).argmax(1)
    w = torch.rand(200, dtype=F64, generator=generator)

    def loss(log_scale: float) -> float:
        losses = cross_entropy(np.exp(log_scale) * s, y, reduction="none", label_smoothing=1 / 201)
        return float(w @ losses)

    found: Any = minimize_scalar(loss, bounds=(-5, 5), method="bounded")
    expected = np.exp(found.x)
    assert fit_scale(s, y, w) == pytest.approx(expected, rel=2e-3)
    # The scale is in inverse proportion to the scores.
    assert fit_scale(50 * s, y, w) == pytest.approx(expected / 50, rel=2e-3)
    # It is finite for separated rows and absent classes.
    y = torch.arange(30) % 3
    s = 4 * torch.eye(3)[y]
    assert 0.5 < fit_scale(s, y) < 10
    s[:, 2] = -torch.inf
    assert 0.5 < fit_scale(s[y < 2], y[y < 2]) < 10
    assert fit_scale(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1])) == 1.0


def test_splits_are_stratified_and_rows_drawn_by_class(monkeypatch: pytest.MonkeyPatch) -> None:
    y = torch.tensor([0] * 50 + [1] * 9 + [2])
    splits = stratified_splits(y, 5)
    sizes = [torch.bincount(y[rows], minlength=3).tolist() for _, rows in splits]
    assert all(a == 10 and 1 <= b <= 2 for a, b, _ in sizes)
    assert torch.cat([rows for _, rows in splits]).sort().values.tolist() == list(range(60))
    # Of many rows some are drawn, by class.
    monkeypatch.setattr(folding, "LEAST_ROWS", 20)
    y = torch.tensor([0] * 900 + [1] * 90 + [2] * 10)
    rows, kept = draw_rows(y, 3, cells=60)
    assert torch.bincount(y[rows]).tolist() == kept.tolist() == [18, 2, 1]
    X = torch.nn.functional.normalize(torch.randn(1000, 4, dtype=F64))
    monkeypatch.setattr(folding, "CELLS", 60)
    many = Validation(Sample(X, y, torch.ones(1000, dtype=F64), 3), stratified_splits(y))
    # Weights restore the shares of the classes.
    shares = torch.zeros(3, dtype=F64).index_add(0, many.y, many.weights)
    torch.testing.assert_close(shares, torch.tensor([0.9, 0.09, 0.01], dtype=F64))
    # One fit without the scored rows serves all of them.
    (train,) = many.train
    assert sorted([*train.tolist(), *many.index.tolist()]) == list(range(1000))


@pytest.mark.parametrize("n", [40, 200])
@pytest.mark.parametrize("shrinkage", [0.1, 0.5])
def test_a_row_leaves_the_metric_too(n: int, shrinkage: float) -> None:
    """Cosines of rows left out in closed form, against refits of metric and classes."""
    X, y = correlated(n, p=30)
    data = labelled(X, y)
    fold = LeaveOneOut(data).folds(shrinkage)[0]
    metric = Metric.fit(data.sums(scatter=True), shrinkage)
    kept = left_out_fold(data, data.sums(metric=metric), "mle", metric)
    rows = range(0, n, n // 20)
    exact = []
    for i in rows:
        rest = torch.arange(n) != i
        other = VMFClassifier(whiten="within", shrinkage=shrinkage).fit(X[rest], y[rest])
        exact.append(torch.as_tensor(other.directions(X[i : i + 1])) @ other.state_.mu.T)
    errors = [(a.rho[list(rows)] - torch.cat(exact)).abs().mean() for a in (fold, kept)]
    # Second order in the share of a row; a metric with the row is wrong in the first.
    assert errors[0] < 0.25 * errors[1] and errors[0] < 0.5 / n


def candidate(point: Point, hits: Any, losses: Any) -> Candidate:
    hits, losses = (torch.zeros(60, dtype=F64) + a for a in (hits, losses))
    return Candidate(point, 1.0, float(losses.mean()), losses, float(hits.mean()), hits)


EVEN = torch.full((60,), 1 / 60, dtype=F64)


def test_the_simplest_tie_is_chosen() -> None:
    """Within margins or one standard error; simplicity is counted in steps of the search."""
    others = [
        candidate(Point("native", 0.005, 1.0, 0.0), 0.8, 1.0),
        candidate(Point("cosine", 0.1, 0.0, 0.0), 0.8, 1.0),
        candidate(Point("angular", 0.005, 0.5, -1.5), 0.8, 1.0 - 1e-9),
    ]
    # Worse by more than the margins: the next simplest point.
    for *worse, chosen in ((0.796, 1.009, "native"), (0.79, 1.0, "cosine"), (0.8, 1.02, "cosine")):
        first = candidate(Point("native", 0.1, 1.0, 0.0), *worse)
        found = simplest([first, *others], others[-1], EVEN, EVEN)
        assert found.point.realization == chosen
    best, plain = Point("angular", 0.1, 0.0, 0.0), Point("native", 0.1, 1.0, 0.0)
    top, worse = candidate(best, 0, 0), torch.arange(60).double() - 29.5
    # The standard error of the mean of these differences is 2.24.
    for shift, expected in ((0.0, plain), (2.2, plain), (2.3, best)):
        for pair in ((0, worse + shift), (-worse - shift, 0)):
            assert simplest([top, candidate(plain, *pair)], top, EVEN, EVEN).point == expected
    order = [
        Point("native", 0.1, 1.0, 0.0),
        Point("native", 0.1, 1.0, 1.0),
        Point("angular", 0.1, 0.0, 0.0, 0.3),
        Point("angular", 0.1, 0.0, 0.0, 0.1),
        Point("angular", 0.05, 0.5, 0.0),
        Point("angular", 0.1, 0.0, 0.0, 0.3, 4),
        Point("angular", 0.005, 0.5, -1.5),
    ]
    assert sorted(order, key=departures) == order
    assert departures(order[0]) == 0 and departures(Point("cosine", 0.1, 0.0, 0.0)) == 1


@pytest.mark.parametrize(("size", "low", "high"), [(1e-3, 0.1, 0.1), (1.0, 0.005, 0.0125)])
def test_the_search_moves_by_what_matters(
    size: float, low: float, high: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss of separable rows falls with the temperature for ever."""

    def evaluate(_: Search, point: Point) -> Candidate:
        return candidate(point, 1.0, size * point.temperature)

    monkeypatch.setattr(Search, "_evaluate", evaluate)
    X, y = sample()
    validation = Validation(labelled(X, y), stratified_splits(torch.from_numpy(y)))
    axes = {"realization": ("native",), "shrinkage": (None,), "components": (1,)}
    result = Search(validation, axes)
    assert low <= result.chosen.point.temperature <= high
    tried = [candidate.point.temperature for candidate in result.candidates]
    # Beyond the edge of the axis as long as a step gains something.
    assert (min(tried) < 0.005) == (size == 1.0)


def test_automatic_temperature(digits: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = digits
    auto = VMFClassifier("auto", "native").fit(X[:300], y[:300])
    fixed = VMFClassifier(0.1, "native", scale=1.0).fit(X[:300], y[:300])
    losses = [log_loss(y[300:], c.predict_proba(X[300:])) for c in (auto, fixed)]
    assert losses[0] < 0.5 * losses[1]
    assert auto.scale_ is not None
    same = VMFClassifier(auto.temperature_, "native", scale=auto.scale_).fit(X[:300], y[:300])
    np.testing.assert_allclose(same.predict_proba(X), auto.predict_proba(X), rtol=1e-12)
    with pytest.raises(ValueError, match="a point that can be realized, got none"):
        VMFClassifier("auto", realization="temperature", beta=60.0).fit(X, y)


@pytest.mark.parametrize("whiten", [None, "within"])
@pytest.mark.parametrize("kind", [VMFClassifier, CosinePrototypeClassifier])
def test_probabilities_are_calibrated_by_default(
    kind: Any, whiten: str | None, digits: tuple[np.ndarray, np.ndarray]
) -> None:
    """The scale is about the best one of new rows, and predictions do not depend on it."""
    X, y = digits
    fitted = kind(whiten=whiten, shrinkage=0.3).fit(X[:200], y[:200])
    bare = kind(whiten=whiten, shrinkage=0.3, scale=1.0).fit(X[:200], y[:200])
    scores = torch.from_numpy(bare.decision_function(X[200:]))
    best = fit_scale(scores, torch.from_numpy(y[200:]))
    assert best / 2 < fitted.scale_ < 2 * best
    fitted_loss, bare_loss = (log_loss(y[200:], c.predict_proba(X[200:])) for c in (fitted, bare))
    assert fitted_loss < bare_loss
    assert (fitted.predict(X) == bare.predict(X)).all()
    assert np.array_equal(np.asarray(fitted.predict_proba(X)).argmax(1), fitted.predict(X))
    again = kind(whiten=whiten, shrinkage=0.3)
    for rows in np.array_split(np.arange(200), 2):
        again.partial_fit(X[rows], y[rows])
    assert again.scale_ == pytest.approx(fitted.scale_, rel=1e-9)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.filterwarnings("ignore:Since FrozenEstimator")
def test_calibrations_are_those_of_scikit_learn(
    classes: int, method: Any, tmp_path: Path, digits: tuple[np.ndarray, np.ndarray]
) -> None:
    X, y = (a[digits[1] < classes] for a in digits)
    X = X + np.random.default_rng(0).normal(0, 12, X.shape)
    fitted, (new, t) = VMFClassifier().fit(X[:90], y[:90]), (X[90:], y[90:])
    w = np.random.default_rng(1).uniform(size=len(t))
    frozen: Any = FrozenEstimator(VMFClassifier().fit(X[:90], y[:90]))
    theirs = CalibratedClassifierCV(frozen, method=method).fit(new, t, sample_weight=w)
    fitted.calibrate(new, t, w, method).save(tmp_path / "fitted.safetensors")
    for ours in (fitted, VMFClassifier.load(tmp_path / "fitted.safetensors")):
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-12)
        np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    bare = VMFClassifier(scale=1.0).fit(X[:90], y[:90])
    one = fit_scale(bare._scores(new), torch.from_numpy(t))
    assert fitted.calibrate(new, t).calibration_ is None and fitted.scale_ == pytest.approx(one)
    chosen = VMFClassifierCV("native", temperature=0.1, whiten=None, components=1).fit(X, y)
    p = chosen.calibrate(new, t, method=method).best_estimator_.predict_proba(X)
    np.testing.assert_array_equal(chosen.predict_proba(X), p)


@pytest.mark.slow
@pytest.mark.parametrize("labels", [[3, 5, 9], ["cat", "dog", "eel"], [True, False]])
def test_saved_classifiers_continue(labels: list, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(60, 6, generator=generator)
    y = np.array(labels)[np.arange(60) % len(labels)]
    metric = VMFClassifier(whiten="within", shrinkage=0.2).fit(X, y).metric_
    for made in (
        VMFClassifier("auto", beta=0.5),
        VMFClassifier(np.float64(0.2), components=np.int64(2)),  # type: ignore[arg-type]
        VMFClassifier(whiten="within"),
        VMFClassifier(whiten=metric),
        VMFClassifier(center=True),
        CosinePrototypeClassifier(0.2, whiten="within", shrinkage=0.5),
    ):
        made.fit(X, y)
        made.save(tmp_path / "c.safetensors", rows=made.components_ is None)
        copies = type(made).load(tmp_path / "c.safetensors"), pickle.loads(pickle.dumps(made))
        for copy in copies:
            np.testing.assert_array_equal(np.asarray(copy.predict(X)), np.asarray(made.predict(X)))
            assert copy.classes_.dtype == made.classes_.dtype
            np.testing.assert_array_equal(copy.predict_proba(X), made.predict_proba(X))
        if hasattr(made, "partial_fit"):
            made.partial_fit(X[:20], y[:20])
            for p in (copy.partial_fit(X[:20], y[:20]).predict_proba(X) for copy in copies):
                np.testing.assert_array_equal(p, made.predict_proba(X))
    with pytest.raises(ValueError, match=r"expected .* a file of VMFClassifier\.save, got format"):
        VMFClassifier.load(tmp_path / "c.safetensors")
    made.classes_ = made.classes_.astype(bytes)
    with pytest.raises(ValueError, match="expected labels of strings or numbers, got "):
        made.save(tmp_path / "c.safetensors")
    (tmp_path / "c.safetensors").write_bytes(b"no")
    with pytest.raises(ValueError, match="got a file that cannot be read"):
        VMFClassifier.load(tmp_path / "c.safetensors")
