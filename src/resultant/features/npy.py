"""NumPy's own files read without pickles, and without trusting the sizes that they declare."""

from __future__ import annotations

import lzma
import math
import os
import tokenize
import zipfile
import zlib
from typing import IO, Any, Literal

import numpy as np
import torch
from numpy.lib import format as npy
from torch import Tensor

# A compressed member can grow a thousandfold. Uncompressed ones are bounded by the file itself.
MAX_INFLATED = 1 << 34

# What zipfile and NumPy raise over a broken file or header.
BROKEN = (
    *(OSError, ValueError, TypeError, EOFError, SyntaxError, RuntimeError, OverflowError),
    *(MemoryError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, tokenize.TokenError),
)


class NotPlainError(ValueError):
    """An array of Python objects or of records, of which nothing but the header is ever read."""

    def __init__(self, message: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        super().__init__(message)
        self.shape, self.dtype = shape, dtype


def read_npz(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """All arrays of an .npz, in memory; anything else is a ValueError that names the file."""
    rule = f"expected {os.fspath(path)} to be a whole .npz of plain arrays"
    try:
        with zipfile.ZipFile(path) as archive:
            members = checked_members(archive, path)
            return {m.filename.removesuffix(".npy"): read_member(archive, m) for m in members}
    except FileNotFoundError:
        raise ValueError(f"{rule}, got no such file") from None
    except BROKEN as error:
        raise ValueError(f"{rule}, got: {error}") from None


def checked_members(
    archive: zipfile.ZipFile, path: str | os.PathLike[str]
) -> list[zipfile.ZipInfo]:
    """The members, unless they declare more than is bearable."""
    members = archive.infolist()
    packed = [m for m in members if m.compress_type != zipfile.ZIP_STORED]
    inflated = sum(m.file_size for m in packed)
    if inflated > MAX_INFLATED:
        raise ValueError(f"{inflated} bytes compressed; write it with numpy.savez")
    # Members that overlap would be copied once each.
    if sum(m.file_size for m in members) - inflated > os.path.getsize(path):
        raise ValueError("members larger than the file")
    return members


def read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """An array, in memory."""
    with archive.open(member) as file:
        shape, order, dtype = read_header(file, member.file_size, member.filename)
        data = file.read()
    size = math.prod(shape) * dtype.itemsize
    if len(data) != size:
        raise ValueError(f"{len(data)} of {size} bytes of {member.filename}")
    return np.frombuffer(bytearray(data), dtype).reshape(shape, order=order)


def map_npy(path: str | os.PathLike[str]) -> np.ndarray:
    """The array of an .npy, mapped; writing to it never reaches the file."""
    rule = f"expected {os.fspath(path)} to be a whole .npy of a plain array"
    try:
        with open(path, "rb") as file:
            shape, order, dtype = read_header(file, os.path.getsize(path), "the file")
            return np.memmap(file, dtype, "c", file.tell(), shape, order)
    except FileNotFoundError:
        raise ValueError(f"{rule}, got no such file") from None
    except NotPlainError as error:
        raise NotPlainError(f"{rule}, got: {error}", error.shape, error.dtype) from None
    except BROKEN as error:
        raise ValueError(f"{rule}, got: {error}") from None


def read_header(
    file: IO[bytes], size: int, name: str
) -> tuple[tuple[int, ...], Literal["C", "F"], np.dtype[Any]]:
    """Shape, order and dtype of an array, held against the bytes that are there for it."""
    version = npy.read_magic(file)
    if version == (1, 0):
        shape, fortran, dtype = npy.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, fortran, dtype = npy.read_array_header_2_0(file)
    else:
        raise ValueError(f"format {version} of {name}")
    if dtype.hasobject or dtype.names is not None or dtype.subdtype is not None:
        raise NotPlainError(f"dtype {dtype} in {name}, which is no plain number", shape, dtype)
    left = size - file.tell()
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != left:
        raise ValueError(f"{left} bytes for shape {shape} of {dtype} in {name}")
    return shape, "F" if fortran else "C", dtype


def as_tensor(array: np.ndarray, path: str | os.PathLike[str]) -> Tensor:
    """A tensor that shares the array's memory."""
    try:
        return torch.from_numpy(array)
    except (TypeError, ValueError):
        rule = f"expected an array of numbers in this machine's byte order in {os.fspath(path)}"
        raise ValueError(f"{rule}, got {array.dtype} {array.shape}") from None
