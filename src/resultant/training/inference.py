"""Outputs of networks on images without augmentation: one forward pass for every evaluation."""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import islice

import torch
from torch import Tensor, nn

from resultant._core import distributed
from resultant.images.photo_views import evaluation_parameters, normalize
from resultant.images.rendering import Rendering, placed_on
from resultant.images.source import ImageSource, in_threads
from resultant.images.store import ImageStore, Placement
from resultant.networks.stacked_resnet import Outputs, StackedResNet32, normalized_patches
from resultant.networks.timm_encoder import EvaluationView
from resultant.training.config import Channels
from resultant.training.precision import full_precision

# Images per forward pass of a stacked network, and of an encoder of timm while images are decoded.
CHUNK_IMAGES, BATCH_IMAGES = 2500, 128
# The most decoded images of a forward pass, and their pixels: 256 images of size 224.
STORED_IMAGES, STORED_PIXELS = 2048, 256 * 224**2

Autocast = Callable[[], AbstractContextManager]
# Returns the input of a network, in batches, for images at some indices.
Views = Callable[[Tensor], Iterable[Tensor]]


@torch.no_grad()
def network_outputs(
    network: nn.Module,
    batches: Iterable[Tensor],
    device: torch.device,
    autocast: Autocast | None = None,
) -> Generator[Outputs]:
    """Yield the outputs of a network on batches of its input, in float32 without ``autocast``."""
    training = network.training
    network.eval()
    try:
        for x in batches:
            with full_precision(device) if autocast is None else autocast():
                # Not the compiled network: an evaluation would compile it again.
                result = network.forward(x)
            yield result
    finally:
        network.train(training)


def outputs(network: StackedResNet32, images: Tensor, dtype: torch.dtype) -> Outputs:
    """Compute the outputs [runs, n, ...] of a stacked network on images uint8 [n, 3, H, W]."""
    batches = cifar_views(images, dtype, torch.arange(len(images)))
    made = network_outputs(network, batches, images.device)
    encoder, projection, logits = zip(*made, strict=True)
    joined = None if logits[0] is None else torch.cat(logits, 1)
    return Outputs(torch.cat(encoder, 1), torch.cat(projection, 1), joined)


def shared_outputs(
    network: nn.Module,
    number: int,
    views: Views,
    device: torch.device,
    keep: Callable[[Outputs], list[Tensor]],
    autocast: Autocast | None = None,
) -> list[Tensor]:
    """Compute what ``keep`` takes from the outputs of ``number`` images, in their order; every
    process computes a share and returns all."""
    # DDP sends the running moments of the first process before every forward pass; since the last
    # one each process has added its share of a batch. Those of the first are saved.
    distributed.broadcast_from_rank0(*network.buffers())
    # Image i belongs to process i modulo their number; few images are computed by all.
    processes = distributed.world_size() if number >= distributed.world_size() else 1
    shares = [torch.arange(rank, number, processes) for rank in range(processes)]
    batches = views(shares[distributed.rank() % processes])
    parts = [keep(out) for out in network_outputs(network, batches, device, autocast)]
    own = [torch.cat(part) for part in zip(*parts, strict=True)]
    if processes == 1:
        return own
    order, sizes = torch.cat(shares).to(device), list(map(len, shares))
    every = [distributed.gather(a, sizes) for a in own]
    return [torch.empty_like(a).index_copy_(0, order, a) for a in every]


def cifar_views(images: Tensor, dtype: torch.dtype, rows: Tensor) -> Iterator[Tensor]:
    """Yield the input of a stacked network: patches of images uint8 [n, 3, H, W]."""
    for chunk in rows.split(CHUNK_IMAGES):
        yield normalized_patches(images[chunk][None], dtype)


def source_views(
    source: ImageSource,
    view: EvaluationView,
    channels: tuple[Channels, Channels],
    device: torch.device,
    workers: int | None,
    rows: Tensor,
) -> Iterator[Tensor]:
    """Yield normalized views [N, 3, S, S] of images that ``workers`` threads decode."""
    views = in_threads(lambda index: view(source.read(index)), rows.tolist(), workers)
    while batch := list(islice(views, BATCH_IMAGES)):
        x = normalize(torch.stack(batch).to(device, non_blocking=True), *channels)
        yield x.contiguous(memory_format=torch.channels_last)


class StoredViews:
    """Views of decoded images: resized, and cropped at the centre; a new placement by default."""

    def __init__(
        self,
        store: ImageStore,
        view: EvaluationView,
        channels: tuple[Channels, Channels],
        dtype: torch.dtype,
        device: torch.device,
        placement: Placement | None = None,
    ) -> None:
        self.store, self.view, self.device, size = store, view, device, view.size
        # Few large passes: on small images the kernels are short, and starting them takes longer.
        number = min(STORED_IMAGES, max(1, STORED_PIXELS // size**2))
        number = number if placement is None else min(number, placement.number)
        self.placement = placement or Placement(store, placed_on(device), number)
        self.rendering = Rendering(number, size, *channels, device)
        shape = (number, size, size, 3)
        self.buffer = torch.empty(shape, dtype=dtype, device=device).permute(0, 3, 1, 2)

    def __call__(self, rows: Tensor) -> Iterator[Tensor]:
        """Yield views [n, 3, size, size] of the images ``rows``; the next views overwrite them."""
        for chunk in rows.split(len(self.buffer)):
            pixels, offsets = self.placement.place(chunk, 0)
            sizes, views = self.store.sizes[chunk], self.buffer[: len(chunk)]
            parameters = evaluation_parameters(sizes, self.view.size, self.view.short_side)
            plan = self.rendering.plan(parameters)
            offsets, sizes = offsets.to(self.device), sizes.to(self.device)
            self.rendering(pixels, offsets, sizes, plan, views)
            yield views
