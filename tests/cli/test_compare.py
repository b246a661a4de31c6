"""The command compare from the shell's words on: networks that train wrote, and features."""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from resultant.cli.options import VARIABLE
from safetensors.torch import save_file

import resultant
from resultant._core import tensor_files
from resultant._core.network_files import find_network, is_network
from resultant.cli import main as cli
from resultant.cli.progress import Watch
from resultant.features.store import FeatureStore, write_store
from resultant.report import comparison
from resultant.training.extract import load_network
from small_features import COUNTS, HELD_OUT, small_features
from tiny_cifar import tiny_cifar

pytest.importorskip("matplotlib")
pytest.importorskip("tyro")

Shown = pytest.CaptureFixture[str]

SMALL = "--imbalance 3 --dim 8 --batch-size 8 --learning-rate 0.02 --device cpu --no-evaluate"
NATIVE, ANGULAR = "native-seed0", "angular-beta0-seed0"


def write_cifar(folder: Path, name: str, num_classes: int) -> None:
    data = tiny_cifar(num_classes, 6, 3)
    names = ("train_images", "train_labels", "test_images", "test_labels")
    np.savez(folder / f"{name}.npz", **{n: getattr(data, n).numpy() for n in names})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CIFAR-10 of 60 training and 30 test images, as an .npz."""
    folder = tmp_path_factory.mktemp("data")
    write_cifar(folder, "cifar10", 10)
    return folder


def train(root: Path, out: Path, *words: str) -> int:
    words = (*SMALL.split(), "--data", str(root), "--out", str(out), *words)
    return cli.main(["train", "cifar-controlled", *words])


@pytest.fixture(scope="module")
def trained(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a native and an angular run of one epoch."""
    out = tmp_path_factory.mktemp("trained")
    assert train(root, out, "--epochs", "1", "--realization", "native", "angular") == 0
    return out


