"""Decoded images where the views are made: on the device, in pinned memory, or on the disk."""

from __future__ import annotations

import os

import torch
from torch import Tensor

from resultant._core.memory import total_memory
from resultant._core.text import data_size
from resultant.images.store import ImageStore

# GPU memory that images on the device leave to tests and to the allocator.
MARGIN_BYTES = 4 << 30


class Placement:
    """Pixels of batches of ``number`` images at most, for the views of a device.

    ``slots`` batches are in use or in preparation at a time. ``kind`` is ``gpu``, ``pinned``,
    ``disk``, or ``auto`` for the first that fits.
    """

    def __init__(
        self,
        store: ImageStore,
        device: torch.device,
        number: int,
        slots: int = 1,
        kind: str = "auto",
    ) -> None:
        self.store, self.pixels = store, store.pixels
        self.buffers: Tensor | None = None
        self.text = f"decoded images: {data_size(store.bytes)} on the disk"
        if device.type != "cuda":
            return
        kind = fitting(store.bytes, device) if kind == "auto" else kind
        size = data_size(store.bytes)
        if kind == "gpu":
            self.pixels = store.pixels.to(device)
            self.text = f"decoded images: {size} on the GPU"
            return
        if kind == "pinned":
            self.pixels = store.pixels.pin_memory()
        most = int(store.lengths.topk(min(number, len(store))).values.sum())
        self.buffers = torch.empty(slots, most, dtype=torch.uint8, device=device)
        location = "in pinned memory" if kind == "pinned" else "on the disk"
        batches = data_size(self.buffers.numel())
        self.text = f"decoded images: {size} {location}, {batches} of batches on the GPU"

    def place(self, rows: Tensor, slot: int) -> tuple[Tensor, Tensor]:
        """Return flat pixels on the device, and the first byte [n] of each image of ``rows`` [n].

        The next call with the same ``slot`` may overwrite the pixels.
        """
        offsets = self.store.offsets[rows]
        if self.buffers is None:
            return self.pixels, offsets
        lengths = self.store.lengths[rows]
        buffer, starts = self.buffers[slot], lengths.cumsum(0) - lengths
        parts = zip(starts.tolist(), offsets.tolist(), lengths.tolist(), strict=True)
        for to, start, length in parts:
            image = self.pixels[start : start + length]
            buffer[to : to + length].copy_(image, non_blocking=True)
        return buffer, starts


def fitting(size: int, device: torch.device) -> str:
    """Return the fastest place for ``size`` bytes: ``gpu``, ``pinned`` or ``disk``.

    The processes of a machine share its memory: each would pin the pixels.
    """
    for _ in range(2):
        if size + MARGIN_BYTES < torch.cuda.mem_get_info(device)[0]:
            return "gpu"
        # Memory that the allocator has cached is given back.
        torch.cuda.empty_cache()
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return "pinned" if 2 * size * processes < total_memory() else "disk"
