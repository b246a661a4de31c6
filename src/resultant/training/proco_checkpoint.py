r"""The public checkpoints of ProCo's authors, read without running anything that they hold.

Their ``ckpt.pth.tar`` is a pickle of a dict with the weights, the optimiser and a whole loss object
with both banks. Here that pickle is data (`training._torch_archive`). Only the zip format (torch
1.6 and later) is read; the older one, a bare pickle, is refused.

What the authors' networks call their tensors, and what they are called here:

- ``[module.]encoder.*`` -> ``encoder.*``, unchanged: ``conv1``, ``bn1`` and
  ``layer{s}.{i}.conv{k}``, ``.bn{k}`` with s = 1..3, k = 1, 2 in ResNet-32 (no shortcut weights);
  s = 1..4, k = 1..3 and ``layer{s}.0.downsample.{0,1}`` in the large ones, as torchvision has it;
- ``[module.]head.{0,1,3}.*`` -> ``projector.{0,1,3}.*``: linear, batch norm, linear;
- ``[module.]fc.weight``, ``.bias`` -> ``classifier.weight`` [C, d], ``.bias`` [C]. A classifier
  without bias is the cosine one, which they keep as [d, C].

What such a network was trained on the file does not say: the number of classes tells the data set,
and the counts of a bank the imbalance of CIFAR.
"""

from __future__ import annotations

import math
import os
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from resultant._core import tensor_files
from resultant.images.lists import NAMED
from resultant.images.longtail import long_tail_counts
from resultant.losses.bank import START_WEIGHT
from resultant.networks.models import HIDDEN
from resultant.training._torch_archive import (
    Archive,
    PickleInterpreter,
    RefusedError,
    StandIn,
    TensorRecord,
    kind_of,
)
from resultant.training.config import CIFAR, TrainConfig, preset

# The scale of the authors' cosine classifier, which they keep in code.
COSINE_SCALE = 30.0

# |Ave| of float32 unit vectors exceeds one by rounding at most.
LENGTH_TOLERANCE = 1e-3

RENAMED = {"head": "projector", "fc": "classifier"}

# How wide the blocks of the first stage are inside.
BOTTLENECKS = {"resnet50": 64, "resnext50": 128}

# The preset and the data set of each number of classes.
RECIPES = {
    10: ("cifar-official", "cifar10"),
    100: ("cifar-official", "cifar100"),
    1000: ("imagenet-lt", "imagenet-lt"),
    8142: ("inaturalist18", "inaturalist18"),
    365: ("imagenet-lt", "places-lt"),
}
# What timm calls the architectures, and how wide the projectors of such networks are inside.
TIMM = {"resnet32": "resnet32", "resnet50": "resnet50", "resnext50": "resnext50_32x4d"}
WIDTHS = {"resnet32": HIDDEN, "resnet50": 2048, "resnext50": 2048}

# Imbalances of CIFAR in use, the images of its training set, and those of a batch.
IMBALANCES = (1.0, 10.0, 20.0, 50.0, 100.0, 200.0)
CIFAR_IMAGES = 50_000
BATCH = 256


@dataclass(frozen=True, eq=False)
class BankState:
    """One bank: running means ``mean`` [C, p], ``count`` [C] int64, and ``kappa`` [C] as stored.

    The authors keep kappa up to date in the old bank only. A class without samples has their
    random start of length 0.9 for a mean.
    """

    mean: Tensor
    count: Tensor
    kappa: Tensor | None

    @property
    def sums(self) -> Tensor:
        """Sums and, last, counts [C, p + 1] float64, as `ProCoBank` keeps them: a
        class without samples has its random start, of a weight that is next to nothing."""
        weight = torch.where(self.count == 0, START_WEIGHT, self.count.double()).unsqueeze(-1)
        return torch.cat([self.mean.double() * weight, weight], -1)


