"""Views of images for evaluation, resized, cropped and normalized: decoded when they are needed, by
the transform of timm, or from a store of decoded images."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from resultant.images.photo_views import Colour, evaluation_parameters, normalize
from resultant.images.rendering import Rendering, placed_on
from resultant.images.source import ImageSource, in_threads
from resultant.images.store import ImageStore, Placement
from resultant.images.vision import vision_module

# Images per forward pass while images are decoded.
BATCH_IMAGES = 128
# The most decoded images of a forward pass, and their pixels: 256 images of size 224.
STORED_IMAGES, STORED_PIXELS = 2048, 256 * 224**2

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


class StoredViews:
    """Views of decoded images: resized, and cropped at the centre; a new placement by default."""

    def __init__(
        self,
        store: ImageStore,
        view: EvaluationView,
        channels: tuple[Colour, Colour],
        dtype: torch.dtype,
        device: torch.device,
        placement: Placement | None = None,
    ) -> None:
        self.store, self.view, self.device, size = store, view, device, view.size
        # Few large passes: on small images the kernels are short, and starting them takes longer.
        number = min(STORED_IMAGES, max(1, STORED_PIXELS // size**2))
        number = number if placement is None else min(number, placement.number)
        self.placement = placement or Placement(store, placed_on(device), number)
        by = view.interpolation
        self.rendering = Rendering(number, size, *channels, device, interpolation=by)
        shape = (number, size, size, 3)
        self.buffer = torch.empty(shape, dtype=dtype, device=device).permute(0, 3, 1, 2)

    def __call__(self, rows: Tensor) -> Iterator[Tensor]:
        """Yield views [n, 3, size, size] of the images ``rows``; the next views overwrite them."""
        for chunk in rows.split(len(self.buffer)):
            pixels, offsets = self.placement.place(chunk, 0)
            sizes, views = self.store.sizes[chunk], self.buffer[: len(chunk)]
            parameters = evaluation_parameters(sizes, self.view.size, self.view.short_side)
            plan = self.rendering.plan(parameters)
            offsets, sizes = offsets.to(self.device), sizes.to(self.device)
            self.rendering(pixels, offsets, sizes, plan, views)
            yield views
