"""Image datasets with published lists, such as ImageNet-LT and iNaturalist 2018."""

import os
from pathlib import Path
from typing import Any, NamedTuple

from resultant.features.naming import Location
from resultant.images.opening import open_images
from resultant.images.source import ImageSplits
from resultant.training.image_sets import with_long_tail
from resultant_reproduction.recipes.config import PaperConfig


class PublishedDataset(NamedTuple):
    """Number of classes, stem of the names of the lists, their splits; the last has results."""

    num_classes: int
    stem: str = ""
    splits: tuple[str, ...] = ()


PUBLISHED = {
    "imagenet-lt": PublishedDataset(1000, "ImageNet_LT", ("train", "val", "test")),
    "places-lt": PublishedDataset(365, "Places_LT", ("train", "val", "test")),
    "inaturalist18": PublishedDataset(8142, "iNaturalist18", ("train", "val")),
    "tiny-imagenet-lt": PublishedDataset(200),
}


def open_published(
    name: str, data: Location | None, lists: Location | None = None, **options: Any
) -> ImageSplits:
    """Open a dataset of `PUBLISHED` in the folder ``data`` or ``data/name``, by its lists."""
    about = PUBLISHED[name]
    if data is not None and (Path(data) / name).is_dir():
        data = Path(data) / name
    if about.splits and options.get("train_list") is None:
        folder = Path(lists if lists is not None else data if data is not None else os.curdir)
        for split in about.splits:
            file = folder / f"{about.stem}_{split}.txt"
            if split in ("train", about.splits[-1]) or file.is_file():
                options[f"{split}_list"] = options.get(f"{split}_list") or file
    splits = open_images(data, **options)
    if splits.num_classes != about.num_classes:
        rule = f"expected the {about.num_classes:,} classes of {name}"
        raise ValueError(f"{rule}, got {splits.num_classes:,}; train images takes any dataset")
    return splits


def open_dataset(config: PaperConfig, data: Location | None = None, **options: Any) -> ImageSplits:
    """Open the images of a recipe, with its long-tailed subset."""
    splits = open_published(config.dataset, data, **options)
    return with_long_tail(splits, config.long_tail, config.subset_seed)
