"""``resultant train``: train networks on images."""

from __future__ import annotations

import itertools
import os
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, make_dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional, get_type_hints

import tyro

from resultant.cli import arguments
from resultant.cli.arguments import find_device, shown_default
from resultant.training.config import WITHOUT_BETA, Realization, Run, TrainConfig
from resultant.training.plugins import Recipe, recipes

if TYPE_CHECKING:
    import torch
    from rich.console import Console
    from rich.table import Table

    from resultant.cli.progress import EpochProgress
    from resultant.images.source import ImageSplits
    from resultant.training.job import Job

RECIPES = {
    "images": Recipe(
        TrainConfig(),
        "your own images: folders, lists or Parquet",
        "resultant.cli.train:train_folder",
    ),
    **recipes(),
}


def _options(name: str, recipe: Recipe) -> TrainConfig:
    """Return the settings of a recipe, with an option in its help for each that it may change."""
    kind = type(recipe.config)
    shown = get_type_hints(kind)
    shown |= {name: Annotated[shown[name], tyro.conf.Suppress] for name in recipe.hidden}
    shown = {f.name: shown[f.name] for f in fields(kind)}
    own = [(n, hint, field(default=getattr(recipe.config, n))) for n, hint in shown.items()]
    chosen = make_dataclass(
        "Preset", own, bases=(kind,), frozen=True, kw_only=True, namespace={"recipe": name}
    )
    return chosen(**vars(recipe.config))


if TYPE_CHECKING:
    Preset = TrainConfig
else:
    Preset = tyro.extras.subcommand_type_from_defaults(
        {name: _options(name, recipe) for name, recipe in RECIPES.items()},
        {name: recipe.help for name, recipe in RECIPES.items()},
    )


@dataclass(frozen=True)
class Train:
    """Train networks on images.

    Every realization with every beta and every seed is one run. If a job was interrupted, the same
    command continues from its checkpoint. Under torchrun the processes share the images of a step.
    Every setting is an option too; resultant train images --help lists them. The recipes of the
    paper come with its reproduction, pip install ./reproduction.

    Example:
      resultant train images --data FOLDER --architecture resnet50 --pretrained
    """

    config: Preset
    """The recipe. Each of its settings is an option."""
    realization: tuple[Realization, ...] = ("native",)
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
    checkpoint_every: int = 10
    """Epochs between checkpoints; after a minute, the next epoch writes one in any case."""
    test_every: int = 1
    """Epochs between tests of a classifier."""
    log: arguments.Log = None
    """Send the metrics there too, by the package of that name."""
    tensorboard: bool = False
    """The same as --log tensorboard."""


# Yields the records of runs, after their training and again with what follows.
Work = Callable[["torch.device", "Console"], Iterable[list[dict]]]


def train(options: Train) -> None:
    """Train the runs and append their records to ``records.jsonl``."""
    recipe = RECIPES[options.config.recipe]  # type: ignore[attr-defined]
    pkgutil.resolve_name(recipe.train)(options)


def train_folder(options: Train) -> None:
    """Train on own images."""
    from resultant.training import records

    train_images_of(options, TrainConfig(**vars(options.config)), options.image_set.open, records)


