"""The softmax over a part of the classes, together with its gradient in the queries.

For queries z and classes with logits x_c and slopes s_c in the cosine, a part holds the largest
logit, the sum of exp(x_c - top) and the sum of exp(x_c - top) s_c mu_c. Parts add up to the
log-sum-exp of all classes and to its gradient, whatever the order: chunks of classes that fit
memory, and the classes of other processes. No matrix of all queries and classes exists.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core import distributed
from resultant.classes.realization import Terms

# (cosines, concentrations, terms) -> (scores, slopes)
Score = Callable[[Tensor, Tensor, Terms], tuple[Tensor, Tensor]]


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
        top: Largest logit [Q, V].
        total: Sum of exp(x - top) [Q, V].
        gradient: Sum of exp(x - top) times the gradient of x in the query [Q, V, p].
    """

    def __init__(self, z: Tensor, score: Score) -> None:
        self.z, self.score = z, score
        # Queries first: the classes of all views are the columns of one score.
        self.rows = z.movedim(1, 0).contiguous()
        self.top = z.new_full(self.rows.shape[:2], -math.inf)
        self.total = torch.zeros_like(self.top)
        self.gradient = torch.zeros_like(self.rows)

    def absorb(self, mu: Tensor, columns: Columns) -> None:
        """Add classes of directions ``mu`` [K, p], the same for all views."""
        weights = self._weights(self.rows @ mu.mT, columns)
        self.gradient += weights @ mu

    def absorb_views(self, mu: Tensor, columns: Columns, own: Tensor) -> None:
        """Add classes of directions ``mu`` [V, K, p]; the class ``own`` [Q] of a query has no part
        in its softmax."""
        rho = (self.z @ mu.mT).movedim(1, 0)
        weights = self._weights(rho, columns, own)
        self.gradient += (weights.movedim(1, 0) @ mu).movedim(0, 1)

    def _weights(self, rho: Tensor, columns: Columns, own: Tensor | None = None) -> Tensor:
        """Add the logits at cosines ``rho`` [Q, V, K] to the sums; return exp(x - top) times the
        slope."""
        scores, slope = self.score(rho, columns.kappa, columns.terms)
        x = scores + columns.offset
        if own is not None:
            x.scatter_(-1, own.view(-1, 1, 1).expand(*x.shape[:2], 1), -math.inf)
        top = torch.maximum(self.top, x.amax(-1))
        share = self._rescale(top)
        weights = x.sub_(_finite(top).unsqueeze(-1)).exp_()
        self.total = torch.addcmul(weights.sum(-1), self.total, share)
        self.gradient *= share.unsqueeze(-1)
        return weights * slope

    def _rescale(self, top: Tensor) -> Tensor:
        """Set the largest logit; return the factor of sums relative to the previous one."""
        before, self.top = self.top, top
        return (before - _finite(top)).exp()

    def over_processes(self) -> None:
        """Add the classes of all processes to those of this process."""
        share = self._rescale(distributed.largest(self.top.clone()))
        self.total = distributed.total(self.total * share)
        self.gradient = distributed.total(self.gradient * share.unsqueeze(-1))

    def log_sum(self) -> Tensor:
        """Return the log-sum-exp of the logits [Q, V]."""
        return self.top + self.total.log()

    def mean_gradient(self) -> Tensor:
        """Return the gradient of the log-sum-exp [Q, V, p]; zero without classes."""
        total = torch.where(self.total == 0, 1.0, self.total)
        return self.gradient / total.unsqueeze(-1)


def _finite(top: Tensor) -> Tensor:
    """Replace minus infinity, the largest logit without classes, by zero."""
    return torch.where(top == -math.inf, 0.0, top)
