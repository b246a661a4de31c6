"""Refusals of the classifiers (parameters, rows, labels, weights), and the calibration error."""

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from classifiers.labelled import sample
from resultant.classifiers.calibration import (
    confidence_bins,
    expected_calibration_error as calibration_error,
)
from resultant.classifiers.cross_validated import VMFClassifierCV
from resultant.classifiers.mixture import VMFMixture
from resultant.classifiers.vmf import CosinePrototypeClassifier, VMFClassifier

REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (VMFClassifier, {"temperature": 0.0}, "expected temperature > 0 and finite, got 0"),
    (VMFClassifier, {"temperature": "warm"}, "temperature to be a finite number, got .warm"),
    (VMFClassifier, {"realization": "polar"}, "realization to be one of .*got 'polar'"),
    (VMFClassifier, {"beta": math.nan}, "expected beta to be a finite number, got nan"),
    (VMFClassifier, {"estimator": "map"}, "expected estimator to be one of .*got 'map'"),
    (VMFClassifier, {"estimator": "map", "components": 2}, "estimator to be one of .*got 'map'"),
    (VMFClassifier, {"components": 1.5}, 'expected components .* >= 1 or "auto", got 1.5'),
    (VMFClassifier, {"prior": "uniform"}, "expected prior to be a finite number, got 'uniform'"),
    (VMFClassifier, {"whiten": "between"}, "None, 'within' or a Metric, got 'between'"),
    (VMFClassifier, {"whiten": "within", "shrinkage": 2.0}, "shrinkage from 0 to 1, got 2"),
    (VMFClassifier, {"scale": -1.0}, "expected scale > 0, got -1"),
    (CosinePrototypeClassifier, {"temperature": -1}, "temperature > 0 and finite, got -1"),
    (VMFClassifierCV, {"realization": ("native", "polar")}, "realization among .*got 'polar'"),
    (VMFClassifierCV, {"beta": ()}, "expected one value of beta or more, got none"),
    (VMFClassifierCV, {"temperature": (0.1, -1)}, "expected temperature > 0, got -1"),
    (VMFClassifierCV, {"prior": (0.0, math.inf)}, "prior to be a finite number, got .*inf"),
    (VMFClassifierCV, {"whiten": "between"}, "whiten among .* 'within'.*, got 'between'"),
    (VMFClassifierCV, {"shrinkage": (0.3, 2.0)}, "expected shrinkage from 0 to 1, got 2"),
    (VMFClassifierCV, {"components": 0}, "expected components to be an integer >= 1, got 0"),
    (VMFClassifierCV, {"components": (1, 2), "cv": "loo"}, r'components=1 with cv="loo", got 2'),
    (VMFClassifierCV, {"scoring": "f1"}, "expected scoring to be one of .*got 'f1'"),
    (VMFClassifierCV, {"cv": "loop"}, "Expected `cv` as an integer"),
    (VMFClassifierCV, {"cv": 1}, "expected cv to be an integer >= 2, got 1"),
    (VMFClassifierCV, {"cv": [(np.array([0, 0, 1]), np.array([2]))]}, "each row at most once"),
    (VMFMixture, {"n_components": 0}, "expected n_components to be an integer >= 1, got 0"),
    (VMFMixture, {"n_components": 99}, "n_samples >= n_components, got N = 60 for 99"),
    (VMFMixture, {"assignment": "firm"}, "assignment to be one of .*'hard'.*, got 'firm'"),
    (VMFMixture, {"init": "pca"}, r"init to be one of .* or directions \[K, p\], got 'pca'"),
    (VMFMixture, {"init": np.eye(3)}, r"expected init \[1, 6\], got shape \(3, 3\)"),
    (VMFMixture, {"init": np.zeros((1, 6))}, "got zeros, NaN or infinity in row 0"),
    (VMFMixture, {"tol": math.nan}, "expected tol to be a finite number, got nan"),
    (VMFMixture, {"max_kappa": -1}, "expected max_kappa > 0, got -1"),
    (VMFMixture, {"n_init": 0}, "expected n_init to be an integer >= 1, got 0"),
]
X, Y = sample()
T = torch.from_numpy(X)
ROWS, NEW = np.arange(60), VMFClassifier()
WORDS = np.array(["ray", "cod", "eel", "ant"])[Y]
P2, Y3 = np.full((3, 2), 0.5), np.array([0, 1, 1])


def fit(rows: Any, weights: Any = None) -> VMFClassifier:
    return VMFClassifier().fit(rows, Y, sample_weight=weights)


def weighted(train: Any, test: Any) -> None:
    """Search with weights of the first four rows alone."""
    VMFClassifierCV(cv=[(train, test)]).fit(X, Y, ROWS < 4)


