"""Restricted reader of the batches in the official CIFAR archives, which are pickles.

A pickle is a program that names functions and calls them. A batch needs one array of bytes, and
lists of numbers and strings. A batch with any other instruction or name is rejected before it runs,
and stand-ins take the place of NumPy.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from typing import Any

import numpy as np

# Instructions of Python 2 and 3 for dicts, lists, tuples, strings, bytes, integers and an array.
INSTRUCTIONS = (
    "PROTO FRAME STOP MARK PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET NONE NEWTRUE "
    "NEWFALSE INT BININT BININT1 BININT2 STRING BINSTRING SHORT_BINSTRING BINBYTES "
    "SHORT_BINBYTES UNICODE BINUNICODE SHORT_BINUNICODE EMPTY_DICT DICT SETITEM SETITEMS "
    "EMPTY_LIST LIST APPEND APPENDS EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 GLOBAL STACK_GLOBAL "
    "REDUCE BUILD"
)
ALLOWED = frozenset(INSTRUCTIONS.split())


class _Bytes:
    """Array of bytes, created by `_reconstruct` and filled by its state."""

    value: np.ndarray | None = None

    def __init__(self, *_: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, data = state
        if not isinstance(dtype, _Dtype) or not isinstance(data, bytes):
            raise ValueError("an array that is not of bytes")
        if not all(isinstance(n, int) and n >= 0 for n in shape) or math.prod(shape) != len(data):
            raise ValueError(f"{len(data)} bytes for an array {shape}")
        self.value = np.frombuffer(data, np.uint8).reshape(shape, order="F" if fortran else "C")


class _Dtype:
    def __init__(self, code: Any, *_: Any) -> None:
        if code not in (b"u1", "u1"):
            raise ValueError(f"an array of dtype {code!r}")

    def __setstate__(self, state: Any) -> None:
        pass


class _Encode:
    """``_codecs.encode``, used by Python 3 to write bytes for Python 2."""

    def __new__(cls, text: Any, encoding: Any) -> Any:
        if not isinstance(text, str) or encoding not in (b"latin1", "latin1"):
            raise ValueError("bytes in another encoding than latin1")
        return text.encode("latin1")

    # Without it, a state would change the attributes of this class.
    __setstate__ = _Dtype.__setstate__


NAMES = {
    ("numpy.core.multiarray", "_reconstruct"): _Bytes,
    ("numpy._core.multiarray", "_reconstruct"): _Bytes,
    ("numpy", "ndarray"): _Bytes,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _Encode,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        if (module_name, global_name) not in NAMES:
            raise ValueError(f"the name {module_name}.{global_name}")
        return NAMES[module_name, global_name]


def read_batch(data: bytes, where: str) -> tuple[np.ndarray, dict[str, list[Any]]]:
    """Return the pixels [N, 3072] uint8 of a batch, and its lists by name."""
    rule = f"expected {where} to be a CIFAR batch (a dict of an array of bytes, and of lists)"
    try:
        for instruction, argument, position in pickletools.genops(data):
            if instruction.name not in ALLOWED:
                raise ValueError(f"the instruction {instruction.name} at byte {position}")
            # The memo takes memory up to the number of a slot.
            if instruction.name.endswith("PUT") and not 0 <= int(argument or 0) <= len(data):
                raise ValueError(f"slot {argument} of the memo at byte {position}")
        # Keys are bytes in files of Python 2, str in files of Python 3.
        content = _Unpickler(io.BytesIO(data), encoding="bytes").load()
    except Exception as error:
        # A malformed program may run into any error.
        raise ValueError(f"{rule}, got: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{rule}, got {type(content).__name__}")
    named = {k.decode("latin1") if isinstance(k, bytes) else k: v for k, v in content.items()}
    array = named.get("data")
    pixels = array.value if isinstance(array, _Bytes) else None
    if pixels is None or pixels.ndim != 2 or pixels.shape[1] != 3072:
        got = "no array" if pixels is None else f"{pixels.shape}"
        raise ValueError(f"{rule} with data [N, 3072], got {got}")
    return pixels, {k: v for k, v in named.items() if isinstance(k, str) and isinstance(v, list)}
