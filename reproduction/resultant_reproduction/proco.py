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
from resultant.losses.sums import START_WEIGHT
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
        """Sums and counts [C, p + 1] in float64, as in `ProCoBank`."""
        # The random start of a class without samples has a weight of its own.
        weight = torch.where(self.count == 0, START_WEIGHT, self.count.double()).unsqueeze(-1)
        return torch.cat([self.mean.double() * weight, weight], -1)


@dataclass(frozen=True, eq=False)
class ProCoCheckpoint:
    """A checkpoint of the authors: weights under this package's names, facts, and the banks if any.

    The architecture and the sizes are inferred from the shapes.
    """

    weights: dict[str, Tensor]
    arch: str
    num_classes: int
    dim: int
    classifier: str
    epoch: int | None
    best_accuracy: float | None
    old: BankState | None = None
    new: BankState | None = None


def read_proco_checkpoint(path: str | os.PathLike[str]) -> ProCoCheckpoint:
    """Read the file ``ckpt.pth.tar`` of the authors.

    Nothing in the file is executed, and the memory is at most a few times the length of the file.

    Raises:
        ValueError: If the file is no such checkpoint, or is damaged.
    """
    where = os.fspath(path)
    _require(not os.path.isdir(path), "a checkpoint of ProCo", f"a folder: {where}")
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
    _require(
        sum(a.nbytes for a in stored.values()) <= length, "tensors that fit in the file", "more"
    )
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
    loss, banks = content.get("criterion_scl"), []
    if loss is not None:
        names = ("estimator_old", "estimator")
        banks = [_bank(_attribute(loss, n), n, num_classes, dim) for n in names]
    epoch, best = content.get("epoch"), content.get("best_acc1")
    best = float(best) if isinstance(best, Tensor) and best.numel() == 1 else best
    _require(type(epoch) in (int, type(None)), "epoch to be an integer", type(epoch).__name__)
    finite = best is None or (isinstance(best, int | float) and math.isfinite(best))
    _require(finite, "best_acc1 to be a finite number", type(best).__name__)
    facts = ARCHITECTURES[first], num_classes, dim, classifier, epoch
    return ProCoCheckpoint(weights, *facts, None if best is None else float(best), *banks)


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


def _bank(estimator: object, name: str, num_classes: int, dim: int) -> BankState:
    def tensor(part: str, *shape: int) -> Tensor:
        stored = _attribute(estimator, part)
        got = tuple(stored.shape) if isinstance(stored, Tensor) else type(stored).__name__
        _require(got == shape, f"{part} of {name} to be a tensor {shape}", got)
        return _values(stored.to(torch.float64), f"{part} of {name}")

    mean, amount = tensor("Ave", num_classes, dim), tensor("Amount", num_classes)
    has_kappa = _attribute(estimator, "kappa") is not None
    kappa = tensor("kappa", num_classes) if has_kappa else None
    length = float(mean.double().norm(dim=-1).max())
    _require(length <= 1 + LENGTH_TOLERANCE, f"means of {name} no longer than one", f"{length:g}")
    count = amount.long()
    whole = bool(((count == amount) & (count >= 0)).all())
    _require(whole, f"Amount of {name} to be whole numbers >= 0", "others")
    return BankState(mean, count, kappa)


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
    banks = {"bank.old": read.old, "bank.new": read.new}
    tensors = {name: bank.sums for name, bank in banks.items() if bank is not None}
    names = ("arch", "dim", "classifier", "epoch", "best_accuracy")
    facts = {name: getattr(read, name) for name in names} | {SOURCE: _digest(path)}
    if read.classifier == "cosine":
        facts["classifier_scale"] = SCALE
    about = {"proco": facts, "num_classes": read.num_classes}
    tensor_files.save(out, read.weights | tensors, about)
    return read


def _digest(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_converted(path: Path, out: Path) -> bool:
    """Return True if ``out`` is a whole conversion of the checkpoint ``path``."""
    try:
        facts = tensor_files.load(out)[1].get("proco")
    except (ValueError, OSError):
        return False
    return isinstance(facts, dict) and path.is_file() and facts.get(SOURCE) == _digest(path)


def import_proco(options: ImportProco) -> None:
    """Convert a checkpoint and print its contents."""
    from rich.table import Table

    out = options.out
    tensor_files.require_name(out)
    if _is_converted(options.path, out):
        # A process may have been killed after it had renamed the file.
        clean_folder(out.parent, out.name)
        sync(out.parent)
        open_console().print(f"already converted: {out}", highlight=False, soft_wrap=True)
        return
    require_output_file(out, options.path)
    read = convert(options.path, out)
    _, dataset = RECIPES[read.num_classes]
    number = sum(a.numel() for name, a in read.weights.items() if "num_batches" not in name)
    imbalance = None if read.new is None else imbalance_of(read.new.count)
    rows = {
        "network": f"{read.arch}, {read.classifier} classifier",
        "classes": read.num_classes,
        "dataset": dataset,
        "imbalance": "unknown; extract needs --imbalance or --balanced"
        if imbalance is None
        else f"{imbalance:g}, from the counts of a bank",
        "dimension": read.dim,
        "weights": f"{number:,}",
        "epoch": "unknown" if read.epoch is None else read.epoch,
        "best accuracy": "unknown" if read.best_accuracy is None else f"{read.best_accuracy:.2f} %",
        **{
            f"bank {name}": "none" if bank is None else f"{int(bank.count.sum()):,} samples"
            for name, bank in (("old", read.old), ("new", read.new))
        },
    }
    table = Table(title=str(out), title_justify="left", show_header=False)
    for name, value in rows.items():
        if name != "imbalance" or dataset in CIFAR:
            table.add_row(name, str(value))
    open_console().print(table)
