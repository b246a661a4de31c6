"""Training on image datasets of every kind, one run at a time, in one process or under torchrun."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from resultant._core import distributed
from resultant._core.device import device_of
from resultant._core.tensor_files import read_metadata
from resultant.images.evaluation import EvaluationView, source_views
from resultant.images.longtail import long_tail_indices
from resultant.images.photo_views import classification_view, contrastive_view
from resultant.images.source import ImageSplits, require_whole
from resultant.images.store import ImageStore, OnImages, open_store
from resultant.training.batches import Batches
from resultant.training.checkpoints import save_network
from resultant.training.config import RECIPE_CHANNELS, TrainConfig
from resultant.training.encoder import model_settings
from resultant.training.evaluation import HeldOutTest, Rows, predicted_classes
from resultant.training.job import Job, Progress, Trained
from resultant.training.loop import Trainer, train
from resultant.training.network_files import BEST


def resolved(config: TrainConfig) -> TrainConfig:
    """Return the settings with the image size and channels of the timm model, where not set."""
    model = model_settings(config.architecture)
    changes: dict[str, Any] = {"size": config.size or model.size}
    if config.pretrained or config.weights or config.dataset not in RECIPE_CHANNELS:
        changes |= {"mean": config.mean or model.mean, "std": config.std or model.std}
    return replace(config, **changes)


def with_long_tail(splits: ImageSplits, imbalance: float | None, seed: int) -> ImageSplits:
    """Return splits with a long-tailed subset of the training images, of all of them for None."""
    if imbalance is None:
        return splits
    rows = long_tail_indices(splits.train.labels, splits.num_classes, imbalance, seed)
    return replace(splits, train=splits.train.select(rows), balanced=splits.train)


class KeepBest:
    """Keep the network of the best epoch on validation images, as ``best.safetensors``."""

    def __init__(self, job: Job, trainer: Trainer) -> None:
        self.job, self.trainer, self.path = job, trainer, job.out / BEST
        self.facts = json.loads(json.dumps({"config": asdict(job.config)}))
        about = read_metadata(self.path) or {}
        # That of an earlier call with the same settings.
        same = all(about.get(name) == value for name, value in self.facts.items())
        self.accuracy = float(about.get("accuracy", -1.0)) if same else -1.0
        self.epoch = int(about.get("epoch", 0)) if same else 0

    def __call__(self, epoch: int, rows: Rows) -> None:
        accuracy = rows[0].get("accuracy")
        # The best epoch of an interrupted call may be trained again.
        if accuracy is None or (accuracy <= self.accuracy and self.epoch != epoch):
            return
        self.accuracy, self.epoch = accuracy, epoch
        trainer, job = self.trainer, self.job
        weights, known = trainer.network.state_dict(), trainer.contents
        names, facts = job.class_names, {"accuracy": accuracy}
        save_network(self.path, weights, job.config, trainer.run, epoch, names, known, **facts)


def train_images(
    job: Job,
    data: ImageSplits,
    device: torch.device | str = "cpu",
    workers: int | None = None,
    on_progress: Callable[[Progress], object] | None = None,
    on_step: Callable[[float], object] | None = None,
    *,
    store: Path | None = None,
    on_images: OnImages | None = None,
    note: Callable[[str], object] | None = None,
) -> Trained[Trainer]:
    """Train the one run of a job on images; return the network and the metrics.

    The training images are decoded first, to a store on the disk that later jobs use too.

    Args:
        job: The run, its configuration, and the folder, as in the example of `Job`.
        data: Training and held-out images.
        device: Device of the network.
        workers: Threads that decode images; by default one per core.
        on_progress: Called after every epoch; see `resultant.training.loop.train`.
        on_step: Called with the finished share of an epoch after every step.
        store: Folder of the decoded images; ``store`` in the folder of the job by default.
        on_images: Called with the decoded images and their number.
        note: Called with sentences on the disk and the memory that are used.

    Raises:
        ValueError: If the job does not fit images, or an image is broken.
        OSError: If the disk is full. Images that are decoded stay so.

    Example:
        >>> from resultant.images.opening import open_images
        >>> from resultant.training.image_sets import train_images
        >>> trained = train_images(job, open_images("photos"), "cuda")  # doctest: +SKIP
    """
    device = torch.device(device)
    job = replace(job.on(device), class_names=data.class_names)
    config = job.config
    if len(job.runs) != 1:
        raise ValueError(f"expected one run at a time for images, got {len(job.runs)}")
    (run,) = job.runs
    if data.num_classes < 2:
        got = ", ".join(data.class_names)
        raise ValueError(f"expected images of two classes or more, got one class: {got}")
    view, dtype = EvaluationView(config.size), getattr(torch, config.precision)

    def decoded() -> ImageStore:
        if distributed.rank() == 0:
            require_whole(data.held_out_splits.values(), workers)
        folder = store or job.out / "store"
        return open_store(data.train, folder, view.short_side, workers, on_images, note)

    views = [contrastive_view(config.size)] * 2
    views += [classification_view(config.size)] * (config.views - 2)
    batches = Batches(
        data.train,
        decoded,
        views,
        run.seed,
        config.batch_size,
        config.channels,
        dtype,
        device,
        note,
    )
    # Errors of the settings and of the weights come before the images are decoded.
    trainer = Trainer(config, run, batches, data.counts, device)
    hooks = []
    if config.objective == "joint" and (held_out := data.val or data.test) is not None:
        pictures = partial(source_views, held_out, view, config.channels, device, workers)
        predictions = partial(
            predicted_classes, trainer.network, len(held_out), pictures, device, trainer.autocast
        )
        labels = torch.from_numpy(held_out.labels)
        hooks.append(HeldOutTest(predictions, labels, data.counts, job.test_every, config.epochs))
        if data.val is not None and distributed.rank() == 0:
            hooks.append(KeepBest(job, trainer))
    try:
        with device_of(trainer.total):
            return train(job, trainer, hooks, on_progress, on_step)
    finally:
        batches.close()
