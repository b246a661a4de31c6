r"""``resultant import-proco``: checkpoints of ProCo's authors, without executing anything in them.

Their ``ckpt.pth.tar`` is a pickled dict of the weights, the optimizer and the whole loss object
with both banks. ``torch.load(weights_only=True)`` reads it, with stand-ins for the classes of the
loss. Names of the tensors in the authors' networks, and in resultant:

- ``[module.]encoder.*`` -> ``encoder.*``, unchanged;
- ``[module.]head.{0,1,3}.*`` -> ``projector.{0,1,3}.*``: linear, batch norm, linear;
- ``[module.]fc.weight``, ``.bias`` -> ``classifier.weight`` [C, d], ``.bias`` [C]. A classifier
  without bias is the cosine classifier, stored as [d, C].
"""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from resultant._core import tensor_files
from resultant._core.files import require_input_file
from resultant._core.text import one_line
from resultant._core.torch_files import load_torch
from resultant.cli.arguments import require_output_file
from resultant.cli.progress import open_console
from resultant.images.longtail import long_tail_counts
from resultant.losses.bank import START_WEIGHT
from resultant.networks.timm_encoder import SCALE
from resultant.training.config import CIFAR, CIFAR_IMAGES, Run, TrainConfig, preset
from resultant.training.loading import build_network

if TYPE_CHECKING:
    from resultant_reproduction.options import ImportProco

# |Ave| of float32 unit vectors exceeds one by rounding only.
LENGTH_TOLERANCE = 1e-3
RENAMED = {"head": "projector", "fc": "classifier"}
# Entry of a converted file: the SHA-256 of the file of the authors.
SOURCE = "source_sha256"
# Architectures by the shapes of the first two convolutions.
ARCHITECTURES: dict[Any, str] = {
    ((16, 3, 3, 3), (16, 16, 3, 3)): "resnet32",
    ((64, 3, 7, 7), (64, 64, 1, 1)): "resnet50",
    ((64, 3, 7, 7), (128, 64, 1, 1)): "resnext50",
}

# Preset and dataset by number of classes.
RECIPES = {
    10: ("cifar-official", "cifar10"),
    100: ("cifar-official", "cifar100"),
    1000: ("imagenet-lt", "imagenet-lt"),
    8142: ("inaturalist18", "inaturalist18"),
    365: ("imagenet-lt", "places-lt"),
}
# Usual imbalances of CIFAR, and the authors' batch size.
IMBALANCES = (1.0, 10.0, 20.0, 50.0, 100.0, 200.0)
BATCH = 256


@dataclass(frozen=True, eq=False)
class ProCoCheckpoint:
    """A checkpoint of the authors: weights under this package's names, facts, and any banks,
    "old" and "new" as in `ProCoBank`: sums and counts [C, p + 1] in float64. The architecture and
    the sizes are inferred from the shapes."""

    weights: dict[str, Tensor]
    arch: str
    num_classes: int
    dim: int
    classifier: str
    epoch: int | None
    best_accuracy: float | None
    banks: dict[str, Tensor]

    @property
    def imbalance(self) -> float | None:
        """Imbalance of a CIFAR subset by the counts of a bank, None where it is unknown."""
        return imbalance_of(_counts(self.banks["new"])) if "new" in self.banks else None


def read_proco_checkpoint(path: str | os.PathLike[str]) -> ProCoCheckpoint:
    """Read the file ``ckpt.pth.tar`` of the authors; nothing in the file is executed.

    Raises:
        ValueError: If the file is no such checkpoint, or is damaged.
    """
    where = os.fspath(path)
    _require(not os.path.isdir(path), "a checkpoint of ProCo", f"a folder: {where}")
    require_input_file(path)
    try:
        root = load_torch(Path(path), STAND_INS)
    except ValueError as error:
        rule = f"expected {where} to be a whole file of torch.save"
        raise ValueError(f"{rule}, got: {one_line(error)}") from None
    try:
        return _checkpoint(root, os.path.getsize(path))
    except ValueError as error:
        raise ValueError(f"cannot read {where} as a checkpoint of ProCo: {error}") from None


class _StandIn:
    """An object of the authors' loss: its attributes, without methods."""


class _NumpyType:
    """The type of a NumPy number."""

    def __init__(self, code: str, *_: Any) -> None:
        self.dtype = {"f8": "<f8", "f4": "<f4", "i8": "<i8", "i4": "<i4"}[code]

    def __setstate__(self, state: Any) -> None:
        _require(state[1] == "<", "little-endian NumPy numbers", "others")


def _numpy_number(kind: _NumpyType, data: bytes) -> float:
    return np.frombuffer(data, kind.dtype).item()


