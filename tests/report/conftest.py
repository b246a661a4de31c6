"""The result of a small analysis, and a browser that the tests share."""

import dataclasses
from collections.abc import Iterator

import pytest

from browser import CHROMIUM, Browser
from resultant.analysis.result import AnalysisResult, Difference, SetComparison
from resultant.analysis.run import run
from resultant.analysis.split import Settings, feature_sets
from resultant.features.prepare import prepare
from resultant.features.store import FeatureStore
from small_features import small_features

CLASSES = 12
# A name that must not become HTML or a script.
HOSTILE = "</script><b>&\"'class 1"


@pytest.fixture(scope="session")
def result() -> AnalysisResult:
    """Twelve classes in a long tail, with all parts of a page."""
    counts = [max(3, round(200 * 0.01 ** (c / (CLASSES - 1)))) for c in range(CLASSES)]
    arrays = small_features(dim=16, noise=0.5, names=("encoder",), sizes=counts)
    arrays["test/encoder"][[3, 4]] = arrays["train/encoder"][:2]
    names = [HOSTILE, *(f"class {c + 1}" for c in range(1, CLASSES))]
    store = FeatureStore("store.npz", arrays, {"num_classes": CLASSES, "class_names": names})
    sets = feature_sets(prepare(store), "store.npz")
    (study,), _ = run(sets, Settings(temperature=0.1))
    one = study.result
    assert one is not None
    saved = "classifier.safetensors"
    load = {"key": "angular", "code": f'VMFClassifier.load("{saved}")', "saved": saved}
    advice = dataclasses.replace(one.recommendation, **load)
    one = dataclasses.replace(one, recommendation=advice)
    files = {"results": "results.json", "rows": "rows.csv", "classifier": saved}
    return AnalysisResult("store.npz", (one,), files=files, versions={"torch": "2"})


@pytest.fixture(scope="session")
def several(result: AnalysisResult) -> AnalysisResult:
    """Two feature sets and the verdict on them."""
    verdict = Difference(0.03, 0.01, 0.05, 0.01, 0.004, "better")
    sentence = "b.npz is better: +3.0 points of balanced accuracy [+1.0, +5.0]."
    comparison = SetComparison(0, 1, "balanced accuracy", verdict, True, 240, sentence)
    one = result.first
    other = dataclasses.replace(one, data=dataclasses.replace(one.data, source="b.npz"))
    return dataclasses.replace(result, features=(one, other), chosen=1, comparisons=(comparison,))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    browser = Browser()
    yield browser
    browser.close()
