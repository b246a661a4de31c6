"""The analysis of feature sets: roles of rows, search, references, choice, evaluation, rows."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NearestCentroid
from torch import Tensor
from torch.nn import functional

import resultant
from resultant import VMFClassifierCV
from resultant.analysis import analyze as steps_of
from resultant.analysis.analyze import Settings, analyze_sets, compare_sets, fit_rules
from resultant.analysis.data import ACCURACY, BALANCED, FeatureSet, Split, plan, row_weights
from resultant.analysis.evaluate import SMALLEST, Candidate, Predictions, choose, confusion, predict
from resultant.analysis.explain import duplicates, suspicious_rows
from resultant.analysis.methods import BUDGETS, Budget, Discriminant, references, search
from small_features import COUNTS, small_features, small_set


@pytest.fixture(autouse=True)
def one_component_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not search mixtures, which takes most of the time; the fixture `evaluated` does."""
    monkeypatch.setattr("resultant.classifiers.search.COMPONENT_CELLS", 0)


def with_train(data: FeatureSet, **changes: Any) -> FeatureSet:
    return replace(data, train=replace(data.train, **changes))


def test_weights_give_the_metric() -> None:
    data = small_set()
    assert plan(data).metric == BALANCED
    assert plan(replace(data, test=data.train)).metric == ACCURACY
    y = torch.tensor([0, 0, 0, 1, 2, 2])
    hits = torch.tensor([1.0, 0, 1, 1, 0, 1]).double()
    assert float(row_weights(y, ACCURACY) @ hits) == pytest.approx(4 / 6)
    assert float(row_weights(y, BALANCED) @ hits) == pytest.approx((2 / 3 + 1 + 0.5) / 3)
    drawn = row_weights(torch.tensor([0, 1]), ACCURACY, torch.tensor([9, 1]))
    assert drawn.tolist() == pytest.approx([0.9, 0.1])


def test_folds_val_and_rows_kept_apart() -> None:
    folds = plan(small_set())
    assert folds.folds is not None and len(folds.splits) == 5
    for fit, rows in folds.splits:
        assert sorted([*fit.tolist(), *rows.tolist()]) == list(range(sum(COUNTS)))
    assert sorted(folds.rows.tolist()) == list(range(sum(COUNTS)))
    own = plan(small_set(val=True))
    assert own.folds is None and own.validation.name == "val" and "split val" in own.words
    apart = plan(small_set(kept_apart=torch.arange(0, 60, 2)))
    assert apart.rows.tolist() == list(range(0, 60, 2))
    assert len(apart.splits[0][0]) == sum(COUNTS) - 30
    # Rows of one identity share a fold.
    ids = torch.arange(sum(COUNTS)) // 2
    for fit, rows in plan(with_train(small_set(), identities=ids)).splits:
        assert not set(ids[fit].tolist()) & set(ids[rows].tolist())
    # Thousands of classes validate on few rows.
    y = torch.arange(6000).repeat_interleave(3)
    rows = Split("train", torch.zeros(len(y), 2), y)
    names = tuple(map(str, range(6000)))
    made = plan(FeatureSet("m", "x", names, rows, replace(rows, name="test")))
    assert len(made.splits) == 1 and 2000 <= len(made.rows) <= 4000


def candidate(key: str, hits: Tensor, rank: float, family: str = "scikit-learn") -> Candidate:
    """A method with the given correct predictions of the class 1."""
    zero = torch.zeros(len(hits))
    predicted = Predictions(hits.long(), zero, zero)
    return Candidate(key, key, family, rank, {}, "", predicted, None, 0.0, 1)


def test_the_best_is_chosen_and_of_ties_the_simplest() -> None:
    rows, even = torch.arange(1000), torch.full((1000,), 1e-3, dtype=torch.float64)
    plan: Any = SimpleNamespace(labels=torch.ones(1000).long(), weights=even)
    majority = candidate("majority", rows < 100, -1, "baseline")
    simple = candidate("simple", rows < 800, 1)
    strong = candidate("strong", rows < 900, 9)
    near = candidate("near", (rows < 899) | (rows == 999), 5)
    able = [majority, simple, strong]
    assert choose(able, plan, None)[1] == "strong"
    # As accurate but for one row each way.
    assert choose([*able, near], plan, None) == ("near", "near")
    again = candidate("again", rows < 900, 0)
    assert choose([*able, again], plan, None)[1] == "again"
    # One vMF method stands for all.
    vmf = [candidate(key, rows < n, 1, "vmf") for key, n in (("native", 600), ("angular", 500))]
    assert choose([majority, *vmf], plan, "angular")[1] == "angular"


