"""Options that commands share: of devices and paths, of features, and of images."""

# Optional: tyro imports typeguard, which takes .2 s, to check the default of X | None.

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from resultant._core.text import counted, listed

if TYPE_CHECKING:
    import torch
    from rich.console import Console

    from resultant.analysis.split import Settings
    from resultant.features.store import FeatureStore
    from resultant.images.source import ImageSplits
    from resultant.training.checkpoints import LoadedNetwork
    from resultant.training.config import TrainConfig

# The environment variable that names the folder of the datasets.
DATA_VARIABLE = "RESULTANT_DATA"
# The format of saved classifiers, in their metadata.
CLASSIFIER = "resultant.classifier"
# The path that stands for the standard input, and its file formats by their first bytes.
STDIN = "-"
# Metrics by the names of --metric.
METRICS = {"accuracy": "accuracy", "balanced": "balanced accuracy"}
MAGIC = {
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"PK\x03\x04": ".npz",
    b"\x93NUMPY": ".npy",
    b"\x89HDF": ".h5ad",
}


def shown_default(metavar: str, text: str) -> object:
    """Describe an option in the help whose default is None or empty."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=f"(default: {text})")


def one_of(*names: str) -> Any:
    """Describe an option of these names whose default is None, which tyro would list among the
    names of a Literal."""
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="NAME",
        instance_from_str=lambda words: words[0],
        is_instance=lambda value: value is None or value in names,
        str_from_instance=lambda value: [str(value)],
        choices=names,
    )


Data = Annotated[
    Optional[Path],
    shown_default("PATH", f"none; for recipes of the paper ${DATA_VARIABLE} or ./data"),
]
Labels = Annotated[Optional[str], shown_default("NAME", "inferred from the names")]
OptionalPath = Annotated[Optional[Path], shown_default("PATH", "none")]
Workers = Annotated[Optional[int], shown_default("INT", "one per core")]
Log = Annotated[
    Optional[str],
    one_of("tensorboard", "mlflow", "wandb"),
    shown_default("{tensorboard,mlflow,wandb}", "none"),
]
Device = Annotated[str, tyro.conf.arg(metavar="DEVICE")]


@dataclass(frozen=True, kw_only=True)
class FeatureOptions:
    """The features, their classifiers, and the report."""

    out: Path = Path("out/analyze")
    """Folder of the report; an earlier report is replaced, other files are left untouched."""
    features: Annotated[Optional[str], shown_default("NAME", "all")] = None
    """Array or column of the features."""
    labels: Labels = None
    """Array or column of the labels; for features in a .npy file, another .npy file."""
    identities: Labels = None
    """Array or column that identifies each row by an integer or a string."""
    groups: Annotated[Optional[str], shown_default("NAME", "none")] = None
    """Array or column whose equal values keep rows in one split and fold, such as a patient."""
    metric: Annotated[
        Optional[str], one_of(*METRICS), shown_default("NAME", "by the class sizes")
    ] = None
    """Metric that chooses: accuracy, or balanced, the mean of the accuracies of the classes."""
    seed: int = 0
    """Seed of the held-out rows and of the folds."""
    temperature: Annotated[Optional[float], shown_default("TAU", "chosen")] = None
    """Temperature tau of the scores; by default chosen on the validation rows."""
    time_limit: Annotated[Optional[float], shown_default("SECONDS", "none")] = None
    """Seconds of the search of vMF settings; the best so far is taken, and the page says so."""
    references: Literal["none", "fast", "all"] = "fast"
    """Classifiers of scikit-learn to compare with; fast fits very large ones to fewer rows."""
    estimator: Literal["mle", "proco", "banerjee", "corrected", "loo"] = "mle"
    """Estimator of the concentrations kappa from the lengths of the class means."""
    drop_zero_rows: bool = False
    """Leave out rows that are zero vectors, which have no direction."""
    skip_unlabelled: bool = False
    """Leave out rows without a label; predict reads them."""
    skip_unknown_classes: bool = False
    """Leave out validation and test rows whose class has no training row."""
    figures: bool = False
    """Also write each figure as PDF and PNG."""
    device: Device = "cpu"
    """cpu, cuda, cuda:N or auto."""
    json: OptionalPath = None
    """File for the summary as JSON; - prints it instead of the text."""
    quiet: bool = False
    """Print nothing but errors."""

    def check(self) -> None:
        """Raise if the report cannot be written, or --temperature has no scores."""
        import torch

        from resultant._core.files import require_writable_file, require_writable_folder
        from resultant.report.page import require_report_folder
        from resultant.score.limits import require_temperature

        require_report_folder(self.out)
        if self.json is not None and str(self.json) != STDIN:
            require_writable_folder(self.json.parent, "the folder of --json")
            require_writable_file(self.json)
        if self.time_limit is not None and not self.time_limit > 0:
            raise ValueError(f"expected --time-limit > 0, got {self.time_limit:g}")
        if self.temperature is not None:
            cpu, name = torch.device("cpu"), "--temperature"
            require_temperature(self.temperature, 1, cpu, True, dtype=torch.float32, name=name)

    def open(self, path: Any) -> FeatureStore:
        """Open the features of a path."""
        from resultant.features.store import FeatureStore

        names = "features", "labels", "identities", "groups"
        unlabelled = "skip" if self.skip_unlabelled else "refuse"
        chosen = {name: getattr(self, name) for name in names}
        return FeatureStore.open(path, **chosen, unlabelled=unlabelled)

    def settings(self) -> Settings:
        """Return the options of the analysis."""
        from resultant.analysis.split import Settings

        metric = None if self.metric is None else METRICS[self.metric]
        tau, device = self.temperature, find_device(self.device)
        return Settings(self.estimator, tau, self.references, metric, device, self.time_limit)

    def given(self) -> dict[str, Any]:
        """Return the options as JSON types."""
        kinds = (str, int, float, bool, type(None))
        return {k: v if isinstance(v, kinds) else str(v) for k, v in vars(self).items()}


@dataclass(frozen=True)
class ImageOptions:
    """The images: a folder, Parquet files, or lists."""

    data: Data = None
    """A folder of train/CLASS/*, val/CLASS/*, test/CLASS/*, or of CLASS/*, or Parquet files."""
    train_list: OptionalPath = None
    """List of training images: a line is "path label" or "path,class name"."""
    val_list: OptionalPath = None
    """List of validation images, for tuning settings."""
    test_list: OptionalPath = None
    """List of test images."""
    images: Annotated[Optional[Path], shown_default("PATH", "the folder of --data")] = None
    """Folder that the paths in the lists are relative to."""
    class_names: Annotated[Optional[Path], shown_default("PATH", "the folder's classes.tsv")] = None
    """Names of numbered classes: one per line, or columns label and name separated by tabs."""
    held_out: float = 0.2
    """Share of the images to hold out as test, if there are no held-out images; paths decide."""
    split_seed: int = 0
    """Seed of the hashes of the paths."""
    image_column: str = "image"
    """Parquet column of the images."""
    label_column: str = "label"
    """Parquet column of the labels."""
    skip_broken: bool = False
    """Leave out and count broken or missing images and empty classes; the default is an error."""
    allow_outside: bool = False
    """Let lists name absolute paths, and paths with "..", outside the folder of the images."""

    def source(self) -> dict[str, Any]:
        """Return the arguments of `resultant.images.opening.open_images`."""
        return dict(vars(self))

    def require_given(self) -> None:
        """Raise unless the options name images."""
        if self.data is None and self.train_list is None:
            raise ValueError("expected --data FOLDER, or --train-list and --images, got neither")

    def open(self, config: TrainConfig, workers: int | None, log: Console) -> ImageSplits:
        """Open the images of a configuration; print their numbers and the images left out."""
        from resultant.images.opening import open_images
        from resultant.training.image_sets import with_long_tail

        self.require_given()
        splits = open_images(**self.source(), workers=workers)
        return shown(
            with_long_tail(splits, config.long_tail, config.subset_seed), config.dataset, log
        )

    def open_for(
        self, network: LoadedNetwork, changes: dict[str, Any], workers: int | None, log: Console
    ) -> ImageSplits:
        """Open the images of a network; print their numbers and the images left out."""
        from resultant.training.extract import open_network_images
        from resultant.training.plugins import network_kind

        if network_kind(network.config.architecture) is None:
            self.require_given()
        splits = open_network_images(network, changes=changes, **self.source(), workers=workers)
        return shown(splits, network.config.dataset, log)

    def open_pictures(self, workers: int | None, log: Console) -> ImageSplits:
        """Open images without labels; print their number and the images left out."""
        from resultant.images.opening import open_pictures
        from resultant.images.source import ImageSplits, without_broken

        if self.data is None:
            raise ValueError("expected --data, a folder, a list or Parquet of images, got nothing")
        pictures = ImageSplits(open_pictures(self.data, self.images, self.image_column))
        if self.skip_broken:
            pictures = without_broken(pictures, workers)
        if names := pictures.skipped:
            log.print(f"skipped {len(names):,}: {listed(names, 5)}", soft_wrap=True)
        log.print(counted(len(pictures.train), "image", "images"))
        return pictures


@dataclass(frozen=True)
class NetworkOptions:
    """A timm network."""

    model: Annotated[Optional[str], shown_default("NAME", "none")] = None
    """A timm network, such as resnet50, hf_hub:timm/NAME, or local-dir:FOLDER."""
    pretrained: bool = False
    """Take the pretrained weights of timm for --model."""
    weights: OptionalPath = None
    """File of weights for --model: safetensors, or a .pth of tensors alone."""
    size: Annotated[Optional[int], shown_default("INT", "as the network expects")] = None
    """Height and width of the images for --model."""

    def open(
        self, path: Path | None, log: Console, changes: Mapping[str, Any] = MappingProxyType({})
    ) -> LoadedNetwork:
        """Load the network of a file, or else build that of --model with changed settings."""
        from resultant.training.checkpoints import load_network
        from resultant.training.config import TrainConfig
        from resultant.training.extract import timm_network
        from resultant.training.network_files import find_network

        if (path is None) == (self.model is None):
            got = "neither" if path is None else "both"
            raise ValueError(f"expected the file of a network or --model NAME, got {got}")
        if path is not None:
            for name in ("pretrained", "weights", "size"):
                if getattr(self, name):
                    raise ValueError(f"expected --{name} only with --model, got it with {path}")
            return load_network(find_network(path) or path)
        weights = None if self.weights is None else str(self.weights)
        config = TrainConfig(dataset="images", architecture=str(self.model), **changes)
        size = self.size or 0
        network = timm_network(config, weights=weights, pretrained=self.pretrained, size=size)
        if not self.pretrained and weights is None:
            log.print(f"{self.model} has random weights; --pretrained and --weights load others")
        return network

    def instead_of(self, network: Path | None, log: Console) -> Any:
        """Return the network of --model, or else the path of --network, if any."""
        if self.model is None:
            return network
        if network is not None:
            raise ValueError("expected --network or --model, got both")
        return self.open(None, log)


def shown(splits: ImageSplits, dataset: str, log: Console) -> ImageSplits:
    """Print the numbers of images and classes, and the images left out; return the splits."""
    if names := splits.skipped:
        log.print(f"skipped {len(names):,}: {listed(names, 5)}", soft_wrap=True)
    sizes = {"train": splits.train, **splits.held_out_splits}
    numbers = ", ".join(f"{len(source):,} {name}" for name, source in sizes.items())
    ends = sorted({int(splits.counts.min()), int(splits.counts.max())})
    number = counted(splits.num_classes, "class", "classes")
    classes = f"{number} of {' to '.join(f'{n:,}' for n in ends)}"
    log.print(f"{dataset}: {numbers} images, {classes} training images")
    return splits


def data_root(data: Path | None) -> Path:
    """Return the folder of the datasets, which must exist unless --data names it."""
    root = data if data is not None else Path(os.environ.get(DATA_VARIABLE, "data"))
    if not root.exists() and data is None:
        rule = f"expected datasets at --data, at ${DATA_VARIABLE} or in ./data"
        raise ValueError(f"{rule}, got nothing at {root.absolute()}")
    return root


def find_device(name: str, mps: bool = False) -> torch.device:
    """Return the device of a name; auto is a GPU if there is one, ``mps`` allows that of a Mac."""
    import torch

    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?" + "|mps" * mps, name):
        known = "auto, cpu, mps, cuda or cuda:N" if mps else "auto, cpu, cuda or cuda:N"
        raise ValueError(f"expected --device {known}, got {name!r}")
    if name == "mps" and not torch.backends.mps.is_available():
        raise ValueError("expected a Mac with a GPU for --device mps, got none")
    default = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(default if name == "auto" else name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"expected a CUDA device {name}, got {torch.cuda.device_count()} devices")
    return device


@contextmanager
def standard_input() -> Iterator[Path]:
    """Copy the standard input to a temporary file, whose suffix names its format."""
    data = sys.stdin.buffer.read()
    if not data:
        raise ValueError("expected a table on the standard input, got nothing")
    suffix = next((suffix for magic, suffix in MAGIC.items() if data.startswith(magic)), ".csv")
    if suffix == ".csv" and b"\t" in data.split(b"\n", 1)[0]:
        suffix = ".tsv"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"stdin{suffix}"
        path.write_bytes(data)
        yield path


def is_classifier(path: Path | str) -> bool:
    """Return True for a file of `VMFClassifier.save`, such as one of sums."""
    from resultant._core.tensor_files import read_metadata

    if Path(path).suffix != ".safetensors" or not Path(path).is_file():
        return False
    return str((read_metadata(path) or {}).get("format", "")).startswith(CLASSIFIER)


def refuse_classifier(path: Path | str) -> None:
    """Raise if a path where features are expected is a classifier."""
    if is_classifier(path):
        advice = "resultant predict reads it, with features"
        raise ValueError(f"expected features, got a classifier: {path}; {advice}")


def refuse_network(path: Path | str) -> None:
    """Raise if a path where features are expected holds networks."""
    from resultant.training.network_files import first_names, list_networks

    refuse_classifier(path)
    networks, features = list_networks(path)
    if not networks:
        return
    got = f"a network: {networks[0]}"
    if len(networks) > 1:
        got = f"{len(networks)} networks in the folder {path}: {first_names(networks, path)}"
    advice = "resultant extract writes the features of a network"
    if features:
        advice += f"; to read features, name their file: {first_names(features, path)}"
    raise ValueError(f"expected features, got {got}; {advice}")


def require_output_file(out: Path, source: Path | None = None) -> None:
    """Make the folder of a file; raise if it cannot be written, or is the source or a network."""
    from resultant._core.files import make_folder, require_writable_file, require_writable_folder
    from resultant.training.network_files import is_network

    if source is not None and out.exists() and source.exists() and out.samefile(source):
        raise ValueError(f"expected --out to differ from the input, got {out} for both")
    if is_network(out):
        raise ValueError(f"expected --out that is not a network, got the network {out}")
    require_writable_folder(out.parent)
    make_folder(out.parent)
    require_writable_file(out)
