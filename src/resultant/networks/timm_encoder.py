"""Image encoders of timm with a projector and a cosine classifier."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from resultant.networks.outputs import Outputs


class CosineClassifier(nn.Module):
    """Logits ``scale * cos(w_c, x)`` without bias: x [N, i] to [N, C].

    Class vectors start with length one, as in ProCo's public code: the length does not change the
    logits, but determines how far a step turns a class vector.
    """

    def __init__(self, i: int, num_classes: int, scale: float = 30.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(F.normalize(torch.empty(num_classes, i).uniform_(-1, 1), dim=-1))
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * F.linear(F.normalize(x, dim=-1), F.normalize(self.weight, dim=-1))


class ImageNetwork(nn.Module):
    """A timm encoder with a projector d -> d -> p to the unit sphere and an optional classifier.

    The outputs have a leading axis of one run, as those of `StackedResNet32`.

    Args:
        architecture: Name of a timm model, such as ``resnet50``.
        dim: Dimension p of the projection.
        num_classes: Number of classes C of a cosine classifier; None for no classifier.
        seed: Seed of the initial weights; the global generators are left unchanged.

    Raises:
        ValueError: If timm has no such model.
    """

    def __init__(
        self, architecture: str, dim: int = 1024, num_classes: int | None = None, seed: int = 0
    ) -> None:
        super().__init__()
        import timm

        if not timm.is_model(architecture):
            rule = "expected an architecture of timm, such as resnet50"
            raise ValueError(f"{rule}, got {architecture!r}")
        with torch.random.fork_rng(devices=[]):
            # Not torch.manual_seed, which would seed the devices too.
            torch.default_generator.manual_seed(seed)
            self.encoder = timm.create_model(architecture, pretrained=False, num_classes=0)
            d: int = self.encoder.num_features  # type: ignore[assignment]
            self.projector = nn.Sequential(
                nn.Linear(d, d), nn.BatchNorm1d(d), nn.ReLU(), nn.Linear(d, dim)
            )
            self.classifier = None if num_classes is None else CosineClassifier(d, num_classes)

    def forward(self, x: Tensor) -> Outputs:
        encoder = self.encoder(x).float()
        with torch.autocast(x.device.type, enabled=False):
            projection = F.normalize(self.projector(encoder), dim=-1)
            logits = None if self.classifier is None else self.classifier(encoder)
        return Outputs(encoder[None], projection[None], None if logits is None else logits[None])