def test_features_that_do_not_carry_labels() -> None:
    """All rows are noise, and the largest class has most of them."""
    noise = small_set(noise=100.0)
    evaluated, _ = analyze_sets([replace(noise, test=noise.train)], Settings(theory=False), print)
    result = evaluated[0].result
    assert result.data.metric == ACCURACY
    assert result.recommendation.key is None and result.recommended is None
    assert result.recommendation.sentences[0] == "These features do not carry these labels."
    assert result.recommendation.code == ""
    assert all(method.difference is None for method in result.methods)


@pytest.mark.parametrize("kind", ["folds", "copies", "val"])
def test_agrees_with_cross_validation_on_the_same_rows_and_folds(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "folds":
        monkeypatch.undo()  # also with mixtures
    data = small_set(kind == "val")
    cv: Any = 5
    x, y = data.train.x, data.train.y
    if kind == "copies":
        at = torch.cat([torch.arange(len(y)), torch.arange(0, len(y), 3)])
        x, y = x[at], y[at]
        data = with_train(data, x=x, y=y)
    if data.val is not None:
        x, y = torch.cat([x, data.val.x]), torch.cat([y, data.val.y])
        cv = [np.split(np.arange(len(y)), [len(data.train)])]
    rows = plan(data)
    found = search(data, rows, Settings())
    chosen = VMFClassifierCV(cv=cv, balanced=rows.metric == BALANCED).fit(x, y.numpy())
    point = found.points[found.chosen]
    for name, value in chosen.best_params_.items():
        assert point.get(name) == value, name
    assert point["scale"] == pytest.approx(chosen.scale_)


@pytest.fixture(scope="module")
def evaluated() -> Any:
    return analyze_sets([small_set(metadata={"dataset": "small"})], Settings(), print)[0][0]


def test_explanation_of_mixtures_is_about_one_component(evaluated: Any) -> None:
    several = [replace(c, settings={"components": 4}) for c in evaluated.candidates]
    one = steps_of.one_component(replace(evaluated, candidates=several), Settings())
    assert one.settings == {"components": 1} and one.model.components == 1
    assert one.model.state_.num_classes == 6


def test_numbers_against_a_count(evaluated: Any) -> None:
    data, result = evaluated.data, evaluated.result
    y = data.test.y
    for c in evaluated.candidates:
        method = result.method(c.key)
        x = data.test.x if c.family == "vmf" else data.test.x.numpy()
        p = torch.as_tensor(c.model.predict_proba(x)).double()
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


def test_differences_are_paired(evaluated: Any) -> None:
    result, y = evaluated.result, evaluated.data.test.y
    chosen = evaluated.tested[result.recommendation.key].predicted == y
    weights = row_weights(y, result.data.metric)
    for method in result.methods:
        if method.key == result.recommendation.key:
            assert method.difference is None
            continue
        own = evaluated.tested[method.key].predicted == y
        d = (own.double() - chosen.double()) @ weights
        assert method.difference.gain == pytest.approx(float(d))
        tie = method.difference.low <= 0 <= method.difference.high
        assert (method.difference.verdict == "tie") == tie


def test_methods_and_texts(evaluated: Any) -> None:
    result = evaluated.result
    families = {m.family for m in result.methods}
    assert families == {"vmf", "scikit-learn", "baseline"}
    for method in result.methods:
        if method.family != "baseline":
            compile(method.code, method.key, "exec")
    text = " ".join(result.recommendation.sentences)
    assert result.recommended.name in text and "%" in text
    assert result.map is not None and result.explorer is not None
    assert result.theory is not None and result.theory.gains is not None
    native = result.method("native")
    assert result.theory.space.tau == native.settings["temperature"]
    assert native.name in ("native", "native (whitened)")
    assert result.to_dict()["data"]["metadata"] == {"dataset": "small"}


def test_sliders_are_those_of_the_scores(evaluated: Any) -> None:
    """Cosines, concentrations and prior give the predictions of a classifier."""
    e, data = evaluated.result.explorer, evaluated.data
    assert math.isnan(e.shrinkage[0]) and e.weight.sum() == pytest.approx(1)
    x = functional.normalize(data.test.x[e.row].double(), dim=1)
    mu = functional.normalize(data.train.x.double(), dim=1)
    mu = torch.stack([mu[data.train.y == c].mean(0) for c in range(6)])
    rho = x @ functional.normalize(mu, dim=1).T
    np.testing.assert_allclose(e.cosine[0], rho.gather(1, torch.tensor(e.candidates)), 1e-5)
    assert (e.label == data.test.y[e.row].numpy()).all()


def test_a_wrong_label_and_an_outlier_are_found() -> None:
    data = small_set(noise=0.3)
    x, y = data.train.x.clone(), data.train.y.clone()
    y[3], y[70] = 4, 0
    x[10] = -x[10]
    data = with_train(data, x=x, y=y)
    model = fit_rules(data, plan(data), Settings(), print).candidates[0].model
    tables = suspicious_rows(data, model)
    wrong = tables["label"]
    found = {(s, int(r)) for s, r in zip(wrong.split, wrong.row, strict=True)}
    assert {("train", 3), ("train", 70)} <= found and len(found) < 25
    at = next(i for i, r in enumerate(wrong.row) if r == 3 and wrong.split[i] == "train")
    assert (wrong.label[at], wrong.other[at]) == (4, 0)
    assert 10 in tables["outlier"].row[tables["outlier"].split == "train"]
    assert (np.diff(wrong.score) <= 0).all() and wrong.total == len(wrong.row)


def test_hard_rows_are_no_label_errors() -> None:
    """Half of the rows are predicted wrongly, without confidence."""
    data = small_set(noise=1.2)
    model = fit_rules(data, plan(data), Settings(), print).candidates[0].model
    predicted = torch.as_tensor(model.predict(data.test.x.numpy()))
    assert (predicted != data.test.y).double().mean() > 0.3
    assert suspicious_rows(data, model)["label"].total < 0.02 * sum(COUNTS)


def test_duplicates_across_splits() -> None:
    data = small_set()
    x = data.test.x.clone()
    x[5], x[9] = data.train.x[40], data.train.x[2]
    test = Split("test", x, data.test.y, torch.arange(len(x)) + 100)
    table = duplicates(replace(data, test=test))
    assert table.row.tolist() == [5, 9] and table.score.tolist() == [40, 2]
    assert table.identity.tolist() == ["105", "109"]
    assert set(table.copy_split) == {"train"} and table.total == 2


def test_references_are_those_of_scikit_learn() -> None:
    """The code of a method gives its predictions."""
    data = small_set()
    rows, found = plan(data), {}
    x, q = data.train.x.numpy(), data.test.x.numpy()
    for c in references(data, rows, "all"):
        names: dict[str, Any] = {"X": x, "y": data.train.y.numpy()}
        exec(c.code, names)
        ours = predict([c.model], data.test, torch.arange(len(data.test)), 6)[0].predicted.numpy()
        assert (names["model"].predict(q) == ours).mean() >= 0.97, c.key
        assert c.rows == sum(COUNTS) and c.note == ""
        found[c.key] = ours
    assert {"KNeighborsClassifier", "LogisticRegression(balanced)"} <= set(found)
    x, q = (a / np.linalg.norm(a, axis=1, keepdims=True) for a in (x, q))
    nearest = NearestCentroid().fit(x, data.train.y.numpy()).predict(q)
    np.testing.assert_array_equal(found["NearestCentroid"], nearest)
    assert not list(references(data, rows, "none"))


@pytest.mark.parametrize(("classes", "equal"), [(2, False), (6, True)])
def test_discriminant_analysis_is_that_of_scikit_learn(classes: int, equal: bool) -> None:
    data = small_set()
    kept = data.train.y < classes
    x, y = data.train.x[kept].numpy(), data.train.y[kept].numpy()
    prior = np.full(classes, 1 / classes) if equal else None
    ours, theirs = (
        kind("lsqr", shrinkage=0.3, priors=prior).fit(x, y)
        for kind in (Discriminant, LinearDiscriminantAnalysis)
    )
    q = data.test.x.numpy()
    np.testing.assert_allclose(ours.predict_proba(q), theirs.predict_proba(q), atol=1e-4)


def test_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of some classes gives the others probability zero; neighbours are at most all."""
    data = small_set()
    rows = plan(data)
    part = type(rows)(**{**vars(rows), "splits": ((torch.arange(100), rows.rows),)})
    (c, *_) = references(data, part, "fast")
    assert c.validated.predicted.max() < 4
    some = torch.cat([(data.train.y == k).nonzero()[:2, 0] for k in range(6)])
    train = Split("train", data.train.x[some], data.train.y[some])
    data = FeatureSet("m", "x", data.class_names, train, data.test)
    found = {c.key: c for c in references(data, plan(data), "fast")}
    assert found["KNeighborsClassifier"].settings["n_neighbors"] <= 6
    # A sample is said.
    monkeypatch.setitem(BUDGETS, "fast", Budget(4000, 0.5, 1e9, 50, 100, 1e6, 1600))
    data = small_set()
    found = {c.key: c for c in references(data, plan(data), "fast")}
    assert "stratified sample of" in found["NearestCentroid"].note
    assert found["NearestCentroid"].rows < sum(COUNTS)


def test_confusion() -> None:
    y = torch.tensor([0, 0, 0, 1, 1, 2])
    predicted = torch.tensor([0, 1, 1, 1, 0, 0])
    found = confusion(predicted, y, 3)
    assert found.pairs[0].tolist() == [0, 1] and found.count.tolist() == [2, 1, 1]
    assert found.share[0] == pytest.approx(2 / 3)
    assert found.matrix is not None and found.matrix.tolist() == [[1, 2, 0], [1, 1, 0], [1, 0, 0]]
    assert found.order is not None and sorted(found.order) == [0, 1, 2]
    assert confusion(predicted, y, 201).matrix is None


def test_a_class_whose_rows_are_of_one_identity() -> None:
    """A fold of all its rows is fitted without this class: it is never predicted there."""
    data = small_set()
    ids = torch.arange(sum(COUNTS))
    ids[data.train.y == 2] = -1
    data = with_train(data, identities=ids)
    fitted = fit_rules(data, plan(data), Settings(references="none"), print)
    assert not (fitted.plan.labels == 2).any()
    for c in fitted.candidates:
        right = c.validated.predicted == fitted.plan.labels
        assert c.key == "majority" or right.double().mean() > 0.6, c.key


def test_two_sets_of_one_source() -> None:
    """Training rows do not choose a projection: the other is summarized before it is searched."""
    data = small_set()
    noisy = with_train(data, x=data.train.x + torch.randn(data.train.x.shape))
    sets = [replace(noisy, name="encoder"), data]
    steps: list[str] = []
    options = Settings(references="none", theory=False)
    evaluated, first = analyze_sets(sets, options, steps.append)
    assert evaluated[1].score > evaluated[0].score and first == 0
    summarized = steps.index("encoder: evaluate on the test rows")
    assert summarized < steps.index("projection: search vMF settings")


@pytest.mark.parametrize("paired", [False, True])
def test_comparison_of_sets(paired: bool) -> None:
    """Rows are paired by their identities, in any order; equal labels are not enough."""
    data = small_set()
    ids = torch.arange(len(data.test)) if paired else None
    order = torch.randperm(len(data.test))
    noise = 2 * torch.randn(data.test.x.shape, generator=torch.Generator().manual_seed(0))
    a = Split("test", data.test.x + noise, data.test.y, ids)
    b = Split("test", data.test.x[order], data.test.y[order], None if ids is None else ids[order])
    options = Settings(references="none", theory=False)
    evaluated = [analyze_sets([replace(data, test=t)], options, print)[0][0] for t in (a, b)]
    found = compare_sets(evaluated, 0, 1)
    assert found.paired == paired and found.difference.verdict == "better"
    assert "B is better than A" in found.sentence
    assert math.isnan(found.difference.p_value) == (not paired)


@pytest.mark.parametrize("calibration", ["scale", "isotonic"])
def test_saved_classifier_of_arrays(calibration: str, tmp_path: Path) -> None:
    """The code of the page loads it; it predicts the user's words, and keeps its calibration."""
    arrays, words = small_features(dim=16, noise=0.9), np.array(list("abcdef"))
    x, y, q, t = (arrays[f"{s}/{w}"] for s in ("train", "test") for w in ("projection", "labels"))
    options: Any = {"test": (q, words[t]), "references": "none", "calibration": calibration}
    result = resultant.analyze(x.numpy(), words[y], **options)
    assert result.first.data.class_names == tuple("abcdef")
    assert "<table>" in result._repr_html_() and result.first.theory is None
    written = resultant.analyze(x.numpy(), words[y], **options, out=tmp_path / "out")
    assert (tmp_path / "out" / "index.html").exists() and written.files["classifier"]
    recommended = written.first.recommended
    assert recommended is not None
    assert ("isotonic" in recommended.note) == (calibration == "isotonic")
    names: dict[str, Any] = {"X": q.numpy()}
    exec(written.first.recommendation.code, names)
    own = names["model"].predict_proba(names["X"])[np.arange(len(t)), t]
    loss = -np.log(np.maximum(own, np.finfo(float).eps)).mean()
    assert loss == pytest.approx(recommended.log_loss.value, rel=1e-4)
    right = (names["model"].predict(names["X"]) == words[t]).mean()
    assert right == pytest.approx(recommended.accuracy.value)
    # A folder with files of others is refused before the rows are looked at.
    (tmp_path / "index.html").write_text("mine")
    with pytest.raises(ValueError, match="choose another folder"):
        resultant.analyze(np.eye(3), [0, 1, 2], out=tmp_path)
