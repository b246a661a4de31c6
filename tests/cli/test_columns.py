"""The columns of new rows are those of the classifier, by their names, in every form of a table."""

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
