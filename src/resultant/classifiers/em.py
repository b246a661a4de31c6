r"""Expectation-maximization for mixtures of von Mises-Fisher distributions.

Several mixtures are fitted side by side, one per group of rows: the mixture of a sample is one
group, and the components of a classifier are one group per class. The rows are read in chunks and
moved to the device chunk by chunk, so that memory does not grow with their number. Sums and
densities are in float64: at p = 65,536 a density is the difference of numbers around 1e5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from resultant._core import chunks
from resultant._core.arrays import directions
from resultant.classes.cosines import cosines
from resultant.classes.statistics import MAX_KAPPA, fit_direction
from resultant.classifiers.rows import Rows
from resultant.vmf.estimators import (
    OF_SAMPLE,
    concentration_at,
    corrected_length,
    log_normalizer_at,
)

# The most rows of a group that seeds are chosen from, but some for each seed.
SEED_ROWS = 1 << 14
ROWS_PER_SEED = 4


@dataclass(frozen=True)
class GroupedRows:
    """Rows of any length in groups, read as unit vectors in chunks.

    Attributes:
        X: Rows [N, p].
        weight: Weights [N] in float64.
        groups: Indices of the rows of each group, or None for all rows as one group.
        device: Device of the chunks.
    """

    X: Rows
    weight: Tensor
    groups: Sequence[Tensor] | None
    device: torch.device

    def __len__(self) -> int:
        return 1 if self.groups is None else len(self.groups)

    def size(self, group: int) -> int:
        """Number of rows of a group."""
        return len(self.X) if self.groups is None else len(self.groups[group])

    def chunks(self, group: int, num_components: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield unit vectors [n, p] and weights [n] of a group, in float64 on the device."""
        width = 8 * max(self.X.shape[1], num_components)
        for part in chunks.row_slices(self.size(group), width, chunks.MATRIX_BYTES, self.device):
            yield self.rows(part if self.groups is None else self.groups[group][part])

    def rows(self, at: slice | Tensor) -> tuple[Tensor, Tensor]:
        """Return unit vectors and weights of some rows, in float64 on the device."""
        return directions(self.X[at].to(self.device))[0], self.weight[at].to(self.device)


@dataclass(frozen=True)
class Mixtures:
    """G mixtures of K components.

    Attributes:
        mu: Directions [G, K, p].
        kappa: Concentrations [G, K].
        weight: Weights [G, K], which sum to one in each mixture.
    """

    mu: Tensor
    kappa: Tensor
    weight: Tensor

    @cached_property
    def floor(self) -> Tensor:
        """Log weights less log normalisers [G, K]; minus infinity for a component of weight 0."""
        # On the CPU: Bessel functions of a few numbers would be many small kernels on a GPU.
        log_z = log_normalizer_at(self.mu.shape[-1], self.kappa.cpu()).to(self.kappa.device)
        return self.weight.log() - log_z

    def log_joint(self, group: int, x: Tensor) -> Tensor:
        """Log of weight times density [n, K] at unit vectors x [n, p]."""
        return torch.addcmul(self.floor[group], self.kappa[group], cosines(x, self.mu[group]))

    def replaced(self, at: list[int], other: Mixtures) -> Mixtures:
        """Return these mixtures with those at ``at`` taken from ``other``."""
        fields = ((self.mu, other.mu), (self.kappa, other.kappa), (self.weight, other.weight))
        index = torch.tensor(at, device=self.mu.device)
        return Mixtures(*(mine.index_copy(0, index, new[index]) for mine, new in fields))


class Sums(NamedTuple):
    """Sums over the rows of G groups.

    Attributes:
        weight: Weights of the components [G, K].
        total: Sums of unit vectors [G, K, p].
        value: Objective [G]: the log-likelihood, or with hard assignment that of the assignment.
        number: Number of rows [G], by weight.
    """

    weight: Tensor
    total: Tensor
    value: Tensor
    number: Tensor

    def to(self, device: torch.device) -> Sums:
        """Copy the sums to a device."""
        return Sums(*(a.to(device) for a in self))

    def plus(self, other: Sums) -> Sums:
        """Return the sums of these rows and of others."""
        return Sums(*(a + b for a, b in zip(self, other, strict=True)))


