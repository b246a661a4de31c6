r"""The public checkpoints of ProCo's authors, read without running anything that they hold.

Their ``ckpt.pth.tar`` is a pickle of a dict with the weights, the optimiser and a whole loss object
with both banks. Here that pickle is data: a small machine goes through its instructions, knows the
few that ``torch.save`` writes, and never imports or calls a name that the file gives. Names outside
`HANDLERS`, `DTYPES` and `STAND_INS` are refused. Only the zip format (torch 1.6 and later) is read;
the older one, a bare pickle, is refused.

What the authors' networks call their tensors, and what they are called here:

- ``[module.]encoder.*`` -> ``encoder.*``, unchanged: ``conv1``, ``bn1`` and
  ``layer{s}.{i}.conv{k}``, ``.bn{k}`` with s = 1..3, k = 1, 2 in ResNet-32 (no shortcut weights);
  s = 1..4, k = 1..3 and ``layer{s}.0.downsample.{0,1}`` in the large ones, as torchvision has it;
- ``[module.]head.{0,1,3}.*`` -> ``projector.{0,1,3}.*``: linear, batch norm, linear;
- ``[module.]fc.weight``, ``.bias`` -> ``classifier.weight`` [C, d], ``.bias`` [C]. A classifier
  without bias is the cosine one, which they keep as [d, C].
"""

from __future__ import annotations

import json
import math
import os
import pickletools
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

FORMAT = "resultant.ProCoCheckpoint 1"

# The scale of the authors' cosine classifier, which they keep in code.
COSINE_SCALE = 30.0

# Far above the few hundred kilobytes of a real one.
MAX_PICKLE_BYTES = 1 << 24

# |Ave| of float32 unit vectors exceeds one by rounding at most.
LENGTH_TOLERANCE = 1e-3

DTYPES = {
    "torch DoubleStorage": torch.float64,
    "torch FloatStorage": torch.float32,
    "torch HalfStorage": torch.float16,
    "torch BFloat16Storage": torch.bfloat16,
    "torch LongStorage": torch.int64,
    "torch IntStorage": torch.int32,
    "torch ByteStorage": torch.uint8,
    "torch BoolStorage": torch.bool,
}

STAND_INS = ("loss.proco ProCoLoss", "loss.proco EstimatorCV")

RENAMED = {"head": "projector", "fc": "classifier"}

# How wide the blocks of the first stage are inside.
BOTTLENECKS = {"resnet50": 64, "resnext50": 128}


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
    def sum(self) -> Tensor:
        """Sums [C, p] of the features, float64; zero where there were none."""
        return self.mean.double() * self.count.unsqueeze(-1)


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


class _RefusedError(ValueError):
    """What is wrong with a file, to be told with its name."""


