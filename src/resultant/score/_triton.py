"""Score on a GPU: one Triton kernel that reads rho and writes q, or q and its slope.

A program owns a block of classes, keeps their terms in registers, and walks down its rows; each
element of rho is read once. Many rows are scored by polynomials in rho (`_triton_polynomial`),
which take less time than the memory.
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
    DEGREE,
    LEAST,
    evaluate_polynomial,
    fit,
    load_polynomial,
)
from resultant.score.kernel import constants, difference, tilt

# Largest number of classes in a block, rows per program, and its warps; then those of polynomials,
# with the rows of one tile.
BLOCK, ROWS, WARPS = 128, 4, 1
MANY_BLOCK, MANY_ROWS, MANY_WARPS, TILE = 128, 64, 4, 4
# Blocks of rows in a launch, the limit of CUDA along the second axis.
LAUNCH = 65535
# Number of columns whose indices, padded to blocks, fit int32; and of those of MANY_ROWS rows.
NARROW = 2**31 - BLOCK
MANY_NARROW = 2**24


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
    left,
    column,
    columns,
    coefficients,
    COUNT: tl.constexpr,
    SLOPE: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
):
    """Score up to ROWS rows, TILE at once: all of a tile is requested before any is used."""
    row = tl.arange(0, TILE)[:, None]
    for top in range(0, ROWS, TILE):
        here = tl.where(row + top < left, column[None, :], columns) < columns
        at = (row + top) * columns
        rho = tl.load(rho_at[None, :] + at, mask=here, other=0.0)
        q, slope = evaluate_polynomial(coefficients, rho, COUNT, SLOPE)
        tl.store(q_at[None, :] + at, q, mask=here)
        if SLOPE:
            tl.store(slope_at[None, :] + at, slope, mask=here)


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
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Score a block; by polynomials of COUNT coefficients, if not zero, where these suffice."""
    block = tl.program_id(0)
    if WIDE:
        # With one kappa and tau all rho form one row, whose indices may exceed 32 bits.
        block = block.to(tl.int64)
    column = block * BLOCK + tl.arange(0, BLOCK)
    first = tl.program_id(1).to(tl.int64) * ROWS
    inside = column < columns
    kappa = tl.load(kappa_at + column * kappa_step, mask=inside, other=1.0)
    tau = tl.load(tau_at + column * tau_step, mask=inside, other=1.0)

    rho_at += first * columns + column
    q_at += first * columns + column
    slope_at += first * columns + column
    left = rows - first
    if COUNT > 0:
        polynomial_at += column
        flags = tl.load(polynomial_at + COUNT * columns, mask=inside, other=1.0)
        if tl.min(flags) > 0:
            coefficients = load_polynomial(polynomial_at, columns, inside, COUNT)
            _walk_polynomial(
                rho_at, q_at, slope_at, left, column, columns, coefficients,
                COUNT, SLOPE, ROWS, TILE,
            )  # fmt: skip
            return
    twice, least, square, y0, s0, w0, g0, scale, steady = tilt(kappa, tau, A)
    # The tilt usually changes s little; its logarithms then need no exponent.
    if tl.min(steady.to(tl.int32)) == 1:
        _walk(
            rho_at, q_at, slope_at, left, column, columns, twice, least, square, y0, s0, w0, g0,
            scale, A, STEPS, LOG, HALF, P, SLOPE, True, ROWS,
        )  # fmt: skip
    else:
        _walk(
            rho_at, q_at, slope_at, left, column, columns, twice, least, square, y0, s0, w0, g0,
            scale, A, STEPS, LOG, HALF, P, SLOPE, False, ROWS,
        )  # fmt: skip


def score(rho: Tensor, kappa: Tensor, tau: Tensor, p: int, slope: bool) -> tuple[Tensor, Tensor]:
    """Compute q and, if ``slope``, its slope (else an empty tensor) of rho [rows, classes] for
    kappa and tau, each [classes] or [1]."""
    rho = rho.contiguous()
    shape = rho.shape
    if kappa.numel() == tau.numel() == 1:
        rho = rho.reshape(1, -1)
    rows, columns = rho.shape
    q = torch.empty_like(rho)
    slopes = torch.empty_like(rho) if slope else rho.new_empty(0)
    if q.numel():
        classes = kappa.contiguous(), tau.contiguous()
        degree = DEGREE[rho.dtype]
        many = rho.numel() >= LEAST[rho.dtype] and rows > 4 * degree and columns < MANY_NARROW
        most, deep, warps = (MANY_BLOCK, MANY_ROWS, MANY_WARPS) if many else (BLOCK, ROWS, WARPS)
        down = min(deep, triton.next_power_of_2(rows))
        block = min(most, triton.next_power_of_2(columns))
        with device_of(rho):
            polynomials = fit(*classes, p, rho.dtype) if many else q
            for top in range(0, rows, LAUNCH * down):
                part = slice(top, top + LAUNCH * down)
                height = len(rho[part])
                _score_rows[triton.cdiv(columns, block), triton.cdiv(height, down)](
                    rho[part],
                    *classes,
                    polynomials,
                    q[part],
                    slopes[part],
                    height,
                    columns,
                    *(int(a.numel() > 1) for a in classes),
                    COUNT=degree + 2 if many else 0,
                    **constants(p, rho.dtype),
                    SLOPE=slope,
                    WIDE=columns > NARROW,
                    ROWS=down,
                    TILE=TILE,
                    BLOCK=block,
                    num_warps=warps,
                )
    if q.shape == shape:
        return q, slopes
    return q.reshape(shape), slopes.reshape(shape) if slope else slopes