@dataclass(frozen=True)
class EM:
    """Steps of expectation-maximization.

    Attributes:
        hard: Assign each row to its most likely component.
        tied: Give the components of a mixture one concentration.
        estimator: Estimator of kappa.
        max_iter: The most passes over the rows.
        tol: Change of the objective per row at which a mixture has converged.
        max_kappa: Largest concentration, in place of the infinite one of equal rows.
    """

    hard: bool = False
    tied: bool = False
    estimator: str = "mle"
    max_iter: int = 200
    tol: float = 1e-4
    max_kappa: float = MAX_KAPPA

    def expect(self, rows: GroupedRows, mixtures: Mixtures, active: Sequence[int]) -> Sums:
        """Sum the rows of the ``active`` groups over their components."""
        zeros = torch.zeros_like(mixtures.kappa)
        sums = Sums(zeros, torch.zeros_like(mixtures.mu), zeros[:, 0].clone(), zeros[:, 0].clone())
        for g in active:
            for x, w in rows.chunks(g, mixtures.mu.shape[1]):
                self.add(sums, mixtures, g, x, w)
        return sums

    def add(self, sums: Sums, mixtures: Mixtures, group: int, x: Tensor, w: Tensor) -> None:
        """Add unit vectors x [n, p] with weights [n] to the sums of a group."""
        joint = mixtures.log_joint(group, x)
        if self.hard:
            value, best = joint.max(-1)
            share = torch.zeros_like(joint).scatter_(1, best.unsqueeze(1), w.unsqueeze(1))
        else:
            value = joint.logsumexp(-1)
            share = (joint - value.unsqueeze(1)).exp() * w.unsqueeze(1)
        sums.weight[group] += share.sum(0)
        sums.total[group] += share.T @ x
        sums.value[group] += w @ value
        sums.number[group] += w.sum()

    def maximize(self, sums: Sums) -> Mixtures:
        """Fit the mixtures to sums; a component without weight has e_1 and kappa 0."""
        weight, estimator = sums.weight, self.estimator
        mu, R = fit_direction(sums.total, weight)
        number = weight.sum(-1, keepdim=True)
        share = weight / torch.where(number > 0, number, 1.0)
        if estimator in OF_SAMPLE:
            R, estimator = corrected_length(R, weight, estimator), "mle"
        if self.tied:
            R = (R * share).sum(-1, keepdim=True).clamp_max(1).expand_as(share)
        kappa = concentration_at(mu.shape[-1], R.cpu(), estimator).clamp_max(self.max_kappa)
        return Mixtures(mu, kappa.to(mu.device), share)

    def start(self, rows: GroupedRows, seeds: Tensor) -> Mixtures:
        """Fit mixtures to the rows nearest to each seed [G, K, p], with one concentration.

        One concentration, because the few rows of an unlucky seed would have a far too large one.
        """
        ones = seeds.new_ones(seeds.shape[:2])
        nearest = Mixtures(seeds, ones, ones / seeds.shape[1])
        by_cosine = EM(True, True, self.estimator, max_kappa=self.max_kappa)
        return by_cosine.maximize(by_cosine.expect(rows, nearest, range(len(rows))))


class Fit(NamedTuple):
    """Fitted mixtures, with objective per row [G], convergence [G], number of passes [G], and the
    sums of the groups that were in the last pass."""

    mixtures: Mixtures
    value: Tensor
    converged: Tensor
    passes: Tensor
    sums: Sums


@torch.no_grad()
def fit_mixtures(rows: GroupedRows, mixtures: Mixtures, em: EM) -> Fit:
    """Improve mixtures until the objective changes by less than the tolerance.

    The result has the parameters at which its objective was computed.
    """
    groups = len(rows)
    value = mixtures.kappa.new_full((groups,), -torch.inf)
    passes = torch.zeros(groups, dtype=torch.int64)
    active = list(range(groups))
    sums = em.expect(rows, mixtures, active)
    for step in count():
        if step:
            sums = em.expect(rows, mixtures, active)
        now = sums.value / sums.number
        still = ((now - value).abs() >= em.tol).tolist() if step else [True] * groups
        value[active] = now[active]
        active = [g for g in active if still[g]]
        if not active or step == em.max_iter:
            break
        passes[active] += 1
        mixtures = mixtures.replaced(active, em.maximize(sums))
    converged = torch.ones(groups, dtype=torch.bool)
    converged[active] = False
    return Fit(mixtures, value, converged, passes, sums)


def seed_directions(rows: GroupedRows, num: int, generator: np.random.RandomState) -> Tensor:
    """Choose ``num`` rows of each group as seeds by k-means++, as unit vectors [G, num, p].

    On the sphere the squared distance of k-means++ is 2(1 - cosine). A random part of a large
    group is drawn first.
    """
    from sklearn.cluster import kmeans_plusplus

    fit = chunks.rows_per_chunk(8 * rows.X.shape[1], chunks.DEVICE_BYTES)
    most = max(min(SEED_ROWS, fit), ROWS_PER_SEED * num)
    seeds = []
    for g in range(len(rows)):
        at = torch.arange(len(rows.X)) if rows.groups is None else rows.groups[g].cpu()
        if len(at) > most:
            drawn = generator.randint(0, len(at), size=most)
            at = at[torch.from_numpy(np.unique(drawn))]
        x, w = rows.rows(at.to(rows.X.device))
        chosen = kmeans_plusplus(
            x.cpu().numpy(), num, sample_weight=w.cpu().numpy(), random_state=generator
        )[1]
        seeds.append(x[torch.from_numpy(chosen).to(x.device)])
    return torch.stack(seeds)
