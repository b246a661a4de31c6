"""Triton kernels of the terms of edited scores: gains, target gains and what realizes them.

The formulas are those of `resultant.classes.realization.terms` for linear targets. In torch they
are some thirty small operations, which take the host longer than the rest of the step.
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

from resultant._core.device import Launcher, device_of
from resultant.classes.realization import Terms
from resultant.classes.rule import TEMPERED
from resultant.score.kernel import constants, difference, tilt
from resultant.score.limits import temperature_range

# Classes and warps of a program.
BLOCK, WARPS = 256, 4


@triton.jit
def _gain_rows(
    kappa, tau, g, number, VANISHING: tl.constexpr,
    A: tl.constexpr, STEPS: tl.constexpr, LOG: tl.constexpr, HALF: tl.constexpr, P: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < number
    k = tl.load(kappa + at, mask=inside, other=1.0)
    vanishing = tl.full([BLOCK], VANISHING, tl.float64)
    twice, least, square, y0, s0, w0, g0, scale, _steady = tilt(k, vanishing, A)
    _q, r1 = difference(
        tl.zeros_like(k), twice, least, square, y0, s0, w0, g0, A, STEPS, LOG, HALF, P, True, True
    )
    tl.store(g + at, scale * r1 * (vanishing / tl.load(tau)), mask=inside)


@triton.jit
def _intercept(
    k, t,
    A: tl.constexpr, STEPS: tl.constexpr, LOG: tl.constexpr, HALF: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    twice, least, square, y0, s0, w0, g0, _scale, _steady = tilt(k, t, A)
    q, _r1 = difference(
        tl.zeros_like(k), twice, least, square, y0, s0, w0, g0, A, STEPS, LOG, HALF, P, False, False
    )
    return q


@triton.jit
def _edited_rows(
    g, kappa, tau, beta, edited, shift, lowest, views, columns,
    STAR: tl.constexpr, SHIFT: tl.constexpr, LEAST: tl.constexpr, MOST: tl.constexpr,
    A: tl.constexpr, STEPS: tl.constexpr, LOG: tl.constexpr, HALF: tl.constexpr, P: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    first = tl.arange(0, BLOCK)
    column = tl.program_id(0) * BLOCK + first
    inside = column < columns
    # The temperature is rounded to the dtype of the scores.
    t = tl.load(tau).to(tl.float64) + tl.zeros([BLOCK], tl.float64)
    b = tl.load(beta)
    if STAR:
        low = tl.load(lowest + column, mask=inside, other=0.0)
    for view in range(views):
        row = view * columns
        total = tl.zeros([BLOCK], tl.float64)
        for start in range(0, columns, BLOCK):
            total += tl.load(g + row + start + first, mask=start + first < columns, other=0.0)
        mean = tl.sum(total) / columns
        x = tl.load(g + row + column, mask=inside, other=1.0)
        # As torch.lerp: exact at both ends.
        target = tl.where(b < 0.5, mean + b * (x - mean), x - (x - mean) * (1 - b))
        if STAR:
            exact = t * (x / target)
            exists = (exact >= LEAST) & (exact <= MOST)
            star = tl.where(exists, exact, float("nan")).to(edited.dtype.element_ty)
            tl.store(edited + row + column, star, mask=inside)
            # As `ContrastiveLoss._least`; NaN is no gain.
            smaller = tl.where(target < x, target, x)
            smaller = tl.where(exists, smaller, tl.where(smaller > 0, float("-inf"), smaller))
            low = tl.where(smaller < low, smaller, low)
            if SHIFT:
                # From the rounded arguments: only a difference of large intercepts remains.
                k = tl.load(kappa + row + column, mask=inside, other=1.0)
                k = k.to(edited.dtype.element_ty).to(tl.float64)
                h0 = _intercept(k, t, A, STEPS, LOG, HALF, P)
                h1 = _intercept(k, star.to(tl.float64), A, STEPS, LOG, HALF, P)
                tl.store(shift + row + column, (h0 - h1).to(shift.dtype.element_ty), mask=inside)
        else:
            tl.store(edited + row + column, (target - x).to(edited.dtype.element_ty), mask=inside)
    if STAR:
        tl.store(lowest + column, low, mask=inside)


_gain_launches, _edited_launches = Launcher(_gain_rows), Launcher(_edited_rows)


def edited_terms(
    realization: str,
    kappa: Tensor,
    taus: tuple[Tensor, Tensor],
    beta: Tensor,
    lowest: Tensor,
    p: int,
    vanishing: float,
) -> Terms:
    """Return the terms of a realization that edits the gains, with linear targets.

    Args:
        realization: Any but native.
        kappa: Concentrations [V, C] in float64.
        taus: The temperature [] in float64, and in the dtype of the scores.
        beta: Strength [1] of the targets in float64.
        lowest: The least gain or target [C] of classes with temperatures, updated in place.
        p: Dimension.
        vanishing: A temperature whose tilt leaves every kappa as it is.
    """
    g, (wide, tau) = torch.empty_like(kappa), taus
    (views, columns), dtype, number = kappa.shape, tau.dtype, kappa.numel()
    fixed = tuple(constants(p, torch.float64).values())
    key = kappa.get_device(), p, views, columns
    with device_of(kappa):
        _gain_launches(
            (-(-number // BLOCK), 1, 1),
            (*key, vanishing),
            (kappa, wide, g),
            (number, vanishing, *fixed, BLOCK),
            WARPS,
        )
        if realization == "cosine":
            return Terms(None, g.mean(-1, keepdim=True).to(dtype))
        star, preserve = realization in TEMPERED, realization == "preserve"
        edited = torch.empty_like(kappa, dtype=dtype)
        shift = torch.empty_like(edited) if preserve else edited
        _edited_launches(
            (-(-columns // BLOCK), 1, 1),
            (*key, dtype, realization),
            (g, kappa, tau, beta, edited, shift, lowest),
            (views, columns, star, preserve, *temperature_range(dtype), *fixed, BLOCK),
            WARPS,
        )
    if star:
        return Terms(edited, None, shift if preserve else None)
    return Terms(tau, edited)
