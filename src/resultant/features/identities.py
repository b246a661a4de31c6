"""Identities of rows, and the rows that two samples have in common."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from resultant.features.rows import AnyArray, Rows, TensorRows
from resultant.features.schema import INTEGER_DTYPES


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


@dataclass(frozen=True)
class RowMatch:
    """The rows that two samples have in common, by their identities.

    Attributes:
        kind: ``same`` rows in the same order, ``reordered`` if only the order differs, ``overlap``
            if some rows are in both, ``different`` if none is, and ``unknown`` if a sample has no
            identities, or repeats one and the samples differ.
        a: Indices [M] of the common rows in the first sample, in its order.
        b: Indices [M] of the same rows in the second sample.
    """

    kind: Literal["same", "reordered", "overlap", "different", "unknown"]
    a: Tensor
    b: Tensor


def match_rows(a: Tensor | None, b: Tensor | None) -> RowMatch:
    """Match the rows of two samples by identities [N] and [M], or None for a sample without.

    Example:
        >>> import torch
        >>> from resultant.features import match_rows
        >>> match = match_rows(torch.tensor([7, 8, 9]), torch.tensor([9, 7, 5]))
        >>> match.kind, match.a.tolist(), match.b.tolist()
        ('overlap', [0, 2], [1, 0])
    """
    none = torch.empty(0, dtype=torch.int64)
    if a is None or b is None:
        return RowMatch("unknown", none, none)
    if torch.equal(a, b):
        return RowMatch("same", torch.arange(len(a)), torch.arange(len(b)))
    if any(len(x.unique()) < len(x) for x in (a, b)):
        return RowMatch("unknown", none, none)
    order = b.argsort()
    at = torch.searchsorted(b[order], a).clamp_max(len(b) - 1)
    rows = (b[order][at] == a).nonzero()[:, 0]
    both = rows, order[at[rows]]
    if not len(rows):
        return RowMatch("different", none, none)
    return RowMatch("reordered" if len(rows) == len(a) == len(b) else "overlap", *both)
