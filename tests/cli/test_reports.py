"""``resultant analyze`` and ``compare``: the files and the summary of a report, verdicts."""

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

from cli.conftest import Shown, call, recommended, results
from embedding_files import write
from resultant.features.store import write_store
from small_features import COUNTS, HELD_OUT, NAMES, small_features, untimed

pytestmark = pytest.mark.slow


def arrays_of(**options: Any) -> dict[str, Any]:
    return {name: a.numpy() for name, a in small_features(**options).items()}


@pytest.mark.usefixtures("one_precision")
def test_report(capsys: Shown) -> None:
    """Summary, steps, all files and predictions, the same each time, also of hostile names."""
    about = {"class_names": list(NAMES), "num_classes": 6}
    arrays = small_features(dim=8, noise=0.6, names=("encoder", "projection"))
    write_store("z.safetensors", arrays, about)
    assert call("analyze z.safetensors --out out") == 0
    shown = capsys.readouterr()
    headings = [line.split()[0] for line in shown.out.splitlines()]
    assert headings[0] == "read" and headings[-1] == "page" and "use" in headings
    assert set(headings) <= {"read", "check", "use", "why", "warning", "note", "next", "page"}
    for step in ("read and check the rows", "projection: search vMF settings", "write the report"):
        assert f" s  {step}\n" in shown.err
    assert sorted(os.listdir()) == ["out", "z.safetensors"]
    report, found = Path("out"), results("out")
    names = {"index.html", "tables", *found["files"].values()}
    assert {p.name for p in report.iterdir()} == names
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
    assert call("analyze z.safetensors --out again") == 0
    assert untimed(found["features"]) == untimed(results("again")["features"])


@pytest.mark.usefixtures("brief")
def test_json_and_quiet(capsys: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON alone on standard output; a table on standard input; nothing but errors and figures."""
    arrays = arrays_of()
    columns = {f"x{i}": column for i, column in enumerate(arrays["train/projection"].T)}
    columns["label"] = np.array([f"c{c}" for c in arrays["train/labels"]])
    text = write(Path("z.csv"), columns).read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert call("analyze - --out out --json -") == 0
    summary = json.loads(capsys.readouterr().out)
    (feature,) = summary["features"]
    assert feature["source"] == "standard input" and feature["classes"] == 6
    assert {*pq.read_table("out/predictions.parquet")["file"].to_pylist()} == {"standard input"}
    assert feature["recommendation"]["key"] in {m["key"] for m in feature["methods"]}
    assert Path(summary["page"]).exists()
    assert call("analyze z.csv --out out --json s.json --quiet --figures") == 0
    assert {p.suffix for p in Path("out", "figures").iterdir()} == {".pdf", ".png"}
    assert capsys.readouterr() == ("", "")
    again = json.loads(Path("s.json").read_text())
    assert again["features"][0]["methods"] == feature["methods"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert call("analyze - --quiet") == 2
    assert "expected a table on the standard input, got nothing" in capsys.readouterr().err


@pytest.mark.usefixtures("brief")
def test_reports_among_other_files(capsys: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of others are neither replaced nor removed, and a failed report leaves nothing."""
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


@pytest.mark.usefixtures("brief")
def test_the_features_of_two_networks(cifar: Path, trained: Path, capsys: Shown) -> None:
    """Features of the same name are compared; a network equals itself."""
    a, b = (trained / f"{name}-seed0.safetensors" for name in ("native", "angular-beta0"))
    for network, store in ((a, "a"), (b, "b"), (b, "x")):
        assert call(f"extract {network} --out {store}.safetensors --data {cifar} --device cpu") == 0
    assert call("compare a.safetensors b.safetensors --out out") == 0
    assert "for B on the same test rows" in capsys.readouterr().out
    found = results("out")
    assert [f["data"]["name"] for f in found["features"]] == 2 * ["encoder", "projection"]
    assert len(found["comparisons"]) == 2
    for c in found["comparisons"]:
        methods = (recommended(found["features"][c[side]]) for side in "ab")
        first, second = (method[c["metric"].split()[0]]["value"] for method in methods)
        assert c["paired"] and c["rows"] == 30
        assert c["difference"]["gain"] == pytest.approx(second - first)
    assert call("compare b.safetensors x.safetensors --features projection --out out") == 0
    assert "A and B are not significantly different" in capsys.readouterr().out
    found = results("out")
    first, second = (untimed(feature["methods"]) for feature in found["features"])
    assert first == second and found["comparisons"][0]["difference"]["gain"] == 0


@pytest.mark.usefixtures("one_precision")
def test_two_files(capsys: Shown) -> None:
    """The whole report; the verdict on standard output, steps on standard error."""
    for name, noise in (("a", 0.9), ("b", 0.45)):
        write_store(f"{name}.safetensors", small_features(1, dim=8, noise=noise))
    assert call("compare a.safetensors b.safetensors --out out --json s") == 0
    found = results("out")
    (comparison,) = found["comparisons"]
    assert comparison["difference"]["verdict"] == "better" and not comparison["paired"]
    assert found["chosen"] == 1 and found["title"] == "a.safetensors and b.safetensors"
    assert json.loads(Path("s").read_text())["comparisons"] == [comparison]
    shown = capsys.readouterr()
    assert "verdict B is better than A: " in shown.out
    assert "not known to be the same" in shown.out
    for step in ("A: search vMF settings", "B: map and sliders", "write the report"):
        assert f" s  {step}\n" in shown.err


@pytest.mark.usefixtures("brief")
def test_other_classes_are_not_compared(capsys: Shown) -> None:
    """By name, or by number if they have no names; numbers of words are but their order."""
    arrays = arrays_of()

    def labels(change: Any) -> dict[str, Any]:
        return arrays | {n: change(a) for n, a in arrays.items() if n.endswith("labels")}

    np.savez("a", allow_pickle=False, **arrays)
    np.savez("thrice", allow_pickle=False, **labels(lambda y: 3 * y))
    np.savez("named", allow_pickle=False, class_names=np.array(list("abcdef")), **arrays)
    np.savez("words", allow_pickle=False, **labels(lambda y: np.array(list("fedcba"))[y]))
    write_store("encoder.safetensors", small_features(names=("encoder",)))
    write_store("two.safetensors", small_features(names=("encoder", "head")))
    classes = "expected the same classes in both, but class"
    for a, b, fact in (
        ("a.npz", "thrice.npz", f"{classes} 1 is called '1' in a.npz and '3' in thrice.npz"),
        ("a.npz", "words.npz", f"{classes} 0 is called '0' in a.npz and 'a' in words.npz"),
        ("a.npz", "two.safetensors", "got projection in a.npz and encoder, head in two"),
        ("a.npz", "encoder.safetensors", ""),
        ("a.npz", "named.npz", ""),
        ("named.npz", "words.npz", ""),
    ):
        assert call(f"compare {a} {b}") == (2 if fact else 0)
        assert fact in capsys.readouterr().err
