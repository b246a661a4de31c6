"""Published long-tailed image datasets: their lists and numbers of classes."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resultant.images.opening import Location, open_images
from resultant.images.source import ImageSplits


@dataclass(frozen=True)
class PublishedDataset:
    """Number of classes, names of the lists by split, if any, and the split that judges."""

    num_classes: int
    lists: dict[str, str] = field(default_factory=dict)
    held_out: str = "test"


def _lists(stem: str, *splits: str) -> dict[str, str]:
    return {split: f"{stem}_{split}.txt" for split in splits}


PUBLISHED = {
    "imagenet-lt": PublishedDataset(1000, _lists("ImageNet_LT", "train", "val", "test")),
    "places-lt": PublishedDataset(365, _lists("Places_LT", "train", "val", "test")),
    "inaturalist18": PublishedDataset(8142, _lists("iNaturalist18", "train", "val"), "val"),
    "tiny-imagenet-lt": PublishedDataset(200),
}


def open_published(
    name: str, data: Location | None, lists: Location | None = None, **options: Any
) -> ImageSplits:
    """Open a dataset of `PUBLISHED`.

    Args:
        name: Name of the dataset.
        data: Folder of the images and the lists, or the folder that holds a folder ``name``.
        lists: Folder of the lists, if another one.
        **options: Options of `open_images`, which replace the lists.

    Returns:
        The splits. A missing list of validation images is no error if there are test images.

    Raises:
        ValueError: As `open_images`, and for another number of classes.
    """
    about = PUBLISHED[name]
    if data is not None and (Path(data) / name).is_dir():
        data = Path(data) / name
    if about.lists and options.get("train_list") is None:
        folder = Path(lists if lists is not None else data if data is not None else os.curdir)
        for split, file in about.lists.items():
            if split in ("train", about.held_out) or (folder / file).is_file():
                options[f"{split}_list"] = options.get(f"{split}_list") or folder / file
    splits = open_images(data, **options)
    if splits.num_classes != about.num_classes:
        rule = f"expected the {about.num_classes:,} classes of {name}"
        raise ValueError(f"{rule}, got {splits.num_classes:,}; train images takes any dataset")
    return splits