# Substitutes for the authors' classes and for those of NumPy, by full name.
STAND_INS = (
    *((_StandIn, f"loss.proco.{name}") for name in ("ProCoLoss", "EstimatorCV")),
    *((_numpy_number, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
    (_NumpyType, "numpy.dtype"),
)


def _require(condition: object, rule: str, got: object) -> None:
    if not condition:
        raise ValueError(f"expected {rule}, got {got}")


def _checkpoint(root: object, length: int) -> ProCoCheckpoint:
    """Return the checkpoint of a file of ``length`` bytes."""
    content = root if isinstance(root, dict) else {}
    state = content.get("state_dict")
    if not isinstance(state, dict):
        raise ValueError("expected a dict with state_dict, itself a dict, got others")
    stored = {str(name).removeprefix("module."): value for name, value in state.items()}
    _require(len(stored) == len(state), "names that differ by more than 'module.'", "others")
    for name, value in stored.items():
        _require(isinstance(value, Tensor), f"a tensor as {name!r:.80}", type(value).__name__)
    # Views of one storage may be copied to any number of bytes.
    fits = sum(a.nbytes for a in stored.values()) <= length
    _require(fits, "tensors that fit in the file", "more")
    shapes = {name: tuple(value.shape) for name, value in stored.items()}
    first = (shapes.get("encoder.conv1.weight"), shapes.get("encoder.layer1.0.conv1.weight"))
    known = first in ARCHITECTURES and len(shapes.get("head.3.weight", ())) == 2
    rule = "the first convolutions of resnet32, resnet50 or resnext50 and a projector"
    _require(known, rule, f"{first} among {len(shapes)} tensors")
    _require(len(shapes.get("fc.weight", ())) == 2, "fc.weight of two dimensions", "others")
    weights = {}
    for name, value in stored.items():
        start, _, rest = name.partition(".")
        weights[f"{RENAMED.get(start, start)}.{rest}"] = _values(value, name)
    classifier = "linear" if "fc.bias" in shapes else "cosine"
    if classifier == "cosine":
        weights["classifier.weight"] = weights["classifier.weight"].T.contiguous()
    num_classes, dim = len(weights["classifier.weight"]), shapes["head.3.weight"][0]
    loss, banks = content.get("criterion_scl"), {}
    if loss is not None:
        for bank, name in (("old", "estimator_old"), ("new", "estimator")):
            banks[bank] = _bank(_attribute(loss, name), name, num_classes, dim)
    epoch, best = content.get("epoch"), content.get("best_acc1")
    best = float(best) if isinstance(best, Tensor) and best.numel() == 1 else best
    _require(type(epoch) in (int, type(None)), "epoch to be an integer", type(epoch).__name__)
    finite = best is None or (isinstance(best, int | float) and math.isfinite(best))
    _require(finite, "best_acc1 to be a finite number", type(best).__name__)
    facts = ARCHITECTURES[first], num_classes, dim, classifier, epoch
    return ProCoCheckpoint(weights, *facts, None if best is None else float(best), banks)


def _attribute(owner: object, name: str) -> Any:
    """Return an attribute of a stand-in, also if it is stored as a submodule of torch."""
    rule = f"the object with {name} to be of ProCo"
    _require(isinstance(owner, _StandIn), rule, type(owner).__name__)
    modules = vars(owner).get("_modules")
    return vars(owner).get(name, modules.get(name) if isinstance(modules, dict) else None)


def _values(value: Tensor, name: str) -> Tensor:
    """Copy a tensor: a floating one as float32, the number of batches of a norm as int64."""
    whole = name.endswith("num_batches_tracked")
    plain = value.layout == torch.strided and value.is_floating_point() != whole
    _require(plain, "floating weights", f"{value.dtype} for {name}")
    dtype = torch.int64 if whole else torch.float32
    result = value.detach().to(dtype).clone(memory_format=torch.contiguous_format)
    _require(result.isfinite().all(), "finite weights", f"others in {name}")
    return result


def _bank(estimator: object, name: str, num_classes: int, dim: int) -> Tensor:
    def tensor(part: str, *shape: int) -> Tensor:
        stored = _attribute(estimator, part)
        got = tuple(stored.shape) if isinstance(stored, Tensor) else type(stored).__name__
        _require(got == shape, f"{part} of {name} to be a tensor {shape}", got)
        return _values(stored.double(), f"{part} of {name}").double()

    mean, count = tensor("Ave", num_classes, dim), tensor("Amount", num_classes)
    length = float(mean.norm(dim=-1).max())
    _require(length <= 1 + LENGTH_TOLERANCE, f"means of {name} no longer than one", f"{length:g}")
    whole = ((count == count.round()) & (count >= 0)).all()
    _require(whole, f"Amount of {name} to be whole numbers >= 0", "others")
    # A class without samples has a random mean of length 0.9, with a weight of its own.
    weight = torch.where(count == 0, START_WEIGHT, count).unsqueeze(-1)
    return torch.cat([mean * weight, weight], -1)


def recipe(
    arch: str, dim: int, num_classes: int, where: str, imbalance: float | None = None
) -> TrainConfig:
    """Return the preset that fits a checkpoint ``where`` of resnet32, resnet50 or resnext50."""
    if num_classes not in RECIPES:
        numbers = ", ".join(f"{number} ({name})" for number, (_, name) in RECIPES.items())
        rule = f"expected a number of classes among {numbers}"
        raise ValueError(f"{rule}, got {num_classes} in {where}")
    name, dataset = RECIPES[num_classes]
    if (arch == "resnet32") != (dataset in CIFAR):
        fitting = "resnet32" if dataset in CIFAR else "resnet50 or resnext50"
        rule = f"expected {fitting} for the {num_classes} classes of {dataset}"
        raise ValueError(f"{rule}, got {arch} in {where}")
    changes: dict[str, Any] = {} if imbalance is None else {"imbalance": imbalance}
    timm = "resnext50_32x4d" if arch == "resnext50" else arch
    return preset(name, dataset=dataset, architecture=timm, dim=dim, **changes)


def imbalance_of(count: Tensor) -> float | None:
    """Infer the imbalance of a CIFAR subset from the counts [C] of a bank, None if none fits.

    A bank counts every view of the images of whole batches, or of all images.
    """
    num_classes, total = len(count), int(count.sum())
    if RECIPES.get(num_classes, ("", ""))[1] not in CIFAR:
        return None
    for imbalance in IMBALANCES:
        sizes = long_tail_counts(CIFAR_IMAGES // num_classes, num_classes, imbalance)
        number = int(sizes.sum())
        for seen in (number, number // BATCH * BATCH):
            views, rest = divmod(total, seen)
            if views and not rest and (count <= views * sizes).all():
                return imbalance
    return None


def convert(path: str | os.PathLike[str], out: str | os.PathLike[str]) -> ProCoCheckpoint:
    """Write a checkpoint of the authors as safetensors, and return it.

    The file has the format of `checkpoints.save_run`: weights under the names of resultant, banks
    as ``bank.old`` and ``bank.new`` [C, p + 1], the settings of the matching preset, and other
    facts under ``proco``. An existing file is replaced by a complete one only.

    Raises:
        ValueError: If the file is no such checkpoint, or `loading.load_network` could not load it.
    """
    read, where = read_proco_checkpoint(path), os.fspath(path)
    config = recipe(read.arch, read.dim, read.num_classes, where, read.imbalance)
    build_network(config, Run(), read.num_classes, read.classifier, read.weights, where)
    banks = {f"bank.{name}": bank for name, bank in read.banks.items()}
    names = ("arch", "dim", "classifier", "epoch", "best_accuracy", "imbalance")
    facts = {name: getattr(read, name) for name in names} | {SOURCE: _digest(path)}
    if read.classifier == "cosine":
        facts["classifier_scale"] = SCALE
    about = {"proco": facts, "num_classes": read.num_classes, "config": asdict(config)}
    tensor_files.save(out, read.weights | banks, about)
    return read


def _digest(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_converted(path: Path, out: Path) -> bool:
    """Return True if ``out`` is a whole conversion of the checkpoint ``path``."""
    try:
        about = tensor_files.load(out)[1]
        return "config" in about and about["proco"][SOURCE] == _digest(path)
    except (ValueError, OSError, KeyError, TypeError):
        return False


def _counts(bank: Tensor) -> Tensor:
    """Return the samples per class [C]; the weight of a start is not one."""
    return bank[:, -1].round().long()


def import_proco(options: ImportProco) -> None:
    """Convert a checkpoint and print its contents."""
    from rich.table import Table

    out = options.out
    tensor_files.require_name(out)
    if _is_converted(options.path, out):
        open_console().print(f"already converted: {out}", highlight=False, soft_wrap=True)
        return
    require_output_file(out, options.path)
    read = convert(options.path, out)
    _, dataset = RECIPES[read.num_classes]
    number = sum(a.numel() for name, a in read.weights.items() if "num_batches" not in name)
    rows = {
        "network": f"{read.arch}, {read.classifier} classifier",
        "classes": read.num_classes,
        "dataset": dataset,
    }
    if dataset in CIFAR:
        unknown = "unknown; extract needs --imbalance or --balanced"
        found = read.imbalance
        rows["imbalance"] = f"{found:g}, from the counts of a bank" if found else unknown
    rows |= {
        "dimension": read.dim,
        "weights": f"{number:,}",
        "epoch": "unknown" if read.epoch is None else read.epoch,
        "best accuracy": "unknown" if read.best_accuracy is None else f"{read.best_accuracy:.2f} %",
    }
    for name in ("old", "new"):
        bank = read.banks.get(name)
        rows[f"bank {name}"] = "none" if bank is None else f"{int(_counts(bank).sum()):,} samples"
    table = Table(title=str(out), title_justify="left", show_header=False)
    for name, value in rows.items():
        table.add_row(name, str(value))
    open_console().print(table)
