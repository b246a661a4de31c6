"""What each command of ``resultant`` takes: a dataclass a command, whose docstrings are its help.

Torch is not loaded here, so that help and complaints about options come at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from resultant.training.config import (
    PRESETS,
    RESULTS,
    STACK,
    VARIABLE,
    WORKERS,
    Estimator,
    ProbeConfig,
    TrainConfig,
)

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
Engine = Literal["local", "ray"]
Dtype = Literal["float16", "float32"]
HeldOut = Literal["val", "test"]
EncoderForm = Literal["auto", "raw", "unit"]


def _default(metavar: str, text: str) -> object:
    """How an option is shown whose default is None or empty."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=f"(default: {text})")


Data = Annotated[Path | None, _default("PATH", f"${VARIABLE}, else ./data")]
Beside = Annotated[Path | None, _default("PATH", "that of --data")]
Column = Annotated[str | None, _default("NAME", "all")]
Labels = Annotated[str | None, _default("NAME", "told by its name")]
Device = Annotated[str, tyro.conf.arg(metavar="DEVICE")]
Split = Annotated[HeldOut | None, _default("{val,test}", "test, or val where there is no test")]


@dataclass(frozen=True)
class Verify:
    """Check the claims of the paper: a table, verify.json and figures.

    A claim that does not hold is a finding, told in the table; with --strict the exit status is
    then 1.

    Example:
      resultant verify --only leading-gain failure-state
    """

    out: Path = Path("out/verify")
    """Folder for verify.json and the figures (PDF and PNG), new or of an earlier call."""
    only: Annotated[tuple[str, ...], _default("NAME ...", "all")] = ()
    """Checks to run, by the names that the table gives them."""
    figures: bool = True
    """Draw the figures."""
    strict: bool = False
    """Exit with 1 unless every claim holds."""


@dataclass(frozen=True)
class Analyze:
    """Ask everything of frozen features: which realization and beta to use, and why.

    Ten lines here, and a folder with index.html, results.json, figures and tables. FEATURES is a
    file (.safetensors, .npz, .npy or .parquet) or a folder of such; without it, features that come
    with the package are analysed. With --engine ray it is a folder of Parquet files or a pattern,
    and the work is done on the cluster of RAY_ADDRESS, or on one of this machine's CPUs. Labels of
    a single other.npy are in other_labels.npy beside it, or else in labels.npy.

    Examples:
      resultant analyze features.safetensors
      resultant analyze 'features/*.parquet' --engine ray
    """

    # Not a path: it may be a URL or a pattern.
    path: tyro.conf.Positional[
        Annotated[str | None, _default("[FEATURES]", "those of the package")]
    ] = None
    """Features and labels of training rows, and of held-out ones if there are any."""
    out: Path = Path("out/analyze")
    """The folder to write; an earlier report there is replaced."""
    features: Column = None
    """The array or Parquet column of features."""
    labels: Labels = None
    """The array or Parquet column of labels, or the .npy of them beside a single .npy."""
    temperature: float = 0.1
    """The shared temperature tau of the scores."""
    estimator: Estimator = "mle"
    """How concentrations are estimated from the lengths of class means."""
    fitting_share: Annotated[float | None, _default("SHARE", "all")] = None
    """Share of each class's training rows to fit, such as 0.8; losses and gradients are compared on
    the others, which are for calibration."""
    drop_zero_rows: bool = False
    """Leave out rows that are zero vectors, which have no direction."""
    engine: Engine = "local"
    """Where the work is done: in this process, or by Ray."""
    device: Device = "cpu"
    """cpu, cuda, cuda:N, or auto; cpu with --engine ray."""


@dataclass(frozen=True)
class Compare:
    """Put two feature sets side by side, or two trained networks, and say which is better.

    Features of one name are compared; where each has a single one, these. Of a network the
    features are extracted first. It is RUN.safetensors of a training, or its folder if that has one
    network only, or what import-proco wrote; or checkpoint.safetensors:RUN of a training that is
    not done.

    Example:
      resultant compare before.safetensors after.safetensors
    """

    a: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="A")]]
    """Features as for analyze, or a trained network."""
    b: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="B")]]
    """The same."""
    out: Path = Path("out/compare")
    """The folder to write; an earlier report there is replaced."""
    features: Column = None
    """The array or Parquet column of features."""
    labels: Labels = None
    """The array or Parquet column of labels, or the .npy of them beside a single .npy."""
    temperature: float = 0.1
    """The shared temperature tau of the scores."""
    estimator: Estimator = "mle"
    """How concentrations are estimated from the lengths of class means."""
    data: Data = None
    """Folder of the images of networks."""
    lists: Beside = None
    """Folder of ImageNet_LT_train.txt and the like."""
    images: Beside = None
    """Folder that the paths of the lists start from."""
    drop_zero_rows: bool = False
    """Leave out rows of features that are zero vectors, which have no direction."""
    device: Device = "cpu"
    """cpu, cuda, cuda:N, or auto."""


