"""Training on listed images: ImageNet-LT, iNaturalist 2018, Places-LT.

One run at a time, in one process or in many under torchrun. The batch size is the sum over all
processes, gradients are averaged, class statistics cover all samples, and the processes divide the
held-out images among themselves.
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

# Files of a list whose existence is checked; all would take minutes on a network disk.
CHECKED_FILES = 1000
# Batches that each worker prepares ahead; three views of 256 images of size 224 are 116 MB.
PREFETCH = 2


@dataclass(frozen=True, eq=False)
class ListedImages:
    """Training and held-out images of a listed dataset.

    Attributes:
        dataset: Name of the dataset.
        train: Training images.
        test: Held-out images.
        held_out: Split of the held-out images, test or val.
    """

    dataset: str
    train: ImageList
    test: ImageList
    held_out: str

    @property
    def counts(self) -> Tensor:
        """Number of training images per class, [C]."""
        return torch.bincount(self.train.labels, minlength=self.train.num_classes)


def load_images(
    dataset: str,
    lists: str | os.PathLike[str],
    images: str | os.PathLike[str],
    held_out: str | None = None,
) -> ListedImages:
    """Load the lists of a dataset.

    Args:
        dataset: A name of `DATASETS`.
        lists: Folder of the lists.
        images: Folder that the paths of the lists are relative to.
        held_out: Split of the held-out images; None for that of the dataset.

    Returns:
        Training and held-out images.

    Raises:
        ValueError: If the dataset is unknown, or a list is missing or broken.
    """
    if dataset not in DATASETS:
        raise ValueError(f"expected a dataset of {', '.join(DATASETS)}, got {dataset!r}")
    held_out = held_out or DATASETS[dataset].held_out
    train, test = (
        load_lists(dataset, lists, images, split, check_files=CHECKED_FILES)
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
    """Train the one run of a job on listed images.

    Args:
        job: The run, its configuration, and the folder.
        data: Training and held-out images.
        device: Device of the network.
        workers: Processes that read image files, for each training process.
        on_progress: Called after every epoch; see `resultant.training.loop.train`.
        on_step: Called with the finished share of an epoch after every step.

    Returns:
        The trained network with the metrics of the last epoch.

    Raises:
        ValueError: As `resultant.training.loop.train`, and if the job does not fit listed images.
    """
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
        batch_per_process(config),
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


def batch_per_process(config: TrainConfig) -> int:
    """Return the number of images per step and process."""
    processes = distributed.world_size()
    if config.batch_size % processes:
        rule = f"expected batch_size to be a multiple of the {processes} processes"
        raise ValueError(f"{rule}, got {config.batch_size}")
    return config.batch_size // processes


def _views(config: TrainConfig) -> list[Callable]:
    views = [contrastive_view(config.size), contrastive_view(config.size)]
    weak = classification_view(DATASETS[config.dataset].mean, config.size)
    return views + [weak] * config.classification_view


def evaluation_loader(images: ImageList, config: TrainConfig, workers: int) -> Loader:
    """Load all images in the order of the list, without augmentation, in this process."""
    return loader(
        ViewDataset(images, [evaluation_view(config.size)]),
        batch_per_process(config),
        train=False,
        workers=workers,
        prefetch=PREFETCH,
        rank=0,
        world_size=1,
    )


def held_out_accuracy(data: ListedImages, config: TrainConfig, workers: int) -> Test:
    """Return a test of the classifier on the held-out images; every process reads its share.

    The test returns the `accuracies` of logits without prior, in the groups of `group_masks`.
    """
    share = slice(distributed.rank(), None, distributed.world_size())
    own = ImageList(data.test.paths[share], data.test.labels[share], data.test.num_classes)
    images = evaluation_loader(own, config, workers)
    dataset, groups = DATASETS[config.dataset], group_masks(data.counts)

    def test(stack: Stack) -> list[dict[str, float]]:
        # DDP sends the running moments of the first process before every forward pass; since the
        # last one each process has added its share of a batch. Those of the first are saved.
        distributed.broadcast_from_rank0(*stack.network.buffers())
        tally = torch.zeros(2, own.num_classes, dtype=torch.float64, device=stack.device)
        batches = loaded_outputs(stack.network, images, dataset, stack.device, stack.autocast)
        # Closed on errors too, so that the network returns to training mode.
        with closing(batches):
            for result, labels in batches:
                assert result.logits is not None
                correct = (result.logits[0].argmax(-1) == labels).double()
                tally.index_add_(1, labels, torch.stack([correct, torch.ones_like(correct)]))
        correct, number = distributed.total(tally).cpu()
        return [accuracies(correct, number, groups)]

    return test


def accuracies(correct: Tensor, number: Tensor, groups: Mapping[str, Tensor]) -> dict[str, float]:
    """Compute the accuracy over all images, and the mean over the classes of each group.

    Args:
        correct: Correctly classified images per class, [C].
        number: Images per class, [C].
        groups: Masks [C] by name of the group.

    Returns:
        ``accuracy``, and the accuracy of each group that has images.

    Example:
        >>> import torch
        >>> correct, number = torch.tensor([2.0, 1.0]), torch.tensor([3, 1])
        >>> accuracies(correct, number, {"tail": torch.tensor([False, True])})
        {'accuracy': 0.75, 'tail': 1.0}
    """
    values = {"accuracy": float(correct.sum() / number.sum())}
    for name, members in groups.items():
        members = members & (number > 0)
        if members.any():
            values[name] = float((correct / number)[members].mean())
    return values
