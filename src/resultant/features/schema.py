"""What the arrays of a feature store must be."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import torch
from torch import Tensor

from resultant.features.readers import NAMING, SPLITS, full_name, split_part, what_of
from resultant.features.rows import Rows, as_rows

INTEGERS = ("labels", "identities")

FEATURE_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
INTEGER_DTYPES = (
    *(torch.int64, torch.int32, torch.int16, torch.int8),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
)

# Labels are counted up to the largest, which a broken file must not make astronomic.
MAX_CLASSES = 1 << 22


class ZeroVectorsError(ValueError):
    """Rows that have no direction."""


def layout(where: str, arrays: Mapping[str, Tensor | Rows]) -> dict[str, Rows]:
    """The arrays by full name, each of a right dtype and shape, all of a split of one length."""
    found: dict[str, Rows] = {}
    lengths: dict[str, dict[str, int]] = {}
    for given, array in sorted(arrays.items()):
        name, rows = full_name(given), as_rows(array)
        split, what = split_part(name), what_of(name)
        if split not in SPLITS or not what:
            raise ValueError(f"expected arrays of {where} named {NAMING}, got {given!r}")
        if name in found:
            raise ValueError(f"expected one {name} in {where}, got another called {given!r}")
        integers = what in INTEGERS
        dim, dtypes = (1, INTEGER_DTYPES) if integers else (2, FEATURE_DTYPES)
        if len(rows.shape) != dim or rows.dtype not in dtypes:
            expected = "[N] integers" if integers else "[N, d] floats"
            rule = f"expected {name} of {where} to be {expected}"
            raise ValueError(f"{rule}, got {rows.dtype} {rows.shape}")
        if not math.prod(rows.shape):
            raise ValueError(f"expected {name} of {where} not empty, got {rows.shape}")
        lengths.setdefault(split, {})[name] = len(rows)
        found[name] = rows
    if not found:
        raise ValueError(f"expected arrays such as train/features in {where}, got none")
    for of_split in lengths.values():
        _require_one_length(where, of_split)
    for name in found:
        if what_of(name) in INTEGERS:
            found[name] = as_rows(found[name].read(0, len(found[name])).to(torch.int64))
    return found


def _require_one_length(where: str, lengths: Mapping[str, int]) -> None:
    """Raise at the first array that is not as long as most are."""
    usual = Counter(lengths.values()).most_common(1)[0][0]
    for name, length in lengths.items():
        if length != usual:
            like = next(n for n, each in lengths.items() if each == usual)
            rule = f"expected {usual} rows in {name} of {where}, as in {like}, got {length}"
            raise ValueError(f"{rule} (names are {NAMING}; --features chooses one)")


def number_of_classes(where: str, found: Mapping[str, Tensor], declared: int | None) -> int:
    """The number declared, or one more than the largest label of all splits."""
    number = declared or MAX_CLASSES
    largest = -1
    for name, labels in found.items():
        bad = (labels < 0) | (labels >= number)
        if bad.any():
            i = int(bad.nonzero()[0])
            rule = f"expected {name} of {where} in [0, {number})"
            hint = "; labels count the classes, other numbers can be given as strings"
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
    """Raise unless a piece of ``rows``, from ``top`` on, is finite and, unless ``zero``, without
    zero vectors; these are counted where the ``whole`` of the rows from there on can be read."""
    # One pass where all is well: a finite norm above zero is that of a vector.
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
        number = sum(int((each == 0).all(-1).sum()) for each in later)
        if number > 1:
            got = f"{number:,} of {len(rows):,} rows, {got.replace('one', 'the first', 1)}"
        raise ZeroVectorsError(f"expected {name} without zero vectors, got {got}")