@dataclass(frozen=True, eq=False)
class ProCoCheckpoint:
    """A checkpoint: ``weights`` under this package's names in float32 (batch counters int64).

    ``arch`` is resnet32, resnet50 or resnext50, found from the shapes as are ``num_classes`` and
    ``dim``; ``classifier`` is linear or cosine. ``best_accuracy`` is in percent, as stored.
    ``old`` and ``new`` are the banks, None if the file has no loss object.
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
        """That of the CIFAR subset it was trained on, None where the bank does not tell."""
        return None if self.new is None else imbalance_of(self.new.count)


def read_proco_checkpoint(path: str | os.PathLike[str]) -> ProCoCheckpoint:
    """Read a checkpoint of the authors; any other file is a ValueError that names it.

    Nothing of the file is executed, and no more memory is taken than the file is long, a few times.
    """
    if os.path.isdir(path):
        raise ValueError(f"expected a checkpoint of ProCo, got a folder: {os.fspath(path)}")
    with open(path, "rb") as file:
        try:
            if file.read(2) != b"PK":
                got = "something else (torch.save's older format is a bare pickle, and not read)"
                raise RefusedError(f"expected a zip archive of torch.save, got {got}")
            with zipfile.ZipFile(file) as archive:
                return _read(Archive(archive, os.fstat(file.fileno()).st_size))
        except RefusedError as error:
            reason = str(error)
        except (
            zipfile.BadZipFile,
            OSError,
            EOFError,
            RuntimeError,
            ValueError,
            struct.error,
        ) as error:
            # All that zipfile says of broken, encrypted and unknown entries.
            reason = f"expected a whole zip archive, got a broken one ({error})"
    raise ValueError(f"cannot read {os.fspath(path)} as a checkpoint of ProCo: {reason}")


def convert(path: str | os.PathLike[str], out: str | os.PathLike[str]) -> ProCoCheckpoint:
    """Write a checkpoint of the authors as safetensors, and return it.

    The file is as `checkpoints.save_run` writes them: weights under their names here, banks
    as ``bank.old`` and ``bank.new`` [C, p + 1]. What else is known is JSON in its header, under
    ``proco``. A file of that name is replaced only by a whole one. Refused is what
    `extract.load_network` would not take: another number of classes or projector.
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
        facts["classifier_scale"] = COSINE_SCALE
    tensor_files.save(out, tensors, {"proco": facts, "num_classes": read.num_classes})
    return read


def _require_network(read: ProCoCheckpoint, where: str) -> None:
    """Raise unless there is such a network here, of these shapes and this number of classes."""
    recipe(read.arch, read.dim, read.num_classes, where)
    hidden, wanted = len(read.weights["projector.0.bias"]), WIDTHS[read.arch]
    if hidden != wanted:
        rule = f"expected a projector of hidden width {wanted} for {read.arch}"
        raise ValueError(f"{rule}, got {hidden} in {where}")


def recipe(
    arch: str, dim: int, num_classes: int, where: str, imbalance: float | None = None
) -> TrainConfig:
    """The preset that fits the checkpoint ``where``, of its own imbalance if that is known."""
    if num_classes not in RECIPES:
        known = ", ".join(f"{number} ({name})" for number, (_, name) in RECIPES.items())
        rule = f"expected a number of classes among {known}"
        raise ValueError(f"{rule}, got {num_classes} in {where}")
    name, dataset = RECIPES[num_classes]
    if (arch == "resnet32") != (dataset in CIFAR):
        wanted = "resnet32" if dataset in CIFAR else "resnet50 or resnext50"
        rule = f"expected {wanted} for the {num_classes} classes of {dataset}"
        raise ValueError(f"{rule}, got {arch} in {where}")
    changes: dict[str, Any] = {} if imbalance is None else {"imbalance": imbalance}
    return preset(name, dataset=dataset, architecture=TIMM[arch], dim=dim, **changes)


