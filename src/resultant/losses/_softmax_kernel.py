"""Triton kernel of the softmax over classes: a program owns few queries and walks over the classes
twice, for the largest logit and the sum, and for the weights of the gradient. The float32 products
are computed from halves: x = h + l with h and l in float16 has 22 bits, and h h' + h l' + l h' is
summed in float32 by the tensor cores, several times faster than in float32 and as exact."""

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
from resultant.classes.scores import ScoreTerms
from resultant.losses._bank_kernel import UNIT_SCALE, half_directions
from resultant.losses.step_streamed import Columns, PartialSoftmax
from resultant.score.kernel import constants, difference, tilt

# Queries and classes of a tile, and warps per program: for few queries, and from MANY on.
FEW_TILE, MANY_TILE, MANY = (1, 1024, 8), (2, 256, 4), 1024
# Weights of a gradient are split into halves of float16 below this bound.
WEIGHT_BOUND = 2.0**14


@triton.jit
def _logits(
    rho_at, rho_scale, here, start, columns, view, kappa, tau, slope, shift, offset,
    EXACT: tl.constexpr, SLOPE: tl.constexpr, SHIFT: tl.constexpr, RATIO: tl.constexpr,
    A: tl.constexpr, STEPS: tl.constexpr, LOG: tl.constexpr, HALF: tl.constexpr, P: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Logits and slopes [ROWS, BLOCK] of the classes from ``start`` on, and their mask."""
    column = start + tl.arange(0, BLOCK)
    inside = column < columns
    mask = here[:, None] & inside[None, :]
    rho = tl.load(rho_at + start, mask=mask, other=0.0) * rho_scale
    x = tl.zeros_like(rho)
    s = tl.zeros_like(rho)
    at = view * columns + column
    if EXACT:
        k = tl.load(kappa + at, mask=inside, other=1.0)
        t = tl.load(tau + at, mask=inside, other=1.0)
        two_kappa_t, gap_squared, t_squared, y0, s0, w0, g0, scale, steady = tilt(
            k[None, :], t[None, :], A
        )
        if tl.min(steady.to(tl.int32)) == 1:
            q, r1 = difference(
                rho, two_kappa_t, gap_squared, t_squared, y0, s0, w0, g0,
                A, STEPS, LOG, HALF, P, RATIO, True,
            )  # fmt: skip
            x += q
            s += scale * r1
        else:
            q, r1 = difference(
                rho, two_kappa_t, gap_squared, t_squared, y0, s0, w0, g0,
                A, STEPS, LOG, HALF, P, RATIO, False,
            )  # fmt: skip
            x += q
            s += scale * r1
    if SLOPE:
        a = tl.load(slope + at, mask=inside, other=0.0)
        x += rho * a[None, :]
        s += a[None, :]
    if SHIFT:
        x += tl.load(shift + at, mask=inside, other=0.0)[None, :]
    added = tl.load(offset + column, mask=inside, other=float("-inf"))
    return x + added[None, :], s, mask


@triton.jit
def _softmax_rows(
    rho, kappa, tau, slope, shift, offset, top, total, high, low,
    weight_scale, queries, columns, rho_scale,
    EXACT: tl.constexpr, SLOPE: tl.constexpr, SHIFT: tl.constexpr,
    A: tl.constexpr, STEPS: tl.constexpr, LOG: tl.constexpr, HALF: tl.constexpr, P: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    view = tl.program_id(1)
    query = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    here = query < queries
    row = (view * queries + query).to(tl.int64)
    at = row[:, None] * columns + tl.arange(0, BLOCK)[None, :]
    largest = tl.load(top + row, mask=here, other=0.0)
    sums = tl.load(total + row, mask=here, other=0.0)
    for start in range(0, columns, BLOCK):
        x, s, mask = _logits(
            rho + at, rho_scale, here, start, columns, view, kappa, tau, slope, shift, offset,
            EXACT, SLOPE, SHIFT, False, A, STEPS, LOG, HALF, P, BLOCK,
        )  # fmt: skip
        now = tl.maximum(largest, tl.max(x, 1))
        sums = sums * tl.exp(largest - now) + tl.sum(tl.exp(x - now[:, None]), 1)
        largest = now
    tl.store(top + row, largest, mask=here)
    tl.store(total + row, sums, mask=here)
    factor = tl.load(weight_scale)
    for start in range(0, columns, BLOCK):
        x, s, mask = _logits(
            rho + at, rho_scale, here, start, columns, view, kappa, tau, slope, shift, offset,
            EXACT, SLOPE, SHIFT, True, A, STEPS, LOG, HALF, P, BLOCK,
        )  # fmt: skip
        w = tl.exp(x - largest[:, None]) * s * factor
        upper = w.to(tl.float16)
        tl.store(high + at + start, upper, mask=mask)
        tl.store(low + at + start, (w - upper.to(w.dtype)).to(tl.float16), mask=mask)


class FusedSoftmax(PartialSoftmax):
    """`PartialSoftmax` in float32 on a GPU."""

    def __init__(self, z: Tensor, terms: ScoreTerms) -> None:
        super().__init__(z)
        scaled = z.flatten(0, 1) * UNIT_SCALE
        high = scaled.half()
        self.queries = torch.cat([high, high, (scaled - high).half()], -1)
        # The slope of the exact score is at most 1/tau.
        bound = z.new_zeros(()) if terms.tau is None else 1 / terms.tau.amin()
        if terms.slope is not None:
            bound = bound + terms.slope.abs().amax()
        self.weight_scale = WEIGHT_BOUND / bound

    def absorb(self, sums: Tensor, columns: Columns) -> None:
        p, mu, before = self.z.shape[-1], half_directions(sums), self.top.clone()
        rho = _product(self.queries, mu.T).view(*before.shape, len(mu))
        upper, lower = (a.flatten(0, 1) for a in self.weights(rho, columns))
        added = _product(upper, mu[:, : 2 * p]).unflatten(-1, (2, p)).sum(-2)
        added += _product(lower, mu[:, :p])
        self.gradient *= (before - self.top).exp().unsqueeze(-1)
        self.gradient += added.div_(self.weight_scale * UNIT_SCALE).view_as(self.gradient)

    def weights(self, rho: Tensor, columns: Columns) -> tuple[Tensor, Tensor]:
        """Add the logits at cosines ``rho / UNIT_SCALE**2`` [V, Q, K] to the sums; return high and
        low half of the weights exp(x - top) times the slope, times ``weight_scale``."""
        (views, queries, number), (kappa, terms, offset) = rho.shape, columns
        high, low = (rho.new_empty(rho.shape, dtype=torch.float16) for _ in range(2))
        read = [rho if a is None else a.expand(views, number).contiguous() for a in (kappa, *terms)]
        rows, block, warps = MANY_TILE if views * queries >= MANY else FEW_TILE
        with device_of(rho):
            _softmax_rows[(-(-queries // rows), views)](
                *(rho, *read, offset.contiguous(), self.top, self.total, high, low),
                *(self.weight_scale, queries, number, UNIT_SCALE**-2),
                *[a is not None for a in terms],
                *(*constants(self.z.shape[-1], rho.dtype).values(), rows, block),
                num_warps=warps,
            )
        return high, low


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Multiply matrices of float16 and sum in float32."""
    return torch.mm(a, b, out_dtype=torch.float32) if a.is_cuda else a.float() @ b.float()
