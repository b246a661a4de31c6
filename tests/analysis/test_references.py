"""References: equal to those of scikit-learn, chosen on rows that do not judge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid

from resultant.analysis import FrozenSpace
from resultant.analysis.choice import choosing_rows
from resultant.analysis.judging import Batch, FinishedRule
from resultant.analysis.references import (
    BUDGETS,
    NAMES,
    Budget,
    References,
    reference_samples,
    reference_task,
    stratified,
)
from resultant.classifiers.calibration import fit_scale, log_losses
from resultant.classifiers.references import fit_references, scaled_loss


def reference_rules(space: FrozenSpace, metric: str, level: str = "fast") -> list[FinishedRule]:
    rows = choosing_rows(space, metric)
    references = References(space, rows, level)
    rules = references.rules()
    return sorted(rules, key=lambda rule: list(NAMES).index(rule.key))


def decided(rule: FinishedRule, q: np.ndarray) -> torch.Tensor:
    """The scores of all held-out rows."""
    return rule.scores(Batch(slice(0, len(q)), torch.from_numpy(q), torch.empty(0)))


@pytest.fixture(scope="module")
def fitted(small: FrozenSpace) -> dict[str, FinishedRule]:
    rules = reference_rules(small, "balanced", "fast")
    return {rule.key: rule for rule in rules}


def data(space: FrozenSpace) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, q = (
        space.units(split, torch.arange(n)).float().numpy()
        for split, n in (("train", len(space.train)), ("test", len(space.test)))
    )
    return x, space.labels.numpy(), q


def test_all_references_are_there(fitted: dict[str, FinishedRule], small: FrozenSpace) -> None:
    assert list(fitted) == list(NAMES)
    assert all(rule.rows == len(small.train) for rule in fitted.values())
    assert not any("sample" in rule.note for rule in fitted.values())
    assert reference_rules(small, "balanced", "none") == []
    with pytest.raises(ValueError, match="expected references among"):
        reference_rules(small, "balanced", "some")


def test_scores_are_those_of_scikit_learn(
    fitted: dict[str, FinishedRule], small: FrozenSpace
) -> None:
    x, y, q = data(small)
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(x, y)
    cost = fitted["logistic-balanced"].settings["C"]
    own = {
        "lda": lda,
        "centroid": NearestCentroid().fit(x, y),
        "knn": KNeighborsClassifier(fitted["knn"].settings["k"]).fit(x, y),
        "logistic-balanced": LogisticRegression(
            C=cost, class_weight="balanced", tol=1e-7, max_iter=1000
        ).fit(x, y),
    }
    for key, model in own.items():
        result = decided(fitted[key], q).argmax(1).numpy()
        assert (result == model.predict(q)).mean() > 0.998, key
    equal = q @ lda.coef_.T + lda.intercept_ - np.log(lda.priors_)
    np.testing.assert_allclose(decided(fitted["lda-equal"], q), equal, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_logistic_regression_of_all_rows(small: FrozenSpace) -> None:
    x, y, q = data(small)
    rules = {rule.key: rule for rule in reference_rules(small, "balanced", "all")}
    assert list(rules) == list(NAMES)
    model = LogisticRegression(
        C=rules["logistic-balanced"].settings["C"], class_weight="balanced", tol=1e-8, max_iter=1000
    ).fit(x.astype(float), y)
    expected = q @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(decided(rules["logistic-balanced"], q), expected, atol=1e-4)


@pytest.mark.slow
def test_cost_is_the_best_of_cold_fits(small: FrozenSpace) -> None:
    """C of the path of warm starts has about the least loss of converged fits from zero."""
    rows = choosing_rows(small, "balanced")
    samples = reference_samples(small, rows, "fast", None)
    task = reference_task(small, rows, samples, "fast")
    x, y = task.rows("logistic-balanced", False)
    own, weights = torch.from_numpy(task.own), torch.from_numpy(task.weights)
    weights, losses = weights / weights.sum(), {}
    for cost in (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0):
        model = LogisticRegression(C=cost, class_weight="balanced", tol=1e-7, max_iter=500)
        scores = torch.as_tensor(model.fit(x, y).decision_function(task.query))
        scale = fit_scale(scores, own, weights)
        losses[cost] = float(log_losses(scores, own, scale).double() @ weights)
    scaled = len(x) / len(task.rows("logistic-balanced", True)[0])
    found = {r.key: r for r in fit_references(task)}["logistic-balanced"].settings["C"] / scaled
    near = min(losses, key=lambda cost: abs(np.log(cost / found)))
    assert losses[near] < min(losses.values()) * 1.005


def test_a_loss_after_its_own_scale() -> None:
    draws = torch.Generator().manual_seed(0)
    scores, own = torch.randn(50, 4, generator=draws), torch.randint(4, (50,), generator=draws)
    scores[torch.arange(50), own] += 2
    weights = torch.full((50,), 0.02)
    expected = float(log_losses(scores, own, fit_scale(scores, own, number=1e9)) @ weights.double())
    result = scaled_loss(scores.numpy(), own.numpy(), weights.numpy())
    assert result == pytest.approx(expected, rel=1e-4)


def test_a_solver_that_was_stopped_is_said(
    small: FrozenSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUDGETS, "fast", replace(BUDGETS["fast"], iterations=3))
    rules = {rule.key: rule.note for rule in reference_rules(small, "balanced")}
    assert "stopped after 3 iterations" in rules["logistic"] and rules["lda"] == ""


@pytest.mark.parametrize("level", ["fast", "all"])
def test_two_classes(level: str, small: FrozenSpace) -> None:
    """One row of weights of a binary model gives two scores."""
    at, asked = small.labels < 2, small.test_labels < 2
    space = FrozenSpace.fit(
        small.train[at], small.labels[at], small.test[asked], small.test_labels[asked]
    )
    rules = {r.key: r for r in reference_rules(space, "accuracy", level)}
    x, y, q = data(space)
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(x, y)
    s = decided(rules["lda"], q)
    np.testing.assert_allclose((s[:, 1] - s[:, 0]).numpy(), model.decision_function(q), rtol=1e-3)


def test_samples_are_said(small: FrozenSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = Budget(
        cells=2400,
        trial_cells=2400,
        classes=100,
        neighbours=(200, 1e9),
        covariance=1.0,
        entries=1e9,
        iterations=20,
    )
    monkeypatch.setitem(BUDGETS, "fast", tiny)
    rules = reference_rules(small, "balanced", "fast")
    result = {rule.key: rule for rule in rules}
    assert "lda" not in result and result["centroid"].note == ""
    assert result["knn"].rows < len(small.train) and "stratified sample" in result["knn"].note


def test_a_stratified_sample_keeps_small_classes() -> None:
    y = torch.tensor([0] * 1000 + [1] * 100 + [2] * 3)
    rows = stratified(y, 110)
    assert torch.bincount(y[rows]).tolist() == [100, 10, 2]
    assert stratified(y, 5000).tolist() == list(range(len(y)))
