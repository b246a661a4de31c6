"""Options of an image dataset, which several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

from resultant._core.text import counted
from resultant.cli.arguments import Data, data_root, shown_default

if TYPE_CHECKING:
    from rich.console import Console

    from resultant.images.source import ImageSplits
    from resultant.training.config import TrainConfig

OptionalPath = Annotated[Optional[Path], shown_default("PATH", "none")]
# Names of broken images that are printed.
SHOWN = 5


@dataclass(frozen=True)
class ImageOptions:
    """The images: a folder, Parquet files, or lists."""

    data: Data = None
    """A folder of train/CLASS/*, val/CLASS/*, test/CLASS/*, or of CLASS/*, or Parquet files."""
    lists: OptionalPath = None
    """Folder of the published lists, such as ImageNet_LT_train.txt."""
    train_list: OptionalPath = None
    """List of training images: a line is "path label" or "path,class name"."""
    val_list: OptionalPath = None
    """List of validation images, for tuning settings."""
    test_list: OptionalPath = None
    """List of test images."""
    images: Annotated[Optional[Path], shown_default("PATH", "the folder of --data")] = None
    """Folder that the paths in the lists are relative to."""
    class_names: Annotated[Optional[Path], shown_default("PATH", "classes.tsv of the folder")] = (
        None
    )
    """Names of numbered classes: one per line, or columns label and name separated by tabs."""
    held_out: float = 0.2
    """Share of each class to hold out as test, if the dataset has no held-out images."""
    split_seed: int = 0
    """Seed that selects these images."""
    image_column: str = "image"
    """Parquet column of the images."""
    label_column: str = "label"
    """Parquet column of the labels."""
    skip_broken: bool = False
    """Leave out and count broken or missing images and empty classes; the default is an error."""
    allow_outside: bool = False
    """Let lists name absolute paths, and paths with "..", outside the folder of the images."""

    def root(self, dataset: str) -> Path | None:
        """Return the path of --data, or the default one for a dataset that needs it."""
        listed = self.train_list is not None or (self.lists is not None and self.images is not None)
        if self.data is not None or listed:
            return self.data
        if dataset == "images":
            raise ValueError("expected --data FOLDER, or --train-list and --images, got neither")
        return data_root(None)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `resultant.training.image_sets.open_dataset`."""
        return {name: value for name, value in vars(self).items() if name != "data"}


def open_splits(
    config: TrainConfig, options: ImageOptions, workers: int | None, log: Console
) -> ImageSplits:
    """Open the images of a configuration; print their numbers and the images that were left out."""
    from resultant.training.image_sets import open_dataset

    splits = open_dataset(
        config, options.root(config.dataset), **options.arguments(), workers=workers
    )
    if splits.skipped:
        log.print(f"skipped {len(splits.skipped):,}:", highlight=False)
        rest = len(splits.skipped) - SHOWN
        for text in (*splits.skipped[:SHOWN], *([f"and {rest:,} more"] if rest > 0 else [])):
            log.print(f"  {text}", highlight=False, soft_wrap=True)
    sizes = {"train": splits.train, **splits.held_out_splits}
    numbers = ", ".join(f"{len(source):,} {name}" for name, source in sizes.items())
    ends = sorted({int(splits.counts.min()), int(splits.counts.max())})
    number = counted(splits.num_classes, "class", "classes")
    classes = f"{number} of {' to '.join(f'{n:,}' for n in ends)}"
    log.print(f"{config.dataset}: {numbers} images, {classes} training images", highlight=False)
    return splits
