"""Images without augmentation, straight from a source: resized, and cropped at the centre."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from resultant.images.decode import ImageError, resized
from resultant.images.source import ImageSource
from resultant.images.store import cores

if TYPE_CHECKING:
    from PIL.Image import Image

# Batches that each worker prepares ahead.
PREFETCH = 2


@dataclass(frozen=True)
class EvaluationView:
    """Resize the shorter side and crop the centre, as torchvision does with Pillow.

    Attributes:
        size: Height and width of the crop.
        short_side: Shorter side after resizing, at least ``size``.
        interpolation: Filter of Pillow: nearest, bilinear, bicubic, lanczos, box or hamming.
    """

    size: int
    short_side: int
    interpolation: str = "bilinear"

    def __call__(self, image: Image) -> Tensor:
        """Return uint8 [3, size, size] of an RGB image."""
        from PIL import Image

        width, height = image.size
        rows, columns = resized(height, width, self.short_side)
        if (columns, rows) != image.size:
            filter = Image.Resampling[self.interpolation.upper()]
            image = image.resize((columns, rows), filter)
        left, top = (round((side - self.size) / 2) for side in (columns, rows))
        image = image.crop((left, top, left + self.size, top + self.size))
        return torch.from_numpy(np.array(image)).permute(2, 0, 1)


class _Views(Dataset[Tensor]):
    def __init__(self, source: ImageSource, view: EvaluationView) -> None:
        self.source, self.view = source, view

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Tensor:
        return self.view(self.source.read(index))

    def __getitems__(self, indices: list[int]) -> list[Tensor] | str:
        """Return the views of a batch, or the text of an error.

        An error raised in a worker would carry the traceback of the worker as its message.
        """
        try:
            return [self[index] for index in indices]
        except ImageError as error:
            return str(error)


def _collate(items: Any) -> Any:
    return items if isinstance(items, str) else torch.stack(items)


def evaluation_batches(
    source: ImageSource, view: EvaluationView, batch_size: int, workers: int | None = None
) -> Iterator[Tensor]:
    """Yield the views uint8 [B, 3, S, S] of all images of a source in their order.

    ``workers`` processes decode, at most and by default one per core; 0 for this process.

    Raises:
        ImageError: If an image is broken.
    """
    workers = cores() if workers is None else min(workers, cores())
    batches = DataLoader(
        _Views(source, view),
        batch_size,
        num_workers=workers,
        collate_fn=_collate,
        pin_memory=torch.cuda.is_available(),
        prefetch_factor=PREFETCH if workers else None,
    )
    for batch in batches:
        if isinstance(batch, str):
            raise ImageError(batch)
        yield batch
