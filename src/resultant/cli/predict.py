"""``resultant predict``: the classes of new pictures or features, as a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, Optional

import tyro

from resultant.cli import arguments
from resultant.cli.arguments import find_device, shown_default

# Classes in the summary, and what columns of marks say.
SHOWN = 10
MARKS = {"trained_on": "that the network was trained on", "none_of_these": "that no class fits"}


@dataclass(frozen=True)
class Predict:
    """Predict the classes of new pictures, or of features.

    The model is a network that train has trained, the folder of tune, or the folder of analyze,
    whose classifier reads features, or pictures through the network of these features.

    Examples:
      resultant predict out/tune NEW_PICTURES --out predictions.parquet
      resultant predict out/analyze features.parquet
      resultant predict out/analyze NEW_PICTURES --model resnet50 --pretrained
    """

    path: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="MODEL")]]
    """A network, the folder of tune or analyze, or the classifier.safetensors of analyze."""
    data: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="DATA")]]
    """A picture, a folder of them, a list of paths, Parquet of images, or a file of features."""
    out: Path = Path("predictions.parquet")
    """The table to write: .parquet or .csv."""
    network: Annotated[Optional[Path], shown_default("PATH", "none")] = None
    """The network whose features a classifier reads, for pictures."""
    timm: arguments.NetworkOptions = field(default_factory=arguments.NetworkOptions)
    """A timm network in its place."""
    features: Annotated[Optional[str], shown_default("NAME", "those that fit")] = None
    """Array or column of the features, or the output of the network: encoder or projection."""
    identities: arguments.Labels = None
    """Column of a file of features that names the rows, if it has no usual name."""
    top: int = 5
    """Number of the most likely classes to report."""
    error: Annotated[Optional[float], shown_default("SHARE", "no sets")] = None
    """Also sets of classes, of a vMF classifier: the share of each class that its sets may miss."""
    images: Annotated[Optional[Path], shown_default("PATH", "the folder of the list")] = None
    """Folder that the paths of a list are relative to."""
    image_column: str = "image"
    """Parquet column of the images."""
    skip_broken: bool = False
    """Leave out and count broken or missing images; the default is an error."""
    precision: Literal["float32", "bf16"] = "float32"
    """Precision of the network; bf16 is several times faster on a GPU."""
    device: arguments.Device = "auto"
    """auto, cpu, mps, cuda or cuda:N."""
    workers: arguments.Workers = None
    """Number of threads that decode images."""


def predict(options: Predict) -> None:
    """Write the table, and print the classes that are predicted most."""
    from rich.table import Table

    from resultant._core.text import counted
    from resultant.cli.progress import EpochProgress, PlainConsole
    from resultant.training import predict as prediction
    from resultant.training.predictions import write_table

    if options.out.suffix not in (".parquet", ".csv"):
        raise ValueError(f"expected --out to end in .parquet or .csv, got {options.out}")
    device, log = find_device(options.device, mps=True), PlainConsole(stderr=True)
    network = options.timm.instead_of(options.network, log)
    feature = options.features if network is not None else None
    model = prediction.load_model(options.path, network, feature)
    arguments.require_output_file(options.out, options.path)
    with EpochProgress(log, "predictions", 1) as progress:
        table = prediction.predict(
            model,
            options.data,
            features=options.features,
            ids=options.identities,
            top=options.top,
            error=options.error,
            images=options.images,
            image_column=options.image_column,
            skip_broken=options.skip_broken,
            precision=options.precision,
            device=device,
            workers=options.workers,
            progress=lambda done, total: progress.tick(done / total),
        )
    write_table(table, options.out)
    console, counts = PlainConsole(), table["predicted"].value_counts().to_pylist()
    counts.sort(key=lambda entry: -entry["counts"])
    shown = Table("class", "rows", title=counted(len(table), "row", "rows"), title_justify="left")
    for entry in counts[:SHOWN]:
        shown.add_row(entry["values"], f"{entry['counts']:,}")
    if rest := counts[SHOWN:]:
        others = sum(entry["counts"] for entry in rest)
        shown.add_row(counted(len(rest), "other class", "other classes"), f"{others:,}")
    console.print(shown)
    for name, text in MARKS.items():
        if name in table.column_names and (number := sum(table[name].to_pylist())):
            console.print(f"{counted(number, 'row', 'rows')} {text} (column {name})")
    console.print(f"predictions: {options.out}")
