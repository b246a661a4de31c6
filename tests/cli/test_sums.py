"""Files of sums from the shell: as one fit to all rows, and whole or not at all."""

import re
import shutil
import signal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

import resultant
from cli.conftest import call
from programs import run_program
from resultant import VMFClassifier
from resultant.cli import main as cli

WORDS = np.array([f"digit {c}" for c in "0123456789"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Rows of digits in three files; the last class is in the last file alone. The rows of the
    first file as sums, and all rows as a classifier of other settings."""
    folder = tmp_path_factory.mktemp("sums")
    X, y = load_digits(return_X_y=True)
    X, y = X.astype(np.float32), y
    owner = np.where(y == 9, 2, np.arange(len(y)) % 3)
    for k in range(3):
        table = pd.DataFrame(X[owner == k]).add_prefix("f")
        table["label"] = WORDS[y[owner == k]]
        if k == 1:
            table.to_csv(folder / f"{k}.csv", index=False)
        else:
            table.to_parquet(folder / f"{k}.parquet")
    rows = {"X": X, "y": WORDS[y], "owner": owner, "folder": folder}
    fit(rows, owner == 0).save(folder / "a.safetensors", rows=True)
    VMFClassifier().fit(X, WORDS[y]).save(folder / "plain.safetensors", rows=True)
    return rows


@pytest.fixture
def files(whole: dict[str, Any]) -> dict[str, Any]:
    """The files in the current folder."""
    shutil.copytree(whole["folder"], ".", dirs_exist_ok=True)
    return whole


def fit(files: dict[str, Any], rows: Any) -> VMFClassifier:
    return VMFClassifier(whiten="within", shrinkage=0.3).fit(files["X"][rows], files["y"][rows])


def alike(path: str, whole: VMFClassifier, X: np.ndarray) -> None:
    loaded = VMFClassifier.load(path)
    assert loaded.classes_.tolist() == whole.classes_.tolist()
    np.testing.assert_allclose(loaded.predict_proba(X), whole.predict_proba(X), atol=1e-5)


def test_sums_merge_and_forget(files: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    X, owner = files["X"], files["owner"]
    assert call("sums 0.parquet 1.csv --out some.safetensors") == 0
    said = capsys.readouterr().out
    assert "sums: some.safetensors: 1,078 rows of 9 classes, 64 dimensions; 1,078 of the" in said
    alike("some.safetensors", fit(files, owner < 2), X)
    assert call("sums 2.parquet --out more.safetensors") == 0
    assert call("merge some.safetensors more.safetensors --out all.safetensors") == 0
    alike("all.safetensors", whole := fit(files, owner < 3), X)
    assert call("forget all.safetensors --rows 2.parquet --out back.safetensors") == 0
    back = VMFClassifier.load("back.safetensors")
    # The label remains, without rows.
    p, some = np.asarray(back.predict_proba(X)), VMFClassifier.load("some.safetensors")
    np.testing.assert_allclose(p[:, :9], some.predict_proba(X), atol=1e-5)
    assert (p[:, 9] == 0).all()
    table = pd.DataFrame({"label": files["y"]})
    capsys.readouterr()
    frame = pd.DataFrame(X).add_prefix("f").assign(label=table["label"])
    frame.to_parquet("new.parquet")
    assert call("predict all.safetensors new.parquet --out p.parquet --error 0.1") == 0
    predicted: Any = pd.read_parquet("p.parquet")
    assert (predicted["predicted"] == np.asarray(whole.predict(X))).mean() > 0.999
    assert predicted["none_of_these"].mean() < 0.1
    assert cli.main(["forget", "all.safetensors", "--label", "digit 3", "digit 4"]) == 0
    others = ~np.isin(files["y"], ["digit 3", "digit 4"])
    alike("all.safetensors", fit(files, others), X)


def test_analyze_describes_sums(files: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Sizes, lengths, gains and nearest classes, against NumPy and SciPy on the rows."""
    assert call("sums 0.parquet 1.csv --whiten none --out a.safetensors") == 0
    capsys.readouterr()
    assert call("analyze a.safetensors --out about") == 0
    said = capsys.readouterr().out
    table: Any = pd.read_csv("about/classes.csv").set_index("class")
    rows = files["owner"] < 2
    z = files["X"][rows] / np.linalg.norm(files["X"][rows], axis=1, keepdims=True)
    names = np.unique(files["y"][rows])
    means = np.stack([z[files["y"][rows] == name].mean(0) for name in names])
    lengths = np.linalg.norm(means, axis=1)
    cosines = means @ means.T / np.outer(lengths, lengths) - 2 * np.eye(len(names))
    assert table.index.tolist() == names.tolist()
    assert table["rows"].tolist() == [(files["y"][rows] == name).sum() for name in names]
    np.testing.assert_allclose(table["mean_length"], lengths, rtol=1e-6)
    # A fitted concentration has the mean length of the rows: the gain is this over tau.
    np.testing.assert_allclose(table["gain"], lengths / 0.1, rtol=1e-6)
    assert table["nearest"].tolist() == names[cosines.argmax(1)].tolist()
    np.testing.assert_allclose(table["cosine"], cosines.max(1), rtol=1e-5)
    first = table["cosine"].idxmax()
    assert f"{first} and {table.loc[first, 'nearest']}: cosine" in said
    assert "1,078 rows, 9 classes, 64 dimensions" in said and "need rows" in said
    assert "metric" not in said
    lead = float(said.split("leads by a cosine of ")[1].split()[0])
    # From this lead on equal gains change no decision; test_certificates has the bound.
    state = VMFClassifier.load("a.safetensors").state_
    bound = resultant.residual_bound(state, 0.1).range / resultant.angular_gain(state, 0.1).mean()
    assert lead == pytest.approx(float(bound), abs=5e-4)


def test_lengths_of_whitened_sums_say_so(
    files: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("analyze a.safetensors --out about") == 0
    said = capsys.readouterr().out
    assert "lengths and cosines are those of its metric, --whiten within" in said
    lengths = pd.read_csv("about/classes.csv")["mean_length"]
    whitened = fit(files, files["owner"] == 0).statistics_.mean_length
    np.testing.assert_allclose(lengths, whitened[whitened > 0], rtol=1e-5)


WRONG = [
    ("sums 0.parquet --out x.csv", "a name that ends in .safetensors"),
    ("sums 0.parquet --out x.safetensors --split test", "features of the split test"),
    ("sums none.parquet --out x.safetensors", "none.parquet"),
    ("merge a.safetensors --out x.safetensors", "expected two files of sums or more, got 1"),
    ("merge a.safetensors 0.parquet --out x.safetensors", "expected 0.parquet to be a file of"),
    ("merge a.safetensors plain.safetensors --out x.safetensors", "plain.safetensors and a.safet"),
    ("forget a.safetensors", "expected --rows or --label, got neither"),
    ("forget a.safetensors --label cat", "expected --label among digit 0, .*, got cat"),
    ("forget a.safetensors --rows 1.csv", "rows that were added, got 63 rows of 'digit 1', which"),
    ("analyze a.safetensors --labels y", "expected no --labels for a classifier, which has no"),
    ("compare a.safetensors 0.parquet --quiet", "expected features, got a classifier: a.safetens"),
]


@pytest.mark.parametrize(("words", "message"), WRONG)
def test_refusals_leave_the_file(
    words: str, message: str, files: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    before = Path("a.safetensors").read_bytes()
    assert call(words) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert re.search(message, line), line
    assert Path("a.safetensors").read_bytes() == before and not Path("x.safetensors").exists()


FORGET = "forget a.safetensors --rows 0.parquet"


KILLED = """
import os, signal, sys
from pathlib import Path
from resultant._core import tensor_files
from resultant.cli import main

def half(tensors, path, metadata):
    Path(path).write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)

tensor_files.save_file = half
main.main(sys.argv[1:])
"""


@pytest.mark.slow
def test_a_killed_command_leaves_the_file(files: dict[str, Any]) -> None:
    """The old file stays whole; the same command, given again, ends and cleans up."""
    fit(files, files["owner"] < 2).save("a.safetensors", rows=True)
    before = Path("a.safetensors").read_bytes()
    visible = {path.name for path in Path().iterdir()}
    with pytest.raises(AssertionError, match=f"status {-signal.SIGKILL}"):
        run_program(KILLED, *FORGET.split())
    assert Path("a.safetensors").read_bytes() == before
    left = {path.name for path in Path().iterdir()} - visible
    assert left and all(re.fullmatch(r"\..*\.tmp", name) for name in left)
    assert call(FORGET) == 0
    assert {path.name for path in Path().iterdir()} == visible
    loaded, whole = VMFClassifier.load("a.safetensors"), fit(files, files["owner"] == 1)
    columns = np.isin(loaded.classes_, whole.classes_)
    p = np.asarray(loaded.predict_proba(files["X"]))[:, columns]
    np.testing.assert_allclose(p, whole.predict_proba(files["X"]), atol=1e-5)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="needs ray")
def test_ray_merges_the_files(files: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert call("sums 0.parquet 1.csv 2.parquet --out all.safetensors --engine ray") == 0
    alike("all.safetensors", fit(files, files["owner"] < 3), files["X"])
