"""Outputs of networks on images without augmentation, and tests of classifiers."""

import math
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from resultant._core import distributed
from resultant.classes.groups import group_masks
from resultant.images.evaluation import Views
from resultant.training.precision import full_precision

Autocast = Callable[[], AbstractContextManager]
Rows = list[dict[str, Any]]
# Called after an epoch with the epoch and a row per run, to which it adds values.
Hook = Callable[[int, Rows], None]


@torch.no_grad()
def network_outputs(
    network: nn.Module,
    batches: Iterable[Tensor],
    device: torch.device,
    autocast: Autocast | None = None,
) -> Generator[Any]:
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


def shared_outputs(
    network: nn.Module,
    number: int,
    views: Views,
    device: torch.device,
    keep: Callable[[Any], list[Tensor]],
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


def accuracy(predicted: Tensor, labels: Tensor) -> float:
    """Return the share of predictions [N] that equal the labels [N]."""
    return float((predicted == labels).double().mean())


def class_accuracies(predicted: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Return the accuracies [M, C] of predictions [M, N], NaN for a class without labels [N]."""
    right, y = (predicted == labels).double().cpu(), labels.cpu()
    correct = right.new_zeros(len(right), num_classes).index_add_(1, y, right)
    return correct / torch.bincount(y, minlength=num_classes)


def accuracies(predicted: Tensor, labels: Tensor, counts: Tensor) -> dict[str, float]:
    """Return ``accuracy`` of predictions [N], and the mean over the classes of each group."""
    (per_class,) = class_accuracies(predicted[None], labels, len(counts))
    groups = {n: float(per_class[mask.cpu()].nanmean()) for n, mask in group_masks(counts).items()}
    known = {name: value for name, value in groups.items() if not math.isnan(value)}
    return {"accuracy": accuracy(predicted, labels), **known}


@dataclass(frozen=True, eq=False)
class HeldOutTest:
    """Test the classifiers of the runs on held-out images, without prior."""

    predictions: Callable[[], list[Tensor]]  # predicted classes [n] of each run
    labels: Tensor  # [n]
    counts: Tensor  # training images per class [C], for the shot groups of `accuracies`
    every: int  # epochs between tests
    epochs: int  # the last epoch is tested in any case

    def __call__(self, epoch: int, rows: Rows) -> None:
        if epoch == self.epochs or epoch % self.every == 0:
            for row, predicted in zip(rows, self.predictions(), strict=True):
                row.update(accuracies(predicted.cpu(), self.labels, self.counts))


def predicted_classes(
    network: nn.Module, number: int, views: Views, device: torch.device, autocast: Autocast
) -> list[Tensor]:
    """Predict the classes [n] of ``number`` images; every process computes its share."""
    return shared_outputs(
        network, number, views, device, lambda out: [out.logits.argmax(-1)], autocast
    )
