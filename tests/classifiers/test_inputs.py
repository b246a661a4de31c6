"""Refusals of the classifiers: parameters, rows, labels and weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from classifiers.labelled import sample
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


def test_samples_are_checked() -> None:
    X, y = sample()
    T = torch.from_numpy(X)
    with pytest.raises(ValueError, match="expected temperature > 0 and finite, got -1"):
        CosinePrototypeClassifier(-1).fit(X, y)
    with pytest.raises(ValueError, match=r"1 feature\(s\)"):
        VMFClassifier().fit(X[:, :1], y)
    with pytest.raises(
        ValueError, match=r"expected X \[N, p\] with N >= 1 and p >= 2, got .*, 1\)"
    ):
        VMFClassifier().fit(T[:, :1], y)
    with pytest.raises(ValueError, match=r"expected X of real numbers, got torch.bool"):
        VMFClassifier().fit(T > 0, y)
    with pytest.raises(ValueError, match="NaN or infinity in row 2"):
        VMFClassifier().fit(T.clone().index_fill_(0, torch.tensor([2]), math.inf), y)
    with pytest.raises(ValueError, match=r"sample_weight >= 0 and finite, got -1 at index 3"):
        VMFClassifier().fit(X, y, sample_weight=np.where(np.arange(len(y)) == 3, -1, 1))
    with pytest.raises(ValueError, match=r"expected sample_weight \[60\], got shape \(59,\)"):
        VMFClassifier().fit(X, y, sample_weight=np.ones(59))
    with pytest.raises(ValueError, match="X has 4 features, but VMFClassifier is expecting 6"):
        VMFClassifier().fit(T, y).predict(T[:, :4])
    with pytest.raises(ValueError, match="classes at the first call of partial_fit, got None"):
        VMFClassifier().partial_fit(X, y)
    with pytest.raises(ValueError, match=r"classes of the first call, \[0, 1, 2, 3\], got \[0, 1"):
        VMFClassifier().fit(X, y).partial_fit(X, y, classes=[0, 1])


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
