"""The table of all rows in cleanlab, where installed."""

# pyright: reportMissingImports=false

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import resultant


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """Four classes with some wrong labels, as words."""
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
