"""Outputs of networks on images without augmentation: one forward pass for every evaluation."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn

from resultant._core import distributed
from resultant._core.device import full_precision
from resultant.images.drawing import normalize
from resultant.images.evaluation_view import EvaluationView, evaluation_batches
from resultant.images.source import ImageSource
from resultant.networks.outputs import Outputs
from resultant.networks.stacked_resnet import StackedResNet32, patches
from resultant.training.config import Channels

# Images per forward pass of a stacked network.
CHUNK_IMAGES = 2500
# Images per forward pass of an encoder of timm.
BATCH_IMAGES = 128

Autocast = Callable[[], AbstractContextManager]


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Switch the network to evaluation, and restore its mode at the end."""
    training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(training)


@torch.no_grad()
def network_outputs(
    network: nn.Module,
    views: Iterable[Tensor],
    device: torch.device,
    autocast: Autocast | None = None,
) -> Generator[Outputs]:
    """Yield the outputs of a network on batches of its input, in float32 without ``autocast``."""
    with evaluating(network), full_precision(device) if autocast is None else nullcontext():
        for x in views:
            with nullcontext() if autocast is None else autocast():
                # Not the compiled network: an evaluation would compile it again.
                result = network.forward(x)
            yield result


def cifar_views(images: Tensor, dtype: torch.dtype) -> Iterator[Tensor]:
    """Yield the input of a stacked network of images uint8 [n, 3, H, W]."""
    for chunk in images.split(CHUNK_IMAGES):
        yield patches(normalize(chunk.to(torch.float32))[None], dtype)


def outputs(network: StackedResNet32, images: Tensor, dtype: torch.dtype) -> Outputs:
    """Compute the outputs [runs, n, ...] of a stacked network on images uint8 [n, 3, H, W]."""
    parts = network_outputs(network, cifar_views(images, dtype), images.device)
    encoder, projection, logits = zip(*parts, strict=True)
    joined = None if logits[0] is None else torch.cat(logits, 1)
    return Outputs(torch.cat(encoder, 1), torch.cat(projection, 1), joined)


def source_views(
    source: ImageSource,
    view: EvaluationView,
    channels: tuple[Channels, Channels],
    device: torch.device,
    workers: int | None,
) -> Iterator[Tensor]:
    """Yield normalized views [N, 3, S, S] of all images of a source in their order.

    ``channels`` are mean and standard deviation; one thread per core decodes by default.

    Raises:
        ImageError: If an image is broken.
    """
    for views in evaluation_batches(source, view, BATCH_IMAGES, workers):
        x = normalize(views.to(device, non_blocking=True), *channels)
        yield x.contiguous(memory_format=torch.channels_last)


def shared_outputs(
    network: nn.Module,
    number: int,
    views: Callable[[Tensor], Iterable[Tensor]],
    device: torch.device,
    keep: Callable[[Outputs], list[Tensor]],
    autocast: Autocast | None = None,
) -> list[Tensor]:
    """Compute outputs of ``number`` images; every process computes a share and returns all.

    Args:
        network: The network.
        number: Number of images N.
        views: Function that returns the views of some images, in batches.
        device: Device of the network.
        keep: Function that returns the tensors [n, ...] to keep of the outputs of a batch.
        autocast: Autocast of the network; None for float32.

    Returns:
        The tensors [N, ...], in the order of the images.
    """
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
