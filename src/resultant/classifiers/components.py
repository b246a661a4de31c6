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

from resultant._core import chunks
from resultant._core.validation import integer
from resultant.classes.gain import angular_gain
from resultant.classes.statistics import ClassState
from resultant.classifiers.em import EM, Fit, GroupedRows, fit_mixtures, seed_directions

AUTO = "auto"

# The most components that ``auto`` tries, and the least rows of a component on average.
MOST = 8
ROWS_PER_COMPONENT = 5


@dataclass(frozen=True)
class Components:
    """M components of C classes.

    Attributes:
        state: Directions [M, p], concentrations [M] and numbers of rows [M].
        owner: Classes [M] of the components, ascending.
        log_weight: Log shares [M] of the components in their classes.
        number: Number of components [C] per class.
    """

    state: ClassState
    owner: Tensor
    log_weight: Tensor
    number: Tensor

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

    Args:
        X: Rows [N, p] of any length but zero.
        y: Classes [N] in [0, num_classes), each with a row of positive weight.
        weight: Weights [N] in float64.
        num_classes: Number of classes C.
        components: Number of components per class, at most its number of rows; or ``auto``.
        estimator: Estimator of kappa.
        seed: Seed of the starts.

    Returns:
        The components on the device of X.
    """
    order = y.argsort(stable=True)
    order = order[weight[order] > 0]
    groups = order.split(torch.bincount(y[order], minlength=num_classes).tolist())
    most = MOST if components == AUTO else int(components)
    # A block of classes holds its sums for all components at once.
    height = chunks.rows_per_chunk(8 * most * X.shape[1], chunks.SCORE_BYTES)
    parts = []
    for top in range(0, num_classes, height):
        block = GroupedRows(X, weight, groups[top : top + height], X.device)
        parts += _fit_block(block, components, EM(tied=True, estimator=estimator), seed)
    owner = torch.tensor([c for c, part in enumerate(parts) for _ in part[1]], device=X.device)
    mu, kappa, share, count = (torch.cat(list(column)) for column in zip(*parts, strict=True))
    state = ClassState(mu, kappa, count.round().long(), validate_args=False)
    return Components(state, owner, share.log(), torch.bincount(owner, minlength=num_classes))


def _fit_block(
    rows: GroupedRows, components: int | str, em: EM, seed: int
) -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Return directions, concentrations, shares and numbers of rows of the classes of a block."""
    p = rows.X.shape[1]
    size = [rows.size(g) for g in range(len(rows))]
    best: list[tuple[float, tuple[Tensor, Tensor, Tensor, Tensor]] | None] = [None] * len(rows)
    trying = range(1, MOST + 1) if components == AUTO else (int(components),)
    going = list(range(len(rows)))
    for K in trying:
        if components == AUTO:
            going = [g for g in going if K == 1 or size[g] >= ROWS_PER_COMPONENT * K]
        rising = []
        # Classes of fewer rows than components have one component per row.
        for k in sorted({min(K, size[g]) for g in going}):
            at = [g for g in going if min(K, size[g]) == k]
            part = GroupedRows(rows.X, rows.weight, [_group(rows, g) for g in at], rows.device)
            fit = _fit(part, k, em, seed)
            number = [float(rows.weight[_group(rows, g)].sum()) for g in at]
            for i, g in enumerate(at):
                parameters = k * (p - 1) + 1 + k - 1
                bic = parameters * math.log(number[i]) - 2 * number[i] * float(fit.value[i])
                before = best[g]
                if before is not None and bic >= before[0]:
                    rising.append(g)
                    continue
                kept = fit.mixtures.weight[i] > 0
                share = fit.mixtures.weight[i, kept]
                values = (fit.mixtures.mu[i, kept], fit.mixtures.kappa[i, kept], share)
                best[g] = bic, (*values, share * number[i])
        going = [g for g in going if g not in rising]
    return [found[1] for found in best if found is not None]


def _group(rows: GroupedRows, g: int) -> Tensor:
    assert rows.groups is not None
    return rows.groups[g]


def _fit(rows: GroupedRows, K: int, em: EM, seed: int) -> Fit:
    """Fit K components to each group, from seeds that do not depend on the other groups."""
    singles = (
        GroupedRows(rows.X, rows.weight, [_group(rows, g)], rows.device) for g in range(len(rows))
    )
    seeds = [seed_directions(single, K, np.random.RandomState(seed)) for single in singles]
    return fit_mixtures(rows, em.start(rows, torch.cat(seeds)), em)
