"""The table of all rows in cleanlab and Renumics Spotlight, where installed."""

# pyright: reportMissingImports=false

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import resultant


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four classes with some wrong labels, as words."""
    tmp_path = tmp_path_factory.mktemp("report")
    rng, y = np.random.default_rng(0), np.arange(400) % 4
    X = np.eye(8)[y] + 0.35 * rng.normal(size=(400, 8))
    y[:20] = (y[:20] + 1) % 4
    resultant.analyze(X, np.array(list("abcd"))[y], out=tmp_path, references="none")
    return tmp_path


def test_columns_are_those_of_cleanlab(report: Path) -> None:
    """Names and meaning: the table is taken for the issues that cleanlab has found itself."""
    pytest.importorskip("cleanlab")
    from cleanlab.classification import CleanLearning
    from sklearn.linear_model import LogisticRegression

    rows = pq.read_table(report / "rows.parquet").to_pandas()
    labels, own = np.unique(rows.label, return_inverse=True)
    rng = np.random.default_rng(1)
    X = np.eye(4)[np.searchsorted(labels, rows.predicted)] + 0.1 * rng.normal(size=(len(rows), 4))
    theirs = CleanLearning(LogisticRegression()).find_label_issues(X, own)
    shared = {"is_label_issue", "label_quality"}
    assert shared <= {*rows.columns} & {*theirs.columns}
    for name in shared:
        assert rows[name].dtype == theirs[name].dtype or name == "label_quality"
    assert rows.label_quality.between(0, 1).all()
    # A table of ours is read in the place of theirs: rows that are flagged are left out.
    issues = rows.assign(given_label=own, predicted_label=np.searchsorted(labels, rows.predicted))
    model = CleanLearning(LogisticRegression()).fit(X, own, label_issues=issues)
    assert 0.9 < model.score(X, issues.predicted_label) <= 1


def test_datalab_reads_the_tables(report: Path) -> None:
    """Labels by name, and the probabilities of the test rows as they are."""
    pytest.importorskip("cleanlab")
    pytest.importorskip("datasets")
    from cleanlab import Datalab

    tested = pq.read_table(report / "predictions.parquet").to_pandas()
    classes = sorted(set(tested.label))
    p = tested[[f"p_{name}" for name in classes]].to_numpy()
    p = p / p.sum(1, keepdims=True)
    kept: Any = tested[["label", "row", "probability"]]
    lab = Datalab(data=pd.DataFrame(kept), label_name="label", verbosity=0)
    lab.find_issues(pred_probs=p, issue_types={"label": {}})
    found = lab.get_issues("label")
    ours = pq.read_table(report / "rows.parquet").to_pandas().set_index("row")
    ours = ours.loc[tested["row"]]
    assert (found.given_label.to_numpy() == ours.label.to_numpy()).all()
    agree = found.is_label_issue.to_numpy() == ours.is_label_issue.to_numpy()
    assert agree.mean() > 0.95


def test_spotlight_shows_the_table(report: Path) -> None:
    """All columns by their names, with their kinds and values. Spotlight needs pandas below 3, so
    that it is not among the packages of ``make clients``."""
    pytest.importorskip("renumics.spotlight")
    import requests
    from renumics import spotlight

    rows = pq.read_table(report / "rows.parquet").to_pandas()
    options: Any = {"no_browser": True, "wait": False, "port": "auto", "analyze": False}
    viewer = spotlight.show(str(report / "rows.parquet"), **options)
    try:
        shown = requests.get(f"{viewer.url}api/table/", timeout=60).json()["columns"]
    finally:
        viewer.close()
    kinds = {column["name"]: column["dtype"]["name"] for column in shown}
    expected = {"row": "int", "label": "str", "label_quality": "float", "is_label_issue": "bool"}
    assert set(rows.columns) <= set(kinds) and expected.items() <= kinds.items()
    values = {column["name"]: column["values"] for column in shown}
    for name in (*expected, "suggested_label", "duplicate_group", "label_conflict"):
        assert values[name] == rows[name].tolist(), name
