"""Rows to look at: quality of labels, outliers, near-duplicates, and the table of all rows."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict
from torch.nn import functional

import resultant
from resultant import VMFClassifier
from resultant.analysis import duplicates as duplicates_module
from resultant.analysis.candidate import Candidate
from resultant.analysis.explain import DEVIATIONS, outliers, suspicious_rows
from resultant.analysis.fit import fit
from resultant.analysis.quality import KEPT, ODDS, SHARE, TOP, Scored, keep_some, score_rows
from resultant.analysis.run import run
from resultant.analysis.split import FeatureSet, Settings, Split, plan
from small_features import COUNTS, small_set


def of_train(data: FeatureSet, **changes: Any) -> FeatureSet:
    return replace(data, train=replace(data.train, **changes))


def used_of(data: FeatureSet, **settings: Any) -> Candidate:
    """A candidate that is fitted to all training rows."""
    make = partial(VMFClassifier, **settings)
    one = Candidate("angular", "angular", "vmf", 0, make, {"components": 1})
    one.model = make().fit(data.train.x.numpy(), data.train.y.numpy())
    return one


@pytest.mark.usefixtures("one_precision")
@pytest.mark.parametrize("references", ["none", "fast"])
def test_scores_are_those_of_a_cold_cross_validation(references: str) -> None:
    """Scores of every row in top-k form; flags by thresholds of the classes, counted naively."""
    data = small_set(noise=1.0)
    wrong = torch.arange(0, sum(COUNTS), 9)
    y = data.train.y.clone()
    y[wrong] = (y[wrong] + 1) % 6
    data = of_train(data, y=y)
    candidates = fit(data, plan(data), Settings(references=references), lambda _: None)
    used = candidates[-1]
    train, test = score_rows(data, used)
    x, y, C = data.train.x.numpy(), data.train.y.numpy(), 6
    folds = [(a.numpy(), b.numpy()) for a, b in data.folds]
    model: Any = used.make()
    if used.family == "scikit-learn":
        model = type(used.model)(model, used.model.scale)
    p: Any = cross_val_predict(model, x, y, cv=folds, method="predict_proba")
    own = p[np.arange(len(y)), y]
    other = p.copy()
    other[np.arange(len(y)), y] = -1
    np.testing.assert_allclose(train.own, own, atol=1e-5)
    np.testing.assert_allclose(train.p, np.sort(p)[:, : -TOP - 1 : -1], atol=1e-5)
    np.testing.assert_allclose(train.quality, own / (own + np.sqrt(other.max(1))), atol=1e-4)
    for k, (_, apart) in enumerate(data.folds):
        assert (train.fold[apart] == k).all()
    assert (test.fold == -1).all()
    q = used.model.predict_proba(data.test.x.numpy())
    np.testing.assert_allclose(test.own, q[np.arange(len(q)), data.test.y], atol=1e-5)
    least = SHARE * np.array([own[y == c].mean() for c in range(C)])
    for part, every in ((train, p), (test, q)):
        labels = part.split.y.numpy()
        for i, row in enumerate(every):
            able = [c for c in range(C) if row[c] >= least[c] and c != labels[i]]
            best = max(able, key=lambda c: row[c], default=-1)
            flagged = best >= 0 and row[best] > ODDS * row[labels[i]]
            assert int(part.suggested[i]) == (best if flagged else -1), i


def test_no_class_is_flagged_away() -> None:
    """The best rows of each class keep their label if all rows look like another class."""
    train = Scored.empty(small_set().train, 6)
    y = train.split.y
    train.odds = -torch.rand(len(y), generator=torch.Generator().manual_seed(0))
    train.suggested = (y + 1) % 6
    keep_some(train)
    for c in range(6):
        kept, rest = ((y == c) & (train.flagged == flagged) for flagged in (False, True))
        assert int(kept.sum()) == KEPT and train.odds[kept].min() >= train.odds[rest].max()


def test_a_row_whose_class_is_unknown_to_its_fold_has_no_quality() -> None:
    ids = torch.arange(sum(COUNTS))
    ids[small_set().train.y == 2] = -1
    data = of_train(small_set(), identities=ids)
    train, _ = score_rows(data, used_of(data))
    unknown = train.odds.isnan()
    assert torch.equal(unknown, data.train.y == 2) and not train.flagged[unknown].any()


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.05, 0.2])
def test_label_errors_of_digits_are_found(share: float) -> None:
    """Most wrong labels are flagged, few right ones, and few rows of clean digits."""
    digits: Any = load_digits()
    rng = np.random.default_rng(0)
    wrong = rng.random(len(digits.target)) < share
    y = torch.from_numpy(np.where(wrong, (digits.target + rng.integers(1, 10)) % 10, digits.target))
    rows = Split("train", torch.from_numpy(digits.data).float(), y)
    data = FeatureSet("digits", "x", tuple("0123456789"), rows, replace(rows, name="test"))
    found = score_rows(data, used_of(data, whiten="within", shrinkage=0.3))[0]
    assert average_precision_score(wrong, -found.quality) > 0.95
    named = found.flagged.numpy()
    assert wrong[named].mean() > 0.85 and named[wrong].mean() > 0.85
    clean = replace(data, train=replace(rows, y=torch.from_numpy(digits.target)))
    few = score_rows(clean, used_of(clean, whiten="within", shrinkage=0.3))[0]
    assert few.flagged.double().mean() < 0.02


def test_conformal_values_of_rows_in_their_classes() -> None:
    """Counted naively: a training row leaves itself out and counts itself; others add one."""
    data = small_set(noise=0.5)
    x = data.train.x.clone()
    x[10] = -x[10]
    data = of_train(data, x=x)
    used = used_of(data)
    (far, p), (of_test_rows, q) = outliers(data, used)
    z, y = functional.normalize(x.double(), dim=1), data.train.y
    total = torch.stack([z[y == c].sum(0) for c in range(6)])
    cosine = functional.cosine_similarity(z, total[y] - z)
    for i in range(len(y)):
        own = cosine[y == y[i]]
        assert p[i] == pytest.approx(float((own <= cosine[i] + 1e-9).double().mean()), abs=1e-9)
    t, mean = data.test, total[data.test.y]
    of_test = functional.cosine_similarity(t.x.double(), mean)
    for i in range(len(t.y)):
        own = cosine[y == t.y[i]]
        assert q[i] == pytest.approx(
            float(1 + (own <= of_test[i]).sum()) / (len(own) + 1), abs=0.02
        )
    assert far[10] > DEVIATIONS and p[10] == pytest.approx(1 / COUNTS[0])
    # Deviations from the training rows of the class, whose spread counts by their number.
    angle, rows = cosine.arccos().log().numpy(), [(y == c).numpy() for c in range(6)]
    middle = np.array([np.median(angle[own]) for own in rows])
    apart = np.abs(angle - middle[y])
    spread = [
        (own.sum() * np.median(apart[own]) + 10 * np.median(apart)) / (own.sum() + 10)
        for own in rows
    ]
    found = (of_test.arccos().log().numpy() - middle[t.y]) / (1.4826 * np.array(spread)[t.y])
    np.testing.assert_allclose(of_test_rows, found.clip(0), rtol=1e-3, atol=1e-3)


def test_outliers_are_rows_of_no_class() -> None:
    """Rows of a ninth class under other labels, and few rows of eight clouds without outliers."""
    rng = np.random.default_rng(0)
    for p, spread, found in ((3, 1, 0.0), (3, 3, 0.0), (6, 3, 0.5), (20, 1, 0.5), (20, 3, 1.0)):
        centres, label = spread * rng.normal(size=(9, p)), rng.integers(0, 8, 1600)
        x = torch.from_numpy(centres[label] + rng.normal(size=(1600, p))).float()
        rows = Split("train", x, torch.from_numpy(label))
        data = FeatureSet("clouds", "x", tuple("abcdefgh"), rows, replace(rows, name="test"))
        far = next(outliers(data, used_of(data)))[0] > DEVIATIONS
        assert far.double().mean() < 0.01
        x[:16] = torch.from_numpy(centres[8] + rng.normal(size=(16, p))).float()
        far = next(outliers(data, used_of(data)))[0] > DEVIATIONS
        assert far[16:].double().mean() < 0.01
        assert far[:16].double().mean() >= found


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("compared", [10_000, 10])
def test_near_duplicates_in_groups(compared: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within and across splits, also of rows of other lengths, and where not all are compared."""
    monkeypatch.setattr(duplicates_module, "COMPARED", compared)
    data = small_set(noise=0.5)
    x, t = data.train.x.clone(), data.test.x.clone()
    x[5], x[6], t[7], t[9] = x[2] * 3, x[2] + 1e-3, x[2] + 2e-3, data.train.x[30]
    data = replace(of_train(data, x=x), test=replace(data.test, x=t))
    found = duplicates_module.near(data)
    first = sum(COUNTS)
    of = {2: [2, 5, 6, first + 7], 30: [30, first + 9]}
    for leader, rows in of.items():
        assert (found.first[rows] == leader).all() and len(set(found.group[rows])) == 1
    assert (found.group >= 0).sum() == 6 and found.group.max() == 1
    assert found.cosine[6] == pytest.approx(float(functional.cosine_similarity(x[6], x[2], dim=0)))
    (study,), _ = run([data])
    table = suspicious_rows(data, study.findings)["near"]
    assert table.copies is not None and table.total == 3
    assert set(table.copies.row.tolist()) == {2}


