"""Cross-entropies on a GPU: one Triton kernel that reads a row of scores and writes its
cross-entropy and the gradient."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false
# Triton's language is Python only in its syntax.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from resultant._core.device import device_of

# Classes in a block at most, and those to a warp.
BLOCK = 4096
WARP = 512


@triton.jit
def _logits(scores, offset, column, columns: tl.constexpr):
    x = tl.load(scores + column, mask=column < columns, other=0.0)
    return x + tl.load(offset + column, mask=column < columns, other=float("-inf"))


@triton.jit
def _entropy_rows(
    scores, offset, labels, each, slopes, offsets, columns: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    scores += row * columns
    slopes += row * columns
    offset += row % offsets * columns
    label = tl.load(labels + row)
    # What is no label makes its row NaN.
    known = tl.where(label < 0, columns, label) < columns
    own = tl.load(scores + label, mask=known, other=float("nan"))
    own += tl.load(offset + label, mask=known, other=0.0)
    first = tl.arange(0, BLOCK)
    top = own
    totals = tl.zeros([BLOCK], own.dtype)
    for start in range(0, columns, BLOCK):
        x = _logits(scores, offset, start + first, columns)
        largest = tl.maximum(top, tl.max(x))
        # Classes of prior zero are at -inf; where all are, so far, there is none to subtract.
        base = tl.where(largest > float("-inf"), largest, 0.0)
        totals = totals * tl.exp(top - base) + tl.exp(x - base)
        top = largest
    total = tl.sum(totals)
    tl.store(each + row, tl.log(total) + (top - own))
    # The row again, which the cache still holds.
    for start in range(0, columns, BLOCK):
        column = start + first
        share = tl.exp(_logits(scores, offset, column, columns) - top) / total
        slope = tl.where(column == label, share - 1, share)
        tl.store(slopes + column, slope, mask=column < columns)


def cross_entropy(scores: Tensor, offset: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The cross-entropies [rows] of ``scores`` [rows, C] + ``offset`` and their gradient [rows, C].

    Row i has the label ``labels[i]`` and the row ``i % len(offset)`` of offset [runs, C].
    """
    scores = scores.contiguous()
    rows, columns = scores.shape
    each, slopes = scores.new_empty(rows), torch.empty_like(scores)
    if rows:
        block = min(BLOCK, triton.next_power_of_2(columns))
        with device_of(scores):
            _entropy_rows[(rows,)](
                scores,
                offset.contiguous(),
                labels.contiguous(),
                each,
                slopes,
                len(offset),
                columns=columns,
                BLOCK=block,
                num_warps=max(1, block // WARP),
            )
    return each, slopes
