"""``resultant train``, ``extract``, ``probe`` and ``import-proco``: networks and records."""

import io
import json
import os
import re
import shutil
import sys
import weakref
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from rich.console import Console
from torch.nn.functional import normalize

from cli.conftest import JOINT, TRAIN, Shown, call, records
from images.photos import photo_bytes, write_folder
from plain_resnet import PlainResNet32
from proco_alike import C, P, loss_modules, saved
from resultant._core.tensor_files import load
from resultant.classes.rule import REALIZATIONS
from resultant.cli import train as command
from resultant.cli.arguments import DATA_VARIABLE, ImageOptions
from resultant.cli.train import accuracy_table, grid, training
from resultant.features.store import FeatureStore, write_store
from resultant.images.longtail import long_tail_counts
from resultant.images.opening import open_images
from resultant.training.checkpoints import TRAINED, load_network
from resultant.training.config import Run, TrainConfig
from resultant.training.extract import open_network_images
from resultant.training.job import Job, Trained
from resultant_reproduction.recipes.config import PRESETS, ProbeConfig
from resultant_reproduction.recipes.probes import linear_probes
from resultant_reproduction.train import TABLE
from small_features import small_features
from tiny_cifar import write_cifar


def test_networks_and_records(cifar: Path, trained: Path, capsys: Shown) -> None:
    """The same command again trains nothing; its records are replaced, and other records stay."""
    names = ["native-seed0", "angular-beta0-seed0"]
    assert [record["run"] for record in records(trained)] == names
    for record in records(trained):
        assert record["config"]["epochs"] == 1 and record["config"]["dim"] == 8
        assert 0 <= record["last"]["accuracy"] <= 1 and "gradient_error" in record["last"]
        for pool in ("long_tail", "balanced"):
            for space in ("encoder", "projection"):
                assert 0 <= record["probes"][pool][space]["accuracy"] <= 1
        assert record["frozen"]["projection"]["proco"].keys() == set(REALIZATIONS)
    files = {"metrics.jsonl", "records.jsonl"}
    files |= {f"{name}.safetensors" for name in (*names, "checkpoint")}
    assert {path.name for path in trained.iterdir()} == files
    shutil.copytree(trained, "out")
    run = {"run": "native-seed0", "realization": "native", "beta": 0.0, "seed": 0}
    other = json.dumps({**run, "config": {"epochs": 7}})
    with open("out/records.jsonl", "a") as file:
        file.write(other + "\n")
    words = f"{JOINT} --data {cifar} --out out --no-evaluate"
    assert call(f"{words} --gradient-epochs 1") == 0
    shown = capsys.readouterr()
    assert "epoch 1/1, " not in shown.err and "angular-beta0-seed0" in shown.out
    assert "cifar10, 2 runs: already trained to epoch 1/1\n" in shown.err
    first, *others = records("out")
    # The evaluation of the same training stays.
    assert json.dumps(first) == other and others == records(trained)
    # Other settings are another job.
    assert call(f"{words} --temperature 0.2") == 2
    shown = capsys.readouterr().err
    assert "its config: temperature 0.1" in shown and "another folder" in shown


