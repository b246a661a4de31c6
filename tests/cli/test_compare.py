"""``resultant compare``: networks, features, the verdict, and input that is refused."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from resultant._core import tensor_files
from resultant._core.network_files import find_network, is_network
from resultant.cli import main as cli
from resultant.cli.arguments import DATA_VARIABLE
from resultant.cli.compare import match_names
from resultant.cli.progress import EpochProgress
from resultant.features.store import write_store
from resultant.training.extract import load_network
from small_features import small_features, untimed

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


def results_of(out: Path) -> Any:
    return json.loads((out / "results.json").read_text())


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_two_networks(cifar: Path, trained: Path, tmp_path: Path, capsys: Shown) -> None:
    """The page is about the features of both, and says which network is better."""
    files = [trained / f"{name}.safetensors" for name in (NATIVE, ANGULAR)]
    out = tmp_path / "out"
    words = [*map(str, files), "--data", str(cifar), "--out", str(out)]
    assert cli.main(["compare", *words]) == 0
    shown = capsys.readouterr().out
    assert f"A: {NATIVE}.safetensors" in shown and f"B: {ANGULAR}.safetensors" in shown
    assert "for B on the same test rows" in shown
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out"]
    results = results_of(out)
    assert [f["data"]["name"] for f in results["features"]] == 2 * ["encoder", "projection"]
    assert len(results["comparisons"]) == 2
    for c in results["comparisons"]:
        a, b = (results["features"][c[side]] for side in "ab")
        values = []
        for feature in (a, b):
            chosen = feature["recommendation"]
            key = chosen["key"] or chosen["best"]
            (method,) = (m for m in feature["methods"] if m["key"] == key)
            values.append(method[c["metric"].split()[0]]["value"])
        assert c["paired"] and c["rows"] == 30
        assert c["difference"]["gain"] == pytest.approx(values[1] - values[0])


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
    assert "A and B are not significantly different" in capsys.readouterr().out
    results = results_of(out)
    a, b = (untimed(feature["methods"]) for feature in results["features"])
    assert a == b and results["comparisons"][0]["difference"]["gain"] == 0


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
    assert len(results_of(out)["features"]) == 2
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
def test_two_files(tmp_path: Path, capsys: Shown) -> None:
    """The whole report; the verdict on standard output, steps on standard error."""
    for name, noise in (("a", 0.9), ("b", 0.45)):
        arrays = small_features(1, dim=8, noise=noise)
        write_store(tmp_path / f"{name}.safetensors", arrays)
    out = tmp_path / "out"
    files = [str(tmp_path / f"{name}.safetensors") for name in "ab"]
    assert cli.main(["compare", *files, "--out", str(out), "--json", str(tmp_path / "s")]) == 0
    results = results_of(out)
    (comparison,) = results["comparisons"]
    assert comparison["difference"]["verdict"] == "better" and not comparison["paired"]
    assert results["chosen"] == 1 and results["title"] == "a.safetensors and b.safetensors"
    assert json.loads((tmp_path / "s").read_text())["comparisons"] == [comparison]
    shown = capsys.readouterr()
    assert "verdict B is better than A: " in shown.out
    assert "not known to be the same" in shown.out
    for step in ("A: search vMF settings", "B: map and sliders", "write the report"):
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
