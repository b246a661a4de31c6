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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from resultant._core import tensor_files
from resultant._core.files import clean_folder, require_input_file, sync
from resultant._core.text import one_line
from resultant._core.torch_files import load_torch
from resultant.cli.arguments import require_output_file
from resultant.cli.progress import open_console
from resultant.losses.starts import START_WEIGHT
from resultant.networks.timm_encoder import SCALE
from resultant.training.config import CIFAR, Run
from resultant.training.loading import build_network
from resultant.training.proco_recipes import RECIPES, imbalance_of, recipe

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
        out: File to write, in the format of `checkpoints.save_run`: weights under the names of
            resultant, banks as ``bank.old`` and ``bank.new`` [C, p + 1], and the other facts as
            JSON under ``proco``. An existing file is replaced by a complete one only.

    Raises:
        ValueError: If the file is no such checkpoint, or `loading.load_network` could not load it.
    """
    read, where = read_proco_checkpoint(path), os.fspath(path)
    config = recipe(read.arch, read.dim, read.num_classes, where)
    build_network(config, Run(), read.num_classes, read.classifier, read.weights, where)
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


def _checkpoint(root: object, length: int) -> ProCoCheckpoint:
    """Return the checkpoint of a file of ``length`` bytes."""
    if not isinstance(root, dict) or not isinstance(state := root.get("state_dict"), dict):
        raise ValueError("expected a dict with state_dict, itself a dict, got others")
    stored = {str(name).removeprefix("module."): value for name, value in state.items()}
    if len(stored) < len(state):
        raise ValueError("expected names that differ by more than 'module.'")
    for name, value in stored.items():
        if not isinstance(value, Tensor):
            raise ValueError(f"expected a tensor as {name!r:.80}, got {type(value).__name__}")
    # Views of one storage may be copied to any number of bytes.
    if sum(a.numel() * a.element_size() for a in stored.values()) > length:
        raise ValueError("expected tensors that fit in the file, got more")
    shapes = {name: tuple(value.shape) for name, value in stored.items()}
    first = (shapes.get("encoder.conv1.weight"), shapes.get("encoder.layer1.0.conv1.weight"))
    if first not in ARCHITECTURES or len(shapes.get("head.3.weight", ())) != 2:
        rule = "expected the first convolutions of resnet32, resnet50 or resnext50 and a projector"
        raise ValueError(f"{rule}, got {first} among {len(shapes)} tensors")
    classifier = "linear" if "fc.bias" in shapes else "cosine"
    if len(shapes.get("fc.weight", ())) != 2:
        raise ValueError("expected fc.weight of two dimensions, got others")
    weights = {}
    for name, value in stored.items():
        start, _, rest = name.partition(".")
        weights[f"{RENAMED.get(start, start)}.{rest}"] = _values(value, name)
    if classifier == "cosine":
        weights["classifier.weight"] = weights["classifier.weight"].T.contiguous()
    num_classes, dim = len(weights["classifier.weight"]), shapes["head.3.weight"][0]
    loss, banks = root.get("criterion_scl"), [None, None]
    if loss is not None:
        names = ("estimator_old", "estimator")
        banks = [_bank(_attribute(loss, n), n, num_classes, dim) for n in names]
    epoch, best = root.get("epoch"), root.get("best_acc1")
    if isinstance(best, Tensor) and best.numel() == 1:
        best = float(best)
    if epoch is not None and type(epoch) is not int:
        raise ValueError(f"expected epoch to be an integer, got {type(epoch).__name__}")
    if best is not None and not (isinstance(best, int | float) and math.isfinite(best)):
        raise ValueError(f"expected best_acc1 to be a finite number, got {type(best).__name__}")
    best, arch = None if best is None else float(best), ARCHITECTURES[first]
    return ProCoCheckpoint(weights, arch, num_classes, dim, classifier, epoch, best, *banks)


def _attribute(owner: object, name: str) -> Any:
    """Return an attribute of a stand-in, also if it is stored as a submodule of torch."""
    if not isinstance(owner, _StandIn):
        raise ValueError(
            f"expected the object with {name} to be of ProCo, got {type(owner).__name__}"
        )
    modules = vars(owner).get("_modules")
    return vars(owner).get(name, modules.get(name) if isinstance(modules, dict) else None)


def _values(value: Tensor, name: str) -> Tensor:
    """Copy a tensor: a floating one as float32, the number of batches of a norm as int64."""
    whole = name.endswith("num_batches_tracked")
    if value.layout != torch.strided or value.is_floating_point() == whole:
        raise ValueError(f"expected floating weights, got {value.dtype} for {name}")
    dtype = torch.int64 if whole else torch.float32
    result = value.detach().to(dtype).clone(memory_format=torch.contiguous_format)
    if not result.isfinite().all():
        raise ValueError(f"expected finite weights, got others in {name}")
    return result


def _bank(estimator: object, name: str, num_classes: int, dim: int) -> BankState:
    def tensor(part: str, *shape: int) -> Tensor:
        stored = _attribute(estimator, part)
        if not isinstance(stored, Tensor) or stored.shape != shape:
            got = tuple(stored.shape) if isinstance(stored, Tensor) else type(stored).__name__
            raise ValueError(f"expected {part} of {name} to be a tensor {shape}, got {got}")
        return _values(stored.to(torch.float64), f"{part} of {name}")

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


def import_proco(options: ImportProco) -> None:
    """Convert a checkpoint and print its contents."""
    from rich.table import Table

    out = options.out
    tensor_files.require_name(out)
    if is_converted(options.path, out):
        # A process may have been killed after it had renamed the file.
        clean_folder(out.parent, out.name)
        sync(out.parent)
        open_console().print(f"already converted: {out}", highlight=False, soft_wrap=True)
        return
    require_output_file(out, options.path)
    checkpoint = convert(options.path, out)
    _, dataset = RECIPES[checkpoint.num_classes]
    imbalance = "unknown; extract needs --imbalance or --balanced"
    if checkpoint.imbalance is not None:
        imbalance = f"{checkpoint.imbalance:g}, from the counts of a bank"
    weights = checkpoint.weights.items()
    number = sum(tensor.numel() for name, tensor in weights if "num_batches" not in name)
    accuracy = checkpoint.best_accuracy
    banks = {"old": checkpoint.old, "new": checkpoint.new}
    rows = {
        "network": f"{checkpoint.arch}, {checkpoint.classifier} classifier",
        "classes": checkpoint.num_classes,
        "dataset": dataset,
        **({"imbalance": imbalance} if dataset in CIFAR else {}),
        "dimension": checkpoint.dim,
        "weights": f"{number:,}",
        "epoch": "unknown" if checkpoint.epoch is None else checkpoint.epoch,
        "best accuracy": "unknown" if accuracy is None else f"{accuracy:.2f} %",
        **{
            f"bank {name}": "none" if bank is None else f"{int(bank.count.sum()):,} samples"
            for name, bank in banks.items()
        },
    }
    table = Table(title=str(out), title_justify="left", show_header=False)
    for name, value in rows.items():
        table.add_row(name, str(value))
    open_console().print(table)
