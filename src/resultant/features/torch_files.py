"""The tensors of .pt files, read by torch without anything that a pickle could execute."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from resultant._core import chunks
from resultant._core.tensor_files import DTYPES
from resultant._core.text import one_line
from resultant._core.torch_files import load_torch
from resultant.features.rows import MappedRows, MemoryRows, NonNumericArray, Rows, SharedFile

# Levels of nested dictionaries that are read, and the most arrays of a file.
DEPTH = 4
MOST = 10_000


def read_torch(path: Path) -> dict[str, Rows | NonNumericArray]:
    """Open the tensors of a file of `torch.save` by name; large ones stay in the file.

    The file holds a dictionary of tensors, also nested, or a pair of features and labels. Lists of
    strings are names.

    Raises:
        ValueError: The file is broken, is of another kind, or holds other objects.
    """
    rule = f"expected {path} to be a whole .pt file of tensors"
    hint = "save a dictionary of tensors by torch.save"
    try:
        # Not mapped: a mapped file that is truncated meanwhile would end the process.
        with FakeTensorMode() if path.stat().st_size > chunks.HELD_BYTES else nullcontext():
            content = load_torch(path)
    except FileNotFoundError:
        raise ValueError(f"{rule}, got no such file") from None
    except (ValueError, OSError, MemoryError) as error:
        raise ValueError(f"{rule}, got: {one_line(error)}; {hint}") from None
    if isinstance(content, Tensor):
        content = {"features": content}
    if isinstance(content, (tuple, list)) and len(content) == 2:
        content = dict(zip(("features", "labels"), content, strict=True))
    if not isinstance(content, dict):
        raise ValueError(f"{rule}, got {type(content).__name__}; {hint}")
    arrays: dict[str, Rows | NonNumericArray] = {}
    _collect(arrays, content, "", DEPTH, SharedFile(path))
    if not arrays or len(arrays) > MOST:
        raise ValueError(f"{rule}, got {len(arrays):,} tensors; {hint}")
    return arrays


def _collect(
    arrays: dict[str, Rows | NonNumericArray],
    content: dict[Any, Any],
    before: str,
    depth: int,
    file: SharedFile,
) -> None:
    for key, value in content.items():
        name = f"{before}{key}"
        if isinstance(value, dict) and depth:
            _collect(arrays, value, f"{name}/", depth - 1, file)
        elif isinstance(value, Tensor):
            arrays[name] = _rows(value, file)
        elif isinstance(value, (list, tuple)) and value:
            if all(isinstance(v, str) for v in value):
                arrays[name] = _strings([str(v) for v in value])
            elif all(type(v) is int for v in value):
                arrays[name] = MemoryRows(torch.tensor(value))


def _rows(tensor: Tensor, file: SharedFile) -> Rows | NonNumericArray:
    tensor = tensor.detach()
    plain = tensor.layout == torch.strided and not tensor.is_quantized
    # A few stored numbers can be expanded to any size.
    size = tensor.numel() * tensor.element_size()
    if not plain or size > tensor.untyped_storage().nbytes():
        return NonNumericArray(tuple(tensor.shape), "tensor that is not stored as it is")
    if not isinstance(tensor, FakeTensor):
        return MemoryRows(tensor)
    layout = next((layout for dtype, layout in DTYPES.values() if dtype == tensor.dtype), None)
    if layout is None or not tensor.is_contiguous():
        return NonNumericArray(tuple(tensor.shape), "large tensor that is not contiguous")
    # The place of its storage in the file.
    start: int = tensor.untyped_storage()._checkpoint_offset  # type: ignore[assignment]
    start += int(tensor.storage_offset()) * tensor.element_size()
    return MappedRows(file, start, tuple(tensor.shape), tensor.dtype, layout)


def _strings(words: list[str]) -> NonNumericArray:
    distinct = sorted(set(words))
    number = {word: i for i, word in enumerate(distinct)}
    codes = torch.tensor([number[word] for word in words])
    return NonNumericArray((len(words),), "strings", lambda: (distinct, codes))
