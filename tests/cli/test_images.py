"""A folder of photographs: train, extract, analyze; and folders that are broken."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from images.photos import photo_bytes, write_parquet
from resultant._core.tensor_files import load
from resultant.classes.rule import REALIZATIONS
from resultant.cli import main as cli
from resultant.cli.arguments import DATA_VARIABLE
from resultant.features.store import FeatureStore

Shown = pytest.CaptureFixture[str]

SMALL = "--architecture test_resnet --size 32 --dim 8 --epochs 1 --batch-size 4 --device cpu"
NAMES = ["Ara macao", "x, y", "été"]


def train(data: Path, out: Path, *words: object) -> int:
    call = ["train", "images", *SMALL.split(), "--workers", "0", "--data", data, "--out", out]
    return cli.main([*map(str, call), *map(str, words)])


def record(out: Path) -> dict[str, Any]:
    (line,) = (out / "records.jsonl").read_text().splitlines()
    return json.loads(line)


@pytest.fixture(scope="module")
def trained(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained")
    assert train(photos, out) == 0
    return out


@pytest.mark.slow
def test_record_of_a_run(trained: Path) -> None:
    """Probes, frozen rules and the classifier are judged on test; val has chosen."""
    result = record(trained)
    assert (result["held_out"], result["classes"], result["train_images"]) == ("test", 3, 11)
    assert 0 <= result["classifier"]["accuracy"] <= 1 and "tail" in result["classifier"]
    for space in ("encoder", "projection"):
        probe, chosen = result["probes"]["long_tail"][space], result["chosen"][space]
        # Nine test images.
        for accuracy in (probe["accuracy"], chosen["accuracy"]):
            assert 9 * accuracy == pytest.approx(round(9 * accuracy))
        assert probe["learning_rate"] in (0.1, 1.0, 10.0)
        rules = result["frozen"][space]
        assert rules["mle"].keys() == set(REALIZATIONS)
        assert rules[chosen["estimator"]][chosen["realization"]] == chosen["accuracy"]


@pytest.mark.slow
def test_class_names_travel(photos: Path, trained: Path, tmp_path: Path) -> None:
    """To the network, the checkpoint, the features and the report."""
    run, store = trained / "native-seed0", tmp_path / "x.safetensors"
    for file in ("native-seed0", "checkpoint"):
        assert load(run / f"{file}.safetensors")[1]["class_names"] == NAMES
    words = ["--device", "cpu", "--workers", "0", "--data", str(photos), "--out", str(store)]
    # The folder holds decoded images too.
    assert (trained / "store").is_dir() and cli.main(["extract", str(trained), *words]) == 0
    opened = FeatureStore.open(store)
    assert opened.metadata["class_names"] == NAMES
    sizes = {split: len(opened[f"{split}/labels"]) for split in ("train", "val", "test")}
    assert sizes == {"train": 11, "val": 6, "test": 9}
    out = tmp_path / "page"
    assert cli.main(["analyze", str(store), "--out", str(out)]) == 0
    page = (out / "results.json").read_text()
    assert "Ara macao" in json.dumps(json.loads(page), ensure_ascii=False)


@pytest.mark.slow
def test_long_tailed_subset_of_parquet(
    tmp_path: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The probes train on the subset, and on all images; the environment names the folder."""
    labels = [i % 3 for i in range(30)]
    write_parquet(tmp_path / "train.parquet", labels, names=["a", "b", "c"], group=7)
    write_parquet(tmp_path / "validation.parquet", labels[:6])
    words = ["--long-tail", "5", "--subset-seed", "1", "--objective", "contrastive"]
    assert train(tmp_path, tmp_path / "out", *words, "--no-classification-view") == 0
    shown = capsys.readouterr()
    assert "images: 16 train, 6 val images, 3 classes of 2 to 10 training images" in shown.err
    result = record(tmp_path / "out")
    assert result["probes"].keys() == {"long_tail", "balanced"} and "chosen" not in result
    assert result["held_out"] == "val" and "classifier" not in result
    assert "balanced probe E / P" in " ".join(shown.out.split())
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    assert (
        cli.main(["train", "tiny-imagenet-lt", *SMALL.split(), "--out", str(tmp_path / "t")]) == 2
    )
    assert "expected the 200 classes of tiny-imagenet-lt, got 3" in capsys.readouterr().err


@pytest.mark.slow
def test_broken_images_stop_the_training_or_are_skipped(
    photos: Path, tmp_path: Path, capsys: Shown
) -> None:
    data, out = shutil.copytree(photos, tmp_path / "data"), tmp_path / "out"
    folder = data / "train" / "Ara macao"
    for i in range(4):
        (folder / f"{i}.png").write_bytes(photo_bytes(i)[:90])
    words = ["--no-evaluate"]
    assert train(data, out, *words) == 2
    *_, last = capsys.readouterr().err.splitlines()
    assert re.match(rf"resultant: expected {folder}/\d\.png to be a whole image, got", last)
    assert "; --skip-broken leaves broken images out" in last
    assert not list(out.rglob("native*.safetensors")) and not (out / "records.jsonl").exists()
    assert train(data, out, *words, "--skip-broken", "--delete-store") == 0
    shown = capsys.readouterr().err
    assert not list((out / "store").glob("*"))
    assert "skipped 4:" in shown and str(folder / "3.png") in shown and "7 train" in shown
    assert record(out)["train_images"] == 7


@pytest.mark.slow
def test_killed_and_resumed_is_uninterrupted(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--epochs", "2", "--checkpoint-every", "1", "--no-evaluate"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert train(photos, whole, *words) == 0

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("resultant.cli.progress.EpochProgress.__call__", stop)
        assert train(photos, killed, *words) == 130
    assert not (killed / "records.jsonl").exists()
    assert train(photos, killed, *words) == 0
    files = [out / "native-seed0" / "native-seed0.safetensors" for out in (whole, killed)]
    (a, _), (b, _) = map(load, files)
    assert a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
    # Other images are another job.
    other = shutil.copytree(photos, tmp_path / "other")
    (other / "train" / "été" / "0.png").write_bytes(photo_bytes(77, "BMP"))
    assert train(other, killed, *words) == 2
