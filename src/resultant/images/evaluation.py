"""Views of images for evaluation: decoded when they are needed, and resized, cropped and normalized
by the transform of timm."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from resultant.images.photo_views import Colour, normalize
from resultant.images.source import ImageSource, in_threads
from resultant.images.vision import vision_module

# Images per forward pass.
BATCH_IMAGES = 128

# Returns the input of a network, in batches, for images at some indices.
Views = Callable[[Tensor], Iterable[Tensor]]


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


def source_views(
    source: ImageSource,
    view: EvaluationView,
    channels: tuple[Colour, Colour],
    device: torch.device,
    workers: int | None,
    rows: Tensor,
) -> Iterator[Tensor]:
    """Yield normalized views [N, 3, S, S] of images that ``workers`` threads decode."""
    views = in_threads(lambda index: view(source.read(index)), rows.tolist(), workers)
    while batch := list(islice(views, BATCH_IMAGES)):
        x = normalize(torch.stack(batch).to(device, non_blocking=True), *channels)
        yield x.contiguous(memory_format=torch.channels_last)
