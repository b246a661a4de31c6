r"""Public checkpoints of ProCo's authors, read without executing anything in them.

Their ``ckpt.pth.tar`` is a pickled dict of the weights, the optimizer and the whole loss object
with both banks. `resultant._core.torch_files` reads it, with stand-ins for the classes of the loss.

Names of the tensors in the authors' networks, and in this package:

- ``[module.]encoder.*`` -> ``encoder.*``, unchanged: ``conv1``, ``bn1`` and
  ``layer{s}.{i}.conv{k}``, ``.bn{k}`` with s = 1..3, k = 1, 2 in ResNet-32 (no shortcut weights);
  s = 1..4, k = 1..3 and ``layer{s}.0.downsample.{0,1}`` in the large networks, as in torchvision;
- ``[module.]head.{0,1,3}.*`` -> ``projector.{0,1,3}.*``: linear, batch norm, linear;
- ``[module.]fc.weight``, ``.bias`` -> ``classifier.weight`` [C, d], ``.bias`` [C]. A classifier
  without bias is the cosine classifier, stored as [d, C].

The file does not name its dataset: the number of classes gives the dataset, and the counts of a
bank give the imbalance of CIFAR.
"""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant._core import tensor_files
from resultant._core.files import require_input_file
from resultant._core.text import one_line
from resultant._core.torch_files import load_torch
from resultant.images.labelling import NAMED
from resultant.images.longtail import long_tail_counts
from resultant.losses.starts import START_WEIGHT
from resultant.networks.stacked_resnet import HIDDEN
from resultant.networks.timm_encoder import SCALE
from resultant.training._proco_layout import recognize
from resultant.training.config import CIFAR, TrainConfig, preset

# |Ave| of float32 unit vectors exceeds one by rounding only.
LENGTH_TOLERANCE = 1e-3

RENAMED = {"head": "projector", "fc": "classifier"}

# Entry of a converted file: the SHA-256 of the file of the authors.
SOURCE = "source_sha256"

# Preset and dataset by number of classes.
RECIPES = {
    10: ("cifar-official", "cifar10"),
    100: ("cifar-official", "cifar100"),
    1000: ("imagenet-lt", "imagenet-lt"),
    8142: ("inaturalist18", "inaturalist18"),
    365: ("imagenet-lt", "places-lt"),
}
# Names of the architectures in timm, and hidden widths of their projectors.
TIMM = {"resnet32": "resnet32", "resnet50": "resnet50", "resnext50": "resnext50_32x4d"}
WIDTHS = {"resnet32": HIDDEN, "resnet50": 2048, "resnext50": 2048}

# Usual imbalances of CIFAR, the size of its training set, and the authors' batch size.
IMBALANCES = (1.0, 10.0, 20.0, 50.0, 100.0, 200.0)
CIFAR_IMAGES = 50_000
BATCH = 256


@dataclass(frozen=True, eq=False)
class BankState:
    """A bank of the authors' loss.

    Attributes:
        mean: Running means [C, p]; for a class without samples a random vector of length 0.9.
        count: Samples per class [C], int64.
        kappa: Concentrations [C] as stored, or None; the authors update them in the old bank only.
    """

    mean: Tensor
    count: Tensor
    kappa: Tensor | None

    @property
    def sums(self) -> Tensor:
        """Sums and counts [C, p + 1] in float64, as in `ProCoBank`.

        The random start of a class without samples has the weight `START_WEIGHT`.
        """
        weight = torch.where(self.count == 0, START_WEIGHT, self.count.double()).unsqueeze(-1)
        return torch.cat([self.mean.double() * weight, weight], -1)


@dataclass(frozen=True, eq=False)
class ProCoCheckpoint:
    """A checkpoint of the authors; architecture and sizes are inferred from the shapes.

    Attributes:
        weights: Weights under this package's names, in float32; batch counters in int64.
        arch: resnet32, resnet50 or resnext50.
        num_classes: Number of classes C.
        dim: Dimension p of the projection.
        classifier: linear or cosine.
        epoch: Epochs trained, if stored.
        best_accuracy: Best accuracy in percent, if stored.
        old: The old bank; None without a loss object.
        new: The new bank; None without a loss object.
    """

    weights: dict[str, Tensor]
    arch: str
    num_classes: int
    dim: int
    classifier: str
    epoch: int | None
    best_accuracy: float | None
    old: BankState | None
    new: BankState | None

    @property
    def imbalance(self) -> float | None:
        """Imbalance of the CIFAR subset of the training; None if the bank does not determine it."""
        return None if self.new is None else imbalance_of(self.new.count)


