"""References of an analysis against scikit-learn, and samples of their rows."""

from typing import Any

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from resultant.analysis.fit import fit
from resultant.analysis.references import BUDGETS, Discriminant, code_of, table as references
from resultant.analysis.run import run
from resultant.analysis.split import Settings, plan
from small_features import COUNTS, small_set


@pytest.mark.usefixtures("unrefined")
@pytest.mark.parametrize("level", ["fast", "all"])
def test_references_are_those_of_scikit_learn(level: str) -> None:
    """The code of a method gives its predictions, and both scalings are tried."""
    data = small_set()
    candidates = fit(data, plan(data), Settings(references=level), lambda _: None)
    x, q = data.train.x.numpy(), data.test.x.numpy()
    keys = set()
    for c in (c for c in candidates if c.family == "scikit-learn"):
        names: dict[str, Any] = {"X": x, "y": data.train.y.numpy()}
        exec(c.code, names)
        assert (names["model"].predict(q) == c.model.predict(q)).mean() >= 0.97, c.key
        assert c.rows == sum(COUNTS) and c.note == ""
        keys.add(c.key)
    assert {"KNeighborsClassifier", "LogisticRegression(balanced)", "NearestCentroid"} <= keys
    assert ("LogisticRegression" in keys) == (level == "all")
    for reference in references(data, plan(data), level):
        first = {type(pipeline[0]).__name__ for pipeline in reference.pipelines()}
        assert first == {"StandardScaler", "Normalizer"}
        assert all("warm_start" not in code_of(p) for p in reference.pipelines())
    assert not references(data, plan(data), "none")


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


@pytest.mark.usefixtures("unrefined")
def test_a_sample_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUDGETS, "fast", dict.fromkeys(("linear", "classes", "pairs"), 100.0))
    (study,), _ = run([small_set()])
    assert study.result is not None
    for method in study.result.methods:
        sampled = method.family == "scikit-learn"
        assert ("stratified sample of" in method.note) == sampled, method.key
        assert (method.rows < sum(COUNTS)) == sampled
