"""Files of ``torch.save``, read without executing anything in them.

The file is a zip archive of a pickle and of storages. `PickleInterpreter` carries out the few
instructions that ``torch.save`` writes on inert data, and never imports or calls a name from the
file. Names outside `HANDLERS`, `DTYPES` and `STAND_INS` are refused.

``torch.load(weights_only=True)`` reads such files too, but does not protect from a hostile one: it
inflates compressed entries, ignores checksums, calls ``bytearray(n)`` for any n, and hashes tuples
of tuples without end.
"""

from __future__ import annotations

import math
import pickletools
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

# Several times the few hundred kilobytes of a real one. An instruction takes a byte or more, a few
# microseconds, and at most some tens of bytes of memory.
MAX_PICKLE_BYTES = 1 << 20

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

# Classes of ProCo's loss; only their attributes are kept.
STAND_INS = ("loss.proco ProCoLoss", "loss.proco EstimatorCV")


class RefusedError(ValueError):
    """A reason why a file is refused; the caller adds the name of the file."""


@dataclass(frozen=True)
class _Storage:
    key: str
    dtype: torch.dtype
    numel: int


@dataclass(frozen=True)
class TensorRecord:
    """A tensor as the pickle describes it, before its bytes are read."""

    storage: _Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    @property
    def numel(self) -> int:
        return math.prod(self.size)


class Archive:
    """The zip file: one pickle, and an uncompressed entry for each storage."""

    def __init__(self, archive: zipfile.ZipFile, length: int) -> None:
        self.archive, self.budget = archive, length
        self.entries = {entry.filename: entry for entry in archive.infolist()}
        if len(self.entries) < len(archive.infolist()):
            raise RefusedError("expected entries of different names, got one twice")
        pickles = [name for name in self.entries if name.endswith("/data.pkl")]
        if len(pickles) != 1 or pickles[0].count("/") != 1:
            raise RefusedError(f"expected one data.pkl, got {len(pickles)}")
        self.root = pickles[0].removesuffix("data.pkl")
        if self.root + "byteorder" in self.entries and self.bytes("byteorder", 6) != b"little":
            raise RefusedError("expected little-endian storages, got others")

    def bytes(self, name: str, length: int | None = None) -> bytes:
        entry = self.entries.get(self.root + name)
        if entry is None:
            raise RefusedError(f"expected an entry {name}, got none")
        size = entry.file_size
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != size:
            raise RefusedError(f"expected {name} stored as it is, got it compressed")
        if length is not None and size != length:
            raise RefusedError(f"expected {length} bytes of {name}, got {size}")
        return self.archive.read(entry)

    def pickle(self) -> bytes:
        size = self.entries[self.root + "data.pkl"].file_size
        if size > MAX_PICKLE_BYTES:
            raise RefusedError(f"expected data.pkl of at most {MAX_PICKLE_BYTES} bytes, got {size}")
        return self.bytes("data.pkl")

    def tensor(self, record: TensorRecord) -> Tensor:
        """Read the values of a tensor: floating ones as float32, others as int64."""
        storage = record.storage
        # Tensors that share a storage may be longer together than the file.
        self.budget -= record.numel * storage.dtype.itemsize
        if self.budget < 0:
            raise RefusedError("expected tensors that fit in the file, got more")
        data = self.bytes(f"data/{storage.key}", storage.numel * storage.dtype.itemsize)
        dtype = torch.float32 if storage.dtype.is_floating_point else torch.int64
        if not record.numel:
            return torch.empty(record.size, dtype=dtype)
        flat = torch.frombuffer(bytearray(data), dtype=storage.dtype)
        view = flat.as_strided(record.size, record.stride, record.offset)
        return view.to(dtype).clone(memory_format=torch.contiguous_format)


@dataclass(frozen=True)
class _Global:
    """A global of the pickle, which is never imported."""

    name: str


@dataclass(eq=False)
class StandIn:
    """An object of the authors' loss: its attributes, without methods."""

    state: dict[Any, Any]


@dataclass(eq=False)
class _NumpyType:
    code: str


def kind_of(value: object) -> str:
    """Return the name of the type of a value."""
    return type(value).__name__.lstrip("_")


def _require(condition: bool, rule: str) -> None:
    if not condition:
        raise RefusedError(f"expected {rule}, got something else")


def _whole(values: object) -> bool:
    return isinstance(values, tuple) and all(type(v) is int and 0 <= v < 1 << 48 for v in values)


