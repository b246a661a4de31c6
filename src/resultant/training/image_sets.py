"""Training on image datasets of every kind.

One run at a time, in one process or in many under torchrun. The batch size is the sum over all
processes, gradients are averaged, class statistics cover all samples, and the processes divide the
held-out images among themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from resultant._core import distributed
from resultant._core.device import device_of
from resultant.classes.groups import group_masks
from resultant.images.evaluation_view import EvaluationView
from resultant.images.opening import Location, long_tail, open_images
from resultant.images.photo_views import classification_view, contrastive_view
from resultant.images.published import PUBLISHED, open_published
from resultant.images.source import ImageSplits
from resultant.images.store import ImageStore, open_store
from resultant.networks.timm_encoder import model_settings, timm_encoder
from resultant.training.config import RECIPE_CHANNELS, TrainConfig
from resultant.training.hooks import HeldOutTest
from resultant.training.inference import evaluating
from resultant.training.job import Job, Progress, Trained
from resultant.training.loop import train
from resultant.training.photo_batches import (
    EvaluationViews,
    PhotoBatches,
    epoch_order,
    require_batches,
)
from resultant.training.stack import Stack


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
    """Open the images of a configuration, with its long-tailed subset.

    Args:
        config: Settings with the name of the dataset.
        data: Folder, file or pattern; see `resultant.images.opening.open_images`.
        **options: Further options of `open_published` for its datasets, else of `open_images`.

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
    workers: int | None = None,
    on_progress: Callable[[Progress], object] | None = None,
    on_step: Callable[[float], object] | None = None,
    *,
    store: Path | None = None,
    residency: str = "auto",
    note: Callable[[str], object] | None = None,
) -> Trained:
    """Train the one run of a job on images.

    The images are decoded once, to a store on the disk that later jobs use too. The first epoch of
    a single process trains while they are decoded; several processes decode before.

    Args:
        job: The run, its configuration, and the folder.
        data: Training and held-out images.
        device: Device of the network.
        workers: Processes that decode images; by default one per core.
        on_progress: Called after every epoch; see `resultant.training.loop.train`.
        on_step: Called with the finished share of an epoch after every step.
        store: Folder of the decoded images; ``store`` in the folder of the job by default.
        residency: Place of the decoded images in training: ``gpu``, ``pinned`` or ``disk``;
            ``auto`` for the first that fits.
        note: Called with sentences on the disk and the memory that are used.

    Returns:
        The trained network with the metrics of the last epoch.

    Raises:
        ValueError: As `resultant.training.loop.train`, if the job does not fit images, and if an
            image is broken.
        OSError: If the disk is full. Images that are decoded stay so.

    Example:
        >>> from pathlib import Path
        >>> from resultant.images.opening import open_images
        >>> from resultant.training.config import Run, TrainConfig
        >>> from resultant.training.image_sets import train_images
        >>> from resultant.training.job import Job
        >>> config = TrainConfig(dataset="images", architecture="resnet50", size=224)
        >>> job = Job(config, (Run("angular"),), Path("out"))
        >>> trained = train_images(job, open_images("photos"), "cuda")  # doctest: +SKIP
    """
    device = torch.device(device)
    job = replace(job.on(device), class_names=data.class_names)
    config = job.config
    if len(job.runs) != 1 or job.gradient_epochs:
        rule = "expected one run and no gradient epochs for images"
        raise ValueError(f"{rule}, got {len(job.runs)} runs and epochs {job.gradient_epochs}")
    # Before images are read: errors of the settings.
    if data.num_classes < 2:
        got = ", ".join(data.class_names)
        raise ValueError(f"expected images of two classes or more, got one class: {got}")
    require_batches(len(data.train), config.batch_size)
    model_settings(config.architecture)
    if config.pretrained or config.weights is not None:
        # Weights that are missing or do not fit.
        timm_encoder(
            config.architecture,
            pretrained=config.pretrained,
            weights=config.weights,
            size=config.size,
        )
    folder = job.out / "store" if store is None else store
    open_images_of = partial(
        open_store,
        folder=folder,
        short_side=recipe_view(config.size).short_side,
        workers=workers,
        device=device,
        note=note,
    )
    # All of them first, so that the disk has space for all.
    decoded, *held_out = map(open_images_of, (data.train, *data.held_out_splits.values()))
    # Before the training, which a broken held-out image would otherwise end.
    for images in held_out:
        images.fill()
    if distributed.distributed():
        decoded.fill()
    # The workers start before the network is built, and decode while it is compiled.
    decoded.start(epoch_order(len(data.train), job.runs[0].seed, 0)[0])
    views = [contrastive_view(config.size)] * 2
    views += [classification_view(config.size)] * config.classification_view
    batches = PhotoBatches(
        decoded,
        torch.from_numpy(data.train.labels),
        views,
        job.runs[0].seed,
        config.batch_size,
        config.channels,
        getattr(torch, config.precision),
        device,
        residency,
        note,
    )
    stack = Stack(config, job.runs, batches, data.counts, device)
    hooks = []
    if config.objective == "joint" and held_out:
        # Those of val, if there are any.
        test = HeldOutAccuracy(data, config, device, held_out[0])
        hooks.append(HeldOutTest(test, job.test_every, config.epochs))
    try:
        with device_of(stack.total):
            return train(job, [stack], hooks, on_progress, on_step)
    finally:
        batches.close()


class HeldOutAccuracy:
    """Test of the classifier on held-out images; every process computes its share.

    A call returns the `accuracies` of logits without prior, in the groups of `group_masks`.
    """

    def __init__(
        self,
        data: ImageSplits,
        config: TrainConfig,
        device: torch.device,
        store: ImageStore,
    ) -> None:
        self.store, self.config, self.device = store, config, device
        self.classes, self.groups = data.num_classes, group_masks(data.counts)
        self.rows = torch.arange(distributed.rank(), len(store), distributed.world_size())
        self.labels = torch.from_numpy(store.source.labels).to(device)
        self.views: EvaluationViews | None = None

    @torch.no_grad()
    def __call__(self, stack: Stack) -> list[dict[str, float]]:
        if self.views is None:
            view, dtype = recipe_view(self.config.size), getattr(torch, self.config.precision)
            self.views = EvaluationViews(self.store, view, self.config.channels, dtype, self.device)
        # DDP sends the running moments of the first process before every forward pass; since the
        # last one each process has added its share of a batch. Those of the first are saved.
        distributed.broadcast_from_rank0(*stack.network.buffers())
        tally = torch.zeros(2, self.classes, dtype=torch.float64, device=self.device)
        with evaluating(stack.network):
            for x, rows in self.views(self.rows):
                with stack.autocast():
                    logits = stack.network.forward(x).logits
                assert logits is not None
                labels = self.labels[rows.to(self.device)]
                correct = (logits[0].argmax(-1) == labels).double()
                tally.index_add_(1, labels, torch.stack([correct, torch.ones_like(correct)]))
        correct, number = distributed.all_reduce_sum(tally).cpu()
        return [accuracies(correct, number, self.groups)]


def prediction_accuracies(predicted: Tensor, labels: Tensor, counts: Tensor) -> dict[str, float]:
    """Compute the `accuracies` of predictions [N], in the groups of training counts [C]."""
    correct, number = (
        torch.bincount(y.cpu(), minlength=len(counts))
        for y in (labels[predicted == labels], labels)
    )
    return accuracies(correct.double(), number, group_masks(counts))


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
