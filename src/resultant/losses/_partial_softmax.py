"""The softmax over a part of the classes, together with its gradient in the queries.

For queries z and classes with logits x_c and slopes s_c in the cosine, a part holds the largest
logit, the sum of exp(x_c - top) and the sum of exp(x_c - top) s_c mu_c. Parts add up to the
log-sum-exp of all classes and to its gradient, in any order: chunks of classes that fit memory, and
the classes of other processes. No matrix of all queries and classes exists.

On a GPU the float32 products are computed from halves: x = h + l with h and l in float16 has 22
bits, and h h' + h l' + l h' is summed in float32 by the tensor cores, several times faster than a
product in float32 and as exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core import distributed
from resultant._core.device import kernel_module
from resultant.classes.realization import Terms
from resultant.losses._means import mean

KERNELS = "resultant.losses._softmax_kernel"

# (cosines, concentrations, terms) -> (scores, slopes)
Score = Callable[[Tensor, Tensor, Terms], tuple[Tensor, Tensor]]

# Weights of a gradient are split into halves of float16 below this bound.
WEIGHT_BOUND = 2.0**14


class Columns(NamedTuple):
    """K classes as V views see them: concentrations [V, K], terms, and offsets [K] of the logits.

    A class whose offset is minus infinity has no part in the softmax.
    """

    kappa: Tensor
    terms: Terms
    offset: Tensor

    def at(self, classes: slice | Tensor) -> Columns:
        """Return some of the classes."""

        def chosen(a: Tensor | None) -> Tensor | None:
            return a if a is None or a.dim() == 0 or a.shape[-1] == 1 else a[..., classes]

        terms = Terms(*map(chosen, self.terms))
        return Columns(self.kappa[..., classes], terms, self.offset[..., classes])


class PartialSoftmax:
    """Sums over the classes absorbed so far, for queries [V, Q, p].

    Attributes:
        top: Largest logit [V, Q].
        total: Sum of exp(x - top) [V, Q].
        gradient: Sum of exp(x - top) times the gradient of x in the query [V, Q, p].
    """

    def __init__(self, z: Tensor, score: Score) -> None:
        self.z, self.score, self.p = z, score, z.shape[-1]
        self.top = z.new_full(z.shape[:2], -math.inf)
        self.total = torch.zeros_like(self.top)
        self.gradient = torch.zeros_like(z)

    def absorb(self, sums: Tensor, columns: Columns) -> None:
        """Add classes of sums and counts [K, p + 1], the same for all views."""
        mu, _ = mean(sums, self.z.dtype)
        weights = self._weights(self.z @ mu.mT, columns)
        self.gradient += weights @ mu

    def absorb_views(self, mu: Tensor, columns: Columns, own: Tensor) -> None:
        """Add classes of directions ``mu`` [V, K, p]; the class ``own`` [Q] of a query has no part
        in its softmax."""
        weights = self._weights(self.z @ mu.mT, columns, own)
        self.gradient += weights @ mu

    def _weights(self, rho: Tensor, columns: Columns, own: Tensor | None = None) -> Tensor:
        """Add the logits at cosines ``rho`` [V, Q, K] to the sums; return exp(x - top) times the
        slope."""
        # Queries first, so that the classes of all views are the columns of one score.
        first = rho.transpose(0, 1)
        x, slope = self.score(first, columns.kappa, columns.terms)
        x, slope = x.transpose(0, 1) + columns.offset, slope.expand_as(first).transpose(0, 1)
        if own is not None:
            x.scatter_(-1, own.view(1, -1, 1).expand(*x.shape[:2], 1), -math.inf)
        top = torch.maximum(self.top, x.amax(-1))
        share = self._rescale(top)
        weights = x.sub_(_finite(top).unsqueeze(-1)).exp_()
        self.total = torch.addcmul(weights.sum(-1), self.total, share)
        self.gradient *= share.unsqueeze(-1)
        return weights.mul_(slope)

    def _rescale(self, top: Tensor) -> Tensor:
        """Set the largest logit; return the factor of sums relative to the previous one."""
        before, self.top = self.top, top
        return (before - _finite(top)).exp()

    def over_processes(self) -> None:
        """Add the classes of all processes to those of this process."""
        share = self._rescale(distributed.all_reduce_max(self.top.clone()))
        self.total = distributed.all_reduce_sum(self.total * share)
        self.gradient = distributed.all_reduce_sum(self.gradient * share.unsqueeze(-1))

    def log_sum(self) -> Tensor:
        """Return the log-sum-exp of the logits [V, Q]."""
        return self.top + self.total.log()

    def mean_gradient(self) -> Tensor:
        """Return the gradient of the log-sum-exp [V, Q, p]; zero without classes."""
        total = torch.where(self.total == 0, 1.0, self.total)
        return self.gradient / total.unsqueeze(-1)


class FusedSoftmax(PartialSoftmax):
    """`PartialSoftmax` in float32 on a GPU: fused kernels, and products of halves."""

    def __init__(self, z: Tensor, score: Score, terms: Terms) -> None:
        super().__init__(z, score)
        kernels = kernel_module(KERNELS)
        assert kernels is not None
        self.kernels = kernels
        unit = self.kernels.UNIT_SCALE
        scaled = z.flatten(0, 1) * unit
        high = scaled.half()
        self.queries = torch.cat([high, high, (scaled - high).half()], -1)
        # The slope of the exact score is at most 1/tau.
        bound = z.new_zeros(()) if terms.tau is None else 1 / terms.tau.amin()
        if terms.slope is not None:
            bound = bound + terms.slope.abs().amax()
        self.weight_scale = WEIGHT_BOUND / bound
        # Products with the high and the low half of the directions, added at the end.
        self.halves = z.new_zeros(*z.shape[:2], 2 * self.p)

    def absorb(self, sums: Tensor, columns: Columns) -> None:
        p, unit = self.p, self.kernels.UNIT_SCALE
        mu = self.kernels.half_directions(sums)
        rho = _product(self.queries, mu.T).view(*self.top.shape, len(mu))
        high, low = self.kernels.absorb(
            *(rho, *columns, p),
            (self.top, self.total, self.halves),
            rho_scale=unit**-2,
            weight_scale=self.weight_scale,
        )
        self.halves += _product(high.flatten(0, 1), mu[:, : 2 * p]).view_as(self.halves)
        self.halves[..., :p] += _product(low.flatten(0, 1), mu[:, :p]).view_as(self.gradient)

    def absorb_views(self, mu: Tensor, columns: Columns, own: Tensor) -> None:
        # The last classes: from here on the halves are one gradient.
        whole = self.halves[..., : self.p] + self.halves[..., self.p :]
        self.gradient = whole.div_(self.weight_scale * self.kernels.UNIT_SCALE)
        sums = self.top, self.total, self.gradient
        weights, _ = self.kernels.absorb(self.z @ mu.mT, *columns, self.p, sums, own)
        self.gradient += weights @ mu


def partial_softmax(z: Tensor, score: Score, terms: Terms) -> PartialSoftmax:
    """Return an empty softmax for queries z [V, Q, p], by the fastest way of the device."""
    if z.is_cuda and z.dtype == torch.float32 and kernel_module(KERNELS):
        return FusedSoftmax(z, score, terms)
    return PartialSoftmax(z, score)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Multiply matrices of float16 and sum in float32."""
    return torch.mm(a, b, out_dtype=torch.float32) if a.is_cuda else a.float() @ b.float()


def _finite(top: Tensor) -> Tensor:
    """Replace minus infinity, the largest logit without classes, by zero."""
    return torch.where(top == -math.inf, 0.0, top)
