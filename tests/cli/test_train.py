"""``resultant train``: networks, records, progress, and options refused before any work."""

from __future__ import annotations

import io
import json
import re
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from rich.console import Console

from listed import SIZES, four_classes, write_images
from listed import options as listed_options
from resultant.classes.rule import REALIZATIONS
from resultant.cli import main as cli
from resultant.cli import train as command
from resultant.cli.arguments import DATA_VARIABLE
from resultant.cli.image_options import ImageOptions
from resultant.cli.train import accuracy_table, grid, training
from resultant.features.store import FeatureStore
from resultant.images.opening import PUBLISHED
from resultant.training.config import PRESETS, Run, TrainConfig, preset
from resultant.training.job import Job, Trained

Shown = pytest.CaptureFixture[str]
Train = Callable[..., int]


def records(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_networks_and_records(trained: Path) -> None:
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


def test_same_command_again(
    cifar: Path, train: Train, trained: Path, tmp_path: Path, capsys: Shown
) -> None:
    """A finished job trains nothing; its records are replaced, and other records stay."""
    for path in trained.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    run = {"run": "native-seed0", "realization": "native", "beta": 0.0, "seed": 0}
    other = json.dumps({**run, "config": {"epochs": 7}})
    with (tmp_path / "records.jsonl").open("a") as file:
        file.write(other + "\n")
    words = ["--epochs", "1", "--objective", "joint", "--realization", "native", "angular"]
    words += ["--data", str(cifar), "--out", str(tmp_path), "--no-evaluate"]
    assert train(*words, "--gradient-epochs", "1") == 0
    shown = capsys.readouterr()
    assert "epoch 1/1, " not in shown.err and "angular-beta0-seed0" in shown.out
    assert "cifar10, 2 runs: already trained to epoch 1/1\n" in shown.err
    runs = [record["run"] for record in records(tmp_path)]
    assert runs == ["native-seed0", "native-seed0", "angular-beta0-seed0"]
    assert json.dumps(records(tmp_path)[0]) == other
    # The evaluation of the same training stays.
    assert records(tmp_path)[1:] == records(trained)
    # Other settings are another job.
    assert train(*words, "--temperature", "0.2") == 2
    shown = capsys.readouterr().err
    assert "its config: temperature 0.1" in shown and "another folder" in shown


@pytest.mark.slow
def test_progress_and_table(
    cifar: Path, train: Train, tmp_path: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Progress on standard error, the table on standard output; the dataset by the variable. The
    record is written before the evaluation, which may fail."""
    monkeypatch.setenv(DATA_VARIABLE, str(cifar))
    failing = Mock(side_effect=ValueError("diverged"))
    monkeypatch.setattr("resultant.training.evaluation.evaluate", failing)
    words = ["--epochs", "2", "--seeds", "3", "--out", str(tmp_path)]
    assert train(*words) == 2
    shown = capsys.readouterr()
    few, first, *lines = shown.err.splitlines()
    assert few == f"cifar10 in {cifar} has 60 training images, usually 50,000"
    assert first == "cifar10, 1 run: 33 images, 2 views, 2 epochs on cpu"
    (record,) = records(tmp_path)
    assert (record["seed"], record["train_images"]) == (3, 33)
    last = f"cifar10, 1 run: epoch 2/2, loss {record['last']['loss']:.4f}, "
    assert lines[0].startswith("cifar10, 1 run: epoch 1/2, loss ")
    assert lines[1].startswith(last) and lines[1].endswith(" views/s, 0:00:00 left")
    assert lines[2:] == ["cifar10, 1 run: probes and frozen rules", "resultant: diverged"]
    assert train(*words, "--no-evaluate") == 0
    title, *table = capsys.readouterr().out.splitlines()
    assert title.strip() == "after the last epoch" and "native-seed3" in "".join(table)


@pytest.mark.slow
def test_listed_images(tmp_path: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seeds, one after the other, each with its own folder; then their features."""
    monkeypatch.setitem(PUBLISHED, "imagenet-lt", PUBLISHED["imagenet-lt"])
    four_classes()
    write_images(tmp_path / "images")
    for path in (tmp_path / "images").glob("*.txt"):
        path.rename(tmp_path / path.name)
    out = tmp_path / "out"
    call = ["train", "imagenet-lt", *listed_options(epochs=1), "--device", "cpu", "--workers", "0"]
    call += ["--images", str(tmp_path / "images"), "--out", str(out), "--seeds", "1", "2"]
    assert cli.main([*call, "--lists", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert shown.err.count("epoch 1/1") == 2 and "head / medium / tail" in shown.out
    assert "imagenet-lt: 17 train, 4 val, 7 test images, 4 classes of 2 to 7 training" in shown.err
    names = ["native-seed1", "native-seed2"]
    assert [record["run"] for record in records(out)] == names
    for name in names:
        assert (out / name / f"{name}.safetensors").is_file()
    for record in records(out):
        assert record["held_out"] == "test" and 0 <= record["classifier"]["accuracy"] <= 1
        for space in ("encoder", "projection"):
            assert 0 <= record["probes"]["long_tail"][space]["tail"] <= 1
            assert record["frozen"][space]["mle"].keys() == set(REALIZATIONS)
            assert record["chosen"][space]["realization"] in REALIZATIONS
    # The features of all splits.
    store, run = tmp_path / "x.safetensors", out / names[0] / f"{names[0]}.safetensors"
    call = ["extract", str(run), "--out", str(store), "--device", "cpu", "--workers", "0"]
    call += ["--lists", str(tmp_path), "--images", str(tmp_path / "images")]
    assert cli.main(call) == 0
    opened = FeatureStore.open(store)
    assert opened.metadata["held_out"] == "test"
    for split, sizes in SIZES.items():
        assert len(opened[f"{split}/labels"]) == sum(sizes)


def test_listed_runs_are_recorded_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third of three fails: the others have their records, and their networks were freed."""
    seen: list[weakref.ref[Trained]] = []

    def train_images(job: Job, *_: Any, **__: Any) -> Trained:
        assert not any(trained() for trained in seen)
        if len(seen) == 2:
            raise ValueError("expected a finite loss")
        trained = Trained(job, [], {}, 1.0, 0.0, 0)
        seen.append(weakref.ref(trained))
        return trained

    def base_records(trained: Trained, number: int) -> list[dict[str, Any]]:
        (run,) = trained.job.runs
        facts = {"realization": run.realization, "beta": run.beta, "seed": run.seed}
        return [{"run": run.name, **facts, "config": {}, "last": {}}]

    listed = SimpleNamespace(train=range(256), held_out_splits={})
    monkeypatch.setattr("resultant.training.image_sets.train_images", train_images)
    monkeypatch.setattr(command, "open_splits", lambda *_: listed)
    monkeypatch.setattr("resultant.training.evaluation.base_records", base_records)
    options = command.Train(
        preset("imagenet-lt"),
        image_set=ImageOptions(data=tmp_path),
        out=tmp_path / "out",
        device="cpu",
        seeds=(4, 5, 6),
    )
    with pytest.raises(ValueError, match="expected a finite loss"):
        command.train(options)
    assert [record["seed"] for record in records(tmp_path / "out")] == [4, 5]


def test_grid() -> None:
    """Native and cosine have one run per seed, whatever the betas."""
    runs = grid(("native", "angular"), (0.0, 0.5), (0, 1))
    assert len(runs) == len({run.name for run in runs}) == 6
    assert Run("native", 0.0, 1) in runs and Run("angular", 0.5, 1) in runs


def test_table_of_records_without_numbers() -> None:
    assert command.PRESET_HELP.keys() == PRESETS.keys()
    both = [
        {"run": "a", "last": {"loss": 1.5, "accuracy": 0.25}},
        {"run": "b", "last": {"loss": 2.5}, "frozen": {"projection": {"proco": {"native": 0.5}}}},
    ]
    cells = [list(column.cells) for column in accuracy_table(both).columns]
    assert cells == [
        ["a", "b"],
        ["1.5000", "2.5000"],
        ["25.00", "-"],
        ["- / - / -", "50.00 / - / -"],
    ]


@pytest.mark.parametrize("width", [60, 80, 160])
def test_table_on_a_narrow_terminal_keeps_every_digit(width: int) -> None:
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
    numbers = set(re.findall(r"\b\d\d\.\d\d\b", shown))
    assert numbers == {f"{(1000 + 7 * i) / 100:.2f}" for i in range(11)}


def test_refused_first(
    cifar: Path, train: Train, tmp_path: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken records, and several processes for CIFAR."""
    (path := tmp_path / "records.jsonl").write_text('{"run": "b"')
    assert train("--data", str(cifar), "--out", str(tmp_path)) == 2
    assert f"expected a record at {path}:1, got" in capsys.readouterr().err
    path.unlink()
    monkeypatch.setattr("resultant._core.distributed.world_size", lambda: 2)
    assert train("--data", cifar, "--out", tmp_path) == 2
    assert "whose runs are trained together, got 2" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("saved", [False, True])
def test_interrupt_names_the_checkpoint(saved: bool, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    if saved:
        path.touch()
    job = Job(TrainConfig(), (Run("native"),), tmp_path)
    kept = f"rerun the same command to resume from {path}" if saved else "no checkpoint"
    with pytest.raises(KeyboardInterrupt, match=kept), training(job, Console(), "work"):
        raise KeyboardInterrupt
