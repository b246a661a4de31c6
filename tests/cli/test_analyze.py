"""The commands analyze and compare: what they write, and what they refuse without writing."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from resultant._core.network_files import is_network
from resultant._core.tensor_files import save
from resultant.cli import main as cli
from resultant.cli.compare import paired
from resultant.features import parquet
from resultant.features.prepare import prepare
from resultant.features.store import FeatureStore, write_store
from resultant.report import analysis_page as content
from resultant.report import drawings, page
from small_features import COUNTS, DIM, HELD_OUT, small_features

pytest.importorskip("matplotlib")
pytest.importorskip("tyro")


@pytest.fixture(scope="module")
def report(tmp_path_factory: Any) -> Path:
    """A report of two spaces, of classes whose names a page must not take for its own."""
    folder = tmp_path_factory.mktemp("report")
    arrays = small_features(names=("encoder", "projection"))
    names = ["<script>alert(1)</script>", "a & b", '"quoted"', "$x^$", "five", "six"]
    write_store(folder / "z.safetensors", arrays, {"class_names": names, "num_classes": 6})
    out = folder / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content, "drawings", lambda *given: drawings.drawings(*given)[:3])
        assert cli.main(["analyze", str(folder / "z.safetensors"), "--out", str(out)]) == 0
    return out


def test_the_folder_is_whole(report: Path) -> None:
    assert sorted(p.name for p in report.parent.iterdir()) == ["out", "z.safetensors"]
    assert sorted(p.name for p in report.iterdir()) == [
        *("figures", "index.html", "results.json", "tables")
    ]
    figures = {p.name for p in (report / "figures").iterdir()}
    assert figures == {
        f"{space}-{name}.{kind}"
        for space in ("encoder", "projection")
        for name in ("gains", "accuracy", "groups")
        for kind in ("pdf", "png")
    }
    for path in (report / "figures").glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
    for path in (report / "figures").glob("*.pdf"):
        assert path.read_bytes().startswith(b"%PDF")


def test_results_are_those_of_an_independent_count(report: Path) -> None:
    results = json.loads((report / "results.json").read_text())
    arrays = small_features(names=("encoder", "projection"))
    assert set(results["features"]) == {"encoder", "projection"}
    assert results["recommended"] in results["features"]
    for name, found in results["features"].items():
        space = found["space"]
        assert (space["num_classes"], space["dim"]) == (6, DIM)
        assert (space["fitting"], space["held_out"]) == (sum(COUNTS), 6 * HELD_OUT)
        # The cosine rule by nothing but means.
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
        assert sorted(int(r["rows"]) for r in rows) == sorted(COUNTS)
        assert {r["class"] for r in rows} == set(results["class_names"])


@pytest.fixture
def few_figures(monkeypatch: Any) -> None:
    """One figure a space, for what does not depend on them."""
    monkeypatch.setattr(content, "drawings", lambda *given: drawings.drawings(*given)[:1])


def test_ten_lines(report: Path, capsys: Any, few_figures: None) -> None:
    out = report.parent / "again"
    assert cli.main(["analyze", str(report.parent / "z.safetensors"), "--out", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = [line for line in lines if not re.match(r" *\d+\.\d s  ", line)]
    assert len(told) == 10
    assert [line.split("  ")[0] for line in told] == [
        *("use", "features", "accuracy", "calibration", "groups", "rise most", "fall most"),
        *("angular gain", "cosine", "report"),
    ]
    assert "95 % interval" in told[2] or "nothing to gain" in told[2]
    # The same features give the same files.
    files = [p for p in out.rglob("*") if p.suffix in (".csv", ".pdf", ".png")]
    assert len(files) >= 12
    for path in files:
        assert (report / path.relative_to(out)).read_bytes() == path.read_bytes()


def test_a_report_is_replaced_but_nothing_else(
    report: Path, tmp_path: Path, capsys: Any, few_figures: None
) -> None:
    given = str(report.parent / "z.safetensors")
    out = tmp_path / "out"
    out.mkdir()
    (out / "letter.txt").write_text("mine")
    assert cli.main(["analyze", given, "--out", str(out)]) == 2
    assert "others' files" in capsys.readouterr().err
    assert [p.name for p in out.iterdir()] == ["letter.txt"]
    assert cli.main(["analyze", given, "--out", str(out / "letter.txt" / "x")]) == 2
    assert "got a file" in capsys.readouterr().err
    (out / "results.json").write_text("{}")
    assert cli.main(["analyze", given, "--out", str(out)]) == 2
    assert f"others' files: {out / 'letter.txt'}" in capsys.readouterr().err
    (out / "letter.txt").rename(out / "index.html")
    assert cli.main(["analyze", given, "--out", str(out)]) == 0
    assert (out / "index.html").read_text() != "mine" and (out / "figures").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("disk full")])
def test_nothing_half_written_remains(
    error: Any, tmp_path: Path, monkeypatch: Any, few_figures: None, capsys: Any
) -> None:
    write_store(tmp_path / "z.safetensors", small_features())

    def fails(*_: Any) -> str:
        raise error

    monkeypatch.setattr(page, "render", fails)
    arguments = ["analyze", str(tmp_path / "z.safetensors"), "--out", str(tmp_path / "out")]
    if error is KeyboardInterrupt:
        assert cli.main(arguments) == 130
    else:
        assert cli.main(arguments) == 1
        assert "disk full" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["z.safetensors"]


def test_rows_for_calibration(tmp_path: Path, capsys: Any, few_figures: None) -> None:
    write_store(tmp_path / "z.safetensors", small_features(), {"num_classes": 6})
    call = ["analyze", str(tmp_path / "z.safetensors"), "--out", str(tmp_path / "out")]
    for share in ("0", "1", "-0.5", "nan"):
        assert cli.main([*call, "--fitting-share", share]) == 2
        assert "expected --fitting-share in (0, 1)" in capsys.readouterr().err
    assert cli.main([*call, "--fitting-share", "0.5", "--engine", "ray"]) == 2
    assert not (tmp_path / "out").exists()
    assert cli.main([*call, "--fitting-share", "0.5"]) == 0
    (found,) = json.loads((tmp_path / "out/results.json").read_text())["features"].values()
    fitted = sum(max(1, round(n / 2)) for n in COUNTS)
    space = found["space"]
    assert abs(space["fitting"] - fitted) <= len(COUNTS)
    assert space["fitting"] + space["calibration"] == sum(COUNTS)
    assert found["gradients"]["source"] == "calibration"
    said = f"{space['fitting']:,} rows fitted, {space['calibration']:,} for calibration"
    assert said in capsys.readouterr().out


def test_names_that_a_line_cannot_show(
    tmp_path: Path, monkeypatch: Any, few_figures: None, capsys: Any
) -> None:
    """Of classes, and of the folder that one stands in."""
    names = ["a\nb", "\x1b[31mred", "\ud800", "d", "e", "f"]
    write_store(tmp_path / "z.safetensors", small_features(), {"class_names": names})
    monkeypatch.chdir(tmp_path)
    assert cli.main(["analyze", ".", "--out", "out"]) == 0
    shown = capsys.readouterr().out
    assert f"features      {tmp_path.name}: 6 classes" in shown and "\x1b" not in shown
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["class_names"] == ["a b", "[31mred", "", "d", "e", "f"]


def test_a_file_name_that_is_no_text(tmp_path: Path, few_figures: None, capsys: Any) -> None:
    """Its bytes are replaced where it is shown, and the report is written."""
    path = os.fsdecode(os.fsencode(tmp_path) + b"/na\xff\xfeme.npz")
    arrays: dict[str, Any] = {n: a.numpy() for n, a in small_features().items()}
    np.savez(path, **arrays)
    out = os.fsdecode(os.fsencode(tmp_path) + b"/o\xff")
    assert cli.main(["analyze", path, "--out", out]) == 0
    assert "features      na\ufffd\ufffdme.npz: 6 classes" in capsys.readouterr().out
    results = json.loads((Path(out) / "results.json").read_text())
    assert results["source"] == f"{tmp_path}/na\ufffd\ufffdme.npz"
    assert "na\ufffd\ufffdme.npz" in (Path(out) / "index.html").read_text()
    assert cli.main(["compare", path, path, "--out", out + "2"]) == 0


def test_parquet_shards_of_one_split(tmp_path: Path, few_figures: None) -> None:
    """Columns by name, files by number, and rows held out: as the same arrays in one file."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    arrays = small_features()
    z, y = arrays["train/projection"], arrays["train/labels"]
    write_store(tmp_path / "z.safetensors", {"emb": z, "kind": z, "labels": y})
    (tmp_path / "shards").mkdir()
    for i, rows in enumerate(torch.arange(len(y)).split(40)):
        columns = {"emb": list(z[rows].numpy()), "kind": y[rows].numpy()}
        pq.write_table(pa.table(columns), tmp_path / "shards" / f"part-{i}.parquet")
    found = []
    for name, options in (("z.safetensors", []), ("shards", ["--labels", "kind"])):
        given = [str(tmp_path / name), "--out", str(tmp_path / f"out-{name}")]
        assert cli.main(["analyze", *given, "--features", "emb", *options]) == 0
        text = (tmp_path / f"out-{name}" / "index.html").read_text()
        assert "one split only" in text and "(seed 0)" in text
        results = json.loads((tmp_path / f"out-{name}" / "results.json").read_text())
        assert set(results["features"]) == {"emb"}
        found.append(results["features"]["emb"] | {"seconds": None})
    assert found[0] == found[1]


