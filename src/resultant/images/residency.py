"""Decoded images where the views are made: on the device, in pinned memory, or on the disk.

A placement returns the pixels of a batch on the device. It waits for images that are not decoded
yet, so that the first epoch trains while the images are decoded.
"""

from __future__ import annotations

import os
from typing import Protocol

import torch
from torch import Tensor

from resultant._core.chunks import COPIED_BYTES
from resultant.images.store import ImageStore, gigabytes

# Bytes of GPU memory that a store on the device leaves to tests and to the allocator.
MARGIN = 4 << 30
# Batches of a streamed store on the device: one in use, one ready, one in preparation.
SLOTS = 3


class Placement(Protocol):
    """Pixels of batches on the device."""

    def place(self, rows: Tensor, slot: int) -> tuple[Tensor, Tensor]:
        """Return flat pixels on the device, and the first byte [n] of each image of ``rows`` [n].

        The call before last with the same ``slot`` may be overwritten.
        """
        ...


class MappedPixels:
    """Images read from the file, for views on the CPU."""

    def __init__(self, store: ImageStore) -> None:
        self.store = store

    def place(self, rows: Tensor, slot: int) -> tuple[Tensor, Tensor]:
        self.store.wait(rows)
        return self.store.pixels, self.store.offsets[rows]


class ResidentPixels:
    """All images on the device; an image is copied when it is first used."""

    def __init__(self, store: ImageStore, device: torch.device) -> None:
        self.store = store
        self.pixels = torch.empty(store.bytes, dtype=torch.uint8, device=device)
        self.present = torch.zeros(len(store), dtype=torch.bool)

    def place(self, rows: Tensor, slot: int) -> tuple[Tensor, Tensor]:
        missing = rows[~self.present[rows]]
        if len(missing):
            self.store.wait(missing)
            ranges = _ranges(self.store, missing)
            if self.store.complete:
                # All images at once: many small copies take longer.
                missing = torch.arange(len(self.present))
                end, step = self.store.bytes, COPIED_BYTES
                ranges = [[top, min(top + step, end)] for top in range(0, end, step)]
            for start, end in ranges:
                self.pixels[start:end].copy_(self.store.pixels[start:end], non_blocking=True)
            self.present[missing] = True
        return self.pixels, self.store.offsets[rows]


class StreamedPixels:
    """Images in pinned memory or on the disk; every batch is copied to the device.

    Args:
        store: The images.
        device: Device of the views.
        number: Most images of a batch.
        pinned: Keep the images in pinned memory.
    """

    def __init__(self, store: ImageStore, device: torch.device, number: int, pinned: bool) -> None:
        self.store, lengths = store, store.offsets.diff()
        largest = int(lengths.topk(min(number, len(lengths))).values.sum())
        self.buffers = torch.empty(SLOTS, largest, dtype=torch.uint8, device=device)
        self.host = store.pixels
        self.present = torch.ones(len(store), dtype=torch.bool)
        if pinned:
            self.host = torch.empty(store.bytes, dtype=torch.uint8, pin_memory=True)
            self.present.fill_(False)

    def place(self, rows: Tensor, slot: int) -> tuple[Tensor, Tensor]:
        self.store.wait(rows)
        missing = rows[~self.present[rows]]
        for start, end in _ranges(self.store, missing):
            self.host[start:end] = self.store.pixels[start:end]
        self.present[missing] = True
        buffer, offsets, at = self.buffers[slot], [], 0
        for start, end in _ranges(self.store, rows):
            buffer[at : at + end - start].copy_(self.host[start:end], non_blocking=True)
            offsets.append(at)
            at += end - start
        return buffer, torch.tensor(offsets)


def _ranges(store: ImageStore, rows: Tensor) -> list[list[int]]:
    """Return first and last byte of each image."""
    return torch.stack((store.offsets[rows], store.offsets[rows + 1]), 1).tolist()


def choose(
    store: ImageStore, device: torch.device, number: int, kind: str = "auto"
) -> tuple[Placement, str]:
    """Place the images of a store.

    Args:
        store: The images.
        device: Device of the views.
        number: Most images of a batch.
        kind: ``gpu``, ``pinned`` or ``disk``; ``auto`` for the first that fits.

    Returns:
        The placement, and a sentence on it.
    """
    if device.type != "cuda":
        return MappedPixels(store), f"decoded images: {gigabytes(store.bytes)} on the disk"
    if kind == "auto":
        # Memory that the allocator has cached is given back first.
        torch.cuda.empty_cache()
        free = torch.cuda.mem_get_info(device)[0]
        fits = store.bytes + MARGIN < free
        kind = "gpu" if fits else "pinned" if 2 * store.bytes < memory() else "disk"
    size = gigabytes(store.bytes)
    if kind == "gpu":
        return ResidentPixels(store, device), f"decoded images: {size} on the GPU"
    streamed = StreamedPixels(store, device, number, kind == "pinned")
    location = "in pinned memory" if kind == "pinned" else "on the disk"
    buffers = gigabytes(streamed.buffers.numel())
    return streamed, f"decoded images: {size} {location}, {buffers} of batches on the GPU"


def memory() -> int:
    """Return the bytes of memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
