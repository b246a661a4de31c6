r"""Evaluation of the score: by the compiled kernel on a CPU, by the Triton kernel on a GPU, and as
one torch expression (`ExactScorer`) on other devices, without a kernel, and in a trace.
"""

from __future__ import annotations

import torch
from torch import Tensor

from resultant._core import chunks, validation
from resultant._core.autograd import is_opaque, is_traced
from resultant._core.compensated import two_reciprocal
from resultant._core.device import kernel_module
from resultant.special import compiled
from resultant.special.debye import expansion, is_shifted
from resultant.special.differences import Lower


def evaluate(
    rho: Tensor, kappa: Tensor, tau: Tensor, p: int, *, slope: bool
) -> tuple[Tensor, Tensor]:
    """Compute the score and, if ``slope``, its slope (else an empty tensor), broadcasting."""
    if is_opaque(is_recurrent(rho, kappa, tau, p)):
        return torch.ops.resultant.score(rho, kappa, tau, p, slope)
    score = None
    if not is_traced() and rho.is_cuda:
        kernels = kernel_module("resultant.score._triton")
        score = kernels and kernels.score
    elif not is_traced() and rho.is_cpu:
        score = compiled.score if compiled.available(rho, kappa, tau) else _by_chunks
    if score is None:
        return ExactScorer(kappa, tau, p)(rho, slope)
    shape = validation.broadcast(rho.shape, kappa.shape, tau.shape)
    q, slopes = score(*_rows(rho, kappa, tau, shape), p, slope)
    if q.shape == shape:
        return q, slopes
    return q.reshape(shape), slopes.reshape(shape) if slope else slopes


def partials(
    rho: Tensor, kappa: Tensor, tau: Tensor, p: int, *, by_kappa: bool = True, by_tau: bool = True
) -> tuple[Tensor, Tensor]:
    """Compute dq/dkappa and dq/dtau by the compiled kernel in one pass, broadcasting; a result that
    is not requested is empty."""
    shape = validation.broadcast(rho.shape, kappa.shape, tau.shape)
    rows = _rows(rho, kappa, tau, shape)
    first, second = compiled.partials(*rows, p, by_kappa=by_kappa, by_tau=by_tau)
    return first.reshape(shape) if by_kappa else first, second.reshape(shape) if by_tau else second


def is_recurrent(rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> bool:
    """Return True if the expression of the score has a recurrence, which is slow to compile."""
    return is_shifted(p / 2 - 1, rho)


# Score and slope as one operation to torch.compile.
_OPERATORS = torch.library.Library("resultant", "FRAGMENT")
_OPERATORS.define(
    "score(Tensor rho, Tensor kappa, Tensor tau, int p, bool slope) -> (Tensor, Tensor)"
)


def _operator(
    rho: Tensor, kappa: Tensor, tau: Tensor, p: int, slope: bool
) -> tuple[Tensor, Tensor]:
    return evaluate(rho, kappa, tau, p, slope=slope)


def _shapes(rho: Tensor, kappa: Tensor, tau: Tensor, p: int, slope: bool) -> tuple[Tensor, Tensor]:
    q = rho.new_empty(torch.broadcast_shapes(rho.shape, kappa.shape, tau.shape))
    return q, torch.empty_like(q) if slope else rho.new_empty(0)


_OPERATORS.impl("score", _operator, "CompositeExplicitAutograd")
torch.library.register_fake("resultant::score", _shapes, lib=_OPERATORS)


class Tilt:
    r"""Squares at both ends of the tilt from :math:`\kappa\mu` to :math:`\kappa\mu + tz`."""

    def __init__(self, kappa: Tensor, tau: Tensor) -> None:
        self.t, self.t_rest = two_reciprocal(tau)  # 1/tau and its rounding error
        self.y0 = kappa * kappa
        self.two_kappa_t = 2 * (kappa * self.t + kappa * self.t_rest)
        self.t_squared = self.t * self.t + 2 * self.t * self.t_rest
        gap = (kappa - self.t) - self.t_rest
        self.gap_squared = gap * gap

    def y1(self, rho: Tensor) -> Tensor:
        r"""Compute :math:`\tilde\kappa^2` as a sum of terms that are not negative."""
        return torch.addcmul(self.gap_squared, self.two_kappa_t, 1 + rho)

    def h(self, rho: Tensor) -> Tensor:
        """Compute ``y1 - y0`` directly."""
        return torch.addcmul(self.t_squared, self.two_kappa_t, rho)


def _rows(
    rho: Tensor, kappa: Tensor, tau: Tensor, shape: torch.Size
) -> tuple[Tensor, Tensor, Tensor]:
    """Reshape rho to [rows, classes], kappa and tau to [classes] or one element; for one kappa and
    tau, rho is as it is."""
    if rho.shape != shape:
        rho = rho.expand(shape)
    if kappa.numel() == tau.numel() == 1:
        return rho, kappa, tau
    own = validation.broadcast(kappa.shape, tau.shape)
    classes = shape[len(shape) - len(own) :]
    kappa, tau = (
        a if a.numel() == 1 else (a if a.shape == classes else a.expand(classes)).reshape(-1)
        for a in (kappa, tau)
    )
    # Not -1: there may be no rows.
    number = classes.numel()
    return rho.reshape(shape.numel() // max(1, number), number), kappa, tau


class ExactScorer:
    """Exact score of fixed classes for any rho; terms of the classes are computed once."""

    def __init__(self, kappa: Tensor, tau: Tensor, p: int) -> None:
        self.tilt = Tilt(kappa, tau)
        self.lower = Lower(expansion(p / 2 - 1, kappa.dtype), self.tilt.y0)
        self.scale = kappa * self.tilt.t

    def __call__(self, rho: Tensor, slope: bool) -> tuple[Tensor, Tensor]:
        rho = rho.clamp(-1, 1)
        y1, h = self.tilt.y1(rho), self.tilt.h(rho)
        q, r1 = self.lower.phi_difference(y1, h, with_ratio=slope)
        return q, self.scale * r1 if slope else q.new_empty(0)


def _by_chunks(
    rho: Tensor, kappa: Tensor, tau: Tensor, p: int, slope: bool
) -> tuple[Tensor, Tensor]:
    """Score rho [rows, classes] on a CPU by the expression, in chunks of rows that fit a cache."""
    if kappa.numel() == tau.numel() == 1:
        rho = rho.reshape(-1, 1)
    score = ExactScorer(kappa, tau, p)
    row = rho.shape[1] * rho.element_size()
    height = chunks.rows_per_chunk(row, chunks.CACHE_BYTES * torch.get_num_threads())
    parts = [score(part, slope) for part in rho.split(height)]
    q, slopes = (torch.cat(part) for part in zip(*parts, strict=True))
    return q, slopes
