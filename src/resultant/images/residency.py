"""Decoded images where the views are made: on the device, in pinned memory, or on the disk.

A placement returns the pixels of a batch on the device. It waits for images that are not decoded
yet, so that the first epoch trains while the images are decoded.
"""

from __future__ import annotations

import os
from typing import Protocol

import torch
from torch import Tensor

from resultant._core.chunks import COPIED_BYTES, MARGIN_BYTES
from resultant._core.text import data_size
from resultant.images.store import ImageStore


class Placement(Protocol):
    """Pixels of batches on the device."""

    def place(self, rows: Tensor, slot: int) -> tuple[Tensor, Tensor]:
        """Return flat pixels on the device, and the first byte [n] of each image of ``rows`` [n].

        The next call with the same ``slot`` may overwrite the pixels.
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
    """All images on the device, in the order of their first use; arguments as in `choose`."""

    def __init__(self, store: ImageStore, device: torch.device, number: int, slots: int) -> None:
        self.store = store
        self.pixels = torch.empty(store.bytes, dtype=torch.uint8, device=device)
        # First byte of each image on the device, -1 for images that are not there; and their end.
        self.starts, self.end = torch.full((len(store),), -1), 0
        # The images of a batch in one piece: many small copies take longer.
        shape, pinned = (slots, _most_bytes(store, number)), device.type == "cuda"
        self.staged = torch.empty(shape, dtype=torch.uint8, pin_memory=pinned)
        self.copied: list[torch.cuda.Event | None] = [None] * slots

    def place(self, rows: Tensor, slot: int) -> tuple[Tensor, Tensor]:
        missing = rows[self.starts[rows] < 0].unique()
        if len(missing):
            self.store.wait(missing)
            if self.end or not self.store.complete:
                self._copy(missing, slot)
            else:
                self._copy_all()
        return self.pixels, self.starts[rows]

    def _copy(self, rows: Tensor, slot: int) -> None:
        """Append images to those on the device."""
        event = self.copied[slot]
        if event is not None:
            event.synchronize()
        host, source, starts, at = self.staged[slot].numpy(), self.store.pixels.numpy(), [], 0
        for start, end in _ranges(self.store, rows):
            host[at : at + end - start] = source[start:end]
            starts.append(self.end + at)
            at += end - start
        self.starts[rows] = torch.tensor(starts)
        self.pixels[self.end : self.end + at].copy_(self.staged[slot, :at], non_blocking=True)
        self.end += at
        if self.pixels.is_cuda:
            self.copied[slot] = event = torch.cuda.Event()
            event.record()

    def _copy_all(self) -> None:
        """Copy the file from its beginning to its end, as a slow disk is read fast."""
        for top in range(0, self.store.bytes, COPIED_BYTES):
            part = slice(top, min(top + COPIED_BYTES, self.store.bytes))
            self.pixels[part].copy_(self.store.pixels[part], non_blocking=True)
        self.starts, self.end = self.store.offsets[:-1], self.store.bytes


class StreamedPixels:
    """Images in memory, ``pinned``, or on the disk; every batch is copied to the device.

    Arguments as in `choose`.
    """

    def __init__(
        self, store: ImageStore, device: torch.device, number: int, slots: int, pinned: bool
    ) -> None:
        self.store = store
        shape = (slots, _most_bytes(store, number))
        self.buffers = torch.empty(shape, dtype=torch.uint8, device=device)
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


def _most_bytes(store: ImageStore, number: int) -> int:
    """Return the most bytes of a batch of ``number`` images."""
    lengths = store.offsets.diff()
    return int(lengths.topk(min(number, len(lengths))).values.sum())


def choose(
    store: ImageStore, device: torch.device, number: int, slots: int = 1, kind: str = "auto"
) -> tuple[Placement, str]:
    """Place the images of a store; return the placement, and a sentence on it.

    Args:
        store: The images.
        device: Device of the views.
        number: Most images of a batch.
        slots: Batches in use or in preparation at a time.
        kind: ``gpu``, ``pinned`` or ``disk``; ``auto`` for the first that fits.
    """
    if device.type != "cuda":
        return MappedPixels(store), f"decoded images: {data_size(store.bytes)} on the disk"
    if kind == "auto":
        fits = _fits(store.bytes, device)
        kind = "gpu" if fits else "pinned" if 2 * store.bytes < memory() else "disk"
    size = data_size(store.bytes)
    if kind == "gpu":
        return ResidentPixels(store, device, number, slots), f"decoded images: {size} on the GPU"
    streamed = StreamedPixels(store, device, number, slots, kind == "pinned")
    location = "in pinned memory" if kind == "pinned" else "on the disk"
    buffers = data_size(streamed.buffers.numel())
    return streamed, f"decoded images: {size} {location}, {buffers} of batches on the GPU"


def _fits(number: int, device: torch.device) -> bool:
    """Return True if a GPU has memory for a store of ``number`` bytes."""
    if number + MARGIN_BYTES < torch.cuda.mem_get_info(device)[0]:
        return True
    # Memory that the allocator has cached is given back.
    torch.cuda.empty_cache()
    return number + MARGIN_BYTES < torch.cuda.mem_get_info(device)[0]


def memory() -> int:
    """Return the bytes of memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