@pytest.fixture(scope="module")
def stopped(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the same runs, stopped by Ctrl-C after the first of two epochs."""
    out = tmp_path_factory.mktemp("stopped")

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    words = ["--epochs", "2", "--checkpoint-every", "1", "--realization", "native", "angular"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Watch, "__call__", stop)
        assert train(root, out, *words) == 130
    assert sorted(p.name for p in out.iterdir()) == ["checkpoint.safetensors", "metrics.jsonl"]
    return out


@pytest.fixture
def few_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """One figure a feature, for what does not depend on them."""
    whole = comparison.drawings
    monkeypatch.setattr(comparison, "drawings", lambda pair: whole(pair)[:1])


def right(features: Path, name: str) -> torch.Tensor:
    """Which held-out rows of a store the cosine rule gets right, by nothing but means."""
    store = FeatureStore.open(features)
    x, z = (
        torch.nn.functional.normalize(store[f"{split}/{name}"].double(), dim=1)
        for split in ("train", "test")
    )
    y = store["train/labels"]
    mu = torch.stack([x[y == c].mean(0) for c in range(store.num_classes)])
    best = (z @ torch.nn.functional.normalize(mu, dim=1).T).argmax(1)
    return best == store["test/labels"]


def test_two_networks(root: Path, trained: Path, tmp_path: Path, capsys: Shown) -> None:
    """The page is that of the features of both, and says which is better."""
    files = [trained / f"{name}.safetensors" for name in (NATIVE, ANGULAR)]
    out = tmp_path / "out"
    words = [*map(str, files), "--data", str(root), "--out", str(out)]
    assert cli.main(["compare", *words]) == 0
    told = capsys.readouterr().out
    assert f"A = {NATIVE}.safetensors, B = {ANGULAR}.safetensors" in told
    assert "B - A is" in told and "the same 30 rows" in told
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out"]
    results = json.loads((out / "results.json").read_text())
    assert set(results["features"]) == {"encoder", "projection"}
    html = (out / "index.html").read_text()
    assert results["summary"]["better"].split(":")[0] in html
    for side, path, name in zip("AB", files, ("native", "angular"), strict=True):
        assert results[side]["source"] == str(path)
        assert results[side]["metadata"]["run"]["realization"] == name
        # The same numbers as by extract and a count.
        store = tmp_path / f"{side}.safetensors"
        words = ["--data", str(root), "--out", str(store), "--device", "cpu"]
        assert cli.main(["extract", str(path), *words]) == 0
        for feature, found in results["features"].items():
            assert found[side]["space"]["held_out"] == 30
            points = found[side]["grid"]["points"]
            (point,) = (p for p in points if p["realization"] == "cosine" and p["gamma"] == 0)
            expected = float(right(store, feature).double().mean())
            assert point["accuracy"] == pytest.approx(expected, abs=1e-12)
    for found in results["features"].values():
        v = found["verdict"]
        assert v["same_rows"] and v["rows"] == [30, 30]
        assert v["gain"] == pytest.approx(v["accuracy"][1] - v["accuracy"][0])
        for side, accuracy in zip("AB", v["accuracy"], strict=True):
            r = found[side]["recommendation"]
            kept = r["realization"] == "native"
            assert accuracy == pytest.approx(r["accuracy_before" if kept else "accuracy_after"])


@pytest.mark.usefixtures("few_figures")
def test_a_network_and_features(root: Path, trained: Path, tmp_path: Path, capsys: Shown) -> None:
    """Against its own features a network is neither better nor worse."""
    path, store = trained / f"{ANGULAR}.safetensors", tmp_path / "x.safetensors"
    data = ["--data", str(root), "--device", "cpu"]
    assert cli.main(["extract", str(path), "--out", str(store), *data]) == 0
    out = tmp_path / "out"
    words = ["--features", "projection", "--out", str(out), *data]
    assert cli.main(["compare", str(path), str(store), *words]) == 0
    assert "neither is shown to be" in capsys.readouterr().out
    results = json.loads((out / "results.json").read_text())
    (found,) = results["features"].values()
    assert found["A"] | {"seconds": 0} == found["B"] | {"seconds": 0}
    assert results["better"] is None and found["verdict"]["gain"] == 0
    assert results["A"]["metadata"] == results["B"]["metadata"]


@pytest.mark.usefixtures("few_figures")
def test_an_unfinished_training(
    root: Path, trained: Path, stopped: Path, tmp_path: Path, capsys: Shown
) -> None:
    """Its runs are named behind a colon; they are networks of their own."""
    path = stopped / "checkpoint.safetensors"
    out, words = tmp_path / "out", ["--data", str(root), "--features", "encoder"]
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
        told = capsys.readouterr().err
        assert f"expected one of {NATIVE}, {ANGULAR} behind checkpoint.safetensors" in told


def test_folders(root: Path, trained: Path, tmp_path: Path) -> None:
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


# What is refused: one line, status 2, and nothing written


def other_classes(folder: Path, trained: Path) -> Path:
    tensors, about = tensor_files.load(trained / f"{NATIVE}.safetensors")
    tensor_files.save(folder / "other.safetensors", tensors, about | {"num_classes": 7})
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
    "other data of features": (other_features, "expected one data set in both, got cifar10 in"),
    "no file": (lambda folder, _: folder / "none.safetensors", "got no such file"),
    "neither": (letter, "letter.txt to be a folder or a file of features (.safetensors, .npz"),
    "several": (lambda _, trained: trained, "expected one network in the folder"),
    "records": (lambda _, trained: trained / "records.jsonl", "a network, got records"),
    "facts": (broken, "expected the facts of a run in"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses(case: str, root: Path, trained: Path, tmp_path: Path, capsys: Shown) -> None:
    make, message = REFUSED[case]
    wrong = make(tmp_path, trained)
    before = sorted(os.listdir(tmp_path)), sorted(os.listdir(trained))
    path = trained / f"{NATIVE}.safetensors"
    words = ["--data", str(root), "--out", str(tmp_path / "out")]
    assert cli.main(["compare", str(path), str(wrong), *words]) == 2
    told = capsys.readouterr().err
    assert len(told.splitlines()) == 1 and message.replace("ROOT", str(root)) in told, told
    assert (sorted(os.listdir(tmp_path)), sorted(os.listdir(trained))) == before


def test_refuses_options(
    root: Path, trained: Path, tmp_path: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    both = [str(trained / f"{name}.safetensors") for name in (NATIVE, ANGULAR)]
    for words, message in (
        ([], f"expected data sets at --data, .* got nothing at {tmp_path / 'data'}"),
        (["--data", "nowhere"], "expected cifar10 in nowhere as one of"),
        (["--data", str(root), "--features", "depth"], "expected features of one name in both"),
        (["--data", str(root), "--temperature", "0"], "--temperature > 0"),
        (["--data", str(root), "--device", "gpu"], "expected --device auto, cpu, cuda or cuda:N"),
    ):
        assert cli.main(["compare", *both, *words]) == 2
        told = capsys.readouterr().err
        assert len(told.splitlines()) == 1
        assert re.search(message, told), told
        assert not list(tmp_path.iterdir())
    assert cli.main(["analyze", both[0]]) == 2
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


@pytest.mark.usefixtures("few_figures")
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
    told = "class 1 is called '1' in a.safetensors and '3' in b.safetensors"
    assert f"expected the same classes in both, but {told}" in capsys.readouterr().err
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
        told = " and ".join(f"{called[name]} in {name}" for name in both)
        assert f"but class 0 is called {told}\n" in capsys.readouterr().err
    # By name, they are those of c.
    assert cli.main(["compare", "c.safetensors", "d.npz"]) == 0


# Which is better


def test_verdict_on_the_same_rows() -> None:
    """Only rows that one of the two gets right count."""
    a = torch.tensor([True] * 50 + [False] * 20 + [True] * 4 + [False] * 26)
    b = torch.tensor([True] * 50 + [True] * 20 + [False] * 4 + [False] * 26)
    found = comparison.verdict(a, b, same_rows=True)
    assert found.accuracy == (0.54, 0.70) and found.better == "B"
    # McNemar: as many or fewer than 4 of 24 heads, on both sides.
    tail = sum(math.comb(24, k) for k in range(5)) / 2**24
    assert found.p == pytest.approx(2 * tail)
    differences = b.double() - a.double()
    reach = 1.96 * float(differences.std(correction=0)) / 10
    assert (found.low, found.high) == pytest.approx((0.16 - reach, 0.16 + reach), abs=1e-4)
    assert comparison.verdict(b, a, same_rows=True).better == "A"
    assert (same := comparison.verdict(a, a, same_rows=True)).better is None
    # Not an interval of no width.
    assert comparison._answer("z", same).endswith("both are right on the same of 100 rows")


def test_verdict_on_other_rows() -> None:
    """By the quantile of a difference of two independent shares, which scipy has too."""
    from scipy.stats import chi2_contingency

    a, b = torch.arange(400) < 200, torch.arange(300) < 180
    found = comparison.verdict(a, b, same_rows=False)
    table = [[200, 200], [180, 120]]
    expected: Any = chi2_contingency(table, correction=False)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-6)
    assert found.better == "B" and found.gain == pytest.approx(0.1)
    reach = 1.959964 * math.sqrt(0.25 / 400 + 0.24 / 300)
    assert found.high - found.gain == pytest.approx(reach, rel=1e-5)
    assert comparison.verdict(a[:200], b[:180], same_rows=False).p == 1


@pytest.mark.usefixtures("few_figures")
def test_features_of_other_rows(tmp_path: Path, capsys: Shown) -> None:
    """Where held-out labels differ, nothing is paired; the clearly better one is named."""
    for name, noise, seed in (("a", 4.0, 0), ("b", 0.3, 1)):
        arrays = small_features(seed, noise=noise)
        if name == "a":
            order = torch.randperm(len(COUNTS) * HELD_OUT, generator=torch.Generator())
            arrays |= {n: a[order] for n, a in arrays.items() if n.startswith("test/")}
        write_store(tmp_path / f"{name}.safetensors", arrays)
    files = [str(tmp_path / f"{name}.safetensors") for name in "ab"]
    assert cli.main(["compare", *files, "--out", str(tmp_path / "out")]) == 0
    assert "120 and 120 rows, not the same" in capsys.readouterr().out
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["better"] == "B"
    page = (tmp_path / "out" / "index.html").read_text()
    assert f"<footer><p>resultant {resultant.__version__}, " in page
    verdict = results["features"]["projection"]["verdict"]
    assert not verdict["same_rows"] and verdict["low"] > 0