def test_one_split_is_divided(tmp_path: Path) -> None:
    arrays = small_features()
    both = {n: torch.cat([arrays[f"train/{n}"], arrays[f"test/{n}"]]) for n in
            ("labels", "projection")}  # fmt: skip
    prepared = prepare(FeatureStore("file", both))
    counts = torch.tensor(COUNTS) + HELD_OUT
    assert prepared.store.label_counts("test").tolist() == (0.2 * counts).round().tolist()
    assert "a fifth" in prepared.notes[0] and "seed 0" in prepared.notes[0]


def test_gaps_are_left_out() -> None:
    arrays = small_features()
    for split in ("train", "test"):
        arrays[f"{split}/labels"] = 2 * arrays[f"{split}/labels"] + 1
    prepared = prepare(FeatureStore("file", arrays, {"num_classes": 20}))
    assert prepared.store.num_classes == 6
    assert prepared.names == ("1", "3", "5", "7", "9", "11")
    assert "6 labels below 11 have no rows" in prepared.notes[0]


# Bad input: one line with the file and the rule, exit status 2, and no folder


def changed(**changes: Any) -> Callable[[Path], Path]:
    """A store with arrays replaced (underscores for slashes), or left out by None."""

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


def bomb(folder: Path) -> Path:
    """A file of kilobytes that decodes to a gigabyte and more."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    values = pa.DictionaryArray.from_arrays(np.zeros(10**7, np.int8), pa.array([1.0]))
    lists = pa.FixedSizeListArray.from_arrays(values.dictionary_decode(), 100)
    pq.write_table(pa.table({"x": lists}), folder / "bomb.parquet")
    return folder / "bomb.parquet"


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
        "test/projection of .* of dimension 8, as in train/projection, got 9",
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
    "temperature": (changed(), "--temperature > 0", ["--temperature", "-1"]),
    "bomb": (bomb, "decode to .* beyond the limit", []),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case: str, tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(parquet, "FREE_BYTES", 1 << 20)
    make, message, options = BAD[case]
    path = make(tmp_path)
    before = sorted(os.listdir(tmp_path))
    assert cli.main(["analyze", str(path), "--out", str(tmp_path / "out"), *options]) == 2
    told = capsys.readouterr().err
    assert len(told.splitlines()) == 1 and re.search(message, told), told
    assert case == "temperature" or str(path) in told
    assert sorted(os.listdir(tmp_path)) == before


# compare


def test_compare(tmp_path: Path, capsys: Any) -> None:
    for name, noise in (("a", 1.2), ("b", 0.6)):
        arrays = small_features(noise=noise, names=("encoder", "projection"))
        write_store(tmp_path / f"{name}.safetensors", arrays)
    out = tmp_path / "out"
    files = [str(tmp_path / f"{name}.safetensors") for name in "ab"]
    assert cli.main(["compare", *files, "--out", str(out)]) == 0
    with open(out / "tables" / "projection-comparison.csv") as file:
        rows = {row["quantity"]: row for row in csv.DictReader(file)}
    row = rows["accuracy, Native"]
    assert (out / "index.html").read_text().count("Original vMF") == 2  # one a space
    assert float(row["B"]) > float(row["A"])
    assert float(row["B - A"]) == pytest.approx(float(row["B"]) - float(row["A"]))
    assert float(rows["mean gain"]["B - A"]) > 0
    results = json.loads((out / "results.json").read_text())
    assert set(results["features"]["encoder"]) == {"A", "B", "verdict"}
    assert results["better"] == "B" == results["summary"]["better"][0]
    assert {p.name for p in (out / "figures").glob("projection*.pdf")} == {
        f"projection-{name}.pdf" for name in ("gains", "accuracy", "calibration")
    }
    assert "A = a.safetensors, B = b.safetensors" in capsys.readouterr().out


def test_what_is_compared() -> None:
    paths = (Path("a"), Path("b"))
    assert paired([("x", "y"), ("y", "z")], paths) == {"y": ("y", "y")}
    assert paired([("x",), ("z",)], paths) == {"x, z": ("x", "z")}
    with pytest.raises(ValueError, match="one name in both, got x, y in a and z in b"):
        paired([("x", "y"), ("z",)], paths)


def test_networks_are_told_from_features(tmp_path: Path) -> None:
    write_store(tmp_path / "z.safetensors", small_features())
    save(tmp_path / "n.safetensors", {"w": torch.ones(2)}, {"num_classes": 2})
    (tmp_path / "x.safetensors").write_bytes(b"")
    assert is_network(tmp_path / "n.safetensors")
    for name in ("z.safetensors", "x.safetensors", "none.safetensors", "z.npz"):
        assert not is_network(tmp_path / name)
