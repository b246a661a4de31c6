"""Expectation-maximization for mixtures of vMF distributions, and classes of several, in float64:
at p = 65,536 a density is the difference of numbers near 1e5."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from resultant._core import memory
from resultant._core.arrays import directions
from resultant._core.validation import integer
from resultant.classes.gain import angular_gain
from resultant.classes.scores import cosines
from resultant.classes.statistics import ClassState
from resultant.classifiers.inputs import AUTO, Rows, is_auto
from resultant.vmf.estimators import (
    OF_SAMPLE,
    concentration_at,
    corrected_length,
    fit_direction,
    log_normalizer,
)

# The most rows that seeds are chosen from, but some for each seed.
SEED_ROWS = 1 << 14
ROWS_PER_SEED = 4


@dataclass(frozen=True)
class WeightedRows:
    """Rows of any length, which are moved to a device chunk by chunk as unit vectors."""

    X: Rows  # rows [N, p]
    weight: Tensor  # weights [N] in float64
    index: Tensor  # indices [n] of the rows that count
    device: torch.device  # device of the chunks

    def chunks(self, num_components: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield unit vectors [m, p] and weights [m] in float64 on the device."""
        width = 8 * max(self.X.shape[1], num_components)
        for part in memory.row_slices(len(self.index), width, memory.MATRIX_BYTES, self.device):
            yield self.rows(self.index[part])

    def rows(self, at: Tensor) -> tuple[Tensor, Tensor]:
        """Return unit vectors and weights of some rows, in float64 on the device."""
        return directions(self.X[at].to(self.device))[0], self.weight[at].to(self.device)


@dataclass(frozen=True)
class Mixture:
    """A mixture of K components."""

    mu: Tensor  # directions [K, p]
    kappa: Tensor  # concentrations [K]
    weight: Tensor  # weights [K], which sum to one

    @cached_property
    def floor(self) -> Tensor:
        """Log weights less log normalisers [K]; minus infinity for a component of weight 0."""
        # On the CPU: Bessel functions of a few numbers would be many small kernels on a GPU.
        log_z = log_normalizer(self.mu.shape[-1], self.kappa.cpu()).to(self.kappa.device)
        return self.weight.log() - log_z

    def log_joint(self, x: Tensor) -> Tensor:
        """Compute the log of weight times density [n, K] at unit vectors x [n, p]."""
        return torch.addcmul(self.floor, self.kappa, cosines(x, self.mu))


class Sums(NamedTuple):
    """Sums over rows."""

    weight: Tensor  # weights of the components [K]
    total: Tensor  # sums of unit vectors [K, p]
    value: Tensor  # objective: the log-likelihood, or with hard assignment that of the assignment
    number: Tensor  # number of rows, by weight


class Fit(NamedTuple):
    """A fitted mixture, its objective per row, and the sums of the last of its passes."""

    mixture: Mixture
    value: float
    converged: bool
    passes: int
    sums: Sums


@dataclass(frozen=True)
class EM:
    """Steps of expectation-maximization."""

    hard: bool = False  # assign each row to its most likely component
    tied: bool = False  # give the components one concentration
    estimator: str = "mle"
    max_iter: int = 200  # the most passes over the rows
    tol: float = 1e-4  # change of the objective per row at which a mixture has converged
    max_kappa: float = 1e5  # in place of the infinite concentration of equal rows

    def expect(self, rows: WeightedRows, mixture: Mixture) -> Sums:
        """Sum the rows over the components."""
        parts = []
        for x, w in rows.chunks(len(mixture.kappa)):
            joint = mixture.log_joint(x)
            if self.hard:
                value, best = joint.max(-1)
                share = torch.zeros_like(joint).scatter_(1, best.unsqueeze(1), w.unsqueeze(1))
            else:
                value = joint.logsumexp(-1)
                share = (joint - value.unsqueeze(1)).exp() * w.unsqueeze(1)
            parts.append((share.sum(0), share.T @ x, w @ value, w.sum()))
        return Sums(*(torch.stack(column).sum(0) for column in zip(*parts, strict=True)))

    def maximize(self, sums: Sums) -> Mixture:
        """Fit the mixture to sums; a component without weight has e_1 and kappa 0."""
        weight, estimator = sums.weight, self.estimator
        mu, R = fit_direction(sums.total, weight)
        share = weight / weight.sum()
        if estimator in OF_SAMPLE:
            R, estimator = corrected_length(R, weight, estimator), "mle"
        if self.tied:
            R = (R * share).sum().clamp_max(1).expand_as(share)
        kappa = concentration_at(mu.shape[-1], R.cpu(), estimator).clamp_max(self.max_kappa)
        return Mixture(mu, kappa.to(mu.device), share)

    def start(self, rows: WeightedRows, seeds: Tensor) -> Mixture:
        """Fit a mixture of one concentration to the rows nearest to each seed [K, p]."""
        ones = seeds.new_ones(len(seeds))
        by_cosine = EM(True, True, self.estimator, max_kappa=self.max_kappa)
        return by_cosine.maximize(by_cosine.expect(rows, Mixture(seeds, ones, ones / len(seeds))))

    @torch.no_grad()
    def fit(self, rows: WeightedRows, seeds: Tensor) -> Fit:
        """Improve the mixture of seeds [K, p] until the objective changes by less than the
        tolerance; the result has the parameters at which its objective was computed."""
        mixture, value = self.start(rows, seeds), -math.inf
        for passes in count():
            sums = self.expect(rows, mixture)
            before, value = value, float(sums.value / sums.number)
            converged = passes > 0 and not abs(value - before) >= self.tol
            if converged or passes == self.max_iter:
                return Fit(mixture, value, converged, passes, sums)
            mixture = self.maximize(sums)
        raise AssertionError


