"""Score on a GPU: one Triton kernel that reads rho and writes q, or q and its slope.

A program owns a block of classes, keeps their terms in registers, and walks down its rows; each
element of rho is read once. In float64 many rows are scored by polynomials in rho
(`_triton_polynomial`), which take half the time; in float32 the exact form is faster.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# pyright: reportOperatorIssue=false, reportPossiblyUnboundVariable=false
# Triton's language is Python only in its syntax.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from resultant._core.device import device_of
from resultant.score._triton_polynomial import (
    COUNT,
    evaluate_polynomial,
    fit,
    has_polynomials,
    load_polynomial,
)
from resultant.score.kernel import constants, difference, tilt

# Largest number of classes in a block.
BLOCK = 128
# Rows of a tile, warps, and the largest number of programs down the rows, which CUDA limits; for
# polynomials the number of all programs: those that an H200 holds at once.
FEW = {torch.float32: (4, 1, 65535), torch.float64: (16, 4, 65535)}
MANY = (4, 4, 660)
# Number of columns whose indices, padded to blocks, fit int32.
NARROW = 2**31 - BLOCK


@triton.jit
def _walk(
    rho_at,
    q_at,
    slope_at,
    left,
    column,
    columns,
    twice,
    least,
    square,
    y0,
    s0,
    w0,
    g0,
    scale,
    A: tl.constexpr,
    STEPS: tl.constexpr,
    LOG: tl.constexpr,
    HALF: tl.constexpr,
    P: tl.constexpr,
    SLOPE: tl.constexpr,
    SMALL: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Score up to ROWS rows; ``left`` rows exist."""
    for i in range(ROWS):
        # One comparison: some interpreters do not accept an "and" of two masks as a mask.
        here = tl.where(i < left, column, columns) < columns
        rho = tl.load(rho_at, mask=here, other=0.0)
        q, r1 = difference(
            rho, twice, least, square, y0, s0, w0, g0, A, STEPS, LOG, HALF, P, SLOPE, SMALL
        )
        tl.store(q_at, q, mask=here)
        if SLOPE:
            tl.store(slope_at, scale * r1, mask=here)
        rho_at += columns
        q_at += columns
        slope_at += columns


@triton.jit
def _walk_polynomial(
    rho_at,
    q_at,
    slope_at,
    rows,
    column,
    columns,
    coefficients,
    COUNT: tl.constexpr,
    SLOPE: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Score the tiles of this program."""
    row = tl.arange(0, ROWS)[:, None]
    first = tl.program_id(1) * ROWS
    step = tl.num_programs(1) * ROWS
    for top in range(first, rows, step):
        here = tl.where(row + top < rows, column[None, :], columns) < columns
        at = (row + top) * columns + column[None, :]
        rho = tl.load(rho_at + at, mask=here, other=0.0)
        q, slope = evaluate_polynomial(coefficients, rho, COUNT, SLOPE)
        tl.store(q_at + at, q, mask=here)
        if SLOPE:
            tl.store(slope_at + at, slope, mask=here)


@triton.jit
def _score_rows(
    rho_at,
    kappa_at,
    tau_at,
    polynomial_at,
    q_at,
    slope_at,
    rows,
    columns,
    kappa_step,
    tau_step,
    COUNT: tl.constexpr,
    A: tl.constexpr,
    STEPS: tl.constexpr,
    LOG: tl.constexpr,
    HALF: tl.constexpr,
    P: tl.constexpr,
    SLOPE: tl.constexpr,
    WIDE: tl.constexpr,
    ONCE: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Score a block of columns, in tiles of ROWS rows that are as many tiles apart as there are
    programs down the rows: at any time the programs work on neighbouring rows.

    Polynomials of COUNT coefficients are used, if COUNT is not zero, where they suffice.
    """
    block = tl.program_id(0)
    if WIDE:
        # With one kappa and tau all rho form one row, whose indices may exceed 32 bits.
        block = block.to(tl.int64)
    column = block * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    if COUNT > 0:
        polynomial_at += column
        flags = tl.load(polynomial_at + COUNT * columns, mask=inside, other=1.0)
        if tl.min(flags) > 0:
            coefficients = load_polynomial(polynomial_at, columns, inside, COUNT)
            _walk_polynomial(
                rho_at, q_at, slope_at, rows, column, columns, coefficients,
                COUNT, SLOPE, ROWS,
            )  # fmt: skip
            return
    kappa = tl.load(kappa_at + column * kappa_step, mask=inside, other=1.0)
    tau = tl.load(tau_at + column * tau_step, mask=inside, other=1.0)
    twice, least, square, y0, s0, w0, g0, scale, steady = tilt(kappa, tau, A)
    # The tilt usually changes s little; its logarithms then need no exponent.
    small = tl.min(steady.to(tl.int32)) == 1
    width = tl.full((), 0, tl.int64) + columns
    first, end, step = tl.program_id(1) * ROWS, rows, tl.num_programs(1) * ROWS
    if ONCE:
        end, step = first + 1, 1
    for top in range(first, end, step):
        at = top * width + column
        if small:
            _walk(
                rho_at + at, q_at + at, slope_at + at, rows - top, column, columns, twice, least,
                square, y0, s0, w0, g0, scale, A, STEPS, LOG, HALF, P, SLOPE, True, ROWS,
            )  # fmt: skip
        else:
            _walk(
                rho_at + at, q_at + at, slope_at + at, rows - top, column, columns, twice, least,
                square, y0, s0, w0, g0, scale, A, STEPS, LOG, HALF, P, SLOPE, False, ROWS,
            )  # fmt: skip


def score(rho: Tensor, kappa: Tensor, tau: Tensor, p: int, slope: bool) -> tuple[Tensor, Tensor]:
    """Compute q and, if ``slope``, its slope (else an empty tensor) of rho [rows, classes] for
    kappa and tau, each [classes] or [1]."""
    rho = rho.contiguous()
    shape, dtype = rho.shape, rho.dtype
    if kappa.numel() == tau.numel() == 1:
        rho = rho.reshape(1, -1)
    rows, columns = rho.shape
    q = torch.empty_like(rho)
    slopes = torch.empty_like(rho) if slope else rho.new_empty(0)
    if q.numel():
        classes = kappa.contiguous(), tau.contiguous()
        many = has_polynomials(rho)
        deep, warps, most = MANY if many else FEW[dtype]
        deep = min(deep, triton.next_power_of_2(rows))
        block = min(BLOCK, triton.next_power_of_2(columns))
        wide = triton.cdiv(columns, block)
        tiles = triton.cdiv(rows, deep)
        high = min(tiles, max(1, most // wide) if many else most)
        with device_of(rho):
            _score_rows[wide, high](
                rho,
                *classes,
                fit(*classes, p) if many else q,
                q,
                slopes,
                rows,
                columns,
                *(int(a.numel() > 1) for a in classes),
                COUNT=COUNT if many else 0,
                **constants(p, dtype),
                SLOPE=slope,
                WIDE=columns > NARROW,
                ONCE=tiles == high,
                ROWS=deep,
                BLOCK=block,
                num_warps=warps,
            )
    if q.shape == shape:
        return q, slopes
    return q.reshape(shape), slopes.reshape(shape) if slope else slopes
