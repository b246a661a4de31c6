"""The commands of training: ``train``, ``extract``, ``probe`` and ``import-proco``."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
import tyro
from rich.console import Console
from rich.table import Table

from resultant import _ranks, checkpoint
from resultant.data.cifar import Cifar, load_cifar
from resultant.data.longtail import long_tail_indices
from resultant.data.store import FeatureStore
from resultant.evaluation import base_records, evaluate_cifar
from resultant.extract import extract as write_features
from resultant.extract import load_data, load_network
from resultant.presets import CIFAR, PRESETS, Run, TrainConfig
from resultant.probe import ProbeConfig, linear_probes
from resultant.proco_checkpoint import convert
from resultant.train import STACK, Job, train_cifar
from resultant.train_images import WORKERS, load_images, train_images
from resultant.watch import Watch

PRESET_HELP = {
    "cifar-controlled": "the paper's controlled comparison: two views, cosine schedule",
    "cifar-official": "ProCo's public recipe for CIFAR: joint training, three views, steps",
    "imagenet-lt": "ProCo's public recipe for ImageNet-LT",
    "inaturalist18": "ProCo's public recipe for iNaturalist 2018",
}

if TYPE_CHECKING:
    Preset = TrainConfig
else:
    Preset = tyro.extras.subcommand_type_from_defaults(PRESETS, PRESET_HELP)

RealizationName = Literal["native", "temperature", "preserve", "angular", "cosine"]

# Where the data sets are, unless --data says.
VARIABLE = "RESULTANT_DATA"

WIDTH = 140


@tyro.conf.configure(
    tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes, tyro.conf.CascadeSubcommandArgs
)
def train(
    config: Preset,
    realization: tuple[RealizationName, ...] = ("native",),
    beta: tuple[float, ...] = (0.0,),
    seeds: tuple[int, ...] = (0,),
    data: Path | None = None,
    lists: Path | None = None,
    images: Path | None = None,
    out: Path = Path("out/train"),
    device: str = "auto",
    workers: int = WORKERS,
    stack: int = STACK,
    checkpoint_every: int = 10,
    test_every: int = 1,
    gradient_epochs: tuple[int, ...] = (),
    tensorboard: bool = False,
    download: bool = False,
    evaluate: bool = True,
) -> None:
    """Train networks and say what they are worth.

    Every realization with every beta and every seed is a run; on CIFAR they are trained side by
    side. A job that was interrupted continues from its checkpoint. Under torchrun the images of a
    step are shared out over the processes (listed images only).

    Args:
        config: the recipe, and every setting of it as an option.
        realization: how target gains enter the scores.
        beta: how much of the gains' differences is kept; nothing to native and cosine.
        seeds: of weights, batches and augmentations.
        data: folder of CIFAR in any of its forms; default $RESULTANT_DATA, else ./data.
        lists: folder of ImageNet_LT_train.txt and the like; default that of --data.
        images: folder that the paths of the lists start from; default that of --data.
        out: folder for metrics, checkpoints, networks and records.jsonl.
        device: auto, cpu, cuda or cuda:N.
        workers: processes that read image files.
        stack: runs that are trained as one network.
        checkpoint_every: epochs between checkpoints.
        test_every: epochs between tests of a classifier.
        gradient_epochs: epochs after which leading and exact gradients are compared.
        tensorboard: write the metrics for TensorBoard too.
        download: fetch CIFAR first.
        evaluate: fit probes and frozen rules at the end (CIFAR).
    """
    folder(out)
    read_records(out / "records.jsonl")
    runs = grid(realization, beta, seeds)
    for epoch in gradient_epochs:
        if not 1 <= epoch <= config.epochs:
            raise ValueError(f"expected gradient epochs in [1, {config.epochs}], got {epoch}")
    root, console = data_root(data), terminal()
    job = Job(config, runs, out, checkpoint_every, test_every, gradient_epochs, stack, tensorboard)
    with _ranks.processes(find_device(device)) as place:
        if config.dataset in CIFAR:
            if _ranks.world_size() > 1:
                rule = "expected one process for CIFAR (its runs go side by side)"
                raise ValueError(f"{rule}, got {_ranks.world_size()}")
            records = _cifar(
                job, load_cifar(config.dataset, root, download), place, console, evaluate
            )
        else:
            listed = load_images(config.dataset, lists or root, images or root)
            records = []
            for run in job.runs:
                one = replace(job, runs=(run,), out=out / run.name)
                title = f"{config.dataset} {run.name}"
                with Watch(console, title, config.epochs, quiet=_ranks.rank() > 0) as watch:
                    done = train_images(one, listed, place, workers, watch, watch.tick)
                records += base_records(done, len(listed.train))
        if _ranks.rank() == 0:
            add_records(out / "records.jsonl", records)
            console.print(accuracies(records))
            console.print(f"records: {out / 'records.jsonl'}", highlight=False)


def _cifar(
    job: Job, data: Cifar, device: torch.device, console: Console, evaluate: bool
) -> list[dict]:
    title = f"{job.config.dataset}, {len(job.runs)} run{'s' * (len(job.runs) > 1)}"
    with Watch(console, title, job.config.epochs) as watch:
        done = train_cifar(job, data, device, watch)
    if evaluate:
        if not data.whole:
            there = f"{len(data.held_images):,} of {len(data.train_labels):,} training images"
            console.print(f"no probes of the balanced set: {there} are there", highlight=False)
        with console.status("probes and frozen rules"):
            return evaluate_cifar(done, data)
    subset = long_tail_indices(data.train_labels, data.num_classes, job.config.imbalance)
    return base_records(done, len(subset))


def extract(
    path: tyro.conf.Positional[Path],
    out: Path,
    data: Path | None = None,
    lists: Path | None = None,
    images: Path | None = None,
    balanced: bool = False,
    imbalance: float | None = None,
    dtype: Literal["float16", "float32"] = "float16",
    device: str = "auto",
    workers: int = WORKERS,
) -> None:
    """Write the Encoder and Projection features of a trained network as a feature store.

    Args:
        path: RUN.safetensors of a training, or what import-proco wrote.
        out: the store, a name that ends in .safetensors.
        data: folder of CIFAR in any of its forms; default $RESULTANT_DATA, else ./data.
        lists: folder of ImageNet_LT_train.txt and the like; default that of --data.
        images: folder that the paths of the lists start from; default that of --data.
        balanced: the whole CIFAR training set, not its long-tailed subset.
        imbalance: of the CIFAR subset, if not that of the run.
        dtype: of the stored features.
        device: auto, cpu, cuda or cuda:N.
        workers: processes that read image files.
    """
    place, root, console = find_device(device), data_root(data), terminal()
    loaded = load_network(path)
    dataset = loaded.config.dataset
    found = load_data(dataset, lists or root, images or root)
    with Watch(console, f"{dataset} features", 1) as watch:
        write_features(
            loaded,
            found,
            out,
            balanced=balanced,
            imbalance=imbalance,
            dtype=dtype,
            device=place,
            workers=workers,
            progress=lambda done, of: watch.tick(done / of),
        )
    console.print(_contents(FeatureStore.open(out)))


def probe(
    store: tyro.conf.Positional[Path],
    config: tyro.conf.OmitArgPrefixes[ProbeConfig] = ProbeConfig(),  # noqa: B008 (frozen)
    device: str = "auto",
    out: Path | None = None,
) -> None:
    """Fit a linear probe to each of the features of a store and test it.

    Args:
        store: a feature store, as extract writes them.
        config: how the probes are trained.
        device: auto, cpu, cuda or cuda:N.
        out: a file for the accuracies, JSON.
    """
    place, console = find_device(device), terminal()
    opened = FeatureStore.open(store)
    names = [
        name.removeprefix("train/")
        for name in opened.features
        if name.startswith("train/") and name.replace("train/", "test/") in opened
    ]
    if not names or not {"train/labels", "test/labels"} <= set(opened):
        rule = "expected features and labels of train and test"
        raise ValueError(f"{rule}, got {', '.join(opened)} in {store}")
    with Watch(console, "probes", 1) as watch:
        result = linear_probes(
            [opened[f"train/{name}"].to(place).float() for name in names],
            opened["train/labels"].to(place),
            [opened[f"test/{name}"].to(place).float() for name in names],
            opened["test/labels"].to(place),
            opened.num_classes,
            config,
            counts=opened.label_counts(),
            progress=lambda done, of: watch.tick(done / of),
        ).to_dict()
    groups: Any = result["groups"]
    shown = Table("features", "accuracy", *groups)
    for i, name in enumerate(names):
        values = (result["accuracy"], *groups.values())
        shown.add_row(name, *(percent(each[i]) for each in values))  # type: ignore[index]
    console.print(shown)
    if out is not None:
        about = {"store": str(store), "metadata": opened.metadata, "features": names, **result}
        checkpoint.write_text(out, json.dumps(about, indent=1) + "\n")


def import_proco(path: tyro.conf.Positional[Path], out: tyro.conf.Positional[Path]) -> None:
    """Convert a checkpoint of ProCo's authors to safetensors, without running what it holds.

    Args:
        path: their ckpt.pth.tar.
        out: the file to write, a name that ends in .safetensors.
    """
    if out.suffix != ".safetensors":
        raise ValueError(f"expected a name that ends in .safetensors, got {out}")
    read = convert(path, out)
    shown = Table(title=str(out), title_justify="left", show_header=False)
    number = sum(a.numel() for name, a in read.weights.items() if "num_batches" not in name)
    best = "unknown" if read.best_accuracy is None else f"{read.best_accuracy:.2f} %"
    banks = {"old": read.old, "new": read.new}
    for name, value in {
        "network": f"{read.arch}, {read.classifier} classifier",
        "classes": read.num_classes,
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


def terminal() -> Console:
    """Where to print; a file has no width, and gets lines that are long enough for a table."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH)


