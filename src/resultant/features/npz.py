"""The arrays of an .npz as rows that are read in pieces.

What `numpy.savez` writes lies in the file as it is, and is mapped where it is aligned. What
`numpy.savez_compressed` writes can only be read from its beginning on.
"""

from __future__ import annotations

import io
import math
import os
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from resultant.features.npy import (
    BROKEN,
    NotPlainError,
    as_tensor,
    checked_members,
    read_header,
    read_member,
)
from resultant.features.rows import (
    Kept,
    MappedRows,
    MemoryRows,
    NonNumericArray,
    Rows,
    distinct,
    identity,
    swapped,
)

# Bytes that are inflated at a time, and where a local header says how long it is.
STEP = 1 << 22
LOCAL = 30


def map_npz(path: Path, *, keep: bool) -> dict[str, Rows | NonNumericArray]:
    """The arrays by name; ``keep`` the file of mapped ones open, or open it at each reading."""
    rule = _rule(path)
    try:
        with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
            source = Kept(path) if keep else path
            return {
                member.filename.removesuffix(".npy"): _rows(path, source, file, archive, member)
                for member in checked_members(archive, path)
                if member.filename.endswith(".npy")
            }
    except FileNotFoundError:
        raise ValueError(f"{rule}, got no such file") from None
    except BROKEN as error:
        raise ValueError(f"{rule}, got: {error}") from None


def _rule(path: Path) -> str:
    return f"expected {path} to be a whole .npz of plain arrays"


def _words(path: Path, name: str) -> tuple[list[str], Tensor]:
    try:
        with zipfile.ZipFile(path) as archive:
            return distinct(read_member(archive, archive.getinfo(name)))
    except (*BROKEN, KeyError) as error:
        raise ValueError(f"{_rule(path)}, got: {error}") from None


def _rows(
    path: Path,
    source: Kept | Path,
    file: io.BufferedReader,
    archive: zipfile.ZipFile,
    member: zipfile.ZipInfo,
) -> Rows | NonNumericArray:
    try:
        with archive.open(member) as opened:
            shape, order, stored = read_header(opened, member.file_size, member.filename)
            header = opened.tell()
    except NotPlainError as error:
        return NonNumericArray(error.shape, str(error.dtype))
    layout = stored.newbyteorder("=")
    try:
        dtype = torch.from_numpy(np.empty(0, layout)).dtype
    except TypeError:
        words = partial(_words, path, member.filename) if stored.kind in "US" else None
        return NonNumericArray(shape, str(stored), words)
    file.seek(member.header_offset)
    local = file.read(LOCAL)
    lengths = sum(int.from_bytes(local[i : i + 2], "little") for i in (26, 28))
    offset = member.header_offset + LOCAL + lengths + header
    end = offset + math.prod(shape) * layout.itemsize
    aligned = offset % layout.itemsize == 0 and end <= os.path.getsize(path)
    plain = member.compress_type == zipfile.ZIP_STORED and aligned
    if not shape or (order == "F" and not plain):
        return MemoryRows(as_tensor(read_member(archive, member).astype(layout, copy=False), path))
    if order == "F" and math.prod(shape):
        # Its rows do not lie one after the other.
        rows = MemoryRows(as_tensor(np.memmap(path, layout, "c", offset, shape, "F"), path))
    elif plain:
        rows = MappedRows(source, offset, shape, dtype, layout.str)
    else:
        rows = Inflated(path, member.filename, header, shape, dtype, layout)
    return rows if stored.isnative else swapped(rows)


class Inflated(Rows):
    """Rows of a member that is read from its beginning on; to go back is to start again."""

    def __init__(
        self,
        path: Path,
        name: str,
        header: int,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        layout: np.dtype,
    ) -> None:
        self.path, self.name, self.header, self.layout = path, name, header, layout
        self.shape, self.dtype = shape, dtype
        self.identity = identity(path)
        self.file: io.BufferedIOBase | None = None
        self.next = 0

    def read(self, start: int, stop: int) -> Tensor:
        width = math.prod(self.shape[1:]) * self.layout.itemsize
        data = bytearray((stop - start) * width)
        try:
            if self.file is None or start < self.next:
                self._restart()
            assert self.file is not None
            skipped = bytearray(min(STEP, (start - self.next) * width))
            for left in range((start - self.next) * width, 0, -STEP):
                self._fill(memoryview(skipped)[:left])
            self._fill(memoryview(data))
            self.next = stop
            if stop == len(self):
                # Past the last byte the checksum of the member is looked at.
                if self.file.read(1):
                    raise ValueError(f"more bytes than {self.name} declares")
                self._close()
        except BROKEN as error:
            self._close()
            raise ValueError(f"{_rule(self.path)}, got: {error}") from None
        array = np.frombuffer(data, self.layout).reshape(stop - start, *self.shape[1:])
        return torch.from_numpy(array)

    def _restart(self) -> None:
        self._close()
        if identity(self.path) != self.identity:
            raise ValueError("it changed since it was opened")
        # The member keeps the file open as long as it needs it.
        with zipfile.ZipFile(self.path) as archive:
            self.file = archive.open(self.name)  # type: ignore[assignment]
        self._fill(memoryview(bytearray(self.header)))

    def _close(self) -> None:
        if self.file is not None:
            self.file.close()
        self.file, self.next = None, 0

    def _fill(self, view: memoryview) -> None:
        assert self.file is not None
        for top in range(0, len(view), STEP):
            piece = self.file.read(min(STEP, len(view) - top))
            if len(piece) != min(STEP, len(view) - top):
                raise ValueError(f"too few bytes of {self.name}")
            view[top : top + len(piece)] = piece
