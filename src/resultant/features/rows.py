"""Feature rows that lie in files and are read in pieces: one file, several, or a part of them.

A folder of shards is seen as one array a name. Nothing here holds more of it than is asked for.
"""

from __future__ import annotations

import io
import json
import math
import mmap
import os
import shutil
import tempfile
import warnings
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor

# The dtypes of safetensors, and in what NumPy maps them; it has no bfloat16.
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


class Rows(ABC):
    """An array [N, ...] of which rows are read when they are asked for."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def read(self, start: int, stop: int) -> Tensor:
        """Rows start to stop, 0 <= start <= stop <= N."""

    def where(self, row: int) -> str:
        """How a row is found in the file that it comes from."""
        return f"row {row}"


class MemoryRows(Rows):
    """Rows of a tensor."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor, self.shape, self.dtype = tensor, tuple(tensor.shape), tensor.dtype

    def read(self, start: int, stop: int) -> Tensor:
        return self.tensor if stop - start == len(self) else self.tensor[start:stop]


class MappedRows(Rows):
    """Rows that lie one after the other in a file, mapped piece by piece.

    A piece gives its memory back when it is dropped, and writing to it never reaches the file. An
    open ``source`` keeps the file that was there; a path is opened at each reading, as thousands
    of shards must be, and has to be the same file still.
    """

    def __init__(
        self,
        source: io.FileIO | Path,
        offset: int,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        layout: str,
    ) -> None:
        self.source, self.offset, self.layout = source, offset, np.dtype(layout)
        self.shape, self.dtype = shape, dtype
        self.identity = identity(source)

    def read(self, start: int, stop: int) -> Tensor:
        shape = (stop - start, *self.shape[1:])
        if not math.prod(shape):
            return torch.empty(shape, dtype=self.dtype)
        top = self.offset + start * math.prod(self.shape[1:]) * self.layout.itemsize
        source = self.source
        if isinstance(source, Path) and identity(source) != self.identity:
            raise ValueError(f"expected {source} as it was when it was opened, got it changed")
        piece = np.memmap(source, self.layout, "c", top, shape)
        tensor = torch.from_numpy(np.require(piece, requirements="A"))
        return tensor.view(self.dtype)

    def __getitem__(self, rows: slice | Tensor) -> Tensor:
        """Some rows: a piece, or those at places [n].

        The latter are read and not mapped: a row of a map can bring megabytes around it along.
        """
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(len(self))
            return self.read(start, max(start, stop))
        found = np.empty((len(rows), *self.shape[1:]), self.layout)
        width = math.prod(self.shape[1:]) * self.layout.itemsize
        lines = found.view(np.uint8).reshape(len(rows), width)
        with self._opened() as file:
            for line, row in zip(lines, rows.tolist(), strict=True):
                file.seek(self.offset + row * width)
                if file.readinto(line.data) != width:
                    raise ValueError(f"expected {len(self)} rows in {file.name}, got {row}")
        return torch.from_numpy(found).view(self.dtype)

    def _opened(self) -> AbstractContextManager[io.FileIO]:
        return Kept(self.source) if isinstance(self.source, Path) else nullcontext(self.source)

    def whole(self) -> tuple[Tensor, mmap.mmap]:
        """All rows, mapped and not to be written to, and the map.

        A map that could be written to would count as memory, however little of it is touched.
        """
        with self._opened() as f:
            view = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        number = math.prod(self.shape)
        array = np.frombuffer(view, self.layout, number, self.offset).reshape(self.shape)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            tensor = torch.from_numpy(np.require(array, requirements="A"))
        return tensor.view(self.dtype), view


class ConcatRows(Rows):
    """The rows of several arrays of one width and dtype, in their order, and their files."""

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
    """The rows of an array at ascending places ``index`` [M]."""

    def __init__(self, rows: Rows, index: Tensor) -> None:
        self.rows, self.index = rows, index
        self.shape, self.dtype = (len(index), *rows.shape[1:]), rows.dtype

    def read(self, start: int, stop: int) -> Tensor:
        chosen = self.index[start:stop]
        out = torch.empty((len(chosen), *self.shape[1:]), dtype=self.dtype)
        if not len(chosen):
            return out
        # The rows between are read too, no more at a time than were asked for.
        for top in range(int(chosen[0]), int(chosen[-1]) + 1, len(chosen)):
            end = min(top + len(chosen), int(chosen[-1]) + 1)
            low, high = torch.searchsorted(chosen, torch.tensor([top, end])).tolist()
            if low < high:
                out[low:high] = self.rows.read(top, end)[chosen[low:high] - top]
        return out

    def where(self, row: int) -> str:
        return self.rows.where(int(self.index[row]))


