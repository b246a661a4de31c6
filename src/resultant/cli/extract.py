"""``resultant extract``: the features of a network as a feature store."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import tyro

from resultant.cli import arguments
from resultant.cli.arguments import find_device, shown_default

if TYPE_CHECKING:
    from rich.console import Console

    from resultant.images.source import ImageSplits
    from resultant.training.checkpoints import LoadedNetwork


@dataclass(frozen=True)
class Extract:
    """Write the features of a network as a feature store, ready for analyze.

    The network is a trained one, with its Encoder and Projection features, or any network of timm.

    Examples:
      resultant extract native-seed0.safetensors --out x.safetensors
      resultant extract --model resnet50 --pretrained --data FOLDER --out x.safetensors
    """

    out: Path
    """The feature store to write; the name must end in .safetensors."""
    path: tyro.conf.Positional[
        Annotated[Optional[Path], tyro.conf.arg(metavar="[NETWORK]", help_behavior_hint="")]
    ] = None
    """RUN.safetensors of a training."""
    network: arguments.NetworkOptions = field(default_factory=arguments.NetworkOptions)
    """A timm network."""
    image_set: arguments.ImageOptions = field(default_factory=arguments.ImageOptions)
    """The images."""
    long_tail: Annotated[Optional[float], shown_default("FLOAT", "as in training")] = None
    """n_max / n_min of a long-tailed subset of the training images; 1 for equal classes."""
    subset_seed: Annotated[Optional[int], shown_default("INT", "as in training")] = None
    """Seed that selects the images of the long-tailed subset."""
    split: Annotated[
        Optional[str], arguments.one_of("val", "test"), shown_default("{val,test}", "all")
    ] = None
    """The one held-out split to store."""
    labels: Annotated[bool, tyro.conf.arg(help_behavior_hint="(default: labels are read)")] = True
    """Take every image below a folder, a list of paths, or Parquet, without labels."""
    dtype: Literal["float16", "float32"] = "float16"
    """Type of the stored features."""
    precision: Literal["float32", "bf16"] = "float32"
    """Precision of the network; bf16 is several times faster on a GPU."""
    device: arguments.Device = "auto"
    """auto, cpu, mps, cuda or cuda:N."""
    workers: arguments.Workers = None
    """Number of threads that decode images."""


def extract(options: Extract) -> None:
    """Write the features of a network and print the contents of the store."""
    from rich.table import Table

    from resultant.cli.progress import EpochProgress, PlainConsole
    from resultant.features.store import FeatureStore
    from resultant.training import extract as extraction

    device, log = find_device(options.device, mps=True), PlainConsole(stderr=True)
    network, data = _open(options, log)
    if options.split is not None:
        data = extraction.keep_split(data, options.split)
    with EpochProgress(log, f"{network.config.dataset} features", 1) as progress:
        extraction.extract(
            network,
            data,
            options.out,
            dtype=options.dtype,
            precision=options.precision,
            device=device,
            workers=options.workers,
            progress=lambda done, total: progress.tick(done / total),
        )
    store, console = FeatureStore.open(options.out), PlainConsole()
    table = Table("array", "shape", "dtype", title=store.where, title_justify="left")
    for name in store:
        shape = " x ".join(map(str, store[name].shape))
        table.add_row(name, shape, str(store[name].dtype).removeprefix("torch."))
    console.print(table)
    if accuracies := store.metadata.get("classifier", {}):
        text = ", ".join(f"{name} {100 * value:.3f} %" for name, value in accuracies.items())
        console.print(f"classifier of the network on {store.metadata['held_out']}: {text}")


def _open(options: Extract, log: Console) -> tuple[LoadedNetwork, ImageSplits]:
    """Open the network and its images; all options are checked before any image is read."""
    from resultant._core.tensor_files import require_name

    require_name(options.out)
    values = {"long_tail": options.long_tail, "subset_seed": options.subset_seed}
    changes: dict[str, Any] = {name: v for name, v in values.items() if v is not None}
    # The network first: a wrong name or file is found before the images are.
    network = options.network.open(options.path, log, changes)
    arguments.require_output_file(options.out, options.path or options.out.parent)
    if options.labels:
        return network, options.image_set.open_for(network, changes, options.workers, log)
    return network, options.image_set.open_pictures(options.workers, log)
