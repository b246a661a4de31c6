"""Labels as files hold them, whole numbers of any dtype or strings, as classes."""

from __future__ import annotations

import torch
from torch import Tensor

from resultant.features.rows import MemoryRows, NonNumericArray, Rows

# Arrays by name, of each the files that hold a part of it, and these parts.
Parts = dict[str, list[tuple[str, Rows | NonNumericArray]]]


def class_labels(where: str, parts: Parts) -> tuple[dict[str, Rows], list[str]]:
    """The labels [N] int64 of all splits by name, and of strings the names of the classes.

    Strings are counted in sorted order, those of all splits together, so that a class has one
    number everywhere; numerals are sorted as numbers.
    """
    every = [(name, *part) for name, of in parts.items() for part in of]
    words = [
        (name, file, array) for name, file, array in every if isinstance(array, NonNumericArray)
    ]
    if not words:
        found = {n: torch.cat([_whole(n, *part) for part in of]) for n, of in parts.items()}
        return {name: MemoryRows(labels) for name, labels in found.items()}, []
    for name, file, array in every:
        if isinstance(array, Rows):
            rule = f"expected {name} of {where} as strings, as are {words[0][0]} of {words[0][1]}"
            raise ValueError(f"{rule}, got {array.dtype} in {file}")
    read = {(name, file): _strings(name, file, array) for name, file, array in words}
    names = sorted({word for known, _ in read.values() for word in known})
    if all(word.isdecimal() for word in names):
        names.sort(key=int)
    place = {word: c for c, word in enumerate(names)}
    labels: dict[str, list[Tensor]] = {}
    for (name, _), (known, codes) in read.items():
        labels.setdefault(name, []).append(torch.tensor([place[w] for w in known])[codes])
    return {name: MemoryRows(torch.cat(of)) for name, of in labels.items()}, names


def _strings(name: str, file: str, array: NonNumericArray) -> tuple[list[str], Tensor]:
    rule = f"expected {name} of {file} to be [N] integers or strings"
    if array.read is None:
        rest = ", which is never unpickled; save it by .astype(str)" * (array.kind == "object")
        raise ValueError(f"{rule}, got dtype {array.kind}{rest}")
    if array.shape not in (array.shape[:1], (*array.shape[:1], 1)) or not array.shape:
        raise ValueError(f"{rule}, got {array.kind} {array.shape}")
    return array.read()


def _whole(name: str, file: str, rows: Rows | NonNumericArray) -> Tensor:
    """Labels [N] of numbers [N] or [N, 1], which must be whole."""
    assert isinstance(rows, Rows)
    shape = rows.shape
    if len(shape) != 1 and (len(shape) != 2 or shape[1] != 1):
        hint = "; take the argmax of one-hot rows" * (len(shape) == 2)
        rule = f"expected {name} of {file} to be [N] integers"
        raise ValueError(f"{rule}, got {rows.dtype} {shape}{hint}")
    values = rows.read(0, len(rows)).reshape(-1)
    if values.is_floating_point():
        # Beyond 2^53 every float is whole; what is not a number is unlike itself.
        bad = ((values != values.round()) | (values.abs() > 2.0**53)).nonzero()[:, 0]
        if len(bad):
            row = int(bad[0])
            got = f"{float(values[row])} in {rows.where(row)}"
            raise ValueError(f"expected {name} of {file} to be whole numbers, got {got}")
    elif values.is_complex():
        raise ValueError(f"expected {name} of {file} to be [N] integers, got {values.dtype}")
    return values.to(torch.int64)