def seed_directions(rows: WeightedRows, num: int, generator: np.random.RandomState) -> Tensor:
    """Choose ``num`` rows, of a random part of many, as seeds [num, p] by k-means++."""
    # Takes longer to import than the classifiers.
    from sklearn.cluster import kmeans_plusplus

    fit = memory.rows_per_chunk(8 * rows.X.shape[1], memory.DEVICE_BYTES)
    most, index = max(min(SEED_ROWS, fit), ROWS_PER_SEED * num), rows.index
    if len(index) > most:
        drawn = np.unique(generator.randint(0, len(index), size=most))
        index = index[torch.from_numpy(drawn).to(index.device)]
    x, w = rows.rows(index)
    chosen = kmeans_plusplus(
        x.cpu().numpy(), num, sample_weight=w.cpu().numpy(), random_state=generator
    )[1]
    return x[torch.from_numpy(chosen).to(x.device)]


# The most components that ``auto`` tries, and the least rows of a component on average.
MOST = 8
ROWS_PER_COMPONENT = 5

PARTS = ("mu", "kappa", "size", "owner", "log_weight", "number")


@dataclass(frozen=True)
class Components:
    """M components of C classes."""

    state: ClassState  # directions [M, p], concentrations [M] and numbers of rows [M]
    owner: Tensor  # classes [M] of the components, ascending
    log_weight: Tensor  # log shares [M] of the components in their classes
    number: Tensor  # number of components [C] per class

    def tensors(self) -> dict[str, Tensor]:
        """Return the components as tensors by name, for a file."""
        s = self.state
        parts = (s.mu, s.kappa, s.count, self.owner, self.log_weight, self.number)
        return dict(zip(PARTS, parts, strict=True))

    @staticmethod
    def of(tensors: Mapping[str, Tensor], device: torch.device) -> Components:
        """Return the components of `tensors`."""
        mu, kappa, size, *rest = (tensors[name].to(device) for name in PARTS)
        return Components(ClassState(mu, kappa, size), *rest)

    @staticmethod
    def single(state: ClassState) -> Components:
        """Return one component per class."""
        ones = torch.ones_like(state.kappa, dtype=torch.int64)
        return Components(state, ones.cumsum(0) - 1, torch.zeros_like(ones).double(), ones)

    def gain(self, tau: float) -> Tensor:
        """Compute the gains [C]: the means of the gains of the components of each class."""
        share = self.log_weight.exp() * angular_gain(self.state, tau, validate_args=False)
        return share.new_zeros(len(self.number)).index_add(0, self.owner, share)

    def of_classes(self, scores: Tensor) -> Tensor:
        """Sum the components: log-sum-exp of scores [N, M] over each class, [N, C]."""
        if len(self.owner) == len(self.number):
            return scores
        index = self.owner.expand_as(scores)
        top = scores.new_full((len(scores), len(self.number)), -torch.inf)
        top = top.scatter_reduce(1, index, scores, "amax")
        terms = (scores - top.gather(1, index)).exp()
        return top + torch.zeros_like(top).scatter_add(1, index, terms).log()


def require_components(components: object) -> int | str:
    """Return the number of components per class, or ``auto``."""
    if is_auto(components):
        return AUTO
    return integer("components", components, 1, ' or "auto"')  # type: ignore[arg-type]


def fit_components(
    X: Tensor, y: Tensor, weight: Tensor, components: int | str, estimator: str
) -> Components:
    """Fit a mixture of one concentration to the rows of each class that has weight; ``auto`` is
    the number of components with the lowest BIC. A class of fewer rows has one for each row."""
    order = y.argsort(stable=True)
    order = order[weight[order] > 0]
    groups = order.split(y[order].unique_consecutive(return_counts=True)[1].tolist())
    em, parts = EM(tied=True, estimator=estimator), []
    for group in groups:
        rows, size = WeightedRows(X, weight, group, X.device), weight[group].sum()
        tried = [min(int(components), len(group))] if components != AUTO else None
        best = lowest = None
        for K in tried or range(1, max(1, min(MOST, len(group) // ROWS_PER_COMPONENT)) + 1):
            found = em.fit(rows, seed_directions(rows, K, np.random.RandomState(0)))
            bic = K * X.shape[1] * math.log(size) - 2 * float(size) * found.value
            if lowest is not None and bic >= lowest:
                break
            best, lowest = found.mixture, bic
        assert best is not None
        kept = best.weight > 0
        share = best.weight[kept]
        parts.append((best.mu[kept], best.kappa[kept], share, share * size))
    number = torch.tensor([len(kappa) for _, kappa, *_ in parts], device=X.device)
    owner = torch.arange(len(parts), device=X.device).repeat_interleave(number)
    mu, kappa, share, count = map(torch.cat, zip(*parts, strict=True))
    state = ClassState(mu, kappa, count.round().long(), validate_args=False)
    return Components(state, owner, share.log(), number)
