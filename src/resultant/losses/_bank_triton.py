"""Means of sums on a GPU: one Triton kernel that reads a row of sums and writes its direction and
mean length, with nothing in between."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false
# Triton's language is Python only in its syntax.

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from resultant._core.device import device_of
from resultant.classes.statistics import ZERO_LENGTH

# Entries of a row that a program holds, and those to a warp.
BLOCK = 2048
WARP = 256


@triton.jit
def _mean_rows(sums, mu, R, p: tl.constexpr, BLOCK: tl.constexpr, ZERO: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    sums += row * (p + 1)
    mu += row * p
    first = tl.arange(0, BLOCK)
    held = tl.load(sums + first, mask=first < p, other=0.0)
    squares = held * held
    for start in range(BLOCK, p, BLOCK):
        column = start + first
        more = tl.load(sums + column, mask=column < p, other=0.0)
        squares += more * more
    length = tl.sqrt(tl.sum(squares))
    mean_length = length / tl.load(sums + p)
    # Samples that cancel have no direction: zero is across every query. NaN is no length.
    cancelled = mean_length <= ZERO
    scale = tl.where(cancelled, 0.0, 1 / tl.where(cancelled, 1.0, length))
    tl.store(mu + first, held * scale, mask=first < p)
    for start in range(BLOCK, p, BLOCK):
        column = start + first
        more = tl.load(sums + column, mask=column < p, other=0.0)
        tl.store(mu + column, more * scale, mask=column < p)
    tl.store(R + row, tl.where(cancelled, 0.0, mean_length))


def mean(sums: Tensor, mu: Tensor, R: Tensor) -> None:
    """Write the directions ``mu`` [..., p] and lengths ``R`` [...] of the means of float64 sums
    and, last, counts [..., p + 1]; all are contiguous, R is float64 and mu any floating dtype."""
    if R.numel():
        block = min(BLOCK, triton.next_power_of_2(mu.shape[-1]))
        warps = max(1, block // WARP)
        with device_of(sums):
            _mean_rows[(R.numel(),)](
                sums, mu, R, p=mu.shape[-1], BLOCK=block, ZERO=ZERO_LENGTH, num_warps=warps
            )
