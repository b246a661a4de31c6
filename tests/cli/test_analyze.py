"""``resultant analyze``: the files and the summary, and input that is refused."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from resultant.cli import main as cli
from resultant.features.store import write_store
from resultant.report import analysis_page, page
from small_features import COUNTS, DIM, HELD_OUT, NAMES, small_features, untimed

pytest.importorskip("matplotlib")
pytest.importorskip("tyro")

Shown = pytest.CaptureFixture[str]


def analyze(*words: object) -> int:
    return cli.main(["analyze", *map(str, words)])


def two_features() -> dict[str, Tensor]:
    """Two features so wide, in few dimensions, that each question has something to show."""
    return small_features(dim=8, noise=0.6, names=("encoder", "projection"))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on two features, with class names that must not break the page."""
    folder = tmp_path_factory.mktemp("report")
    arrays = two_features()
    about = {"class_names": list(NAMES), "num_classes": 6}
    write_store(folder / "z.safetensors", arrays, about)
    kept = analysis_page.kept
    with pytest.MonkeyPatch.context() as patch:
        # One figure of each section.
        patch.setattr(analysis_page, "kept", lambda charts: kept(charts[:1]))
        assert analyze(folder / "z.safetensors", "--out", folder / "out", "--figures") == 0
    return folder / "out"


@pytest.mark.slow
def test_folder_is_complete(report: Path) -> None:
    assert sorted(p.name for p in report.parent.iterdir()) == ["out", "z.safetensors"]
    assert sorted(p.name for p in report.iterdir()) == [
        *("figures", "index.html", "results.json", "tables")
    ]
    figures = {p.name for p in (report / "figures").iterdir()}
    assert figures == {
        f"{space}-{name}.{kind}"
        for space in ("encoder", "projection")
        for name in ("along-beta", "gains", "cosine", "calibration")
        for kind in ("pdf", "png")
    }
    for path in (report / "figures").glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
    for path in (report / "figures").glob("*.pdf"):
        assert path.read_bytes().startswith(b"%PDF")


@pytest.mark.slow
def test_results_are_those_of_an_independent_count(report: Path) -> None:
    results = json.loads((report / "results.json").read_text())
    arrays = two_features()
    assert set(results["features"]) == {"encoder", "projection"}
    assert results["recommended"] in results["features"]
    for name, found in results["features"].items():
        space = found["space"]
        assert (space["num_classes"], space["dim"]) == (6, 8)
        assert (space["fitting"], space["held_out"]) == (sum(COUNTS), 6 * HELD_OUT)
        # The cosine rule, from the class means.
        x, y = (arrays[f"train/{a}"].double() for a in (name, "labels"))
        q = torch.nn.functional.normalize(arrays[f"test/{name}"].double(), dim=1)
        x = torch.nn.functional.normalize(x, dim=1)
        mu = torch.stack([x[y == c].mean(0) for c in range(6)])
        best = (q @ torch.nn.functional.normalize(mu, dim=1).T).argmax(1)
        right = float((best == arrays["test/labels"]).double().mean())
        (point,) = (
            p for p in found["grid"]["points"] if p["realization"] == "cosine" and p["gamma"] == 0
        )
        assert point["accuracy"] == pytest.approx(right, abs=1e-12)
        with open(report / "tables" / f"{name}-realizations.csv") as file:
            rows = list(csv.DictReader(file))
        (row,) = (r for r in rows if r["realization"] == "Cosine" and r["gamma"] == "0.0")
        assert float(row["accuracy"]) == pytest.approx(right, abs=1e-12)
        with open(report / "tables" / f"{name}-classes.csv") as file:
            rows = list(csv.DictReader(file))
        assert sorted(int(r["training rows"]) for r in rows) == sorted(COUNTS)
        assert {r["class"] for r in rows} == set(results["class_names"])


