"""Sentences about what to do next, and the learning curve under one of them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from resultant.analysis.advice import SHARES, about_rows, learning_curve, next_steps
from resultant.analysis.metrics import Difference, stratified
from resultant.analysis.result import Confusion, Places
from resultant.analysis.run import Study, run
from resultant.analysis.split import FeatureSet, Settings
from small_features import small_set


@pytest.fixture(scope="module")
def study() -> Study:
    """Six classes of 60 to 6 rows, some labels of the first one wrong, with all explanations."""
    data = small_set(noise=0.9)
    y = data.train.y.clone()
    y[:12] = 1
    data = replace(data, train=replace(data.train, y=y))
    (one,), _ = run([data], Settings(references="none"))
    return one


def test_the_learning_curve_is_of_fits_to_parts(study: Study) -> None:
    result, data, plan = study.result, study.data, study.plan
    assert result is not None
    for point, share in zip(result.curve, SHARES, strict=True):
        rows = stratified(data.train.y, share * len(data.train))
        model = study.used.make().fit(data.train.x[rows], data.train.y[rows].numpy())
        hits = np.asarray(model.predict(data.test.x.numpy())) == data.test.y.numpy()
        own = [hits[data.test.y.numpy() == c].mean() for c in range(6)]
        assert plan.metric == "balanced accuracy" and point.rows == len(rows)
        assert point.test.value == pytest.approx(np.mean(own))
        whole = result.curve[-1].test.value
        assert point.rest.gain == pytest.approx(whole - point.test.value, abs=1e-9)
    # Classes so small that each part has all rows.
    few = stratified(data.train.y, 0).sort().values
    small = FeatureSet(
        *("m", "x", data.class_names),
        replace(data.train, x=data.train.x[few], y=data.train.y[few]),
        data.test,
    )
    assert len(learning_curve(small, plan, study.used)) == 1


def test_steps_name_the_class_of_many_labels(study: Study) -> None:
    """The other words of this step are those of test_sentences."""
    result = study.result
    assert result is not None and result.recommended is not None
    strong = replace(result.recommended, accuracy=replace(result.recommended.accuracy, value=0.95))
    first = next(next_steps(result.data, strong, result.confusion, result.rows, ()))
    assert "have the label class 1." in first
    (curve,) = (step for step in result.steps[1:] if "training rows" in step)
    assert curve.startswith(study.vmf.name)


def steps(study: Study, **changes: Any) -> list[str]:
    result = study.result
    assert result is not None and result.recommended is not None
    used = replace(result.recommended, class_accuracy=changes.pop("accuracy"))
    parts: dict[str, Any] = {"confusion": result.confusion, "tables": {}, "curve": ()}
    return list(next_steps(result.data, used, **{**parts, **changes}))


def test_a_weak_classifier_accuses_nobody(study: Study) -> None:
    """Rows of two splits of a file are told apart; an id that is the row number is said once."""
    result = study.result
    assert result is not None and result.recommended is not None
    table, own = result.rows["label"], result.recommended
    rows = table.places.row
    splits = np.array(["train", "test"] * len(rows))[: len(rows)]
    places = Places(splits, np.full(len(rows), "a.npz"), rows, {"id": [str(r) for r in rows]})
    weak = replace(own, accuracy=replace(own.accuracy, value=0.45))
    tables = {"label": replace(table, places=places)}
    *_, last = next_steps(result.data, weak, result.confusion, tables, ())
    assert "Check" not in last and "itself wrong on 55.0 % of the test rows" in last
    assert last.endswith(f"begin with row {rows[0]} of a.npz (train).")
    # The image says more than the number of it that files of features have.
    named = {"identities": ["71"] * len(rows), "image": ["a/b.jpg"] * len(rows)}
    assert replace(places, columns=named).name(0) == f"row {rows[0]} of a.npz (train), a/b.jpg"
    # A text of the row is cut.
    long = replace(places, columns={"text": ["many words " * 99] * len(rows)})
    tables = {"label": replace(table, places=long)}
    *_, last = next_steps(result.data, weak, result.confusion, tables, ())
    assert f"row {rows[0]} of a.npz (train), many words" in last and len(last) < 500


def test_classes_of_few_rows_are_asked_for(study: Study) -> None:
    """The least accurate classes, if they are small; and a pair that is confused often."""
    none = Confusion(np.empty((0, 2), int), np.empty(0), np.empty(0), None, None)
    even = np.full(6, 0.9)
    assert steps(study, accuracy=even, confusion=none) == []
    tail = np.array([0.9, 0.9, 0.9, 0.9, 0.4, 0.2])
    (text,) = steps(study, accuracy=tail, confusion=none)
    assert "Collect rows of class 5 (6 rows, 20 %), class 4 (8 rows, 40 %):" in text
    # A large class needs no rows.
    assert steps(study, accuracy=tail[::-1].copy(), confusion=none) == []
    # The worse direction first, although it has fewer rows.
    cells, count = np.array([[3, 2], [2, 3], [0, 1]]), np.array([7, 6, 2])
    pairs = Confusion(cells, count, np.array([0.23, 0.46, 0.9]), None, None)
    (text,) = steps(study, accuracy=even, confusion=pairs)
    assert text.endswith(
        "definitions of class 2 and class 3: 46 % of the first are taken for the second, "
        "23 % of the second for the first."
    )


@pytest.mark.parametrize(("low", "likely"), [(0.01, True), (-0.01, False)])
def test_more_rows_help_only_if_the_interval_says_so(
    study: Study, low: float, likely: bool
) -> None:
    assert study.result is not None
    gain = Difference.of(0.02, low, 0.05, 0.01, 0.03)
    text = about_rows(study.result.data, gain, 0.5)
    assert ("are likely to help" in text) == likely
    assert ("are not known to help" in text) != likely
    assert "+2.0 points" in text and "50 %" in text
