"""Training on long-tailed CIFAR subsets that are kept on the device."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch

from resultant._core.device import device_of
from resultant.images.cifar import Cifar
from resultant.training.batches import CifarBatches
from resultant.training.evaluation import Diagnostic, GradientErrors, HeldOutTest, Hook
from resultant.training.inference import cifar_views
from resultant.training.job import Job, Progress, Trained
from resultant.training.loop import train
from resultant.training.stack import Stack


def train_cifar(
    job: Job,
    data: Cifar,
    device: torch.device | str = "cpu",
    on_progress: Callable[[Progress], object] | None = None,
    diagnostic: Diagnostic | None = None,
    on_step: Callable[[float], object] | None = None,
) -> Trained:
    """Train every run of a job on a long-tailed CIFAR subset; return the networks and the metrics.

    Args:
        job: The runs, their configuration, and the folder, as in the example of `Job`.
        data: CIFAR images; the configuration chooses the subset.
        device: Device of the images and the networks.
        on_progress: Called after every epoch; see `resultant.training.loop.train`.
        diagnostic: Further values after ``job.gradient_epochs``.
        on_step: Called with the finished share of an epoch after every step outside a CUDA graph.

    Raises:
        ValueError: As `resultant.training.loop.train`, and if the images are of another dataset.

    Example:
        >>> from resultant.images.cifar import load_cifar
        >>> from resultant.training.cifar import train_cifar
        >>> trained = train_cifar(job, load_cifar("cifar10", "data"), "cuda")  # doctest: +SKIP
    """
    device = torch.device(device)
    job = replace(job.on(device), class_names=tuple(data.class_names))
    config = job.config
    if data.dataset not in (None, config.dataset):
        raise ValueError(f"expected images of {config.dataset}, got those of {data.dataset}")
    members = data.members(config.imbalance, config.subset)
    images = data.train_images[members].to(device)
    labels = data.train_labels[members].to(device)
    counts = torch.bincount(labels.cpu(), minlength=data.num_classes)
    dtype = getattr(torch, config.precision)
    options = config.batch_size, config.classification_view, dtype, config.contrastive_view
    stacks = []
    for top in range(0, len(job.runs), job.stack):
        runs = job.runs[top : top + job.stack]
        batches = CifarBatches(images, labels, [run.seed for run in runs], *options)
        stacks.append(Stack(config, runs, batches, counts, device))
    hooks: list[Hook] = [GradientErrors(images, labels, job.gradient_epochs, diagnostic)]
    if config.objective == "joint":
        views = partial(cifar_views, data.test_images.to(device), dtype)
        hooks.insert(0, HeldOutTest(views, data.test_labels, counts, job.test_every))
    # Streams and graphs belong to the current device.
    with device_of(images):
        return train(job, stacks, hooks, on_progress, on_step)
