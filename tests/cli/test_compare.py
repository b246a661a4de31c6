"""``resultant compare``: networks, features, the verdict, and input that is refused."""

from __future__ import annotations

import csv
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import resultant
from resultant._core import tensor_files
from resultant._core.network_files import find_network, is_network
from resultant.cli import main as cli
from resultant.cli.arguments import DATA_VARIABLE
from resultant.cli.compare import match_names
from resultant.cli.progress import EpochProgress
from resultant.features.store import FeatureStore, write_store
from resultant.training.extract import load_network
from small_features import COUNTS, HELD_OUT, small_features

pytest.importorskip("matplotlib")
pytest.importorskip("tyro")

Shown = pytest.CaptureFixture[str]

NATIVE, ANGULAR = "native-seed0", "angular-beta0-seed0"


@pytest.fixture(scope="module")
def stopped(cifar: Path, train: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a native and an angular run, stopped by Ctrl-C after one of two epochs."""
    out = tmp_path_factory.mktemp("stopped")

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    words = ["--epochs", "2", "--checkpoint-every", "1", "--realization", "native", "angular"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EpochProgress, "__call__", stop)
        assert train(*words, "--data", cifar, "--out", out, "--no-evaluate") == 130
    assert sorted(p.name for p in out.iterdir()) == ["checkpoint.safetensors", "metrics.jsonl"]
    return out


def cosine_rule(features: Path, name: str) -> torch.Tensor:
    """True for the held-out rows that the cosine rule classifies correctly, from class means."""
    store = FeatureStore.open(features)
    x, z = (
        torch.nn.functional.normalize(store[f"{split}/{name}"].double(), dim=1)
        for split in ("train", "test")
    )
    y = store["train/labels"]
    mu = torch.stack([x[y == c].mean(0) for c in range(store.num_classes)])
    best = (z @ torch.nn.functional.normalize(mu, dim=1).T).argmax(1)
    return best == store["test/labels"]


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_two_networks(cifar: Path, trained: Path, tmp_path: Path, capsys: Shown) -> None:
    """The page is about the features of both, and says which network is better."""
    files = [trained / f"{name}.safetensors" for name in (NATIVE, ANGULAR)]
    out = tmp_path / "out"
    words = [*map(str, files), "--data", str(cifar), "--out", str(out)]
    assert cli.main(["compare", *words]) == 0
    shown = capsys.readouterr().out
    assert f"A = {NATIVE}.safetensors, B = {ANGULAR}.safetensors" in shown
    assert "B - A is" in shown and "the same 30 held-out rows" in shown
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out"]
    results = json.loads((out / "results.json").read_text())
    assert set(results["features"]) == {"encoder", "projection"}
    html = (out / "index.html").read_text()
    assert "Neither side is shown to be better" in html or " is better: " in html
    for side, path, name in zip("AB", files, ("native", "angular"), strict=True):
        assert results[side]["source"] == str(path)
        assert results[side]["metadata"]["run"]["realization"] == name
        # The same numbers as by extract and a count.
        store = tmp_path / f"{side}.safetensors"
        words = ["--data", str(cifar), "--out", str(store), "--device", "cpu"]
        assert cli.main(["extract", str(path), *words]) == 0
        for feature, answers in results["features"].items():
            assert answers[side]["space"]["held_out"] == 30
            points = answers[side]["grid"]["points"]
            (point,) = (p for p in points if p["realization"] == "cosine" and p["gamma"] == 0)
            expected = float(cosine_rule(store, feature).double().mean())
            assert point["accuracy"] == pytest.approx(expected, abs=1e-12)
    for answers in results["features"].values():
        v = answers["verdict"]
        assert v["same_rows"] and v["rows"] == [30, 30]
        assert v["gain"] == pytest.approx(v["accuracy"][1] - v["accuracy"][0])
        for side, accuracy in zip("AB", v["accuracy"], strict=True):
            advice = answers[side]["advice"]
            (row,) = (r for r in advice["table"] if r["key"] == advice["advised"])
            assert accuracy == pytest.approx(row["accuracy"])


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_a_network_and_features(cifar: Path, trained: Path, tmp_path: Path, capsys: Shown) -> None:
    """Against its own features a network is neither better nor worse."""
    path, store = trained / f"{ANGULAR}.safetensors", tmp_path / "x.safetensors"
    data = ["--data", str(cifar), "--device", "cpu"]
    assert cli.main(["extract", str(path), "--out", str(store), *data]) == 0
    out = tmp_path / "out"
    words = ["--features", "projection", "--out", str(out), *data]
    assert cli.main(["compare", str(path), str(store), *words]) == 0
    assert "a tie: " in capsys.readouterr().out
    results = json.loads((out / "results.json").read_text())
    (found,) = results["features"].values()
    # The same but for times, and for code that opens the file.
    others = {"seconds": 0, "advice": 0}
    assert found["A"] | others == found["B"] | others
    rules = [[(r["key"], r["accuracy"]) for r in found[s]["advice"]["table"]] for s in "AB"]
    assert rules[0] == rules[1] and found["B"]["advice"]["snippet"]
    assert results["better"] is None and found["verdict"]["gain"] == 0
    assert results["A"]["metadata"] == results["B"]["metadata"]


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_an_unfinished_training(
    cifar: Path, trained: Path, stopped: Path, tmp_path: Path, capsys: Shown
) -> None:
    """Its runs are named behind a colon; they are networks of their own."""
    path = stopped / "checkpoint.safetensors"
    out, words = tmp_path / "out", ["--data", str(cifar), "--features", "encoder"]
    given = [f"{path}:{NATIVE}", f"{path}:{ANGULAR}"]
    assert cli.main(["compare", *given, *words, "--out", str(out)]) == 0
    results = json.loads((out / "results.json").read_text())
    for side, name in zip("AB", ("native", "angular"), strict=True):
        about = results[side]["metadata"]
        assert (about["run"]["realization"], about["epoch"]) == (name, 1)
    # A checkpoint at the end of a job is the networks that the job wrote.
    for name in (NATIVE, ANGULAR):
        whole = load_network(trained / f"{name}.safetensors")
        part = load_network(f"{trained / 'checkpoint.safetensors'}:{name}")
        assert (part.config, part.run, part.num_classes) == (whole.config, whole.run, 10)
        weights = part.network.state_dict()
        assert weights.keys() == whole.network.state_dict().keys()
        for key, a in whole.network.state_dict().items():
            assert torch.equal(weights[key], a)
        for key, a in whole.banks.items():
            assert torch.equal(part.banks[key], a)
    capsys.readouterr()
    for wrong in (str(path), str(stopped), f"{path}:cosine-seed0"):
        assert cli.main(["compare", wrong, given[0], *words, "--out", str(tmp_path / "no")]) == 2
        shown = capsys.readouterr().err
        assert f"expected one of {NATIVE}, {ANGULAR} behind checkpoint.safetensors" in shown


@pytest.mark.slow
def test_folders(cifar: Path, trained: Path, tmp_path: Path) -> None:
    """A folder stands for its only network; of a job that goes on, for the checkpoint."""
    assert find_network(tmp_path) is None
    write_store(tmp_path / "z.safetensors", small_features())
    assert find_network(tmp_path) is None and not is_network(tmp_path / "z.safetensors")
    (tmp_path / "job" / "run").mkdir(parents=True)
    last = tmp_path / "job" / "run" / "checkpoint.safetensors"
    last.write_bytes((trained / "checkpoint.safetensors").read_bytes())
    assert find_network(tmp_path / "job") == last
    done = last.with_name(f"{NATIVE}.safetensors")
    done.write_bytes((trained / done.name).read_bytes())
    assert find_network(tmp_path / "job") == done == find_network(done)
    with pytest.raises(ValueError, match=r"one network .* got job/run/native.*, z\.safetensors"):
        find_network(tmp_path)


@pytest.mark.slow
def test_two_files(tmp_path: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole report; the summary on standard output, steps and copies on standard error."""
    for name, noise in (("a", 0.9), ("b", 0.45)):
        arrays = small_features(1, dim=8, noise=noise)
        write_store(tmp_path / f"{name}.safetensors", arrays)
    out = tmp_path / "out"
    files = [str(tmp_path / f"{name}.safetensors") for name in "ab"]
    assert cli.main(["compare", *files, "--out", str(out), "--figures"]) == 0
    with open(out / "tables" / "projection-comparison.csv") as file:
        rows = {row["quantity"]: row for row in csv.DictReader(file)}
    row = rows["accuracy, Native"]
    assert float(row["B"]) > float(row["A"])
    assert float(row["B - A"]) == pytest.approx(float(row["B"]) - float(row["A"]))
    assert float(rows["mean gain"]["B - A"]) > 0
    results = json.loads((out / "results.json").read_text())
    assert set(results["features"]["projection"]) == {"A", "B", "verdict"}
    assert results["better"] == "B" == results["summary"]["better"][0]
    assert {p.name for p in (out / "figures").glob("*.pdf")} == {
        f"projection-{name}.pdf"
        for name in (
            *("gains", "calibration", "along-beta", "along-temperature", "along-prior", "groups"),
            "classes",
        )
    }
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert lines[0].startswith("better ") and lines[-1].startswith("report ")
    assert not any(line.startswith(" ") for line in lines)
    assert "A = a.safetensors, B = b.safetensors" in shown.out
    for step in ("A: check", "A: projection: statistics", "B: projection: cosine", "figures"):
        assert f" s  {step}\n" in shown.err


def test_names_to_compare() -> None:
    paths = (Path("a"), Path("b"))
    assert match_names([("x", "y"), ("y", "z")], paths) == {"y": ("y", "y")}
    assert match_names([("x",), ("z",)], paths) == {"x, z": ("x", "z")}
    with pytest.raises(ValueError, match="one name in both, got x, y in a and z in b"):
        match_names([("x", "y"), ("z",)], paths)


def other_classes(folder: Path, trained: Path) -> Path:
    tensors, about = tensor_files.load(trained / f"{NATIVE}.safetensors")
    tensors = {name: a for name, a in tensors.items() if not name.startswith("classifier.")}
    tensor_files.save(
        folder / "other.safetensors", tensors, about | {"num_classes": 7, "class_names": []}
    )
    return folder / "other.safetensors"


def other_data(folder: Path, trained: Path) -> Path:
    tensors, about = tensor_files.load(trained / f"{NATIVE}.safetensors")
    about["config"]["dataset"] = "cifar100"
    tensor_files.save(folder / "other.safetensors", tensors, about)
    return folder / "other.safetensors"


def features(folder: Path, trained: Path) -> Path:
    write_store(folder / "z.safetensors", small_features(names=("projection",)))
    return folder / "z.safetensors"


def other_features(folder: Path, trained: Path) -> Path:
    arrays = small_features(names=("projection",))
    write_store(folder / "z.safetensors", arrays, {"dataset": "imagenet-lt"})
    return folder / "z.safetensors"


def letter(folder: Path, trained: Path) -> Path:
    (folder / "letter.txt").write_text("not a network")
    return folder / "letter.txt"


def broken(folder: Path, trained: Path) -> Path:
    tensors, about = tensor_files.load(trained / f"{NATIVE}.safetensors")
    tensor_files.save(folder / "other.safetensors", tensors, about | {"run": {"colour": "red"}})
    return folder / "other.safetensors"


REFUSED: dict[str, tuple[Any, str]] = {
    "other classes": (other_classes, "expected images of 7 classes, as the network has, got 10"),
    "other data": (other_data, "expected cifar100 in ROOT as one of"),
    "other classes of features": (features, "expected one number of classes in both, got 10 in"),
    "other data of features": (other_features, "expected one dataset in both, got cifar10 in"),
    "no file": (lambda folder, _: folder / "none.safetensors", "got no such file"),
    "neither": (letter, "letter.txt to be a folder or a file of features (.safetensors, .npz"),
    "several": (lambda _, trained: trained, "expected one network in the folder"),
    "records": (lambda _, trained: trained / "records.jsonl", "a network, got records"),
    "facts": (broken, "expected the facts of a run in"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
def test_refuses(case: str, cifar: Path, trained: Path, tmp_path: Path, capsys: Shown) -> None:
    make, message = REFUSED[case]
    wrong = make(tmp_path, trained)
    before = sorted(os.listdir(tmp_path)), sorted(os.listdir(trained))
    path = trained / f"{NATIVE}.safetensors"
    words = ["--data", str(cifar), "--out", str(tmp_path / "out")]
    assert cli.main(["compare", str(path), str(wrong), *words]) == 2
    shown = capsys.readouterr().err
    assert len(shown.splitlines()) == 1 and message.replace("ROOT", str(cifar)) in shown, shown
    assert (sorted(os.listdir(tmp_path)), sorted(os.listdir(trained))) == before


@pytest.mark.slow
def test_refuses_options(
    cifar: Path, trained: Path, tmp_path: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    both = [str(trained / f"{name}.safetensors") for name in (NATIVE, ANGULAR)]
    for words, message in (
        ([], f"expected datasets at --data, .* got nothing at {tmp_path / 'data'}"),
        (["--data", "nowhere"], "expected cifar10 in nowhere as one of"),
        (["--data", str(cifar), "--features", "depth"], "expected features of one name in both"),
        (["--data", str(cifar), "--temperature", "0"], "--temperature > 0"),
        (["--data", str(cifar), "--device", "gpu"], "expected --device auto, cpu, cuda or cuda:N"),
    ):
        assert cli.main(["compare", *both, *words]) == 2
        shown = capsys.readouterr().err
        assert len(shown.splitlines()) == 1
        assert re.search(message, shown), shown
        assert not list(tmp_path.iterdir())
    for engine in ("local", "ray"):
        assert cli.main(["analyze", both[0], "--engine", engine]) == 2
        assert "expected features, got a network" in capsys.readouterr().err
    words = ["analyze", "z/*.parquet", "--engine", "ray", "--device", "cuda"]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert cli.main(words) == 2
    assert "expected --device cpu with --engine ray, got cuda" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_bad_rows_are_found_before_any_work(
    tmp_path: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_store("a.safetensors", arrays := small_features(names=("projection",)))
    arrays["train/projection"][7] = float("nan")
    save_file(arrays, "b.safetensors")
    assert cli.main(["compare", "a.safetensors", "b.safetensors"]) == 2
    shown = capsys.readouterr()
    assert "train/projection of b.safetensors finite, got nan in row 7" in shown.err
    assert "statistics" not in shown.out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.safetensors", "b.safetensors"]


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_other_classes_are_not_compared(
    tmp_path: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many classes, which are not the same."""
    monkeypatch.chdir(tmp_path)
    arrays = small_features(names=("projection",))
    named = {"class_names": list("abcdef")}
    for name, factor, about in (("a", 1, {}), ("b", 3, {}), ("c", 1, named)):
        labels = {n: factor * a for n, a in arrays.items() if n.endswith("labels")}
        write_store(f"{name}.safetensors", arrays | labels, about)
    both = ["a.safetensors", "b.safetensors"]
    assert cli.main(["compare", *both]) == 2
    shown = "class 1 is called '1' in a.safetensors and '3' in b.safetensors"
    assert f"expected the same classes in both, but {shown}" in capsys.readouterr().err
    # Names and numbers may be of the same.
    assert cli.main(["compare", "a.safetensors", "c.safetensors"]) == 0
    # Unless the labels were words, and their numbers are but their order.
    words = {n: np.array(list("fedcba"))[a] for n, a in arrays.items() if n.endswith("labels")}
    plain = {n: a.numpy() for n, a in arrays.items()}
    np.savez("d.npz", allow_pickle=False, **plain | words)
    capsys.readouterr()
    for both in (["a.safetensors", "d.npz"], ["d.npz", "a.safetensors"]):
        assert cli.main(["compare", *both]) == 2
        called = {"a.safetensors": "'0'", "d.npz": "'a'"}
        shown = " and ".join(f"{called[name]} in {name}" for name in both)
        assert f"but class 0 is called {shown}\n" in capsys.readouterr().err
    # By name, they are those of c.
    assert cli.main(["compare", "c.safetensors", "d.npz"]) == 0


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_features_of_other_rows(tmp_path: Path, capsys: Shown) -> None:
    """Different held-out labels are not paired; the better side is named."""
    for name, noise, seed in (("a", 4.0, 0), ("b", 0.3, 1)):
        arrays = small_features(seed, noise=noise)
        if name == "a":
            order = torch.randperm(len(COUNTS) * HELD_OUT, generator=torch.Generator())
            arrays |= {n: a[order] for n, a in arrays.items() if n.startswith("test/")}
        write_store(tmp_path / f"{name}.safetensors", arrays)
    files = [str(tmp_path / f"{name}.safetensors") for name in "ab"]
    assert cli.main(["compare", *files, "--out", str(tmp_path / "out")]) == 0
    assert "120 and 120 held-out rows, which are not known" in capsys.readouterr().out
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["better"] == "B"
    page = (tmp_path / "out" / "index.html").read_text()
    assert f"<footer><p>resultant {resultant.__version__}, " in page
    verdict = results["features"]["projection"]["verdict"]
    assert not verdict["same_rows"] and verdict["low"] > 0
