"""Batches of views of decoded images, for one run in one process or in several.

The order of an epoch and all its views follow from (seed, epoch), whatever the number of processes:
each process draws the whole batch and computes its share. On a GPU a thread prepares the next
batches: it waits for images that are still being decoded, and copies what is not on the device.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core import distributed
from resultant.images.photo_views import PhotoView, evaluation_parameters, most_taps
from resultant.images.rendering import Rendering
from resultant.images.residency import SLOTS, Placement, choose
from resultant.images.store import ImageStore, gigabytes
from resultant.training.batches import mixed
from resultant.training.config import Channels

# Images per forward pass of an evaluation.
EVALUATED = 256


class Prepared(NamedTuple):
    """A batch before its views are made; tensors are on the device."""

    slot: int
    pixels: Tensor
    offsets: Tensor
    sizes: Tensor
    parameters: Tensor
    taps: int
    labels: Tensor
    ready: torch.cuda.Event | None


class PhotoBatches:
    """Views of the images of a store, in batches; a `resultant.training.batches.Batches`.

    ``batch`` returns the buffers of the views and the labels, which `advance` fills with the next
    batch: a CUDA graph of the step reads them.

    Args:
        store: The decoded images.
        labels: Labels [N].
        views: Distribution of each view of an image.
        seed: Seed of the order and of the views.
        batch_size: Images per step, over all processes.
        channels: Mean and standard deviation per channel, in [0, 1].
        dtype: Type of the views.
        device: Device of the views.
        residency: Place of the decoded images; see `resultant.images.residency.choose`.
        note: Called with a sentence on the memory that is used.

    Raises:
        ValueError: For fewer images than a batch, or a batch that the processes cannot share.
    """

    def __init__(
        self,
        store: ImageStore,
        labels: Tensor,
        views: Sequence[PhotoView],
        seed: int,
        batch_size: int,
        channels: tuple[Channels, Channels],
        dtype: torch.dtype,
        device: torch.device,
        residency: str = "auto",
        note: Callable[[str], object] | None = None,
    ) -> None:
        self.store, self.seed, self.batch_size, self.device = store, seed, batch_size, device
        self.all_labels, self.kinds, self.residency, self.note = labels, views, residency, note
        require_batches(len(store), batch_size)
        each, rank = batch_size // distributed.world_size(), distributed.rank()
        self.share = slice(rank * each, (rank + 1) * each)
        self.steps = len(store) // batch_size
        number, size = len(views) * each, views[0].size
        self.rendering = Rendering(number, size, *channels, dtype, device)
        shape = (number, size, size, 3)
        self.views = torch.empty(shape, dtype=dtype, device=device).permute(0, 3, 1, 2)
        if self.rendering.kernel is not None:
            self.views = self.rendering.kernel.views.permute(0, 3, 1, 2)
        self.labels = torch.zeros(1, number // len(views), dtype=torch.int64, device=device)
        self.placement: Placement | None = None
        self.prepared: Iterator[Prepared] = iter(())
        self.rendered: list[torch.cuda.Event | None] = [None] * SLOTS

    def digest(self) -> str:
        """Return the digest of the source: images and labels in their order."""
        return self.store.source.digest()

    def draw(self, epoch: int) -> list[Tensor]:
        """Draw the order [steps, batch] of an epoch; the views are drawn batch by batch."""
        generator = torch.Generator().manual_seed(mixed(self.seed, epoch))
        order = torch.randperm(len(self.store), generator=generator)
        order = order[: self.steps * self.batch_size].view(self.steps, -1)
        return [order, torch.tensor(epoch), generator.get_state()]

    def load(self, drawn: list[Tensor]) -> None:
        if self.placement is None:
            number = self.share.stop - self.share.start
            self.placement, text = choose(self.store, self.device, number, self.residency)
            if self.note is not None:
                more = f", {gigabytes(self.rendering.bytes)} of views"
                self.note(text + more * (self.device.type == "cuda"))
        order, _, state = drawn
        self.store.start(order.flatten())
        batches = self._prepare(order, torch.Generator().set_state(state))
        # The device reads ahead; on the CPU a thread would only take a core from the network.
        self.prepared = ahead(batches) if self.device.type == "cuda" else batches

    def rehearse(self, epoch: int) -> None:
        """Fill the buffers with noise, for steps that warm up before the images are there."""
        self.views.normal_()
        self.labels.zero_()

    def advance(self) -> None:
        """Fill the buffers with the next batch."""
        batch = next(self.prepared)
        if batch.ready is not None:
            batch.ready.wait()
        pixels, offsets, sizes, parameters, taps = batch[1:6]
        views = self.rendering(pixels, offsets, sizes, parameters, taps)
        if self.rendering.kernel is None:
            self.views.copy_(views)
        self.labels.copy_(batch.labels[None], non_blocking=True)
        if batch.ready is not None:
            for a in batch[2:5]:
                a.record_stream(torch.cuda.current_stream())
            batch.labels.record_stream(torch.cuda.current_stream())
            self.rendered[batch.slot] = torch.cuda.Event()
            self.rendered[batch.slot].record()  # type: ignore[union-attr]

    def batch(self) -> tuple[Tensor, Tensor]:
        return self.views, self.labels

    def close(self) -> None:
        """Stop preparing batches and decoding images."""
        self.prepared = iter(())
        self.store.close()

    def _prepare(self, order: Tensor, generator: torch.Generator) -> Iterator[Prepared]:
        cuda = self.device.type == "cuda"
        # Small copies and kernels go before the large kernels of the step.
        stream = torch.cuda.Stream(self.device, priority=-1) if cuda else None
        for step, rows in enumerate(order):
            slot, sizes = step % SLOTS, self.store.sizes[rows]
            drawn = [view.draw(sizes, generator)[self.share] for view in self.kinds]
            rows, sizes, parameters = rows[self.share], sizes[self.share], torch.cat(drawn)
            event = self.rendered[slot]
            if event is not None:
                # Else the host would prepare batches far ahead of the device.
                event.synchronize()
            assert self.placement is not None
            with torch.cuda.stream(stream):
                pixels, offsets = self.placement.place(rows, slot)
                number = len(self.kinds)
                batch = Prepared(
                    slot,
                    pixels,
                    self._moved(offsets.repeat(number)),
                    self._moved(sizes.repeat(number, 1)),
                    self._moved(parameters),
                    most_taps(parameters),
                    self._moved(self.all_labels[rows]),
                    torch.cuda.Event() if cuda else None,
                )
                if batch.ready is not None:
                    batch.ready.record()
            yield batch

    def _moved(self, a: Tensor) -> Tensor:
        return (
            a.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else a
        )


def require_batches(images: int, batch_size: int) -> None:
    """Raise unless the images are a batch or more, and the processes can share a batch."""
    processes = distributed.world_size()
    if batch_size % processes:
        rule = f"expected batch_size to be a multiple of the {processes} processes"
        raise ValueError(f"{rule}, got {batch_size}")
    if images < batch_size:
        raise ValueError(f"expected at least one batch of {batch_size}, got {images} images")


class EvaluationViews:
    """Views of a store without augmentation: resized, and cropped at the centre.

    Args:
        store: The decoded images.
        size: Height and width of the views.
        short_side: Shorter side of the resized images.
        channels: Mean and standard deviation per channel, in [0, 1].
        dtype: Type of the views.
        device: Device of the views.
    """

    def __init__(
        self,
        store: ImageStore,
        size: int,
        short_side: int,
        channels: tuple[Channels, Channels],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.store, self.short_side, self.device = store, short_side, device
        self.placement, _ = choose(store, device, EVALUATED)
        self.rendering = Rendering(EVALUATED, size, *channels, dtype, device)

    def __call__(self, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield views [n, 3, size, size] of the images ``rows``, and their part of ``rows``."""
        self.store.start(rows)
        for chunk in rows.split(EVALUATED):
            pixels, offsets = self.placement.place(chunk, 0)
            sizes = self.store.sizes[chunk]
            parameters = evaluation_parameters(sizes, self.rendering.size, self.short_side)
            taps = most_taps(parameters)
            offsets, sizes, parameters = (a.to(self.device) for a in (offsets, sizes, parameters))
            yield self.rendering(pixels, offsets, sizes, parameters, taps), chunk
        self.store.close()


def ahead(batches: Iterator[Prepared]) -> Iterator[Prepared]:
    """Prepare batches in a thread, one ahead; errors of the thread are raised here."""
    ready: queue.Queue[Prepared | BaseException | None] = queue.Queue(1)
    stopped = threading.Event()

    def put(item: Prepared | BaseException | None) -> None:
        while not stopped.is_set():
            try:
                return ready.put(item, timeout=0.1)
            except queue.Full:
                continue
        return None

    def run() -> None:
        try:
            for batch in batches:
                put(batch)
                if stopped.is_set():
                    return
            put(None)
        except BaseException as error:
            put(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        thread.join()
