"""Training on listed images (ImageNet-LT, iNaturalist 2018, Places-LT), by the loop of `train`.

One run at a time, on one process or on many under torchrun: the batch is that of all processes
together, gradients are averaged, class statistics are of all samples, and testing is shared out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass

import torch
from torch import Tensor

from resultant._core import distributed
from resultant._core.device import device_of
from resultant.classes.groups import group_masks
from resultant.images.lists import DATASETS, ImageList, load_lists
from resultant.images.loader import (
    Loader,
    ViewDataset,
    classification_view,
    contrastive_view,
    evaluation_view,
    loader,
)
from resultant.training.batches import LoadedBatches
from resultant.training.config import WORKERS, TrainConfig
from resultant.training.hooks import HeldOutTest, Test
from resultant.training.inference import loaded_outputs
from resultant.training.job import Job, Progress, Trained
from resultant.training.loop import train
from resultant.training.stack import Stack

# Files of a list that are looked for beforehand; all would take minutes on a network disk.
LOOKED_FOR = 1000
# Batches that each worker is ahead; three views of 256 images of size 224 are 116 MB.
PREFETCH = 2


@dataclass(frozen=True, eq=False)
class ListedImages:
    """The training images of a data set of lists, and those that are held out.

    The held-out images are those of the list ``held_out``: test or val.
    """

    dataset: str
    train: ImageList
    test: ImageList
    held_out: str

    @property
    def counts(self) -> Tensor:
        """Training images of each class, [C]."""
        return torch.bincount(self.train.labels, minlength=self.train.num_classes)


def load_images(
    dataset: str,
    lists: str | os.PathLike[str],
    images: str | os.PathLike[str],
    held_out: str | None = None,
) -> ListedImages:
    """A data set of `DATASETS` with its lists in ``lists``, their paths being below ``images``.

    ``held_out`` is the split that is held out: `ListedDataset.held_out` unless given.
    """
    if dataset not in DATASETS:
        raise ValueError(f"expected a data set of {', '.join(DATASETS)}, got {dataset!r}")
    held_out = held_out or DATASETS[dataset].held_out
    train, test = (
        load_lists(dataset, lists, images, split, check_files=LOOKED_FOR)
        for split in ("train", held_out)
    )
    return ListedImages(dataset, train, test, held_out)


def train_images(
    job: Job,
    data: ListedImages,
    device: torch.device | str = "cpu",
    workers: int = WORKERS,
    on_progress: Callable[[Progress], object] | None = None,
    on_step: Callable[[float], object] | None = None,
) -> Trained:
    """Train the one run of a job on listed images; see `training.loop.train`. ``workers`` are
    those of each process."""
    device = torch.device(device)
    job = job.on(device)
    config = job.config
    if config.dataset != data.dataset:
        raise ValueError(f"expected images of {config.dataset}, got those of {data.dataset}")
    if len(job.runs) != 1 or job.gradient_epochs:
        rule = "expected one run and no gradient epochs for listed images"
        raise ValueError(f"{rule}, got {len(job.runs)} runs and epochs {job.gradient_epochs}")
    batches = loader(
        ViewDataset(data.train, _views(config), job.runs[0].seed),
        batch_of_one(config),
        train=True,
        workers=workers,
        prefetch=PREFETCH,
    )
    loaded = LoadedBatches(batches, DATASETS[config.dataset], device)
    stack = Stack(config, job.runs, loaded, data.counts, device)
    hooks = []
    if config.objective == "joint":
        test = held_out_accuracy(data, config, workers)
        hooks.append(HeldOutTest(test, job.test_every, config.epochs))
    with device_of(stack.total):
        return train(job, [stack], hooks, on_progress, on_step)


def batch_of_one(config: TrainConfig) -> int:
    """The images of a step for each process."""
    of = distributed.world_size()
    if config.batch_size % of:
        rule = f"expected batch_size to be a multiple of the {of} processes"
        raise ValueError(f"{rule}, got {config.batch_size}")
    return config.batch_size // of


def _views(config: TrainConfig) -> list[Callable]:
    views = [contrastive_view(config.size), contrastive_view(config.size)]
    weak = classification_view(DATASETS[config.dataset].mean, config.size)
    return views + [weak] * config.classification_view


def evaluation_loader(images: ImageList, config: TrainConfig, workers: int) -> Loader:
    """The images in the order of the list, without augmentation, all for this process."""
    return loader(
        ViewDataset(images, [evaluation_view(config.size)]),
        batch_of_one(config),
        train=False,
        workers=workers,
        prefetch=PREFETCH,
        rank=0,
        world_size=1,
    )


def held_out_accuracy(data: ListedImages, config: TrainConfig, workers: int) -> Test:
    """The `accuracies` on the held-out images, in the groups of `group_masks`; logits without
    prior. Every process reads its share of them."""
    share = slice(distributed.rank(), None, distributed.world_size())
    mine = ImageList(data.test.paths[share], data.test.labels[share], data.test.num_classes)
    images = evaluation_loader(mine, config, workers)
    about, groups = DATASETS[config.dataset], group_masks(data.counts)

    def test(stack: Stack) -> list[dict[str, float]]:
        # DDP hands round the running moments of the first process before every forward pass; since
        # the last one each process has added its share of a batch. Those of the first are saved.
        distributed.broadcast_from_rank0(*stack.network.buffers())
        tally = torch.zeros(2, mine.num_classes, dtype=torch.float64, device=stack.device)
        batches = loaded_outputs(stack.network, images, about, stack.device, stack.autocast)
        # Closed also where an error comes first, so that the network goes back to training.
        with closing(batches):
            for result, labels in batches:
                assert result.logits is not None
                right = (result.logits[0].argmax(-1) == labels).double()
                tally.index_add_(1, labels, torch.stack([right, torch.ones_like(right)]))
        right, number = distributed.total(tally).cpu()
        return [accuracies(right, number, groups)]

    return test


def accuracies(right: Tensor, number: Tensor, groups: Mapping[str, Tensor]) -> dict[str, float]:
    """The accuracy over all images, from those ``right`` [C] of the ``number`` [C] of each class,
    and as the mean over the classes of groups, masks [C] by name, that have images."""
    found = {"accuracy": float(right.sum() / number.sum())}
    for name, members in groups.items():
        members = members & (number > 0)
        if members.any():
            found[name] = float((right / number)[members].mean())
    return found
