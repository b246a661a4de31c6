"""Finished rules on the same held-out rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import binomtest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss

from resultant.analysis import FrozenSpace
from resultant.analysis.judging import (
    Batch,
    FinishedRule,
    compared,
    difference,
    judge,
    metric_weights,
    wilson,
)
from resultant.classes.realization import realize
from resultant.classes.rule import Rule
from resultant.classifiers.calibration import expected_calibration_error


def rule(space: FrozenSpace, realization: str, scale: float) -> FinishedRule:
    realized = realize(space.state, Rule(0.1, realization), dtype=space.dtype)
    scores = lambda batch: realized.at(batch.rho)  # noqa: E731
    return FinishedRule(realization, realization, "vmf", {}, scale, scores, 0.0, 1)


def test_measures_are_those_of_scikit_learn(small: FrozenSpace) -> None:
    built = rule(small, "native", 2.5)
    (judged,) = judge(small, [built])
    row, y = judged.row, small.test_labels.numpy()
    z = small.units("test", torch.arange(len(y)))
    s = built.scores(Batch(slice(0, len(z)), z, z @ small.state.mu.T))
    classes = np.arange(small.num_classes)
    assert row.accuracy == pytest.approx(accuracy_score(y, s.argmax(1).numpy()))
    assert row.balanced == pytest.approx(balanced_accuracy_score(y, s.argmax(1).numpy()))
    for scale, result in ((1.0, row.before), (2.5, row.after)):
        p = (scale * s).softmax(1).numpy()
        assert result.nll == pytest.approx(log_loss(y, p, labels=classes), rel=1e-6)
        assert result.ece == pytest.approx(expected_calibration_error(p, y), abs=1e-9)


def test_wilson_is_that_of_scipy() -> None:
    expected = binomtest(37, 50).proportion_ci(method="wilson")
    assert wilson(37 / 50, 50) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert wilson(1.0, 10)[1] == pytest.approx(1.0) and wilson(1.0, 10)[0] < 0.75


def test_verdicts_of_differences() -> None:
    n = 4000
    y = torch.zeros(n).long()
    w = metric_weights(y, "accuracy")
    base = torch.arange(n) < 2000
    assert difference(torch.arange(n) < 2200, base, w, 0.005).verdict == "better"
    assert difference(base, torch.arange(n) < 2200, w, 0.005).verdict == "worse"
    assert difference(torch.arange(n) < 2001, base, w, 0.005).verdict == "equivalent"
    # Above zero, but by less than the margin.
    small = difference(torch.arange(n) < 2012, base, w, 0.005)
    assert small.low > 0 and small.tied
    few = difference(torch.arange(40) < 22, torch.arange(40) < 20, w[:40] / w[:40].sum(), 0.005)
    assert few.verdict == "undecided"
    # More comparisons, wider intervals.
    one, ten = (difference(torch.arange(n) < 2200, base, w, 0.005, k) for k in (1, 10))
    assert ten.low < one.low and one.high < ten.high


def test_balanced_difference_weighs_classes_alike() -> None:
    y = torch.tensor([0] * 90 + [1] * 10)
    right = torch.tensor([True] * 90 + [False] * 10)
    d = difference(right, ~right, metric_weights(y, "balanced"), 0.005)
    assert d.gain == pytest.approx(0.0) and d.tied


def test_differences_are_to_the_advised_rule(small: FrozenSpace) -> None:
    judged = judge(small, [rule(small, "native", 1.0), rule(small, "cosine", 1.0)])
    table = compared(judged, "native", small.test_labels, "accuracy", 0.005)
    assert table[0].difference is None and table[1].difference is not None
    gain = table[1].accuracy - table[0].accuracy
    assert table[1].difference.gain == pytest.approx(gain)