class Converted(Rows):
    """The rows of an array, each piece changed as it is read."""

    def __init__(self, rows: Rows, dtype: torch.dtype, change: Callable[[Tensor], Tensor]) -> None:
        self.rows, self.shape, self.dtype, self.change = rows, rows.shape, dtype, change

    def read(self, start: int, stop: int) -> Tensor:
        return self.change(self.rows.read(start, stop))

    def where(self, row: int) -> str:
        return self.rows.where(row)


def swapped(rows: Rows) -> Rows:
    """Rows of numbers whose bytes lie in the other order than this machine's."""
    return Converted(rows, rows.dtype, lambda piece: torch.from_numpy(piece.numpy().byteswap()))


def as_floats(rows: Rows) -> Rows:
    """Rows of integers as floats that hold them; those of 64 bits are rounded."""
    dtype = torch.float32 if rows.dtype.itemsize <= 2 else torch.float64
    return Converted(rows, dtype, lambda piece: piece.to(dtype))


@dataclass(frozen=True)
class NonNumericArray:
    """An array of no numbers, of a ``kind``. Of strings, ``read`` gives the distinct ones and
    which of them each row [N] is; of others nothing is ever read."""

    shape: tuple[int, ...]
    kind: str
    read: Callable[[], tuple[list[str], Tensor]] | None = None


def distinct(array: np.ndarray) -> tuple[list[str], Tensor]:
    """The strings of an array, and which of them each element [N] is."""
    words, codes = np.unique(array.reshape(-1), return_inverse=True)
    found = words.tolist()
    if array.dtype.kind == "S":
        found = [word.decode("utf-8", "replace") for word in found]
    return found, torch.from_numpy(codes.reshape(-1))


class Spool:
    """A temporary file for rows that come in pieces, which goes with what is `mapped` of it.

    It has no name, and is gone with the process, however that ends.
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
        """What was written, mapped from a file of its own."""
        rows = self.rows
        layout = next(layout for dtype, layout in DTYPES.values() if dtype == rows.dtype)
        file = Kept(os.dup(self.file.fileno()), "rb")
        return MappedRows(file, 0, rows.shape, rows.dtype, layout)


def bytes_of(rows: Rows) -> int:
    return math.prod(rows.shape) * rows.dtype.itemsize


def require_disk(size: int, name: str) -> None:
    """Raise unless the folder of temporary files has room for so many bytes."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if size > free:
        rule = f"expected {size:,} bytes free in {folder} for a copy of {name}"
        raise ValueError(f"{rule}, got {free:,}; TMPDIR names another folder")


def as_rows(array: Tensor | Rows) -> Rows:
    return array if isinstance(array, Rows) else MemoryRows(array)


def join(where: str, name: str, parts: Sequence[tuple[str, Rows]]) -> Rows:
    """The rows of one name from files, which are told where their widths or dtypes differ."""
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
    path: Path, *, keep: bool
) -> tuple[dict[str, Rows | NonNumericArray], dict[str, str]]:
    """The arrays of a safetensors file by name, and its metadata.

    The library holds the header against the file; the places it states are mapped. ``keep`` the
    file open, or open it at each reading.
    """
    # First: what the library may not read is no such file to it.
    file = Kept(path)
    with safe_open(path, framework="np") as checked:
        names, metadata = sorted(checked.keys()), checked.metadata() or {}
    length = int.from_bytes(file.read(8), "little")
    header = json.loads(file.read(length))
    rows: dict[str, Rows | NonNumericArray] = {}
    for name in names:
        entry = header[name]
        shape = tuple(entry["shape"])
        if entry["dtype"] not in DTYPES:
            rows[name] = NonNumericArray(shape, entry["dtype"])
            continue
        dtype, layout = DTYPES[entry["dtype"]]
        offset = 8 + length + entry["data_offsets"][0]
        rows[name] = MappedRows(file if keep else path, offset, shape, dtype, layout)
    return rows, metadata


def map_array(path: Path, array: np.ndarray, *, keep: bool) -> Rows:
    """The rows of an .npy that `map_npy` has looked at."""
    if not array.dtype.isnative:
        native = array.view(array.dtype.newbyteorder("="))
        return swapped(map_array(path, native, keep=keep))
    tensor = torch.from_numpy(array)
    if not array.flags.c_contiguous or not isinstance(array, np.memmap):
        return MemoryRows(tensor)
    source = Kept(path) if keep else path
    return MappedRows(source, array.offset, array.shape, tensor.dtype, array.dtype.str)


class Kept(io.FileIO):
    """A file that is closed when the last rows of it are gone."""

    def __del__(self) -> None:
        self.close()


def identity(source: io.FileIO | Path) -> tuple[int, ...]:
    stat = os.stat(source) if isinstance(source, Path) else os.fstat(source.fileno())
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