def imbalance_of(count: Tensor) -> float | None:
    """The imbalance whose subset of CIFAR the counts [C] of a bank are of, None if of none.

    A bank counts every view of an image, of all of a subset or of what fills whole batches.
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


def _told(root: object) -> str:
    """What arrived in place of a dict with state_dict, itself a dict."""
    if not isinstance(root, dict):
        return kind_of(root)
    if "state_dict" in root:
        return f"state_dict of type {kind_of(root['state_dict'])}"
    names = [f"{name!r:.80}" if isinstance(name, str) else kind_of(name) for name in root]
    more = ", ..." if len(names) > NAMED else ""
    return f"one with {', '.join(names[:NAMED])}{more}" if names else "an empty one"


def _read(archive: Archive) -> ProCoCheckpoint:
    root = PickleInterpreter().run(archive.pickle())
    if not isinstance(root, dict) or not isinstance(state := root.get("state_dict"), dict):
        raise RefusedError(f"expected a dict with state_dict, itself a dict, got {_told(root)}")
    stored = {str(name).removeprefix("module."): value for name, value in state.items()}
    for name, value in stored.items():
        if not isinstance(value, TensorRecord):
            raise RefusedError(f"expected a tensor as {name!r:.80}, got {kind_of(value)}")
    if len(stored) < len(state):
        raise RefusedError("expected names that differ by more than 'module.'")
    shapes = {name: value.size for name, value in stored.items()}
    arch, num_classes, dim, classifier = _recognize(shapes)
    weights = {}
    for name, value in stored.items():
        first, _, rest = name.partition(".")
        if value.storage.dtype.is_floating_point == (rest.endswith("num_batches_tracked")):
            raise RefusedError(f"expected floating weights, got {value.storage.dtype} for {name}")
        weights[f"{RENAMED.get(first, first)}.{rest}"] = archive.tensor(value)
    if classifier == "cosine":
        weights["classifier.weight"] = weights["classifier.weight"].T.contiguous()
    for name, value in weights.items():
        if not value.isfinite().all():
            raise RefusedError(f"expected finite weights, got others in {name}")
    loss, banks = root.get("criterion_scl"), [None, None]
    if loss is not None:
        names = ("estimator_old", "estimator")
        banks = [_bank(archive, _attribute(loss, n), n, num_classes, dim) for n in names]
    epoch, best = root.get("epoch"), root.get("best_acc1")
    if isinstance(best, TensorRecord) and best.numel == 1:
        best = float(archive.tensor(best))
    if epoch is not None and (isinstance(epoch, bool) or not isinstance(epoch, int)):
        raise RefusedError(f"expected epoch to be an integer, got {kind_of(epoch)}")
    if best is not None and not (isinstance(best, int | float) and math.isfinite(best)):
        raise RefusedError(f"expected best_acc1 to be a finite number, got {kind_of(best)}")
    best = None if best is None else float(best)
    return ProCoCheckpoint(weights, arch, num_classes, dim, classifier, epoch, best, *banks)


def _recognize(shapes: dict[str, tuple[int, ...]]) -> tuple[str, int, int, str]:
    """Architecture, C, p and kind of classifier, if the shapes are all as they should be."""
    for name, rank in (
        *(("encoder.conv1.weight", 4), ("encoder.layer1.0.conv1.weight", 4)),
        *(("head.0.weight", 2), ("head.3.weight", 2), ("fc.weight", 2)),
    ):
        if len(shapes.get(name, ())) != rank:
            got = f"shape {shapes[name]}" if name in shapes else f"none among {len(shapes)} tensors"
            raise RefusedError(f"expected {name} of {rank} dimensions, got {got}")
    stem, first = shapes["encoder.conv1.weight"], shapes["encoder.layer1.0.conv1.weight"]
    found = [arch for arch, width in BOTTLENECKS.items() if first == (width, 64, 1, 1)]
    if stem == (16, 3, 3, 3):
        arch, width = "resnet32", 64
    elif stem == (64, 3, 7, 7) and found:
        arch, width = found[0], 2048
    else:
        rule = "expected the first convolutions of resnet32, resnet50 or resnext50"
        raise RefusedError(f"{rule}, got {stem} and {first}")
    hidden, dim = shapes["head.0.weight"][0], shapes["head.3.weight"][0]
    classifier = "linear" if "fc.bias" in shapes else "cosine"
    num_classes = shapes["fc.weight"][0 if classifier == "linear" else 1]
    expected = {f"encoder.{name}": shape for name, shape in _encoder_shapes(arch)}
    expected |= {"head.0.weight": (hidden, width), "head.0.bias": (hidden,)}
    expected |= dict(_norm("head.1", hidden))
    expected |= {"head.3.weight": (dim, hidden), "head.3.bias": (dim,)}
    if classifier == "linear":
        expected |= {"fc.weight": (num_classes, width), "fc.bias": (num_classes,)}
    else:
        expected |= {"fc.weight": (width, num_classes)}
    for name in sorted(expected.keys() | shapes.keys()):
        wanted, got = expected.get(name, "no such tensor"), shapes.get(name, "none")
        if wanted != got:
            raise RefusedError(f"expected {name!r:.80} of {arch} to be {wanted}, got {got}")
    return arch, num_classes, dim, classifier


def _norm(name: str, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    for part in ("weight", "bias", "running_mean", "running_var"):
        yield f"{name}.{part}", (width,)
    yield f"{name}.num_batches_tracked", ()


def _encoder_shapes(arch: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    small = arch == "resnet32"
    width = 16 if small else 64
    yield "conv1.weight", (width, 3, 3, 3) if small else (width, 3, 7, 7)
    yield from _norm("bn1", width)
    into = width
    for s, blocks in enumerate((5, 5, 5) if small else (3, 4, 6, 3)):
        inner = (16 if small else BOTTLENECKS[arch]) << s
        # ResNeXt's 3 x 3 convolutions come in 32 groups.
        fan = inner // 32 if arch == "resnext50" else inner
        out = inner if small else 256 << s
        for i in range(blocks):
            if small:
                kernels = [(inner, into, 3, 3), (inner, inner, 3, 3)]
            else:
                kernels = [(inner, into, 1, 1), (inner, fan, 3, 3), (out, inner, 1, 1)]
            block = f"layer{s + 1}.{i}"
            for k, kernel in enumerate(kernels, 1):
                yield f"{block}.conv{k}.weight", kernel
                yield from _norm(f"{block}.bn{k}", kernel[0])
            if not small and i == 0:
                yield f"{block}.downsample.0.weight", (out, into, 1, 1)
                yield from _norm(f"{block}.downsample.1", out)
            into = out


def _attribute(owner: object, name: str) -> Any:
    """What a stand-in has under a name, in itself or as a torch module keeps another."""
    if not isinstance(owner, StandIn):
        raise RefusedError(f"expected the object with {name} to be of ProCo, got {kind_of(owner)}")
    inside = owner.state.get("_modules")
    return owner.state.get(name, inside.get(name) if isinstance(inside, dict) else None)


def _bank(archive: Archive, estimator: object, name: str, num_classes: int, dim: int) -> BankState:
    def tensor(part: str, *shape: int) -> Tensor:
        record = _attribute(estimator, part)
        if not isinstance(record, TensorRecord) or record.size != shape:
            got = record.size if isinstance(record, TensorRecord) else kind_of(record)
            raise RefusedError(f"expected {part} of {name} to be a tensor {shape}, got {got}")
        value = archive.tensor(record)
        if not value.isfinite().all():
            raise RefusedError(f"expected finite {part} of {name}, got others")
        return value

    mean, amount = tensor("Ave", num_classes, dim), tensor("Amount", num_classes)
    has_kappa = _attribute(estimator, "kappa") is not None
    kappa = tensor("kappa", num_classes) if has_kappa else None
    length = mean.double().square().sum(-1).sqrt().max()
    if length > 1 + LENGTH_TOLERANCE:
        raise RefusedError(f"expected means of {name} no longer than one, got {float(length):g}")
    count = amount.long()
    if (count != amount).any() or (count < 0).any():
        raise RefusedError(f"expected Amount of {name} to be whole numbers >= 0, got others")
    return BankState(mean, count, kappa)
