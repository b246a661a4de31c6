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
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from resultant._core import tensor_files, validation
from resultant._core.chunks import WORKER_BYTES
from resultant._core.files import clean_folder, make_folder, sync
from resultant._core.text import counted, data_size
from resultant.images.decoding import TASK_IMAGES, Decoding, read_sizes, reading_order, tasks
from resultant.images.jpeg_decoding import (
    LEAST_PIXELS,
    MANY_CORES,
    Decode,
    gpu_decoder,
    is_whole_jpeg,
)
from resultant.images.source import ImageSource

# Part of the name of a store; a new number makes new stores.
FORMAT = 1
PIXELS, INDEX, DONE, LOCK = "pixels.bin", "index.safetensors", "done.safetensors", ".lock"
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

    def __init__(
        self,
        source: ImageSource,
        folder: Path,
        sizes: Tensor,
        workers: int,
        device: torch.device | None = None,
    ) -> None:
        self.source, self.folder, self.sizes, self.workers = source, folder, sizes, workers
        self.device = device
        lengths = 3 * sizes.long().prod(1)
        self.offsets = torch.cat((lengths.new_zeros(1), lengths.cumsum(0)))
        pixels = folder / PIXELS
        if not pixels.exists() or pixels.stat().st_size < self.bytes:
            # A record of pixels that are lost.
            (folder / DONE).unlink(missing_ok=True)
        self.done = self._recorded()
        self._fresh, self._written = 0, time.monotonic()
        self._tasks: Iterator[Any] | None = None
        self._recording: Future[None] | None = None
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
        every, reading = torch.arange(len(self)), reading_order(self.source)
        if reading is not None:
            order = reading
        order = every if order is None else torch.cat((order, every))
        # Each image once, in this order.
        missing = list(dict.fromkeys(order[~self.done[order]].tolist()))
        decoding = Decoding(self.source, self.folder / PIXELS, self.sizes, self.offsets)
        decode = self._gpu_decoder()
        if decode is not None:
            self._tasks = decoding.by_gpu(missing, decode)
        else:
            # A process takes as long to start as some megabytes to decode.
            share = math.ceil(self.bytes * len(missing) / len(self) / WORKER_BYTES)
            self._tasks = tasks(decoding, missing, TASK_IMAGES, min(self.workers, share))

    def _gpu_decoder(self) -> Decode | None:
        """Return the decoder of the GPU if there is one and it pays."""
        large = self.bytes >= 3 * LEAST_PIXELS * len(self)
        if self.device is None or self.workers >= MANY_CORES or not large:
            return None
        data = self.source.bytes_at(0)
        return None if data is None or not is_whole_jpeg(data) else gpu_decoder(self.device)

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
            self._tasks = None
            self._record()

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
        """Stop decoding; return when the decoded images are recorded."""
        self._tasks = None
        if self._fresh:
            self._record()
        self._finish_record()

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
        """Write the pixels to the disk, then the list of the decoded images, in a thread.

        The disk may take seconds, in which the images are already used.
        """
        self._finish_record()
        done = self.done.clone()

        def write() -> None:
            sync(self.folder / PIXELS)
            # Other processes of a job decode and record their share of the images.
            tensor_files.save(self.folder / DONE, {"done": done | self._recorded()}, {})

        pool = ThreadPoolExecutor(1)
        self._recording = pool.submit(write)
        pool.shutdown(wait=False)
        self._fresh, self._written = 0, time.monotonic()

    def _finish_record(self) -> None:
        """Wait for the last record; raise its error."""
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.result()


def open_store(
    source: ImageSource,
    folder: str | os.PathLike[str],
    short_side: int,
    *,
    workers: int | None = None,
    device: torch.device | None = None,
    note: Callable[[str], object] | None = None,
) -> ImageStore:
    """Open the store of a source, or begin it.

    Args:
        source: The images.
        folder: Folder of stores; each source and size has its own folder in it.
        short_side: Shorter side of the images in pixels.
        workers: Processes that decode, 0 for this process; by default one per core.
        device: Device that decodes JPEG files if it can and the images are large.
        note: Called with a sentence on the size of a new store.

    Returns:
        The store; `ImageStore.wait` decodes the missing images.

    Raises:
        ImageError: If the size of an image cannot be read.
        ValueError: For settings out of range, and if the disk is too small.
    """
    validation.integer("short_side", short_side, 1)
    workers = cores() if workers is None else validation.integer("workers", workers, 0)
    about = f"{FORMAT} {short_side} {source.digest()}"
    path = Path(folder) / hashlib.sha256(about.encode()).hexdigest()[:16]
    make_folder(path)
    # The processes of a job open the store at the same time.
    with FileLock(path / LOCK):
        clean_folder(path)
        try:
            sizes = tensor_files.load(path / INDEX)[0]["sizes"]
        except (OSError, ValueError, KeyError):
            sizes = read_sizes(source, short_side)
            _require_space(path, sizes, note)
            tensor_files.save(path / INDEX, {"sizes": sizes}, {"source": about})
        if sizes.shape != (len(source), 2) or sizes.dtype != torch.int32 or not (sizes > 0).all():
            rule = f"expected the sizes of {len(source)} images in {path / INDEX}"
            raise ValueError(f"{rule}, got {len(sizes)} or others; delete the folder")
        return ImageStore(source, path, sizes, workers, device)


def _require_space(path: Path, sizes: Tensor, note: Callable[[str], object] | None) -> None:
    """Raise if the disk is too small for a new store; note the size of the store."""
    needed, free = 3 * int(sizes.long().prod(1).sum()), shutil.disk_usage(path).free
    images = counted(len(sizes), "image", "images")
    if needed > free:
        rule = f"expected {data_size(needed)} of disk for {images} decoded to {path}"
        remedy = "give --store a folder on a larger disk"
        raise ValueError(f"{rule}, got {data_size(free)} free; {remedy}")
    if note is not None:
        note(f"{images} are decoded to {path}: {data_size(needed)}, {data_size(free)} free")


def delete_stores(folder: str | os.PathLike[str]) -> None:
    """Delete the stores in a folder, and the folder if nothing else is in it."""
    folder = Path(folder)
    for path in folder.glob("*"):
        if (path / INDEX).is_file():
            shutil.rmtree(path)
    with suppress(OSError):
        folder.rmdir()


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
