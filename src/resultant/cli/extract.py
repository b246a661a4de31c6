"""``resultant extract``: the features of a network as a feature store."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import tyro

from resultant.cli import arguments
from resultant.cli.arguments import find_device, shown_default
from resultant.training.config import TrainConfig

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
    """RUN.safetensors of a training, or the output of import-proco."""
    model: Annotated[Optional[str], shown_default("NAME", "none")] = None
    """A timm network instead, such as resnet50 or vit_small_patch16_224."""
    pretrained: bool = False
    """Take the pretrained weights of timm for --model."""
    weights: arguments.OptionalPath = None
    """File of weights for --model: safetensors, or a .pth of tensors alone."""
    size: Annotated[Optional[int], shown_default("INT", "as the network expects")] = None
    """Height and width of the images for --model."""
    image_set: arguments.ImageOptions = field(default_factory=arguments.ImageOptions)
    """The images."""
    long_tail: Annotated[Optional[float], shown_default("FLOAT", "as in training")] = None
    """n_max / n_min of a long-tailed subset of the training images; 1 for equal classes."""
    subset_seed: Annotated[Optional[int], shown_default("INT", "as in training")] = None
    """Seed that selects the images of the long-tailed subset."""
    split: Annotated[Optional[Literal["val", "test"]], shown_default("{val,test}", "all")] = None
    """The one held-out split to store."""
    dtype: Literal["float16", "float32"] = "float16"
    """Type of the stored features."""
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
    from resultant.training import extract as extraction
    from resultant.training.checkpoints import load_network
    from resultant.training.network_files import find_network

    require_name(options.out)
    values = {"long_tail": options.long_tail, "subset_seed": options.subset_seed}
    changes: dict[str, Any] = {name: v for name, v in values.items() if v is not None}
    if options.path is None and options.model is not None:
        arguments.require_output_file(options.out, options.out.parent)
        weights = None if options.weights is None else str(options.weights)
        config = TrainConfig(dataset="images", architecture=options.model, **changes)
        # The network first: a wrong name or file is found before the images are.
        network = extraction.timm_network(
            config, pretrained=options.pretrained, weights=weights, size=options.size or 0
        )
        if not options.pretrained and weights is None:
            log.print(f"{options.model} has random weights; --pretrained and --weights load others")
        return network, options.image_set.open_for(network, changes, options.workers, log)
    if options.path is None or options.model is not None:
        got = "neither" if options.path is None else "both"
        raise ValueError(f"expected the file of a network or --model NAME, got {got}")
    for name in ("pretrained", "weights", "size"):
        if getattr(options, name):
            raise ValueError(f"expected --{name} only with --model, got it with {options.path}")
    network = load_network(find_network(options.path) or options.path)
    arguments.require_output_file(options.out, options.path)
    return network, options.image_set.open_for(network, changes, options.workers, log)
