r"""Evaluation of the score by the fastest way of each device.

On the CPU the compiled kernel is used, or polynomials in rho where those are faster, on CUDA the
fused kernel. Under torch.compile, on other devices and without a kernel the score is one expression
(`ExactScorer`), on the CPU in chunks that fit the cache.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from resultant._core import chunks, validation
from resultant._core.compensated import two_reciprocal
from resultant._core.device import kernel_module
from resultant.score._polynomial import ScorePolynomial, Scorer, degree_for
from resultant.special import compiled
from resultant.special.debye import expansion, smallest_order
from resultant.special.differences import Lower
from resultant.special.three import LowerInThree

# A polynomial in rho is built if its nodes are no more than this share of the rows to score.
ROW_SHARE = 0.25


def evaluate(
    rho: Tensor, kappa: Tensor, tau: Tensor, p: int, *, slope: bool
) -> tuple[Tensor, Tensor]:
    """Compute the score and, if ``slope``, its slope (else an empty tensor), broadcasting."""
    if torch.compiler.is_compiling():
        if is_long(p, kappa.dtype):
            return torch.ops.resultant.score(rho, kappa, tau, p, slope)
    elif rho.device.type in ("cpu", "cuda"):
        score = _by_chunks
        if rho.device.type == "cuda":
            kernels = kernel_module("resultant.score._triton")
            score = None if kernels is None else kernels.score
        if score is not None:
            shape = validation.broadcast(rho.shape, kappa.shape, tau.shape)
            q, slopes = score(*_rows(rho, kappa, tau, shape), p, slope)
            if q.shape == shape:
                return q, slopes
            return q.reshape(shape), slopes.reshape(shape) if slope else slopes
    return ExactScorer(kappa, tau, p)(rho, slope)


def partials(
    rho: Tensor, kappa: Tensor, tau: Tensor, p: int, *, by_kappa: bool = True, by_tau: bool = True
) -> tuple[Tensor, Tensor]:
    """Compute dq/dkappa and dq/dtau by the compiled kernel in one pass, broadcasting; a result that
    is not requested is empty."""
    shape = validation.broadcast(rho.shape, kappa.shape, tau.shape)
    rows = _rows(rho, kappa, tau, shape)
    first, second = compiled.partials(*rows, p, by_kappa=by_kappa, by_tau=by_tau)
    return first.reshape(shape) if by_kappa else first, second.reshape(shape) if by_tau else second


def is_long(p: int, dtype: torch.dtype) -> bool:
    """Return True if the expression for p has a recurrence or two legs, which takes minutes to
    compile; an exported program has the expression, and does not need this package."""
    return p / 2 - 1 < smallest_order(dtype) and not torch.compiler.is_exporting()


# The score as one operation to torch.compile.
OPERATORS = torch.library.Library("resultant", "FRAGMENT")
OPERATORS.define(
    "score(Tensor rho, Tensor kappa, Tensor tau, int p, bool slope) -> (Tensor, Tensor)"
)


def _operator(
    rho: Tensor, kappa: Tensor, tau: Tensor, p: int, slope: bool
) -> tuple[Tensor, Tensor]:
    return evaluate(rho, kappa, tau, p, slope=slope)


def _shapes(rho: Tensor, kappa: Tensor, tau: Tensor, p: int, slope: bool) -> tuple[Tensor, Tensor]:
    q = rho.new_empty(torch.broadcast_shapes(rho.shape, kappa.shape, tau.shape))
    return q, torch.empty_like(q) if slope else rho.new_empty(0)


OPERATORS.impl("score", _operator, "CompositeExplicitAutograd")
torch.library.register_fake("resultant::score", _shapes, lib=OPERATORS)


class Tilt:
    r"""Squares at both ends of the tilt from :math:`\kappa\mu` to :math:`\kappa\mu + tz`."""

    def __init__(self, kappa: Tensor, tau: Tensor) -> None:
        self.t, self.t_rest = two_reciprocal(tau)  # 1/tau and its rounding error
        self.y0 = kappa * kappa
        self.twice = 2 * kappa * self.t
        self.square = self.t * self.t
        apart = (kappa - self.t) - self.t_rest
        self.least = apart * apart

    def y1(self, rho: Tensor) -> Tensor:
        r"""Compute :math:`\tilde\kappa^2` as a sum of terms that are not negative."""
        return torch.addcmul(self.least, self.twice, 1 + rho)

    def h(self, rho: Tensor) -> Tensor:
        """Compute ``y1 - y0`` directly."""
        return torch.addcmul(self.square, self.twice, rho)


def _rows(
    rho: Tensor, kappa: Tensor, tau: Tensor, shape: torch.Size
) -> tuple[Tensor, Tensor, Tensor]:
    """Reshape rho to [rows, classes], kappa and tau to [classes] or [1]."""
    if rho.shape == shape and rho.dim() == 2 and kappa.dim() == 1 and tau.dim() == 0:
        return rho, kappa, tau.reshape(1)
    classes = validation.broadcast(kappa.shape, tau.shape)
    split = len(shape) - len(classes) if math.prod(classes) != 1 else len(shape)
    rows, classes = math.prod(shape[:split]), shape[split:]
    kappa, tau = (a.expand(classes) if a.numel() != 1 else a for a in (kappa, tau))
    rho = rho.expand(shape).reshape(rows, math.prod(classes))
    return rho, kappa.reshape(-1), tau.reshape(-1)


class ExactScorer:
    """Exact score of fixed classes for any rho; terms of the classes are computed once."""

    def __init__(self, kappa: Tensor, tau: Tensor, p: int) -> None:
        self.tilt = Tilt(kappa, tau)
        y0 = self.tilt.y0
        closed = p == 3
        self.lower = LowerInThree(y0) if closed else Lower(expansion(p / 2 - 1, kappa.dtype), y0)
        self.scale = kappa * self.tilt.t

    def __call__(self, rho: Tensor, slope: bool) -> tuple[Tensor, Tensor]:
        rho = rho.clamp(-1, 1)
        y1, h = self.tilt.y1(rho), self.tilt.h(rho)
        q, r1 = self.lower.phi_difference(y1, h, with_ratio=slope)
        return q, self.scale * r1 if slope else q.new_empty(0)


def _scorer(kappa: Tensor, tau: Tensor, p: int, rows: int) -> Scorer:
    """Build the exact score of the classes or, for many rows, the polynomial that equals it."""
    degree = degree_for(kappa, tau, p, kappa.dtype)
    if degree is None or rows * ROW_SHARE < degree + 2:
        return ExactScorer(kappa, tau, p)
    exact = ExactScorer(kappa.double(), tau.double(), p)
    return ScorePolynomial(exact, max(kappa.numel(), tau.numel()), degree, kappa.dtype)


def _by_chunks(
    rho: Tensor, kappa: Tensor, tau: Tensor, p: int, slope: bool
) -> tuple[Tensor, Tensor]:
    """Score rho [rows, classes] on the CPU, in chunks that fit the cache."""
    size = chunks.CACHE_BYTES // rho.element_size() * torch.get_num_threads()
    rows, columns = rho.shape
    if compiled.available(rho, kappa, tau):
        # A polynomial in rho is faster still, if its degree is small for the rows.
        few = rho.numel() <= size or rows * ROW_SHARE < 4
        if few or degree_for(kappa, tau, p, kappa.dtype) is None:
            return compiled.score(rho, kappa, tau, p, slope)
    elif rho.numel() <= size:
        return ExactScorer(kappa, tau, p)(rho, slope)
    q = torch.empty_like(rho)
    slopes = torch.empty_like(rho) if slope else rho.new_empty(0)
    width = min(columns, size)
    height = max(1, size // width)
    for left in range(0, columns, width):
        part = slice(left, left + width)
        kappa_part, tau_part = (a[part] if len(a) > 1 else a for a in (kappa, tau))
        score = _scorer(kappa_part, tau_part, p, rows)
        for top in range(0, rows, height):
            block = (slice(top, top + height), part)
            q[block], slope_block = score(rho[block], slope)
            if slope:
                slopes[block] = slope_block
    return q, slopes
