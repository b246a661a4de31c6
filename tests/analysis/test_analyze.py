"""The analysis of feature sets: roles of rows, search, references, choice, evaluation, rows."""

import importlib
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import cross_val_predict, cross_val_score
from torch import Tensor
from torch.nn import functional

import resultant
from resultant.analysis import pictures
from resultant.analysis.candidate import SMALLEST, Candidate, Predictions
from resultant.analysis.choose import Choice, choose
from resultant.analysis.evaluate import confusion
from resultant.analysis.run import Study, run
from resultant.analysis.split import (
    ACCURACY,
    BALANCED,
    FeatureSet,
    Settings,
    Split,
    plan,
    row_weights,
)
from small_features import COUNTS, small_set

fit_module = importlib.import_module("resultant.analysis.fit")


def with_train(data: FeatureSet, **changes: Any) -> FeatureSet:
    return replace(data, train=replace(data.train, **changes))


def test_weights_give_the_metric() -> None:
    """Balanced accuracy where a class has twice the training rows of another, or as asked for."""
    data = small_set()
    assert plan(data).metric == BALANCED and "6 to 60 training rows" in plan(data).reason
    asked = plan(data, Settings(metric=ACCURACY))
    assert asked.metric == ACCURACY and "as asked for" in asked.reason
    assert plan(replace(data, train=data.test)).metric == ACCURACY
    with pytest.raises(ValueError, match="expected metric to be 'accuracy' or"):
        plan(data, Settings(metric="f1"))
    y = torch.tensor([0, 0, 0, 1, 2, 2])
    hits = torch.tensor([1.0, 0, 1, 1, 0, 1]).double()
    assert float(row_weights(y, ACCURACY) @ hits) == pytest.approx(4 / 6)
    assert float(row_weights(y, BALANCED) @ hits) == pytest.approx((2 / 3 + 1 + 0.5) / 3)
    drawn = row_weights(torch.tensor([0, 1]), ACCURACY, torch.tensor([9, 1]))
    assert drawn.tolist() == pytest.approx([0.9, 0.1])


def test_folds_val_and_rows_kept_apart() -> None:
    folds = plan(small_set())
    assert folds.folds is not None and len(folds.splits) == 5
    for fitted, rows in folds.splits:
        assert sorted([*fitted.tolist(), *rows.tolist()]) == list(range(sum(COUNTS)))
    assert sorted(folds.rows.tolist()) == list(range(sum(COUNTS)))
    own = plan(small_set(val=True))
    assert own.folds is None and own.validation.name == "val" and "split val" in own.words
    apart = plan(small_set(kept_apart=torch.arange(0, 60, 2)))
    assert apart.rows.tolist() == list(range(0, 60, 2))
    assert len(apart.splits[0][0]) == sum(COUNTS) - 30
    # Rows of one identity or group share a fold.
    ids = torch.arange(sum(COUNTS)) // 2
    for name in ("identities", "groups"):
        for fitted, rows in plan(with_train(small_set(), **{name: ids})).splits:
            assert not set(ids[fitted].tolist()) & set(ids[rows].tolist())
    # Thousands of classes validate on few rows.
    y = torch.arange(6000).repeat_interleave(3)
    rows = Split("train", torch.rand(len(y), 2), y)
    names = tuple(map(str, range(6000)))
    made = plan(FeatureSet("m", "x", names, rows, replace(rows, name="test")))
    assert len(made.splits) == 1 and 2000 <= len(made.rows) <= 4000


def candidate(key: str, hits: Tensor, rank: float, family: str = "scikit-learn") -> Candidate:
    """A method with the given correct predictions of the class 1."""
    zero = torch.zeros(len(hits))
    one = Candidate(key, key, family, rank, partial(object))
    one.validated = Predictions(hits.long(), zero, zero)
    return one


def test_the_best_is_chosen_and_of_ties_the_simplest() -> None:
    rows, even = torch.arange(1000), torch.full((1000,), 1e-3, dtype=torch.float64)
    plan: Any = SimpleNamespace(labels=torch.ones(1000).long(), weights=even, copies=None)
    majority = candidate("majority", rows < 100, -1, "baseline")
    simple = candidate("simple", rows < 800, 1)
    strong = candidate("strong", rows < 900, 9, "vmf")
    near = candidate("near", (rows < 899) | (rows == 999), 5)
    able = [majority, simple, strong]
    assert choose(able, plan) == Choice("strong", "strong", ("strong",), True)
    # As accurate but for one row each way.
    assert choose([*able, near], plan) == Choice("near", "near", ("near", "strong"), True)
    again = candidate("again", rows < 900, 0)
    assert choose([*able, again], plan).used == "again"
    assert not choose([majority, candidate("chance", rows >= 890, 1)], plan).able


@pytest.fixture(scope="module")
def evaluated() -> Study:
    return run([small_set(metadata={"dataset": "small"})], Settings())[0][0]


