"""Tensors and JSON in one safetensors file, which is complete or absent, with a checksum.

Files are read, not mapped: a file that another process truncates meanwhile is an error, where a
map would end the process by SIGBUS.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from resultant._core.bounded_json import MAX_BYTES, parse_json
from resultant._core.files import make_folder, replacing, require_input_file

KEY = "resultant"
# Checksum of the tensors and the JSON object of `save`, and checksums by tensor in the metadata of
# other files; files of earlier versions and of other programs have none.
CHECKSUM, CHECKSUMS = "sha256", "crc32"

# The dtypes of safetensors and the NumPy dtypes of their bytes; NumPy has no bfloat16.
DTYPES = {
    "F64": (torch.float64, "<f8"),
    "F32": (torch.float32, "<f4"),
    "F16": (torch.float16, "<f2"),
    "BF16": (torch.bfloat16, "<i2"),
    "I64": (torch.int64, "<i8"),
    "I32": (torch.int32, "<i4"),
    "I16": (torch.int16, "<i2"),
    "I8": (torch.int8, "|i1"),
    "U64": (torch.uint64, "<u8"),
    "U32": (torch.uint32, "<u4"),
    "U16": (torch.uint16, "<u2"),
    "U8": (torch.uint8, "|u1"),
    "BOOL": (torch.bool, "|b1"),
}


class Entry(NamedTuple):
    """A tensor in a safetensors file: the name of its dtype, its shape, its bytes."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def save(path: str | os.PathLike[str], tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Write ``tensors`` and the JSON object ``about`` to a file; create its folder."""
    path = Path(path)
    make_folder(path.parent)
    contiguous = {name: a.detach().cpu().contiguous() for name, a in tensors.items()}
    # One entry of metadata: safetensors writes several in no fixed order.
    text = json.dumps({**about, CHECKSUM: checksum(contiguous, json.dumps(about))})
    write_tensors(path, contiguous, {KEY: text})


def require_name(path: Path) -> None:
    """Raise unless the name of a file to write ends in .safetensors."""
    if path.suffix != ".safetensors":
        raise ValueError(f"expected a name that ends in .safetensors, got {path}")


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file that is complete or absent; raise an OSError if the disk is full."""
    if KEY not in metadata:
        sums = {name: zlib.crc32(bytes_of(a)) for name, a in sorted(tensors.items())}
        metadata = {**metadata, CHECKSUMS: json.dumps(sums)}
    with replacing(path) as temporary:
        try:
            save_file(tensors, temporary, metadata)
        except SafetensorError as error:
            raise OSError(f"expected to write all of {path}, got: {error}") from None


def checksum(tensors: dict[str, Tensor], text: str) -> str:
    """Compute the SHA-256 of a text and of contiguous tensors with their names and shapes."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        a = tensors[name]
        digest.update(f"{name} {a.dtype} {tuple(a.shape)}".encode())
        digest.update(bytes_of(a))
    return digest.hexdigest()


def bytes_of(tensor: Tensor) -> memoryview:
    """Return the bytes of a contiguous tensor on the CPU, without a copy."""
    return tensor.reshape(-1).view(torch.uint8).numpy().data


