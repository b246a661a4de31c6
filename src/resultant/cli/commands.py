"""The commands of training: ``train``, ``extract``, ``probe`` and ``import-proco``."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from resultant._core import distributed, files
from resultant._core.files import require_writable_folder
from resultant._core.network_files import CHECKPOINT, find_network
from resultant.cli.arguments import data_root, destination, find_device, refuse_network
from resultant.cli.options import Extract, ImportProco, Probe, Train
from resultant.cli.progress import Watch, terminal
from resultant.features.store import FeatureStore
from resultant.images.cifar import Cifar, load_cifar
from resultant.training.cifar import train_cifar
from resultant.training.config import CIFAR, WITHOUT_BETA, Run, TrainConfig
from resultant.training.evaluation import base_records, evaluate_cifar
from resultant.training.extract import extract as write_features
from resultant.training.extract import load_data, load_network
from resultant.training.image_sets import ListedImages, load_images, train_images
from resultant.training.job import Job
from resultant.training.probe import linear_probes, main_encoder
from resultant.training.proco_checkpoint import CIFAR_IMAGES, RECIPES, convert
from resultant.training.records import append, read_lines


def train(options: Train) -> None:
    """Train the runs, evaluate them, and leave their records."""
    config, out = options.config, options.out
    # Of several processes the first alone writes.
    if os.environ.get("RANK", "0") == "0":
        require_writable_folder(out)
    read_lines(out / "records.jsonl")
    runs = grid(options.realization, options.beta, options.seeds)
    root, console, aside = data_root(options.data), terminal(), terminal(stderr=True)
    job = Job(
        config,
        runs,
        out,
        checkpoint_every=options.checkpoint_every,
        test_every=options.test_every,
        gradient_epochs=options.gradient_epochs,
        stack=options.stack,
        tensorboard=options.tensorboard,
    )
    with distributed.processes(find_device(options.device)) as place:
        if config.dataset in CIFAR:
            if distributed.world_size() > 1:
                rule = "expected one process for CIFAR (its runs go side by side)"
                raise ValueError(f"{rule}, got {distributed.world_size()}")
            images = load_cifar(config.dataset, root, options.download)
            if len(images.train_labels) != CIFAR_IMAGES:
                here = f"{config.dataset} in {root} has {len(images.train_labels):,}"
                aside.print(f"{here} training images, usually {CIFAR_IMAGES:,}", soft_wrap=True)
            found = [_cifar(job, images, place, aside, options.evaluate)]
        else:
            listed = load_images(config.dataset, options.lists or root, options.images or root)
            each = (replace(job, runs=(run,), out=out / run.name) for run in job.runs)
            require_batch(config, len(listed.train))
            found = (_listed(one, listed, place, aside, options.workers) for one in each)
        records = []
        for made in found:
            # As soon as they are there: a run that fails takes none of those before it along.
            records += made
            if distributed.rank() == 0:
                append(out / "records.jsonl", made)
        if distributed.rank() == 0:
            console.print(accuracy_table(records))
            console.print(f"records: {out / 'records.jsonl'}", highlight=False)


def require_batch(config: TrainConfig, images: int) -> None:
    """Raise unless there are so many training images as a step takes."""
    if config.batch_size > images:
        rule = f"expected --batch-size of {images:,} or less, the number of training images"
        raise ValueError(f"{rule}, got {config.batch_size:,}")


def _cifar(
    job: Job, data: Cifar, device: torch.device, aside: Console, evaluate: bool
) -> list[dict]:
    config, number = job.config, len(job.runs)
    title = f"{config.dataset}, {number} run{'s' * (number > 1)}"
    members = len(data.members(config.imbalance, config.subset))
    require_batch(config, members)
    aside.print(
        f"{title}: {members:,} images, {config.views} views, {config.epochs} epochs on {device}",
        highlight=False,
    )
    with stopped(job.out, aside), Watch(aside, title, config.epochs) as watch:
        done = train_cifar(job, data, device, watch, on_step=watch.tick)
    if evaluate:
        if not data.whole:
            there = f"{len(data.held_images):,} of {len(data.train_labels):,} training images"
            aside.print(f"no probes of the balanced set: {there} are there", highlight=False)
        if not aside.is_terminal:
            aside.print(f"{title}: probes and frozen rules", highlight=False)
        with aside.status("probes and frozen rules"):
            return evaluate_cifar(done, data)
    return base_records(done, members)


def _listed(
    job: Job, data: ListedImages, device: torch.device, aside: Console, workers: int
) -> list[dict]:
    """The record of the one run of a job; its network and loaders go before the next has any."""
    title, quiet = f"{job.config.dataset} {job.runs[0].name}", distributed.rank() > 0
    with (
        stopped(job.out, aside, quiet),
        Watch(aside, title, job.config.epochs, quiet=quiet) as watch,
    ):
        done = train_images(job, data, device, workers, watch, watch.tick)
    return base_records(done, len(data.train))


@contextmanager
def stopped(out: Path, aside: Console, quiet: bool = False) -> Iterator[None]:
    """Says, where a training is interrupted, what is kept of it."""
    try:
        yield
    except KeyboardInterrupt:
        if not quiet:
            saved = out / CHECKPOINT
            kept = f"the same call goes on from {saved}" if saved.exists() else "nothing is kept"
            aside.print(f"stopped: {kept}", highlight=False)
        raise


def extract(options: Extract) -> None:
    """Write the features of a network, and say what was written."""
    place = find_device(options.device)
    loaded = load_network(find_network(options.path) or options.path)
    destination(options.out, options.path)
    root, dataset = data_root(options.data), loaded.config.dataset
    found = load_data(dataset, options.lists or root, options.images or root, options.split)
    with Watch(terminal(stderr=True), f"{dataset} features", 1) as watch:
        write_features(
            loaded,
            found,
            options.out,
            balanced=options.balanced,
            imbalance=options.imbalance,
            dtype=options.dtype,
            device=place,
            workers=options.workers,
            progress=lambda done, of: watch.tick(done / of),
        )
    store, console = FeatureStore.open(options.out), terminal()
    console.print(_contents(store))
    reached = store.metadata.get("classifier", {})
    if reached:
        told = ", ".join(f"{name} {100 * value:.3f} %" for name, value in reached.items())
        console.print(f"its classifier on {store.metadata['held_out']}: {told}", highlight=False)


def probe(options: Probe) -> None:
    """Fit the probes and tell what they reach."""
    place = find_device(options.device)
    refuse_network(options.store)
    if options.out is not None:
        destination(options.out, options.store)
    opened = FeatureStore.open(options.store)
    names = [
        name.removeprefix("train/")
        for name in opened.features
        if name.startswith("train/") and f"test/{name.removeprefix('train/')}" in opened
    ]
    if not names or not {"train/labels", "test/labels"} <= set(opened):
        rule = "expected features and labels of train and test"
        raise ValueError(f"{rule}, got {', '.join(opened)} in {options.store}")
    form = options.encoder
    if form == "auto":
        form = main_encoder(opened.metadata.get("dataset"))
    elif "encoder" not in names:
        rule = f"expected features encoder for --encoder {form}"
        raise ValueError(f"{rule}, got {', '.join(names)} in {options.store}")

    def read(split: str) -> list[torch.Tensor]:
        found = {name: opened[f"{split}/{name}"].to(place).float() for name in names}
        if form == "unit" and "encoder" in found:
            found["encoder"] = torch.nn.functional.normalize(found["encoder"], dim=-1)
        return list(found.values())

    with Watch(terminal(stderr=True), "probes", 1) as watch:
        result = linear_probes(
            read("train"),
            opened["train/labels"].to(place),
            read("test"),
            opened["test/labels"].to(place),
            opened.num_classes,
            options.config,
            counts=opened.label_counts(),
            names=names,
            progress=lambda done, of: watch.tick(done / of),
        ).to_dict()
    groups: Any = result["groups"] or {}
    shown = Table("features", "accuracy", *groups)
    for i, name in enumerate(names):
        values = (result["accuracy"], *groups.values())
        shown.add_row(name, *(percent(each[i]) for each in values))  # type: ignore[index]
    terminal().print(shown)
    if options.out is not None:
        about = {
            "store": str(options.store),
            "metadata": opened.metadata,
            "features": names,
            "encoder": form if "encoder" in names else None,
            "probe": asdict(options.config),
            **result,
        }
        files.write_text(options.out, json.dumps(about, indent=1) + "\n")


def import_proco(options: ImportProco) -> None:
    """Convert a checkpoint and say what is in it."""
    out = options.out
    if out.suffix != ".safetensors":
        raise ValueError(f"expected a name that ends in .safetensors, got {out}")
    destination(out, options.path)
    read = convert(options.path, out)
    _, dataset = RECIPES[read.num_classes]
    imbalance = "unknown: to extract, give --imbalance or --balanced"
    if read.imbalance is not None:
        imbalance = f"{read.imbalance:g}, by the counts of a bank"
    shown = Table(title=str(out), title_justify="left", show_header=False)
    number = sum(a.numel() for name, a in read.weights.items() if "num_batches" not in name)
    best = "unknown" if read.best_accuracy is None else f"{read.best_accuracy:.2f} %"
    banks = {"old": read.old, "new": read.new}
    for name, value in {
        "network": f"{read.arch}, {read.classifier} classifier",
        "classes": read.num_classes,
        "data set": dataset,
        **({"imbalance": imbalance} if dataset in CIFAR else {}),
        "dimension": read.dim,
        "weights": f"{number:,}",
        "epoch": "unknown" if read.epoch is None else read.epoch,
        "best accuracy": best,
        **{
            f"bank {name}": "none" if bank is None else f"{int(bank.count.sum()):,} samples"
            for name, bank in banks.items()
        },
    }.items():
        shown.add_row(name, str(value))
    terminal().print(shown)


def grid(
    realizations: Sequence[str], betas: Sequence[float], seeds: Sequence[int]
) -> tuple[Run, ...]:
    """Every realization with every beta and seed; native and cosine have no beta."""
    for name, values in (("realization", realizations), ("beta", betas), ("seeds", seeds)):
        if not values:
            raise ValueError(f"expected one or more values of {name}, got none")
    runs = [
        Run(realization, 0.0 if realization in WITHOUT_BETA else beta, seed)
        for realization, beta, seed in itertools.product(realizations, betas, seeds)
    ]
    return tuple(dict.fromkeys(runs))


# Columns of the table and where their numbers stand in a record; E encoder, P projection.
COLUMNS = {
    "classifier": ["last accuracy"],
    "head / medium / tail": ["last head", "last medium", "last tail"],
    "long-tail probe E / P": [
        "probes long_tail encoder accuracy",
        "probes long_tail projection accuracy",
    ],
    "balanced probe E / P": [
        "probes balanced encoder accuracy",
        "probes balanced projection accuracy",
    ],
    "P: vMF / cosine / angular": [
        "frozen projection proco native",
        "frozen projection proco cosine",
        "frozen projection proco angular",
    ],
}


def accuracy_table(records: Sequence[dict]) -> Table:
    """A line a run: the classifier, and the probes and frozen rules where there are any."""
    cells = {
        name: [[_at(record, path.split()) for path in paths] for record in records]
        for name, paths in COLUMNS.items()
    }
    taken = [name for name in cells if any(v is not None for row in cells[name] for v in row)]
    title = "accuracy in percent" if taken else "after the last epoch"
    shown = Table("run", "loss", *taken, title=title, title_justify="left")
    for column in shown.columns:
        # A narrow terminal folds, and loses no digit.
        column.overflow, column.min_width = "fold", len("81.00")
    shown.columns[1].min_width = len("1.2345")
    for i, record in enumerate(records):
        loss = record["last"].get("loss")
        values = [" / ".join(percent(v) for v in cells[name][i]) for name in taken]
        shown.add_row(record["run"], "" if loss is None else f"{loss:.4f}", *values)
    return shown


def _at(record: Any, path: Sequence[str]) -> float | None:
    for name in path:
        record = record.get(name) if isinstance(record, dict) else None
    return record


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f}"


def _contents(store: FeatureStore) -> Table:
    shown = Table("array", "shape", "dtype", title=store.where, title_justify="left")
    for name in store:
        shape = " x ".join(str(n) for n in store[name].shape)
        shown.add_row(name, shape, str(store[name].dtype).removeprefix("torch."))
    return shown
