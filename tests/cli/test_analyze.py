"""``resultant analyze``: the files and the summary of a report."""

from __future__ import annotations

import csv
import io
import json
import os
from html import unescape
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow.parquet as pq
import pytest

from cli.conftest import call, recommended, results
from resultant.features.store import write_store
from small_features import COUNTS, HELD_OUT, NAMES, small_features, untimed

pytestmark = pytest.mark.slow

Shown = pytest.CaptureFixture[str]


def arrays_of(**options: Any) -> dict[str, Any]:
    return {name: a.numpy() for name, a in small_features(**options).items()}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on two features, with class names that must not break the page."""
    folder = tmp_path_factory.mktemp("report")
    about = {"class_names": list(NAMES), "num_classes": 6}
    arrays = small_features(dim=8, noise=0.6, names=("encoder", "projection"))
    write_store(folder / "z.safetensors", arrays, about)
    assert call(f"analyze {folder}/z.safetensors --out {folder}/out --figures") == 0
    return folder / "out"


def test_folder_is_complete(report: Path) -> None:
    """The page, its files, and predictions of the accuracy that the page says."""
    assert sorted(p.name for p in report.parent.iterdir()) == ["out", "z.safetensors"]
    found = results(report)
    names = {"figures", "index.html", "tables", *found["files"].values()}
    assert {p.name for p in report.iterdir()} == names
    assert {p.suffix for p in (report / "figures").iterdir()} == {".pdf", ".png"}
    feature = found["features"][found["chosen"]]
    assert feature["data"]["splits"] == {"train": sum(COUNTS), "test": 6 * HELD_OUT}
    table = pq.read_table(report / "predictions.parquet")
    right = np.equal(table["label"].to_pylist(), table["predicted"].to_pylist())
    assert feature["recommendation"]["key"]
    assert right.mean() == pytest.approx(recommended(feature)["accuracy"]["value"])
    columns = [f"p_{name}" for name in feature["data"]["class_names"]]
    p = np.stack([table[name].to_numpy() for name in columns], 1)
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-4)
    np.testing.assert_allclose(p.max(1), table["probability"].to_numpy(), atol=1e-6)
    with open(report / "rows.csv") as file:
        assert {row["features"] for row in csv.DictReader(file)} <= {"encoder", "projection"}


def test_summary_and_determinism(report: Path, capsys: Shown) -> None:
    """A few lines on standard output, steps on standard error; the same features, the same
    numbers."""
    assert call(f"analyze {report.parent}/z.safetensors --out again") == 0
    shown = capsys.readouterr()
    headings = [line.split()[0] for line in shown.out.splitlines()]
    assert headings[0] == "read" and headings[-1] == "page" and "use" in headings
    assert set(headings) <= {"read", "check", "use", "why", "warning", "note", "page"}
    for step in ("read and check the rows", "projection: search vMF settings", "write the report"):
        assert f" s  {step}\n" in shown.err
    first, second = (untimed(results(out)["features"]) for out in (report, "again"))
    assert first == second


def test_saved_classifier() -> None:
    """It is loaded by the code of the page, and predicts the words of the user."""
    arrays = arrays_of(noise=0.6)
    for split in ("train", "test"):
        arrays[f"{split}/labels"] = np.array(list("abcdef"))[arrays[f"{split}/labels"]]
    np.savez("z.npz", **arrays)
    assert call("analyze z.npz --out out --references none") == 0
    (feature,), names = results("out")["features"], {"X": arrays["test/projection"]}
    exec(feature["recommendation"]["code"], names)
    right = float((names["model"].predict(names["X"]) == arrays["test/labels"]).mean())
    assert right == pytest.approx(recommended(feature)["accuracy"]["value"])


@pytest.mark.usefixtures("brief")
def test_json_and_quiet(capsys: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON alone on standard output; a table on standard input; nothing but errors."""
    arrays = arrays_of(names=("x",))
    z, y = arrays["train/x"], arrays["train/labels"]
    header = ",".join([*(f"x{i}" for i in range(z.shape[1])), "label"])
    lines = [",".join([*map(str, row), f"c{c}"]) for row, c in zip(z, y, strict=True)]
    text = "\n".join([header, *lines]).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert call("analyze - --out out --json -") == 0
    summary = json.loads(capsys.readouterr().out)
    (feature,) = summary["features"]
    assert feature["source"] == "standard input" and feature["classes"] == 6
    assert feature["recommendation"]["key"] in {m["key"] for m in feature["methods"]}
    assert Path(summary["page"]).exists()
    Path("z.csv").write_bytes(text)
    assert call("analyze z.csv --out out --json s.json --quiet") == 0
    assert capsys.readouterr() == ("", "")
    again = json.loads(Path("s.json").read_text())
    assert again["features"][0]["methods"] == feature["methods"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert call("analyze - --quiet") == 2
    assert "expected a table on the standard input, got nothing" in capsys.readouterr().err


@pytest.mark.usefixtures("brief")
def test_reports_among_other_files(capsys: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder may hold a report; files of others are neither replaced nor removed, and
    a report that fails leaves nothing."""
    write_store("z.safetensors", small_features())
    for error, status in ((KeyboardInterrupt, 130), (OSError("full"), 1)):
        with monkeypatch.context() as patch:
            patch.setattr("resultant.report.page.write_page", Mock(side_effect=error))
            assert call("analyze z.safetensors --out out") == status
        assert os.listdir() == ["z.safetensors"]
    assert call("analyze z.safetensors --out .") == 0
    first = set(os.listdir())
    assert {"index.html", "results.json", "z.safetensors"} <= first
    Path("tables", "old.csv").write_text("of an earlier report")
    assert call("analyze z.safetensors --out .") == 0
    assert set(os.listdir()) == first and not Path("tables", "old.csv").exists()
    Path("mine").mkdir()
    Path("mine", "index.html").write_text("mine")
    capsys.readouterr()
    assert call("analyze z.safetensors --out mine") == 2
    assert "got mine/index.html; choose another folder" in capsys.readouterr().err
    assert Path("mine", "index.html").read_text() == "mine"


@pytest.mark.usefixtures("brief")
def test_a_name_that_is_not_text(capsys: Shown) -> None:
    path = os.path.abspath(os.fsdecode(b"na\xff\xfeme.npz"))
    np.savez(path, class_names=np.array(["a\nb", "\x1b[31mred", "c", "d", "e", "f"]), **arrays_of())
    assert call(f"analyze {path} --out out") == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and "na\ufffd\ufffdme.npz" in shown
    assert "na\ufffd\ufffdme.npz" in Path("out/index.html").read_text()
    assert results("out")["features"][0]["data"]["class_names"][:2] == ["a b", "[31mred"]


@pytest.mark.usefixtures("brief")
def test_options_of_rows_and_their_notes(capsys: Shown) -> None:
    """Notes are on the page and in the terminal; a part of the training rows can validate."""
    arrays = arrays_of()
    arrays["train/projection"][[7, 20, 149]] = 0
    arrays["test/projection"][3] = 0
    arrays["test/identities"] = np.arange(len(arrays["test/labels"]))
    np.savez("a.npz", allow_pickle=False, **arrays)
    assert call("analyze a.npz --out a --drop-zero-rows --fit-fraction 0.5") == 0
    notes = [
        "1 row of zero vectors is left out of test, the first of them row 3.",
        "3 rows of zero vectors are left out of train, the first of them row 7.",
    ]
    shown, page = capsys.readouterr().out, unescape(Path("a", "index.html").read_text())
    assert "training rows kept apart" in shown
    assert all(f"note    {note}\n" in shown and note in page for note in notes)
    assert call("compare a.npz a.npz --drop-zero-rows --out c") == 0
    assert results("c")["comparisons"][0]["rows"] == 119
