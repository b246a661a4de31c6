"""The rules for the arrays of a feature store: names, dtypes, shapes and values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

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
    for old, array in sorted(arrays.items()):
        name = full_name(old)
        rows = array if isinstance(array, Rows) else TensorRows(array)
        integers = what_of(name) in INTEGERS
        dim, dtypes = (1, INTEGER_DTYPES) if integers else (2, FEATURE_DTYPES)
        if split_part(name) not in SPLITS or not what_of(name):
            raise ValueError(f"expected arrays of {where} named {NAMING}, got {old!r}")
        if name in checked:
            raise ValueError(f"expected one {name} in {where}, got another called {old!r}")
        if len(rows.shape) != dim or rows.dtype not in dtypes:
            rule = "[N] integers" if integers else "[N, d] floats"
            raise ValueError(f"expected {name} of {where} to be {rule}, got {rows}")
        if not math.prod(rows.shape):
            raise ValueError(f"expected {name} of {where} not empty, got {rows.shape}")
        checked[name] = rows
    if not checked:
        raise ValueError(f"expected arrays such as train/features in {where}, got none")
    for split in SPLITS:
        lengths = {n: len(rows) for n, rows in checked.items() if split_part(n) == split}
        ((usual, _), *_) = Counter(lengths.values()).most_common(1) or [(0, 0)]
        like = next((name for name, n in lengths.items() if n == usual), "")
        for name, n in lengths.items():
            if n != usual:
                rule = f"expected {usual} rows in {name} of {where}, as in {like}, got {n}"
                raise ValueError(f"{rule} (names are {NAMING}; --features chooses one)")
    for name, rows in checked.items():
        if what_of(name) in INTEGERS:
            checked[name] = TensorRows(rows[:].to(torch.int64))
    return checked


def number_of_classes(where: str, arrays: Mapping[str, Tensor], declared: Any) -> int:
    """Return the declared number of classes, or one more than the largest label of all splits."""
    if declared is not None and not (type(declared) is int and 1 <= declared <= MAX_CLASSES):
        rule = f"expected num_classes of {where} to be an integer in [1, {MAX_CLASSES}]"
        raise ValueError(f"{rule}, got {declared!r}")
    number = declared or MAX_CLASSES
    for name, labels in arrays.items():
        bad = ((labels < 0) | (labels >= number)).nonzero()[:, 0]
        if len(bad):
            got = f"{int(labels[bad[0]])} at row {int(bad[0])}"
            hint = "; labels number the classes from 0, or are strings" * (declared is None)
            raise ValueError(f"expected {name} of {where} in [0, {number}), got {got}{hint}")
    return declared or max((int(labels.max()) + 1 for labels in arrays.values()), default=0)


def require_vectors(
    piece: Tensor, name: str, rows: Rows, top: int = 0, *, zero: bool = False
) -> None:
    """Raise unless vectors [n, d] from row ``top`` on are finite and, unless ``zero``, not zero."""
    # One pass over valid rows: a finite norm above zero proves a valid vector.
    norm = torch.linalg.vector_norm(piece, dim=1, dtype=torch.float64)
    if norm.isfinite().all() and (zero or (norm > 0).all()):
        return
    finite = piece.isfinite().all(-1)
    if not finite.all():
        i = int((~finite).nonzero()[0])
        value = piece[i][~piece[i].isfinite()][0]
        raise ValueError(f"expected {name} finite, got {float(value)} in {rows.where(top + i)}")
    empty = (piece == 0).all(-1)
    if not zero and empty.any():
        place = f"in {rows.where(top + int(empty.nonzero()[0]))}"
        later = (rows[i : i + len(piece)] for i in range(top, len(rows), len(piece)))
        number = sum(int((block == 0).all(-1).sum()) for block in later)
        got = "one" if number < 2 else f"{number:,} of {len(rows):,} rows, the first"
        raise ZeroVectorsError(f"expected {name} without zero vectors, got {got} {place}")
