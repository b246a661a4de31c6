"""Arrays by name in .npy, .npz, .safetensors and .pt files, mapped where they are not compressed.
No pickle is loaded."""

import math
import pickle
import struct
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib import format as npy
from safetensors import safe_open
from torch import Tensor

from resultant._core.files import parse_json
from resultant.features import rows
from resultant.features.declared import require_content
from resultant.features.rows import AnyArray, FileRows, NonNumericArray, TensorRows, reading

# The format that `write_store` notes in the metadata; files of other programs have none, pt or np.
FORMAT = "resultant.FeatureStore 1"
# The entry of the metadata with the names of arrays of text, see `text_tensor`.
TEXTS = "texts"

# Levels of nested dictionaries in a .pt file.
DEPTH = 4

# Bytes of the header of a zip member before its name, and the place of the length of the name.
LOCAL_HEADER, NAME_LENGTH = 30, 26

NPY, NPZ = "a whole .npy of a plain array", "a whole .npz of plain arrays"

Arrays = dict[str, AnyArray]


def read_npy(path: Path) -> AnyArray:
    """Open the array of an .npy file."""
    with reading(path, NPY), open(path, "rb") as file:
        layout = _layout(file, path.stat().st_size, path.name)
        return _array(path, partial(_mapped, path, file.tell(), *layout), *layout[:2])


def read_npz(path: Path) -> Arrays:
    """Open the arrays of an .npz file by name."""
    arrays: Arrays = {}
    with reading(path, NPZ), zipfile.ZipFile(path) as archive, open(path, "rb") as raw:
        for member in (m for m in archive.infolist() if m.filename.endswith(".npy")):
            with archive.open(member) as file:
                layout = _layout(file, member.file_size, member.filename)
                start = file.tell() + member.header_offset + LOCAL_HEADER
            # Decoded once, at the first reading.
            load = cache(partial(_decoded, path, member.filename))
            if member.compress_type == zipfile.ZIP_STORED and math.prod(layout[0]):
                raw.seek(member.header_offset + NAME_LENGTH)
                start += sum(struct.unpack("<HH", raw.read(4)))
                load = partial(_mapped, path, start, *layout)
            name = member.filename.removesuffix(".npy")
            arrays[name] = _array(path, load, *layout[:2])
    return arrays


def _layout(file: Any, size: int, name: str) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
    """Read shape, dtype, and True for the order of Fortran, of an array of a file of ``size``."""
    version = npy.read_magic(file)
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"an array of format {version}")
    shape, fortran, dtype = readers[version](file)
    size -= file.tell()
    if min(shape, default=0) < 0:
        raise ValueError(f"an array of shape {shape} in {name}")
    if not dtype.hasobject and math.prod(shape) * dtype.itemsize > size:
        raise ValueError(f"{size:,} bytes for {dtype} {shape} in {name}")
    return shape, dtype, fortran


def _decoded(path: Path, name: str) -> np.ndarray:
    with reading(path, NPZ), zipfile.ZipFile(path) as archive:
        require_content(archive.getinfo(name).file_size, f"{name}, decompressed")
        with archive.open(name) as file:
            return npy.read_array(file, allow_pickle=False)


def _mapped(path: Path, start: int, shape: Any, dtype: Any, fortran: bool) -> np.ndarray:
    # Not by np.load, which parses the header as Python at each reading: that is not safe in
    # threads. Copy on write: nothing is written to the file.
    with reading(path, "a file of arrays as it was when it was opened"):
        return np.memmap(path, dtype, "c", start, shape, "F" if fortran else "C")


def _part(load: Any, start: int, stop: int) -> np.ndarray:
    """Return rows of an array; a decoded one is kept until it is read as a whole."""
    array = load()
    if not hasattr(load, "cache_clear"):
        return array[start:stop]
    if stop - start < len(array):
        return array[start:stop].copy()
    load.cache_clear()
    return array


def _array(
    path: Path, load: Callable[[], np.ndarray], shape: Any, dtype: np.dtype[Any]
) -> AnyArray:
    """Return the rows of an array; strings are read when they are needed, and objects never."""
    number = None if dtype.kind in "OVUS" else rows.torch_dtype(dtype)
    if number is not None:
        decoded = hasattr(load, "cache_clear")
        return FileRows(partial(_part, load), shape, number, decoded)
    words = (lambda: _distinct(load(), path)) if dtype.kind in "US" else None
    kind = "object, which is never unpickled" if dtype.kind == "O" else str(dtype)
    return NonNumericArray(shape, kind, words)


