"""The arrays of .npy and .npz files, read without pickles and with bounded memory.

The sizes that a file declares are compared with the bytes that the file has before anything is
allocated, and compressed members with `resultant._core.chunks.require_decoded`. Arrays that
`numpy.save` and `numpy.savez` write are read where they are needed; the members that
`numpy.savez_compressed` writes are decompressed from their beginning on. The checksums of archives
are compared.
"""

from __future__ import annotations

import lzma
import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.lib import format as npy
from torch import Tensor

from resultant._core import chunks
from resultant._core.files import require_input_file
from resultant.features.rows import (
    MappedRows,
    MemoryRows,
    NonNumericArray,
    Rows,
    SharedFile,
    distinct,
    identity,
    spooled,
    swapped,
)

# Bytes of a local header of a zip archive; the lengths of name and extra field end the header.
LOCAL_HEADER = 30

# Exceptions of zipfile and NumPy for a broken file or header.
BROKEN = (
    *(OSError, ValueError, TypeError, EOFError, SyntaxError, RuntimeError, OverflowError),
    *(MemoryError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, tokenize.TokenError),
)

PathLike = str | os.PathLike[str]


class Header(NamedTuple):
    """The header of an array, and its length in bytes."""

    shape: tuple[int, ...]
    order: Literal["C", "F"]
    dtype: np.dtype[Any]
    length: int


def read_npz(path: PathLike) -> dict[str, np.ndarray]:
    """Read all arrays of an .npz into memory; anything else is a ValueError with the path."""
    require_input_file(path)
    with _errors(path), zipfile.ZipFile(path) as archive:
        members = _members(archive, path)
        return {m.filename.removesuffix(".npy"): _read_member(archive, m) for m in members}


def map_npz(path: Path, *, keep_open: bool) -> dict[str, Rows | NonNumericArray]:
    """Map the arrays of an .npz by name; the file is kept open, or opened at each reading."""
    with _errors(path), zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        source = SharedFile(path) if keep_open else path
        arrays: dict[str, Rows | NonNumericArray] = {}
        for member in _members(archive, path):
            if not member.filename.endswith(".npy"):
                continue
            with archive.open(member) as content:
                header = _read_header(content, member.file_size, member.filename)
            offset, crc = _data_offset(file, member, header), None
            stream = None if offset is not None else partial(ArchiveRows, path, member.filename)
            if offset is not None:
                file.seek(offset - header.length)
                crc = zlib.crc32(file.read(header.length)), member.CRC
            whole = partial(_read_again, path, member.filename)
            name = member.filename.removesuffix(".npy")
            arrays[name] = _rows(source, header, offset, crc, whole, stream)
        return arrays


def map_npy(path: Path, *, keep_open: bool = True) -> Rows | NonNumericArray:
    """Map the array of an .npy; arguments as in `map_npz`."""
    with _errors(path):
        require_input_file(path)
        with open(path, "rb") as file:
            header = _read_header(file, os.path.getsize(path), "the file")
        whole = partial(np.load, path, allow_pickle=False)
        source = SharedFile(path) if keep_open else path
        return _rows(source, header, header.length, None, whole)


def as_tensor(array: np.ndarray, path: PathLike) -> Tensor:
    """A tensor that shares the memory of the array."""
    try:
        return torch.from_numpy(array)
    except (TypeError, ValueError):
        rule = f"expected an array of numbers in this machine's byte order in {os.fspath(path)}"
        raise ValueError(f"{rule}, got {array.dtype} {array.shape}") from None


@contextmanager
def _errors(path: PathLike) -> Iterator[None]:
    """Turn every error over a file into a ValueError with the path."""
    kind = ".npy of a plain array" if os.fspath(path).endswith(".npy") else ".npz of plain arrays"
    rule = f"expected {os.fspath(path)} to be a whole {kind}"
    try:
        yield
    except FileNotFoundError:
        raise ValueError(f"{rule}, got no such file") from None
    except (*BROKEN, KeyError) as error:
        raise ValueError(f"{rule}, got: {error}") from None


def _members(archive: zipfile.ZipFile, path: PathLike) -> list[zipfile.ZipInfo]:
    """The members of an archive that declares bearable sizes."""
    members, size = archive.infolist(), os.path.getsize(path)
    inflated = sum(m.file_size for m in members if m.compress_type != zipfile.ZIP_STORED)
    chunks.require_decoded(inflated, size)
    # Overlapping members would be copied once each.
    if sum(m.file_size for m in members) - inflated > size:
        raise ValueError("members larger than the file")
    return members


def _read_header(file: IO[bytes], size: int, name: str) -> Header:
    """Read the header of an array, of which the file must have exactly the declared bytes."""
    version = npy.read_magic(file)
    if version == (1, 0):
        shape, fortran, dtype = npy.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, fortran, dtype = npy.read_array_header_2_0(file)
    else:
        raise ValueError(f"format {version} of {name}")
    left = size - file.tell()
    wrong = min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != left
    if wrong and not dtype.hasobject:
        raise ValueError(f"{left} bytes for shape {shape} of {dtype} in {name}")
    return Header(shape, "F" if fortran else "C", dtype, file.tell())


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """Read an array of numbers or strings into memory."""
    with archive.open(member) as file:
        dtype = _read_header(file, member.file_size, member.filename).dtype
        if dtype.kind in "OV":
            raise ValueError(f"dtype {dtype} in {member.filename}, which is no plain number")
        file.seek(0)
        return npy.read_array(file, allow_pickle=False)


