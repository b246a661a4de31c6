"""Outputs of networks on images without augmentation."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from resultant._core.device import full_precision
from resultant.images.augment import normalize
from resultant.images.evaluation_view import EvaluationView, evaluation_batches
from resultant.images.source import ImageSource
from resultant.networks.outputs import Outputs
from resultant.networks.stacked_resnet import StackedResNet32, patches
from resultant.training.config import Channels

# Images per forward pass of a stacked network.
CHUNK_IMAGES = 2500
# Images per forward pass of an encoder of timm.
BATCH_IMAGES = 128


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
def outputs(network: StackedResNet32, images: Tensor, dtype: torch.dtype) -> Outputs:
    """Compute the outputs [runs, n, ...] of a stacked network on images uint8 [n, 3, H, W]."""
    chunks = []
    with evaluating(network), full_precision(images.device):
        for chunk in images.split(CHUNK_IMAGES):
            x = normalize(chunk.to(torch.float32))
            chunks.append(network(patches(x[None], dtype)))
    encoder, projection, logits = zip(*chunks, strict=True)
    joined = None if logits[0] is None else torch.cat(logits, 1)
    return Outputs(torch.cat(encoder, 1), torch.cat(projection, 1), joined)


@torch.no_grad()
def image_outputs(
    network: nn.Module, views: Iterable[Tensor], device: torch.device
) -> Generator[Outputs]:
    """Yield the outputs of a network on normalized ``views`` [N, 3, S, S], in float32."""
    with evaluating(network), full_precision(device):
        for x in views:
            # Not the compiled network: an evaluation would compile it again.
            yield network.forward(x)


def source_views(
    source: ImageSource,
    view: EvaluationView,
    channels: tuple[Channels, Channels],
    device: torch.device,
    workers: int | None,
) -> Iterator[Tensor]:
    """Yield normalized views [N, 3, S, S] of all images of a source in their order.

    ``channels`` are mean and standard deviation; one process per core decodes by default.

    Raises:
        ImageError: If an image is broken.
    """
    for views in evaluation_batches(source, view, BATCH_IMAGES, workers):
        x = normalize(views.to(device, non_blocking=True), *channels)
        yield x.contiguous(memory_format=torch.channels_last)
