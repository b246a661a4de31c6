"""Score on a GPU: one Triton kernel that reads rho and writes q, or q and its slope.

A program owns a block of classes, keeps their terms in registers, and walks down its rows. Programs
that share a line of the memory take up to twice the time: neighbouring rows of a large matrix are
joined to rows whose length is a multiple of a line, of which a column is of ``column % classes``.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# pyright: reportOperatorIssue=false, reportPossiblyUnboundVariable=false
# Triton's language is Python only in its syntax.

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from resultant._core.device import device_of
from resultant.score.kernel import constants, difference, tilt

# Bytes of a line of the memory, and the elements from which rows are joined.
LINE, LARGE = 128, 2**20
# Columns and rows of a program, and its warps: one warp needs no barrier.
BLOCK, DEPTH = 128, 16
WARPS = {torch.float32: 1, torch.float64: 4}
# Number of columns whose indices, padded to blocks, fit int32; and of programs down the rows.
NARROW, HIGHEST = 2**31 - 1024, 65535


@triton.jit
def _walk(
    rho_at, q_at, slope_at, rows, width, column, inside, terms, scale,
    A: tl.constexpr, STEPS: tl.constexpr, LOG: tl.constexpr, HALF: tl.constexpr, P: tl.constexpr,
    SLOPE: tl.constexpr, SMALL: tl.constexpr,
):  # fmt: skip
    """Score the rows of this program, which are as many rows apart as there are programs down the
    rows: at any time the programs work on neighbouring rows."""
    two_kappa_t, gap_squared, t_squared, y0, s0, w0, g0 = terms
    step = tl.full((), 0, tl.int64) + width
    for row in range(tl.program_id(1), rows, tl.num_programs(1)):
        at = row * step + column
        rho = tl.load(rho_at + at, mask=inside, other=0.0)
        q, r1 = difference(
            rho, two_kappa_t, gap_squared, t_squared, y0, s0, w0, g0,
            A, STEPS, LOG, HALF, P, SLOPE, SMALL,
        )  # fmt: skip
        tl.store(q_at + at, q, mask=inside)
        if SLOPE:
            tl.store(slope_at + at, scale * r1, mask=inside)


@triton.jit(do_not_specialize=["rows"])
def _score_columns(
    rho_at, kappa_at, tau_at, q_at, slope_at, rows, width, classes, kappa_step, tau_step,
    A: tl.constexpr, STEPS: tl.constexpr, LOG: tl.constexpr, HALF: tl.constexpr, P: tl.constexpr,
    SLOPE: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Score a block of columns of [rows, width]."""
    block = tl.program_id(0)
    if WIDE:
        # With one kappa and tau all rho form one row, whose indices may exceed 32 bits.
        block = block.to(tl.int64)
    column = block * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    owner = column % classes
    kappa = tl.load(kappa_at + owner * kappa_step)
    tau = tl.load(tau_at + owner * tau_step)
    two_kappa_t, gap_squared, t_squared, y0, s0, w0, g0, scale, steady = tilt(kappa, tau, A)
    terms = (two_kappa_t, gap_squared, t_squared, y0, s0, w0, g0)
    # The tilt usually changes s little; its logarithms then need no exponent.
    if tl.min(steady.to(tl.int32)) == 1:
        _walk(
            rho_at, q_at, slope_at, rows, width, column, inside, terms, scale,
            A, STEPS, LOG, HALF, P, SLOPE, True,
        )  # fmt: skip
    else:
        _walk(
            rho_at, q_at, slope_at, rows, width, column, inside, terms, scale,
            A, STEPS, LOG, HALF, P, SLOPE, False,
        )  # fmt: skip


def score(rho: Tensor, kappa: Tensor, tau: Tensor, p: int, slope: bool) -> tuple[Tensor, ...]:
    """Compute q and, if ``slope``, its slope of rho [rows, classes] for kappa and tau, each
    [classes] or of one element; rho of any shape for one kappa and tau."""
    shape, rho = rho.shape, rho.contiguous()
    if kappa.numel() == tau.numel() == 1:
        rho = rho.reshape(1, -1)
    q = torch.empty_like(rho)
    slopes = torch.empty_like(rho) if slope else q
    (rows, classes), kappa, tau = rho.shape, kappa.contiguous(), tau.contiguous()
    joined = LINE // math.gcd(LINE, classes * rho.element_size())
    high = rows // joined if rho.numel() >= LARGE else 0
    with device_of(rho):
        # The joined rows, then those that are left.
        for first, count, width in (
            (0, high, classes * joined),
            (high * joined, rows - high * joined, classes),
        ):
            if count and width:
                block = min(BLOCK, triton.next_power_of_2(width))
                grid = triton.cdiv(width, block), min(HIGHEST, triton.cdiv(count, DEPTH))
                _score_columns[grid](
                    rho[first:], kappa, tau, q[first:], slopes[first:], count, width, classes,
                    int(kappa.numel() > 1), int(tau.numel() > 1), **constants(p, rho.dtype),
                    SLOPE=slope, WIDE=width > NARROW, BLOCK=block, num_warps=WARPS[rho.dtype],
                )  # fmt: skip
    return (q.reshape(shape), slopes.reshape(shape)) if slope else (q.reshape(shape),)
