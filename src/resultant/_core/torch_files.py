"""Files of `torch.save` from outside, loaded without executing anything and with bounds.

``torch.load(weights_only=True)`` executes no code, but inflates compressed members, ignores
checksums, makes a ``bytearray`` of any size, and hashes tuples of tuples for ever. Files are
looked through first.
"""

from __future__ import annotations

import pickletools
import zipfile
from pathlib import Path
from typing import Any

import torch

# The most parts of a value that occurs several times: a tuple of thousands, again and again, would
# be hashed for ever. A tensor has about thirty.
MAX_SHARED = 256
# Pickles at the beginning of a file from before torch 1.6, which is no archive.
LEGACY_PICKLES = 5
# Instructions that put a value in the memo, take one from there, and make a value of others.
PUT, GET = ("PUT", "BINPUT", "LONG_BINPUT"), ("GET", "BINGET", "LONG_BINGET")
JOIN = ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "REDUCE", "NEWOBJ", "BUILD", "BINPERSID")


def load_torch(path: Path) -> Any:
    """Load a file of tensors, numbers, texts and collections of them.

    Raises:
        ValueError: The file is damaged, compressed or hostile. ``torch.load`` raises other errors.
    """
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            _require_stored(archive)
            for name in archive.namelist():
                if name.endswith("data.pkl"):
                    with archive.open(name) as file:
                        _require_harmless(file)
    else:
        with path.open("rb") as file:
            for _ in range(LEGACY_PICKLES):
                _require_harmless(file)
    return torch.load(path, map_location="cpu", weights_only=True)


def _require_stored(archive: zipfile.ZipFile) -> None:
    for member in archive.infolist():
        if member.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"a compressed member {member.filename!r}")
    if (damaged := archive.testzip()) is not None:
        raise ValueError(f"another checksum of {damaged!r}: it is damaged")


def _require_harmless(file: Any) -> None:
    """Follow the sizes of the values of a pickle; raise if it takes far more time than bytes."""
    stack: list[int] = []
    marks: list[int] = []
    memo: dict[Any, int] = {}
    try:
        for code, argument, _ in pickletools.genops(file):
            if code.name == "MARK":
                marks.append(len(stack))
            elif code.name in PUT:
                memo[argument] = stack[-1]
            elif code.name in GET:
                if memo[argument] > MAX_SHARED:
                    raise ValueError(f"a tuple of {memo[argument]:,} parts that occurs twice")
                stack.append(memo[argument])
            elif code.name == "GLOBAL" and "bytearray" in str(argument):
                raise ValueError("a bytearray, which could be of any size")
            else:
                before = code.stack_before
                if pickletools.markobject in before:
                    start = marks.pop() - before.index(pickletools.markobject)
                else:
                    start = len(stack) - len(before)
                if start < 0:
                    raise ValueError("a broken pickle")
                size = 1 + sum(stack[start:]) if code.name in JOIN else 1
                stack[start:] = [size] * len(code.stack_after)
    except (LookupError, TypeError):
        raise ValueError("a broken pickle") from None