@dataclass(frozen=True)
class Reproduce:
    """The paper's tables, figures and claims beside our numbers.

    WHAT is "list" for what there is and how far it is rerun; names such as joint-fc, or "claims",
    to show some of it; "all" to write REPRODUCTION.md and a page with every figure; or "run" and
    the name of a plan, to train what the plan has no records of yet.

    Examples:
      resultant reproduce list
      resultant reproduce run main --dry-run
    """

    what: tyro.conf.Positional[Annotated[tuple[str, ...], tyro.conf.arg(metavar="[WHAT ...]")]] = (
        "all",
    )
    """list, all, claims, names of artefacts, or run and the name of a plan."""
    results: Path = RESULTS
    """Folder of records, one JSON line a run, to which "run" adds. Unless another one is named, our
    own records are read too, and nothing that has one is trained again."""
    out: Path = Path("out/reproduce")
    """Folder for the page and the figures."""
    text: Path = Path("REPRODUCTION.md")
    """Where "all" writes the whole as Markdown."""
    store: Annotated[tuple[str, ...], _default("NAME=PATH ...", "none")] = ()
    """Feature stores of data that are not shipped."""
    records: Annotated[tuple[Path, ...], _default("PATH ...", "none")] = ()
    """records.jsonl of trainings on such data, and what probe --out wrote of them."""
    data: Data = None
    """Folder of CIFAR for "run"."""
    work: Path = Path("out/plans")
    """Folder for the networks and checkpoints of "run"."""
    device: Device = "auto"
    """Of "run": auto, cpu, cuda or cuda:N."""
    seeds: Annotated[tuple[int, ...], _default("INT ...", "those of the plan")] = ()
    """Of "run": the seeds to train."""
    jobs: Annotated[tuple[str, ...], _default("NAME ...", "all of the plan")] = ()
    """Of "run": the jobs to do, by name."""
    beside: int = 0
    """Of "run": how many other calls, of other plans, train on the same device at once."""
    minutes: Annotated[float | None, _default("FLOAT", "no limit")] = None
    """Of "run": stop at a checkpoint after so long; the same command goes on from it."""
    dry_run: bool = False
    """Of "run": say what there is to do and how long it takes."""


@dataclass(frozen=True)
class Train:
    """Train networks and say what they are worth.

    Every realization with every beta and every seed is a run; on CIFAR they are trained side by
    side. A job that was interrupted continues from its checkpoint when the same command is given
    again. Under torchrun the images of a step are shared out over the processes (listed images
    only). The settings of a recipe are options too: resultant train cifar-controlled --help.

    Example:
      resultant train cifar-controlled --realization native angular
    """

    config: Preset
    """The recipe, and every setting of it as an option."""
    realization: tuple[RealizationName, ...] = ("native",)
    """How target gains enter the scores."""
    beta: tuple[float, ...] = (0.0,)
    """Share of the gains' differences that is kept; nothing to native and cosine."""
    seeds: tuple[int, ...] = (0,)
    """Of weights, batches and augmentations; a run each."""
    data: Data = None
    """Folder of CIFAR in any of its forms."""
    lists: Beside = None
    """Folder of ImageNet_LT_train.txt and the like."""
    images: Beside = None
    """Folder that the paths of the lists start from."""
    out: Path = Path("out/train")
    """Folder for metrics, checkpoints, networks and records.jsonl; what else is there stays."""
    device: Device = "auto"
    """auto, cpu, cuda or cuda:N."""
    workers: int = WORKERS
    """Processes that read image files."""
    stack: int = STACK
    """Runs that are trained as one network; on a CPU 1 is faster."""
    checkpoint_every: int = 10
    """Epochs between checkpoints; another is written when an epoch ends more than a minute after
    the last one."""
    test_every: int = 1
    """Epochs between tests of a classifier."""
    gradient_epochs: Annotated[tuple[int, ...], _default("INT ...", "none")] = ()
    """Epochs after which leading and exact gradients are compared."""
    tensorboard: bool = False
    """Write the metrics for TensorBoard too."""
    download: bool = False
    """Fetch CIFAR first."""
    evaluate: bool = True
    """Fit probes and frozen rules at the end (CIFAR)."""


@dataclass(frozen=True)
class Extract:
    """Write the Encoder and Projection features of a trained network as a feature store.

    Example:
      resultant extract native-seed0.safetensors --out x.safetensors
    """

    path: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="NETWORK")]]
    """RUN.safetensors of a training, or what import-proco wrote."""
    out: Path
    """The store, a name that ends in .safetensors."""
    data: Data = None
    """Folder of CIFAR in any of its forms."""
    lists: Beside = None
    """Folder of ImageNet_LT_train.txt and the like."""
    images: Beside = None
    """Folder that the paths of the lists start from."""
    split: Split = None
    """Of listed images, the list that is held out: "test" of the store."""
    balanced: bool = False
    """The whole CIFAR training set, not its long-tailed subset."""
    imbalance: Annotated[float | None, _default("FLOAT", "that of the run")] = None
    """n_max / n_min of the CIFAR subset."""
    dtype: Dtype = "float16"
    """Of the stored features."""
    device: Device = "auto"
    """auto, cpu, cuda or cuda:N."""
    workers: int = WORKERS
    """Processes that read image files."""


@dataclass(frozen=True)
class Probe:
    """Fit a linear probe to each of the features of a store and test it.

    Example:
      resultant probe features.safetensors --out probes.json
    """

    store: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="STORE")]]
    """A feature store, as extract writes them."""
    config: ProbeConfig = field(default_factory=ProbeConfig)
    """How the probes are trained."""
    encoder: EncoderForm = "auto"
    """Encoder features raw or of unit length; auto, as the paper: unit for listed images."""
    device: Device = "auto"
    """auto, cpu, cuda or cuda:N."""
    out: Annotated[Path | None, _default("PATH", "none")] = None
    """A file for the accuracies, JSON."""


@dataclass(frozen=True)
class ImportProco:
    """Convert a checkpoint of ProCo's authors to safetensors, without running what it holds.

    Example:
      resultant import-proco ckpt.pth.tar proco.safetensors
    """

    path: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="CHECKPOINT")]]
    """Their ckpt.pth.tar."""
    out: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="OUT")]]
    """The file to write, a name that ends in .safetensors."""
