"""Every Python block of the README and of the pages of the site runs as it stands."""

import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.svm import LinearSVC

from resultant import VMFClassifierCV
from resultant.features import packaged_file

ROOT = Path(__file__).parent.parent
# Notebooks run when the site is built.
PAGES = [ROOT / "README.md"] + [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if not {"_build", "gallery", "generated"} & set(page.parts) and "mystnb" not in page.read_text()
]
BLOCKS = [
    pytest.param(page, text[: block.start()].count("\n") + 2, block[1], id=f"{page.stem}-{i}")
    for page in PAGES
    for text in [page.read_text()]
    for i, block in enumerate(re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S))
]


@pytest.mark.slow
@pytest.mark.parametrize(("page", "line", "code"), BLOCKS)
def test_block_runs(page: Path, line: int, code: str) -> None:
    # Empty lines before the block, so that an error names the line of the page.
    exec(compile("\n" * (line - 1) + code, str(page), "exec"), {"__name__": "page"})


def test_blocks_are_found() -> None:
    assert len(BLOCKS) >= 5


@pytest.mark.slow
def test_long_tail_numbers() -> None:
    """Accuracies on the packaged features, of solvers that do not stop early on any processor."""
    with packaged_file() as path:
        arrays = load_file(path)
    X, X_test = (arrays[f"{split}/encoder"].astype("float64") for split in ("train", "test"))
    y, y_test = arrays["train/labels"], arrays["test/labels"]
    logistic = LogisticRegression(C=10, class_weight="balanced", max_iter=2000, tol=1e-6)
    accuracies = []
    for model in (
        VMFClassifierCV(balanced=True, scoring="accuracy"),
        make_pipeline(Normalizer(), logistic),
        make_pipeline(Normalizer(), LinearSVC(class_weight="balanced", random_state=0)),
    ):
        right = np.equal(model.fit(X, y).predict(X_test), y_test)
        per_class = np.array([right[y_test == c].mean() for c in range(100)])
        small = per_class[np.bincount(y) < 20]
        accuracies.append([f"{100 * part.mean():.1f}" for part in (per_class, small)])
    text = " ".join((ROOT / "README.md").read_text().split())
    (vmf, few), (second, second_few), (third, third_few) = accuracies
    assert f"gains has {vmf} %, balanced logistic regression {second} %" in text
    assert f"SVM {third} %" in text and f"it is {few}, {second_few} and {third_few} %" in text
