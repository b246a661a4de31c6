"""The batches of the official CIFAR archives, which are pickles, read by a restricted reader.

A pickle is a program: it names functions and calls them. A batch needs one array of bytes, lists
of numbers and strings, and nothing else. So the program is read through once, and refused if it
holds any other instruction or name; then it runs with inert stand-ins in the place of NumPy.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from typing import Any

import numpy as np

# What Python 2 and 3 write for dicts, lists, tuples, strings, bytes, small numbers, and an array.
INSTRUCTIONS = (
    "PROTO FRAME STOP MARK PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET NONE NEWTRUE "
    "NEWFALSE INT BININT BININT1 BININT2 STRING BINSTRING SHORT_BINSTRING BINBYTES "
    "SHORT_BINBYTES UNICODE BINUNICODE SHORT_BINUNICODE EMPTY_DICT DICT SETITEM SETITEMS "
    "EMPTY_LIST LIST APPEND APPENDS EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 GLOBAL STACK_GLOBAL "
    "REDUCE BUILD"
)
ALLOWED = frozenset(INSTRUCTIONS.split())
SLOTS = ("PUT", "BINPUT", "LONG_BINPUT")


class _Bytes:
    """Stands for an array of bytes: `_reconstruct` makes it, its state fills it."""

    value: np.ndarray | None = None

    def __init__(self, *ignored: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, data = state
        if not isinstance(dtype, _Dtype) or not isinstance(data, bytes):
            raise ValueError("an array that is not of bytes")
        if not all(isinstance(n, int) and n >= 0 for n in shape) or math.prod(shape) != len(data):
            raise ValueError(f"{len(data)} bytes for an array {shape}")
        self.value = np.frombuffer(data, np.uint8).reshape(shape, order="F" if fortran else "C")


class _Dtype:
    """Stands for the dtype of bytes."""

    def __init__(self, code: Any, *ignored: Any) -> None:
        if code not in (b"u1", "u1"):
            raise ValueError(f"an array of dtype {code!r}")

    def __setstate__(self, state: Any) -> None:
        pass


class _Encode:
    """Stands for ``_codecs.encode``, by which Python 3 writes bytes for Python 2."""

    def __new__(cls, text: Any, encoding: Any) -> Any:
        if not isinstance(text, str) or encoding not in (b"latin1", "latin1"):
            raise ValueError("bytes in another encoding than latin1")
        return text.encode("latin1")

    def __setstate__(self, state: Any) -> None:
        raise ValueError("a state for bytes")


NAMES = {
    ("numpy.core.multiarray", "_reconstruct"): _Bytes,
    ("numpy._core.multiarray", "_reconstruct"): _Bytes,
    ("numpy", "ndarray"): _Bytes,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _Encode,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        try:
            return NAMES[module_name, global_name]
        except KeyError:
            raise ValueError(f"the name {module_name}.{global_name}") from None


def read_batch(data: bytes, where: str) -> tuple[np.ndarray, dict[str, list[Any]]]:
    """The pixels [N, 3072] uint8 of a batch and its lists, by name."""
    rule = f"expected {where} to be a CIFAR batch (a dict of an array of bytes, and of lists)"
    try:
        for instruction, argument, place in pickletools.genops(data):
            if instruction.name not in ALLOWED:
                raise ValueError(f"the instruction {instruction.name} at byte {place}")
            # A slot of the memo costs memory up to its number.
            if instruction.name in SLOTS and not 0 <= int(argument or 0) <= len(data):
                raise ValueError(f"slot {argument} of the memo at byte {place}")
        # Keys are bytes in Python 2's files, str in Python 3's.
        content = _Reader(io.BytesIO(data), encoding="bytes").load()
    except RecursionError:
        raise ValueError(f"{rule}, got one nested too deep") from None
    except Exception as error:
        # Whatever a malformed program runs into.
        raise ValueError(f"{rule}, got: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{rule}, got {type(content).__name__}")
    named = {k.decode("latin1") if isinstance(k, bytes) else k: v for k, v in content.items()}
    pixels = named.get("data")
    pixels = pixels.value if isinstance(pixels, _Bytes) else None
    if pixels is None or pixels.ndim != 2 or pixels.shape[1] != 3072:
        got = "no array" if pixels is None else f"{pixels.shape}"
        raise ValueError(f"{rule} with data [N, 3072], got {got}")
    lists = {k: v for k, v in named.items() if isinstance(k, str) and isinstance(v, list)}
    return pixels, lists