def test_validation_is_a_cold_cross_validation_of_what_is_saved(
    evaluated: Study, tmp_path: Path
) -> None:
    """Fit every method cold with its settings and its calibration, on the same folds."""
    data, result = evaluated.data, evaluated.result
    assert result is not None
    x, y = data.train.x.numpy(), data.train.y.numpy()
    folds = [(a.numpy(), b.numpy()) for a, b in evaluated.plan.splits]
    for c in evaluated.candidates:
        if c.family == "baseline":
            continue
        model = c.make() if c.family == "vmf" else clone(c.model.pipeline)
        predicted = cross_val_predict(model, x, y, cv=folds)
        validation = result.method(c.key).validation.value
        assert validation == pytest.approx(balanced_accuracy_score(y, predicted)), c.key
        # The code on the page makes the same classifier.
        names: dict[str, Any] = {"X": x, "y": y}
        exec(c.code, names)
        shown = cross_val_score(clone(names["model"]), x, y, cv=folds, scoring="accuracy")
        shares = np.array([len(b) for _, b in folds]) / len(y)
        assert shown @ shares == pytest.approx(np.mean(predicted == y), abs=0.02), c.key
        assert c.tested is not None
        found = np.asarray(c.model.predict(data.test.x.numpy()))
        assert (found == c.tested.predicted.numpy()).all(), c.key


def test_numbers_against_a_count(evaluated: Study) -> None:
    data, result = evaluated.data, evaluated.result
    assert result is not None
    y = data.test.y
    for c in evaluated.candidates:
        method = result.method(c.key)
        p = torch.as_tensor(c.model.predict_proba(data.test.x.numpy())).double()
        right = (p.argmax(1) == y).double()
        assert method.accuracy.value == pytest.approx(float(right.mean()))
        own = [float(right[y == k].mean()) for k in range(6)]
        assert method.balanced.value == pytest.approx(np.mean(own))
        np.testing.assert_allclose(method.class_accuracy, own)
        loss = -p.gather(1, y[:, None]).clamp_min(SMALLEST).log().mean()
        assert method.log_loss.value == pytest.approx(float(loss), rel=1e-5)
        assert method.accuracy.low < method.accuracy.value < method.accuracy.high or (
            method.accuracy.value in (0, 1)
        )
    scores = [m.validation.value for m in result.methods]
    assert scores == sorted(scores, reverse=True)


def test_probabilities_of_references_are_calibrated(evaluated: Study) -> None:
    """Raw scores of discriminant analysis and votes of neighbours cost several nats."""
    result = evaluated.result
    assert result is not None
    for c in evaluated.candidates:
        if c.family == "scikit-learn":
            raw = np.maximum(c.model.pipeline.predict_proba(evaluated.data.test.x.numpy()), 1e-15)
            y = evaluated.data.test.y.numpy()
            before = -np.log(raw[np.arange(len(y)), y]).mean()
            assert result.method(c.key).log_loss.value < before + 0.05, c.key
            assert result.method(c.key).log_loss.value < math.log(6) - 0.5, c.key


def test_differences_are_paired(evaluated: Study) -> None:
    result, y = evaluated.result, evaluated.data.test.y
    assert result is not None
    weights = row_weights(y, result.data.metric)
    for c in evaluated.candidates:
        method = result.method(c.key)
        if c is evaluated.used:
            assert method.difference is None
            continue
        assert c.tested is not None and method.difference is not None
        d = ((c.tested.predicted == y).double() - evaluated.right.double()) @ weights
        assert method.difference.gain == pytest.approx(float(d))
        assert method.difference.low < method.difference.high
        tie = method.difference.low <= 0 <= method.difference.high
        assert (method.difference.verdict == "tie") == tie


def test_methods_and_texts(evaluated: Study) -> None:
    result = evaluated.result
    assert result is not None and result.recommended is not None
    families = {m.family for m in result.methods}
    assert families == {"vmf", "scikit-learn", "baseline"}
    text = " ".join(result.recommendation.sentences)
    assert result.recommended.name in text and "%" in text
    assert result.map is not None and result.explorer is not None
    assert result.theory is not None and result.theory.tau == result.explorer.start["temperature"]
    assert result.explorer.method == evaluated.vmf.name
    assert evaluated.vmf.settings["components"] == 1
    assert result.to_dict()["data"]["metadata"] == {"dataset": "small"}


def test_sliders_are_those_of_the_scores(evaluated: Study) -> None:
    """Cosines, concentrations and prior give the predictions of a classifier."""
    assert evaluated.result is not None and evaluated.result.explorer is not None
    e, data = evaluated.result.explorer, evaluated.data
    assert math.isnan(e.shrinkage[0]) and e.weight.sum() == pytest.approx(1)
    x = functional.normalize(data.test.x[e.row].double(), dim=1)
    mu = functional.normalize(data.train.x.double(), dim=1)
    mu = torch.stack([mu[data.train.y == c].mean(0) for c in range(6)])
    rho = x @ functional.normalize(mu, dim=1).T
    np.testing.assert_allclose(e.cosine[0], rho.gather(1, torch.tensor(e.candidates)), 1e-5)
    assert (e.label == data.test.y[e.row].numpy()).all()