def _distinct(array: np.ndarray, path: Path) -> tuple[list[str], Tensor]:
    """Return the distinct strings of an array, and the index of each element [N] among them."""
    array = np.array(array, array.dtype.newbyteorder("=")).reshape(-1)
    if array.dtype.kind == "U" and array.nbytes and array.view(np.uint32).max() > sys.maxunicode:
        # Python makes strings of such numbers and fails later.
        raise ValueError(f"expected strings of Unicode characters in {path}, got other numbers")
    words, codes = np.unique(array, return_inverse=True)
    texts = (w.decode("utf-8", "replace") if isinstance(w, bytes) else w for w in words.tolist())
    return list(texts), torch.from_numpy(codes)


def read_safetensors(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Map the arrays of a .safetensors file by name, and return its JSON metadata too."""
    with reading(path, "a whole safetensors file of features"), safe_open(path, "pt") as file:
        header = file.metadata() or {}
        if header.get("format", FORMAT) not in (FORMAT, "pt", "np"):
            raise ValueError(f"format {header['format']!r}, not {FORMAT!r}")
        metadata = parse_json(header.get("metadata", "{}"))
        if not isinstance(metadata, dict):
            raise ValueError(f"metadata of {type(metadata).__name__}, not a JSON object")
        texts = metadata.get(TEXTS, ()) if header.get("format") == FORMAT else ()
        arrays: Arrays = {}
        for name in file.keys():  # noqa: SIM118
            tensor = file.get_tensor(name)
            arrays[name] = _text(tensor, path) if name in texts else _tensor(tensor)
        return arrays, {name: value for name, value in metadata.items() if name != TEXTS}


def text_tensor(texts: Sequence[str]) -> Tensor:
    """Return texts as rows of UTF-8, uint8 [N, length of the longest], which zeros fill up."""
    array = np.array([text.encode() for text in texts], dtype=np.bytes_)
    # An array of empty texts has rows of one byte.
    return torch.from_numpy(array.view(np.uint8).reshape(len(array), -1).copy())


def _text(tensor: Tensor, path: Path) -> AnyArray:
    """Return the texts of `text_tensor`."""
    if tensor.dtype != torch.uint8 or tensor.dim() != 2 or not tensor.shape[1]:
        raise ValueError(f"texts as {tensor.dtype} {list(tensor.shape)}, not uint8 [N, length]")

    def read() -> tuple[list[str], Tensor]:
        array = tensor.numpy()
        return _distinct(array.view(f"S{array.shape[1]}").reshape(-1), path)

    return NonNumericArray((len(tensor),), "strings", read)


def read_torch(path: Path) -> Arrays:
    """Map the tensors of a dictionary, also nested, or of a pair of features and labels."""
    hint = "save a dictionary of tensors by torch.save"
    with reading(path, "a whole .pt file of tensors"):
        # Files from before torch 1.6 are no archives and cannot be mapped.
        mapped = zipfile.is_zipfile(path)
        if not mapped:
            require_content(path.stat().st_size, "tensors in the format before torch 1.6")
        try:
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
        except pickle.UnpicklingError:
            # The message of torch tells how to execute the file.
            raise ValueError(f"other objects, which are never loaded; {hint}") from None
        if isinstance(content, Tensor):
            content = {"features": content}
        if isinstance(content, (tuple, list)) and len(content) == 2:
            content = dict(zip(("features", "labels"), content, strict=True))
        if not isinstance(content, dict):
            raise ValueError(f"{type(content).__name__}; {hint}")
        arrays = dict(_collect(path, content, "", DEPTH))
        if not arrays:
            raise ValueError(f"no tensors; {hint}")
        return arrays


def _collect(
    path: Path, content: dict[Any, Any], before: str, depth: int
) -> Iterator[tuple[str, AnyArray]]:
    for key, value in content.items():
        name = f"{before}{key}"
        if isinstance(value, dict) and depth:
            yield from _collect(path, value, f"{name}/", depth - 1)
        elif isinstance(value, Tensor):
            yield name, _tensor(value.detach())
        elif isinstance(value, (list, tuple)) and value:
            if all(isinstance(v, str) for v in value):
                read = partial(_distinct, np.array(value), path)
                yield name, NonNumericArray((len(value),), "strings", read)
            elif all(type(v) is int for v in value):
                yield name, TensorRows(torch.tensor(value))


def _tensor(tensor: Tensor) -> AnyArray:
    plain = tensor.layout == torch.strided and not tensor.is_quantized
    # A few stored numbers can be expanded to any size.
    plain = plain and tensor.nbytes <= tensor.untyped_storage().nbytes()
    if not plain or (tensor.is_floating_point() and tensor.itemsize < 2):
        return NonNumericArray(tuple(tensor.shape), f"{tensor.dtype} that is not read")
    return TensorRows(tensor)
