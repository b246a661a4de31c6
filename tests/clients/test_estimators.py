"""The classifiers in packages around scikit-learn, where they are installed."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from typing import Any

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from resultant import VMFClassifier, VMFClassifierCV


def rows(n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    y = np.arange(n) % 3
    y[: n // 2] = 0
    return generator.normal(size=(n, 8)) + 2 * np.eye(3, 8)[y], y


def test_searches_and_pipelines() -> None:
    X, y = rows()
    pipeline = make_pipeline(StandardScaler(), VMFClassifier())
    grid = {"vmfclassifier__temperature": [0.05, 0.2], "vmfclassifier__components": np.arange(1, 3)}
    search: Any = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert search.score(X, y) > 0.8
    drawn = RandomizedSearchCV(pipeline, grid, n_iter=2, cv=3, random_state=0).fit(X, y)
    assert set(drawn.best_params_) == set(grid)
    for classifier in (VMFClassifierCV(cv=3), CalibratedClassifierCV(VMFClassifier(), cv=3)):
        assert cross_val_score(classifier, X, y, cv=3).mean() > 0.8


def test_imbalanced_learn() -> None:
    pytest.importorskip("imblearn")
    from imblearn.over_sampling import SMOTE
    from imblearn.pipeline import make_pipeline as resampled

    X, y = rows()
    pipeline = resampled(SMOTE(random_state=0, k_neighbors=3), VMFClassifier())
    assert cross_val_score(pipeline, X, y, cv=3, scoring="balanced_accuracy").mean() > 0.7


def test_frames_of_polars() -> None:
    polars = pytest.importorskip("polars")
    X, y = rows()
    frame, labels = polars.DataFrame(X), polars.Series([f"class {c}" for c in y])
    classifier = VMFClassifier().fit(frame, labels)
    assert list(classifier.feature_names_in_) == frame.columns
    expected = VMFClassifier().fit(X, labels.to_numpy()).predict(X)
    np.testing.assert_array_equal(classifier.predict(frame), expected)


@pytest.mark.parametrize(
    "options",
    [{}, {"components": 2}, {"whiten": "within", "shrinkage": 0.5}, {"temperature": "auto"}],
    ids=str,
)
def test_files_of_skops(options: dict[str, Any]) -> None:
    skops = pytest.importorskip("skops.io")
    X, y = rows()
    pipeline = make_pipeline(StandardScaler(), VMFClassifier(**options)).fit(X, y)
    content = skops.dumps(pipeline)
    again = skops.loads(content, trusted=skops.get_untrusted_types(data=content))
    np.testing.assert_array_equal(again.predict_proba(X), pipeline.predict_proba(X))
