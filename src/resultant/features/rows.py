"""Feature rows that stay in files and are read in pieces: of one file, of several, or a selection.

A folder of shards is one array per name. Memory holds only the rows that a caller reads.
"""

from __future__ import annotations

import io
import math
import os
import shutil
import sys
import tempfile
import zlib
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor

from resultant._core import chunks, tensor_files
from resultant._core.tensor_files import DTYPES, checksums, read_at, read_header


class Rows(ABC):
    """An array [N, ...] whose rows are read on demand."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def read(self, start: int, stop: int) -> Tensor:
        """Read the rows from start to stop, 0 <= start <= stop <= N."""

    def where(self, row: int) -> str:
        """The place of a row in its file."""
        return f"row {row}"


class MemoryRows(Rows):
    """Rows of a tensor."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor, self.shape, self.dtype = tensor, tuple(tensor.shape), tensor.dtype

    def read(self, start: int, stop: int) -> Tensor:
        return self.tensor if stop - start == len(self) else self.tensor[start:stop]


class MappedRows(Rows):
    """Consecutive rows of a file, read piece by piece.

    A piece has memory of its own: a mapped file that is truncated would end the process. An open
    ``source`` stays the same file. A path is opened at each reading, as thousands of shards must
    be, and the file must not have changed.

    Args:
        source: The file.
        offset: The first byte of the rows.
        shape: The shape [N, ...].
        dtype: The dtype of the rows.
        layout: The NumPy dtype of the bytes.
        crc: The checksum of the bytes before the rows, and that after the rows; all rows are
            compared with the latter before the first of them is used.
    """

    def __init__(
        self,
        source: io.FileIO | Path,
        offset: int,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        layout: str,
        crc: tuple[int, int] | None = None,
    ) -> None:
        self.source, self.offset, self.layout = source, offset, np.dtype(layout)
        self.shape, self.dtype, self.crc = shape, dtype, crc
        self.width = math.prod(shape[1:]) * self.layout.itemsize
        self.identity = identity(source)

    def read(self, start: int, stop: int) -> Tensor:
        rows = torch.empty((stop - start, *self.shape[1:]), dtype=self.dtype)
        with self._opened() as file:
            read_at(file, self.offset + start * self.width, tensor_files.bytes_of(rows))
        return rows

    def __getitem__(self, rows: slice | Tensor) -> Tensor:
        """Return a slice of the rows, or the rows at indices [n]."""
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(len(self))
            return self.read(start, max(start, stop))
        chosen = torch.empty((len(rows), *self.shape[1:]), dtype=self.dtype)
        lines = tensor_files.bytes_of(chosen)
        with self._opened() as file:
            for i, row in enumerate(rows.tolist()):
                line = lines[i * self.width : (i + 1) * self.width]
                read_at(file, self.offset + row * self.width, line)
        return chosen

    @contextmanager
    def _opened(self) -> Iterator[io.FileIO]:
        """Open the file, which must be the same, and compare its checksum once."""
        file = SharedFile(self.source) if isinstance(self.source, Path) else self.source
        try:
            if file is not self.source and identity(file) != self.identity:
                got = f"expected {self.source} as it was when it was opened, got it changed"
                raise ValueError(got)
            if self.crc is not None:
                self._verify(file, *self.crc)
                self.crc = None
            yield file
        finally:
            if file is not self.source:
                file.close()

    def _verify(self, file: io.FileIO, crc: int, expected: int) -> None:
        end = self.offset + len(self) * self.width
        for top in range(self.offset, end, chunks.READ_BYTES):
            piece = bytearray(min(chunks.READ_BYTES, end - top))
            read_at(file, top, memoryview(piece))
            crc = zlib.crc32(piece, crc)
        if crc != expected:
            raise ValueError(f"expected the checksum of {file.name}, got another: it is damaged")


