"""``resultant extract``: the features of a trained network as a feature store."""

# Optional for a fast help, as in `resultant.cli.arguments`.
# ruff: noqa: UP045

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Optional

import tyro

from resultant.cli.arguments import (
    Data,
    Device,
    ListFolder,
    data_root,
    find_device,
    require_output_file,
    shown_default,
)
from resultant.training.config import WORKERS

if TYPE_CHECKING:
    from rich.table import Table

    from resultant.features.store import FeatureStore

HeldOut = Literal["val", "test"]
Split = Annotated[Optional[HeldOut], shown_default("{val,test}", "test, else val")]


@dataclass(frozen=True)
class Extract:
    """Write the Encoder and Projection features of a trained network as a feature store.

    Example:
      resultant extract native-seed0.safetensors --out x.safetensors
    """

    path: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="NETWORK")]]
    """RUN.safetensors of a training, or the output of import-proco."""
    out: Path
    """The feature store to write; the name must end in .safetensors."""
    data: Data = None
    """Folder of the datasets."""
    lists: ListFolder = None
    """Folder of image lists such as ImageNet_LT_train.txt."""
    images: ListFolder = None
    """Folder that the paths in the lists are relative to."""
    split: Split = None
    """The image list to hold out; the store calls it "test"."""
    balanced: bool = False
    """Use the whole CIFAR training set, not its long-tailed subset."""
    imbalance: Annotated[Optional[float], shown_default("FLOAT", "as in training")] = None
    """n_max / n_min of the CIFAR subset."""
    dtype: Literal["float16", "float32"] = "float16"
    """Type of the stored features."""
    device: Device = "auto"
    """auto, cpu, cuda or cuda:N."""
    workers: int = WORKERS
    """Number of processes that read image files."""


def extract(options: Extract) -> None:
    """Write the features of a network and print the contents of the store."""
    from resultant._core.network_files import find_network
    from resultant.cli.progress import EpochProgress, open_console
    from resultant.features.store import FeatureStore
    from resultant.training import extract as extraction

    device = find_device(options.device)
    network = extraction.load_network(find_network(options.path) or options.path)
    require_output_file(options.out, options.path)
    root, dataset = data_root(options.data), network.config.dataset
    data = extraction.load_data(
        dataset, options.lists or root, options.images or root, options.split
    )
    with EpochProgress(open_console(stderr=True), f"{dataset} features", 1) as progress:
        extraction.extract(
            network,
            data,
            options.out,
            balanced=options.balanced,
            imbalance=options.imbalance,
            dtype=options.dtype,
            device=device,
            workers=options.workers,
            progress=lambda done, total: progress.tick(done / total),
        )
    store, console = FeatureStore.open(options.out), open_console()
    console.print(contents(store))
    accuracies = store.metadata.get("classifier", {})
    if accuracies:
        text = ", ".join(f"{name} {100 * value:.3f} %" for name, value in accuracies.items())
        held_out = store.metadata["held_out"]
        console.print(f"classifier of the network on {held_out}: {text}", highlight=False)


def contents(store: FeatureStore) -> Table:
    """Return a table of the arrays of a store."""
    from rich.table import Table

    table = Table("array", "shape", "dtype", title=store.where, title_justify="left")
    for name in store:
        shape = " x ".join(str(n) for n in store[name].shape)
        table.add_row(name, shape, str(store[name].dtype).removeprefix("torch."))
    return table
