"""Images without augmentation, by the transforms of timm."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from resultant._core.vision import vision_module

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class EvaluationView:
    """Evaluation transform of timm; ``crop`` is its ``crop_pct``, ``mode`` its ``crop_mode``."""

    size: int
    crop: float = 0.875
    mode: str = "center"
    interpolation: str = "bilinear"
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)

    @cached_property
    def _transform(self) -> Any:
        return vision_module("timm.data").create_transform(
            input_size=(3, self.size, self.size),
            crop_pct=self.crop,
            crop_mode=self.mode,
            interpolation=self.interpolation,
            mean=self.mean,
            # Levels, which the device normalizes.
            use_prefetcher=True,
        )

    @property
    def short_side(self) -> int:
        """Shorter side after resizing by the mode ``center``."""
        return int(self.size / self.crop)

    def __call__(self, image: Image) -> Tensor:
        """Return uint8 [3, size, size] of an RGB image."""
        return torch.as_tensor(np.asarray(self._transform(image)))