class ConcatRows(Rows):
    """The rows of several arrays of one width and dtype in order, with the files of the arrays."""

    def __init__(self, parts: Sequence[Rows], files: Sequence[str]) -> None:
        self.parts, self.files = list(parts), list(files)
        self.tops = [0]
        for part in parts:
            self.tops.append(self.tops[-1] + len(part))
        self.shape, self.dtype = (self.tops[-1], *parts[0].shape[1:]), parts[0].dtype

    def read(self, start: int, stop: int) -> Tensor:
        pieces = []
        for part, top in zip(self.parts, self.tops, strict=False):
            low, high = max(start - top, 0), min(stop - top, len(part))
            if low < high:
                pieces.append(part.read(low, high))
        if len(pieces) == 1:
            return pieces[0]
        return torch.cat([torch.empty((0, *self.shape[1:]), dtype=self.dtype), *pieces])

    def where(self, row: int) -> str:
        part = bisect_right(self.tops, row) - 1
        return f"{self.parts[part].where(row - self.tops[part])} of {self.files[part]}"


class IndexedRows(Rows):
    """The rows of an array at ascending indices ``index`` [M]."""

    def __init__(self, rows: Rows, index: Tensor) -> None:
        self.rows, self.index = rows, index
        self.shape, self.dtype = (len(index), *rows.shape[1:]), rows.dtype

    def read(self, start: int, stop: int) -> Tensor:
        chosen = self.index[start:stop]
        out = torch.empty((len(chosen), *self.shape[1:]), dtype=self.dtype)
        if not len(chosen):
            return out
        # The rows between are read too, at most as many at a time as the piece has.
        for top in range(int(chosen[0]), int(chosen[-1]) + 1, len(chosen)):
            end = min(top + len(chosen), int(chosen[-1]) + 1)
            low, high = torch.searchsorted(chosen, torch.tensor([top, end])).tolist()
            if low < high:
                out[low:high] = self.rows.read(top, end)[chosen[low:high] - top]
        return out

    def where(self, row: int) -> str:
        return self.rows.where(int(self.index[row]))


class ConvertedRows(Rows):
    """The rows of an array, each piece converted when it is read."""

    def __init__(self, rows: Rows, dtype: torch.dtype, convert: Callable[[Tensor], Tensor]) -> None:
        self.rows, self.shape, self.dtype, self.convert = rows, rows.shape, dtype, convert

    def read(self, start: int, stop: int) -> Tensor:
        return self.convert(self.rows.read(start, stop))

    def where(self, row: int) -> str:
        return self.rows.where(row)


def swapped(rows: Rows) -> Rows:
    """Rows of numbers that are stored in the other byte order."""
    return ConvertedRows(rows, rows.dtype, lambda piece: torch.from_numpy(piece.numpy().byteswap()))


def as_floats(rows: Rows) -> Rows:
    """Rows of integers as floats; integers of 64 bits are rounded."""
    dtype = torch.float32 if rows.dtype.itemsize <= 2 else torch.float64
    return ConvertedRows(rows, dtype, lambda piece: piece.to(dtype))


@dataclass(frozen=True)
class NonNumericArray:
    """An array of strings, objects or records.

    Attributes:
        shape: The shape of the array.
        kind: The dtype as text.
        read: For strings, a function that returns the distinct strings and the index of each row
            [N] among them. Other arrays are never read.
    """

    shape: tuple[int, ...]
    kind: str
    read: Callable[[], tuple[list[str], Tensor]] | None = None


def distinct(array: np.ndarray) -> tuple[list[str], Tensor]:
    """The distinct strings of an array, and the index of each element [N] among them."""
    if array.dtype.kind == "U" and array.size and array.dtype.itemsize:
        points = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("=")).view(np.uint32)
        # Python makes strings of such numbers and fails later.
        if points.max() > sys.maxunicode:
            raise ValueError(
                f"expected strings of Unicode characters, got number {points.max():#x}"
            )
    words, codes = np.unique(array.reshape(-1), return_inverse=True)
    try:
        strings = words.tolist()
    except (SystemError, ValueError):
        raise ValueError("expected strings of Unicode characters, got others") from None
    if array.dtype.kind == "S":
        strings = [word.decode("utf-8", "replace") for word in strings]
    return strings, torch.from_numpy(codes.reshape(-1))