def test_sliders_have_the_classes_of_their_method(
    evaluated: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the other classes are those of a sample, and the shrinkage is one of its own."""
    data, vmf = evaluated.data, evaluated.vmf
    monkeypatch.setattr(pictures, "METRIC_ENTRIES", 60 * data.dim)
    fitted = pictures.fit_directions(data, "mle")
    for settings, steps in (({"whiten": None}, 5), ({"whiten": "within", "shrinkage": 0.003}, 6)):
        one = replace(vmf, settings={**vmf.settings, **settings})
        one.model = vmf.make().set_params(**settings).fit(data.train.x, data.train.y)
        e = pictures.explorer(data, evaluated.plan, fitted, one)
        at, shrinkage = e.start["metric"], settings.get("shrinkage", math.nan)
        np.testing.assert_equal(e.shrinkage[at], shrinkage)
        assert len(e.shrinkage) == steps and e.sample is not None
        assert e.sample < len(data.train)
        np.testing.assert_array_equal(e.kappa[at], one.model.state_.kappa)


def test_confusion() -> None:
    y = torch.tensor([0, 0, 0, 1, 1, 2])
    predicted = torch.tensor([0, 1, 1, 1, 0, 0])
    found = confusion(predicted, y, 3)
    assert found.pairs[0].tolist() == [0, 1] and found.count.tolist() == [2, 1, 1]
    assert found.share[0] == pytest.approx(2 / 3)
    assert found.matrix is not None and found.matrix.tolist() == [[1, 2, 0], [1, 1, 0], [1, 0, 0]]
    assert found.order is not None and sorted(found.order) == [0, 1, 2]
    assert confusion(predicted, y, 201).matrix is None


@pytest.mark.usefixtures("one_precision")
def test_a_class_whose_rows_are_of_one_identity() -> None:
    """A fold of all its rows is fitted without this class: it is never predicted there."""
    data = small_set()
    ids = torch.arange(sum(COUNTS))
    ids[data.train.y == 2] = -1
    data = with_train(data, identities=ids)
    (study,), _ = run([data], Settings(theory=False))
    assert not (study.plan.labels == 2).any()
    for c in study.candidates:
        assert c.key == "majority" or c.hits(study.plan.labels).mean() > 0.6, c.key


@pytest.mark.usefixtures("brief")
def test_two_sets_of_one_source() -> None:
    """Training rows do not choose a projection."""
    data = small_set()
    noisy = with_train(data, x=data.train.x + torch.randn(data.train.x.shape))
    steps: list[str] = []
    studies, first = run([replace(noisy, name="encoder"), data], Settings(), steps.append)
    assert studies[1].score > studies[0].score and first == 0
    assert "projection: search vMF settings" in steps


@pytest.mark.usefixtures("one_precision")
def test_classes_of_sums_are_explained() -> None:
    """The sliders show the best rule of sums if refined classes are recommended."""
    (study,), _ = run([small_set()], Settings(references="none", theory=False))
    assert study.choice is not None
    study.choice = study.choice._replace(used="refined", able=True)
    assert study.used.key == "refined" and study.vmf.key != "refined"


@pytest.mark.parametrize("whiten", [None, "within"])
def test_a_sample_of_very_many_rows_ranks_others_and_does_not_grow(
    whiten: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The sums are those of all rows; the metric and the kept rows are those of a sample."""
    rng, y = np.random.default_rng(0), np.arange(900) % 3
    x = (np.eye(8)[y] + 0.4 * rng.normal(size=(900, 8))).astype(np.float32)
    (data,) = resultant.analysis.read(x, y)
    monkeypatch.setattr(fit_module, "SEARCH_BYTES", 4 * 8 * 300)
    model, rows = (
        resultant.VMFClassifier(whiten=whiten, shrinkage=0.3),
        torch.arange(len(data.train)),
    )
    assert fit_module._fit_vmf(model, data, rows) == len(rows) > model.kept_.sum()
    assert model.statistics_.count.sum() == len(rows)
    sets = np.asarray(model.predict_set(x[:300], error=0.1))
    assert abs(1 - sets[np.arange(300), y[:300]].mean() - 0.1) < 0.06
    model.save(path := tmp_path / "a.safetensors")
    again = resultant.VMFClassifier.load(path)
    np.testing.assert_array_equal(again.predict_set(x, error=0.1), model.predict_set(x, error=0.1))
    for one in (model, again) if whiten else (model,):
        with pytest.raises(ValueError, match="expected a classifier with"):
            one.partial_fit(x, y)
    if whiten is None:
        with pytest.warns(UserWarning, match="the scale stays as it is"):
            again.partial_fit(x, y)
        assert again.statistics_.count.sum() == len(rows) + 900
