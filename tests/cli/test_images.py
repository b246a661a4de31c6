"""A folder of photographs: train, extract, analyze; and a folder with broken images."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from images.photos import photo_bytes
from resultant._core.tensor_files import load
from resultant.classes.rule import REALIZATIONS
from resultant.cli import main as cli
from resultant.features.store import FeatureStore

pytestmark = pytest.mark.slow

SMALL = "--architecture test_resnet --size 32 --dim 8 --epochs 1 --batch-size 4 --device cpu"
NAMES = ["Ara macao", "x, y", "été"]


def train(data: Path, out: Path, *words: object) -> int:
    call = ["train", "images", *SMALL.split(), "--workers", "0", "--data", data, "--out", out]
    return cli.main([*map(str, call), *map(str, words)])


def record(out: Path) -> dict[str, Any]:
    (line,) = (out / "records.jsonl").read_text().splitlines()
    return json.loads(line)


@pytest.mark.usefixtures("brief")
def test_train_extract_analyze(photos: Path, tmp_path: Path) -> None:
    """Probes, frozen rules and the classifier are evaluated on test; val has chosen. Names of
    classes are in the network, the checkpoint, the features and the report."""
    out, store = tmp_path / "out", tmp_path / "x.safetensors"
    assert train(photos, out) == 0
    result = record(out)
    assert (result["held_out"], result["classes"], result["train_images"]) == ("test", 3, 11)
    assert 0 <= result["classifier"]["accuracy"] <= 1 and "tail" in result["classifier"]
    for space in ("encoder", "projection"):
        probe, chosen = result["probes"]["long_tail"][space], result["chosen"][space]
        # Nine test images.
        for accuracy in (probe["accuracy"], chosen["accuracy"]):
            assert 9 * accuracy == pytest.approx(round(9 * accuracy))
        rules = result["frozen"][space]
        assert rules["mle"].keys() == set(REALIZATIONS)
        assert rules[chosen["estimator"]][chosen["realization"]] == chosen["accuracy"]
    for file in ("native-seed0", "checkpoint"):
        assert load(out / "native-seed0" / f"{file}.safetensors")[1]["class_names"] == NAMES
    words = ["--device", "cpu", "--workers", "0", "--data", str(photos), "--out", str(store)]
    # The folder holds decoded images too.
    assert (out / "store").is_dir() and cli.main(["extract", str(out), *words]) == 0
    opened = FeatureStore.open(store)
    assert opened.metadata["class_names"] == NAMES
    sizes = {split: len(opened[f"{split}/labels"]) for split in ("train", "val", "test")}
    assert sizes == {"train": 11, "val": 6, "test": 9}
    assert cli.main(["analyze", str(store), "--out", str(tmp_path / "page")]) == 0
    results = json.loads((tmp_path / "page" / "results.json").read_text())
    assert "Ara macao" in results["features"][0]["data"]["class_names"]


def test_broken_images_stop_the_training_or_are_skipped(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = shutil.copytree(photos, tmp_path / "data"), tmp_path / "out"
    folder = data / "train" / "Ara macao"
    for i in range(4):
        (folder / f"{i}.png").write_bytes(photo_bytes(i)[:90])
    assert train(data, out, "--no-evaluate") == 2
    *_, last = capsys.readouterr().err.splitlines()
    assert re.match(rf"resultant: expected {folder}/\d\.png to be a whole image, got", last)
    assert "; --skip-broken leaves broken images out" in last
    assert not list(out.rglob("native*.safetensors")) and not (out / "records.jsonl").exists()
    assert train(data, out, "--no-evaluate", "--skip-broken", "--delete-store") == 0
    shown = capsys.readouterr().err
    assert not list((out / "store").glob("*"))
    assert "skipped 4:" in shown and str(folder / "3.png") in shown and "7 train" in shown
    assert record(out)["train_images"] == 7
