"""``resultant train``: train networks and evaluate them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, make_dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional, get_type_hints

import tyro

from resultant._core.text import counted
from resultant.cli import arguments
from resultant.cli.arguments import data_root, find_device, shown_default
from resultant.training import config as recipes
from resultant.training.config import Run, TrainConfig

if TYPE_CHECKING:
    import torch
    from rich.console import Console
    from rich.table import Table

    from resultant.cli.progress import EpochProgress
    from resultant.training.job import Job

PRESET_HELP = {
    "cifar-controlled": "the paper's controlled comparison: two views, cosine schedule",
    "cifar-official": "ProCo's public recipe for CIFAR: joint training, three views, steps",
    "imagenet-lt": "ProCo's public recipe for ImageNet-LT",
    "inaturalist18": "ProCo's public recipe for iNaturalist 2018",
    "places-lt": "Places-LT: a pretrained ResNet-152",
    "tiny-imagenet-lt": "Tiny-ImageNet-LT: 64 x 64 images",
    "images": "your own images: folders, lists or Parquet",
}


def _preset(config: TrainConfig) -> TrainConfig:
    """Return the settings of a preset, with an option in its help for each that it may change."""
    hidden = (*recipes.CIFAR_ALONE, "fuse", "dataset")
    if config.dataset in recipes.CIFAR:
        hidden = (*recipes.OTHERS_ALONE, "architecture", "size")
    shown = get_type_hints(TrainConfig)
    shown |= {name: Annotated[shown[name], tyro.conf.Suppress] for name in hidden}
    fields_of = [(name, kind, field(default=getattr(config, name))) for name, kind in shown.items()]
    preset = make_dataclass("Preset", fields_of, bases=(TrainConfig,), frozen=True, kw_only=True)
    return preset(**vars(config))


if TYPE_CHECKING:
    Preset = TrainConfig
else:
    Preset = tyro.extras.subcommand_type_from_defaults(
        {name: _preset(config) for name, config in recipes.PRESETS.items()}, PRESET_HELP
    )


@dataclass(frozen=True)
class Train:
    """Train networks and evaluate them.

    Every realization with every beta and every seed is one run; the runs on CIFAR are trained
    together. If a job was interrupted, the same command continues from its checkpoint. Under
    torchrun the processes share the images of a step (not for CIFAR). Every setting of a recipe is
    an option too; resultant train cifar-controlled --help lists them.

    Examples:
      resultant train images --data FOLDER --architecture resnet50 --pretrained
      resultant train cifar-controlled --realization native angular
    """

    config: Preset
    """The recipe. Each of its settings is an option."""
    realization: tuple[recipes.Realization, ...] = ("native",)
    """Realization of the target gains in the scores."""
    beta: tuple[float, ...] = (0.0,)
    """Share of the differences between gains to keep; ignored by native and cosine."""
    seeds: tuple[int, ...] = (0,)
    """Seeds of weights, batches and augmentations, one run per seed."""
    image_set: arguments.ImageOptions = field(default_factory=arguments.ImageOptions)
    """The images."""
    out: Path = Path("out/train")
    """Folder for networks, checkpoints, metrics and records; other files are left untouched."""
    device: arguments.Device = "auto"
    """auto, cpu, cuda or cuda:N."""
    workers: arguments.Workers = None
    """Number of threads that decode images."""
    store: Annotated[Optional[Path], shown_default("PATH", "the folder store of --out")] = None
    """Folder of the decoded images, which later trainings use too."""
    delete_store: bool = False
    """Delete the decoded images at the end."""
    stack: int = recipes.STACK
    """Number of runs trained as one network; 1 is faster on a CPU."""
    checkpoint_every: int = 10
    """Epochs between checkpoints; after a minute, the next epoch writes one in any case."""
    test_every: int = 1
    """Epochs between tests of a classifier."""
    gradient_epochs: Annotated[tuple[int, ...], shown_default("INT ...", "none")] = ()
    """Epochs after which leading and exact gradients are compared."""
    tensorboard: bool = False
    """Write the metrics for TensorBoard too."""
    download: bool = False
    """Download CIFAR first."""
    evaluate: bool = True
    """Fit probes and frozen rules at the end."""


def train(options: Train) -> None:
    """Train the runs, evaluate them and append their records to ``records.jsonl``."""
    from resultant._core import distributed
    from resultant._core.files import require_writable_folder
    from resultant.cli.progress import PlainConsole
    from resultant.images.store import delete_stores
    from resultant.training.image_sets import resolved
    from resultant.training.job import Job
    from resultant.training.records import append, read_lines

    config, path = TrainConfig(**vars(options.config)), options.out / "records.jsonl"
    # Only the first process writes.
    if os.environ.get("RANK", "0") == "0":
        require_writable_folder(options.out)
    read_lines(path)
    runs = grid(options.realization, options.beta, options.seeds)
    if config.dataset in recipes.CIFAR:
        data_root(options.image_set.data)
        work = _train_cifar
    else:
        options.image_set.root(config.dataset)
        config, work = resolved(config), _train_images
    shared = ("checkpoint_every", "test_every", "gradient_epochs", "stack", "tensorboard")
    job = Job(config, runs, options.out, **{name: getattr(options, name) for name in shared})
    with distributed.processes(find_device(options.device)) as device:
        log = PlainConsole(stderr=True)
        log.quiet = distributed.rank() > 0
        records: dict[str, dict] = {}
        for batch in work(job, options, device, log):
            # Written before the evaluation, and run by run: a later failure loses none of them.
            records |= {record["run"]: record for record in batch}
            if not log.quiet:
                append(path, batch)
    if log.quiet:
        return
    if options.delete_store:
        delete_stores(options.store or options.out / "store")
    console = PlainConsole()
    console.print(accuracy_table(list(records.values())))
    console.print(f"records: {path}")


def require_batch(config: TrainConfig, images: int) -> None:
    """Raise if a batch has more images than the training set."""
    if config.batch_size > images:
        rule = f"expected --batch-size of {images:,} or less, the number of training images"
        raise ValueError(f"{rule}, got {config.batch_size:,}")


def _train_cifar(
    job: Job, options: Train, device: torch.device, log: Console
) -> Iterator[list[dict]]:
    """Yield the records of all runs after the training, and again with their evaluation."""
    from resultant._core.distributed import world_size
    from resultant.images.cifar import load_cifar
    from resultant.training.cifar import train_cifar
    from resultant.training.evaluation import base_records, evaluate

    if (number := world_size()) > 1:
        rule = "expected one process for CIFAR, whose runs are trained together"
        raise ValueError(f"{rule}, got {number}")
    config, root = job.config, data_root(options.image_set.data)
    data = load_cifar(config.dataset, root, options.download)
    images = len(data.train_labels)
    if images != recipes.CIFAR_IMAGES:
        few = f"{config.dataset} in {root} has {images:,} training images"
        log.print(f"{few}, usually {recipes.CIFAR_IMAGES:,}", soft_wrap=True)
    members = len(data.members(config.imbalance, config.subset))
    require_batch(config, members)
    title = f"{config.dataset}, {counted(len(job.runs), 'run', 'runs')}"
    text = f"{members:,} images, {config.views} views, {config.epochs} epochs on {device}"
    log.print(f"{title}: {text}")
    with training(job, log, title) as progress:
        trained = train_cifar(job, data, device, progress, on_step=progress.tick)
    yield base_records(trained, members)
    if options.evaluate:
        with evaluating(log, title):
            yield evaluate(trained, data)


def _train_images(
    job: Job, options: Train, device: torch.device, log: Console
) -> Iterator[list[dict]]:
    """Train one run after the other; yield its record after training, and with its evaluation."""
    from resultant._core.distributed import wait_for_all
    from resultant.training.evaluation import base_records, evaluate, network_features
    from resultant.training.image_sets import train_images

    data = options.image_set.open(job.config, options.workers, log)
    require_batch(job.config, len(data.train))
    for run in job.runs:
        one = replace(job, runs=(run,), out=job.out / run.name)
        title = f"{job.config.dataset} {run.name}"
        with training(one, log, title) as progress:
            trained = train_images(
                *(one, data, device, options.workers, progress, progress.tick),
                store=options.store or options.out / "store",
                on_images=progress.decoding,
                note=partial(log.print, soft_wrap=True),
            )
        yield base_records(trained, len(data.train))
        if options.evaluate and data.held_out_splits:
            with evaluating(log, title):
                # Every process computes its share of the features; the first one fits the probes.
                features = network_features(trained, data, options.workers)
                if not log.quiet:
                    yield evaluate(trained, data, features=features)
                wait_for_all()
        # The network is freed before the next run.
        trained = features = None


@contextmanager
def training(job: Job, log: Console, title: str) -> Iterator[EpochProgress]:
    """Show the epochs of a training; an interrupt names the checkpoint that is left."""
    from resultant.cli.progress import EpochProgress
    from resultant.training.network_files import CHECKPOINT

    try:
        with EpochProgress(log, title, job.config.epochs) as progress:
            yield progress
    except KeyboardInterrupt:
        saved = job.out / CHECKPOINT
        kept = f"rerun the same command to resume from {saved}"
        raise KeyboardInterrupt(kept if saved.exists() else "no checkpoint was written") from None


@contextmanager
def evaluating(log: Console, title: str) -> Iterator[None]:
    """Show that probes and frozen rules are fitted."""
    if not log.is_terminal:
        log.print(f"{title}: probes and frozen rules")
    with log.status("probes and frozen rules"):
        yield


def grid(
    realizations: Sequence[str], betas: Sequence[float], seeds: Sequence[int]
) -> tuple[Run, ...]:
    """Return every realization with every beta and seed; native and cosine have no beta."""
    for name, values in (("realization", realizations), ("beta", betas), ("seeds", seeds)):
        if not values:
            raise ValueError(f"expected one or more values of --{name}, got none")
    runs = itertools.product(realizations, betas, seeds)
    every = (Run(r, 0.0 if r in recipes.WITHOUT_BETA else b, seed) for r, b, seed in runs)
    return tuple(dict.fromkeys(every))


# Columns of the table, and the paths of their numbers in a record. E is the encoder, P the
# projection.
SPACES = ("encoder", "projection")
COLUMNS = {
    "classifier": ["classifier/accuracy"],
    "head / medium / tail": [f"classifier/{group}" for group in ("head", "medium", "tail")],
    "long-tail probe E / P": [f"probes/long_tail/{space}/accuracy" for space in SPACES],
    "balanced probe E / P": [f"probes/balanced/{space}/accuracy" for space in SPACES],
    "P: vMF / cosine / angular": [
        f"frozen/projection/proco/{name}" for name in ("native", "cosine", "angular")
    ],
}


def accuracy_table(records: Sequence[dict]) -> Table:
    """Return one line per run: the classifier, and probes and frozen rules if there are any."""
    from rich.table import Table

    from resultant.cli.progress import percent

    cells = {
        name: [[_value(record, path) for path in paths] for record in records]
        for name, paths in COLUMNS.items()
    }
    columns = [name for name in cells if any(v is not None for row in cells[name] for v in row)]
    title = "accuracy in percent" if columns else "after the last epoch"
    table = Table("run", "loss", *columns, title=title, title_justify="left")
    for column in table.columns:
        # A narrow terminal folds the cells and cuts no digit.
        column.overflow, column.min_width = "fold", len("1.2345")
    for i, record in enumerate(records):
        loss = record["last"].get("loss")
        values = [" / ".join(percent(v) for v in cells[name][i]) for name in columns]
        table.add_row(record["run"], "" if loss is None else f"{loss:.4f}", *values)
    return table


def _value(record: Any, path: str) -> float | None:
    if "classifier" not in record:
        # Tested after the last epoch, and not again.
        path = path.replace("classifier", "last")
    for name in path.split("/"):
        record = record.get(name) if isinstance(record, dict) else None
    return record
