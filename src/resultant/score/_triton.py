"""Score on a GPU: one Triton kernel that reads rho and writes q, or q and its slope.

A program owns a block of classes, keeps their terms in registers, and walks down its rows; each
element of rho is read once. Where rows are many, a class is a polynomial in rho
(`_triton_polynomial`), which takes no longer than the memory.

Rows of any length do not begin at lines of the memory. Programs that share a line take up to twice
the time, and so does access by single numbers. Neighbouring rows are therefore joined to wide rows
whose length is a multiple of a line; a column of these belongs to the class ``column % classes``.
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

from resultant._core.device import Launcher, device_of
from resultant.score._triton_polynomial import (
    NO_POLYNOMIAL,
    evaluate_polynomial,
    fit_polynomial,
    polynomial,
)
from resultant.score.kernel import constants, difference, tilt

# Bytes of a line of the memory.
LINE = 128
# Rows and columns of a tile, warps, and tiles of a program: for few rows, and for polynomials.
FEW = {torch.float32: (4, 128, 4, 1), torch.float64: (16, 128, 4, 1)}
MANY = {torch.float32: (8, 256, 4, 2), torch.float64: (8, 128, 4, 32)}
# Elements that a warp scores by the exact form at a time, which takes many registers.
EXACT = {torch.float32: 128, torch.float64: 32}
# Elements from which polynomials are faster.
LEAST = {torch.float32: 2**21, torch.float64: 2**19}
# Number of columns whose indices, padded to tiles, fit int32; and of programs down the rows.
NARROW, HIGHEST = 2**31 - 1024, 65535


@triton.jit
def _place(top, rows, width, column, ROWS: tl.constexpr):
    """Indices of a tile. The last row again in the place of rows that do not exist: a mask of rows
    would split the accesses."""
    row = tl.minimum(top + tl.arange(0, ROWS), rows - 1).to(tl.int64)
    return row[:, None] * width + column[None, :]


@triton.jit
def _walk(
    rho_at, q_at, slope_at, rows, width, column, inside, terms, scale,
    A: tl.constexpr, STEPS: tl.constexpr, LOG: tl.constexpr, HALF: tl.constexpr, P: tl.constexpr,
    SLOPE: tl.constexpr, ROWS: tl.constexpr, FEWER: tl.constexpr, SMALL: tl.constexpr,
):  # fmt: skip
    """Score the tiles of this program by the exact form, FEWER rows at a time."""
    twice, least, square, y0, s0, w0, g0 = terms
    for top in range(tl.program_id(1) * ROWS, rows, tl.num_programs(1) * ROWS):
        for part in range(top, tl.minimum(top + ROWS, rows), FEWER):
            at = _place(part, rows, width, column, FEWER)
            rho = tl.load(rho_at + at, mask=inside, other=0.0)
            q, r1 = difference(
                rho, twice, least, square, y0, s0, w0, g0, A, STEPS, LOG, HALF, P, SLOPE, SMALL
            )
            tl.store(q_at + at, q, mask=inside)
            if SLOPE:
                tl.store(slope_at + at, scale * r1, mask=inside)


@triton.jit
def _walk_polynomial(
    rho_at, q_at, slope_at, rows, width, column, inside, coefficients,
    N: tl.constexpr, SLOPE: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Score the tiles of this program by polynomials."""
    for top in range(tl.program_id(1) * ROWS, rows, tl.num_programs(1) * ROWS):
        at = _place(top, rows, width, column, ROWS)
        rho = tl.load(rho_at + at, mask=inside, other=0.0)
        q, slope = evaluate_polynomial(coefficients, rho, N, SLOPE)
        tl.store(q_at + at, q, mask=inside)
        if SLOPE:
            tl.store(slope_at + at, slope, mask=inside)


