"""Settings of the networks of ProCo's authors, whose converted checkpoints name no dataset.

The number of classes gives the dataset, and the counts of a bank the imbalance of CIFAR.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from resultant.images.longtail import long_tail_counts
from resultant.training.config import CIFAR, TrainConfig, preset

# Preset and dataset by number of classes.
RECIPES = {
    10: ("cifar-official", "cifar10"),
    100: ("cifar-official", "cifar100"),
    1000: ("imagenet-lt", "imagenet-lt"),
    8142: ("inaturalist18", "inaturalist18"),
    365: ("imagenet-lt", "places-lt"),
}
# Names of the architectures in timm.
TIMM = {"resnet32": "resnet32", "resnet50": "resnet50", "resnext50": "resnext50_32x4d"}

# Usual imbalances of CIFAR, the size of its training set, and the authors' batch size.
IMBALANCES = (1.0, 10.0, 20.0, 50.0, 100.0, 200.0)
CIFAR_IMAGES = 50_000
BATCH = 256


def recipe(
    arch: str, dim: int, num_classes: int, where: str, imbalance: float | None = None
) -> TrainConfig:
    """Return the preset that fits a checkpoint ``where`` of resnet32, resnet50 or resnext50."""
    if num_classes not in RECIPES:
        numbers = ", ".join(f"{number} ({name})" for number, (_, name) in RECIPES.items())
        rule = f"expected a number of classes among {numbers}"
        raise ValueError(f"{rule}, got {num_classes} in {where}")
    name, dataset = RECIPES[num_classes]
    if (arch == "resnet32") != (dataset in CIFAR):
        fitting = "resnet32" if dataset in CIFAR else "resnet50 or resnext50"
        rule = f"expected {fitting} for the {num_classes} classes of {dataset}"
        raise ValueError(f"{rule}, got {arch} in {where}")
    changes: dict[str, Any] = {} if imbalance is None else {"imbalance": imbalance}
    return preset(name, dataset=dataset, architecture=TIMM[arch], dim=dim, **changes)


def imbalance_of(count: Tensor) -> float | None:
    """Infer the imbalance of a CIFAR subset from the counts [C] of a bank, None if none fits.

    A bank counts every view of the images of whole batches, or of all images.
    """
    num_classes, total = len(count), int(count.sum())
    if RECIPES.get(num_classes, ("", ""))[1] not in CIFAR:
        return None
    for imbalance in IMBALANCES:
        sizes = long_tail_counts(CIFAR_IMAGES // num_classes, num_classes, imbalance)
        number = int(sizes.sum())
        for seen in (number, number // BATCH * BATCH):
            views, rest = divmod(total, seen)
            if views and not rest and (count <= views * sizes).all():
                return imbalance
    return None
