"""Options of ``resultant train NAME`` for the recipes of the paper: the entry points of the group
``resultant.recipes``. Importing this module loads no torch."""

# Optional for a fast help, as in `resultant.cli.arguments`.
# ruff: noqa: UP045

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Optional

from resultant.cli.arguments import shown_default
from resultant.training.plugins import Recipe
from resultant_reproduction.recipes.config import (
    CIFAR_ALONE,
    OTHERS_ALONE,
    PRESETS,
    STACK,
    PaperConfig,
)


@dataclass(frozen=True, kw_only=True)
class CifarOptions(PaperConfig):
    """Options of a training on CIFAR, beside the settings of its runs."""

    stack: int = STACK
    """Number of runs trained as one network; 1 is faster on a CPU."""
    gradient_epochs: Annotated[tuple[int, ...], shown_default("INT ...", "none")] = ()
    """Epochs after which leading and exact gradients are compared."""
    download: bool = False
    """Download CIFAR first."""
    evaluate: bool = True
    """Fit probes and frozen rules at the end."""


@dataclass(frozen=True, kw_only=True)
class ListedOptions(PaperConfig):
    """Options of a training on a published dataset, beside the settings of its runs."""

    lists: Annotated[Optional[Path], shown_default("PATH", "the folder of --data")] = None
    """Folder of the published lists, such as ImageNet_LT_train.txt."""
    evaluate: bool = True
    """Fit probes and frozen rules at the end."""


HELP = {
    "cifar-controlled": "the paper's controlled comparison: two views, cosine schedule",
    "cifar-official": "ProCo's public recipe for CIFAR: joint training, three views, steps",
    "imagenet-lt": "ProCo's public recipe for ImageNet-LT",
    "inaturalist18": "ProCo's public recipe for iNaturalist 2018",
    "places-lt": "Places-LT: a pretrained ResNet-152",
    "tiny-imagenet-lt": "Tiny-ImageNet-LT: 64 x 64 images",
}


def recipe(name: str) -> Recipe:
    """Return a preset with its options."""
    here = "resultant_reproduction.train"
    if name.startswith("cifar-"):
        options = CifarOptions(**vars(PRESETS[name]))
        hidden = (*OTHERS_ALONE, "architecture", "size")
        return Recipe(options, HELP[name], f"{here}:train_cifar_runs", hidden)
    hidden = (*CIFAR_ALONE, "fuse", "dataset")
    settings = ListedOptions(**vars(PRESETS[name]))
    published = "resultant_reproduction.recipes.published:open_published"
    return Recipe(settings, HELP[name], f"{here}:train_published", hidden, published)


CIFAR_CONTROLLED, CIFAR_OFFICIAL = recipe("cifar-controlled"), recipe("cifar-official")
IMAGENET_LT, INATURALIST18 = recipe("imagenet-lt"), recipe("inaturalist18")
PLACES_LT, TINY_IMAGENET_LT = recipe("places-lt"), recipe("tiny-imagenet-lt")
