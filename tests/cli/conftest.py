"""Calls in an empty folder, short reports, and a small training."""

import json
from pathlib import Path
from typing import Any

import pytest

from images.photos import write_folder
from resultant.cli import main as cli
from resultant.cli.arguments import DATA_VARIABLE
from tiny_cifar import write_cifar

Shown = pytest.CaptureFixture[str]


def call(words: str) -> int:
    """The exit status of a command."""
    return cli.main(words.split())


def results(out: str | Path) -> Any:
    """The results of a report."""
    return json.loads(Path(out, "results.json").read_text())


def recommended(feature: Any) -> Any:
    """The recommended method of a feature, or the best one if none is recommended."""
    chosen = feature["recommendation"]
    (method,) = (m for m in feature["methods"] if m["key"] == (chosen["key"] or chosen["best"]))
    return method


def records(out: str | Path) -> list[dict[str, Any]]:
    """The records of a training."""
    return [json.loads(line) for line in Path(out, "records.jsonl").read_text().splitlines()]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(DATA_VARIABLE, raising=False)


@pytest.fixture(scope="session")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cifar(tmp_path_factory.mktemp("cifar"), 6)


# A small training on CIFAR-10, of a single run per network: grouped convolutions are slow on a CPU.
TRAIN = (
    "train cifar-controlled --device cpu --stack 1 --imbalance 3 --dim 8 --batch-size 8 "
    "--learning-rate 0.02"
)
# A native and an angular run of one epoch, with a classifier.
JOINT = f"{TRAIN} --epochs 1 --objective joint --realization native angular"


@pytest.fixture(scope="session")
def trained(cifar: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the runs of ``JOINT``, evaluated."""
    out = tmp_path_factory.mktemp("trained")
    assert call(f"{JOINT} --gradient-epochs 1 --data {cifar} --out {out}") == 0
    return out


# Training images of the photographs; one class has a single one.
PHOTOS = {"Ara macao": 6, "x, y": 4, "été": 1}


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of images with 11 training, 6 validation and 9 test images of three classes."""
    folder = tmp_path_factory.mktemp("photos")
    write_folder(folder / "train", PHOTOS)
    write_folder(folder / "val", dict.fromkeys(PHOTOS, 2), first=50)
    write_folder(folder / "test", dict.fromkeys(PHOTOS, 3), first=90)
    return folder
