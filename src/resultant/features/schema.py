"""The rules for the arrays of a feature store: names, dtypes, shapes and values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import torch
from torch import Tensor

from resultant.features.naming import NAMING, SPLITS, full_name, split_part, what_of
from resultant.features.rows import Rows, TensorRows

INTEGERS = ("labels", "identities")

FEATURE_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
INTEGER_DTYPES = (
    *(torch.int64, torch.int32, torch.int16, torch.int8),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
)

# Counts per class are allocated up to the largest label, which a broken file could inflate.
MAX_CLASSES = 1 << 22


class ZeroVectorsError(ValueError):
    """A row is a zero vector, which has no direction."""


def check_layout(where: str, arrays: Mapping[str, Tensor | Rows]) -> dict[str, Rows]:
    """Check names, dtypes, shapes and lengths; return the arrays by full name."""
    checked: dict[str, Rows] = {}
    lengths: dict[str, dict[str, int]] = {}
    for old, array in sorted(arrays.items()):
        name = full_name(old)
        rows = array if isinstance(array, Rows) else TensorRows(array)
        split, what = split_part(name), what_of(name)
        if split not in SPLITS or not what:
            raise ValueError(f"expected arrays of {where} named {NAMING}, got {old!r}")
        if name in checked:
            raise ValueError(f"expected one {name} in {where}, got another called {old!r}")
        integers = what in INTEGERS
        dim, dtypes = (1, INTEGER_DTYPES) if integers else (2, FEATURE_DTYPES)
        if len(rows.shape) != dim or rows.dtype not in dtypes:
            expected = "[N] integers" if integers else "[N, d] floats"
            rule = f"expected {name} of {where} to be {expected}"
            raise ValueError(f"{rule}, got {rows.dtype} {rows.shape}")
        if not math.prod(rows.shape):
            raise ValueError(f"expected {name} of {where} not empty, got {rows.shape}")
        lengths.setdefault(split, {})[name] = len(rows)
        checked[name] = rows
    if not checked:
        raise ValueError(f"expected arrays such as train/features in {where}, got none")
    for by_name in lengths.values():
        require_one_length(where, by_name)
    for name in checked:
        if what_of(name) in INTEGERS:
            checked[name] = TensorRows(checked[name].read(0, len(checked[name])).to(torch.int64))
    return checked


def require_one_length(where: str, lengths: Mapping[str, int]) -> None:
    """Raise at the first array of a split that is shorter or longer than most."""
    usual = Counter(lengths.values()).most_common(1)[0][0]
    for name, length in lengths.items():
        if length != usual:
            like = next(n for n, other in lengths.items() if other == usual)
            rule = f"expected {usual} rows in {name} of {where}, as in {like}, got {length}"
            raise ValueError(f"{rule} (names are {NAMING}; --features chooses one)")


def number_of_classes(where: str, arrays: Mapping[str, Tensor], declared: int | None) -> int:
    """The declared number of classes, or else one more than the largest label of all splits."""
    number = declared or MAX_CLASSES
    largest = -1
    for name, labels in arrays.items():
        bad = (labels < 0) | (labels >= number)
        if bad.any():
            i = int(bad.nonzero()[0])
            rule = f"expected {name} of {where} in [0, {number})"
            hint = "; labels number the classes from 0, or are strings"
            hint *= declared is None
            raise ValueError(f"{rule}, got {int(labels[i])} at row {i}{hint}")
        largest = max(largest, int(labels.max()))
    return number if declared else largest + 1


def require_vectors(
    piece: Tensor,
    name: str,
    rows: Rows,
    top: int = 0,
    *,
    zero: bool = False,
    whole: bool = False,
) -> None:
    """Raise unless all vectors of a piece are finite and not zero.

    Args:
        piece: Rows [n, d].
        name: The name of the array in messages.
        rows: The array of the piece.
        top: The index of the first row of the piece in the array.
        zero: Allow zero vectors.
        whole: Count the zero vectors in the rest of the array too.
    """
    # One pass over valid rows: a finite norm above zero proves a valid vector.
    wide = torch.float64 if piece.dtype == torch.float64 else torch.float32
    norm = torch.linalg.vector_norm(piece, dim=1, dtype=wide)
    if norm.isfinite().all() and (zero or (norm > 0).all()):
        return
    finite = piece.isfinite().all(-1)
    if not finite.all():
        i = int((~finite).nonzero()[0])
        value = piece[i][~piece[i].isfinite()][0]
        raise ValueError(f"expected {name} finite, got {float(value)} in {rows.where(top + i)}")
    empty = (piece == 0).all(-1)
    if not zero and empty.any():
        got = f"one in {rows.where(top + int(empty.nonzero()[0]))}"
        ends = range(top, len(rows) if whole else top, len(piece))
        later = (rows.read(i, min(i + len(piece), len(rows))) for i in ends)
        number = sum(int((block == 0).all(-1).sum()) for block in later)
        if number > 1:
            got = f"{number:,} of {len(rows):,} rows, {got.replace('one', 'the first', 1)}"
        raise ZeroVectorsError(f"expected {name} without zero vectors, got {got}")
