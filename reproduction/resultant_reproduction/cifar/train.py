"""Training on long-tailed CIFAR subsets that are kept on the device."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from resultant._core.device import device_of
from resultant.training.evaluation import HeldOutTest, Hook
from resultant.training.job import Progress, Trained
from resultant.training.loop import train
from resultant_reproduction.cifar.batches import Batches
from resultant_reproduction.cifar.data import Cifar
from resultant_reproduction.cifar.evaluation import Diagnostic, GradientErrors, predicted_classes
from resultant_reproduction.cifar.job import CifarJob
from resultant_reproduction.cifar.stack import Stack, Stacks


def train_cifar(
    job: CifarJob,
    data: Cifar,
    device: torch.device | str = "cpu",
    on_progress: Callable[[Progress], object] | None = None,
    diagnostic: Diagnostic | None = None,
    on_step: Callable[[float], object] | None = None,
) -> Trained[Stacks]:
    """Train every run of a job on the long-tailed CIFAR subset of its configuration, as
    `resultant.training.loop.train`; return the networks and the metrics.

    Args:
        diagnostic: Further values after ``job.gradient_epochs``.
        on_step: Called with the finished share of an epoch after every step outside a CUDA graph.
    """
    device = torch.device(device)
    job = replace(job.on(device), class_names=tuple(data.class_names))
    config = job.config
    if data.dataset not in (None, config.dataset):
        raise ValueError(f"expected images of {config.dataset}, got those of {data.dataset}")
    members = data.members(config.imbalance, config.subset)
    images, labels = data.train_images[members].to(device), data.train_labels[members].to(device)
    counts = torch.bincount(labels.cpu(), minlength=data.num_classes)
    trainee = Stacks(stacks_of(job, images, labels, counts, device))
    hooks: list[Hook] = [
        GradientErrors(trainee.stacks, images, labels, job.gradient_epochs, diagnostic)
    ]
    if config.objective == "joint":
        pixels = data.test_images.to(device)
        dtype = getattr(torch, config.precision)
        predictions = partial(predicted_classes, trainee.stacks, pixels, dtype)
        hooks.insert(
            0, HeldOutTest(predictions, data.test_labels, counts, job.test_every, config.epochs)
        )
    # Streams and graphs belong to the current device.
    with device_of(images):
        return train(job, trainee, hooks, on_progress, on_step)


def stacks_of(
    job: CifarJob, images: Tensor, labels: Tensor, counts: Tensor, device: torch.device
) -> list[Stack]:
    """Build the stacks of a job, of at most ``job.stack`` runs each."""
    config, stacks = job.config, []
    for top in range(0, len(job.runs), job.stack):
        runs = job.runs[top : top + job.stack]
        batches = Batches(
            images,
            labels,
            [run.seed for run in runs],
            config.batch_size,
            config.classification_view,
            getattr(torch, config.precision),
            config.contrastive_view,
        )
        stacks.append(Stack(config, runs, batches, counts, device))
    return stacks