@pytest.mark.usefixtures("brief")
def test_the_table_is_that_of_the_report(tmp_path: Path) -> None:
    """And names a row whose label was changed; `test_promises` has the way back to the rows."""
    rng, c = np.random.default_rng(0), np.arange(120) % 3
    frame = pd.DataFrame(np.eye(6)[c] + 0.3 * rng.normal(size=(120, 6))).add_prefix("x")
    frame["text"], frame["label"] = [f"note {i}" for i in range(120)], np.array(list("abc"))[c]
    frame.loc[40, "label"] = "c"
    for name, part in (("train", frame[::2]), ("test", frame[1::2])):
        part.to_parquet(tmp_path / f"{name}.parquet")
    table = resultant.rows(tmp_path)
    assert len(table) == 120 and table.columns.is_unique
    (found,) = table.index[table.text == "note 40"]
    assert table.label_quality.idxmin() == found and table.is_label_issue[found]
    assert table.suggested_label[found] == "b" and table.is_label_issue.sum() <= 3
    resultant.analyze(tmp_path, out=tmp_path / "out")
    written = pq.read_table(tmp_path / "out" / "rows.parquet").to_pandas()
    again = written.sort_values("text").reset_index(drop=True)
    pd.testing.assert_frame_equal(again, table.sort_values("text").reset_index(drop=True))


@pytest.mark.usefixtures("brief")
def test_the_table_of_arrays_has_the_labels_of_the_user() -> None:
    rng, y = np.random.default_rng(0), 3 * (np.arange(90) % 3)
    X = np.eye(5)[y // 3] + 0.3 * rng.normal(size=(90, 5))
    table = resultant.rows(X, y, groups=np.arange(90) // 3)
    assert (table.label == y).all() and table["row"].tolist() == list(range(90))
    assert table.groupby(np.arange(90) // 3)["fold"].nunique().max() == 1
    train = table[table.split == "train"]
    assert train.groupby("label").class_share.sum().tolist() == pytest.approx([1, 1, 1])