def read_proco_checkpoint(path: str | os.PathLike[str]) -> ProCoCheckpoint:
    """Read a checkpoint of the authors; any other file is a ValueError that names it.

    Nothing of the file is executed, and no more memory is taken than the file is long, a few times.
    """
    with open(path, "rb") as file:
        try:
            if file.read(2) != b"PK":
                got = "something else (torch.save's older format is a bare pickle, and not read)"
                raise _RefusedError(f"expected a zip archive of torch.save, got {got}")
            with zipfile.ZipFile(file) as archive:
                return _read(_Archive(archive, os.fstat(file.fileno()).st_size))
        except _RefusedError as error:
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

    Weights stand under their names here, banks as ``bank.{old,new}_sum`` [C, p] float64 and
    ``bank.{old,new}_count`` [C] int64; the rest is JSON under ``checkpoint`` in the header. A file
    of that name is replaced only by a whole one.
    """
    checkpoint = read_proco_checkpoint(path)
    tensors = dict(checkpoint.weights)
    for name, bank in (("old", checkpoint.old), ("new", checkpoint.new)):
        if bank is not None:
            tensors |= {f"bank.{name}_sum": bank.sum, f"bank.{name}_count": bank.count}
    names = ("arch", "num_classes", "dim", "classifier", "epoch", "best_accuracy")
    facts = {name: getattr(checkpoint, name) for name in names}
    if checkpoint.classifier == "cosine":
        facts["classifier_scale"] = COSINE_SCALE
    out = Path(out)
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        save_file(tensors, temporary, {"format": FORMAT, "checkpoint": json.dumps(facts)})
        os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)
    return checkpoint


def _read(archive: _Archive) -> ProCoCheckpoint:
    root = _Machine().run(archive.pickle())
    if not isinstance(root, dict) or not isinstance(state := root.get("state_dict"), dict):
        raise _RefusedError("expected a dict with state_dict, itself a dict")
    stored = {str(name).removeprefix("module."): value for name, value in state.items()}
    for name, value in stored.items():
        if not isinstance(value, _TensorRecord):
            raise _RefusedError(f"expected a tensor as {name!r:.80}, got {_kind(value)}")
    if len(stored) < len(state):
        raise _RefusedError("expected names that differ by more than 'module.'")
    shapes = {name: value.size for name, value in stored.items()}
    arch, num_classes, dim, classifier = _recognize(shapes)
    weights = {}
    for name, value in stored.items():
        first, _, rest = name.partition(".")
        if value.storage.dtype.is_floating_point == (rest.endswith("num_batches_tracked")):
            raise _RefusedError(f"expected floating weights, got {value.storage.dtype} for {name}")
        weights[f"{RENAMED.get(first, first)}.{rest}"] = archive.tensor(value)
    if classifier == "cosine":
        weights["classifier.weight"] = weights["classifier.weight"].T.contiguous()
    for name, value in weights.items():
        if not value.isfinite().all():
            raise _RefusedError(f"expected finite weights, got others in {name}")
    loss, banks = root.get("criterion_scl"), [None, None]
    if loss is not None:
        names = ("estimator_old", "estimator")
        banks = [_bank(archive, _attribute(loss, n), n, num_classes, dim) for n in names]
    epoch, best = root.get("epoch"), root.get("best_acc1")
    if isinstance(best, _TensorRecord) and best.numel == 1:
        best = float(archive.tensor(best))
    if epoch is not None and (isinstance(epoch, bool) or not isinstance(epoch, int)):
        raise _RefusedError(f"expected epoch to be an integer, got {_kind(epoch)}")
    if best is not None and not (isinstance(best, int | float) and math.isfinite(best)):
        raise _RefusedError(f"expected best_acc1 to be a finite number, got {_kind(best)}")
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
            raise _RefusedError(f"expected {name} of {rank} dimensions, got {got}")
    stem, first = shapes["encoder.conv1.weight"], shapes["encoder.layer1.0.conv1.weight"]
    found = [arch for arch, width in BOTTLENECKS.items() if first == (width, 64, 1, 1)]
    if stem == (16, 3, 3, 3):
        arch, width = "resnet32", 64
    elif stem == (64, 3, 7, 7) and found:
        arch, width = found[0], 2048
    else:
        rule = "expected the first convolutions of resnet32, resnet50 or resnext50"
        raise _RefusedError(f"{rule}, got {stem} and {first}")
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
            raise _RefusedError(f"expected {name!r:.80} of {arch} to be {wanted}, got {got}")
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
    if not isinstance(owner, _StandIn):
        raise _RefusedError(f"expected the object with {name} to be of ProCo, got {_kind(owner)}")
    inside = owner.state.get("_modules")
    return owner.state.get(name, inside.get(name) if isinstance(inside, dict) else None)


def _bank(archive: _Archive, estimator: object, name: str, num_classes: int, dim: int) -> BankState:
    def tensor(part: str, *shape: int) -> Tensor:
        record = _attribute(estimator, part)
        if not isinstance(record, _TensorRecord) or record.size != shape:
            got = record.size if isinstance(record, _TensorRecord) else _kind(record)
            raise _RefusedError(f"expected {part} of {name} to be a tensor {shape}, got {got}")
        value = archive.tensor(record)
        if not value.isfinite().all():
            raise _RefusedError(f"expected finite {part} of {name}, got others")
        return value

    mean, amount = tensor("Ave", num_classes, dim), tensor("Amount", num_classes)
    has_kappa = _attribute(estimator, "kappa") is not None
    kappa = tensor("kappa", num_classes) if has_kappa else None
    length = mean.double().square().sum(-1).sqrt().max()
    if length > 1 + LENGTH_TOLERANCE:
        raise _RefusedError(f"expected means of {name} no longer than one, got {float(length):g}")
    count = amount.long()
    if (count != amount).any() or (count < 0).any():
        raise _RefusedError(f"expected Amount of {name} to be whole numbers >= 0, got others")
    return BankState(mean, count, kappa)


@dataclass(frozen=True)
class _Storage:
    key: str
    dtype: torch.dtype
    numel: int


@dataclass(frozen=True)
class _TensorRecord:
    """A tensor as the pickle describes it, before any of its bytes are read."""

    storage: _Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    @property
    def numel(self) -> int:
        return math.prod(self.size)


class _Archive:
    """The zip file: one pickle, and a stored (not compressed) entry for each storage."""

    def __init__(self, archive: zipfile.ZipFile, length: int) -> None:
        self.archive, self.budget = archive, length
        self.entries = {entry.filename: entry for entry in archive.infolist()}
        if len(self.entries) < len(archive.infolist()):
            raise _RefusedError("expected entries of different names, got one twice")
        pickles = [name for name in self.entries if name.endswith("/data.pkl")]
        if len(pickles) != 1 or pickles[0].count("/") != 1:
            raise _RefusedError(f"expected one data.pkl, got {len(pickles)}")
        self.root = pickles[0].removesuffix("data.pkl")
        if self.root + "byteorder" in self.entries and self.bytes("byteorder", 6) != b"little":
            raise _RefusedError("expected little-endian storages, got others")

    def bytes(self, name: str, length: int | None = None) -> bytes:
        entry = self.entries.get(self.root + name)
        if entry is None:
            raise _RefusedError(f"expected an entry {name}, got none")
        size = entry.file_size
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != size:
            raise _RefusedError(f"expected {name} stored as it is, got it compressed")
        if length is not None and size != length:
            raise _RefusedError(f"expected {length} bytes of {name}, got {size}")
        return self.archive.read(entry)

    def pickle(self) -> bytes:
        size = self.entries[self.root + "data.pkl"].file_size
        if size > MAX_PICKLE_BYTES:
            raise _RefusedError(
                f"expected data.pkl of at most {MAX_PICKLE_BYTES} bytes, got {size}"
            )
        return self.bytes("data.pkl")

    def tensor(self, record: _TensorRecord) -> Tensor:
        """Its values: floating ones in float32, others in int64."""
        storage = record.storage
        # Many tensors may share a storage, and so be longer together than the file.
        self.budget -= record.numel * storage.dtype.itemsize
        if self.budget < 0:
            raise _RefusedError("expected tensors that fit in the file, got more")
        data = self.bytes(f"data/{storage.key}", storage.numel * storage.dtype.itemsize)
        dtype = torch.float32 if storage.dtype.is_floating_point else torch.int64
        if not record.numel:
            return torch.empty(record.size, dtype=dtype)
        flat = torch.frombuffer(bytearray(data), dtype=storage.dtype)
        view = flat.as_strided(record.size, record.stride, record.offset)
        return view.to(dtype).clone(memory_format=torch.contiguous_format)


@dataclass(frozen=True)
class _Name:
    """A global of the pickle, never looked up."""

    name: str


@dataclass(eq=False)
class _StandIn:
    """An object of the authors' loss: its attributes, and nothing that acts."""

    state: dict[Any, Any]


