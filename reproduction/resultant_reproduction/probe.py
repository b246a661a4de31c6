"""``resultant probe``: linear probes on the features of a store."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from resultant.cli import arguments
from resultant_reproduction.recipes.config import ProbeConfig


@dataclass(frozen=True)
class Probe:
    """Fit a linear probe to each of the features of a store and test it.

    Example:
      resultant probe features.safetensors --out probes.json
    """

    store: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="STORE")]]
    """A feature store, as written by extract."""
    config: ProbeConfig = field(default_factory=ProbeConfig)
    """Training of the probes."""
    encoder: Literal["auto", "raw", "unit"] = "auto"
    """Length of the encoder features; auto follows the paper: raw for CIFAR, else unit."""
    device: arguments.Device = "auto"
    """auto, cpu, cuda or cuda:N."""
    out: arguments.OptionalPath = None
    """A JSON file for the accuracies."""


def probe(options: Probe) -> None:
    """Fit the probes and print their accuracies."""
    from rich.table import Table
    from torch.nn.functional import normalize

    from resultant._core import files
    from resultant.cli.progress import EpochProgress, PlainConsole, percent
    from resultant.features.store import FeatureStore
    from resultant_reproduction.recipes.probes import linear_probes, main_encoder

    device = arguments.find_device(options.device)
    arguments.refuse_network(options.store)
    if options.out is not None:
        arguments.require_output_file(options.out, options.store)
    store = FeatureStore.open(options.store)
    fitted = [n.removeprefix("train/") for n in store.features if n.startswith("train/")]
    test = "test" if "test" in store.splits else "val"
    names = [name for name in fitted if f"{test}/{name}" in store]
    if not names or not {"train/labels", f"{test}/labels"} <= set(store):
        rule = "expected features and labels of train and of test or val"
        raise ValueError(f"{rule}, got {', '.join(store)} in {options.store}")
    encoder: str = options.encoder
    if encoder == "auto":
        encoder = main_encoder(store.metadata.get("dataset"))
    elif "encoder" not in names:
        rule = f"expected features called encoder for --encoder {encoder}"
        raise ValueError(f"{rule}, got {', '.join(names)} in {options.store}")

    sides: list[Any] = []
    for split in ("train", test):
        features = {name: store[f"{split}/{name}"].to(device).float() for name in names}
        if encoder == "unit" and "encoder" in features:
            features["encoder"] = normalize(features["encoder"], dim=-1)
        sides += list(features.values()), store[f"{split}/labels"].to(device)
    x, y, q, labels = sides
    with EpochProgress(PlainConsole(stderr=True), "probes", 1) as progress:
        result: dict[str, Any] = linear_probes(
            x,
            y,
            q,
            labels,
            store.num_classes,
            options.config,
            counts=store.label_counts(),
            names=names,
            progress=lambda done, total: progress.tick(done / total),
        ).to_dict()
    columns = {"accuracy": result["accuracy"], **(result["groups"] or {})}
    table = Table("features", *columns)
    for i, name in enumerate(names):
        table.add_row(name, *(percent(column[i]) for column in columns.values()))
    PlainConsole().print(table)
    if options.out is not None:
        record = {
            "store": str(options.store),
            "metadata": store.metadata,
            "features": names,
            "test": test,
            "encoder": encoder if "encoder" in names else None,
            "probe": asdict(options.config),
            **result,
        }
        files.write_text(options.out, json.dumps(record, indent=1) + "\n")
