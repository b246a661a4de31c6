r"""``resultant import-proco``: checkpoints of ProCo's authors, without executing anything in them.

Their ``ckpt.pth.tar`` is a pickled dict of the weights, the optimizer and the whole loss object
with both banks. ``torch.load(weights_only=True)`` reads it, with stand-ins for the classes of the
loss. Tensors keep their names, but for ``module.``, ``head`` and ``fc``. A classifier without bias
is the cosine classifier, stored as [d, C].
"""

from __future__ import annotations

import hashlib
import math
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from resultant._core import tensor_files
from resultant._core.files import require_input_file
from resultant._core.tensor_files import load_torch
from resultant._core.text import one_line
from resultant.cli.arguments import require_output_file
from resultant.cli.progress import PlainConsole
from resultant.images.longtail import long_tail_counts
from resultant.losses.bank import START_WEIGHT
from resultant.training.checkpoints import load_timm, require_sizes
from resultant.training.encoder import SCALE
from resultant_reproduction.cifar.kind import ResNet32
from resultant_reproduction.recipes.config import CIFAR, CIFAR_IMAGES, preset

if TYPE_CHECKING:
    from resultant_reproduction.options import ImportProco

# |Ave| of float32 unit vectors exceeds one by rounding only.
LENGTH_TOLERANCE = 1e-3
RENAMED = {"head": "projector", "fc": "classifier"}
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


class _StandIn:
    """An object of the authors' loss: its attributes, without methods."""


