"""A command of the test, short reports, and a small training."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from images.photos import write_folder
from resultant.cli import main as cli
from tiny_cifar import tiny_cifar


@dataclass(frozen=True)
class Options:
    """For this test."""

    number: int = 0


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of a command ``test``; the test sets its ``function``."""
    module: Any = ModuleType("command_of_test")
    module.Options = Options
    monkeypatch.setitem(sys.modules, module.__name__, module)
    entry = cli.Command("command_of_test:Options", "command_of_test:function", "for this test")
    monkeypatch.setitem(cli.COMMANDS, "test", entry)
    return module


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without references, theory and maps, for tests of everything else."""
    monkeypatch.setattr(
        "resultant.analysis.analyze.explain", lambda evaluated, *_: evaluated.result
    )
    monkeypatch.setattr("resultant.analysis.methods.references", lambda *_, **__: ())


def write_cifar(folder: Path, train: int) -> Path:
    """Write CIFAR-10 of few training images and of 3 test images per class, as an .npz."""
    data = tiny_cifar(10, train, 3)
    names = ("train_images", "train_labels", "test_images", "test_labels")
    np.savez(folder / "cifar10.npz", **{name: getattr(data, name).numpy() for name in names})
    return folder


@pytest.fixture(scope="session")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cifar(tmp_path_factory.mktemp("cifar"), 6)


Train = Callable[..., int]


@pytest.fixture(scope="session")
def train(cifar: Path) -> Train:
    """``train(*words)``: the exit status of a small training on CIFAR-10."""
    # A single run per network: grouped convolutions are slow on a CPU.
    small = "--device cpu --stack 1 --imbalance 3 --dim 8 --batch-size 8 --learning-rate 0.02"

    def run(*words: object) -> int:
        return cli.main(["train", "cifar-controlled", *small.split(), *map(str, words)])

    return run


@pytest.fixture(scope="session")
def trained(cifar: Path, train: Train, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a native and an angular run of one epoch, with a classifier and evaluated."""
    out = tmp_path_factory.mktemp("trained")
    words = ["--epochs", "1", "--objective", "joint", "--realization", "native", "angular"]
    assert train(*words, "--gradient-epochs", "1", "--data", cifar, "--out", out) == 0
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
