"""Listed images of four classes, and a recipe that trains on them in a moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from listed import SMALL, four_classes, open_listed, write_images
from resultant.images.opening import PUBLISHED
from resultant.images.source import ImageSplits
from resultant.training.config import Run, TrainConfig, preset

RUN = Run("angular", 0.5, 3)
CHANGES = {"learning_rate": 0.02, "clip": 0.5}


@pytest.fixture(autouse=True)
def _four_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give ImageNet-LT four classes in every test of a file that imports this fixture."""
    monkeypatch.setitem(PUBLISHED, "imagenet-lt", PUBLISHED["imagenet-lt"])
    four_classes()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the images and of their lists."""
    path = tmp_path_factory.mktemp("images")
    write_images(path)
    return path


@pytest.fixture
def data(root: Path) -> ImageSplits:
    """The images without validation images."""
    return open_listed(root)


def config(**changes: Any) -> TrainConfig:
    """A small recipe."""
    return preset("imagenet-lt", precision="float32", **(SMALL | CHANGES | changes))