def train_images_of(
    options: Train,
    config: TrainConfig,
    open_images: Callable[..., ImageSplits],
    records: Any,
    evaluate: Callable[..., Iterator[list[dict]]] | None = None,
    columns: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Train on the images that ``open_images`` returns of a configuration."""
    from resultant.training.image_sets import resolved

    config = resolved(config)
    job = job_of(options, config)
    work = partial(_train_images, job, options, open_images, evaluate)
    run_training(options, work, records, columns)


def job_of(options: Train, config: TrainConfig, kind: Callable[..., Job] | None = None) -> Job:
    """Return the job of the options; its folder must be writable by the first process."""
    from resultant._core.files import require_writable_folder
    from resultant.training.job import Job

    if os.environ.get("RANK", "0") == "0":
        require_writable_folder(options.out)
    runs = grid(options.realization, options.beta, options.seeds)
    shared = {name: getattr(options, name) for name in ("checkpoint_every", "test_every")}
    shared["log"] = options.log or ("tensorboard" if options.tensorboard else None)
    return (kind or Job)(config, runs, options.out, **shared)


def run_training(
    options: Train, work: Work, records: Any, columns: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Do the work on the device, with the functions of a module ``records`` for its records, and
    print a table of them."""
    from resultant._core import distributed
    from resultant.cli.progress import PlainConsole
    from resultant.images.store import delete_stores

    path = options.out / "records.jsonl"
    records.read_lines(path)
    with distributed.processes(find_device(options.device)) as device:
        log = PlainConsole(stderr=True)
        log.quiet = distributed.rank() > 0
        made: dict[str, dict] = {}
        for batch in work(device, log):
            # Written before the evaluation, and run by run: a later failure loses none of them.
            made |= {record["run"]: record for record in batch}
            if not log.quiet:
                records.append(path, batch)
    if log.quiet:
        return
    if options.delete_store:
        delete_stores(options.store or options.out / "store")
    console = PlainConsole()
    console.print(accuracy_table(list(made.values()), columns or COLUMNS))
    console.print(f"records: {path}")


def whole_batch(config: TrainConfig, images: int, log: Console) -> TrainConfig:
    """Return the settings with the default batch size, or all images where they are fewer."""
    from resultant._core import distributed

    fitting = images - images % distributed.world_size()
    if config.batch_size <= images or config.batch_size != TrainConfig().batch_size or not fitting:
        return config
    log.print(f"batches of all {fitting} training images; --batch-size chooses fewer")
    return replace(config, batch_size=fitting)


def require_batch(config: TrainConfig, images: int) -> None:
    """Raise if a batch has more images than the training set."""
    if config.batch_size > images:
        rule = f"expected --batch-size of {images:,} or less, the number of training images"
        raise ValueError(f"{rule}, got {config.batch_size:,}")


def _train_images(
    job: Job,
    options: Train,
    open_images: Callable[..., ImageSplits],
    evaluate: Callable[..., Iterator[list[dict]]] | None,
    device: torch.device,
    log: Console,
) -> Iterator[list[dict]]:
    """Train one run after the other; yield its record, and with ``evaluate`` those that follow."""
    from resultant.training.image_sets import train_images

    data = open_images(job.config, options.workers, log)
    job = replace(job, config=whole_batch(job.config, len(data.train), log))
    require_batch(job.config, len(data.train))
    for run in job.runs:
        one = replace(job, runs=(run,), out=job.out / run.name)
        title = f"{job.config.dataset} {run.name}"
        with training(one, log, title) as progress:
            trained = train_images(
                one,
                data,
                device,
                options.workers,
                progress,
                progress.tick,
                store=options.store or options.out / "store",
                on_images=progress.decoding,
                note=partial(log.print, soft_wrap=True),
            )
        yield trained.records(len(data.train))
        if evaluate is not None:
            yield from evaluate(trained, data, options.workers, log, title)
        # The network is freed before the next run.
        trained = None


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


def grid(
    realizations: Sequence[str], betas: Sequence[float], seeds: Sequence[int]
) -> tuple[Run, ...]:
    """Return every realization with every beta and seed; native and cosine have no beta."""
    for name, values in (("realization", realizations), ("beta", betas), ("seeds", seeds)):
        if not values:
            raise ValueError(f"expected one or more values of --{name}, got none")
    runs = itertools.product(realizations, betas, seeds)
    every = (Run(r, 0.0 if r in WITHOUT_BETA else b, seed) for r, b, seed in runs)
    return tuple(dict.fromkeys(every))


# Columns of the table, and the paths of their numbers in a record.
COLUMNS = {
    "classifier": ["classifier/accuracy"],
    "head / medium / tail": [f"classifier/{group}" for group in ("head", "medium", "tail")],
}


def accuracy_table(records: Sequence[dict], paths: Mapping[str, Sequence[str]]) -> Table:
    """Return one line per run, with the columns that have numbers."""
    from rich.table import Table

    from resultant.cli.progress import percent

    cells = {
        name: [[_value(record, path) for path in own] for record in records]
        for name, own in paths.items()
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
