"""Decoded images of a source in one file, decoded once and used by every epoch and later jobs: a
folder with ``pixels.bin`` (uint8 [height, width, 3] image after image) and ``index.safetensors``
(their sizes), after which an interrupted store continues."""

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock
from PIL import Image
from torch import Tensor

from resultant._core import tensor_files
from resultant._core.files import clean_folder, make_folder
from resultant._core.text import counted
from resultant.images.rendering import resizing
from resultant.images.source import ImageSource, in_threads

# Part of the name of a store; a new number makes new stores.
FORMAT = 3
PIXELS, INDEX, LOCK = "pixels.bin", "index.safetensors", ".lock"
# Seconds between two records of the decoded images, and images between two looks at the disk.
RECORD_SECONDS, CHECKED = 20.0, 256

# GPU memory that images on the device leave to tests and to the allocator.
MARGIN_BYTES = 4 << 30

# Called with the finished images and their number.
OnImages = Callable[[int, int], object]


@dataclass(frozen=True, eq=False)
class ImageStore:
    """Decoded images of a source in a folder; see `open_store`."""

    source: ImageSource
    folder: Path
    sizes: Tensor  # [N, 2]
    offsets: Tensor  # bytes [N]
    pixels: Tensor

    def __len__(self) -> int:
        return len(self.sizes)


def open_store(
    source: ImageSource,
    folder: str | os.PathLike[str],
    short_side: int,
    workers: int | None = None,
    progress: OnImages | None = None,
    note: Callable[[str], object] | None = None,
    interpolation: str = "bilinear",
) -> ImageStore:
    """Open the store of a source in a folder of stores; decode the images that it lacks, reduced to
    ``short_side`` by ``interpolation``. Processes that open the same store wait for the first one.
    """
    way = resizing(interpolation)

    def image(index: int) -> np.ndarray:
        return np.asarray(reduced(source.read(index), short_side, way))

    about = f"{FORMAT} {short_side} {source.digest}"
    about += "" if way is Image.Resampling.BILINEAR else f" {way.name}"
    path = Path(folder) / hashlib.sha256(about.encode()).hexdigest()[:16]
    make_folder(path)
    with FileLock(path / LOCK):
        clean_folder(path)
        decoded = _recorded(path, len(source))
        if len(decoded) < len(source):
            began, first = time.perf_counter(), len(decoded)
            images = in_threads(image, source.order()[first:].tolist(), workers)
            try:
                decoded = _append(path, decoded, images, len(source), progress)
            except OSError as error:
                # A full disk, whose errors name no file.
                error.filename = str(path / PIXELS)
                raise
            if note is not None:
                number = counted(len(source) - first, "image", "images")
                seconds = time.perf_counter() - began
                note(f"decoded {number} in {seconds:.1f} s: {data_size(_end(decoded))} in {path}")
    lengths, order = _lengths(decoded), source.order()
    sizes, offsets = torch.empty_like(decoded), torch.empty_like(lengths)
    sizes[order], offsets[order] = decoded, lengths.cumsum(0) - lengths
    pixels = torch.from_file(str(path / PIXELS), False, _end(decoded), dtype=torch.uint8)
    return ImageStore(source, path, sizes, offsets, pixels)


def _append(
    path: Path, decoded: Tensor, images: Iterator[np.ndarray], total: int, progress: OnImages | None
) -> Tensor:
    """Append the images that are missing to the file; return the sizes of all, in their order."""
    sizes, recorded = decoded.tolist(), time.monotonic()
    with open(path / PIXELS, "ab") as file:
        # Pixels beyond the index may be incomplete.
        file.truncate(_end(decoded))
        file.seek(0, os.SEEK_END)

        def record() -> Tensor:
            file.flush()
            os.fsync(file.fileno())
            result = torch.tensor(sizes, dtype=torch.int32).view(-1, 2)
            tensor_files.save(path / INDEX, {"sizes": result}, {})
            return result

        try:
            for pixels in images:
                file.write(pixels.data)
                sizes.append(list(pixels.shape[:2]))
                if len(sizes) % CHECKED == 0:
                    _require_space(path, file.tell() * (total / len(sizes)), file.tell())
                if progress is not None:
                    progress(len(sizes), total)
                if time.monotonic() - recorded > RECORD_SECONDS:
                    record()
                    recorded = time.monotonic()
        finally:
            result = record()
    return result


