"""Every Python block of the README and of the pages of the site runs as it stands, and the gallery
draws."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
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
    equal = LinearDiscriminantAnalysis("lsqr", shrinkage="auto", priors=np.full(100, 0.01))
    right = [
        np.equal(model.fit(X, y).predict(X_test), y_test).astype(float)
        for model in (
            VMFClassifierCV(balanced=True),
            make_pipeline(Normalizer(), logistic),
            make_pipeline(Normalizer(), equal),
            make_pipeline(Normalizer(), LinearSVC(class_weight="balanced", random_state=0)),
        )
    ]
    # Every class has a hundred test rows.
    few = np.bincount(y)[y_test] < 20
    (ours, *others), (tail, *tails) = (
        [f"{100 * hits[rows].mean():.1f}" for hits in right] for rows in (slice(None), few)
    )
    gain = 100 * (right[0] - right[1])
    error = 1.96 * gain.std() / len(gain) ** 0.5
    gained = f"{gain.mean():+.2f} [{gain.mean() - error:+.2f}, {gain.mean() + error:+.2f}] points"
    text = " ".join((ROOT / "README.md").read_text().split())
    (block,) = re.findall(
        r"^```python\n.*?packaged_file.*?^```", (ROOT / "README.md").read_text(), re.M | re.S
    )
    assert block in (ROOT / "docs" / "index.md").read_text()
    assert f"print(model.score(X_new, y_new)) # {float(ours) / 100:.3f}; " in text
    assert f"{float(others[0]) / 100:.3f} with balanced logistic regression" in text
    assert f"it has {ours} % where balanced logistic regression has {others[0]} %" in text
    assert f"equal priors {others[1]} % and a balanced linear SVM {others[2]} %" in text
    assert (
        max(others) == others[0]
        and f"over the best of them, logistic regression, that is {gained}" in text
    )
    assert f"it has {tail} %, and the others {tails[0]}, {tails[1]} and {tails[2]} %" in text


EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_draws(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script draws one figure with data in all panels, and needs no file of the repository."""
    plt = pytest.importorskip("matplotlib.pyplot")
    shown = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: shown.append(plt.gcf()))
    try:
        runpy.run_path(str(path), run_name="__main__")
        (figure,) = shown
        assert figure.axes
        assert all(ax.lines or ax.collections for ax in figure.axes)
        assert all(ax.get_xlabel() for ax in figure.axes if ax.name != "3d")
    finally:
        plt.close("all")


def test_gallery_has_twelve_short_scripts() -> None:
    assert len(EXAMPLES) >= 12
    for path in EXAMPLES:
        assert len(path.read_text().splitlines()) < 40, path.name
