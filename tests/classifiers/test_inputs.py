"""Refusals of the classifiers: parameters, rows, labels and weights."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch

from classifiers.labelled import sample
from resultant.classifiers.cross_validated import VMFClassifierCV
from resultant.classifiers.vmf import CosinePrototypeClassifier, VMFClassifier


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"temperature": 0.0}, "expected temperature > 0 and finite, got 0"),
        ({"temperature": "warm"}, "expected temperature to be a finite number, got .warm"),
        ({"realization": "polar"}, "expected realization to be one of .*got 'polar'"),
        ({"beta": math.nan}, "expected beta to be a finite number, got nan"),
        ({"estimator": "map"}, "expected estimator to be one of .*got 'map'"),
        ({"estimator": "map", "components": 2}, "expected estimator to be one of .*got 'map'"),
        ({"prior": "uniform"}, "expected prior to be a finite number, got 'uniform'"),
        ({"whiten": "between"}, "expected whiten to be None, 'within' or a Metric, got 'between'"),
        ({"whiten": "within", "shrinkage": 2.0}, "expected shrinkage from 0 to 1, got 2"),
    ],
)
def test_parameters_are_checked(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VMFClassifier(**parameters).fit(*sample())


def test_prototypes_check_the_temperature() -> None:
    with pytest.raises(ValueError, match="expected temperature > 0 and finite, got -1"):
        CosinePrototypeClassifier(-1).fit(*sample())


X, Y = sample()
T = torch.from_numpy(X)


@pytest.mark.parametrize(
    ("rows", "weights", "message"),
    [
        (X[:, :1], None, r"1 feature\(s\)"),
        (T[:, :1], None, r"expected X \[N, p\] with N >= 1 and p >= 2, got .*, 1\)"),
        (T > 0, None, r"expected X of real numbers, got torch.bool"),
        (torch.where(T[2] == T, math.inf, T), None, "NaN or infinity in row 2"),
        (X, np.where(np.arange(60) == 3, -1, 1), "finite, got -1 at index 3"),
        (X, np.ones(59), r"expected sample_weight \[60\], got shape \(59,\)"),
        (X, np.zeros(60), "expected a sample_weight above zero, got all of them zero"),
    ],
)
def test_samples_are_checked(rows: Any, weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VMFClassifier().fit(rows, Y, sample_weight=weights)


def test_later_calls_are_checked() -> None:
    with pytest.raises(ValueError, match="X has 4 features, but VMFClassifier is expecting 6"):
        VMFClassifier().fit(T, Y).predict(T[:, :4])
    with pytest.raises(ValueError, match="classes at the first call of partial_fit, got None"):
        VMFClassifier().partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"classes of the first call, \[0, 1, 2, 3\], got \[0, 1"):
        VMFClassifier().fit(X, Y).partial_fit(X, Y, classes=[0, 1])


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
    X, y = sample()
    strings = np.array([f"class {c}" for c in y], dtype=object)
    for other in (None, 3, math.nan):
        mixed = strings.copy()
        mixed[7] = other
        rule = "to be all strings, or all integers, got"
        with pytest.raises(ValueError, match=rf"expected y {rule} {other} at index 7"):
            VMFClassifier().fit(X, mixed)
        with pytest.raises(ValueError, match=rf"expected classes {rule} {other} at index 7"):
            VMFClassifier().partial_fit(X, strings, classes=mixed)
    with pytest.raises(ValueError, match=r"all integers, got None at index 1"):
        VMFClassifier().fit(X[:3], ["a", None, "b"])
    assert VMFClassifier().fit(X, strings).score(X, strings) > 0.5
