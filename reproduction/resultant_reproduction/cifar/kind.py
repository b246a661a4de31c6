"""Networks of ResNet-32 from files, for `resultant extract` and every other command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from resultant.cli.arguments import data_root
from resultant.images.evaluation import EvaluationView
from resultant.images.source import ImageSplits
from resultant.training.checkpoints import load_weights
from resultant.training.encoder import CosineClassifier, Outputs
from resultant_reproduction.cifar.data import load_cifar
from resultant_reproduction.cifar.network import StackedResNet32, patches
from resultant_reproduction.recipes.config import PaperConfig


class OneNetwork(nn.Module):
    """The network of one run, from normalized images [N, 3, 32, 32] to `encoder.Outputs`."""

    def __init__(self, stacked: StackedResNet32) -> None:
        super().__init__()
        self.stacked = stacked

    def forward(self, images: Tensor) -> Outputs:
        encoder, projection, logits = self.stacked(patches(images[None]))
        return Outputs(encoder[0], projection[0], None if logits is None else logits[0])


class ResNet32:
    """The kind of these networks; see `resultant.training.plugins.NetworkKind`."""

    @staticmethod
    def config(settings: dict[str, Any]) -> PaperConfig:
        """Return the settings of a network from its file."""
        return PaperConfig(**settings)

    @staticmethod
    def view(config: PaperConfig) -> EvaluationView:
        """Return the view that a network is evaluated on: the whole image."""
        return EvaluationView(config.size, crop=1.0)

    @staticmethod
    def load(
        config: PaperConfig,
        num_classes: int,
        classifier: str | None,
        weights: dict[str, Tensor],
        location: str,
    ) -> OneNetwork:
        """Build a network with these weights, which have no axis of runs."""
        classified = any(k.startswith("classifier.") for k in weights)
        network = StackedResNet32([0], config.dim, num_classes if classified else None)
        # The authors use both kinds of classifiers for both kinds of networks.
        linear, replaced = network.classifier, False
        if classifier == "cosine" and linear is not None:
            width, replaced = linear.weight.shape[-1], True
            network.add_module("classifier", CosineClassifier(width, num_classes))
        # A replaced classifier has no axis of runs, and no norm counts its batches.
        weights = {
            k: a if replaced and k.startswith("classifier.") else a.unsqueeze(0)
            for k, a in weights.items()
            if not k.endswith("num_batches_tracked")
        }
        load_weights(network, weights, config, location)
        return OneNetwork(network).eval()

    @staticmethod
    def open_images(
        config: PaperConfig, about: dict[str, Any], data: Path | None, changes: Mapping[str, Any]
    ) -> ImageSplits:
        """Open CIFAR with the subset of the training, or that of ``long_tail`` in ``changes``."""
        known = about["proco"]["imbalance"] if "proco" in about else config.imbalance
        imbalance = changes.get("long_tail", known)
        if imbalance is None:
            rule = f"expected the imbalance of the training images of {config.dataset}"
            remedy = "resultant extract takes --long-tail, with 1 for all images"
            raise ValueError(f"{rule}, got a checkpoint without it; {remedy}")
        images = load_cifar(config.dataset, data_root(data))
        subset = changes.get("subset_seed", config.subset)
        members = None if imbalance == 1 else images.members(imbalance, subset)
        trained = asdict(config) | {"imbalance": imbalance if known is None else known}
        return images.splits(members, {"imbalance": float(imbalance), "config": trained})