def load(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors and the JSON object of a file that `save` wrote.

    Raises:
        FileNotFoundError: If there is no file.
        ValueError: If the file is truncated, changed or of another kind.
    """
    if not Path(path).exists():
        raise FileNotFoundError(f"expected a checkpoint, got no file at {path}")
    tensors, metadata = load_tensors(path)
    about = metadata_of(metadata)
    if about is None:
        rule = f"expected {path} to hold a network, a checkpoint or a classifier"
        raise ValueError(f"{rule}, with metadata {KEY!r}, got none")
    if about.pop(CHECKSUM, None) not in (None, checksum(tensors, json.dumps(about))):
        raise ValueError(f"expected the checksum of its content in {path}, got another: damaged")
    return tensors, about


def load_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read all tensors of a safetensors file and its metadata; errors as in `load`."""
    require_input_file(path)
    try:
        with open(path, "rb", buffering=0) as file:
            entries, metadata = read_header(file)
            tensors = {name: _read_tensor(file, entry) for name, entry in entries.items()}
            for name, expected in checksums(metadata).items():
                if name in tensors and zlib.crc32(bytes_of(tensors[name])) != expected:
                    raise ValueError(f"another checksum of {name!r:.80}: damaged")
            return tensors, metadata
    except ValueError as error:
        raise ValueError(f"expected a whole safetensors file, got {path} ({error})") from None


def metadata_of(metadata: dict[str, str]) -> dict[str, Any] | None:
    """Return the JSON object of a file of this package, None for any other file."""
    try:
        about = parse_json(metadata.get(KEY, "null"))
    except ValueError:
        return None
    return about if isinstance(about, dict) else None


def checksums(metadata: dict[str, str]) -> dict[str, int]:
    """Return the checksums of the tensors, by name, that the metadata of a file hold."""
    sums = parse_json(metadata.get(CHECKSUMS, "{}"))
    if not isinstance(sums, dict) or not all(type(v) is int for v in sums.values()):
        raise ValueError("checksums that are not numbers by name")
    return sums


def read_header(file: io.FileIO) -> tuple[dict[str, Entry], dict[str, str]]:
    """Read the header of a safetensors file: the entries by name in sorted order, and the metadata.

    Raises:
        ValueError: If the header is broken, or the tensors do not fill the file exactly.
    """
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(os.pread(file.fileno(), 8, 0), "little")
    if not 2 <= length <= min(MAX_BYTES, size - 8):
        raise ValueError(f"a header of {length:,} bytes in a file of {size:,}")
    text = bytearray(length)
    read_at(file, 8, memoryview(text))
    header = parse_json(bytes(text))
    if not isinstance(header, dict):
        raise ValueError("a header that is no JSON object")
    metadata = header.pop("__metadata__", None) or {}
    texts = isinstance(metadata, dict) and all(isinstance(v, str) for v in metadata.values())
    if not texts:
        raise ValueError("metadata that are not texts by name")
    entries = {name: _entry(name, header[name], 8 + length) for name in sorted(header)}
    end = 8 + length
    for name, entry in sorted(entries.items(), key=lambda item: item[1][2:]):
        if entry.start != end:
            raise ValueError(f"tensors that overlap or leave a gap before {name!r:.80}")
        end = entry.stop
    if end != size:
        raise ValueError(f"tensors of {end:,} bytes in a file of {size:,}")
    return entries, metadata


def _entry(name: str, facts: Any, first: int) -> Entry:
    shape: Any
    offsets: Any
    wrong = ValueError(f"no dtype, shape and data_offsets of {name!r:.80}")
    if not isinstance(facts, dict) or not isinstance(facts.get("dtype"), str):
        raise wrong
    shape, offsets = facts.get("shape"), facts.get("data_offsets")
    for numbers in (shape, offsets):
        if not isinstance(numbers, list) or not all(type(n) is int and n >= 0 for n in numbers):
            raise wrong
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise wrong
    entry = Entry(facts["dtype"], tuple(shape), first + offsets[0], first + offsets[1])
    known = DTYPES.get(entry.dtype)
    size = entry.stop - entry.start
    if known is not None and math.prod(entry.shape) * known[0].itemsize != size:
        raise ValueError(f"{size:,} bytes for {entry.dtype} {entry.shape} of {name!r:.80}")
    return entry


def _read_tensor(file: io.FileIO, entry: Entry) -> Tensor:
    if entry.dtype not in DTYPES:
        raise ValueError(f"the dtype {entry.dtype!r:.80}")
    tensor = torch.empty(entry.shape, dtype=DTYPES[entry.dtype][0])
    read_at(file, entry.start, bytes_of(tensor))
    return tensor


def read_at(file: io.FileIO, offset: int, buffer: memoryview) -> None:
    """Fill a buffer with the bytes of a file from ``offset`` on.

    Raises:
        ValueError: If the file ends before, as one that is truncated meanwhile.
    """
    done = 0
    while done < len(buffer):
        # The position of the file, which threads and processes may share, stays.
        number = os.preadv(file.fileno(), [buffer[done:]], offset + done)
        if not number:
            rule = f"expected {len(buffer):,} bytes at {offset:,} of {file.name}"
            raise ValueError(f"{rule}, got {done:,}: the file became shorter")
        done += number
