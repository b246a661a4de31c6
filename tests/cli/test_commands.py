"""The commands of training, from the shell's words to the files they leave."""

from __future__ import annotations

import io
import json
import re
import weakref
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest
import torch
from resultant.cli.commands import accuracy_table, grid, stopped
from rich.console import Console

from launch import small
from listed import SIZES, write_images
from listed import options as listed_options
from resultant.classes.rule import REALIZATIONS
from resultant.cli import commands, options
from resultant.cli import main as cli
from resultant.features.store import FeatureStore, write_store
from resultant.images.lists import DATASETS
from resultant.training.config import PRESETS, Run, preset
from resultant.training.evaluation import frozen_accuracy
from resultant.training.job import Job, Trained
from resultant.training.probe import ProbeConfig, linear_probes
from tiny_cifar import tiny_cifar

Shown = pytest.CaptureFixture[str]

SMALL = "--imbalance 3 --dim 8 --batch-size 8 --learning-rate 0.02 --device cpu"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CIFAR-10 of 60 training and 20 test images, as an .npz."""
    folder = tmp_path_factory.mktemp("data")
    data = tiny_cifar(10, 6, 2)
    names = ("train_images", "train_labels", "test_images", "test_labels")
    np.savez(folder / "cifar10.npz", **{name: getattr(data, name).numpy() for name in names})
    return folder


def train(*words: str, preset: str = "cifar-controlled") -> int:
    return cli.main(["train", preset, *SMALL.split(), *words])


@pytest.fixture(scope="module")
def trained(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of two runs of one epoch, with a classifier and evaluated."""
    out = tmp_path_factory.mktemp("out")
    call = ["--epochs", "1", "--objective", "joint", "--realization", "native", "angular"]
    assert train(*call, "--data", str(root), "--out", str(out), "--gradient-epochs", "1") == 0
    return out


def records(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]


def test_train_leaves_networks_and_records(trained: Path) -> None:
    names = ["native-seed0", "angular-beta0-seed0"]
    assert [record["run"] for record in records(trained)] == names
    for record in records(trained):
        assert record["config"]["epochs"] == 1 and record["config"]["dim"] == 8
        assert 0 <= record["last"]["accuracy"] <= 1 and "gradient_error" in record["last"]
        for pool in ("long_tail", "balanced"):
            for space in ("encoder", "projection"):
                assert 0 <= record["probes"][pool][space]["accuracy"] <= 1
        assert record["frozen"]["projection"]["proco"].keys() == set(REALIZATIONS)
    files = {f"{name}.safetensors" for name in names}
    expected = files | {"checkpoint.safetensors", "metrics.jsonl", "records.jsonl"}
    assert {path.name for path in trained.iterdir()} == expected


def test_train_again_replaces_and_continues(
    root: Path, trained: Path, tmp_path: Path, capsys: Shown
) -> None:
    """A job that is done has nothing to train; its records stand once, others stay."""
    for path in trained.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    ran = {"run": "native-seed0", "realization": "native", "beta": 0.0, "seed": 0}
    other = json.dumps({**ran, "config": {"epochs": 7}})
    with (tmp_path / "records.jsonl").open("a") as file:
        file.write(other + "\n")
    call = ["--epochs", "1", "--objective", "joint", "--realization", "native", "angular"]
    call += ["--data", str(root), "--out", str(tmp_path), "--no-evaluate"]
    assert train(*call, "--gradient-epochs", "1") == 0
    shown = capsys.readouterr()
    assert "epoch 1/1" not in shown.err and "angular-beta0-seed0" in shown.out
    assert "cifar10, 2 runs: already trained to epoch 1/1\n" in shown.err
    runs = [record["run"] for record in records(tmp_path)]
    assert runs == ["native-seed0", "native-seed0", "angular-beta0-seed0"]
    assert json.dumps(records(tmp_path)[0]) == other
    # What was known of the same training is known still.
    assert records(tmp_path)[1:] == records(trained)
    # Other settings are another job.
    assert train(*call, "--temperature", "0.2") == 2
    shown = capsys.readouterr().err
    assert "{'temperature': 0.2}, got {'temperature': 0.1}" in shown and "another folder" in shown