@dataclass(eq=False)
class _NumpyType:
    code: str


def _kind(value: object) -> str:
    return type(value).__name__.lstrip("_")


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise _RefusedError(f"expected {what}, got something else")


def _whole(values: object) -> bool:
    return isinstance(values, tuple) and all(type(v) is int and 0 <= v < 1 << 48 for v in values)


def _tensor_record(storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> _TensorRecord:
    _require(isinstance(storage, _Storage), "a tensor to have a storage")
    _require(_whole((offset,)) and _whole(size) and _whole(stride), "tensor sizes >= 0")
    _require(len(size) == len(stride) <= 8, "as many strides as sizes")
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    numel = math.prod(size)
    inside = not numel or (last < storage.numel and numel <= storage.numel)
    _require(inside, "a tensor inside its storage")
    return _TensorRecord(storage, offset, size, stride)


def _parameter(data: Any, *_: Any) -> _TensorRecord:
    _require(isinstance(data, _TensorRecord), "a parameter to be a tensor")
    return data


def _collection(*arguments: Any) -> dict[Any, Any]:
    _require(not arguments, "an OrderedDict to be filled after it is made")
    return {}


def _set(items: Any) -> tuple[Any, ...]:
    _require(isinstance(items, list), "a set of a list")
    return tuple(items)


def _encoded(text: Any, encoding: Any, *_: Any) -> bytes:
    _require(isinstance(text, str) and encoding == "latin1", "text in latin1")
    return text.encode("latin1", "replace")


def _numpy_type(code: Any, *_: Any) -> _NumpyType:
    _require(code in ("f8", "f4", "i8", "i4"), "a NumPy number of four or eight bytes")
    return _NumpyType(code)


def _numpy_scalar(kind: Any, data: Any, *_: Any) -> float:
    _require(isinstance(kind, _NumpyType) and isinstance(data, bytes), "a NumPy scalar")
    layout = {"f8": "<d", "f4": "<f", "i8": "<q", "i4": "<i"}[kind.code]
    _require(len(data) == struct.calcsize(layout), "a NumPy scalar of its length")
    return struct.unpack(layout, data)[0]


# What stands for each function that a file may ask for.
HANDLERS: dict[str, Callable[..., object]] = {
    "torch._utils _rebuild_tensor_v2": _tensor_record,
    "torch._utils _rebuild_parameter": _parameter,
    "collections OrderedDict": _collection,
    "__builtin__ set": _set,
    "builtins set": _set,
    "_codecs encode": _encoded,
    "numpy dtype": _numpy_type,
    "numpy.core.multiarray scalar": _numpy_scalar,
    "numpy._core.multiarray scalar": _numpy_scalar,
}


def _storage(identity: object) -> _Storage:
    """The storage of a persistent identity ("storage", type, key, location, numel)."""
    whole = isinstance(identity, tuple) and len(identity) == 5 and identity[0] == "storage"
    _require(whole, "a storage as torch.save names it")
    _, kind, key, _, numel = identity  # pyright: ignore[reportGeneralTypeIssues]
    _require(isinstance(kind, _Name) and kind.name in DTYPES, "a known type of storage")
    _require(isinstance(key, str) and key.isdecimal() and key.isascii(), "a storage key of digits")
    _require(_whole((numel,)), "a storage length >= 0")
    return _Storage(key, DTYPES[kind.name], numel)


class _Machine:
    """The pickle instructions that torch.save writes (protocol 2), carried out on inert data."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.outer: list[list[Any]] = []
        self.memo: dict[int, Any] = {}

    def run(self, program: bytes) -> object:
        try:
            for opcode, argument, _ in pickletools.genops(program):
                if opcode.name == "STOP":
                    return self.stack.pop()
                self.step(opcode.name, argument)
        except _RefusedError:
            raise
        except (ValueError, LookupError, TypeError, OverflowError, struct.error) as error:
            got = f"a broken one ({type(error).__name__})"
            raise _RefusedError(f"expected a whole pickle of torch.save, got {got}") from None
        raise _RefusedError("expected a pickle that ends, got none")

    def step(self, opcode: str, argument: Any) -> None:
        match opcode:
            case "PROTO":
                _require(argument == 2, "pickle protocol 2")
            case "NONE" | "BININT" | "BININT1" | "BININT2" | "LONG1" | "BINFLOAT" | "BINUNICODE":
                self.stack.append(argument)
            case "NEWTRUE" | "NEWFALSE":
                self.stack.append(opcode == "NEWTRUE")
            case "EMPTY_DICT":
                self.stack.append({})
            case "EMPTY_LIST":
                self.stack.append([])
            case "MARK":
                self.outer.append(self.stack)
                self.stack = []
            case "EMPTY_TUPLE":
                self.stack.append(())
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                items = [self.stack.pop() for _ in range(int(opcode[-1]))]
                self.stack.append(tuple(reversed(items)))
            case "TUPLE":
                items = self.marked()
                self.stack.append(tuple(items))
            case "APPEND":
                self.extend([self.stack.pop()])
            case "APPENDS":
                self.extend(self.marked())
            case "SETITEM":
                value, key = self.stack.pop(), self.stack.pop()
                self.fill([key, value])
            case "SETITEMS":
                self.fill(self.marked())
            case "BINPUT" | "LONG_BINPUT":
                self.memo[argument] = self.stack[-1]
            case "BINGET" | "LONG_BINGET":
                self.stack.append(self.memo[argument])
            case "BINPERSID":
                self.stack.append(_storage(self.stack.pop()))
            case "GLOBAL":
                if argument not in (*HANDLERS, *DTYPES, *STAND_INS):
                    rule = "expected names that a checkpoint of ProCo needs"
                    raise _RefusedError(f"{rule}, got the global {argument!r:.80}")
                self.stack.append(_Name(argument))
            case "NEWOBJ" | "REDUCE":
                self.make(opcode, arguments=self.stack.pop(), maker=self.stack.pop())
            case "BUILD":
                self.build(self.stack.pop())
            case _:
                raise _RefusedError(f"expected the instructions of torch.save, got {opcode}")

    def marked(self) -> list[Any]:
        items, self.stack = self.stack, self.outer.pop()
        return items

    def extend(self, items: list[Any]) -> None:
        _require(isinstance(self.stack[-1], list), "a list to append to")
        self.stack[-1].extend(items)

    def fill(self, items: list[Any]) -> None:
        _require(isinstance(self.stack[-1], dict), "a dict to fill")
        keys = items[::2]
        # Of tuples in tuples a hash could take for ever.
        _require(all(isinstance(key, str | int) for key in keys), "keys of text or integers")
        self.stack[-1].update(zip(keys, items[1::2], strict=True))

    def make(self, opcode: str, arguments: Any, maker: Any) -> None:
        _require(isinstance(maker, _Name) and isinstance(arguments, tuple), "a name to be called")
        if opcode == "REDUCE" and maker.name in HANDLERS:
            self.stack.append(HANDLERS[maker.name](*arguments))
        elif opcode == "NEWOBJ" and maker.name in STAND_INS and not arguments:
            self.stack.append(_StandIn({}))
        else:
            raise _RefusedError(
                f"expected no {opcode} of {maker.name} with {len(arguments)} arguments"
            )

    def build(self, state: Any) -> None:
        """Attributes of the object on top, which only stand-ins keep."""
        match self.stack[-1]:
            case _StandIn() as owner if isinstance(state, dict):
                owner.state.update(state)
            case dict() if isinstance(state, dict):
                pass  # the _metadata of a state_dict
            case _NumpyType():
                little = isinstance(state, tuple) and len(state) > 1 and state[1] == "<"
                _require(little, "little-endian NumPy scalars")
            case other:
                raise _RefusedError(f"expected no attributes for {_kind(other)}")
