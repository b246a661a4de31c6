"""Methods of scikit-learn beside the rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from feature_sets import rows_of, small_set
from resultant.analysis.data import plan
from resultant.analysis.evaluate import predict
from resultant.analysis.references import BUDGETS, Budget, Discriminant, references
from small_features import COUNTS


def test_references_are_those_of_scikit_learn() -> None:
    """The code of a method gives its predictions."""
    data = small_set()
    rows = plan(data)
    keys = set()
    for c in references(data, rows, "all"):
        keys.add(c.key)
        names: dict[str, Any] = {"X": rows_of(data.train).numpy(), "y": data.train.y.numpy()}
        exec(c.code, names)
        own = names["model"].predict(rows_of(data.test).numpy())
        ours = predict([c.model], data.test, torch.arange(len(data.test)), 6)[0].predicted.numpy()
        assert (own == ours).mean() >= 0.97, c.key
        assert c.rows == sum(COUNTS) and c.note == ""
    assert {"NearestCentroid", "KNeighborsClassifier", "LogisticRegression(balanced)"} <= keys
    assert not list(references(data, rows, "none"))
    with pytest.raises(ValueError, match="references among"):
        list(references(data, rows, "some"))


@pytest.mark.parametrize("classes", [2, 6])
@pytest.mark.parametrize("equal", [False, True])
def test_discriminant_analysis_is_that_of_scikit_learn(classes: int, equal: bool) -> None:
    data = small_set()
    kept = data.train.y < classes
    x, y = rows_of(data.train)[kept].numpy(), data.train.y[kept].numpy()
    prior = np.full(classes, 1 / classes) if equal else None
    ours, theirs = (
        kind("lsqr", shrinkage=0.3, priors=prior).fit(x, y)
        for kind in (Discriminant, LinearDiscriminantAnalysis)
    )
    q = rows_of(data.test).numpy()
    np.testing.assert_allclose(ours.predict_proba(q), theirs.predict_proba(q), atol=1e-4)


def test_classes_without_rows_in_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of some classes gives the others probability zero."""
    data = small_set()
    fit = torch.arange(100)
    rows = plan(data)
    part = type(rows)(**{**vars(rows), "splits": ((fit, rows.rows),)})
    (c, *_) = references(data, part, "fast")
    assert c.validated.predicted.max() < 4


def test_samples_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Budget(4000, 0.5, 1e9, 50, 100, 1e6, 1600)
    monkeypatch.setitem(BUDGETS, "fast", small)
    data = small_set()
    found = {c.key: c for c in references(data, plan(data), "fast")}
    assert "stratified sample of" in found["NearestCentroid"].note
    assert found["NearestCentroid"].rows < sum(COUNTS)
