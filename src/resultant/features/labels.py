"""Labels and identities of rows as numbers, from integers, whole floats, booleans or strings."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from resultant.features.naming import is_numeral
from resultant.features.rows import AnyArray, NonNumericArray, Rows, TensorRows


def class_labels(
    where: str, parts: Mapping[str, Sequence[tuple[str, AnyArray]]], called: Mapping[str, str]
) -> tuple[dict[str, Rows], list[str]]:
    """Convert the labels of each split to class numbers [N], and return the names of the classes.

    Strings are numbered in sorted order over all splits, so that a class has one number in all
    splits. Numerals are sorted as numbers. Labels that are numbers have no names.
    """
    pieces = [(called[name], *part) for name, of_name in parts.items() for part in of_name]
    words = [(name, file) for name, file, a in pieces if isinstance(a, NonNumericArray)]
    for name, file, array in pieces:
        if words and isinstance(array, Rows):
            rule = f"expected {name} of {where} as strings, as are {words[0][0]} of {words[0][1]}"
            raise ValueError(f"{rule}, got {array.dtype} in {file}")
    values = {n: [_values(called[n], *part) for part in of_name] for n, of_name in parts.items()}
    names = sorted({word for of_name in values.values() for found, _ in of_name for word in found})
    if all(map(is_numeral, names)):
        names.sort(key=float)
    numbers = {word: c for c, word in enumerate(names)}
    labels: dict[str, Rows] = {}
    for name, of_name in values.items():
        pairs = ((torch.tensor([numbers[word] for word in found]), y) for found, y in of_name)
        labels[name] = TensorRows(torch.cat([c[y] if len(c) else y for c, y in pairs]))
    return labels, names


def identity_numbers(file: str, name: str, array: AnyArray) -> Rows:
    """Return identities [N] as int64: integers as they are, strings by 64 bits of their hash.

    A string has the same number in every file, so that files can be compared.
    """
    words, values = _values(name, file, array)
    digests = (hashlib.blake2b(word.encode(), digest_size=8).digest() for word in words)
    numbers = torch.tensor([int.from_bytes(d, "little", signed=True) for d in digests])
    return TensorRows(numbers[values] if words else values)


def _values(name: str, file: str, array: AnyArray) -> tuple[list[str], Tensor]:
    """The whole numbers of an array [N] or [N, 1]; or its distinct strings, and those of rows."""
    one, hint = bool(array.shape) and math.prod(array.shape[1:]) == 1, ""
    if isinstance(array, NonNumericArray):
        if array.read is not None and one:
            return array.read()
        rule, got = "[N] integers or strings", str(array)
        hint = "; save it by .astype(str)" * array.kind.startswith("object")
    elif not one or array.dtype.is_complex:
        rule, got = "[N] integers", str(array)
        hint = "; take the argmax of one-hot rows" * (len(array.shape) == 2)
    else:
        values = array.read(0, len(array)).reshape(-1)
        # Beyond 2^53 every float is whole; NaN differs from itself.
        real = values if values.is_floating_point() else values[:0].float()
        bad = ((real != real.round()) | (real.abs() > 2.0**53)).nonzero()[:, 0].tolist()
        if not bad:
            return [], values.to(torch.int64)
        rule, got = "whole numbers", f"{float(values[bad[0]])} in {array.where(bad[0])}"
    raise ValueError(f"expected {name} of {file} to be {rule}, got {got}{hint}")
