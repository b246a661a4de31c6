"""Batches of views of decoded images. All views of an epoch follow from (seed, epoch): each process
draws the whole batch and computes its share. On a GPU a thread prepares the next batches."""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

import torch
from torch import Tensor

from resultant._core import distributed, memory
from resultant.images.photo_views import PhotoView
from resultant.images.rendering import Rendering, moved, placed_on
from resultant.images.source import ImageSource
from resultant.images.store import ImageStore, Placement
from resultant.training.config import Channels

# Steps whose views are drawn at a time; another number draws other views.
DRAWN_STEPS = 8
# The fewest and the most batches that are made ahead of the GPU.
LEAST_AHEAD, MOST_AHEAD = 3, 16

T = TypeVar("T")
# Slot, views, labels, and an event when they are on the device.
Prepared = tuple[int, Tensor, Tensor, torch.cuda.Event | None]


class Batches:
    """Views of the images of a store, in batches of ``batch_size`` images over all processes, in
    buffers that `advance` fills and a CUDA graph of the step reads."""

    def __init__(
        self,
        source: ImageSource,
        decoded: Callable[[], ImageStore],
        views: Sequence[PhotoView],
        seed: int,
        batch_size: int,
        channels: tuple[Channels, Channels],
        dtype: torch.dtype,
        device: torch.device,
        note: Callable[[str], object] | None = None,
        interpolation: str = "bilinear",
    ) -> None:
        require_batches(len(source), batch_size)
        self.source, self.decoded, self.kinds, self.seed = source, decoded, views, seed
        self.batch_size, self.device, cuda = batch_size, device, device.type == "cuda"
        self.note = note
        self.all_labels = torch.from_numpy(source.labels)
        self.images, rank = batch_size // distributed.world_size(), distributed.rank()
        self.share = slice(rank * self.images, (rank + 1) * self.images)
        self.steps = len(source) // batch_size
        number, size = len(views) * self.images, views[0].size
        self.rendering = Rendering(number, size, *channels, device, interpolation=interpolation)
        # One stream for all epochs: every stream has its own share of the allocator's memory.
        # Small copies and kernels go before the large kernels of the step.
        self.stream = torch.cuda.Stream(device, priority=-1) if cuda else None
        # Steps on small images are short: with more of them ahead, the GPU does not wait when the
        # host pauses for a tenth of a second.
        batch_bytes = 3 * number * size**2 * dtype.itemsize
        fitting = memory.rows_per_chunk(batch_bytes, memory.DEVICE_BYTES)
        self.slots = max(LEAST_AHEAD, min(MOST_AHEAD, fitting)) if cuda else 1
        # The buffer that the step reads, and on a GPU one for every batch that is made ahead.
        shape = (1 + self.slots * cuda, number, size, size, 3)
        self.buffers = torch.empty(shape, dtype=dtype, device=device).permute(0, 1, 4, 2, 3)
        self.labels = torch.zeros(self.images, dtype=torch.int64, device=device)
        self.prepared: Iterator[Prepared] = iter(())
        self.taken: list[torch.cuda.Event | None] = [None] * self.slots

    @property
    def digest(self) -> str:
        return self.source.digest

    @cached_property
    def store(self) -> ImageStore:
        return self.decoded()

    @cached_property
    def placement(self) -> Placement:
        placement = Placement(self.store, placed_on(self.device), self.images, self.slots)
        if self.note is not None:
            self.note(placement.text)
        return placement

    def open(self) -> None:
        """Decode the images."""
        _ = self.store

    def draw(self, epoch: int) -> list[Tensor]:
        """Draw the order [steps, batch] of an epoch, its first views, and the state for others."""
        generator = torch.Generator().manual_seed(mixed(self.seed, epoch))
        order = torch.randperm(len(self.source), generator=generator)
        order = order[: self.steps * self.batch_size].view(self.steps, -1)
        first = self._views(order[:DRAWN_STEPS], generator)
        return [order, first, generator.get_state()]

    def load(self, drawn: list[Tensor]) -> None:
        placed = "placement" in vars(self)
        _ = self.placement
        if self.stream is not None and not placed:
            # Memory of the buffers may have been in use on the current stream.
            self.stream.wait_stream(torch.cuda.current_stream())
        # An epoch that was not finished ends before the next one uses its buffers.
        self.close()
        order, first, state = drawn
        self.prepared = self._ahead(self._prepare(order, first, torch.Generator().set_state(state)))

    def rehearse(self, epoch: int) -> None:
        """Fill the buffers with noise, for steps that warm up."""
        self.buffers[0].normal_()
        self.labels.zero_()

    def advance(self) -> None:
        """Fill the buffers with the next batch."""
        slot, views, labels, ready = next(self.prepared)
        if ready is not None:
            ready.wait()
            self.buffers[0].copy_(views)
        self.labels.copy_(labels)
        if ready is not None:
            labels.record_stream(torch.cuda.current_stream())
            self.taken[slot] = event = torch.cuda.Event()
            event.record()

    def batch(self) -> tuple[Tensor, Tensor]:
        return self.buffers[0], self.labels

    def close(self) -> None:
        """Stop preparing batches."""
        self.prepared = iter(())

    def _views(self, order: Tensor, generator: torch.Generator) -> Tensor:
        """Draw the views of steps [steps, batch]; every process draws all and takes its share."""
        sizes = self.store.sizes[order].flatten(0, 1)
        drawn = [view.draw(sizes, generator).unflatten(0, order.shape) for view in self.kinds]
        return torch.cat([a[:, self.share] for a in drawn], 1)

    def _prepare(
        self, order: Tensor, first: Tensor, generator: torch.Generator
    ) -> Generator[Prepared]:
        """Make the batches of an epoch, on a stream of its own on a GPU."""
        groups = order.split(DRAWN_STEPS)
        drawn = (self._views(some, generator) if k else first for k, some in enumerate(groups))
        # A step does not wait while the views of the next steps are drawn.
        views_of_steps = chain.from_iterable(self._ahead(drawn))
        for step, (rows, parameters) in enumerate(zip(order, views_of_steps, strict=True)):
            rows, slot = rows[self.share], step % self.slots
            if (event := self.taken[slot]) is not None:
                # The host is at most ``slots`` batches ahead of the device.
                event.synchronize()
            views = self.buffers[0 if self.stream is None else 1 + slot]
            with torch.cuda.stream(self.stream):
                pixels, offsets = self.placement.place(rows, slot)
                offsets, sizes = offsets.repeat(len(self.kinds)), self.store.sizes[rows]
                tensors = offsets, sizes.repeat(len(self.kinds), 1), self.all_labels[rows]
                offsets, sizes, labels = (moved(a, self.device) for a in tensors)
                self.rendering(pixels, offsets, sizes, self.rendering.plan(parameters), views)
                ready = None if self.stream is None else torch.cuda.Event()
                if ready is not None:
                    ready.record()
            yield slot, views, labels, ready

    def _ahead(self, items: Generator[T]) -> Generator[T]:
        """Prepare for a device ahead; on the CPU a thread only takes a core from the network."""
        return items if self.stream is None else ahead(items)


def ahead(items: Generator[T]) -> Generator[T]:
    """Make items in a thread, two ahead; errors of the thread are raised here."""
    end: Any = object()
    with ThreadPoolExecutor(1) as thread:
        made = deque(thread.submit(next, items, end) for _ in range(2))
        try:
            while (item := made.popleft().result()) is not end:
                made.append(thread.submit(next, items, end))
                yield item
        finally:
            for future in made:
                future.cancel()
            # Ends threads that items are made in.
            thread.submit(items.close).result()


def require_batches(images: int, batch_size: int) -> None:
    """Raise unless the images are a batch or more, and the processes can share a batch."""
    processes = distributed.world_size()
    if batch_size % processes:
        rule = f"expected batch_size to be a multiple of the {processes} processes"
        raise ValueError(f"{rule}, got {batch_size}")
    if images < batch_size:
        raise ValueError(f"expected at least one batch of {batch_size}, got {images} images")


def mixed(seed: int, epoch: int) -> int:
    """Return a seed for an epoch of a run; torch mixes its bits well."""
    return seed * 1_000_003 + epoch
