"""The columns of new rows are those of the classifier, by their names, in every form of a table."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from sklearn.datasets import load_wine

import resultant
from cli.conftest import Shown, call
from resultant.features.store import FeatureStore

COLUMNS = ("alcohol", "malic acid", "flavanoids", "colour", "proline")
WINE: Any = load_wine()
X = WINE.data[:, [0, 1, 6, 9, 12]] / WINE.data[:, [0, 1, 6, 9, 12]].std(0)
Y = np.array(["barolo", "grignolino", "barbera"])[WINE.target]


def write_csv(path: Path, columns: dict[str, Any]) -> None:
    csv.write_csv(pa.table(columns), path)


def write_parquet(path: Path, columns: dict[str, Any]) -> None:
    parquet.write_table(pa.table(columns), path)


WRITERS: dict[str, Callable[[Path, dict[str, Any]], None]] = {
    "new.csv": write_csv,
    "new.parquet": write_parquet,
}


def table(**others: Any) -> dict[str, Any]:
    return {**dict(zip(COLUMNS, X.T, strict=True)), **others}


def predicted(model: str, path: str) -> list[str]:
    assert call(f"predict {model} {path} --out p.parquet") == 0
    return parquet.read_table("p.parquet")["predicted"].to_pylist()


@pytest.fixture(params=["all", "none"])
def model(request: pytest.FixtureRequest, brief: None) -> str:
    """The folder of an analysis, which recommends a method of scikit-learn or one of ours."""
    write_csv(Path("train.csv"), table(cultivar=Y))
    assert call(f"analyze train.csv --references {request.param} --out a") == 0
    return "a"


@pytest.mark.parametrize("name", WRITERS)
def test_new_rows_are_matched_by_name(model: str, name: str) -> None:
    """Another order, further numbers, and labels that some rows do not have change nothing."""
    expected = predicted(model, "train.csv")
    assert np.mean(np.array(expected) == Y) > 0.85
    missing = pa.array([None if i % 5 == 0 else y for i, y in enumerate(Y)])
    forms = {
        "reversed": dict(reversed(table().items())),
        "more": {"acidity": X[:, 0] * 7.5, **table(year=X[:, 1] + 0.5)},
        "unlabelled": table(cultivar=missing),
        "whole": table(proline=np.round(X[:, 4]).astype(int)),
    }
    for form, columns in forms.items():
        WRITERS[name](Path(name), columns)
        if form == "whole":
            # Numbers without decimals are numbers all the same.
            assert len(predicted(model, name)) == len(Y)
        else:
            assert predicted(model, name) == expected, form
    rows = resultant.load_classifier("a/classifier.safetensors")
    assert list(rows.feature_names_in_) == list(COLUMNS)
    # From Python, and with the name of the features.
    frame = pd.DataFrame(forms["reversed"])
    assert resultant.predict(model, frame)["predicted"].to_pylist() == expected
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rows.predict(frame[list(COLUMNS)]).tolist() == expected
    with pytest.raises(ValueError, match="feature names"):
        rows.predict(frame)
    WRITERS[name](Path(name), forms["reversed"])
    assert predicted(model, f"{name} --features features") == expected


@pytest.mark.parametrize("name", WRITERS)
def test_other_columns_are_refused(model: str, name: str, capsys: Shown) -> None:
    columns = table()
    columns["flavour"] = columns.pop("flavanoids")
    WRITERS[name](Path(name), columns)
    capsys.readouterr()
    assert call(f"predict {model} {name} --out p.parquet") == 2
    assert "no column 'flavanoids', which the classifier was fitted to" in capsys.readouterr().err
    WRITERS[name](Path(name), table(flavanoids=Y))
    assert call(f"predict {model} {name} --out p.parquet") == 2
    assert "column 'flavanoids' of" in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_of_one_set_are_matched_by_name(ending: str) -> None:
    """Training and test rows in two files: the order of the first file is that of both."""
    write, half = WRITERS[f"new.{ending}"], slice(0, None, 2)
    Path("wine").mkdir()
    parts = {"test": slice(1, None, 2), "train": half}
    for split, rows in parts.items():
        columns = {name: values[rows] for name, values in table(label=Y).items()}
        write(
            Path(f"wine/{split}.{ending}"), dict(sorted(columns.items(), reverse=split == "test"))
        )
    store = FeatureStore.open("wine")
    names = store.metadata["columns"]["features"]
    for split, rows in parts.items():
        expected = X[rows][:, [COLUMNS.index(name) for name in names]]
        np.testing.assert_allclose(store[f"{split}/features"].numpy(), expected, rtol=1e-6)
    columns = {name: values[half] for name, values in table(label=Y).items()}
    columns["colour intensity"] = columns.pop("colour")
    write(Path(f"wine/train.{ending}"), columns)
    with pytest.raises(ValueError, match=r"expected the columns of .*, 5 of numbers, got .*colour"):
        FeatureStore.open("wine")


@pytest.mark.parametrize("name", WRITERS)
def test_ids_of_the_user_reach_every_table(name: str, brief: None, capsys: Shown) -> None:
    """Any column of ids, without an option; rows are in the order of the file, with its numbers."""
    ids = [f"{i:04d}" for i in range(len(Y))]
    others = {"doc_id": ids, "vintage_id": np.arange(len(Y)) // 3, "humid": X[:, 0]}
    splits = np.where(np.arange(len(Y)) % 3, "train", "test")
    WRITERS[name](Path(name), table(cultivar=Y, split=splits, **others))
    assert call(f"analyze {name} --references none --out a") == 0
    assert "3 classes (labels: cultivar)" in capsys.readouterr().out
    rows = parquet.read_table("a/rows.parquet")
    test = parquet.read_table("a/predictions.parquet")
    assert call(f"predict a {name} --out p.parquet") == 0
    new = parquet.read_table("p.parquet")
    assert new["split"].to_pylist() == splits.tolist()
    for known in (rows, test, new):
        places = known["row"].to_pylist()
        assert places == sorted(places)
        assert known["doc_id"].to_pylist() == [ids[i] for i in places]
        assert known["vintage_id"].to_pylist() == [str(i // 3) for i in places]
    assert len(rows) == len(new) == len(Y)
    # Ids are no features, and identify the rows where each is another.
    store = FeatureStore.open(name)
    assert store.metadata["columns"]["features"] == [*COLUMNS, "humid"]
    assert store["test/identities"].unique().numel() == len(test)
    # A column of words that is not called a label holds none.
    others |= {"bottle": ids, "cellar": np.where(np.arange(len(Y)) % 3, "dry", "cold")}
    del others["doc_id"]
    WRITERS[name](Path(name), table(**others))
    assert "train/identities" not in FeatureStore.open(name)
    assert call(f"predict a {name} --identities bottle --out p.csv") == 0
    assert Path("p.csv").read_text().splitlines()[1].startswith(f"{name},0,0000,0,")
    assert "label" not in Path("p.csv").read_text()


@pytest.mark.parametrize("labels", ["words", "numbers"])
@pytest.mark.parametrize("name", WRITERS)
def test_rows_without_a_label(name: str, labels: str, brief: None, capsys: Shown) -> None:
    """They are an error whose remedy works, and predict reads them all."""
    known = Y.tolist() if labels == "words" else WINE.target.tolist()
    given = [None if i % 5 == 0 else y for i, y in enumerate(known)]
    WRITERS[name](Path(name), table(cultivar=pa.array(given)))
    words = f"analyze {name} --references none --out a"
    assert call(words) == 2
    error = capsys.readouterr().err
    assert "in every row, got nothing in row 0, the first of 36 rows" in error
    assert "--skip-unlabelled" in error and call(f"{words} --skip-unlabelled") == 0
    shown = capsys.readouterr().out
    assert "36 rows without a label are left out" in shown and "no rows" not in shown
    rows = parquet.read_table("a/rows.parquet")
    assert rows["row"].to_pylist() == [i for i, y in enumerate(given) if y is not None]
    assert rows["label"].to_pylist() == [y for y in given if y is not None]
    assert np.mean([str(y) == p for y, p in zip(known, predicted("a", name), strict=True)]) > 0.8
    frame = pd.DataFrame(table(cultivar=pd.array(given)))
    assert len(resultant.rows(frame, references="none", skip_unlabelled=True)) == len(rows)