def grid(
    realizations: Sequence[str], betas: Sequence[float], seeds: Sequence[int]
) -> tuple[Run, ...]:
    """Every realization with every beta and seed; native and cosine have no beta."""
    for name, values in (("realization", realizations), ("beta", betas), ("seeds", seeds)):
        if not values:
            raise ValueError(f"expected one or more values of {name}, got none")
    runs = [
        Run(realization, 0.0 if realization in ("native", "cosine") else beta, seed)
        for realization, beta, seed in itertools.product(realizations, betas, seeds)
    ]
    return tuple(dict.fromkeys(runs))


def data_root(data: Path | None) -> Path:
    """Where data sets are looked for; it must be there."""
    root = data if data is not None else Path(os.environ.get(VARIABLE, "data"))
    if not root.exists() and data is None:
        rule = f"expected data sets at --data, at ${VARIABLE} or in ./data"
        raise ValueError(f"{rule}, got nothing at {root.absolute()}")
    return root


def find_device(name: str) -> torch.device:
    """The device of a name; auto is a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ValueError(f"expected --device auto, cpu, cuda or cuda:N, got {name!r}")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"expected a CUDA device {name}, got {torch.cuda.device_count()} devices")
    return device


def folder(out: Path) -> None:
    """Raise if ``out`` cannot be a folder."""
    for part in (out, *out.parents):
        if part.exists():
            if not part.is_dir():
                raise ValueError(f"expected --out to be a folder, got a file: {part}")
            return


def read_records(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of records; none if there is no file."""
    found = []
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else (), start=1):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise ValueError(f"expected a JSON object at {path}:{number}, got {line[:80]!r}")
        found.append(record)
    return found


def add_records(path: Path, records: Sequence[dict[str, Any]]) -> None:
    """Append to a file of records; one of the same run and settings is replaced."""

    def same(record: dict[str, Any]) -> tuple[Any, Any]:
        return record.get("run"), record.get("config")

    # As they will be read: without tuples.
    new = json.loads(json.dumps(list(records)))
    taken = [same(record) for record in new]
    kept = [record for record in read_records(path) if same(record) not in taken]
    checkpoint.write_text(path, "".join(json.dumps(record) + "\n" for record in kept + new))


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


def accuracies(records: Sequence[dict]) -> Table:
    """A line a run: the classifier, and the probes and frozen rules where there are any."""
    cells = {
        name: [[_at(record, path.split()) for path in paths] for record in records]
        for name, paths in COLUMNS.items()
    }
    taken = [name for name in cells if any(v is not None for row in cells[name] for v in row)]
    shown = Table("run", "loss", *taken, title="accuracy in percent", title_justify="left")
    for column in shown.columns:
        column.no_wrap = True
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