def spooled(rows: Rows, name: str) -> Rows:
    """Copy rows that can only be read in sequence, into memory or a temporary file."""
    if bytes_of(rows) <= chunks.HELD_BYTES:
        return MemoryRows(rows.read(0, len(rows)))
    with Spool(rows, name) as spool:
        for piece in chunks.row_slices(len(rows), bytes_of(rows) // len(rows), chunks.READ_BYTES):
            spool.write(rows.read(piece.start, min(piece.stop, len(rows))))
        return spool.mapped()


class Spool:
    """A temporary file for rows that arrive in pieces, deleted with the last `mapped` rows.

    The file has no name, so the file disappears with the process, even with a killed one.
    """

    def __init__(self, rows: Rows, name: str) -> None:
        require_disk(bytes_of(rows), name)
        self.rows, self.name = rows, name
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 (closed on leaving)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def write(self, piece: Tensor) -> None:
        try:
            self.file.write(piece.contiguous().view(torch.uint8).numpy().data)
            self.file.flush()
        except OSError as error:
            rule = f"expected room for a copy of {self.name} in {tempfile.gettempdir()}"
            raise ValueError(f"{rule}, got: {error}") from None

    def mapped(self) -> MappedRows:
        """The written rows, mapped."""
        rows = self.rows
        layout = next(layout for dtype, layout in DTYPES.values() if dtype == rows.dtype)
        file = SharedFile(os.dup(self.file.fileno()), "rb")
        return MappedRows(file, 0, rows.shape, rows.dtype, layout)


def bytes_of(rows: Rows) -> int:
    return math.prod(rows.shape) * rows.dtype.itemsize


def require_disk(size: int, name: str) -> None:
    """Raise unless the folder of temporary files has ``size`` bytes free."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if size > free:
        rule = f"expected {size:,} bytes free in {folder} for a copy of {name}"
        raise ValueError(f"{rule}, got {free:,}; TMPDIR names another folder")


def as_rows(array: Tensor | Rows) -> Rows:
    return array if isinstance(array, Rows) else MemoryRows(array)


def join(where: str, name: str, parts: Sequence[tuple[str, Rows]]) -> Rows:
    """Join the rows of one name; an error names the file whose width or dtype differs."""
    first, like = parts[0]
    for file, part in parts:
        if part.shape[1:] != like.shape[1:] or part.dtype != like.dtype:
            rule = f"expected {name} of {where} alike in all files, "
            rule += f"{like.dtype} [N, {_width(like)}] as in {first}"
            raise ValueError(f"{rule}, got {part.dtype} [N, {_width(part)}] in {file}")
    files, arrays = zip(*parts, strict=True)
    return like if len(parts) == 1 else ConcatRows(arrays, files)


def _width(rows: Rows) -> str:
    return ", ".join(map(str, rows.shape[1:]))


def map_safetensors(
    path: Path, *, keep_open: bool
) -> tuple[dict[str, Rows | NonNumericArray], dict[str, str]]:
    """Map the arrays of a safetensors file by name, and return its metadata too.

    The file is kept open, or opened at each reading.
    """
    file = SharedFile(path)
    entries, metadata = read_header(file)
    sums = checksums(metadata)
    rows: dict[str, Rows | NonNumericArray] = {}
    for name, entry in entries.items():
        if entry.dtype not in DTYPES:
            rows[name] = NonNumericArray(entry.shape, entry.dtype)
            continue
        crc = (0, sums[name]) if name in sums else None
        source = file if keep_open else path
        rows[name] = MappedRows(source, entry.start, entry.shape, *DTYPES[entry.dtype], crc)
    return rows, metadata


class SharedFile(io.FileIO):
    """A file that is closed when the last rows that use the file are gone."""

    def __del__(self) -> None:
        self.close()


def identity(source: io.FileIO | Path) -> tuple[int, ...]:
    """Inode, size and time of change, by which a replaced file is noticed."""
    stat = os.stat(source) if isinstance(source, Path) else os.fstat(source.fileno())
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
