"""The softmax over a part of the classes, together with its gradient in the queries.

Parts add up to the log-sum-exp of all classes and to its gradient, in any order: chunks of classes
that fit memory, and the classes of other processes. No matrix of all queries and classes exists.
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
from resultant.losses.sums import mean

# (cosines, concentrations, terms) -> (scores, slopes)
Score = Callable[[Tensor, Tensor, Terms], tuple[Tensor, Tensor]]


class Columns(NamedTuple):
    """K classes as V views see them."""

    kappa: Tensor  # [V, K]
    terms: Terms
    offset: Tensor  # [K]; a class of offset minus infinity has no part in the softmax

    def at(self, classes: slice | Tensor) -> Columns:
        """Return some of the classes."""

        def chosen(a: Tensor | None) -> Tensor | None:
            return a if a is None or a.dim() == 0 or a.shape[-1] == 1 else a[..., classes]

        terms = Terms(*map(chosen, self.terms))
        return Columns(self.kappa[..., classes], terms, self.offset[..., classes])


class PartialSoftmax:
    """Sums over the classes absorbed so far, for queries [V, Q, p]: the largest logit ``top``, the
    sum of exp(x - top), and that of exp(x - top) times the gradient of x in the query."""

    def __init__(self, z: Tensor, score: Score) -> None:
        self.z, self.score = z, score
        self.top = z.new_full(z.shape[:2], torch.finfo(z.dtype).min)
        self.total = torch.zeros_like(self.top)
        self.gradient = torch.zeros_like(z)

    def absorb(self, sums: Tensor, columns: Columns) -> None:
        """Add classes of sums and counts [K, p + 1], the same for all views."""
        self.absorb_views(mean(sums, self.z.dtype)[0], columns)

    def absorb_views(self, mu: Tensor, columns: Columns, own: Tensor | None = None) -> None:
        """Add classes of directions ``mu`` [V, K, p] or [K, p]; the class ``own`` [Q] of a query
        has no part in its softmax."""
        # Queries first, so that the classes of all views are the columns of one score.
        rho = (self.z @ mu.mT).transpose(0, 1)
        x, slope = self.score(rho, columns.kappa, columns.terms)
        x, slope = x.transpose(0, 1) + columns.offset, slope.expand_as(rho).transpose(0, 1)
        if own is not None:
            x.scatter_(-1, own.view(1, -1, 1).expand(*x.shape[:2], 1), -math.inf)
        self.rescale(torch.maximum(self.top, x.amax(-1)))
        weights = x.sub_(self.top.unsqueeze(-1)).exp_()
        self.total += weights.sum(-1)
        self.gradient += weights.mul_(slope) @ mu

    def rescale(self, top: Tensor) -> None:
        """Set the largest logit, to which all sums are relative."""
        share = (self.top - top).exp()
        self.top = top
        self.total = self.total * share
        self.gradient *= share.unsqueeze(-1)

    def over_processes(self) -> None:
        """Add the classes of all processes to those of this process."""
        self.rescale(distributed.all_reduce_max(self.top.clone()))
        distributed.all_reduce_sum(self.total)
        distributed.all_reduce_sum(self.gradient)

    def log_sum(self) -> Tensor:
        """Return the log-sum-exp of the logits [V, Q]."""
        return self.top + self.total.log()

    def mean_gradient(self) -> Tensor:
        """Return the gradient of the log-sum-exp [V, Q, p]; zero without classes."""
        tiny = torch.finfo(self.total.dtype).tiny
        return self.gradient / self.total.clamp_min(tiny).unsqueeze(-1)


def partial_softmax(z: Tensor, score: Score, terms: Terms) -> PartialSoftmax:
    """Return an empty softmax for queries z [V, Q, p], by the fastest way of the device."""
    # Products of halves that are summed in float32 exist from torch 2.8 on.
    if z.is_cuda and z.dtype == torch.float32 and hasattr(torch.ops.aten.mm, "dtype"):
        kernels = kernel_module("resultant.losses._softmax_kernel")
        if kernels is not None:
            return kernels.FusedSoftmax(z, score, terms)
    return PartialSoftmax(z, score)
