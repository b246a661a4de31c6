"""Decoded images of a source in one memory-mapped file, decoded once and used by every epoch.

A store is a folder with ``pixels.bin`` (uint8 [height, width, 3] image after image),
``index.safetensors`` (the sizes) and ``done.safetensors`` (which images are decoded). Its name
follows from the digest of the source and the size of the images, so that a later job finds it.
Images with a shorter side above ``short_side`` are reduced to it; smaller ones keep their size.

Images count as decoded once their pixels are on the disk. A store that was interrupted continues
with the others.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from resultant._core import tensor_files, validation
from resultant._core.text import counted
from resultant.images.decode import FORMATS, ImageError
from resultant.images.source import ImageSource, SelectedImages

# Part of the name of a store; a new number makes new stores.
FORMAT = 1
PIXELS, INDEX, DONE, LOCK = "pixels.bin", "index.safetensors", "done.safetensors", ".lock"
# Images of one task of a worker, and tasks that each worker has ahead.
TASK_IMAGES, TASKS_AHEAD = 16, 4
# Images whose sizes are read by one task.
SIZE_IMAGES = 256
# Seconds between two records of the decoded images.
RECORD_SECONDS = 20.0

# Called with the finished images and their number.
OnImages = Callable[[int, int], object]


class ImageStore:
    """Decoded images of a source; see `open_store`.

    Attributes:
        folder: Folder of the store.
        sizes: Heights and widths [N, 2] int32.
        offsets: First byte of each image in ``pixels``, and the end, [N + 1].
        pixels: Decoded images, flat uint8, mapped from the file.
        done: Decoded images [N], bool.
    """

    def __init__(self, source: ImageSource, folder: Path, sizes: Tensor, workers: int) -> None:
        self.source, self.folder, self.sizes, self.workers = source, folder, sizes, workers
        lengths = 3 * sizes.long().prod(1)
        self.offsets = torch.cat((lengths.new_zeros(1), lengths.cumsum(0)))
        pixels = folder / PIXELS
        if not pixels.exists() or pixels.stat().st_size < self.bytes:
            # A record of pixels that are lost.
            (folder / DONE).unlink(missing_ok=True)
        self.done = self._recorded()
        self._fresh, self._written = 0, time.monotonic()
        self._tasks: Iterator[Any] | None = None
        _reserve(pixels, self.bytes)
        mapped = np.memmap(pixels, dtype=np.uint8, mode="r+", shape=(max(self.bytes, 1),))
        self.pixels = torch.from_numpy(mapped)

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def bytes(self) -> int:
        """Bytes of all decoded images."""
        return int(self.offsets[-1])

    @property
    def complete(self) -> bool:
        return bool(self.done.all())

    def start(self, order: Tensor | None = None) -> None:
        """Start to decode the missing images by all workers, first those of ``order``.

        Sources that are read fast in one order are decoded in that order.
        """
        if self._tasks is not None or self.complete:
            return
        every, reading = torch.arange(len(self)), _reading_order(self.source)
        if reading is not None:
            order = reading
        order = every if order is None else torch.cat((order, every))
        missing = order[~self.done[order]].numpy()
        _, first = np.unique(missing, return_index=True)
        missing = missing[np.sort(first)]
        decoding = _Decoding(self.source, self.folder / PIXELS, self.sizes, self.offsets)
        self._tasks = _tasks(decoding, missing, TASK_IMAGES, self.workers)

    def wait(self, rows: Tensor) -> None:
        """Return when the images ``rows`` are decoded.

        Raises:
            ImageError: If an image is broken.
            OSError: If the disk is full; the images decoded so far are kept.
        """
        while not self.done[rows].all():
            self.start(rows)
            assert self._tasks is not None
            try:
                finished, error = next(self._tasks)
            except StopIteration:
                self._tasks = None
                continue
            self.done[finished] = True
            self._fresh += len(finished)
            if error is not None:
                self.close()
                raise error
            if time.monotonic() - self._written > RECORD_SECONDS:
                self._record()
        if self._fresh and self.complete:
            self.close()

    def fill(self, progress: OnImages | None = None) -> None:
        """Decode all images; other processes of the machine may do the same at the same time."""
        with FileLock(self.folder / LOCK):
            self.done |= self._recorded()
            for rows in torch.arange(len(self)).split(TASK_IMAGES):
                self.wait(rows)
                if progress is not None:
                    progress(int(rows[-1]) + 1, len(self))
            self.close()

    def close(self) -> None:
        """Stop decoding and record the decoded images."""
        self._tasks = None
        if self._fresh:
            self._record()

    def _recorded(self) -> Tensor:
        """Return the images that are recorded as decoded."""
        none = torch.zeros(len(self.sizes), dtype=torch.bool)
        try:
            tensors, _ = tensor_files.load(self.folder / DONE)
        except (OSError, ValueError):
            return none
        done = tensors.get("done", none)
        return done if done.shape == none.shape and done.dtype == none.dtype else none

    def _record(self) -> None:
        """Write the pixels to the disk, then the list of the decoded images."""
        descriptor = os.open(self.folder / PIXELS, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        tensor_files.save(self.folder / DONE, {"done": self.done}, {})
        self._fresh, self._written = 0, time.monotonic()


def open_store(
    source: ImageSource,
    folder: str | os.PathLike[str],
    short_side: int,
    *,
    workers: int | None = None,
    note: Callable[[str], object] | None = None,
) -> ImageStore:
    """Open the store of a source, or begin it.

    Args:
        source: The images.
        folder: Folder of stores; each source and size has its own folder in it.
        short_side: Shorter side of the images in pixels.
        workers: Processes that decode, 0 for none beside this one; by default one per core.
        note: Called with a sentence on the size of a new store.

    Returns:
        The store; `ImageStore.wait` decodes what is missing.

    Raises:
        ImageError: If the size of an image cannot be read.
        ValueError: For settings out of range, and if the disk is too small.
    """
    validation.integer("short_side", short_side, 1)
    workers = cores() if workers is None else validation.integer("workers", workers, 0)
    about = f"{FORMAT} {short_side} {source.digest()}"
    path = Path(folder) / hashlib.sha256(about.encode()).hexdigest()[:16]
    path.mkdir(parents=True, exist_ok=True)
    # The processes of a job open the store at the same time.
    with FileLock(path / LOCK):
        try:
            sizes = tensor_files.load(path / INDEX)[0]["sizes"]
        except (OSError, ValueError, KeyError):
            sizes = _read_sizes(source, short_side, workers)
            _require_space(path, sizes, note)
            tensor_files.save(path / INDEX, {"sizes": sizes}, {"source": about})
        if len(sizes) != len(source):
            rule = f"expected the sizes of {len(source)} images in {path / INDEX}"
            raise ValueError(f"{rule}, got {len(sizes)}; delete the folder")
        return ImageStore(source, path, sizes, workers)


def _require_space(path: Path, sizes: Tensor, note: Callable[[str], object] | None) -> None:
    """Raise if the disk is too small for a new store; note the size of the store."""
    needed, free = 3 * int(sizes.long().prod(1).sum()), shutil.disk_usage(path).free
    images = counted(len(sizes), "image", "images")
    if needed > free:
        rule = f"expected {gigabytes(needed)} of disk for {images} decoded to {path}"
        remedy = "give --store a folder on a larger disk"
        raise ValueError(f"{rule}, got {gigabytes(free)} free; {remedy}")
    if note is not None:
        note(f"{images} are decoded to {path}: {gigabytes(needed)}, {gigabytes(free)} free")


def delete_stores(folder: str | os.PathLike[str]) -> None:
    """Delete the stores in a folder, and the folder if nothing else is in it."""
    folder = Path(folder)
    for path in folder.glob("*"):
        if (path / INDEX).is_file():
            shutil.rmtree(path)
    with suppress(OSError):
        folder.rmdir()


def gigabytes(number: int) -> str:
    """Return a number of bytes as text, in GB."""
    return f"{number / 1e9:.3g} GB"


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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


def _read_sizes(source: ImageSource, short_side: int, workers: int) -> Tensor:
    order = _reading_order(source)
    order = torch.arange(len(source)) if order is None else order
    found: list[tuple[int, int]] = []
    for sizes in _tasks(_Sizes(source, short_side), order.numpy(), SIZE_IMAGES, workers):
        if isinstance(sizes, ImageError):
            raise ImageError(str(sizes))
        found += sizes
    result = torch.empty(len(source), 2, dtype=torch.int32)
    result[order] = torch.tensor(found, dtype=torch.int32).view(-1, 2)
    return result


def _reading_order(source: ImageSource) -> Tensor | None:
    """Return the order [N] in which a source is read fast; None if every order is."""
    rows = None
    if isinstance(source, SelectedImages):
        source, rows = source.source, source.rows
    if not getattr(source, "in_order", False):
        return None
    return torch.arange(len(source)) if rows is None else torch.from_numpy(np.argsort(rows))


class _Decoding(Dataset):
    """Tasks that decode images into the file; a task returns its images and its error."""

    def __init__(self, source: ImageSource, path: Path, sizes: Tensor, offsets: Tensor) -> None:
        self.source, self.path = source, path
        self.sizes, self.offsets = sizes.tolist(), offsets.tolist()

    def __getitems__(self, rows: Sequence[int]) -> tuple[list[int], Exception | None]:
        finished: list[int] = []
        try:
            descriptor = os.open(self.path, os.O_WRONLY)
            try:
                for i in rows:
                    self._decode(i, descriptor)
                    finished.append(i)
            finally:
                os.close(descriptor)
        except ImageError as error:
            return finished, ImageError(str(error))
        except OSError as error:
            return finished, OSError(error.errno, os.strerror(error.errno or 0), str(self.path))
        return finished, None

    def _decode(self, index: int, descriptor: int) -> None:
        from PIL import Image

        image, (height, width) = self.source.read(index), self.sizes[index]
        if image.size != (width, height):
            image = image.resize((width, height), Image.Resampling.BILINEAR)
        data = np.ascontiguousarray(image).data.cast("B")
        at = self.offsets[index]
        while data:
            written = os.pwrite(descriptor, data, at)
            data, at = data[written:], at + written


def _tasks(dataset: Dataset, rows: np.ndarray, number: int, workers: int) -> Iterator[Any]:
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


def _reserve(path: Path, number: int) -> None:
    """Give a file its size, with space on the disk where the system can reserve it."""
    with open(path, "ab"):
        pass
    if path.stat().st_size >= number:
        return
    with open(path, "r+b") as file:
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(file.fileno(), 0, number)
            except OSError as error:
                # Nothing is left of a file that does not fit.
                path.unlink()
                raise OSError(error.errno, os.strerror(error.errno or 0), str(path)) from None
        else:
            file.truncate(number)