CALLS: list[tuple[Callable[[], Any], str]] = [
    *((partial(kind(**options).fit, X, Y), message) for kind, options, message in REFUSED),
    (lambda: fit(X[:, :1]), r"1 feature\(s\)"),
    (lambda: fit(T[:, :1]), r"expected X \[N, p\] .* with N >= 1 and p >= 2, got .*, 1\)"),
    (lambda: fit(T > 0), r"expected X \[N, p\] of real numbers .*, got torch.bool"),
    (lambda: fit(torch.where(T[2] == T, math.inf, T)), "NaN or infinity in row 2"),
    (lambda: fit(X, np.where(ROWS == 3, -1, 1)), "finite, .*, got -1 at index 3"),
    (lambda: fit(X, np.ones(59)), r"expected sample_weight \[60\], got shape \(59,\)"),
    (lambda: fit(X, np.zeros(60)), "one above zero, got 0 at index 0"),
    (lambda: fit(T).predict(T[:, :4]), "X has 4 features, but VMFClassifier is expecting 6"),
    (lambda: NEW.partial_fit(X, Y, classes=[0, 1]), r"among the classes \[0, 1\], got"),
    (lambda: fit(X).partial_fit(X, Y + 9, classes=[0, 9]), r"among the classes \[.*, 9\], got"),
    (
        lambda: VMFClassifier().fit(X, WORDS).partial_fit(X[:2], [1, 2]),
        r"labels of the kind of '\w+', got 1",
    ),
    (lambda: weighted(ROWS[4:], ROWS[:4]), "a training part of positive weight in each split"),
    (lambda: weighted(ROWS[:4], ROWS[4:]), "validation rows of positive weight, got none"),
    (lambda: fit(X).calibrate(X, Y, method="platt"), "expected method to be one of .*got 'platt'"),
    (lambda: calibration_error(P2[0], Y3), r"got shapes \(2,\) \(float64\) and \(3,\)"),
    (lambda: calibration_error(P2.astype(str), Y3), r"got shapes \(3, 2\) \(<U"),
    (lambda: calibration_error(P2, Y3 + 1), r"integers in \[0, 2\), got int64 from 1"),
    (lambda: calibration_error(2 * P2, Y3), "rows that sum to one, got .* the sum 2"),
    (lambda: calibration_error(P2 * math.nan, Y3), "rows that sum to one"),
    (lambda: calibration_error(P2, Y3, 0), "bins to be an integer >= 1, got 0"),
]


@pytest.mark.parametrize(("call", "message"), CALLS)
def test_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("kind", [VMFClassifier, VMFClassifierCV])
def test_columns_of_different_units_are_warned_of(kind: Any) -> None:
    """The metric removes units, and no warning is given there."""
    units = X * np.array([1e4, 1, 1, 1, 1, 1])
    with pytest.warns(UserWarning, match=r"column 0 of X varies .* standardize the columns"):
        kind(whiten=None).fit(units, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kind(whiten=None).fit(X, Y)
        kind(whiten="within", shrinkage=0.3).fit(units, Y)


def test_labels_of_mixed_types() -> None:
    strings = np.array([f"class {c}" for c in Y], dtype=object)
    for other in (None, 3, math.nan):
        mixed = strings.copy()
        mixed[7] = other
        rule = "to be all strings, or all integers, got"
        with pytest.raises(ValueError, match=rf"expected y {rule} {other} at index 7"):
            VMFClassifier().fit(X, mixed)
        with pytest.raises(ValueError, match=rf"expected classes {rule} {other} at index 7"):
            VMFClassifier().partial_fit(X, strings, classes=mixed)
    assert VMFClassifier().fit(X, strings).score(X, strings) > 0.5


@pytest.mark.parametrize("bins", [1, 4, 15])
def test_equals_a_loop(bins: int) -> None:
    rng = np.random.default_rng(6)
    p = rng.dirichlet([0.4] * 5, 300)
    p[:3] = [[0.5, 0.5, 0, 0, 0], [0.25, 0.75, 0, 0, 0], [1, 0, 0, 0, 0]]  # at the edges
    y = np.array([rng.choice(5, p=np.sqrt(row) / np.sqrt(row).sum()) for row in p])
    y[:3] = [1, 1, 0]
    expected = 0.0
    for b in range(bins):
        rows = [i for i in range(len(y)) if b / bins < p[i].max() <= (b + 1) / bins]
        if rows:
            hits = sum(p[i].argmax() == y[i] for i in rows) / len(rows)
            expected += len(rows) / len(y) * abs(hits - sum(p[i].max() for i in rows) / len(rows))
    assert expected > 0.01
    assert calibration_error(p, y, bins) == pytest.approx(expected, rel=1e-12)
    tensors = torch.from_numpy(p), torch.from_numpy(y)
    assert calibration_error(*tensors, bins) == pytest.approx(expected, rel=1e-12)
    # A hit at 0.5 is in the lower of two bins, apart from a miss at 0.625.
    half = torch.tensor([[0.5, 0.5], [0.625, 0.375]], dtype=torch.bfloat16)
    assert calibration_error(half, [0, 1], 2) == 0.5625
    # Bins are closed above; the first has its lower end too.
    confidence = np.array([0.0, 0.05, 0.5, 0.52, 1.0, 1.0])
    rows, *_ = confidence_bins(confidence, np.array([False, True, True, False, True, False]))
    assert rows.tolist() == [2, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 2]
