"""A folder of photographs: train, extract, analyze; and a folder with broken images."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from cli.conftest import call, records, results
from images.photos import photo_bytes
from resultant._core.tensor_files import load
from resultant.classes.rule import REALIZATIONS
from resultant.features.store import FeatureStore

pytestmark = pytest.mark.slow

TRAIN = (
    "train images --architecture test_resnet --size 32 --dim 8 --epochs 1 --batch-size 4 "
    "--device cpu --workers 0 --out out --data"
)
NAMES = ["Ara macao", "x, y", "été"]


@pytest.mark.usefixtures("brief")
def test_train_extract_analyze(photos: Path) -> None:
    """Probes, frozen rules and the classifier are evaluated on test; val has chosen. Names of
    classes are in the network, the checkpoint, the features and the report."""
    assert call(f"{TRAIN} {photos}") == 0
    (result,) = records("out")
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
        assert load(f"out/native-seed0/{file}.safetensors")[1]["class_names"] == NAMES
    # The folder holds decoded images too.
    assert Path("out/store").is_dir()
    words = f"--device cpu --workers 0 --data {photos} --out x.safetensors"
    assert call(f"extract out {words}") == 0
    opened = FeatureStore.open("x.safetensors")
    assert opened.metadata["class_names"] == NAMES
    sizes = {split: len(opened[f"{split}/labels"]) for split in ("train", "val", "test")}
    assert sizes == {"train": 11, "val": 6, "test": 9}
    assert call("analyze x.safetensors --out page") == 0
    assert "Ara macao" in results("page")["features"][0]["data"]["class_names"]


def test_broken_images(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They stop the training, or are skipped."""
    data, out = shutil.copytree(photos, Path("data").absolute()), Path("out")
    folder = data / "train" / "Ara macao"
    for i in range(4):
        (folder / f"{i}.png").write_bytes(photo_bytes(i)[:90])
    assert call(f"{TRAIN} {data} --no-evaluate") == 2
    *_, last = capsys.readouterr().err.splitlines()
    assert re.match(rf"resultant: expected {folder}/\d\.png to be a whole image, got", last)
    assert "; --skip-broken leaves broken images out" in last
    assert not list(out.rglob("native*.safetensors")) and not (out / "records.jsonl").exists()
    assert call(f"{TRAIN} {data} --no-evaluate --skip-broken --delete-store") == 0
    shown = capsys.readouterr().err
    assert not list((out / "store").glob("*"))
    assert "skipped 4:" in shown and str(folder / "3.png") in shown and "7 train" in shown
    assert [record["train_images"] for record in records(out)] == [7]
