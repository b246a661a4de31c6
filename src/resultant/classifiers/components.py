r"""Several von Mises-Fisher components per class.

A class that is a mixture :math:`\sum_k w_k\,\mathrm{vMF}(\mu_k,\kappa_k)` has the exact score
:math:`\log\mathbb E e^{z^\top X/\tau}=\log\sum_k w_k e^{q_k(z)}` with the scores :math:`q_k` of its
components: components are scored as classes are, under every realization, and summed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from resultant._core.validation import integer
from resultant.classes.gain import angular_gain
from resultant.classes.statistics import ClassState
from resultant.classifiers.em import EM, Fit, Mixture, WeightedRows, fit_mixture, seed_directions

AUTO = "auto"

# The most components that ``auto`` tries, and the least rows of a component on average.
MOST = 8
ROWS_PER_COMPONENT = 5


@dataclass(frozen=True)
class Components:
    """M components of C classes."""

    state: ClassState  # directions [M, p], concentrations [M] and numbers of rows [M]
    owner: Tensor  # classes [M] of the components, ascending
    log_weight: Tensor  # log shares [M] of the components in their classes
    number: Tensor  # number of components [C] per class

    def tensors(self) -> dict[str, Tensor]:
        """Return the components as tensors by name, for a file."""
        state = self.state
        named = {"mu": state.mu, "kappa": state.kappa, "size": state.count, "owner": self.owner}
        return named | {"log_weight": self.log_weight, "number": self.number}

    @staticmethod
    def of(tensors: Mapping[str, Tensor], device: torch.device) -> Components:
        """Return the components of `tensors`."""
        names = ("mu", "kappa", "size", "owner", "log_weight", "number")
        mu, kappa, size, *rest = (tensors[name].to(device) for name in names)
        return Components(ClassState(mu, kappa, size), *rest)

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
    if isinstance(components, str) and components == AUTO:
        return components
    return integer("components", components, 1, ' or "auto"')  # type: ignore[arg-type]


def fit_components(
    X: Tensor,
    y: Tensor,
    weight: Tensor,
    num_classes: int,
    components: int | str,
    estimator: str,
    seed: int = 0,
) -> Components:
    """Fit a mixture to the rows of each class.

    The components of a class have one concentration: a class has too few rows for more. With
    ``auto``, the number of components of a class has the lowest BIC, computed for 1, 2, ... until
    the BIC rises: one fit per number, deterministic, and one component for a class of few rows,
    where a likelihood cannot tell clusters from chance.
    """
    order = y.argsort(stable=True)
    order = order[weight[order] > 0]
    groups = order.split(torch.bincount(y[order], minlength=num_classes).tolist())
    em, parts = EM(tied=True, estimator=estimator), []
    for group in groups:
        rows = WeightedRows(X, weight, group, X.device)
        mixture = _fit_class(rows, components, em, seed)
        kept = mixture.weight > 0
        share = mixture.weight[kept]
        parts.append((mixture.mu[kept], mixture.kappa[kept], share, share * weight[group].sum()))
    owner = torch.tensor([c for c, part in enumerate(parts) for _ in part[1]], device=X.device)
    mu, kappa, share, count = (torch.cat(list(column)) for column in zip(*parts, strict=True))
    state = ClassState(mu, kappa, count.round().long(), validate_args=False)
    return Components(state, owner, share.log(), torch.bincount(owner, minlength=num_classes))


def _fit_class(rows: WeightedRows, components: int | str, em: EM, seed: int) -> Mixture:
    """Fit a class; one of fewer rows than components has one component per row."""

    def fit(K: int) -> Fit:
        seeds = seed_directions(rows, K, np.random.RandomState(seed))
        return fit_mixture(rows, em.start(rows, seeds), em)

    if components != AUTO:
        return fit(min(int(components), len(rows.index))).mixture
    best, lowest = fit(1), math.inf
    number = float(rows.weight[rows.index].sum())
    for K in range(1, MOST + 1):
        if K > 1 and len(rows.index) < ROWS_PER_COMPONENT * K:
            break
        found = best if K == 1 else fit(K)
        bic = K * rows.X.shape[1] * math.log(number) - 2 * number * found.value
        if bic >= lowest:
            break
        best, lowest = found, bic
    return best.mixture