# Objects that a file may hold besides tensors: parts of the loss, and numbers of NumPy.
SCALAR = np.float64().__reduce__()[0]
KNOWN: Any = (
    *((_StandIn, f"loss.proco.{name}") for name in ("ProCoLoss", "EstimatorCV")),
    *((SCALAR, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
    *(np.dtype, np.dtypes.Float64DType, np.dtypes.Float32DType),
)


@dataclass(frozen=True, eq=False)
class ProCoCheckpoint:
    """A checkpoint of the authors: weights under this package's names, any banks, "old" and "new"
    as in `ProCoBank`, sums and counts [C, p + 1] in float64, and the facts of a converted file."""

    weights: dict[str, Tensor]
    banks: dict[str, Tensor]
    num_classes: int
    facts: dict[str, Any]


def read_proco_checkpoint(path: str | os.PathLike[str]) -> ProCoCheckpoint:
    """Read the file ``ckpt.pth.tar`` of the authors; nothing in the file is executed."""
    where = os.fspath(path)
    require_input_file(path)
    try:
        root = load_torch(Path(path), KNOWN)
    except ValueError as error:
        rule = f"expected {where} to be a whole file of torch.save"
        raise ValueError(f"{rule}, got: {one_line(error)}") from None
    try:
        return _checkpoint(root if isinstance(root, dict) else {}, os.path.getsize(path))
    except ValueError as error:
        raise ValueError(f"cannot read {where} as a checkpoint of ProCo: {error}") from None


def _require(condition: object, rule: str, got: object) -> None:
    if not condition:
        raise ValueError(f"expected {rule}, got {got}")


def _checkpoint(content: dict[str, Any], length: int) -> ProCoCheckpoint:
    """Return the checkpoint of a file of ``length`` bytes."""
    state: Any = content.get("state_dict")
    _require(isinstance(state, dict), "a dict with state_dict, itself a dict", "others")
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
    cosine = "fc.bias" not in shapes
    weights = {}
    for name, value in stored.items():
        start, _, rest = name.partition(".")
        turned = value.T if cosine and start == "fc" else value
        weights[f"{RENAMED.get(start, start)}.{rest}"] = _values(turned, name)
    num_classes, dim = len(weights["classifier.weight"]), shapes["head.3.weight"][0]
    loss, banks = content.get("criterion_scl"), {}
    if loss is not None:
        for bank, name in (("old", "estimator_old"), ("new", "estimator")):
            banks[bank] = _bank(_attribute(loss, name), name, num_classes, dim)
    epoch, best = content.get("epoch"), content.get("best_acc1")
    _require(epoch is None or type(epoch) is int, "epoch to be an integer", type(epoch).__name__)
    number = (
        isinstance(best, int | float | np.number | Tensor) and torch.as_tensor(best).numel() == 1
    )
    finite = best is None or (number and math.isfinite(best))
    _require(finite, "best_acc1 to be a finite number", type(best).__name__)
    facts = {
        "arch": ARCHITECTURES[first],
        "dim": dim,
        "classifier": "cosine" if cosine else "linear",
        "epoch": epoch,
        "best_accuracy": None if best is None else float(best),
        "imbalance": imbalance_of(banks["new"][:, -1].round().long()) if banks else None,
    } | ({"classifier_scale": SCALE} if cosine else {})
    return ProCoCheckpoint(weights, banks, num_classes, facts)


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
    """Return the sums and counts [C, p + 1] of an estimator."""
    parts = []
    for part, shape in (("Ave", (num_classes, dim)), ("Amount", (num_classes,))):
        stored = _attribute(estimator, part)
        got = tuple(stored.shape) if isinstance(stored, Tensor) else type(stored).__name__
        _require(got == shape, f"{part} of {name} to be a tensor {shape}", got)
        parts.append(_values(stored.double(), f"{part} of {name}").double())
    mean, count = parts
    length = float(mean.norm(dim=-1).max())
    _require(length <= 1 + LENGTH_TOLERANCE, f"means of {name} no longer than one", f"{length:g}")
    whole = ((count == count.round()) & (count >= 0)).all()
    _require(whole, f"Amount of {name} to be whole numbers >= 0", "others")
    # A class without samples has a random mean of length 0.9, with a weight of its own.
    weight = torch.where(count == 0, START_WEIGHT, count).unsqueeze(-1)
    return torch.cat([mean * weight, weight], -1)


def imbalance_of(count: Tensor) -> float | None:
    """Infer the imbalance of a CIFAR subset from the counts [C] of a bank, None if none fits."""
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
    """Write a checkpoint of the authors in the format of `JobCheckpoint.save_runs`, and return it.
    Banks are ``bank.old`` and ``bank.new`` [C, p + 1], settings those of the matching preset."""
    read, where = read_proco_checkpoint(path), os.fspath(path)
    facts, num_classes = read.facts, read.num_classes
    known = ", ".join(f"{number} ({name})" for number, (_, name) in RECIPES.items())
    rule = f"a number of classes among {known}"
    _require(num_classes in RECIPES, rule, f"{num_classes} in {where}")
    name, dataset = RECIPES[num_classes]
    fitting = "resnet32" if dataset in CIFAR else "resnet50 or resnext50"
    rule = f"{fitting} for the {num_classes} classes of {dataset}"
    _require(facts["arch"] in fitting, rule, f"{facts['arch']} in {where}")
    settings = {"dataset": dataset, "dim": facts["dim"]}
    settings["architecture"] = facts["arch"].replace("resnext50", "resnext50_32x4d")
    if facts["imbalance"] is not None:
        settings["imbalance"] = facts["imbalance"]
    config = preset(name, **settings)
    require_sizes(config, num_classes, read.weights, where)
    load = ResNet32.load if dataset in CIFAR else load_timm
    load(config, num_classes, facts["classifier"], read.weights, where)
    banks = {f"bank.{name}": bank for name, bank in read.banks.items()}
    facts = facts | {"source_sha256": _digest(path)}
    about = {"proco": facts, "num_classes": num_classes, "config": asdict(config)}
    tensor_files.save(out, read.weights | banks, about)
    return read


def _digest(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def import_proco(options: ImportProco) -> None:
    """Convert a checkpoint and print its contents."""
    from rich.table import Table

    out = options.out
    tensor_files.require_name(out)
    with suppress(ValueError, OSError, KeyError, TypeError):
        about = tensor_files.load(out)[1]
        if "config" in about and about["proco"]["source_sha256"] == _digest(options.path):
            PlainConsole().print(f"already converted: {out}", soft_wrap=True)
            return
    require_output_file(out, options.path)
    read = convert(options.path, out)
    rows = {"classes": read.num_classes, "dataset": RECIPES[read.num_classes][1], **read.facts}
    for name, bank in read.banks.items():
        # The weight of a start is no sample.
        rows[f"bank {name}"] = f"{int(bank[:, -1].round().sum()):,} samples"
    found = rows.pop("imbalance")
    if rows["dataset"] in CIFAR:
        unknown = "unknown; extract needs --long-tail"
        rows["imbalance"] = f"{found:g}, from the counts of a bank" if found else unknown
    table = Table(title=str(out), title_justify="left", show_header=False)
    for name, value in rows.items():
        table.add_row(name.replace("_", " "), "unknown" if value is None else str(value))
    PlainConsole().print(table)
