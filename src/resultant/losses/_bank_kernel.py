"""Triton kernels of the banks: samples enter two banks, and means from sums and counts."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from resultant._core.device import device_of
from resultant.losses.late_errors import FIRST_CLASS
from resultant.vmf.estimators import ROUNDING

# Entries of a row that one program holds at most, and entries per warp.
BLOCK, WARP = 2048, 256
# Vectors of at most unit length are split into halves of float16 after this factor.
UNIT_SCALE = 2.0**15


@triton.jit
def _mean_rows(
    sums, mu, R, p: tl.constexpr, BLOCK: tl.constexpr, ZERO: tl.constexpr, SCALE: tl.constexpr
):
    """Write direction and mean length of a row or, with a SCALE, the direction as three halves."""
    row = tl.program_id(0).to(tl.int64)
    sums += row * (p + 1)
    first = tl.arange(0, BLOCK)
    squares = tl.zeros([BLOCK], tl.float64)
    for start in range(0, p, BLOCK):
        column = start + first
        entries = tl.load(sums + column, mask=column < p, other=0.0)
        squares += entries * entries
    length = tl.sqrt(tl.sum(squares))
    weight = tl.load(sums + p)
    mean_length = length / tl.where(weight > 0, weight, 1.0)
    # NaN is no length that cancels.
    cancelled = tl.where(weight <= 0, 0.0, mean_length) <= ZERO
    scale = tl.where(cancelled, 0.0, 1 / tl.where(cancelled, 1.0, length))
    # The row is read again, from the cache.
    for start in range(0, p, BLOCK):
        column = start + first
        inside = column < p
        entries = tl.load(sums + column, mask=inside, other=0.0) * scale
        # NaN times zero stays NaN, as in torch.
        along = tl.where(tl.where(cancelled, column, p) == 0, 1.0, entries)
        if SCALE > 0:
            scaled = along.to(tl.float32) * SCALE
            high = scaled.to(tl.float16)
            at = mu + row * (3 * p) + column
            tl.store(at, high, mask=inside)
            tl.store(at + p, (scaled - high.to(tl.float32)).to(tl.float16), mask=inside)
            tl.store(at + 2 * p, high, mask=inside)
        else:
            tl.store(mu + row * p + column, along, mask=inside)
    if SCALE == 0:
        # The mean of rounded unit vectors may be a rounding longer than one.
        tl.store(R + row, tl.where(cancelled, 0.0, tl.where(mean_length > 1, 1.0, mean_length)))


def mean(sums: Tensor, mu: Tensor, R: Tensor) -> None:
    """Write directions [..., p] and mean lengths [...] of sums and counts, all contiguous."""
    _launch_means(sums, mu, R, 0.0)


def half_directions(sums: Tensor) -> Tensor:
    """Return the directions of the means of sums and counts [K, p + 1] as [K, 3 p] in float16: the
    high half of each entry times `UNIT_SCALE`, the low half, and the high half again."""
    halves = sums.new_empty(len(sums), 3 * (sums.shape[1] - 1), dtype=torch.float16)
    _launch_means(sums, halves, sums, UNIT_SCALE)
    return halves


def _launch_means(sums: Tensor, mu: Tensor, R: Tensor, scale: float) -> None:
    p = sums.shape[-1] - 1
    if rows := sums.numel() // (p + 1):
        block, warps = _row_block(p)
        with device_of(sums):
            _mean_rows[(rows,)](
                *(sums.contiguous(), mu, R, p, block, ROUNDING, scale), num_warps=warps
            )


@triton.jit
def _accumulate_rows(
    z, labels, old, new, noted, first_class, number,
    p: tl.constexpr, BLOCK: tl.constexpr, TOLERANCE: tl.constexpr, FIRST: tl.constexpr,
):  # fmt: skip
    sample = tl.program_id(0).to(tl.int64)
    label = tl.load(labels + sample).to(tl.int64)
    row = label - first_class
    # One comparison: some interpreters do not accept an "and" of two masks as a mask.
    held = tl.where(row < 0, number, row) < number
    z += sample * p
    place = tl.where(held, row, 0) * (p + 1)
    first = tl.arange(0, BLOCK)
    squares = tl.zeros([BLOCK], tl.float64)
    for start in range(0, p, BLOCK):
        column = start + first
        x = tl.load(z + column, mask=column < p, other=0.0).to(tl.float64)
        squares += x * x
    # The length of NaN is not within the tolerance.
    unit = tl.abs(tl.sqrt(tl.sum(squares)) - 1) <= TOLERANCE
    tl.atomic_max(noted, tl.where(held, label + FIRST, 1), mask=unit == 0, sem="relaxed")
    entering = tl.where(unit, held, 0) != 0
    # The row is read again, from the cache.
    for start in range(0, p, BLOCK):
        column = start + first
        x = tl.load(z + column, mask=column < p, other=0.0).to(tl.float64)
        mask = tl.where(entering, column, p) < p
        tl.atomic_add(old + place + column, x, mask=mask, sem="relaxed")
        tl.atomic_add(new + place + column, x, mask=mask, sem="relaxed")
    tl.atomic_add(old + place + p, 1.0, mask=entering, sem="relaxed")
    tl.atomic_add(new + place + p, 1.0, mask=entering, sem="relaxed")


def accumulate(
    z: Tensor, labels: Tensor, old: Tensor, new: Tensor, noted: Tensor, start: int, tolerance: float
) -> None:
    """Add vectors z [M, p] and counts to the rows ``labels - start`` [M] of the contiguous banks
    [C, p + 1]; other rows add nothing, and neither do vectors whose length is not one within the
    tolerance. For these, the first number of ``noted`` becomes at least the label plus
    `FIRST_CLASS`, or 1 for another row."""
    if len(z):
        block, warps = _row_block(z.shape[-1])
        with device_of(z):
            _accumulate_rows[(len(z),)](
                *(z.contiguous(), labels.contiguous(), old, new, noted, start, len(old)),
                *(z.shape[-1], block, tolerance, FIRST_CLASS),
                num_warps=warps,
            )


def _row_block(p: int) -> tuple[int, int]:
    """Return the entries of a row of length p that a program holds, and its warps."""
    block = min(BLOCK, triton.next_power_of_2(p))
    return block, max(1, block // WARP)
