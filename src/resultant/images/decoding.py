"""Decoding of the images of a source into the file of a store, by workers or by the GPU."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from resultant.images.decode import FORMATS, ImageError
from resultant.images.jpeg_decoding import Decode, jpeg_batches, write_at
from resultant.images.source import ImageSource, SelectedImages

# Images of one task of a worker, and tasks that each worker has ahead.
TASK_IMAGES, TASKS_AHEAD = 16, 4
# Images whose sizes are read by one task.
SIZE_IMAGES = 256


def stored_size(height: int, width: int, short_side: int) -> tuple[int, int]:
    """Return height and width of an image in a store, by the rule of torchvision's Resize."""
    short, long = sorted((height, width))
    if short <= short_side:
        return height, width
    other = int(short_side * long / short)
    return (short_side, other) if height <= width else (other, short_side)


class _Sizes(Dataset):
    """Sizes in the store, by lists of indices."""

    def __init__(self, source: ImageSource, short_side: int) -> None:
        self.source, self.short_side = source, short_side

    def __getitems__(self, rows: Sequence[int]) -> list[tuple[int, int]] | ImageError:
        try:
            return [stored_size(*_size(self.source, i), self.short_side) for i in rows]
        except ImageError as error:
            return error


def _size(source: ImageSource, index: int) -> tuple[int, int]:
    """Return height and width of an image, without decoding it if that is possible."""
    from PIL import Image

    data = source.bytes_at(index)
    try:
        if data is not None:
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                width, height = image.size
                if image.mode in ("RGB", "L"):
                    return height, width
    except Exception:
        pass
    width, height = source.read(index).size
    return height, width


def read_sizes(source: ImageSource, short_side: int, workers: int) -> Tensor:
    order = reading_order(source)
    order = torch.arange(len(source)) if order is None else order
    found: list[tuple[int, int]] = []
    for sizes in tasks(_Sizes(source, short_side), order.numpy(), SIZE_IMAGES, workers):
        if isinstance(sizes, ImageError):
            raise ImageError(str(sizes))
        found += sizes
    result = torch.empty(len(source), 2, dtype=torch.int32)
    result[order] = torch.tensor(found, dtype=torch.int32).view(-1, 2)
    return result


def reading_order(source: ImageSource) -> Tensor | None:
    """Return the order [N] in which a source is read fast; None if every order is."""
    rows = None
    if isinstance(source, SelectedImages):
        source, rows = source.source, source.rows
    if not getattr(source, "in_order", False):
        return None
    return torch.arange(len(source)) if rows is None else torch.from_numpy(np.argsort(rows))


class Decoding(Dataset):
    """Tasks that decode images into the file; a task returns its images and its error."""

    def __init__(self, source: ImageSource, path: Path, sizes: Tensor, offsets: Tensor) -> None:
        self.source, self.path = source, path
        self.sizes, self.offsets = sizes.tolist(), offsets.tolist()

    def __getitems__(self, rows: Sequence[int]) -> tuple[list[int], Exception | None]:
        finished: list[int] = []
        try:
            with self.opened() as descriptor:
                for i in rows:
                    write_at(descriptor, self.decode(i), self.offsets[i])
                    finished.append(i)
        except (ImageError, OSError) as error:
            return finished, self._named(error)
        return finished, None

    def by_gpu(
        self, rows: Sequence[int], decode: Decode
    ) -> Iterator[tuple[list[int], Exception | None]]:
        """Decode by the GPU, in this process; yield as `__getitems__` returns."""
        with self.opened() as descriptor:

            def write(index: int, data: memoryview) -> None:
                write_at(descriptor, data, self.offsets[index])

            read, sizes = self.source.bytes_at, list(map(tuple, self.sizes))
            for finished, error in jpeg_batches(rows, read, sizes, decode, self.decode, write):
                yield finished, self._named(error)

    def decode(self, index: int) -> memoryview:
        """Return the pixels of an image, decoded and resized by Pillow."""
        from PIL import Image

        image, (height, width) = self.source.read(index), self.sizes[index]
        if image.size != (width, height):
            image = image.resize((width, height), Image.Resampling.BILINEAR)
        return np.ascontiguousarray(image).data.cast("B")

    @contextmanager
    def opened(self) -> Iterator[int]:
        descriptor = os.open(self.path, os.O_WRONLY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _named(self, error: Exception | None) -> Exception | None:
        """Return an error that names its file and holds no frames of a worker."""
        if isinstance(error, OSError):
            return OSError(error.errno, os.strerror(error.errno or 0), str(self.path))
        return None if error is None else ImageError(str(error))


def tasks(dataset: Dataset, rows: np.ndarray, number: int, workers: int) -> Iterator[Any]:
    """Yield the results of a dataset for ``number`` rows at a time, in order, from workers."""
    batches = [rows[top : top + number].tolist() for top in range(0, len(rows), number)]
    workers = min(workers, len(batches))
    loader = DataLoader(
        dataset,
        batch_sampler=batches,  # type: ignore[arg-type]
        num_workers=workers,
        collate_fn=_unchanged,
        prefetch_factor=TASKS_AHEAD if workers else None,
    )
    return iter(loader)


def _unchanged(result: Any) -> Any:
    return result
