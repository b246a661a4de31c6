"""Calibration and the telling of foreign queries, against loops and scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss

from class_rows import sample, unit
from resultant.classifiers.calibration import (
    evaluate,
    expected_calibration_error,
    negative_log_likelihood,
    ood_auroc,
)
from resultant.classifiers.vmf import VMFClassifier


def naive_ece(p: np.ndarray, y: np.ndarray, bins: int) -> float:
    total = 0.0
    for b in range(bins):
        rows = [i for i in range(len(y)) if b / bins < p[i].max() <= (b + 1) / bins]
        if rows:
            hits = sum(p[i].argmax() == y[i] for i in rows) / len(rows)
            total += len(rows) / len(y) * abs(hits - sum(p[i].max() for i in rows) / len(rows))
    return total


@pytest.mark.parametrize("bins", [1, 4, 15])
def test_calibration_against_loops(bins: int) -> None:
    rng = np.random.default_rng(6)
    p = rng.dirichlet([0.4] * 5, 300)
    p[:3] = [[0.5, 0.5, 0, 0, 0], [0.25, 0.75, 0, 0, 0], [1, 0, 0, 0, 0]]  # at the edges
    y = np.array([rng.choice(5, p=np.sqrt(row) / np.sqrt(row).sum()) for row in p])
    y[:3] = [1, 1, 0]
    expected = naive_ece(p, y, bins)
    assert expected > 0.01
    assert expected_calibration_error(p, y, bins) == pytest.approx(expected, rel=1e-12)
    tensors = torch.from_numpy(p), torch.from_numpy(y)
    assert expected_calibration_error(*tensors, bins) == pytest.approx(expected, rel=1e-12)
    assert negative_log_likelihood(p, y) == pytest.approx(log_loss(y, p), rel=1e-9)
    # A hit at 0.5 belongs to the lower of two bins, apart from a miss at 0.6.
    edge = np.array([[0.5, 0.5], [0.6, 0.4]]), [0, 1]
    assert expected_calibration_error(*edge, 2) == pytest.approx(0.55)
    assert negative_log_likelihood(np.eye(2), [0, 0]) == math.inf


def test_evaluate_is_its_parts() -> None:
    (X, y), (Q, t) = sample(), sample(80, seed=1)
    names = np.array(["ray", "cod", "eel", "ant"])
    fitted = VMFClassifier().fit(X, names[y])
    found, proba = evaluate(fitted, Q, names[t]), fitted.predict_proba(Q)
    index = np.searchsorted(fitted.classes_, names[t])
    assert found == {
        "accuracy": pytest.approx(fitted.score(Q, names[t])),
        "nll": pytest.approx(log_loss(names[t], proba)),
        "ece": pytest.approx(naive_ece(np.asarray(proba), index, 15)),
    }
    with pytest.raises(ValueError, match=r"among the 4 classes .*got 'elk' at index 1"):
        evaluate(fitted, Q[:2], ["cod", "elk"])


def test_foreign_queries_are_told() -> None:
    rng = np.random.default_rng(5)
    means = unit(rng.normal(size=(6, 32)))
    y = np.arange(600) % 6
    X, Q = (means[y] + 0.1 * rng.normal(size=(600, 32)) for _ in range(2))
    foreign = rng.normal(size=(400, 32))
    found = evaluate(VMFClassifier().fit(X, y), Q, y, foreign)
    assert found["auroc"] > 0.99 and found["accuracy"] > 0.99
    same = evaluate(VMFClassifier().fit(X, y), Q, y, X)["auroc"]
    assert abs(same - 0.5) < 0.06
    known, unknown = rng.integers(0, 5, 30), rng.integers(-2, 4, 20)
    pairs = [(a > b) + 0.5 * (a == b) for a in known for b in unknown]
    assert ood_auroc(known, torch.from_numpy(unknown)) == pytest.approx(np.mean(pairs), rel=1e-12)


def test_probabilities_are_checked() -> None:
    p, y = np.full((3, 2), 0.5), np.array([0, 1, 1])
    for call, message in [
        (lambda: expected_calibration_error(p[0], y), r"got shapes \(2,\) and \(3,\)"),
        (lambda: expected_calibration_error(p, y + 1), r"integers in \[0, 2\), got int64 from 1"),
        (lambda: expected_calibration_error(2 * p, y), "rows that sum to one, got .* the sum 2"),
        (lambda: expected_calibration_error(p, y, 0), "bins to be an integer >= 1, got 0"),
        (lambda: negative_log_likelihood(p * math.nan, y), "rows that sum to one"),
        (lambda: ood_auroc([], y), r"expected known \[N\] of one score or more"),
        (lambda: ood_auroc(y, ["a"]), "expected foreign to be numbers"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