@triton.jit(do_not_specialize=["rows"])
def _score_tiles(
    rho_at, kappa_at, tau_at, q_at, slope_at, rows, width, classes, kappa_step, tau_step,
    ENOUGH: tl.constexpr, POINTS: tl.constexpr, TO_CHEBYSHEV: tl.constexpr, TO_POWERS: tl.constexpr,
    A: tl.constexpr, STEPS: tl.constexpr, LOG: tl.constexpr, HALF: tl.constexpr, P: tl.constexpr,
    SLOPE: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, FEWER: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Score a block of columns of [rows, width], in tiles that are as many tiles apart as there are
    programs down the rows: at any time the programs work on neighbouring rows.

    With POINTS, blocks of classes for which polynomials suffice are scored by polynomials.
    """
    block = tl.program_id(0)
    if WIDE:
        # With one kappa and tau all rho form one row, whose indices may exceed 32 bits.
        block = block.to(tl.int64)
    column = block * BLOCK + tl.arange(0, BLOCK)
    inside = (column < width)[None, :]
    owner = column % classes
    kappa = tl.load(kappa_at + owner * kappa_step)
    tau = tl.load(tau_at + owner * tau_step)
    twice, least, square, y0, s0, w0, g0, scale, steady = tilt(kappa, tau, A)
    if len(POINTS) > 0:
        enough = tl.min((A * A + y0 + square >= ENOUGH * twice).to(tl.int32))
        if enough == 1:
            coefficients = fit_polynomial(
                kappa, tau, twice, least, square, y0, s0, w0, g0, scale,
                POINTS, TO_CHEBYSHEV, TO_POWERS, A, STEPS, LOG, HALF, P,
            )  # fmt: skip
            _walk_polynomial(
                rho_at, q_at, slope_at, rows, width, column, inside, coefficients,
                len(POINTS), SLOPE, ROWS,
            )  # fmt: skip
            return
    terms = (twice[None, :], least[None, :], square[None, :], y0[None, :])
    terms = terms + (s0[None, :], w0[None, :], g0[None, :])
    # The tilt usually changes s little; its logarithms then need no exponent.
    if tl.min(steady.to(tl.int32)) == 1:
        _walk(
            rho_at, q_at, slope_at, rows, width, column, inside, terms, scale[None, :],
            A, STEPS, LOG, HALF, P, SLOPE, ROWS, FEWER, True,
        )  # fmt: skip
    else:
        _walk(
            rho_at, q_at, slope_at, rows, width, column, inside, terms, scale[None, :],
            A, STEPS, LOG, HALF, P, SLOPE, ROWS, FEWER, False,
        )  # fmt: skip


_launches = Launcher(_score_tiles)


def score(rho: Tensor, kappa: Tensor, tau: Tensor, p: int, slope: bool) -> tuple[Tensor, Tensor]:
    """Compute q and, if ``slope``, its slope (else an empty tensor) of rho [rows, classes] for
    kappa and tau, each [classes] or [1]."""
    rho = rho.contiguous()
    shape = rho.shape
    if kappa.numel() == tau.numel() == 1:
        rho = rho.reshape(1, -1)
    q = torch.empty_like(rho)
    slopes = torch.empty_like(rho) if slope else rho.new_empty(0)
    rows, classes = rho.shape
    if q.numel():
        kappa, tau = kappa.contiguous(), tau.contiguous()
        # Rows that are joined to a wide one.
        joined = LINE // math.gcd(LINE, classes * rho.element_size())
        high, (deep, _, _, tiles) = rows // joined, MANY[rho.dtype]
        many = rho.numel() >= LEAST[rho.dtype] and high >= deep * tiles
        with device_of(rho):
            if many:
                _launch((rho, kappa, tau, q, slopes), (high, classes * joined, classes), p, MANY)
            if (left := rows - high * joined if many else rows) > 0:
                rest = (a[-left:] if many else a for a in (rho, q, slopes))
                rho, q_rest, slopes_rest = rest
                _launch((rho, kappa, tau, q_rest, slopes_rest), (left, classes, classes), p, FEW)
    if q.shape == shape:
        return q, slopes
    return q.reshape(shape), slopes.reshape(shape) if slope else slopes


def _launch(
    tensors: tuple[Tensor, ...],
    sizes: tuple[int, int, int],
    p: int,
    shapes: dict[torch.dtype, tuple[int, int, int, int]],
) -> None:
    """Score in tiles of the given shapes; ``sizes`` are rows, their width, and classes."""
    rho, kappa, tau, _, slopes = tensors
    (rows, width, _), dtype, many = sizes, rho.dtype, shapes is MANY
    deep, block, warps, tiles = shapes[dtype]
    deep, block = (min(a, triton.next_power_of_2(b)) for a, b in ((deep, rows), (block, width)))
    steps = int(kappa.numel() > 1), int(tau.numel() > 1)
    fewer = min(deep, max(1, EXACT[dtype] * warps // block))
    flags = slopes.numel() > 0, width > NARROW, deep, fewer, block
    # Triton compiles for these properties of whole numbers; it does not specialize rows.
    known = (rows > NARROW, *((n == 1, n % 16 == 0) for n in sizes[1:]))
    _launches(
        (triton.cdiv(width, block), min(HIGHEST, triton.cdiv(rows, deep * tiles)), 1),
        (rho.get_device(), dtype, p, many, *known, *steps, *flags),
        tensors,
        (
            *(*sizes, *steps),
            *(polynomial(p, dtype) if many else NO_POLYNOMIAL),
            *(*constants(p, dtype).values(), *flags),
        ),
        warps,
    )
