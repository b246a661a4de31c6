"""Trainers behind ``resultant train NAME`` for the recipes of the paper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

from resultant._core.text import counted
from resultant.cli.arguments import data_root, shown
from resultant.cli.train import (
    COLUMNS,
    Train,
    job_of,
    require_batch,
    run_training,
    train_images_of,
    training,
)
from resultant_reproduction.recipes.config import CIFAR_IMAGES, PaperConfig

if TYPE_CHECKING:
    import torch
    from rich.console import Console

    from resultant.images.source import ImageSplits
    from resultant.training.job import Trained
    from resultant_reproduction.cifar.job import CifarJob

# Columns of the table of all runs. E is the encoder, P the projection.
SPACES = ("encoder", "projection")
TABLE = COLUMNS | {
    "long-tail probe E / P": [f"probes/long_tail/{space}/accuracy" for space in SPACES],
    "balanced probe E / P": [f"probes/balanced/{space}/accuracy" for space in SPACES],
    "P: vMF / cosine / angular": [
        f"frozen/projection/proco/{name}" for name in ("native", "cosine", "angular")
    ],
}


def settings_of(options: Train) -> PaperConfig:
    """Return the settings of the runs, without the options of the command."""
    values = vars(options.config)
    return PaperConfig(**{field.name: values[field.name] for field in fields(PaperConfig)})


def train_published(options: Train) -> None:
    """Train on a published dataset, one run after the other."""
    from resultant_reproduction.recipes import records
    from resultant_reproduction.recipes.published import open_dataset

    own: Any = options.config
    source = options.image_set.source()
    if source["data"] is None and options.image_set.train_list is None:
        listed = own.lists is not None and options.image_set.images is not None
        source["data"] = None if listed else data_root(None)

    def open_images(config: PaperConfig, workers: int | None, log: Console) -> ImageSplits:
        splits = open_dataset(config, lists=own.lists, **source, workers=workers)
        return shown(splits, config.dataset, log)

    train_images_of(
        options,
        settings_of(options),
        open_images,
        records,
        _evaluate_images if own.evaluate else None,
        TABLE,
    )


def _evaluate_images(
    trained: Trained, data: ImageSplits, workers: int | None, log: Console, title: str
) -> Iterator[list[dict]]:
    """Yield the record of a run with its evaluation, if there are held-out images."""
    from resultant._core.distributed import wait_for_all
    from resultant_reproduction.recipes.evaluation import evaluate, image_features

    if not data.held_out_splits:
        return
    with evaluating(log, title):
        # Every process computes its share of the features; the first one fits the probes.
        features = image_features(trained, data, workers)
        if not log.quiet:
            yield evaluate(trained, features, data.num_classes, data.held_out)
        wait_for_all()


def train_cifar_runs(options: Train) -> None:
    """Train the runs on CIFAR together."""
    from resultant_reproduction.cifar.job import CifarJob
    from resultant_reproduction.recipes import records

    own: Any = options.config
    data_root(options.image_set.data)
    kind = partial(CifarJob, stack=own.stack, gradient_epochs=own.gradient_epochs)
    job: Any = job_of(options, settings_of(options), kind)
    run_training(options, partial(_train_cifar, job, options), records, TABLE)


def _train_cifar(
    job: CifarJob, options: Train, device: torch.device, log: Console
) -> Iterator[list[dict]]:
    """Yield the records of all runs after the training, and again with their evaluation."""
    from resultant._core.distributed import world_size
    from resultant_reproduction.cifar.data import load_cifar
    from resultant_reproduction.cifar.evaluation import cifar_features
    from resultant_reproduction.cifar.train import train_cifar
    from resultant_reproduction.recipes.evaluation import evaluate

    if (number := world_size()) > 1:
        rule = "expected one process for CIFAR, whose runs are trained together"
        raise ValueError(f"{rule}, got {number}")
    own: Any = options.config
    config, root = job.config, data_root(options.image_set.data)
    data = load_cifar(config.dataset, root, own.download)
    images = len(data.train_labels)
    if images != CIFAR_IMAGES:
        few = f"{config.dataset} in {root} has {images:,} training images"
        log.print(f"{few}, usually {CIFAR_IMAGES:,}", soft_wrap=True)
    members = len(data.members(config.imbalance, config.subset))
    require_batch(config, members)
    title = f"{config.dataset}, {counted(len(job.runs), 'run', 'runs')}"
    text = f"{members:,} images, {config.views} views, {config.epochs} epochs on {device}"
    log.print(f"{title}: {text}")
    with training(job, log, title) as progress:
        trained = train_cifar(job, data, device, progress, on_step=progress.tick)
    yield trained.records(members)
    if own.evaluate:
        with evaluating(log, title):
            yield evaluate(trained, cifar_features(trained, data), data.num_classes)


@contextmanager
def evaluating(log: Console, title: str) -> Iterator[None]:
    """Show that probes and frozen rules are fitted."""
    if not log.is_terminal:
        log.print(f"{title}: probes and frozen rules")
    with log.status("probes and frozen rules"):
        yield
