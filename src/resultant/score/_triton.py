"""Score on a GPU: one Triton kernel that reads rho and writes q, or q and its slope.

A program owns a block of classes, keeps their terms in registers, and walks down its rows.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from resultant._core.device import device_of
from resultant.score.kernel import constants, difference, tilt

# Columns and rows of a program, and its warps: one warp needs no barrier.
BLOCK, DEPTH = 128, 16
WARPS = {torch.float32: 1, torch.float64: 4}
# Number of columns whose indices, padded to blocks, fit int32; and of programs down the rows.
NARROW, HIGHEST = 2**31 - 1024, 65535


@triton.jit(do_not_specialize=["rows"])
def _score_columns(
    rho_at, kappa_at, tau_at, q_at, slope_at, rows, classes, kappa_step, tau_step,
    A: tl.constexpr, STEPS: tl.constexpr, LOG: tl.constexpr, HALF: tl.constexpr, P: tl.constexpr,
    SLOPE: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Score a block of columns of [rows, classes], in rows as many apart as there are programs down
    the rows: at any time the programs work on neighbouring rows."""
    block = tl.program_id(0)
    if WIDE:
        # With one kappa and tau all rho form one row, whose indices may exceed 32 bits.
        block = block.to(tl.int64)
    column = block * BLOCK + tl.arange(0, BLOCK)
    inside = column < classes
    kappa = tl.load(kappa_at + column * kappa_step, mask=inside, other=1.0)
    tau = tl.load(tau_at + column * tau_step, mask=inside, other=1.0)
    two_kappa_t, gap_squared, t_squared, y0, s0, w0, g0, scale = tilt(kappa, tau, A)
    step = tl.full((), 0, tl.int64) + classes
    for row in range(tl.program_id(1), rows, tl.num_programs(1)):
        at = row * step + column
        rho = tl.load(rho_at + at, mask=inside, other=0.0)
        q, r1 = difference(
            rho, two_kappa_t, gap_squared, t_squared, y0, s0, w0, g0, A, STEPS, LOG, HALF, P, SLOPE
        )
        tl.store(q_at + at, q, mask=inside)
        if SLOPE:
            tl.store(slope_at + at, scale * r1, mask=inside)


def score(rho: Tensor, kappa: Tensor, tau: Tensor, p: int, slope: bool) -> tuple[Tensor, ...]:
    """Compute q and, if ``slope``, its slope of rho [rows, classes] for kappa and tau, each
    [classes] or of one element; rho of any shape for one kappa and tau."""
    shape, rho = rho.shape, rho.contiguous()
    if kappa.numel() == tau.numel() == 1:
        rho = rho.reshape(1, -1)
    q = torch.empty_like(rho)
    slopes = torch.empty_like(rho) if slope else q
    (rows, classes), kappa, tau = rho.shape, kappa.contiguous(), tau.contiguous()
    if rho.numel():
        block = min(BLOCK, triton.next_power_of_2(classes))
        grid = triton.cdiv(classes, block), min(HIGHEST, triton.cdiv(rows, DEPTH))
        with device_of(rho):
            _score_columns[grid](
                rho, kappa, tau, q, slopes, rows, classes,
                int(kappa.numel() > 1), int(tau.numel() > 1), **constants(p, rho.dtype),
                SLOPE=slope, WIDE=classes > NARROW, BLOCK=block, num_warps=WARPS[rho.dtype],
            )  # fmt: skip
    return (q.reshape(shape), slopes.reshape(shape)) if slope else (q.reshape(shape),)
