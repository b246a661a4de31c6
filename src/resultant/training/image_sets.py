"""Training on image datasets of every kind.

One run at a time, in one process or in many under torchrun. The batch size is the sum over all
processes, gradients are averaged, class statistics cover all samples, and the processes divide the
held-out images among themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant._core import distributed
from resultant._core.device import device_of
from resultant.classes.groups import group_masks
from resultant.images.evaluation_view import EvaluationView
from resultant.images.loader import (
    Loader,
    ViewDataset,
    classification_view,
    contrastive_view,
    evaluation_view,
    loader,
)
from resultant.images.opening import Location, long_tail, open_images
from resultant.images.published import PUBLISHED, open_published
from resultant.images.source import ImageSource, ImageSplits, select
from resultant.networks.timm_encoder import model_settings
from resultant.training.batches import LoadedBatches
from resultant.training.config import RECIPE_CHANNELS, WORKERS, TrainConfig
from resultant.training.hooks import HeldOutTest, Test
from resultant.training.inference import loaded_outputs
from resultant.training.job import Job, Progress, Trained
from resultant.training.loop import train
from resultant.training.stack import Stack

# Batches that each worker prepares ahead; three views of 256 images of size 224 are 116 MB.
PREFETCH = 2


def resolved(config: TrainConfig) -> TrainConfig:
    """Return the settings with the image size and channels of the timm model, where not set.

    Raises:
        ValueError: If timm has no such model.
    """
    own_channels = config.pretrained or config.weights or config.dataset not in RECIPE_CHANNELS
    if config.size and (not own_channels or None not in (config.mean, config.std)):
        return config
    model = model_settings(config.architecture)
    changes: dict[str, Any] = {"size": config.size or model.size}
    if own_channels:
        changes |= {"mean": config.mean or model.mean, "std": config.std or model.std}
    return replace(config, **changes)


def open_dataset(config: TrainConfig, data: Location | None = None, **options: Any) -> ImageSplits:
    """Open the images of a configuration.

    Args:
        config: Settings with the name of the dataset and its long-tailed subset.
        data: Folder, file or pattern; see `resultant.images.opening.open_images`.
        **options: Further options of `open_published` for its datasets, else of `open_images`.

    Returns:
        The splits.

    Raises:
        ValueError: If the dataset is missing or broken.
    """
    if config.dataset in PUBLISHED:
        splits = open_published(config.dataset, data, **options)
    else:
        options.pop("lists", None)
        splits = open_images(data, **options)
    if config.long_tail is None:
        return splits
    subset = long_tail(splits.train, config.long_tail, config.subset_seed)
    return replace(splits, train=subset, balanced=splits.train)


def recipe_view(size: int) -> EvaluationView:
    """Return the view for evaluation of the recipes: shorter side to 256 for size 224."""
    return EvaluationView(size, size * 256 // 224)


def train_images(
    job: Job,
    data: ImageSplits,
    device: torch.device | str = "cpu",
    workers: int = WORKERS,
    on_progress: Callable[[Progress], object] | None = None,
    on_step: Callable[[float], object] | None = None,
) -> Trained:
    """Train the one run of a job on images.

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
        ValueError: As `resultant.training.loop.train`, and if the job does not fit images.
    """
    device = torch.device(device)
    job = replace(job.on(device), class_names=data.class_names)
    config = job.config
    if len(job.runs) != 1 or job.gradient_epochs:
        rule = "expected one run and no gradient epochs for images"
        raise ValueError(f"{rule}, got {len(job.runs)} runs and epochs {job.gradient_epochs}")
    batches = loader(
        ViewDataset(data.train, _views(config), job.runs[0].seed),
        batch_per_process(config),
        train=True,
        workers=workers,
        prefetch=PREFETCH,
    )
    loaded = LoadedBatches(batches, config.channels, device)
    stack = Stack(config, job.runs, loaded, data.counts, device)
    hooks = []
    if config.objective == "joint" and data.judge is not None:
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
    weak = classification_view(config.channels[0], config.size)
    return views + [weak] * config.classification_view


def evaluation_loader(images: ImageSource, config: TrainConfig, workers: int) -> Loader:
    """Load all images in their order, without augmentation, in this process."""
    return loader(
        ViewDataset(images, [evaluation_view(config.size)]),
        batch_per_process(config),
        train=False,
        workers=workers,
        prefetch=PREFETCH,
        rank=0,
        world_size=1,
    )


def held_out_accuracy(data: ImageSplits, config: TrainConfig, workers: int) -> Test:
    """Return a test of the classifier on held-out images; every process reads its share.

    The images are those that choose, if there are any: the others judge after the training. The
    test returns the `accuracies` of logits without prior, in the groups of `group_masks`.
    """
    held_out = data.chooser or data.judge
    assert held_out is not None
    share = np.arange(distributed.rank(), len(held_out), distributed.world_size())
    images = evaluation_loader(select(held_out, share), config, workers)
    groups = group_masks(data.counts)

    def test(stack: Stack) -> list[dict[str, float]]:
        # DDP sends the running moments of the first process before every forward pass; since the
        # last one each process has added its share of a batch. Those of the first are saved.
        distributed.broadcast_from_rank0(*stack.network.buffers())
        tally = torch.zeros(2, data.num_classes, dtype=torch.float64, device=stack.device)
        batches = loaded_outputs(
            stack.network, images, config.channels, stack.device, stack.autocast
        )
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
