"""JPEG files decoded by the GPU, with nvJPEG through torchvision.

nvJPEG and Pillow round differently: a few levels apart. Files that nvJPEG may not decode as Pillow
does (other formats, four channels, truncated files) go to Pillow, which also reports errors.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from resultant._core import chunks
from resultant._core.vision import vision_module

# Images that are decoded at a time, and threads that read and write files.
BATCH, THREADS = 64, 8
# Mean pixels of a decoded image from which the GPU is faster than a few cores, and the cores that
# are faster than the GPU, which also trains, and whose pixels go through the memory of the host.
LEAST_PIXELS, MANY_CORES = 160 * 160, 8
START, END = b"\xff\xd8", b"\xff\xd9"
# Bytes after the end of a JPEG file that some programs write.
TRAILING = 64

# Maps contents of files to images uint8 [3, H, W].
Decode = Callable[[list[Tensor]], list[Tensor]]
# Decodes an image by Pillow and returns its pixels [height, width, 3] as bytes.
Fallback = Callable[[int], memoryview]


@cache
def gpu_decoder(device: torch.device) -> Decode | None:
    """Return nvJPEG on a device, or None if torchvision has none that works."""
    if device.type != "cuda":
        return None
    try:
        from PIL import Image

        vision = vision_module("torchvision.io")
        file = io.BytesIO()
        Image.new("RGB", (32, 32)).save(file, "JPEG")
        data = torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)

        def decode(files: list[Tensor]) -> list[Tensor]:
            return vision.decode_jpeg(files, mode=vision.ImageReadMode.RGB, device=device)

        decode([data, data])
    except (ImportError, ValueError, RuntimeError, AttributeError):
        return None
    return decode


def is_whole_jpeg(data: bytes) -> bool:
    """Return True for the content of a JPEG file that is not cut off."""
    return data[:2] == START and END in data[-TRAILING:]


def jpeg_batches(
    rows: Sequence[int],
    read: Callable[[int], bytes | None],
    sizes: Sequence[tuple[int, int]],
    decode: Decode,
    fallback: Fallback,
    write: Callable[[int, memoryview], None],
) -> Iterator[tuple[list[int], Exception | None]]:
    """Decode images batch by batch; yield the finished images of a batch, and its error.

    Args:
        rows: Indices of the images.
        read: Function that reads the content of an image file.
        sizes: Height and width of every decoded image.
        decode: nvJPEG.
        fallback: Pillow.
        write: Function that stores the pixels of an image.
    """
    batches = [list(rows[top : top + BATCH]) for top in range(0, len(rows), BATCH)]
    with ThreadPoolExecutor(THREADS) as pool:
        # The next batch is read while this one is decoded.
        ahead = [pool.submit(read, i) for i in batches[0]] if batches else []
        for number, batch in enumerate(batches):
            finished: list[int] = []
            try:
                files = [future.result() for future in ahead]
                following = batches[number + 1] if number + 1 < len(batches) else []
                ahead = [pool.submit(read, i) for i in following]
                pixels = _decoded(files, [sizes[i] for i in batch], decode)

                def store(place: int, batch: list[int] = batch, pixels: list = pixels) -> int:
                    data = pixels[place]
                    write(batch[place], fallback(batch[place]) if data is None else data)
                    return batch[place]

                finished += pool.map(store, range(len(batch)))
            except (ValueError, OSError) as error:
                yield finished, error
                return
            yield finished, None


def _decoded(
    files: list[bytes | None], sizes: list[tuple[int, int]], decode: Decode
) -> list[memoryview | None]:
    """Return the pixels of the files that the GPU decodes, and None for the others."""
    whole = [k for k, data in enumerate(files) if data is not None and is_whole_jpeg(data)]
    result: list[memoryview | None] = [None] * len(files)
    if not whole:
        return result
    encoded = [torch.frombuffer(bytearray(files[k] or b""), dtype=torch.uint8) for k in whole]
    reduced: list[Tensor] = []
    try:
        while len(reduced) < len(whole):
            # Large photographs a few at a time, for the sake of the memory.
            top, total = len(reduced), 0
            end = top
            while end < len(whole) and (
                end == top or total + len(encoded[end]) <= chunks.JPEG_BYTES
            ):
                total += len(encoded[end])
                end += 1
            images = zip(whole[top:end], decode(encoded[top:end]), strict=True)
            reduced += [_reduced(image, sizes[k]) for k, image in images]
    except RuntimeError:
        # One file that nvJPEG does not know; Pillow decodes the batch.
        return result
    flat = torch.cat(reduced)
    if flat.is_cuda:
        host = torch.empty(flat.shape, dtype=torch.uint8, pin_memory=True)
        host.copy_(flat, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        flat = host
    data, at = flat.numpy().data, 0
    for k, part in zip(whole, reduced, strict=True):
        result[k] = data[at : at + len(part)]
        at += len(part)
    return result


def _reduced(image: Tensor, size: tuple[int, int]) -> Tensor:
    """Resize uint8 [3, H, W] to a size; return the flat pixels [height, width, 3]."""
    if tuple(image.shape[1:]) != size:
        x = F.interpolate(image[None].float(), size, mode="bilinear", antialias=True)
        image = x[0].add_(0.5).clamp_(0, 255).to(torch.uint8)
    return image.permute(1, 2, 0).reshape(-1)


def write_at(descriptor: int, data: memoryview, at: int) -> None:
    """Write all of ``data`` to a file from byte ``at`` on."""
    while data:
        written = os.pwrite(descriptor, data, at)
        data, at = data[written:], at + written
