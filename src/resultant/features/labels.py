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
    where: str, parts: Mapping[str, Sequence[tuple[str, AnyArray]]], called: Mapping[str, str]
) -> tuple[dict[str, Rows], list[str]]:
    """Convert the labels of each split to class numbers.

    Strings are numbered in sorted order over all splits, so that a class has one number in all
    splits. Numerals are sorted as numbers.

    Returns:
        The labels [N] int64 by name, and the names of the classes if the labels are strings.
    """
    pieces = [(called[name], *part) for name, of_name in parts.items() for part in of_name]
    words = [(name, file) for name, file, a in pieces if isinstance(a, NonNumericArray)]
    for name, file, array in pieces:
        if words and isinstance(array, Rows):
            rule = f"expected {name} of {where} as strings, as are {words[0][0]} of {words[0][1]}"
            raise ValueError(f"{rule}, got {array.dtype} in {file}")
    read = _strings if words else _integers
    values = {n: [read(called[n], *part) for part in of_name] for n, of_name in parts.items()}
    names = sorted({word for of_name in values.values() for found, _ in of_name for word in found})
    if all(map(_is_number, names)):
        names.sort(key=float)
    numbers = {word: c for c, word in enumerate(names)}
    labels: dict[str, Rows] = {}
    for name, of_name in values.items():
        classes = [torch.tensor([numbers[word] for word in found]) for found, _ in of_name]
        pairs = zip(classes, (y for _, y in of_name), strict=True)
        labels[name] = TensorRows(torch.cat([of[y] if len(of) else y for of, y in pairs]))
    return labels, names


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _strings(name: str, file: str, array: AnyArray) -> tuple[list[str], Tensor]:
    """The distinct strings of an array [N] or [N, 1], and the index of each row."""
    assert isinstance(array, NonNumericArray)
    rule = f"expected {name} of {file} to be [N] integers or strings"
    if array.read is None:
        rest = ", which is never unpickled; save it by .astype(str)" * (array.kind == "object")
        raise ValueError(f"{rule}, got dtype {array.kind}{rest}")
    if not array.shape or math.prod(array.shape[1:]) != 1:
        raise ValueError(f"{rule}, got {array.kind} {array.shape}")
    return array.read()


def _integers(name: str, file: str, rows: AnyArray) -> tuple[list[str], Tensor]:
    """Labels [N] from whole numbers [N] or [N, 1], without strings."""
    assert isinstance(rows, Rows)
    rule = f"expected {name} of {file} to be [N] integers"
    if not rows.shape or math.prod(rows.shape[1:]) != 1 or rows.dtype.is_complex:
        hint = "; take the argmax of one-hot rows" * (len(rows.shape) == 2)
        raise ValueError(f"{rule}, got {rows.dtype} {rows.shape}{hint}")
    values = rows.read(0, len(rows)).reshape(-1)
    if values.is_floating_point():
        # Beyond 2^53 every float is whole; NaN differs from itself.
        bad = ((values != values.round()) | (values.abs() > 2.0**53)).nonzero()[:, 0].tolist()
        if bad:
            got = f"{float(values[bad[0]])} in {rows.where(bad[0])}"
            raise ValueError(f"expected {name} of {file} to be whole numbers, got {got}")
    return [], values.to(torch.int64)


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
