"""From the user's rows to what he reads: rows lead back, one split, what is saved is what is
tested, labels as he has them, sets of classes, refusals."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

import resultant
from resultant import VMFClassifier
from resultant.analysis.metrics import UnansweredError, plain
from resultant.analysis.read import read
from resultant.analysis.references import table as references
from resultant.analysis.run import run
from resultant.analysis.sets import ERROR, sentence, sets_of
from resultant.analysis.split import FeatureSet, Split, plan
from small_features import small_set

KINDS = ("csv", "csv.gz", "parquet", "several", "frame", "numpy")
N, P = 150, 6


def frame() -> pd.DataFrame:
    """Three classes; some rows repeat an earlier one, and ids have leading zeros."""
    rng = np.random.default_rng(0)
    c = rng.integers(0, 3, N)
    X = (np.eye(P)[c] + 0.4 * rng.normal(size=(N, P))).astype(np.float32)
    X[100:110] = X[:10]
    c[100:110] = c[:10]
    table = pd.DataFrame(X, columns=[f"x{i}" for i in range(P)])
    table["kind"] = np.array(["ant", "bee", "cat"])[c]
    return table.assign(id=[f"{i % 100 + 1000 * (i // 100):05d}" for i in range(N)])


def source(table: pd.DataFrame, kind: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments of `read` and `analyze` for a table in a form of the user, and the
    tables by the name of their file."""
    if kind == "numpy":
        ids = {"ids": table["id"].to_numpy()} if "id" in table else {}
        x = table[[f"x{i}" for i in range(P)]].to_numpy()
        return {"X": x, "y": table["kind"].to_numpy(), **ids}, {"": table}
    if kind == "frame":
        return {"X": table}, {"": table}
    if kind == "several":
        parts = {"a-0.parquet": table[: N // 2], "a-1.parquet": table[N // 2 :]}
        for name, part in parts.items():
            part.to_parquet(folder / name)
        return {"X": folder}, parts
    path = folder / f"z.{kind}"
    table.to_parquet(path) if kind == "parquet" else table.to_csv(path, index=False)
    return {"X": path}, {path.name: table}


def held_out(data: FeatureSet) -> set[tuple[float, ...]]:
    """Return the values of the test rows."""
    x = data.test.read(torch.arange(len(data.test)))
    return {tuple(row) for row in x.tolist()}


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_lead_back_and_what_is_saved_is_what_is_tested(
    kind: str, ids: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    table = frame() if ids else frame().drop(columns="id")
    # A column of another unit in one of the forms, so that a method of scikit-learn is saved.
    request.getfixturevalue("unrefined" if kind == "parquet" else "brief")
    table["x0"] *= 1000 if kind == "parquet" else 1
    folder = tmp_path / "rows"
    folder.mkdir()
    given, files = source(table, kind, folder)
    result = resultant.analyze(**given, out=tmp_path / "out")
    tested = pq.read_table(tmp_path / "out" / "predictions.parquet").to_pandas()
    named = pd.read_csv(tmp_path / "out" / "rows.csv", dtype={"id": str})
    model: Any = resultant.load_classifier(tmp_path / "out" / "classifier.safetensors")
    for rows in (tested, named, pq.read_table(tmp_path / "out" / "rows.parquet").to_pandas()):
        for file, part in rows.groupby("file"):
            own = files.get(Path(str(file)).name, files.get(""))
            assert own is not None, file
            of_file = own.iloc[part.row]
            assert (of_file["kind"].to_numpy() == part.label).all()
            if ids:
                assert (of_file["id"].to_numpy() == part["id"]).all()
            if rows is tested:
                x = of_file[[f"x{i}" for i in range(P)]].to_numpy()
                assert (model.predict(x) == part.predicted).all()
                p = part[[f"p_{name}" for name in model.classes_]].to_numpy()
                np.testing.assert_allclose(model.predict_proba(x), p, atol=2e-6)
    recommended = result.first.recommended
    assert recommended is not None
    assert (recommended.family == "scikit-learn") == (kind == "parquet")
    assert recommended.accuracy.value == pytest.approx((tested.label == tested.predicted).mean())
    # Ten copies, each of which leads back to its first row.
    copies = named[named.kind == "duplicate"]
    assert len(copies) == 10
    for row, first in zip(copies.row, copies.copy_row, strict=True):
        step = 100 - (N // 2 if kind == "several" else 0)
        assert row - first == step


@pytest.mark.parametrize("kind", KINDS)
def test_one_split_whatever_the_form_order_and_spelling(kind: str, tmp_path: Path) -> None:
    table = frame()
    expected = held_out(read(table)[0])
    shuffled = table.sample(frac=1, random_state=1)
    other = table.assign(id=[f"row {i}" for i in table["id"]])
    for i, one in enumerate((table, shuffled, other, table.drop(columns="id"))):
        folder = tmp_path / str(i)
        folder.mkdir()
        (data,) = read(**source(one, kind, folder)[0])
        assert held_out(data) == expected, i
        train = {tuple(row) for row in data.train.read(torch.arange(len(data.train))).tolist()}
        assert not train & expected
        for fitted, apart in data.folds:
            sides = [{tuple(r) for r in data.train.read(at).tolist()} for at in (fitted, apart)]
            assert not sides[0] & sides[1]
    # Rows that are left out move few others.
    (fewer,) = read(table.iloc[15:])
    assert len(held_out(fewer) - expected) <= 3


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("kind", KINDS)
def test_copies_with_two_labels_stay_together_and_are_named(kind: str, tmp_path: Path) -> None:
    """On one side of every split and fold, in a sentence of the page, and in the table of rows."""
    table = frame().drop(columns="id")
    features = [f"x{i}" for i in range(P)]
    other = {"ant": "bee", "bee": "cat", "cat": "ant"}
    table.loc[100:103, "kind"] = [other[kind] for kind in table["kind"][:4]]
    pairs = [(i, i + 100) for i in range(4)]
    folder = tmp_path / "rows"
    folder.mkdir()
    given, files = source(table, kind, folder)
    result = resultant.analyze(**given, out=tmp_path / "out").first
    page = (tmp_path / "out" / "index.html").read_text().replace("\u00a0", " ")
    assert "8 rows have copies with another label" in page
    assert "8 rows have copies with another label" in " ".join(w.text for w in result.data.warnings)
    written = pq.read_table(tmp_path / "out" / "rows.parquet").to_pandas()
    start = {name: int(part.index[0]) for name, part in files.items()}
    number = written["row"] + [start.get(Path(file).name, 0) for file in written.file]
    assert sorted(number[written.label_conflict]) == sorted(i for pair in pairs for i in pair)
    written.index = pd.Index(number)
    assert written.label.tolist() == table["kind"][written.index].tolist()
    for a, b in pairs:
        assert written.split[a] == written.split[b] and written.fold[a] == written.fold[b]
        assert written.duplicate_group[a] == written.duplicate_group[b] >= 0
        assert not written.is_label_issue[[a, b]].all()
    first = pd.read_csv(tmp_path / "out" / "rows.csv")
    first = first[first.kind == "duplicate"].head(4)
    assert (first.label != first.other).all()
    copies = table[[*features, "kind"]].duplicated()
    assert (
        result.data.distinct_count.sum() == (~copies[written.index[written.split == "test"]]).sum()
    )


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, " "])
@pytest.mark.parametrize("what", ["labels", "ids", "groups"])
def test_missing_values_are_refused(what: str, missing: Any, tmp_path: Path) -> None:
    """In arrays and tables alike; they are no class, no row and no group of their own."""
    table = frame()
    words = table["kind" if what == "labels" else "id"].astype(object)
    words[[7, 9]] = missing
    x, rule = table[[f"x{i}" for i in range(P)]].to_numpy(), "in row 7, the first of 2 rows"
    given: dict[str, Any] = {"y": table["kind"], what: words}
    if what == "labels":
        given = {"y": words.to_numpy()}
    with pytest.raises(ValueError, match=f"{what} in every row, got nothing {rule}"):
        read(x, **given)
    name = {"labels": "kind", "ids": "id", "groups": "who"}[what]
    broken = table.assign(**{name: words})
    broken.to_csv(tmp_path / "z.csv", index=False)
    names: dict[str, Any] = {"groups": "who"} if what == "groups" else {}
    with pytest.raises(ValueError, match=r"row 7\b.*the first of 2"):
        read(tmp_path / "z.csv", **names)


LABELS: dict[str, Any] = {
    "negative": np.array([-2, -1, 5]),
    "booleans": np.array([False, True]),
    "words of digits": np.array(["01", "1", "2"]),
    "floats": np.array([0.0, 2.0, 4.0]),
}


@pytest.mark.parametrize("methods", ["brief", "unrefined"])
@pytest.mark.parametrize("kind", LABELS)
def test_labels_are_those_of_the_user(
    kind: str, methods: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The code of the page loads the classifier, which predicts the labels of the user with their
    probabilities; the table of rows has them too. A class of one row is left out."""
    request.getfixturevalue(methods)
    table = frame()
    code = table["kind"].factorize(sort=True)[0]
    kept = code < len(LABELS[kind])
    table, code = table.loc[kept], code[kept]
    y = LABELS[kind][code]
    if kind == "negative":
        y[3] = -7
    x = table[[f"x{i}" for i in range(P)]].to_numpy().copy()
    # A column of another unit, so that a method of scikit-learn is saved.
    x[:, 0] *= 1000 if methods == "unrefined" else 1
    result = resultant.analyze(x, y, out=tmp_path)
    recommended = result.first.recommended
    assert recommended is not None and "<table>" in result._repr_html_()
    assert (recommended.family == "scikit-learn") == (methods == "unrefined")
    assert "load_classifier('classifier.safetensors')" in result.first.recommendation.code
    model: Any = resultant.load_classifier(tmp_path / "classifier.safetensors")
    assert set(model.classes_.tolist()) == set(y.tolist()) - {-7}
    assert result.first.data.class_names == tuple(map(str, model.classes_.tolist()))
    rows = pq.read_table(tmp_path / "predictions.parquet").to_pandas()["row"]
    code = np.searchsorted(model.classes_, y[rows])
    own = model.predict_proba(x[rows])[np.arange(len(rows)), code]
    loss = -np.log(np.maximum(own, np.finfo(float).eps)).mean()
    assert loss == pytest.approx(recommended.log_loss.value, rel=1e-4)
    assert (model.predict(x[rows]) == y[rows]).mean() == pytest.approx(recommended.accuracy.value)
    written = pq.read_table(tmp_path / "rows.parquet").to_pandas()
    assert (written.label == y[written.row]).all()


@pytest.mark.usefixtures("brief")
def test_labels_of_a_file_keep_their_numbers(tmp_path: Path) -> None:
    """Also where a class of one row is left out, and where classes have names."""
    table = frame()
    y = 2 * table["kind"].factorize(sort=True)[0]
    y[3] = 1
    x = table[[f"x{i}" for i in range(P)]].to_numpy()
    np.savez(tmp_path / "z.npz", X=x, y=y, class_names=np.array(list("abcde")))
    resultant.analyze(tmp_path / "z.npz", out=tmp_path / "out")
    model: Any = resultant.load_classifier(tmp_path / "out" / "classifier.safetensors")
    assert model.classes_.tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    ("y", "rule"),
    [
        (np.eye(3)[np.arange(N) % 3], "take the argmax of one-hot rows"),
        (np.arange(N) / 2, "words or whole numbers, got 0.5 in row 1"),
        (np.array(["a", 1], object)[np.arange(N) % 2], "as words or as numbers, got 'a' and 1"),
    ],
)
def test_labels_that_are_none(y: Any, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        read(np.random.default_rng(0).normal(size=(N, P)), y)


def test_rows_that_may_be_left_out_from_python() -> None:
    table = frame()
    x, y = table[[f"x{i}" for i in range(P)]].to_numpy().copy(), table["kind"].to_numpy()
    x[5] = 0
    with pytest.raises(ValueError, match="drop_zero_rows=True"):
        read(x, y)
    (data,) = read(x, y, drop_zero_rows=True)
    assert sum(map(len, data.splits)) == N - 1
    q, t = x[:20].copy() + 1, y[:20].copy()
    t[2] = "dog"
    with pytest.raises(ValueError, match="skip_unknown_classes=True"):
        read(x[20:], y[20:], test=(q, t))
    (data,) = read(x[20:], y[20:], test=(q, t), skip_unknown_classes=True)
    assert len(data.test) == 19 and data.test.origin.row.tolist() == [*range(2), *range(3, 20)]


@pytest.mark.usefixtures("brief")
def test_an_analysis_warns_on_its_page_alone(recwarn: pytest.WarningsRecorder) -> None:
    """Columns of other units are a caution of the page, not a warning with a path of ours."""
    table = frame()
    x = table[[f"x{i}" for i in range(P)]].to_numpy() * np.array([1000, 1, 1, 1, 1, 1])
    (study,), _ = run(read(x, table["kind"]))
    assert study.result is not None and not list(recwarn)
    assert [w.kind for w in study.result.data.warnings if w.kind == "units"] == ["units"]


def test_a_folder_of_others_is_refused_before_the_rows_are_read(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("mine")
    with pytest.raises(ValueError, match="choose another folder"):
        resultant.analyze(np.eye(3), [0, 1, 2], out=tmp_path)


def test_a_classifier_without_ranks_has_no_sets() -> None:
    """Refined classes with a given scale keep no rows: the page says nothing of sets."""
    rng, y = np.random.default_rng(0), np.arange(60) % 3
    X = np.eye(4)[y] + 0.3 * rng.normal(size=(60, 4))
    model = VMFClassifier(refine=1.0, scale=1.0).fit(X, y)
    assert sets_of(model, torch.from_numpy(X)) is None
    ranked = sets_of(VMFClassifier().fit(X, y), torch.from_numpy(X))
    assert ranked is not None and ranked.shape == (60, 3)


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


SET = small_set()
ONE = replace(SET, test=Split("test", SET.test.x[:1], SET.test.y[:1]))
REFUSED: list[tuple[type[Exception], Callable[[], Any], str]] = [
    (ValueError, lambda: references(SET, plan(SET), "some"), "references among"),
    (ValueError, lambda: resultant.analyze(np.eye(3), None), "expected labels y"),
    (ValueError, lambda: resultant.analyze(np.eye(3), [0, 1]), "features .N, p. and labels"),
    (ValueError, lambda: resultant.analyze("a.npz", [0, 1]), "expected a path alone"),
    (UnansweredError, lambda: plan(ONE), "two test rows"),
    (TypeError, lambda: plain({1}), "expected a result of numbers, names and arrays, got set"),
]


@pytest.mark.parametrize(("kind", "call", "message"), REFUSED)
def test_refused(kind: type[Exception], call: Callable[[], Any], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
