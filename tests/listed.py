"""A few image files, plain and in the layout of ImageNet-LT."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from resultant.images.opening import open_images
from resultant.images.source import ImageSplits
from resultant.training.config import TrainConfig

NUM_CLASSES = 4
SIZES = {"train": (7, 5, 3, 2), "test": (2, 2, 2, 1), "val": (1, 1, 1, 1)}

# Settings of a network that trains on them in a moment.
SMALL: dict[str, Any] = {
    "architecture": "test_resnet",
    "dim": 8,
    "size": 32,
    "batch_size": 8,
    "epochs": 2,
}


def open_listed(root: Path, **options: Any) -> ImageSplits:
    """Open the images of `write_images` as ImageNet-LT without validation images."""
    lists = {f"{split}_list": root / f"ImageNet_LT_{split}.txt" for split in ("train", "test")}
    return open_images(root, **lists, **options)


def write_images(root: Path) -> None:
    """Write images 64 x 64, noise on a colour per class, and the lists of the three splits."""
    generator = np.random.default_rng(5)
    colours = generator.integers(40, 216, (len(SIZES["train"]), 3))
    for split, sizes in SIZES.items():
        lines = []
        for label, number in enumerate(sizes):
            for i in range(number):
                noise = generator.integers(-40, 40, (64, 64, 3))
                path = root / split / f"n{label}" / f"{i}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray((colours[label] + noise).astype(np.uint8)).save(path)
                lines.append(f"{path.relative_to(root)} {label}\n")
        (root / f"ImageNet_LT_{split}.txt").write_text("".join(lines))


def scaled(views: Tensor, config: TrainConfig) -> Tensor:
    """Normalize uint8 views [..., 3, S, S] by torchvision."""
    from torchvision.transforms.v2 import Compose, Normalize, ToDtype

    mean, std = config.channels
    steps = [ToDtype(torch.float32, scale=True), Normalize(list(mean), list(std))]
    return Compose(steps)(views)
