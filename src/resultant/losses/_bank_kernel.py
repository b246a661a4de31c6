"""Triton kernels of the banks: samples enter two banks, and means from sums and counts."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false
# Triton's language is Python only in its syntax.

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from resultant._core.device import device_of
from resultant.classes.statistics import ZERO_LENGTH

# Entries of a row that one program holds at most, and entries per warp.
MEAN_BLOCK, MEAN_WARP = 2048, 256


@triton.jit
def _mean_rows(sums, mu, R, p: tl.constexpr, BLOCK: tl.constexpr, ZERO: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    sums += row * (p + 1)
    mu += row * p
    first = tl.arange(0, BLOCK)
    squares = tl.zeros([BLOCK], tl.float64)
    for start in range(0, p, BLOCK):
        column = start + first
        entries = tl.load(sums + column, mask=column < p, other=0.0)
        squares += entries * entries
    length = tl.sqrt(tl.sum(squares))
    mean_length = length / tl.load(sums + p)
    # NaN is no length that cancels.
    cancelled = mean_length <= ZERO
    scale = tl.where(cancelled, 0.0, 1 / tl.where(cancelled, 1.0, length))
    # The row is read again, from the cache.
    for start in range(0, p, BLOCK):
        column = start + first
        entries = tl.load(sums + column, mask=column < p, other=0.0) * scale
        along = tl.where(cancelled, tl.where(column == 0, 1.0, 0.0), entries)
        tl.store(mu + column, along, mask=column < p)
    tl.store(R + row, tl.where(cancelled, 0.0, mean_length))


def mean(sums: Tensor, mu: Tensor, R: Tensor) -> None:
    """Write directions ``mu`` [..., p] and lengths ``R`` [...] of the means of ``sums``.

    ``sums`` [..., p + 1] holds float64 sums and, last, counts. R is float64, mu of any floating
    dtype, and both are contiguous.
    """
    p, sums = mu.shape[-1], sums.contiguous()
    require_contiguous(mu, R)
    if rows := sums.numel() // (p + 1):
        block, warps = row_block(p)
        with device_of(sums):
            _mean_rows[(rows,)](sums, mu, R, p=p, BLOCK=block, ZERO=ZERO_LENGTH, num_warps=warps)


@triton.jit
def _accumulate_rows(
    z, rows, old, new, off, number, p: tl.constexpr, BLOCK: tl.constexpr, TOLERANCE: tl.constexpr
):
    sample = tl.program_id(0).to(tl.int64)
    row = tl.load(rows + sample)
    # One comparison: some interpreters do not accept an "and" of two masks as a mask.
    held = tl.where(row < 0, number, row) < number
    z += sample * p
    place = tl.where(held, row, 0) * (p + 1)
    first = tl.arange(0, BLOCK)
    squares = tl.zeros([BLOCK], tl.float64)
    for start in range(0, p, BLOCK):
        column = start + first
        x = tl.load(z + column, mask=column < p, other=0.0).to(tl.float64)
        entered = tl.where(held, column, p) < p
        tl.atomic_add(old + place + column, x, mask=entered, sem="relaxed")
        tl.atomic_add(new + place + column, x, mask=entered, sem="relaxed")
        squares += x * x
    tl.atomic_add(old + place + p, 1.0, mask=held, sem="relaxed")
    tl.atomic_add(new + place + p, 1.0, mask=held, sem="relaxed")
    distance = tl.abs(tl.sqrt(tl.sum(squares)) - 1)
    bits = distance.to(tl.float32).to(tl.int32, bitcast=True).to(tl.int64)
    tl.store(off, row * 4294967296 + bits, mask=distance > TOLERANCE)


def accumulate(
    z: Tensor, rows: Tensor, old: Tensor, new: Tensor, off: Tensor, tolerance: float
) -> None:
    """Add vectors z [M, p] and counts to ``rows`` [M] of the banks [C, p + 1]; other rows than
    those of the banks add nothing.

    ``off`` [1] gets the row and the distance from one of a length that exceeds the tolerance, if
    any does, as `OffLength.host` describes. It may be pinned memory of the host.
    """
    p, number = z.shape[-1], old.shape[0]
    require_contiguous(old, new)
    block, warps = row_block(p)
    with device_of(z):
        _accumulate_rows[(rows.shape[0],)](
            *(z.contiguous(), rows.contiguous(), old, new, off, number),
            p=p,
            BLOCK=block,
            TOLERANCE=tolerance,
            num_warps=warps,
        )


def row_block(p: int) -> tuple[int, int]:
    """Return the entries of a row of length p that a program holds, and its warps."""
    block = min(MEAN_BLOCK, triton.next_power_of_2(p))
    return block, max(1, block // MEAN_WARP)


def require_contiguous(*written: Tensor) -> None:
    """Raise unless tensors that a kernel writes are contiguous."""
    for a in written:
        if not a.is_contiguous():
            raise ValueError(f"expected a contiguous tensor to write, got strides {a.stride()}")