def _tensor_record(storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> TensorRecord:
    _require(isinstance(storage, _Storage), "a tensor to have a storage")
    _require(_whole((offset,)) and _whole(size) and _whole(stride), "tensor sizes >= 0")
    _require(len(size) == len(stride) <= 8, "as many strides as sizes")
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    numel = math.prod(size)
    inside = not numel or (last < storage.numel and numel <= storage.numel)
    _require(inside, "a tensor inside its storage")
    return TensorRecord(storage, offset, size, stride)


def _parameter(data: Any, *_: Any) -> TensorRecord:
    _require(isinstance(data, TensorRecord), "a parameter to be a tensor")
    return data


def _collection(*arguments: Any) -> dict[Any, Any]:
    _require(not arguments, "an OrderedDict to be filled after its creation")
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


# Substitutes for the functions that a file may name.
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


NAMES = frozenset((*HANDLERS, *DTYPES, *STAND_INS))


def _storage(identity: object) -> _Storage:
    """Return the storage of a persistent identity ("storage", type, key, location, numel)."""
    whole = isinstance(identity, tuple) and len(identity) == 5 and identity[0] == "storage"
    _require(whole, "a storage as torch.save names it")
    _, kind, key, _, numel = identity  # pyright: ignore[reportGeneralTypeIssues]
    _require(isinstance(kind, _Global) and kind.name in DTYPES, "a known type of storage")
    _require(isinstance(key, str) and key.isdecimal() and key.isascii(), "a storage key of digits")
    _require(_whole((numel,)), "a storage length >= 0")
    return _Storage(key, DTYPES[kind.name], numel)


class PickleInterpreter:
    """The pickle instructions that torch.save writes (protocol 2), on inert data."""

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
        except RefusedError:
            raise
        except (ValueError, LookupError, TypeError, OverflowError, struct.error) as error:
            got = f"a broken one ({type(error).__name__})"
            raise RefusedError(f"expected a whole pickle of torch.save, got {got}") from None
        raise RefusedError("expected a pickle that ends, got none")

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
                if argument not in NAMES:
                    rule = "expected names that a checkpoint of ProCo needs"
                    raise RefusedError(f"{rule}, got the global {argument!r:.80}")
                self.stack.append(_Global(argument))
            case "NEWOBJ" | "REDUCE":
                self.call(opcode, arguments=self.stack.pop(), function=self.stack.pop())
            case "BUILD":
                self.build(self.stack.pop())
            case _:
                raise RefusedError(f"expected the instructions of torch.save, got {opcode}")

    def marked(self) -> list[Any]:
        items, self.stack = self.stack, self.outer.pop()
        return items

    def extend(self, items: list[Any]) -> None:
        _require(isinstance(self.stack[-1], list), "a list to append to")
        self.stack[-1].extend(items)

    def fill(self, items: list[Any]) -> None:
        _require(isinstance(self.stack[-1], dict), "a dict to fill")
        keys = items[::2]
        # The hash of tuples in tuples might never end.
        _require(all(isinstance(key, str | int) for key in keys), "keys of text or integers")
        self.stack[-1].update(zip(keys, items[1::2], strict=True))

    def call(self, opcode: str, arguments: Any, function: Any) -> None:
        named = isinstance(function, _Global) and isinstance(arguments, tuple)
        _require(named, "a name to be called")
        if opcode == "REDUCE" and function.name in HANDLERS:
            self.stack.append(HANDLERS[function.name](*arguments))
        elif opcode == "NEWOBJ" and function.name in STAND_INS and not arguments:
            self.stack.append(StandIn({}))
        else:
            got = f"{opcode} of {function.name} with {len(arguments)} arguments"
            raise RefusedError(f"expected a call that torch.save writes, got {got}")

    def build(self, state: Any) -> None:
        """Set the attributes of the object on top; only stand-ins keep them."""
        match self.stack[-1]:
            case StandIn() as owner if isinstance(state, dict):
                owner.state.update(state)
            case dict() if isinstance(state, dict):
                # The _metadata of a state_dict.
                pass
            case _NumpyType():
                little = isinstance(state, tuple) and len(state) > 1 and state[1] == "<"
                _require(little, "little-endian NumPy scalars")
            case other:
                raise RefusedError(
                    f"expected attributes of a stand-in, got those of {kind_of(other)}"
                )
