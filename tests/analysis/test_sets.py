"""Sets of classes: from the saved classifier to a column of a file and a sentence of the page."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import resultant
from resultant.analysis.sets import ERROR, sentence


@pytest.mark.usefixtures("one_precision")
@pytest.mark.parametrize("words", [True, False])
def test_sets_of_the_saved_classifier(words: bool, tmp_path: Path) -> None:
    rng, y = np.random.default_rng(0), np.repeat(np.arange(4), [80, 60, 40, 7])
    X = np.eye(6)[y] + 0.45 * rng.normal(size=(len(y), 6))
    y = np.array(["ant", "bee", "cat", "dog"])[y] if words else 3 * y
    result = resultant.analyze(X, y, out=tmp_path, references="none").first
    table = pq.read_table(tmp_path / "predictions.parquet").to_pandas()
    model: Any = resultant.load_classifier(tmp_path / "classifier.safetensors")
    sets = model.predict_set(X[table["row"]], ERROR)
    for found, row in zip(table["set"], sets, strict=True):
        assert list(found) == [str(label) for label in model.classes_[row]]
    assert result.sets is not None
    number = sets.sum(1)
    assert result.sets.single == pytest.approx((number == 1).mean())
    assert result.sets.empty == pytest.approx((number == 0).mean())
    assert result.sets.size == pytest.approx(number.mean())
    own = sets[np.arange(len(table)), np.searchsorted(model.classes_, y[table["row"]])]
    assert result.sets.missed == pytest.approx(1 - own.mean())
    # The last class has six training rows, of which none can be one in ten.
    assert result.sets.hollow.tolist() == [3] and sets[:, 3].all()
    text = sentence(result.data, result.sets)
    assert f"{100 * result.sets.single:.1f} % of the sets have one class" in text
    name = "dog" if words else "class 9"
    assert text.endswith(f"too few rows, and are in every set: {name}.")
    page = (tmp_path / "index.html").read_text().replace("\u00a0", " ")
    assert text.replace("'", "&#39;") in page
