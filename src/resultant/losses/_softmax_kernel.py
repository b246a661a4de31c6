"""Triton kernels of the softmax over classes: logits from cosines, their sums, and weights.

A program owns a few queries and walks over the classes twice: for the largest logit and the sum,
and for the weights of the gradient. Scores and slopes never reach memory.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false
# pyright: reportPossiblyUnboundVariable=false, reportGeneralTypeIssues=false
# Triton's language is Python only in its syntax.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from resultant._core.device import device_of
from resultant.classes.realization import Terms
from resultant.classes.statistics import ZERO_LENGTH
from resultant.losses._bank_kernel import require_contiguous, row_block
from resultant.score.kernel import constants, difference, tilt

# Queries and classes of a tile, and warps per program: for few queries, and from MANY on.
FEW_TILE, MANY_TILE, MANY = (1, 1024, 8), (2, 256, 4), 1024
# Vectors of at most unit length are split into halves of float16 after this factor.
UNIT_SCALE = 2.0**15


@triton.jit
def _logits(
    rho, column, columns, view,
    kappa, tau, slope, shift, offset,
    kappa_view, tau_view, slope_view, shift_view, tau_step, slope_step,
    EXACT: tl.constexpr, SLOPE: tl.constexpr, SHIFT: tl.constexpr, RATIO: tl.constexpr,
    A: tl.constexpr, STEPS: tl.constexpr, LOG: tl.constexpr, HALF: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    """Logits and slopes at cosines rho [ROWS, BLOCK] of the classes ``column`` [BLOCK]."""
    inside = column < columns
    x = tl.zeros_like(rho)
    s = tl.zeros_like(rho)
    if EXACT:
        k = tl.load(kappa + view * kappa_view + column, mask=inside, other=1.0).to(rho.dtype)
        t = tl.load(tau + view * tau_view + column * tau_step, mask=inside, other=1.0)
        t = t.to(rho.dtype)
        twice, least, square, y0, s0, w0, g0, scale, steady = tilt(k[None, :], t[None, :], A)
        if tl.min(steady.to(tl.int32)) == 1:
            q, r1 = difference(
                rho, twice, least, square, y0, s0, w0, g0, A, STEPS, LOG, HALF, P, RATIO, True
            )
            x += q
            s += scale * r1
        else:
            q, r1 = difference(
                rho, twice, least, square, y0, s0, w0, g0, A, STEPS, LOG, HALF, P, RATIO, False
            )
            x += q
            s += scale * r1
    if SLOPE:
        a = tl.load(slope + view * slope_view + column * slope_step, mask=inside, other=0.0)
        x += rho * a[None, :]
        s += a[None, :]
    if SHIFT:
        x += tl.load(shift + view * shift_view + column, mask=inside, other=0.0)[None, :]
    added = tl.load(offset + column, mask=inside, other=float("-inf")).to(rho.dtype)
    return x + added[None, :], s


@triton.jit
def _softmax_rows(
    rho, kappa, tau, slope, shift, offset, own, top, total, gradient, high, low,
    weight_scale, queries, columns, width, rho_scale,
    kappa_view, tau_view, slope_view, shift_view, tau_step, slope_step,
    EXACT: tl.constexpr, SLOPE: tl.constexpr, SHIFT: tl.constexpr, OWN: tl.constexpr,
    SPLIT: tl.constexpr,
    A: tl.constexpr, STEPS: tl.constexpr, LOG: tl.constexpr, HALF: tl.constexpr, P: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    view = tl.program_id(1)
    query = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    here = query < queries
    row = (view * queries + query).to(tl.int64)
    first = tl.arange(0, BLOCK)
    before = tl.load(top + row, mask=here, other=0.0)
    sums = tl.load(total + row, mask=here, other=0.0)
    largest = before
    if OWN:
        label = tl.load(own + query, mask=here, other=-1)
    at = row[:, None] * columns + first[None, :]

    for start in range(0, columns, BLOCK):
        column = start + first
        mask = here[:, None] & (column < columns)[None, :]
        cosine = tl.load(rho + at + start, mask=mask, other=0.0) * rho_scale
        x, s = _logits(
            cosine, column, columns, view, kappa, tau, slope, shift, offset,
            kappa_view, tau_view, slope_view, shift_view, tau_step, slope_step,
            EXACT, SLOPE, SHIFT, False, A, STEPS, LOG, HALF, P,
        )  # fmt: skip
        if OWN:
            x = tl.where(column[None, :] == label[:, None], float("-inf"), x)
        now = tl.maximum(largest, tl.max(x, 1))
        # Without classes of a prior above zero there is nothing to subtract.
        base = tl.where(now > float("-inf"), now, 0.0)
        sums = sums * tl.exp(largest - base) + tl.sum(tl.exp(x - base[:, None]), 1)
        largest = now
    base = tl.where(largest > float("-inf"), largest, 0.0)
    tl.store(top + row, largest, mask=here)
    tl.store(total + row, sums, mask=here)
    kept = tl.exp(before - base)
    for start in range(0, width, BLOCK):
        entry = start + first
        inner = here[:, None] & (entry < width)[None, :]
        place = gradient + row[:, None] * width + entry[None, :]
        tl.store(place, tl.load(place, mask=inner, other=0.0) * kept[:, None], mask=inner)
    if SPLIT:
        factor = tl.load(weight_scale)

    for start in range(0, columns, BLOCK):
        column = start + first
        mask = here[:, None] & (column < columns)[None, :]
        cosine = tl.load(rho + at + start, mask=mask, other=0.0) * rho_scale
        x, s = _logits(
            cosine, column, columns, view, kappa, tau, slope, shift, offset,
            kappa_view, tau_view, slope_view, shift_view, tau_step, slope_step,
            EXACT, SLOPE, SHIFT, True, A, STEPS, LOG, HALF, P,
        )  # fmt: skip
        share = tl.exp(x - base[:, None])
        if OWN:
            share = tl.where(column[None, :] == label[:, None], 0.0, share)
        w = share * s
        if SPLIT:
            w *= factor
            upper = w.to(tl.float16)
            tl.store(high + at + start, upper, mask=mask)
            tl.store(low + at + start, (w - upper.to(w.dtype)).to(tl.float16), mask=mask)
        else:
            tl.store(rho + at + start, w, mask=mask)


@triton.jit
def _half_rows(sums, halves, p: tl.constexpr, BLOCK: tl.constexpr, ZERO: tl.constexpr, SCALE):
    row = tl.program_id(0).to(tl.int64)
    sums += row * (p + 1)
    halves += row * (3 * p)
    first = tl.arange(0, BLOCK)
    squares = tl.zeros([BLOCK], tl.float64)
    for start in range(0, p, BLOCK):
        entries = tl.load(sums + start + first, mask=start + first < p, other=0.0)
        squares += entries * entries
    length = tl.sqrt(tl.sum(squares))
    # Samples that cancel have the direction e_1; see `_means.write_mean`.
    cancelled = length / tl.load(sums + p) <= ZERO
    scale = tl.where(cancelled, 0.0, 1 / tl.where(cancelled, 1.0, length))
    for start in range(0, p, BLOCK):
        column = start + first
        inside = column < p
        entries = tl.load(sums + column, mask=inside, other=0.0)
        along = tl.where(cancelled, tl.where(column == 0, 1.0, 0.0), entries * scale)
        mu = along.to(tl.float32) * SCALE
        high = mu.to(tl.float16)
        tl.store(halves + column, high, mask=inside)
        tl.store(halves + p + column, (mu - high.to(tl.float32)).to(tl.float16), mask=inside)
        tl.store(halves + 2 * p + column, high, mask=inside)


def half_directions(sums: Tensor) -> Tensor:
    """Return the directions of the means of sums and counts [K, p + 1] as [K, 3 p] in float16: the
    high half of each entry times `UNIT_SCALE`, the low half, and the high half again."""
    p, sums = sums.shape[1] - 1, sums.contiguous()
    halves = sums.new_empty(len(sums), 3 * p, dtype=torch.float16)
    block, warps = row_block(p)
    with device_of(sums):
        _half_rows[(len(sums),)](
            *(sums, halves),
            p=p,
            BLOCK=block,
            ZERO=ZERO_LENGTH,
            SCALE=UNIT_SCALE,
            num_warps=warps,
        )
    return halves


def absorb(
    rho: Tensor,
    kappa: Tensor,
    terms: Terms,
    offset: Tensor,
    p: int,
    sums: tuple[Tensor, Tensor, Tensor],
    own: Tensor | None = None,
    rho_scale: float = 1.0,
    weight_scale: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Add classes at cosines ``rho * rho_scale`` [V, Q, K] to the sums of a softmax.

    Args:
        rho: Scaled cosines, overwritten by weights unless these are split.
        kappa: Concentrations [V, K] or [K].
        terms: Terms of the scores.
        offset: Offsets [K] of the logits.
        p: Dimension of the scores.
        sums: Largest logits [V, Q], sums [V, Q] and gradients [V, Q, width], updated in place.
        own: Classes [Q] that the queries leave out.
        rho_scale: Factor of rho.
        weight_scale: Factor [] of weights that are returned as halves of float16.

    Returns:
        Weights exp(x - top) times the slope: rho itself and an empty tensor, or the two halves.
    """
    top, total, gradient = sums
    require_contiguous(rho, top, total, gradient)
    views, queries, columns = rho.shape
    split = weight_scale is not None
    high = low = rho
    if split:
        high, low = (rho.new_empty(rho.shape, dtype=torch.float16) for _ in range(2))
    (kappa_view, _), *steps = [_steps(a) for a in (kappa, *terms)]
    (tau_view, tau_step), (slope_view, slope_step), (shift_view, _) = steps
    rows, block, warps = MANY_TILE if views * queries >= MANY else FEW_TILE
    with device_of(rho):
        _softmax_rows[(-(-queries // rows), views)](
            *(rho, kappa, *[rho if a is None else a for a in terms], offset.contiguous()),
            *(rho if own is None else own.contiguous(), top, total, gradient, high, low),
            *(rho if weight_scale is None else weight_scale, queries, columns),
            *(gradient.shape[-1], rho_scale, kappa_view, tau_view, slope_view, shift_view),
            *(tau_step, slope_step, *[a is not None for a in (*terms, own)], split),
            *(*constants(p, rho.dtype).values(), rows, block),
            num_warps=warps,
        )
    return (high, low) if split else (rho, rho.new_empty(0))


def _steps(a: Tensor | None) -> tuple[int, int]:
    """Return the steps from view to view and from class to class, zero where all share a number.

    Raises:
        ValueError: If the classes of a view are not next to each other.
    """
    if a is None or not (shape := a.shape):
        return 0, 0
    if shape[-1] > 1 and a.stride(-1) != 1:
        raise ValueError(f"expected classes next to each other, got strides {a.stride()}")
    by_view = a.stride(0) if len(shape) > 1 and shape[0] > 1 else 0
    return by_view, 1 if shape[-1] > 1 else 0
