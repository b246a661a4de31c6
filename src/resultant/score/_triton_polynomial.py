r"""The score in float64 as one polynomial in rho per class, in Triton's language.

The method is that of `_polynomial`. The degree is fixed, since the values of kappa and tau are on
the device; the classes that it does not suffice for are marked, and scored by the exact form.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# pyright: reportOperatorIssue=false
# Triton's language is Python only in its syntax.

from __future__ import annotations

import math
from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from resultant.score._polynomial import precision, transforms
from resultant.score.kernel import clamp, constants, difference, tilt

# Degree of the slope: enough where (nu^2 + kappa^2 + t^2)/(2 kappa t) is at least about four; and
# the number of coefficients of the score.
DEGREE = 20
COUNT = DEGREE + 2
# Elements from which polynomials are faster, and beyond which their indices, with a tile more,
# might not fit int32.
LEAST, MOST = 2**19, 2**30
# Classes and warps of a program.
BLOCK, WARPS = 32, 4


@triton.jit
def _fit(
    kappa_at,
    tau_at,
    table_at,
    out_at,
    classes,
    kappa_step,
    tau_step,
    ORDER: tl.constexpr,
    LEAST: tl.constexpr,
    A: tl.constexpr,
    STEPS: tl.constexpr,
    LOG: tl.constexpr,
    HALF: tl.constexpr,
    P: tl.constexpr,
    NODES: tl.constexpr,
    SLOTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the coefficients of the score for each class, and one or zero: whether they suffice."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = column < classes
    kappa = tl.load(kappa_at + column * kappa_step, mask=inside, other=1.0)
    tau = tl.load(tau_at + column * tau_step, mask=inside, other=1.0)
    twice, least, square, y0, s0, w0, g0, scale, _ = tilt(kappa[None, :], tau[None, :], A)
    slot = tl.arange(0, SLOTS)
    rho = tl.load(table_at + slot)[:, None]
    q, r1 = difference(
        rho, twice, least, square, y0, s0, w0, g0, A, STEPS, LOG, HALF, P, True, False
    )
    slopes = scale * r1
    powers = tl.zeros_like(slopes)
    for k in range(NODES):
        row_at = table_at + (2 * k + 1) * SLOTS + slot
        chebyshev = tl.sum(tl.load(row_at)[:, None] * slopes, axis=0)
        powers += tl.load(row_at + SLOTS)[:, None] * chebyshev[None, :]
    # The slots after the nodes have rho = 0.
    powers = tl.where((slot == NODES)[:, None], q, powers)
    power = tl.where(slot == NODES, 0, slot + 1)[:, None]
    here = tl.where(slot[:, None] <= NODES, column[None, :], classes) < classes
    to = out_at + power * classes + column[None, :]
    tl.store(to, powers, mask=here)
    enough = ORDER * ORDER + y0 + square >= LEAST * twice
    flag = tl.where(enough, 1.0, 0.0)
    flag_at = out_at + (NODES + 1) * classes + column[None, :]
    tl.store(flag_at, flag, mask=inside[None, :])


@triton.jit
def load_polynomial(at, classes, inside, COUNT: tl.constexpr):
    """Load the coefficients of the classes, each [1, BLOCK]."""
    coefficients = (tl.load(at, mask=inside, other=0.0)[None, :],)
    for k in tl.static_range(1, COUNT):
        c = tl.load(at + k * classes, mask=inside, other=0.0)[None, :]
        coefficients = coefficients + (c,)
    return coefficients


@triton.jit
def evaluate_polynomial(coefficients, rho, COUNT: tl.constexpr, SLOPE: tl.constexpr):
    """Score and slope at rho by Horner's rule."""
    rho = clamp(rho)
    q = coefficients[COUNT - 1]
    slope = q
    for k in tl.static_range(COUNT - 2, 0, -1):
        q = q * rho + coefficients[k]
        if SLOPE:
            slope = slope * rho + q
    return q * rho + coefficients[0], slope


@cache
def _table(device: torch.device) -> Tensor:
    """The nodes, and per Chebyshev polynomial its row of the transform of slopes at the nodes, and
    its share of the powers of rho in the score; rows are padded."""
    nodes, to_chebyshev, to_powers = transforms(DEGREE)
    counts = torch.arange(1, COUNT, dtype=torch.float64).unsqueeze(1)
    rows = torch.stack([to_chebyshev, (to_powers / counts).T], 1).reshape(-1, DEGREE + 1)
    rows = torch.cat([nodes.unsqueeze(0), rows])
    padded = torch.nn.functional.pad(rows, (0, triton.next_power_of_2(COUNT) - DEGREE - 1))
    if device.type == "cuda":  # a copy that does not wait for the device
        padded = padded.pin_memory()
    return padded.to(device, non_blocking=True)


def has_polynomials(rho: Tensor) -> bool:
    """Return True if rho [rows, classes] is scored faster by polynomials."""
    return rho.dtype == torch.float64 and LEAST <= rho.numel() < MOST and len(rho) > 4 * COUNT


def fit(kappa: Tensor, tau: Tensor, p: int) -> Tensor:
    """Fit the polynomials of classes, kappa and tau each [classes] or [1]: COUNT rows, the
    coefficients of 1, rho, rho^2, ..., and a row that is one where a polynomial suffices."""
    classes = max(kappa.numel(), tau.numel())
    table = _table(kappa.device)
    out = kappa.new_empty(COUNT + 1, classes)
    _fit[(triton.cdiv(classes, BLOCK),)](
        kappa,
        tau,
        table,
        out,
        classes,
        int(kappa.numel() > 1),
        int(tau.numel() > 1),
        ORDER=p / 2 - 1,
        LEAST=math.cosh(precision(torch.float64) / DEGREE),
        **constants(p, torch.float64),
        NODES=DEGREE + 1,
        SLOTS=table.shape[1],
        BLOCK=BLOCK,
        num_warps=WARPS,
    )
    return out