def reduced(picture: Image.Image, short_side: int, way: Image.Resampling) -> Image.Image:
    """Return a picture whose shorter side is at most ``short_side``, as torchvision resizes it."""
    least = min(picture.size)
    if least <= short_side:
        return picture
    width, height = (int(short_side * side / least) for side in picture.size)
    return picture.resize((width, height), way)


def _recorded(path: Path, number: int) -> Tensor:
    """Return the sizes of the images that are recorded and whose pixels are there."""
    with suppress(OSError, ValueError, KeyError, RuntimeError):
        sizes = tensor_files.load(path / INDEX)[0]["sizes"].view(-1, 2)
        if len(sizes) <= number and _end(sizes) <= (path / PIXELS).stat().st_size:
            return sizes
    return torch.empty(0, 2, dtype=torch.int32)


def _lengths(sizes: Tensor) -> Tensor:
    return 3 * sizes.long().prod(1)


def _end(sizes: Tensor) -> int:
    return int(_lengths(sizes).sum())


def _require_space(path: Path, expected: float, written: int) -> None:
    free = shutil.disk_usage(path).free
    if expected - written > free:
        rule = f"expected about {data_size(int(expected))} of disk for the decoded images in {path}"
        remedy = "give --store a folder on a larger disk"
        raise ValueError(f"{rule}, got {data_size(free)} free; {remedy}")


def delete_stores(folder: str | os.PathLike[str]) -> None:
    """Delete the stores in a folder, and the folder if nothing else is in it."""
    folder = Path(folder)
    for path in folder.glob("*"):
        if (path / INDEX).is_file():
            shutil.rmtree(path)
    with suppress(OSError):
        folder.rmdir()


class Placement:
    """Pixels of batches of ``number`` images at most, for the views of a device, ``slots`` batches
    at a time; all pixels are on the GPU if they fit."""

    def __init__(
        self, store: ImageStore, device: torch.device, number: int, slots: int = 1
    ) -> None:
        self.store, self.pixels, self.number = store, store.pixels, number
        self.buffers: Tensor | None = None
        self.text = f"decoded images: {data_size(len(store.pixels))} on the disk"
        if device.type != "cuda":
            return
        # The cache of the allocator is free memory too.
        torch.cuda.empty_cache()
        if len(store.pixels) + MARGIN_BYTES < torch.cuda.mem_get_info(device)[0]:
            self.pixels = store.pixels.to(device)
            self.text = f"decoded images: {data_size(len(store.pixels))} on the GPU"
            return
        most = int(_lengths(store.sizes).topk(min(number, len(store))).values.sum())
        self.buffers = torch.empty(slots, most, dtype=torch.uint8, device=device)
        self.text += f", {data_size(self.buffers.numel())} of batches on the GPU"

    def place(self, rows: Tensor, slot: int) -> tuple[Tensor, Tensor]:
        """Return flat pixels on the device, and the first bytes [n] of the images ``rows`` [n]."""
        offsets = self.store.offsets[rows]
        if self.buffers is None:
            return self.pixels, offsets
        lengths = _lengths(self.store.sizes[rows])
        buffer, starts = self.buffers[slot], lengths.cumsum(0) - lengths
        parts = zip(starts.tolist(), offsets.tolist(), lengths.tolist(), strict=True)
        for to, start, length in parts:
            image = self.pixels[start : start + length]
            buffer[to : to + length].copy_(image, non_blocking=True)
        return buffer, starts


def data_size(number: int) -> str:
    """Return a number of bytes with its unit, such as 85.5 kB."""
    size, units = float(number), ["TB", "GB", "MB", "kB", "B"]
    while size >= 999.5 and len(units) > 1:
        size, _ = size / 1000, units.pop()
    return f"{size:.3g} {units[-1]}"