@pytest.mark.slow
def test_summary_and_determinism(
    report: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten lines on standard output, steps on standard error; the same features, the same files."""
    kept = analysis_page.kept
    monkeypatch.setattr(analysis_page, "kept", lambda charts: kept(charts[:1]))
    out = report.parent / "again"
    assert analyze(report.parent / "z.safetensors", "--out", out, "--figures") == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    headings = [line.split("  ")[0] for line in lines]
    assert headings[:3] == ["features", "angular gain", "cosine"]
    rest = [heading for heading in headings[3:] if heading not in ("warning", "note")]
    assert rest == ["vMF rules", "found", "do", "worth", "report"]
    for step in ("check", "projection: statistics", "projection: fit", "figures"):
        assert f" s  {step}\n" in shown.err
    files = [p for p in out.rglob("*") if p.suffix in (".csv", ".pdf", ".png")]
    assert len(files) >= 12
    for path in files:
        # The table of the rules has seconds.
        if path.stem.endswith("-rules"):
            continue
        assert (report / path.relative_to(out)).read_bytes() == path.read_bytes()


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_only_a_report_is_replaced(report: Path, tmp_path: Path, capsys: Shown) -> None:
    store, out = report.parent / "z.safetensors", tmp_path / "out"
    out.mkdir()
    (out / "letter.txt").write_text("mine")
    assert analyze(store, "--out", out) == 2
    assert "other files" in capsys.readouterr().err
    assert [p.name for p in out.iterdir()] == ["letter.txt"]
    assert analyze(store, "--out", out / "letter.txt" / "x") == 2
    assert "got a file" in capsys.readouterr().err
    (out / "results.json").write_text("{}")
    assert analyze(store, "--out", out) == 2
    assert f"other files: {out / 'letter.txt'}" in capsys.readouterr().err
    (out / "letter.txt").rename(out / "index.html")
    assert analyze(store, "--out", out) == 0
    assert (out / "index.html").read_text() != "mine" and (out / "tables").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("disk full")])
def test_nothing_half_written_remains(
    error: Any, tmp_path: Path, monkeypatch: Any, capsys: Shown
) -> None:
    write_store(tmp_path / "z.safetensors", small_features())

    def fail(*_: Any) -> str:
        raise error

    monkeypatch.setattr(page, "render", fail)
    status = analyze(tmp_path / "z.safetensors", "--out", tmp_path / "out")
    if error is KeyboardInterrupt:
        assert status == 130
    else:
        assert status == 1 and "disk full" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["z.safetensors"]


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_calibration_rows(tmp_path: Path, capsys: Shown) -> None:
    path, out = tmp_path / "z.safetensors", tmp_path / "out"
    write_store(path, small_features(), {"num_classes": 6})
    for fraction in ("0", "1", "-0.5", "nan"):
        assert analyze(path, "--out", out, "--fit-fraction", fraction) == 2
        assert "expected --fit-fraction in (0, 1)" in capsys.readouterr().err
    assert analyze(path, "--out", out, "--fit-fraction", "0.5", "--engine", "ray") == 2
    assert not out.exists()
    # By its former name, too.
    assert analyze(path, "--out", out, "--fitting-share", "0.5") == 0
    (answers,) = json.loads((out / "results.json").read_text())["features"].values()
    fitted = sum(max(1, round(n / 2)) for n in COUNTS)
    space = answers["space"]
    assert abs(space["fitting"] - fitted) <= len(COUNTS)
    assert space["fitting"] + space["calibration"] == sum(COUNTS)
    assert answers["gradients"]["source"] == "calibration"
    rows = f"{space['fitting']:,} rows fitted, {space['calibration']:,} for calibration"
    assert rows in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_names_that_a_line_cannot_show(tmp_path: Path, monkeypatch: Any, capsys: Shown) -> None:
    """Names of classes, and of the current folder."""
    names = ["a\nb", "\x1b[31mred", "\ud800", "d", "e", "f"]
    write_store(tmp_path / "z.safetensors", small_features(), {"class_names": names})
    monkeypatch.chdir(tmp_path)
    assert analyze(".", "--out", "out") == 0
    shown = capsys.readouterr().out
    assert f"features      {tmp_path.name}: 6 classes" in shown and "\x1b" not in shown
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["class_names"] == ["a b", "[31mred", "", "d", "e", "f"]


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_file_name_that_is_not_text(tmp_path: Path, capsys: Shown) -> None:
    """Its bytes are replaced on the page, and the report is written."""
    path = os.fsdecode(os.fsencode(tmp_path) + b"/na\xff\xfeme.npz")
    arrays: dict[str, Any] = {n: a.numpy() for n, a in small_features().items()}
    np.savez(path, **arrays)
    out = os.fsdecode(os.fsencode(tmp_path) + b"/o\xff")
    assert analyze(path, "--out", out) == 0
    assert "features      na\ufffd\ufffdme.npz: 6 classes" in capsys.readouterr().out
    results = json.loads((Path(out) / "results.json").read_text())
    assert results["source"] == f"{tmp_path}/na\ufffd\ufffdme.npz"
    assert "na\ufffd\ufffdme.npz" in (Path(out) / "index.html").read_text()
    assert cli.main(["compare", path, path, "--out", out + "2"]) == 0


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_parquet_shards_of_one_split(tmp_path: Path) -> None:
    """Columns by name, files in order, held-out rows: as for the same arrays in one file."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    arrays = small_features()
    z, y = arrays["train/projection"], arrays["train/labels"]
    write_store(tmp_path / "z.safetensors", {"emb": z, "kind": z, "labels": y})
    (tmp_path / "shards").mkdir()
    for i, rows in enumerate(torch.arange(len(y)).split(40)):
        columns = {"emb": list(z[rows].numpy()), "kind": y[rows].numpy()}
        pq.write_table(pa.table(columns), tmp_path / "shards" / f"part-{i}.parquet")
    answers = []
    for name, options in (("z.safetensors", []), ("shards", ["--labels", "kind"])):
        out = tmp_path / f"out-{name}"
        assert analyze(tmp_path / name, "--out", out, "--features", "emb", *options) == 0
        text = (out / "index.html").read_text()
        assert "one split only" in text and "(seed 0)" in text
        results = json.loads((out / "results.json").read_text())
        assert set(results["features"]) == {"emb"}
        answers.append(untimed(results["features"]["emb"]))
    assert answers[0] == answers[1]


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_notes_are_on_the_page_and_in_the_terminal(tmp_path: Path, capsys: Shown) -> None:
    arrays: dict[str, Any] = {n: a.numpy() for n, a in small_features().items()}
    for name in ("labels", "projection"):
        arrays[f"val/{name}"] = arrays[f"test/{name}"]
    for split in ("train", "val", "test"):
        arrays[f"{split}/labels"] = arrays[f"{split}/labels"].astype(str)
    arrays["train/labels"][0] = ""
    np.savez(tmp_path / "z.npz", **arrays)
    out = tmp_path / "out"
    assert analyze(tmp_path / "z.npz", "--out", out) == 0
    lines = capsys.readouterr().out.splitlines()
    notes = [line.partition("note")[2].strip() for line in lines if line.startswith("note ")]
    assert notes == [
        "The split val chooses the settings.",
        '1 class has a single training row and is left out with its 0 test rows: "".',
    ]
    text = unescape((out / "index.html").read_text())
    assert all(f"<li>{note}</li>" in text for note in notes)
    assert json.loads((out / "results.json").read_text())["notes"] == notes


def changed(**changes: Any) -> Callable[[Path], Path]:
    """A store with arrays replaced (underscores for slashes), or left out if None."""

    def make(folder: Path) -> Path:
        arrays = small_features()
        for name, value in changes.items():
            arrays[name.replace("_", "/")] = value
        path = folder / "z.safetensors"
        save_file({n: a for n, a in arrays.items() if a is not None}, path)
        return path

    return make


def contents(name: str, data: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(data)
        return folder / name

    return make


def truncated(folder: Path) -> Path:
    path = changed()(folder)
    path.write_bytes(path.read_bytes()[:-100])
    return path


LABELS = torch.arange(6).repeat_interleave(torch.tensor(COUNTS))
FEATURES = small_features()["train/projection"]
HUGE = torch.full((6 * HELD_OUT,), 7)

BAD: dict[str, tuple[Callable[[Path], Path], str, list[str]]] = {
    "nothing there": (lambda folder: folder / "z.npz", "got no such file", []),
    "empty file": (contents("z.safetensors", b""), "whole safetensors file", []),
    "empty parquet": (contents("z.parquet", b""), "whole Parquet file", []),
    "truncated": (truncated, "whole safetensors file", []),
    "unknown column": (changed(), "an array 'nope'", ["--features", "nope"]),
    "unknown labels": (changed(), "an array 'nope'", ["--labels", "nope"]),
    "no labels": (changed(train_labels=None), "expected train/labels in", []),
    "no features": (changed(train_projection=None), "expected features of train", []),
    "mixed dimensions": (
        changed(test_projection=torch.ones(6 * HELD_OUT, DIM + 1)),
        "test/projection of .* of dimension 64, as in train/projection, got 65",
        [],
    ),
    "one class": (changed(train_labels=0 * LABELS), "two classes or more .* class 0 only", []),
    "unseen label": (
        changed(test_labels=HUGE),
        "among the classes of train.* class 7 at row 0",
        [],
    ),
    "one sample": (
        changed(train_labels=torch.arange(len(LABELS)).clamp(max=6)),
        "two classes or more of two rows or more .* got 6 classes of a single row",
        [],
    ),
    "NaN": (
        changed(train_projection=FEATURES.index_fill(0, torch.tensor([9]), float("nan"))),
        "train/projection of .* finite, got nan in row 9",
        [],
    ),
    "zero": (
        changed(train_projection=FEATURES.index_fill(0, torch.tensor([9]), 0.0)),
        "without zero vectors, got one in row 9",
        [],
    ),
    "rows": (changed(train_labels=LABELS[1:]), "expected 150 rows|expected 151 rows", []),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", BAD)
def test_bad_input(case: str, tmp_path: Path, capsys: Shown) -> None:
    """One line with the file and the rule, exit status 2, and nothing is written."""
    make, message, options = BAD[case]
    path = make(tmp_path)
    before = sorted(os.listdir(tmp_path))
    assert cli.main(["analyze", str(path), "--out", str(tmp_path / "out"), *options]) == 2
    shown = capsys.readouterr().err
    assert len(shown.splitlines()) == 1 and re.search(message, shown), shown
    assert str(path) in shown
    assert sorted(os.listdir(tmp_path)) == before
