"""Class numbers from labels as files hold them: integers, whole floats, booleans or strings."""

from __future__ import annotations

import torch
from torch import Tensor

from resultant.features.rows import MemoryRows, NonNumericArray, Rows

# The parts of each array by name: the file of a part, and the part.
Parts = dict[str, list[tuple[str, Rows | NonNumericArray]]]


def class_labels(where: str, parts: Parts) -> tuple[dict[str, Rows], list[str]]:
    """Convert the labels of each split to class numbers.

    Strings are numbered in sorted order over all splits, so that a class has one number in all
    splits. Numerals are sorted as numbers.

    Returns:
        The labels [N] int64 by name, and the names of the classes if the labels are strings.
    """
    pieces = [(name, *part) for name, of_name in parts.items() for part in of_name]
    strings = [
        (name, file, array) for name, file, array in pieces if isinstance(array, NonNumericArray)
    ]
    if not strings:
        tensors = {n: torch.cat([_whole(n, *part) for part in p]) for n, p in parts.items()}
        return {name: MemoryRows(labels) for name, labels in tensors.items()}, []
    for name, file, array in pieces:
        if isinstance(array, Rows):
            first = f"{strings[0][0]} of {strings[0][1]}"
            rule = f"expected {name} of {where} as strings, as are {first}"
            raise ValueError(f"{rule}, got {array.dtype} in {file}")
    encoded = {(name, file): _strings(name, file, array) for name, file, array in strings}
    names = sorted({word for words, _ in encoded.values() for word in words})
    if all(word.isdecimal() for word in names):
        names.sort(key=int)
    numbers = {word: c for c, word in enumerate(names)}
    labels: dict[str, list[Tensor]] = {}
    for (name, _), (words, codes) in encoded.items():
        labels.setdefault(name, []).append(torch.tensor([numbers[w] for w in words])[codes])
    return {name: MemoryRows(torch.cat(tensors)) for name, tensors in labels.items()}, names


def _strings(name: str, file: str, array: NonNumericArray) -> tuple[list[str], Tensor]:
    rule = f"expected {name} of {file} to be [N] integers or strings"
    if array.read is None:
        rest = ", which is never unpickled; save it by .astype(str)" * (array.kind == "object")
        raise ValueError(f"{rule}, got dtype {array.kind}{rest}")
    if array.shape not in (array.shape[:1], (*array.shape[:1], 1)) or not array.shape:
        raise ValueError(f"{rule}, got {array.kind} {array.shape}")
    return array.read()


def _whole(name: str, file: str, rows: Rows | NonNumericArray) -> Tensor:
    """Labels [N] from whole numbers [N] or [N, 1]."""
    assert isinstance(rows, Rows)
    shape = rows.shape
    if len(shape) != 1 and (len(shape) != 2 or shape[1] != 1):
        hint = "; take the argmax of one-hot rows" * (len(shape) == 2)
        rule = f"expected {name} of {file} to be [N] integers"
        raise ValueError(f"{rule}, got {rows.dtype} {shape}{hint}")
    values = rows.read(0, len(rows)).reshape(-1)
    if values.is_floating_point():
        # Beyond 2^53 every float is whole; NaN differs from itself.
        bad = ((values != values.round()) | (values.abs() > 2.0**53)).nonzero()[:, 0]
        if len(bad):
            row = int(bad[0])
            got = f"{float(values[row])} in {rows.where(row)}"
            raise ValueError(f"expected {name} of {file} to be whole numbers, got {got}")
    elif values.is_complex():
        raise ValueError(f"expected {name} of {file} to be [N] integers, got {values.dtype}")
    return values.to(torch.int64)
