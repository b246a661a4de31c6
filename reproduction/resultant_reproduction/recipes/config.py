"""Settings of the paper's recipes, and presets by name.

The fields are those of tab:training-hyperparameters. A value that the paper does not give is that
of ProCo's public recipe: the argument of its scripts, else the default of its programs. `precision`
and `fuse` are this package's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from resultant.training.config import SEEDS, Channels, TrainConfig, number, require_bounds

Dataset = Literal[
    "cifar10", "cifar100", "imagenet-lt", "inaturalist18", "places-lt", "tiny-imagenet-lt", "images"
]

CIFAR = ("cifar10", "cifar100")
CIFAR_IMAGES = 50_000
# Mean and standard deviation of the channels of CIFAR.
CIFAR_CHANNELS = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
# Settings of CIFAR alone, and of the other datasets alone.
CIFAR_ALONE = ("imbalance", "subset", "contrastive", "contrastive_view")
OTHERS_ALONE = ("long_tail", "subset_seed", "pretrained", "weights", "mean", "std", "clip")
OTHERS_ALONE += ("accumulate",)
# Runs in one stack on a GPU; further stacks run side by side on their own streams.
STACK = 12


@dataclass(frozen=True, kw_only=True)
class PaperConfig(TrainConfig):
    """Settings of a run of the paper; the defaults are those of the controlled comparison."""

    dataset: Dataset = "cifar10"
    """Dataset of the training images."""
    imbalance: float = number(100.0, least=1)
    """n_max / n_min of the CIFAR subset."""
    subset: int = number(0, least=0, below=SEEDS)
    """Seed that selects the images of the CIFAR subset; 0 for the usual images."""
    architecture: str = "resnet32"
    """resnet32 for CIFAR; for other datasets any name of timm, such as resnext50_32x4d."""
    dim: int = number(128, least=2)
    """Dimension p of the projection."""
    size: int = number(32, least=0)
    """Height and width of a view; 0 for the size of the timm model's configuration."""
    objective: Literal["contrastive", "joint"] = "contrastive"
    """The contrastive loss alone, or joint with the loss of a classifier."""
    contrastive: Literal["proco", "supcon", "balanced"] = "proco"
    """ProCo; or, to compare with it, SupCon or balanced contrastive learning, for native runs."""
    temperature: float = number(0.1, least=2.0**-17)
    """tau of the contrastive scores."""
    contrastive_view: Literal["simclr", "autoaugment"] = "simclr"
    """Contrastive views: crops with colour jitter, or AutoAugment and Cutout (CIFAR)."""
    classification_view: bool = False
    """Add a third view for the classifier; otherwise the classifier reads the other views."""
    epochs: int = number(200, least=1)
    """Passes over the training images."""
    learning_rate: float = number(0.3, above=0)
    """Largest learning rate of the schedule."""
    weight_decay: float = number(2e-4, least=0)
    """Weight decay of SGD."""
    clip: float | None = number(None, above=0)
    """Largest norm of the gradient; not for CIFAR, whose runs share a step."""
    fuse: bool = True
    """Fused CUDA kernels for the blocks of ResNet-32, on a GPU of compute capability 9.0."""

    def rules(self) -> Iterator[tuple[bool, str, object]]:
        """Yield the rules between settings: True if one holds, its words, and what was given."""
        yield from super().rules()
        name, cifar = self.architecture, self.dataset in CIFAR
        rule = "resnet32 for CIFAR and a larger architecture for the other datasets"
        yield cifar == (name == "resnet32"), rule, f"{name} for {self.dataset}"
        for name in OTHERS_ALONE if cifar else CIFAR_ALONE:
            where, got = "other datasets than CIFAR" if cifar else "CIFAR", getattr(self, name)
            rule = f"{name} only for {where}"
            yield got == getattr(PaperConfig, name), rule, f"{got} for {self.dataset}"
        yield not cifar or self.size == 32, f"size 32 for {self.dataset}", self.size

    @property
    def channels(self) -> tuple[Channels, Channels]:
        """Mean and standard deviation of the channels."""
        return CIFAR_CHANNELS if self.dataset in CIFAR else super().channels

    @property
    def views(self) -> int:
        """Views of an image in a step; batch norm also sees a third one that no loss reads."""
        return 3 if self.classification_view else 2

    def rate(self, epoch: int) -> float:
        """Return the learning rate of an epoch; the controlled runs begin at the full rate."""
        if self.dataset in CIFAR and self.schedule == "cosine" and not self.warmup:
            return self.learning_rate / 2 * (1 + math.cos(math.pi * epoch / self.epochs))
        return super().rate(epoch)


def _images(dataset: Dataset, rate: float, decay: float, **changes: Any) -> PaperConfig:
    settings: dict[str, Any] = {"architecture": "resnet50", "dim": 1024, "size": 224, "epochs": 90}
    settings |= {"objective": "joint", "classification_view": True, "temperature": 0.07}
    # ProCo's program for these datasets clips at every step; its program for CIFAR does not.
    settings |= {"clip": 1.0, "learning_rate": rate, "weight_decay": decay, **changes}
    return PaperConfig(dataset=dataset, **settings)


PRESETS = {
    # The paper's controlled comparison: two strong views, cosine schedule.
    "cifar-controlled": PaperConfig(),
    # ProCo's public recipe: a third view for the classifier, steps after a warm-up.
    "cifar-official": PaperConfig(
        objective="joint", classification_view=True, schedule="step", warmup=5
    ),
    "imagenet-lt": _images("imagenet-lt", 0.1, 5e-4),
    "inaturalist18": _images("inaturalist18", 0.2, 1e-4),
    # In common use for these datasets; ProCo has no recipe for them.
    "places-lt": _images(
        "places-lt", 0.02, 5e-4, architecture="resnet152", pretrained=True, epochs=30
    ),
    "tiny-imagenet-lt": _images("tiny-imagenet-lt", 0.1, 5e-4, size=64, epochs=200),
}


def preset(name: str, **changes: Any) -> PaperConfig:
    """Return the settings of a preset of `PRESETS` with some fields of `PaperConfig` changed."""
    if name not in PRESETS:
        raise ValueError(f"expected a preset, one of {', '.join(PRESETS)}, got {name!r}")
    unknown = changes.keys() - {field.name for field in fields(PaperConfig)}
    if unknown:
        raise ValueError(f"expected fields of PaperConfig, got {', '.join(sorted(unknown))}")
    return replace(PRESETS[name], **changes)


@dataclass(frozen=True)
class ProbeConfig:
    """Settings of linear probes, with the values of tab:frozen-hyperparameters."""

    epochs: int = number(100, least=1)
    """Passes over the training features."""
    batch_size: int = number(256, least=1)
    """Features per step."""
    learning_rate: float = number(0.1, above=0)
    """Learning rate of the first epoch; it decays along a cosine."""
    momentum: float = number(0.9, least=0, below=1)
    """Momentum of SGD."""
    weight_decay: float = number(0.0, least=0)
    """Weight decay of SGD."""
    seed: int = number(0, least=0, below=SEEDS)
    """Seed of the order of the features."""

    def __post_init__(self) -> None:
        require_bounds(self)

    def rate(self, epoch: int) -> float:
        r"""Return the rate of an epoch, :math:`\tfrac{lr}{2}(1+\cos(\pi e/E))`."""
        return self.learning_rate / 2 * (1 + math.cos(math.pi * epoch / self.epochs))