def _read_again(path: Path, name: str) -> np.ndarray:
    with _errors(path), zipfile.ZipFile(path) as archive:
        return _read_member(archive, archive.getinfo(name))


def _data_offset(file: IO[bytes], member: zipfile.ZipInfo, header: Header) -> int | None:
    """The place of the data in the file, or None for data that cannot be mapped."""
    file.seek(member.header_offset)
    lengths = struct.unpack_from("<HH", file.read(LOCAL_HEADER), LOCAL_HEADER - 4)
    offset = member.header_offset + LOCAL_HEADER + sum(lengths) + header.length
    end = offset + math.prod(header.shape) * header.dtype.itemsize
    stored = member.compress_type == zipfile.ZIP_STORED and end <= os.fstat(file.fileno()).st_size
    return offset if stored and offset % max(1, header.dtype.itemsize) == 0 else None


def _rows(
    source: SharedFile | Path,
    header: Header,
    offset: int | None,
    crc: tuple[int, int] | None,
    whole: Callable[[], np.ndarray],
    stream: Callable[[Header, torch.dtype], Rows] | None = None,
) -> Rows | NonNumericArray:
    """The rows of an array: at ``offset`` of the source, or in sequence by ``stream``."""
    shape, order, stored, _ = header
    layout = stored.newbyteorder("=")
    if (dtype := _torch_dtype(layout)) is None:
        strings = (lambda: distinct(whole())) if stored.kind in "US" else None
        return NonNumericArray(shape, str(stored), strings)
    if not shape:
        return MemoryRows(torch.from_numpy(whole().astype(layout, copy=False)))
    columns = order == "F" and len(shape) > 1
    stored_shape = (math.prod(shape),) if columns else shape
    if stream is None:
        rows: Rows = MappedRows(source, offset or 0, stored_shape, dtype, layout.str, crc)
    else:
        rows = stream(header._replace(dtype=layout, shape=stored_shape), dtype)
    rows = FortranRows(rows, shape) if columns else rows
    return rows if stored.isnative else swapped(rows)


class FortranRows(Rows):
    """Rows of an array [N, ...] that is stored column by column, as ``flat`` [N * ...]."""

    def __init__(self, flat: Rows, shape: tuple[int, ...]) -> None:
        self.flat, self.shape, self.dtype = flat, shape, flat.dtype

    def read(self, start: int, stop: int) -> Tensor:
        number, height = len(self), stop - start
        if height < number and not isinstance(self.flat, (MappedRows, MemoryRows)):
            # The columns are far apart in a stream, which would be read once for each of them.
            self.flat = spooled(self.flat, "columns in Fortran order")
        if height == number:
            columns = self.flat.read(0, len(self.flat))
        else:
            tops = range(start, start + len(self.flat), number)
            columns = torch.cat([self.flat.read(top, top + height) for top in tops])
        return columns.view(*reversed(self.shape[1:]), height).permute(
            *reversed(range(len(self.shape)))
        )


def _torch_dtype(layout: np.dtype[Any]) -> torch.dtype | None:
    try:
        return None if layout.kind in "OV" else torch.from_numpy(np.empty(0, layout)).dtype
    except TypeError:
        return None


class ArchiveRows(Rows):
    """Rows of a member that is read in sequence; going back starts again at the beginning."""

    def __init__(self, path: Path, name: str, header: Header, dtype: torch.dtype) -> None:
        self.path, self.name, self.header = path, name, header
        self.shape, self.dtype = header.shape, dtype
        self.identity = identity(path)
        self.file: IO[bytes] | None = None
        self.next = 0

    def read(self, start: int, stop: int) -> Tensor:
        width = math.prod(self.shape[1:]) * self.header.dtype.itemsize
        data = bytearray((stop - start) * width)
        with _errors(self.path):
            try:
                if self.file is None or start < self.next:
                    self._open()
                assert self.file is not None
                if start != self.next:
                    self.file.seek(self.header.length + start * width)
                step = chunks.INFLATED_BYTES
                for top in range(0, len(data), step):
                    piece = self.file.read(min(step, len(data) - top))
                    data[top : top + step] = piece
                if len(data) != (stop - start) * width:
                    raise ValueError(f"too few bytes of {self.name}")
                self.next = stop
                if stop == len(self):
                    self._close()
            except BaseException:
                self._close()
                raise
        array = np.frombuffer(data, self.header.dtype).reshape(stop - start, *self.shape[1:])
        return torch.from_numpy(array)

    def _open(self) -> None:
        self._close()
        if identity(self.path) != self.identity:
            raise ValueError("it changed since it was opened")
        # The member keeps the file open as long as necessary.
        with zipfile.ZipFile(self.path) as archive:
            self.file = archive.open(self.name)
        # Read, not skipped: zipfile checks the checksum of bytes that it has read.
        self.file.read(self.header.length)

    def _close(self) -> None:
        if self.file is not None:
            self.file.close()
        self.file, self.next = None, 0
