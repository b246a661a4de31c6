"""Labels and identities of rows as numbers, from integers, whole floats, booleans or strings."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from resultant.features.rows import AnyArray, NonNumericArray, Rows, TensorRows
from resultant.features.schema import INTEGER_DTYPES


def class_labels(
    where: str,
    parts: Mapping[str, Sequence[tuple[str, AnyArray]]],
    called: Mapping[str, str],
) -> tuple[dict[str, Rows], list[str]]:
    """Convert the labels of each split to class numbers.

    Strings are numbered in sorted order over all splits, so that a class has one number in all
    splits. Numerals are sorted as numbers.

    Args:
        where: The name of the files in messages.
        parts: The files and labels of each split by name.
        called: The names in the files by name.

    Returns:
        The labels [N] int64 by name, and the names of the classes if the labels are strings.
    """
    pieces = [(name, *part) for name, of_name in parts.items() for part in of_name]
    strings = [(name, file, a) for name, file, a in pieces if isinstance(a, NonNumericArray)]
    if not strings:
        tensors = {
            n: torch.cat([_whole(called.get(n, n), *part) for part in p]) for n, p in parts.items()
        }
        return {name: TensorRows(labels) for name, labels in tensors.items()}, []
    for name, file, array in pieces:
        if isinstance(array, Rows):
            first = f"{called.get(strings[0][0], strings[0][0])} of {strings[0][1]}"
            rule = f"expected {called.get(name, name)} of {where} as strings, as are {first}"
            raise ValueError(f"{rule}, got {array.dtype} in {file}")
    encoded = {(n, file): _strings(called.get(n, n), file, a) for n, file, a in strings}
    names = sorted({word for words, _ in encoded.values() for word in words})
    if all(map(_is_number, names)):
        names.sort(key=float)
    numbers = {word: c for c, word in enumerate(names)}
    labels: dict[str, list[Tensor]] = {}
    for (name, _), (words, codes) in encoded.items():
        labels.setdefault(name, []).append(torch.tensor([numbers[w] for w in words])[codes])
    return {name: TensorRows(torch.cat(tensors)) for name, tensors in labels.items()}, names


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _strings(name: str, file: str, array: NonNumericArray) -> tuple[list[str], Tensor]:
    rule = f"expected {name} of {file} to be [N] integers or strings"
    if array.read is None:
        rest = ", which is never unpickled; save it by .astype(str)" * (array.kind == "object")
        raise ValueError(f"{rule}, got dtype {array.kind}{rest}")
    if array.shape not in (array.shape[:1], (*array.shape[:1], 1)) or not array.shape:
        raise ValueError(f"{rule}, got {array.kind} {array.shape}")
    return array.read()


def _whole(name: str, file: str, rows: AnyArray) -> Tensor:
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


def identity_numbers(file: str, name: str, array: AnyArray) -> Rows:
    """Return identities [N] as int64: integers as they are, strings by 64 bits of their hash.

    A string has the same number in every file, so that files can be compared.
    """
    rule = f"expected {name} of {file} to be [N] integers"
    if isinstance(array, Rows):
        if len(array.shape) != 1 or array.dtype not in INTEGER_DTYPES:
            raise ValueError(f"{rule}, got {array.dtype} {array.shape}")
        return TensorRows(array.read(0, len(array)).to(torch.int64))
    if array.read is None or len(array.shape) != 1:
        raise ValueError(f"{rule} or strings, got {array.kind} {array.shape}")
    words, codes = array.read()
    digests = (hashlib.blake2b(word.encode(), digest_size=8).digest() for word in words)
    numbers = torch.tensor([int.from_bytes(d, "little", signed=True) for d in digests])
    return TensorRows(numbers[codes])
