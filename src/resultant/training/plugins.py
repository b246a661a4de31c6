"""Recipes and networks of other distributions, found by their entry points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Protocol

from resultant.training.config import TrainConfig

if TYPE_CHECKING:
    from torch import Tensor, nn

    from resultant.images.evaluation import EvaluationView
    from resultant.images.source import ImageSplits

# Groups of entry points: a `Recipe` by the name after ``resultant train``, and a `NetworkKind` by
# the architecture in the settings of a network.
RECIPES, NETWORKS = "resultant.recipes", "resultant.networks"
# Names of the paper, for the error without its package.
PAPER = ("cifar-controlled", "cifar-official", "imagenet-lt", "inaturalist18", "places-lt")
PAPER += ("tiny-imagenet-lt", "resnet32")
INSTALL = "it comes with the reproduction of the paper: pip install ./reproduction"


@dataclass(frozen=True)
class Recipe:
    """Settings behind ``resultant train NAME``, each of them an option, and their trainer."""

    config: TrainConfig
    help: str
    train: str  # module:function of the options of ``resultant train``
    hidden: tuple[str, ...] = ("dataset",)  # settings that are no options
    # module:function of a name, data and options, which opens images by their published lists
    images: str = ""


class NetworkKind(Protocol):
    """Networks of an architecture that is no timm model, trained several at a time."""

    def config(self, settings: dict[str, Any]) -> TrainConfig:
        """Return the settings of a network from its file."""
        ...

    def view(self, config: TrainConfig) -> EvaluationView:
        """Return the view that a network is evaluated on."""
        ...

    def load(
        self,
        config: TrainConfig,
        num_classes: int,
        classifier: str | None,
        weights: dict[str, Tensor],
        location: str,
    ) -> nn.Module:
        """Build a network with these weights, from normalized images to `encoder.Outputs`."""
        ...

    def open_images(
        self, config: TrainConfig, about: dict[str, Any], data: Any, changes: Mapping[str, Any]
    ) -> ImageSplits:
        """Open the images of a network, with ``long_tail`` or ``subset_seed`` of others."""
        ...


@cache
def plugins(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, not loaded."""
    return {entry.name: entry for entry in entry_points(group=group)}


def recipes() -> dict[str, Recipe]:
    """Return the recipes of all distributions by name."""
    return {name: entry.load() for name, entry in plugins(RECIPES).items()}


def open_dataset_images(name: str, data: Any, **options: Any) -> ImageSplits:
    """Open images by the published lists of a recipe, or else as `open_images` does."""
    from resultant.images.opening import open_images

    entry = plugins(RECIPES).get(name)
    opener = entry.load().images if entry is not None else ""
    if opener and options.get("train_list") is None:
        return resolve_name(opener)(name, data, **options)
    return open_images(data, **options)


def network_kind(architecture: object) -> NetworkKind | None:
    """Return the kind of networks of an architecture, None for a timm model."""
    if architecture in plugins(NETWORKS):
        return plugins(NETWORKS)[str(architecture)].load()
    if architecture in PAPER:
        raise ValueError(f"expected a network of timm, got {architecture}; {INSTALL}")
    return None
