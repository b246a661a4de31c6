"""Outputs of networks on images without augmentation."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor, nn

from resultant._core.device import full_precision
from resultant.images.augment import normalize
from resultant.images.lists import ListedDataset
from resultant.images.loader import Loader
from resultant.networks.outputs import Outputs
from resultant.networks.stacked_resnet import StackedResNet32, patches
from resultant.training.batches import normalized

# Images per forward pass of a stacked network.
CHUNK_IMAGES = 2500


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
def loaded_outputs(
    network: nn.Module,
    images: Loader,
    dataset: ListedDataset,
    device: torch.device,
    autocast: Callable[[], AbstractContextManager],
) -> Generator[tuple[Outputs, Tensor]]:
    """Yield the outputs of a network on each batch of one view, with the labels of the batch."""
    with evaluating(network):
        for views, labels, _ in images:
            x = normalized(views, dataset, device)
            with autocast():
                result = network(x)
            yield result, labels.to(device, non_blocking=True)
