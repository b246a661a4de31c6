"""Methods of scikit-learn beside the rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NearestCentroid

from feature_sets import rows_of, small_set
from resultant.analysis.data import FeatureSet, Split, plan
from resultant.analysis.evaluate import predict
from resultant.analysis.methods import BUDGETS, Budget, Discriminant, references
from small_features import COUNTS


def test_references_are_those_of_scikit_learn() -> None:
    """The code of a method gives its predictions."""
    data = small_set()
    rows, found = plan(data), {}
    x, q = rows_of(data.train).numpy(), rows_of(data.test).numpy()
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
    x, y = rows_of(data.train)[kept].numpy(), data.train.y[kept].numpy()
    prior = np.full(classes, 1 / classes) if equal else None
    ours, theirs = (
        kind("lsqr", shrinkage=0.3, priors=prior).fit(x, y)
        for kind in (Discriminant, LinearDiscriminantAnalysis)
    )
    q = rows_of(data.test).numpy()
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
