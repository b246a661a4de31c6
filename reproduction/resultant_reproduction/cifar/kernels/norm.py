"""Batch norm, residual and ReLU in two passes over channels-last activations as matrices [M, C],
with sums in a fixed order. The second pass starts where the first ended, in the cache."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportIndexIssue=false
# pyright: reportCallIssue=false, reportGeneralTypeIssues=false, reportOperatorIssue=false
# pyright: reportPossiblyUnboundVariable=false, reportInvalidTypeForm=false, reportReturnType=false

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from resultant._core.device import device_of

# Gamma, beta, running mean and running variance, of C numbers each.
Norm = tuple[Tensor, Tensor, Tensor, Tensor]
# Of the output and, if any, of the shortcut to the next block (`networks.norm.next_shortcut`).
Gradients = tuple[Tensor, Tensor | None]

ROWS = 256
COLUMNS = 64
# Programs that share a pass over an activation; one program can add their partial sums.
PROGRAMS = 512
FINAL_COLUMNS = 16


@triton.jit
def _sums(x, partial, M, C, steps, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Sum x and x^2 over the rows of this program."""
    part, parts = tl.program_id(0), tl.num_programs(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    here = column < C
    first = tl.zeros([COLUMNS], tl.float32)
    second = tl.zeros([COLUMNS], tl.float32)
    for step in range(steps):
        row = (step * parts + part).to(tl.int64) * ROWS + tl.arange(0, ROWS)
        where = row[:, None] * C + column[None, :]
        live = (row[:, None] < M) & here[None, :]
        value = tl.load(x + where, mask=live, other=0.0).to(tl.float32)
        first += tl.sum(value, 0)
        second += tl.sum(value * value, 0)
    tl.store(partial + (2 * part) * C + column, first, mask=here)
    tl.store(partial + (2 * part + 1) * C + column, second, mask=here)


@triton.jit
def _total(partial, parts, C, column, here, PARTS: tl.constexpr):
    part = tl.arange(0, PARTS)
    live = (part[:, None] < parts) & here[None, :]
    where = (2 * part[:, None]) * C + column[None, :]
    first = tl.sum(tl.load(partial + where, mask=live, other=0.0), 0)
    second = tl.sum(tl.load(partial + where + C, mask=live, other=0.0), 0)
    return first, second


@triton.jit
def _moments(
    partial, gamma, beta, running_mean, running_var, saved, M, C, parts, momentum, eps,
    PARTS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Store mean, 1/deviation, scale and shift of each channel; update the running moments."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    here = column < C
    first, second = _total(partial, parts, C, column, here, PARTS)
    mean = first / M
    var = tl.maximum(second / M - mean * mean, 0.0)
    rstd = 1.0 / tl.sqrt(var + eps)
    scale = tl.load(gamma + column, mask=here, other=0.0) * rstd
    shift = tl.load(beta + column, mask=here, other=0.0) - mean * scale
    tl.store(saved + column, mean, mask=here)
    tl.store(saved + C + column, rstd, mask=here)
    tl.store(saved + 2 * C + column, scale, mask=here)
    tl.store(saved + 3 * C + column, shift, mask=here)
    old = tl.load(running_mean + column, mask=here, other=0.0)
    tl.store(running_mean + column, old + momentum * (mean - old), mask=here)
    old = tl.load(running_var + column, mask=here, other=0.0)
    unbiased = var * (M / (M - 1.0))
    tl.store(running_var + column, old + momentum * (unbiased - old), mask=here)


@triton.jit
def _apply(
    x, residual, saved, out, M, C, steps,
    RESIDUAL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    part, parts = tl.program_id(0), tl.num_programs(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    here = column < C
    scale = tl.load(saved + 2 * C + column, mask=here, other=0.0)
    shift = tl.load(saved + 3 * C + column, mask=here, other=0.0)
    for step in range(steps):
        row = (parts * steps - 1 - step * parts - part).to(tl.int64) * ROWS + tl.arange(0, ROWS)
        where = row[:, None] * C + column[None, :]
        live = (row[:, None] < M) & here[None, :]
        value = tl.load(x + where, mask=live, other=0.0).to(tl.float32)
        value = value * scale[None, :] + shift[None, :]
        if RESIDUAL:
            value += tl.load(residual + where, mask=live, other=0.0).to(tl.float32)
        tl.store(out + where, tl.maximum(value, 0.0), mask=live)


@triton.jit
def _gradient_sums(
    x, out, one, two, saved, masked, partial, M, C, H, W, channels, wide, steps,
    RESIDUAL: tl.constexpr, TWO: tl.constexpr, HALVED: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sum g and g (x - mean), with g the gradient where the output is positive.

    The gradient may come in two parts, of which the second, if halved, holds the even pixels, in
    the middle of the ``wide`` channels of each run. With a residual or two parts, g is stored.
    """
    part, parts = tl.program_id(0), tl.num_programs(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    here = column < C
    mean = tl.load(saved + column, mask=here, other=0.0)
    scale = tl.load(saved + 2 * C + column, mask=here, other=0.0)
    shift = tl.load(saved + 3 * C + column, mask=here, other=0.0)
    first = tl.zeros([COLUMNS], tl.float32)
    second = tl.zeros([COLUMNS], tl.float32)
    for step in range(steps):
        row = (step * parts + part).to(tl.int64) * ROWS + tl.arange(0, ROWS)
        where = row[:, None] * C + column[None, :]
        live = (row[:, None] < M) & here[None, :]
        value = tl.load(x + where, mask=live, other=0.0).to(tl.float32)
        g = tl.load(one + where, mask=live, other=0.0).to(tl.float32)
        if HALVED:
            w, h = row % W, row // W % H
            small = (row // (W * H) * ((H + 1) // 2) + h // 2) * ((W + 1) // 2) + w // 2
            place = column // channels * wide + (wide - channels) // 2 + column % channels
            even = (w % 2 + h % 2 == 0)[:, None] & live
            there = small[:, None] * (C // channels * wide) + place[None, :]
            g += tl.load(two + there, mask=even, other=0.0).to(tl.float32)
        elif TWO:
            g += tl.load(two + where, mask=live, other=0.0).to(tl.float32)
        if RESIDUAL:
            positive = tl.load(out + where, mask=live, other=0.0) > 0
        else:
            positive = value * scale[None, :] + shift[None, :] > 0
        g = tl.where(positive, g, 0.0)
        if RESIDUAL or TWO:
            tl.store(masked + where, g, mask=live)
        first += tl.sum(g, 0)
        second += tl.sum(g * (value - mean[None, :]), 0)
    tl.store(partial + (2 * part) * C + column, first, mask=here)
    tl.store(partial + (2 * part + 1) * C + column, second, mask=here)


@triton.jit
def _gradient_moments(
    partial, saved, line, d_gamma, d_beta, M, C, parts,
    PARTS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Store a, b, c of each channel in ``line``, with dx = a g + b x + c."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    here = column < C
    first, second = _total(partial, parts, C, column, here, PARTS)
    mean = tl.load(saved + column, mask=here, other=0.0)
    rstd = tl.load(saved + C + column, mask=here, other=0.0)
    scale = tl.load(saved + 2 * C + column, mask=here, other=0.0)
    tl.store(d_beta + column, first, mask=here)
    tl.store(d_gamma + column, second * rstd, mask=here)
    b = -scale * rstd * rstd * second / M
    tl.store(line + column, scale, mask=here)
    tl.store(line + C + column, b, mask=here)
    tl.store(line + 2 * C + column, -scale * first / M - b * mean, mask=here)


@triton.jit
def _gradient_apply(
    x, one, saved, line, dx, M, C, steps,
    MASKED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    part, parts = tl.program_id(0), tl.num_programs(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    here = column < C
    scale = tl.load(saved + 2 * C + column, mask=here, other=0.0)
    shift = tl.load(saved + 3 * C + column, mask=here, other=0.0)
    a = tl.load(line + column, mask=here, other=0.0)
    b = tl.load(line + C + column, mask=here, other=0.0)
    c = tl.load(line + 2 * C + column, mask=here, other=0.0)
    for step in range(steps):
        row = (parts * steps - 1 - step * parts - part).to(tl.int64) * ROWS + tl.arange(0, ROWS)
        where = row[:, None] * C + column[None, :]
        live = (row[:, None] < M) & here[None, :]
        value = tl.load(x + where, mask=live, other=0.0).to(tl.float32)
        g = tl.load(one + where, mask=live, other=0.0).to(tl.float32)
        if not MASKED:
            g = tl.where(value * scale[None, :] + shift[None, :] > 0, g, 0.0)
        value = a[None, :] * g + b[None, :] * value + c[None, :]
        tl.store(dx + where, value, mask=live)


def _grid(x: Tensor) -> tuple[int, int, int, int, int]:
    """Return rows, channels, steps of each program, programs over rows, programs over channels."""
    C = x.shape[1]
    M = x.numel() // C
    across = triton.cdiv(C, COLUMNS)
    blocks = triton.cdiv(M, ROWS)
    parts = min(blocks, max(1, PROGRAMS // across))
    return M, C, triton.cdiv(blocks, parts), parts, across


def moments(partial: Tensor, M: int, norm: Norm, momentum: float, eps: float) -> Tensor:
    """Return mean, 1/deviation, scale, shift [4, C] of sums over M rows; update running moments."""
    parts, _, C = partial.shape
    saved = partial.new_empty(4, C)
    _moments[(triton.cdiv(C, FINAL_COLUMNS),)](
        partial, *norm, saved, M, C, parts, momentum, eps,
        triton.next_power_of_2(parts), FINAL_COLUMNS,
    )  # fmt: skip
    return saved


def apply(x: Tensor, residual: Tensor | None, saved: Tensor) -> Tensor:
    """Compute relu(x * scale + shift + residual)."""
    M, C, steps, parts, across = _grid(x)
    out = torch.empty_like(x)
    _apply[(parts, across)](
        x, residual, saved, out, M, C, steps, residual is not None, ROWS, COLUMNS
    )
    return out


def gradient_sums(
    x: Tensor, out: Tensor, saved: Tensor, gradients: Gradients, residual: bool, channels: int
) -> tuple[Tensor | None, Tensor]:
    """Return the gradient before the ReLU if it is stored, and sums [parts, 2, C]."""
    (one, two), (M, C, steps, parts, across) = gradients, _grid(x)
    partial = torch.empty(parts, 2, C, dtype=torch.float32, device=x.device)
    masked = torch.empty_like(x) if residual or two is not None else None
    halved = two is not None and two.shape != x.shape
    _gradient_sums[(parts, across)](
        x, out, one, two, saved, masked, partial, M, C, *x.shape[2:], channels,
        0 if two is None else two.shape[1] * channels // C,
        steps, residual, two is not None, halved, ROWS, COLUMNS,
    )  # fmt: skip
    return masked, partial


def gradient_moments(partial: Tensor, saved: Tensor, M: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return a, b, c [3, C] and the gradients of gamma and beta [C]."""
    parts, _, C = partial.shape
    line = partial.new_empty(3, C)
    d_gamma, d_beta = partial.new_empty(2, C)
    _gradient_moments[(triton.cdiv(C, FINAL_COLUMNS),)](
        partial, saved, line, d_gamma, d_beta, M, C, parts,
        triton.next_power_of_2(parts), FINAL_COLUMNS,
    )  # fmt: skip
    return line, d_gamma, d_beta


def forward(
    x: Tensor, residual: Tensor | None, norm: Norm, momentum: float, eps: float
) -> tuple[Tensor, Tensor]:
    """Compute relu(norm(x) + residual), and mean, 1/deviation, scale, shift [4, C]."""
    M, C, steps, parts, across = _grid(x)
    partial = torch.empty(parts, 2, C, dtype=torch.float32, device=x.device)
    with device_of(x):
        _sums[(parts, across)](x, partial, M, C, steps, ROWS, COLUMNS)
        saved = moments(partial, M, norm, momentum, eps)
        return apply(x, residual, saved), saved


def backward(
    x: Tensor, out: Tensor, saved: Tensor, gradients: Gradients, residual: bool, channels: int
) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
    """Compute the gradients of x, residual, gamma and beta, for runs of ``channels`` each."""
    M, C, steps, parts, across = _grid(x)
    dx = torch.empty_like(x)
    with device_of(x):
        masked, partial = gradient_sums(x, out, saved, gradients, residual, channels)
        line, d_gamma, d_beta = gradient_moments(partial, saved, M)
        _gradient_apply[(parts, across)](
            x, gradients[0] if masked is None else masked, saved, line, dx, M, C,
            steps, masked is not None, ROWS, COLUMNS,
        )  # fmt: skip
    return dx, masked if residual else None, d_gamma, d_beta
