"""Decoding of the images of a source into the file of a store, by workers or by the GPU."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from resultant.images.decode import FORMATS, ImageError, resized
from resultant.images.jpeg_decoding import Decode, jpeg_batches, write_at
from resultant.images.source import ImageSource, SelectedImages

# Images of one task of a worker, and tasks that each worker has ahead: a task returns no pixels.
TASK_IMAGES, TASKS_AHEAD = 16, 256
# Images whose sizes are read by one task, and threads that read them.
SIZE_IMAGES, THREADS = 256, 8


def stored_size(height: int, width: int, short_side: int) -> tuple[int, int]:
    """Return height and width of an image in a store, which enlarges no image."""
    if min(height, width) <= short_side:
        return height, width
    return resized(height, width, short_side)


def jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Return height and width from the header of a JPEG file, or None for other contents."""
    if data[:2] != b"\xff\xd8":
        return None
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        # A frame: 0xC0 to 0xCF but for tables of codes and conditions.
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = (int.from_bytes(data[k : k + 2], "big") for k in (at + 5, at + 7))
            return (height, width) if height and width else None
        if not 0xC0 <= marker <= 0xFE or length < 2:
            return None
        at += 2 + length
    return None


def _size(source: ImageSource, index: int) -> tuple[int, int]:
    """Return height and width of an image, without decoding it if that is possible."""
    from PIL import Image

    data = source.bytes_at(index)
    if data is not None and (size := jpeg_size(data)) is not None:
        return size
    try:
        if data is not None:
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                return image.size[1], image.size[0]
    except Exception:
        pass
    width, height = source.read(index).size
    return height, width


def read_sizes(source: ImageSource, short_side: int) -> Tensor:
    """Read the sizes [N, 2] of the decoded images from the headers of the files.

    Raises:
        ImageError: If an image has none.
    """
    order = reading_order(source)
    order = torch.arange(len(source)) if order is None else order

    def some(rows: list[int]) -> list[tuple[int, int]]:
        return [stored_size(*_size(source, i), short_side) for i in rows]

    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(some, [rows.tolist() for rows in order.split(SIZE_IMAGES)]))
    result = torch.empty(len(source), 2, dtype=torch.int32)
    sizes = [size for rows in results for size in rows]
    result[order] = torch.tensor(sizes, dtype=torch.int32).view(-1, 2)
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


def tasks(dataset: Dataset, rows: list[int], number: int, workers: int) -> Iterator[Any]:
    """Yield the results of a dataset for ``number`` rows at a time, in order, from workers."""
    batches = [rows[top : top + number] for top in range(0, len(rows), number)]
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