@pytest.mark.slow
def test_progress_and_table(cifar: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dataset by the variable; the record is written before the evaluation, which may fail."""
    monkeypatch.setenv(DATA_VARIABLE, str(cifar))
    failing = Mock(side_effect=ValueError("diverged"))
    monkeypatch.setattr("resultant_reproduction.recipes.evaluation.evaluate", failing)
    words = f"{TRAIN} --epochs 2 --seeds 3 --out out"
    assert call(words) == 2
    shown = capsys.readouterr()
    few, first, *lines = shown.err.splitlines()
    assert few == f"cifar10 in {cifar} has 60 training images, usually 50,000"
    assert first == "cifar10, 1 run: 33 images, 2 views, 2 epochs on cpu"
    (record,) = records("out")
    assert (record["seed"], record["train_images"]) == (3, 33)
    last = f"cifar10, 1 run: epoch 2/2, loss {record['last']['loss']:.4f}, "
    assert lines[0].startswith("cifar10, 1 run: epoch 1/2, loss ")
    assert lines[1].startswith(last) and lines[1].endswith(" views/s, 0:00:00 left")
    assert lines[2:] == ["cifar10, 1 run: probes and frozen rules", "resultant: diverged"]
    assert call(f"{words} --no-evaluate") == 0
    title, *table = capsys.readouterr().out.splitlines()
    assert title.strip() == "after the last epoch" and "native-seed3" in "".join(table)


def test_listed_runs_are_recorded_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The third of three fails: the others have their records, and their networks were freed."""
    seen: list[weakref.ref[Trained]] = []

    def train_images(job: Job, *_: Any, **__: Any) -> Trained:
        assert not any(trained() for trained in seen)
        if len(seen) == 2:
            raise ValueError("expected a finite loss")
        stand_in: Any = SimpleNamespace(digest="", device=torch.device("cpu"))
        trained = Trained(job, stand_in, {}, 1.0, 0.0, 0)
        seen.append(weakref.ref(trained))
        return trained

    listed = SimpleNamespace(train=range(256), held_out_splits={})
    monkeypatch.setattr("resultant.training.image_sets.train_images", train_images)
    monkeypatch.setattr(ImageOptions, "open", lambda *_: listed)
    where = {"image_set": ImageOptions(data=Path()), "out": Path("out"), "device": "cpu"}
    with pytest.raises(ValueError, match="expected a finite loss"):
        command.train_folder(command.Train(TrainConfig(), seeds=(4, 5, 6), **where))
    assert [record["seed"] for record in records("out")] == [4, 5]


def test_table_of_records() -> None:
    """Without numbers, and with every digit on a narrow terminal."""
    assert command.RECIPES.keys() == {"images", *PRESETS}
    both = [
        {"run": "a", "last": {"loss": 1.5, "accuracy": 0.25}},
        {"run": "b", "last": {"loss": 2.5}, "frozen": {"projection": {"proco": {"native": 0.5}}}},
    ]
    _, loss, *cells = [list(column.cells) for column in accuracy_table(both, TABLE).columns]
    assert loss == ["1.5000", "2.5000"]
    assert cells == [["25.00", "-"], ["- / - / -", "50.00 / - / -"]]
    probe = {space: {"accuracy": 0.1234} for space in ("encoder", "projection")}
    record = {
        "run": "angular-beta0.5-seed0",
        "last": {"loss": 1.2345, **dict.fromkeys(("accuracy", "head", "medium", "tail"), 0.5678)},
        "probes": {"long_tail": probe, "balanced": probe},
    }
    file = io.StringIO()
    Console(file=file, width=60).print(accuracy_table([record], TABLE))
    shown = file.getvalue()
    assert max(map(len, shown.splitlines())) <= 60 and "1.2345" in shown
    assert (shown.count("56.78"), shown.count("12.34")) == (4, 4)


def test_refused_first_and_an_interrupt(
    cifar: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken records, and several processes for CIFAR."""
    (path := Path("records.jsonl")).write_text('{"run": "b"')
    assert call(f"{TRAIN} --data {cifar} --out .") == 2
    assert f"expected a record at {path}:1, got" in capsys.readouterr().err
    path.unlink()
    monkeypatch.setattr("resultant._core.distributed.world_size", lambda: 2)
    assert call(f"{TRAIN} --data {cifar} --out .") == 2
    assert "whose runs are trained together, got 2" in capsys.readouterr().err
    assert not os.listdir()
    # Native and cosine have one run per seed; an interrupt names the checkpoint.
    runs = grid(("native", "angular"), (0.0, 0.5), (0, 1))
    assert len(runs) == len({run.name for run in runs}) == 6
    assert Run("native", 0.0, 1) in runs and Run("angular", 0.5, 1) in runs
    job, path = Job(TrainConfig(), (Run("native"),), Path()), Path("checkpoint.safetensors")
    for kept in ("no checkpoint", f"rerun the same command to resume from {path}"):
        with pytest.raises(KeyboardInterrupt, match=kept), training(job, Console(), "work"):
            raise KeyboardInterrupt
        path.touch()


IMAGES = (
    "train images --architecture test_resnet --size 32 --dim 8 --epochs 1 --batch-size 4 "
    "--device cpu --workers 0 --out out --data"
)


@pytest.mark.slow
def test_few_images_copied_and_probed_on_val(photos: Path, capsys: Shown) -> None:
    """One batch of all images; the job knows them in a copy; val takes the place of test."""
    words = IMAGES.replace("--batch-size 4", "--seeds 0")
    assert call(f"{words} {photos}") == 0
    assert "batches of all 11 training images" in capsys.readouterr().err
    for name in ("train", "test", "val"):
        shutil.copytree(photos / name, Path("copy", name), copy_function=shutil.copyfile)
    assert call(f"{words} copy") == 0
    shown = capsys.readouterr().err
    assert "already trained to epoch 1/1" in shown and "decoded" not in shown
    Path("copy/train/x, y/0.png").write_bytes(photo_bytes(77))
    assert call(f"{words} copy") == 2
    assert "got other training images: some were added, removed or" in capsys.readouterr().err
    extract = f"extract out --data {photos} --split val --device cpu --out x.safetensors"
    assert call(extract) == 0 and call("probe x.safetensors --epochs 2 --out p.json") == 0
    assert json.loads(Path("p.json").read_text())["test"] == "val"


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_no_test_image_was_trained_on(tmp_path: Path, capsys: Shown) -> None:
    """A folder that changes between training and extraction: from train to the page."""
    data, extract = (tmp_path / "data", "extract out --device cpu --workers 0 --out x.safetensors")
    for k, name in enumerate("abc"):
        write_folder(data, {name: 12}, first=100 * k)
    assert call(f"{IMAGES} {data}") == 0
    trained = set(load("out/native-seed0/native-seed0.safetensors")[0][TRAINED].tolist())
    first = open_images(data)
    assert first.test is not None and trained == set(first.train.contents.tolist())
    # Added before all others, removed, renamed, and moved to another class.
    (data / "a" / "0000.JPEG").write_bytes(photo_bytes(999, "JPEG"))
    for name, new in (("a/3.png", None), ("b/4.png", "b/other.png"), ("c/5.png", "a/5c.png")):
        path = data / name
        path.rename(data / new) if new else path.unlink()
    assert call(f"{extract} --data {data}") == 0
    store = FeatureStore.open("x.safetensors")
    images = open_network_images(load_network("out/native-seed0/native-seed0.safetensors"), data)
    for split, source in (("train", images.train), ("test", images.test)):
        assert source is not None
        assert store[f"{split}/identities"].tolist() == source.identities.tolist()
    assert not trained & set(images.test.contents.tolist() if images.test else ())
    assert len(images.train) + len(store["test/labels"]) == 36
    kept = trained & set(images.train.contents.tolist())
    assert store.metadata["trained_on"] == {"train": len(kept), "test": 0} and len(kept) > 20
    assert call("analyze x.safetensors --out page") == 0
    # Training images alone: nothing is left to test the classifiers of analyze on.
    arrays = {name: store[name] for name in store if name.startswith("train/")}
    write_store("y.safetensors", arrays, store.metadata)
    capsys.readouterr()
    assert call("analyze y.safetensors --out other") == 2
    assert "that the network was not trained on, got only train" in capsys.readouterr().err


@pytest.mark.slow
def test_broken_images(photos: Path, capsys: Shown) -> None:
    """They stop the training, or are skipped."""
    data, out = shutil.copytree(photos, Path("data").absolute()), Path("out")
    folder = data / "train" / "Ara macao"
    for i in range(4):
        (folder / f"{i}.png").write_bytes(photo_bytes(i)[:90])
    assert call(f"{IMAGES} {data}") == 2
    *_, last = capsys.readouterr().err.splitlines()
    assert re.match(rf"resultant: expected {folder}/\d\.png to be a whole image, got", last)
    assert "; --skip-broken leaves broken images out" in last
    assert not list(out.rglob("native*.safetensors")) and not (out / "records.jsonl").exists()
    assert call(f"{IMAGES} {data} --skip-broken --delete-store") == 0
    shown = capsys.readouterr().err
    assert not list((out / "store").glob("*"))
    assert "skipped 4:" in shown and str(folder / "3.png") in shown and "7 train" in shown
    assert [record["train_images"] for record in records(out)] == [7]


def test_accuracies_of_linear_probes(capsys: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoder features raw or of unit length, as in the paper (tab:frozen-hyperparameters)."""
    monkeypatch.setattr("resultant.cli.progress.SILENCE", -1.0)
    arrays = small_features(names=("encoder", "pretrain/x"))
    # Lengths that are independent of the classes.
    for name in ("train/encoder", "test/encoder"):
        arrays[name] = arrays[name] * torch.linspace(0, 4, len(arrays[name])).exp()[:, None]
    config, expected = ProbeConfig(epochs=2), {}
    for form, scaled in (("raw", torch.clone), ("unit", normalize)):
        x, q = (
            [scaled(arrays[f"{s}/encoder"]), arrays[f"{s}/pretrain/x"]] for s in ("train", "test")
        )
        y, labels = arrays["train/labels"], arrays["test/labels"]
        expected[form] = linear_probes(x, y, q, labels, 6, config)
    assert expected["raw"].per_class.tolist()[0] != expected["unit"].per_class.tolist()[0]
    for dataset, words, form in (
        (None, "", "raw"),
        ("imagenet-lt", "", "unit"),
        ("imagenet-lt", "--encoder raw", "raw"),
        ("cifar100", "--encoder unit", "unit"),
        ("imagenet-lt", "", None),
    ):
        write_store("a.safetensors", arrays if form else small_features(), {"dataset": dataset})
        assert call(f"probe a.safetensors --device cpu --epochs 2 --out probes.json {words}") == 0
        result, shown = json.loads(Path("probes.json").read_text()), capsys.readouterr()
        assert shown.err == "probes: 50.0 %\nprobes: 100.0 %\n"
        assert result["encoder"] == form
        if form is None:
            continue
        assert shown.out.startswith("┏") and "pretrain/x" in shown.out
        assert result["features"] == ["encoder", "pretrain/x"]
        assert result["accuracy"] == expected[form].accuracy.tolist()
        assert result["per_class"] == expected[form].per_class.tolist()
        assert result["probe"] == asdict(config) and result["metadata"]["dataset"] == dataset


# Images of CIFAR-10 by class; those that fill no batch are left out.
TEN = long_tail_counts(5000, C, 10.0)
TEN[0] -= TEN.sum() % 256


@pytest.mark.slow
@pytest.mark.usefixtures("all_blocks")
@pytest.mark.parametrize("imbalance", [10.0, None])
def test_the_subset_of_an_imported_network_is_of_the_bank_or_of_an_option(
    imbalance: Any, tmp_path: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a bank, extract needs an option."""
    for name, module in loss_modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    torch.manual_seed(0)
    loss, banks = sys.modules["loss.proco"].ProCoLoss(), {}
    if imbalance:
        loss.estimator.Amount = 2.0 * TEN
        banks = {"criterion_scl": loss}
    path = saved(tmp_path, PlainResNet32(P, C, cosine=True), **banks)
    network, store = Path("new/a.safetensors"), Path("x.safetensors")
    convert = f"import-proco {path} {network}"
    assert call(convert) == 0
    unknown = "unknown; extract needs --long-tail"
    shown = capsys.readouterr().out
    assert "cifar10" in shown
    assert ("10, from the counts of a bank" if imbalance else unknown) in shown
    # Given again, the conversion is done already.
    assert call(convert) == 0
    assert capsys.readouterr().out == f"already converted: {network}\n"
    loaded = load_network(network)
    assert loaded.about["proco"]["imbalance"] == imbalance
    data = f"--data {write_cifar(tmp_path, 10)} --device cpu"
    extract = f"extract {network} --out {store} {data}"
    if imbalance is None:
        assert call(extract) == 2
        message = "expected the imbalance of the training images of cifar10, got a checkpoint"
        assert message in capsys.readouterr().err and not store.exists()
    subsets = [("", imbalance), ("--long-tail 2", 2.0), ("--long-tail 1", 1.0)]
    for options, subset in subsets if imbalance else subsets[1:]:
        assert call(f"{extract} {options}") == 0
        opened = FeatureStore.open(store)
        assert opened.label_counts().tolist() == long_tail_counts(10, C, subset).tolist()
        assert opened.metadata["imbalance"] == subset
        assert imbalance in (None, opened.metadata["config"]["imbalance"])
        assert opened.metadata["proco"]["classifier"] == "cosine"
