"""Triton kernels of the losses: means of banks, and cross-entropies with their gradient."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false
# Triton's language is Python only in its syntax.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from resultant._core.device import device_of
from resultant.classes.statistics import ZERO_LENGTH

# Entries of a row that one program holds at most, and entries per warp.
MEAN_BLOCK, MEAN_WARP = 2048, 256
ENTROPY_BLOCK, ENTROPY_WARP = 4096, 512


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
    # Samples that cancel have no direction: zero is orthogonal to every query. NaN is no length.
    cancelled = mean_length <= ZERO
    scale = tl.where(cancelled, 0.0, 1 / tl.where(cancelled, 1.0, length))
    tl.store(mu + first, held * scale, mask=first < p)
    for start in range(BLOCK, p, BLOCK):
        column = start + first
        more = tl.load(sums + column, mask=column < p, other=0.0)
        tl.store(mu + column, more * scale, mask=column < p)
    tl.store(R + row, tl.where(cancelled, 0.0, mean_length))


def mean(sums: Tensor, mu: Tensor, R: Tensor) -> None:
    """Write directions ``mu`` [..., p] and lengths ``R`` [...] of the means of ``sums``.

    ``sums`` [..., p + 1] holds float64 sums and, last, counts. All tensors are contiguous; R is
    float64 and mu has any floating dtype.
    """
    if R.numel():
        block = min(MEAN_BLOCK, triton.next_power_of_2(mu.shape[-1]))
        warps = max(1, block // MEAN_WARP)
        with device_of(sums):
            _mean_rows[(R.numel(),)](
                sums, mu, R, p=mu.shape[-1], BLOCK=block, ZERO=ZERO_LENGTH, num_warps=warps
            )


@triton.jit
def _logits(scores, offset, column, columns: tl.constexpr):
    x = tl.load(scores + column, mask=column < columns, other=0.0)
    return x + tl.load(offset + column, mask=column < columns, other=float("-inf"))


@triton.jit
def _entropy_rows(
    scores, offset, labels, entropies, slopes, columns: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    scores += row * columns
    slopes += row * columns
    label = tl.load(labels + row)
    # An invalid label makes its row NaN.
    valid = tl.where(label < 0, columns, label) < columns
    own = tl.load(scores + label, mask=valid, other=float("nan"))
    own += tl.load(offset + label, mask=valid, other=0.0)
    first = tl.arange(0, BLOCK)
    top = own
    totals = tl.zeros([BLOCK], own.dtype)
    for start in range(0, columns, BLOCK):
        x = _logits(scores, offset, start + first, columns)
        largest = tl.maximum(top, tl.max(x))
        # Classes of prior zero are at -inf; while all classes are, there is none to subtract.
        base = tl.where(largest > float("-inf"), largest, 0.0)
        totals = totals * tl.exp(top - base) + tl.exp(x - base)
        top = largest
    total = tl.sum(totals)
    tl.store(entropies + row, tl.log(total) + (top - own))
    # The row is read again, from the cache.
    for start in range(0, columns, BLOCK):
        column = start + first
        share = tl.exp(_logits(scores, offset, column, columns) - top) / total
        slope = tl.where(column == label, share - 1, share)
        tl.store(slopes + column, slope, mask=column < columns)


def cross_entropy(scores: Tensor, offset: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cross-entropies [rows] of ``scores`` [rows, C] + ``offset`` [C] at ``labels``
    [rows], and their gradient [rows, C]."""
    scores = scores.contiguous()
    rows, columns = scores.shape
    entropies, slopes = scores.new_empty(rows), torch.empty_like(scores)
    if rows:
        block = min(ENTROPY_BLOCK, triton.next_power_of_2(columns))
        with device_of(scores):
            _entropy_rows[(rows,)](
                scores,
                offset.contiguous(),
                labels.contiguous(),
                entropies,
                slopes,
                columns=columns,
                BLOCK=block,
                num_warps=max(1, block // ENTROPY_WARP),
            )
    return entropies, slopes