def test_train_tells_and_shows(
    root: Path, tmp_path: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The data set is found by the variable; lines and a table come out."""
    monkeypatch.setenv(options.VARIABLE, str(root))
    assert train("--epochs", "2", "--seeds", "3", "--out", str(tmp_path), "--no-evaluate") == 0
    # How far it is, apart from what it comes to.
    shown = capsys.readouterr()
    few, first, *lines = shown.err.splitlines()
    assert few == f"cifar10 in {root} has 60 training images, usually 50,000"
    assert first == "cifar10, 1 run: 33 images, 2 views, 2 epochs on cpu"
    (record,) = records(tmp_path)
    assert (record["seed"], record["train_images"]) == (3, 33)
    last = f"cifar10, 1 run: epoch 2/2, loss {record['last']['loss']:.4f}, "
    assert lines[0].startswith("cifar10, 1 run: epoch 1/2, loss ")
    assert lines[1].startswith(last) and lines[1].endswith(" views/s, 0:00:00 left")
    assert len(lines) == 2
    title, *table = shown.out.splitlines()
    assert title.strip() == "after the last epoch" and "native-seed3" in "".join(table)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--data", "NOWHERE"], "expected cifar10 in NOWHERE as one of"),
        (["--dataset", "cifar100"], "expected cifar100 in ROOT as one of"),
        (["--device", "cuda:7"], "expected a CUDA device cuda:7, got"),
        (["--device", "gpu"], "expected --device auto, cpu, cuda or cuda:N, got 'gpu'"),
        (["--seeds", "0", "-1"], "expected seed >= 0, got -1"),
        (["--seeds"], "expected one or more values of seeds, got none"),
        (["--gradient-epochs", "201"], "expected gradient epochs in [1, 200], got 201"),
        (["--imbalance", "0.5"], "expected imbalance >= 1, got 0.5"),
        (
            ["--batch-size", "99"],
            "expected --batch-size of 33 or less, the number of training images",
        ),
        (["--dataset", "imagenet-lt"], "expected resnet32 for CIFAR and a larger architecture"),
        (["--clip", "1"], "expected clip > 0 and finite, and None for CIFAR"),
        (["--realization", "exact"], "invalid choice"),
        (["--checkpoint-every", "0"], "expected checkpoint_every >= 1, got 0"),
    ],
)
def test_train_refuses_before_any_work(
    root: Path, tmp_path: Path, capsys: Shown, words: list[str], message: str
) -> None:
    nowhere, out = tmp_path / "nowhere", tmp_path / "new"
    words = [str(nowhere) if word == "NOWHERE" else word for word in words]
    message = message.replace("NOWHERE", str(nowhere)).replace("ROOT", str(root))
    assert train("--data", str(root), "--out", str(out), *words) == 2
    told = capsys.readouterr().err
    # Tyro frames and folds what it says of arguments.
    told = " ".join(told.replace("│", " ").split())
    assert message in told
    assert not out.exists() and "images, 2 views" not in told


@pytest.mark.parametrize("option", ["--dim", "--bogus"])
def test_a_complaint_names_the_help_of_the_recipe(option: str, capsys: Shown) -> None:
    """That of the command alone has not its settings."""
    assert cli.main(["train", "cifar-official", option, "1"]) == 2
    assert "resultant train cifar-official --help" in capsys.readouterr().err
    assert cli.main(["train", "cifar-official", "--help"]) == 0
    assert "usage: resultant train cifar-official [-h]" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--subset", "3"], ["--imbalance", "10.0"]])
@pytest.mark.parametrize("recipe", ["imagenet-lt", "inaturalist18"])
def test_subsets_are_of_cifar(recipe: str, words: list[str], tmp_path: Path, capsys: Shown) -> None:
    call = ["train", recipe, "--data", str(tmp_path), "--out", str(tmp_path / "new")]
    assert cli.main([*call, *words]) == 2
    told = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert f"expected {words[0][2:]} for CIFAR alone, got {words[1]} for {recipe}" in told
    # Without it, the lists are looked for.
    assert cli.main(call) == 2
    assert "expected the list" in capsys.readouterr().err


def test_train_refuses_without_data(
    tmp_path: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(options.VARIABLE, raising=False)
    assert train() == 2
    assert f"got nothing at {tmp_path / 'data'}" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert train("--out", "file/deep") == 2
    assert "expected --out to be a folder, got a file: file" in capsys.readouterr().err


def test_train_listed_images(
    tmp_path: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several seeds, one after another, each with a folder of its own."""
    monkeypatch.setitem(DATASETS, "imagenet-lt", DATASETS["imagenet-lt"])
    small()
    write_images(tmp_path / "images")
    for path in (tmp_path / "images").glob("*.txt"):
        path.rename(tmp_path / path.name)
    out = tmp_path / "out"
    call = ["train", "imagenet-lt", *listed_options(epochs=1), "--device", "cpu", "--workers", "0"]
    call += ["--images", str(tmp_path / "images"), "--out", str(out), "--seeds", "1", "2"]
    assert cli.main([*call, "--lists", str(tmp_path), "--data", str(tmp_path / "none")]) == 0
    shown = capsys.readouterr()
    assert shown.err.count("epoch 1/1") == 2 and "head / medium / tail" in shown.out
    many = ["--lists", str(tmp_path), "--data", str(tmp_path), "--batch-size", "999"]
    assert cli.main([*call, *many]) == 2
    told = capsys.readouterr().err
    assert f"expected --batch-size of {sum(SIZES['train'])} or less, the number of" in told
    names = ["native-seed1", "native-seed2"]
    assert [record["run"] for record in records(out)] == names
    for name in names:
        assert (out / name / f"{name}.safetensors").is_file()
    assert cli.main([*call, "--data", str(tmp_path / "none")]) == 2
    assert f"expected the list {tmp_path}/none/ImageNet_LT_train.txt" in capsys.readouterr().err
    # The features, with either list held out.
    store, run = tmp_path / "x.safetensors", out / names[0] / f"{names[0]}.safetensors"
    call = ["extract", str(run), "--out", str(store), "--device", "cpu", "--workers", "0"]
    call += ["--data", str(tmp_path), "--images", str(tmp_path / "images")]
    for words, split in (([], "test"), (["--split", "val"], "val"), (["--split", "test"], "test")):
        assert cli.main([*call, *words]) == 0
        opened = FeatureStore.open(store)
        assert opened.metadata["held_out"] == split
        assert len(opened["test/labels"]) == sum(SIZES[split])
        assert len(opened["train/labels"]) == sum(SIZES["train"])
    (tmp_path / "ImageNet_LT_val.txt").unlink()
    capsys.readouterr()
    assert cli.main([*call, "--split", "val"]) == 2
    assert f"expected the list {tmp_path}/ImageNet_LT_val.txt, got no" in capsys.readouterr().err


def test_listed_runs_are_recorded_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third of three fails: the others have their records, and were let go of in time."""
    seen: list[weakref.ref[Trained]] = []

    def train_images(job: Job, *_: Any) -> Trained:
        assert not any(done() for done in seen)
        if len(seen) == 2:
            raise ValueError("expected a finite loss")
        trained = Trained(job, [], {}, 1.0, 0.0, 0)
        seen.append(weakref.ref(trained))
        return trained

    def base_records(trained: Trained, number: int) -> list[dict[str, Any]]:
        (run,) = trained.job.runs
        facts = {"realization": run.realization, "beta": run.beta, "seed": run.seed}
        return [{"run": run.name, **facts, "config": {}, "last": {}}]

    monkeypatch.setattr(commands, "train_images", train_images)
    monkeypatch.setattr(commands, "base_records", base_records)
    monkeypatch.setattr(commands, "load_images", lambda *_: SimpleNamespace(train=range(256)))
    call = options.Train(preset("imagenet-lt"), data=tmp_path, out=tmp_path / "out", device="cpu")
    with pytest.raises(ValueError, match="expected a finite loss"):
        commands.train(replace(call, seeds=(4, 5, 6)))
    assert [record["seed"] for record in records(tmp_path / "out")] == [4, 5]


def test_extract_and_probe(root: Path, trained: Path, tmp_path: Path, capsys: Shown) -> None:
    store, out = tmp_path / "x.safetensors", tmp_path / "probes.json"
    run = trained / "angular-beta0-seed0.safetensors"
    words = ["--data", str(root), "--out", str(store), "--device", "cpu"]
    assert cli.main(["extract", str(run), *words, "--dtype", "float32"]) == 0
    assert "train/encoder" in capsys.readouterr().out
    opened = FeatureStore.open(store)
    assert opened["train/encoder"].shape == (33, 64) and opened["test/projection"].shape == (20, 8)
    call = ["probe", str(store), "--device", "cpu", "--epochs", "3", "--out", str(out)]
    assert cli.main(call) == 0
    assert "projection" in capsys.readouterr().out
    said = json.loads(out.read_text())
    splits = [[opened[f"{split}/{name}"] for name in said["features"]] for split in opened.splits]
    test, train = splits
    labels = opened["train/labels"], opened["test/labels"]
    expected = linear_probes(train, labels[0], test, labels[1], 10, ProbeConfig(epochs=3))
    assert said["features"] == ["encoder", "projection"]
    assert said["accuracy"] == expected.accuracy.tolist()
    assert said["metadata"]["run"]["realization"] == "angular"
    # As the paper fits them, unless something else is asked for.
    assert cli.main(["probe", str(store), "--device", "cpu", "--out", str(out)]) == 0
    assert json.loads(out.read_text())["probe"] == asdict(ProbeConfig())
    # What the evaluation at the end of training found, but for a query between two classes. A probe
    # of so few images would turn the last digit of a feature into several queries.
    for name, x, queries in zip(said["features"], train, test, strict=True):
        again = frozen_accuracy(x, labels[0], queries, labels[1], 10)
        for estimator, found in records(trained)[1]["frozen"][name].items():
            assert again[estimator] == pytest.approx(found, abs=0.051)


def test_extract_and_probe_refuse(
    tmp_path: Path, root: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(options.VARIABLE, raising=False)
    words = ["--out", str(tmp_path / "x.safetensors")]
    # The network first, and then what it is asked about.
    for data in ([], ["--data", str(root)], ["--data", str(tmp_path / "nowhere")]):
        assert cli.main(["extract", str(tmp_path / "none"), *words, *data]) == 2
        assert f"no file at {tmp_path / 'none'}" in capsys.readouterr().err
    path = tmp_path / "a.safetensors"
    write_store(path, {"train/encoder": torch.ones(3, 2), "train/labels": torch.arange(3)})
    assert cli.main(["probe", str(path)]) == 2
    assert "expected features and labels of train and test" in capsys.readouterr().err


def test_probe_refuses_a_network(trained: Path, capsys: Shown) -> None:
    assert cli.main(["probe", str(trained / "native-seed0.safetensors")]) == 2
    told = capsys.readouterr().err
    assert "expected features, got a network" in told and "resultant extract" in told


def test_every_preset_is_told() -> None:
    assert options.PRESET_HELP.keys() == PRESETS.keys()
    assert get_args(options.RealizationName) == REALIZATIONS


def test_grid() -> None:
    """Strengths are not told apart where there is none."""
    runs = grid(("native", "angular"), (0.0, 0.5), (0, 1))
    assert len(runs) == len({run.name for run in runs}) == 6
    assert Run("native", 0.0, 1) in runs and Run("angular", 0.5, 1) in runs


def test_records_without_numbers_are_shown() -> None:
    table = accuracy_table([{"run": "native-seed0", "last": {}}])
    assert [column.header for column in table.columns] == ["run", "loss"]
    assert table.title == "after the last epoch"
    both = [
        {"run": "a", "last": {"loss": 1.5, "accuracy": 0.25}},
        {"run": "b", "last": {"loss": 2.5}, "frozen": {"projection": {"proco": {"native": 0.5}}}},
    ]
    table = accuracy_table(both)
    assert table.title == "accuracy in percent"
    cells = [list(column.cells) for column in table.columns]
    assert cells == [
        ["a", "b"],
        ["1.5000", "2.5000"],
        ["25.00", "-"],
        ["- / - / -", "50.00 / - / -"],
    ]


@pytest.mark.parametrize("width", [60, 80, 160])
def test_no_digit_is_lost_on_a_narrow_terminal(width: int) -> None:
    values = iter(range(1000, 10000, 7))

    def number() -> float:
        return next(values) / 1e4

    record = {
        "run": "angular-beta0.5-seed0",
        "last": {"loss": 1.2345, **{n: number() for n in ("accuracy", "head", "medium", "tail")}},
        "probes": {
            pool: {space: {"accuracy": number()} for space in ("encoder", "projection")}
            for pool in ("long_tail", "balanced")
        },
        "frozen": {"projection": {"proco": {r: number() for r in ("native", "cosine", "angular")}}},
    }
    file = io.StringIO()
    Console(file=file, width=width).print(accuracy_table([record]))
    shown = file.getvalue()
    assert max(map(len, shown.splitlines())) <= width
    assert "1.2345" in shown
    found = set(re.findall(r"\b\d\d\.\d\d\b", shown))
    assert found == {f"{(1000 + 7 * i) / 100:.2f}" for i in range(11)}


def test_broken_records_are_refused_first(root: Path, tmp_path: Path, capsys: Shown) -> None:
    path = tmp_path / "records.jsonl"
    ran = {"realization": "native", "beta": 0.0, "seed": 0, "config": {}}
    path.write_text(json.dumps(ran) + '\n{"run": "b"')
    assert train("--data", str(root), "--out", str(tmp_path)) == 2
    assert f"expected a record at {path}:2, got" in capsys.readouterr().err
    assert [path] == list(tmp_path.iterdir())


@pytest.mark.parametrize("saved", [False, True])
def test_an_interrupt_says_what_is_kept(saved: bool, tmp_path: Path) -> None:
    file = io.StringIO()
    if saved:
        (tmp_path / "checkpoint.safetensors").touch()
    with pytest.raises(KeyboardInterrupt), stopped(tmp_path, Console(file=file, width=400)):
        raise KeyboardInterrupt
    kept = f"the same call goes on from {tmp_path}/checkpoint.safetensors"
    assert file.getvalue() == f"stopped: {kept if saved else 'nothing is kept'}\n"
