"""Triton kernels of the losses: sums and means of banks, and cross-entropies with their
gradient."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false
# Triton's language is Python only in its syntax.

from __future__ import annotations

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from resultant._core.device import Launcher, device_of
from resultant.classes.statistics import MAX_KAPPA, ZERO_LENGTH

# Entries of a row that one program holds at most, and entries per warp.
MEAN_BLOCK, MEAN_WARP = 2048, 256
ENTROPY_BLOCK, ENTROPY_WARP = 4096, 512


@triton.jit(do_not_specialize=["view"])
def _mean_rows(
    sums, mu, R, kappa, view,
    p: tl.constexpr, BLOCK: tl.constexpr, ZERO: tl.constexpr, MOST: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    sums += row * (p + 1)
    row += view.to(tl.int64) * tl.num_programs(0)
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
    mean_length = tl.where(cancelled, 0.0, mean_length)
    tl.store(R + row, mean_length)
    if MOST > 0:
        # As `ProCoBank.kappa`; NaN stays NaN.
        mean_length = tl.where(mean_length > 1, 1.0, mean_length)
        k = p * mean_length / ((1 - mean_length) * (1 + mean_length))
        tl.store(kappa + row, tl.where(k > MOST, MOST, k))


def mean(sums: Tensor, mu: Tensor, R: Tensor, kappa: Tensor | None = None, view: int = 0) -> None:
    """Write directions ``mu`` [..., p] and lengths ``R`` [...] of the means of ``sums``.

    ``sums`` [..., p + 1] holds float64 sums and, last, counts. All tensors are contiguous; R is
    float64 and mu has any floating dtype. ``kappa`` [...] float64 gets the concentrations of the
    estimator ``proco``. The results of several views [V, ...] are written one ``view`` at a time.
    """
    p, most = mu.shape[-1], 0.0 if kappa is None else MAX_KAPPA
    if rows := sums.numel() // (p + 1):
        block, warps = _row_block(p)
        with device_of(sums):
            _mean_launches(
                (rows, 1, 1),
                (sums.get_device(), mu.dtype, p, most),
                (sums, mu, R, R if kappa is None else kappa),
                (view, p, block, ZERO_LENGTH, most),
                warps,
            )


_mean_launches = Launcher(_mean_rows)


@cache
def _row_block(p: int) -> tuple[int, int]:
    """Return the entries of a row of length p that a program holds, and its warps."""
    block = min(MEAN_BLOCK, triton.next_power_of_2(p))
    return block, max(1, block // MEAN_WARP)


@triton.jit(do_not_specialize=["view"])
def _enter_rows(
    z, rows, old, new, off, number, view,
    p: tl.constexpr, BLOCK: tl.constexpr, TOLERANCE: tl.constexpr,
):  # fmt: skip
    sample = tl.program_id(0).to(tl.int64)
    row = tl.load(rows + sample)
    # One comparison: some interpreters do not accept an "and" of two masks as a mask.
    held = tl.where(row < 0, number, row) < number
    z += (view.to(tl.int64) * tl.num_programs(0) + sample) * p
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


def enter(
    z: Tensor, rows: Tensor, old: Tensor, new: Tensor, off: Tensor, tolerance: float, view: int = 0
) -> None:
    """Add the vectors of a ``view`` of contiguous z [V, M, p] and counts to ``rows`` [M] of the
    banks [C, p + 1]; other rows than those of the banks add nothing.

    ``off`` [1] gets the row and the distance from one of a length that exceeds the tolerance, if
    any does, as `OffLength.host` describes. It may be pinned memory of the host.
    """
    p, number = z.shape[-1], old.shape[0]
    block, warps = _row_block(p)
    with device_of(z):
        _enter_launches(
            (rows.shape[0], 1, 1),
            (z.get_device(), z.dtype, p, number, tolerance),
            (z, rows.contiguous(), old, new, off),
            (number, view, p, block, tolerance),
            warps,
        )


_enter_launches = Launcher(_enter_rows)


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
