"""Files of `torch.save` from outside, loaded without executing anything and with bounds.

``torch.load(weights_only=True)`` executes no code, but inflates compressed members, ignores
checksums, makes a ``bytearray`` or a tensor of any size, and hashes tuples of tuples for ever; some
versions read beyond the end of a storage that is shorter than declared. Files are looked through
first.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from resultant._core.text import one_line

# The most parts of a value that occurs several times: a tuple of thousands, again and again, would
# be hashed for ever. A tensor has about thirty.
MAX_SHARED = 256
# Pickles at the beginning of a file from before torch 1.6, which is no archive.
LEGACY_PICKLES = 5
# Instructions that put a value in the memo, take one from there, and make a value of others.
PUT, GET = ("PUT", "BINPUT", "LONG_BINPUT"), ("GET", "BINGET", "LONG_BINGET")
JOIN = ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "REDUCE", "NEWOBJ", "BUILD", "BINPERSID")
# Instructions that push a number, a text or an empty collection, most of a long list.
ATOMS = {
    code.name
    for code in pickletools.opcodes
    if not code.stack_before and len(code.stack_after) == 1
}.difference(GET, ("MARK", "GLOBAL"))
# The most instructions of a pickle, a few microseconds each: lists of a million names.
MAX_INSTRUCTIONS = 1 << 21
# Names that make an object of any size; tensors that are stored as they are need none of them.
SIZED = re.compile(r"bytearray|Tensor|(Untyped|Typed)Storage")


class _Value(NamedTuple):
    """A value of a pickle: the number of its parts, and the text, number, name or tuple."""

    size: int
    content: Any = None


def load_torch(path: Path, stand_ins: Sequence[tuple[Callable[..., Any], str]] = ()) -> Any:
    """Load a file of tensors, numbers, texts and collections of them.

    Args:
        path: The file.
        stand_ins: Classes and functions that take the place of others, with the full names of
            these; nothing is imported under the names.

    Raises:
        ValueError: The file is damaged, compressed or hostile, or holds other objects.
    """
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                _require_archive(archive)
        else:
            length = path.stat().st_size
            with path.open("rb") as file:
                for _ in range(LEGACY_PICKLES):
                    _require_harmless(file, lambda key: length)
        # Opened here: torch takes the kind of a file from its name.
        with path.open("rb") as file, torch.serialization.safe_globals(list(stand_ins)):
            return torch.load(file, map_location="cpu", weights_only=True)
    except (ValueError, OSError, MemoryError):
        raise
    except pickle.UnpicklingError as error:
        name = re.search(r"GLOBAL (\S+)", str(error))
        named = "" if name is None else f" ({one_line(name[1])[:80]})"
        raise ValueError(f"other objects{named}, which are never loaded") from None
    except Exception as error:
        # A broken pickle may run into any error.
        raise ValueError(one_line(error)[:200] or type(error).__name__) from None


def instructions(file: Any) -> Iterator[tuple[pickletools.OpcodeInfo, Any, int | None]]:
    """Yield the instructions of a pickle, their arguments and places.

    Raises:
        ValueError: There are more than `MAX_INSTRUCTIONS`.
    """
    for number, instruction in enumerate(pickletools.genops(file)):
        if number == MAX_INSTRUCTIONS:
            raise ValueError(f"a pickle of more than {number:,} instructions")
        yield instruction


def _require_archive(archive: zipfile.ZipFile) -> None:
    """Raise unless the members are stored as they are and the pickles are harmless."""
    sizes = {member.filename: member.file_size for member in archive.infolist()}
    if len(sizes) < len(archive.infolist()):
        raise ValueError("two members of one name")
    for member in archive.infolist():
        if member.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"a compressed member {member.filename!r}")
    if (damaged := archive.testzip()) is not None:
        raise ValueError(f"another checksum of {damaged!r}: it is damaged")
    pickles = [name for name in sizes if name.endswith("data.pkl")]
    if not pickles:
        raise ValueError("no data.pkl")
    for name in pickles:
        folder = name.removesuffix("data.pkl")
        # In memory: a member of an archive is slow to read byte by byte.
        file = io.BytesIO(archive.read(name))
        _require_harmless(file, lambda key, at=folder: sizes[f"{at}data/{key}"])


def _require_harmless(file: Any, room: Callable[[str], int]) -> None:
    """Follow a pickle; raise if it takes far more time or memory than bytes.

    Args:
        file: The pickle.
        room: Returns the bytes of a storage by its key.
    """
    stack: list[_Value] = []
    marks: list[int] = []
    memo: dict[Any, _Value] = {}
    try:
        for code, argument, _ in instructions(file):
            if code.name in ATOMS:
                stack.append(_Value(1, argument))
            elif code.name == "MARK":
                marks.append(len(stack))
            elif code.name in PUT:
                memo[argument] = stack[-1]
            elif code.name in GET:
                if memo[argument].size > MAX_SHARED:
                    raise ValueError(f"a tuple of {memo[argument].size:,} parts that occurs twice")
                stack.append(memo[argument])
            else:
                if code.name == "GLOBAL" and SIZED.search(str(argument)):
                    raise ValueError(f"{argument!r:.80}, which could be of any size")
                before = code.stack_before
                if pickletools.markobject in before:
                    start = marks.pop() - before.index(pickletools.markobject)
                else:
                    start = len(stack) - len(before)
                if start < 0:
                    raise ValueError("a broken pickle")
                parts = stack[start:]
                if code.name == "BINPERSID":
                    _require_room(parts[0].content, room)
                if code.name in JOIN:
                    content = tuple(part.content for part in parts)
                    value = _Value(1 + sum(part.size for part in parts), content)
                else:
                    value = _Value(1, argument)
                stack[start:] = [value] * len(code.stack_after)
    except (LookupError, TypeError, AttributeError):
        raise ValueError("a broken pickle") from None


def _require_room(identity: tuple[Any, ...], room: Callable[[str], int]) -> None:
    """Raise unless a storage ("storage", type, key, location, length) fits its bytes."""
    if identity[0] != "storage":
        raise ValueError("other objects than tensors, which are never loaded")
    _, kind, key, _, length = identity[:5]
    _, _, name = kind.partition(" ")
    # A type such as FloatStorage; those of other modules are of other devices.
    size = length * torch.storage._storage_type_to_dtype_map()[name].itemsize
    if not 0 <= size <= room(key):
        raise ValueError(f"{size:,} bytes of the storage {key!r:.80} in {room(key):,}")