def read_proco_checkpoint(path: str | os.PathLike[str]) -> ProCoCheckpoint:
    """Read the file ``ckpt.pth.tar`` of the authors.

    Nothing in the file is executed, and the memory is at most a few times the length of the file.

    Raises:
        ValueError: If the file is no such checkpoint, or is damaged.
    """
    where = os.fspath(path)
    if os.path.isdir(path):
        raise ValueError(f"expected a checkpoint of ProCo, got a folder: {where}")
    require_input_file(path)
    try:
        root = load_torch(Path(path), STAND_INS)
    except FileNotFoundError:
        raise
    except (ValueError, OSError) as error:
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
        if state[1] != "<":
            raise ValueError("expected little-endian NumPy numbers, got others")


def _numpy_number(kind: _NumpyType, data: bytes) -> float:
    return np.frombuffer(data, kind.dtype).item()


# Substitutes for the authors' classes and for those of NumPy, by full name.
STAND_INS = (
    *((_StandIn, f"loss.proco.{name}") for name in ("ProCoLoss", "EstimatorCV")),
    *((_numpy_number, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
    (_NumpyType, "numpy.dtype"),
)


def convert(path: str | os.PathLike[str], out: str | os.PathLike[str]) -> ProCoCheckpoint:
    """Write a checkpoint of the authors as safetensors, and return it.

    Args:
        path: The file ``ckpt.pth.tar``.
        out: File to write, in the format of `checkpoints.save_run`: weights under this package's
            names, banks as ``bank.old`` and ``bank.new`` [C, p + 1], and the other facts as JSON
            under ``proco``. An existing file is replaced by a complete one only.

    Raises:
        ValueError: If the file is no such checkpoint, or if `loading.load_network` could not load
            its number of classes or its projector.
    """
    read = read_proco_checkpoint(path)
    _require_network(read, os.fspath(path))
    tensors = dict(read.weights)
    for name, bank in (("old", read.old), ("new", read.new)):
        if bank is not None:
            tensors[f"bank.{name}"] = bank.sums
    names = ("arch", "dim", "classifier", "epoch", "best_accuracy")
    facts = {name: getattr(read, name) for name in names}
    if read.classifier == "cosine":
        facts["classifier_scale"] = SCALE
    facts[SOURCE] = _digest(path)
    tensor_files.save(out, tensors, {"proco": facts, "num_classes": read.num_classes})
    return read


def is_converted(path: str | os.PathLike[str], out: str | os.PathLike[str]) -> bool:
    """Return True if ``out`` is a whole conversion of the checkpoint ``path``."""
    if not os.path.isfile(out) or not os.path.isfile(path):
        return False
    try:
        facts = tensor_files.load(out)[1].get("proco")
    except ValueError:
        return False
    return isinstance(facts, dict) and facts.get(SOURCE) == _digest(path)


def _digest(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _require_network(read: ProCoCheckpoint, where: str) -> None:
    """Raise a ValueError unless this package has a network of these shapes and classes."""
    recipe(read.arch, read.dim, read.num_classes, where)
    hidden, width = len(read.weights["projector.0.bias"]), WIDTHS[read.arch]
    if hidden != width:
        rule = f"expected a projector of hidden width {width} for {read.arch}"
        raise ValueError(f"{rule}, got {hidden} in {where}")


def recipe(
    arch: str, dim: int, num_classes: int, where: str, imbalance: float | None = None
) -> TrainConfig:
    """Return the preset that fits a checkpoint.

    Args:
        arch: resnet32, resnet50 or resnext50.
        dim: Dimension of the projection.
        num_classes: Number of classes, which determines the dataset.
        where: The checkpoint, for the error.
        imbalance: Imbalance of the CIFAR subset; None for that of the preset.

    Raises:
        ValueError: If no dataset has this number of classes, or the architecture does not fit it.

    Example:
        >>> from resultant.training.proco_checkpoint import recipe
        >>> recipe("resnet50", 1024, 8142, "ckpt.pth.tar").dataset
        'inaturalist18'
    """
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
    return preset(name, dataset=dataset, architecture=TIMM[arch], dim=dim, **changes)


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


def _description(root: object) -> str:
    """Describe an object that is no dict with a dict state_dict."""
    if not isinstance(root, dict):
        return type(root).__name__
    if "state_dict" in root:
        return f"state_dict of type {type(root['state_dict']).__name__}"
    names = [f"{name!r:.80}" if isinstance(name, str) else type(name).__name__ for name in root]
    more = ", ..." if len(names) > NAMED else ""
    return f"one with {', '.join(names[:NAMED])}{more}" if names else "an empty one"


def _checkpoint(root: object, length: int) -> ProCoCheckpoint:
    """Return the checkpoint of a file of ``length`` bytes."""
    if not isinstance(root, dict) or not isinstance(state := root.get("state_dict"), dict):
        raise ValueError(
            f"expected a dict with state_dict, itself a dict, got {_description(root)}"
        )
    stored = {str(name).removeprefix("module."): value for name, value in state.items()}
    for name, value in stored.items():
        if not isinstance(value, Tensor):
            raise ValueError(f"expected a tensor as {name!r:.80}, got {type(value).__name__}")
    if len(stored) < len(state):
        raise ValueError("expected names that differ by more than 'module.'")
    # Views of one storage may be copied to any number of bytes.
    if sum(a.numel() * a.element_size() for a in stored.values()) > length:
        raise ValueError("expected tensors that fit in the file, got more")
    shapes = {name: tuple(value.shape) for name, value in stored.items()}
    arch, num_classes, dim, classifier = recognize(shapes)
    weights = {}
    for name, value in stored.items():
        first, _, rest = name.partition(".")
        if value.is_floating_point() == (rest.endswith("num_batches_tracked")):
            raise ValueError(f"expected floating weights, got {value.dtype} for {name}")
        weights[f"{RENAMED.get(first, first)}.{rest}"] = _values(value)
    if classifier == "cosine":
        weights["classifier.weight"] = weights["classifier.weight"].T.contiguous()
    for name, value in weights.items():
        if not value.isfinite().all():
            raise ValueError(f"expected finite weights, got others in {name}")
    loss, banks = root.get("criterion_scl"), [None, None]
    if loss is not None:
        names = ("estimator_old", "estimator")
        banks = [_bank(_attribute(loss, n), n, num_classes, dim) for n in names]
    epoch, best = root.get("epoch"), root.get("best_acc1")
    if isinstance(best, Tensor) and best.numel() == 1:
        best = float(_values(best))
    if epoch is not None and (isinstance(epoch, bool) or not isinstance(epoch, int)):
        raise ValueError(f"expected epoch to be an integer, got {type(epoch).__name__}")
    if best is not None and not (isinstance(best, int | float) and math.isfinite(best)):
        raise ValueError(f"expected best_acc1 to be a finite number, got {type(best).__name__}")
    best = None if best is None else float(best)
    return ProCoCheckpoint(weights, arch, num_classes, dim, classifier, epoch, best, *banks)


def _attribute(owner: object, name: str) -> Any:
    """Return an attribute of a stand-in, also if it is stored as a submodule of torch."""
    if not isinstance(owner, _StandIn):
        raise ValueError(
            f"expected the object with {name} to be of ProCo, got {type(owner).__name__}"
        )
    modules = vars(owner).get("_modules")
    return vars(owner).get(name, modules.get(name) if isinstance(modules, dict) else None)


def _values(value: Tensor) -> Tensor:
    """Copy a tensor: a floating one as float32, another as int64."""
    # A few stored numbers can be expanded to any size.
    plain = value.layout == torch.strided and value.nbytes <= value.untyped_storage().nbytes()
    if not plain or value.is_complex() or value.is_quantized:
        raise ValueError("expected tensors of real numbers stored as they are, got others")
    dtype = torch.float32 if value.is_floating_point() else torch.int64
    return value.detach().to(dtype).clone(memory_format=torch.contiguous_format)


def _bank(estimator: object, name: str, num_classes: int, dim: int) -> BankState:
    def tensor(part: str, *shape: int) -> Tensor:
        stored = _attribute(estimator, part)
        if not isinstance(stored, Tensor) or stored.shape != shape:
            got = tuple(stored.shape) if isinstance(stored, Tensor) else type(stored).__name__
            raise ValueError(f"expected {part} of {name} to be a tensor {shape}, got {got}")
        value = _values(stored)
        if not value.isfinite().all():
            raise ValueError(f"expected finite {part} of {name}, got others")
        return value

    mean, amount = tensor("Ave", num_classes, dim), tensor("Amount", num_classes)
    has_kappa = _attribute(estimator, "kappa") is not None
    kappa = tensor("kappa", num_classes) if has_kappa else None
    length = mean.double().square().sum(-1).sqrt().max()
    if length > 1 + LENGTH_TOLERANCE:
        raise ValueError(f"expected means of {name} no longer than one, got {float(length):g}")
    count = amount.long()
    if (count != amount).any() or (count < 0).any():
        raise ValueError(f"expected Amount of {name} to be whole numbers >= 0, got others")
    return BankState(mean, count, kappa)
