r"""Whether held-out features look like one vMF a class (sec:support-fit-protocol)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from resultant.frozen.result import Result
from resultant.frozen.space import FrozenSpace, Progress, class_rows, unit

# Bins of the values of the law.
BINS = 20
SIGNIFICANCE = 0.05

# The grid of angles on which a law is summed.
NODES = 2049
REACH = 12.0
TINY = 1e-300

# Held-out queries of a class that are looked at.
MOST_QUERIES = 500


@dataclass(frozen=True, eq=False)
class GoodnessOfFit(Result):
    r"""Held-out queries under the fitted vMF of their own class; the fit of the score's geometry is
    another matter.

    By class with queries, all [M]: ``classes``, ``queries``, ``kolmogorov`` the distance of
    Kolmogorov and Smirnov between the law of :math:`\mu_c^\top Z` and the queries, its exact
    ``p_value``, ``fitted`` :math:`A_c` and ``mean_cosine`` on the queries, and ``anisotropy``,
    :math:`(p-1)` times the mean squared cosine between directions across :math:`\mu_c` of two
    queries: one for a vMF, NaN for one query. ``histogram`` [20] counts the values of the law at
    all queries in equal bins of [0, 1], flat for a vMF; ``rejected`` is the share of classes with
    p < 0.05.
    """

    classes: Tensor
    queries: Tensor
    kolmogorov: Tensor
    p_value: Tensor
    fitted: Tensor
    mean_cosine: Tensor
    anisotropy: Tensor
    histogram: Tensor
    rejected: float


@torch.no_grad()
def goodness_of_fit(space: FrozenSpace, *, progress: Progress | None = None) -> GoodnessOfFit:
    """Compare up to 500 held-out queries of each class, the first ones, with its fitted vMF."""
    from scipy.stats import kstwo

    if space.dim < 3:
        raise ValueError(f"expected p >= 3 for the law of a projection, got {space.dim}")
    state, rows_of = space.state, class_rows(space.test_labels, space.num_classes)
    classes = torch.tensor([c for c, rows in enumerate(rows_of) if len(rows)])
    cosines, anisotropy = [], []
    for i, c in enumerate(classes.tolist()):
        rows = rows_of[c][:MOST_QUERIES]
        x = unit(space.test[rows], "test", rows)
        rho = x @ state.mu[c]
        cosines.append(rho)
        anisotropy.append(_anisotropy(x - rho.unsqueeze(1) * state.mu[c]))
        if progress is not None and i % 64 == 0:
            progress("fit", i / len(classes))
    number = torch.tensor([len(rho) for rho in cosines])
    law = [
        _law(rho.clamp(-1, 1), kappa, space.dim)
        for rho, kappa in zip(cosines, state.kappa[classes].tolist(), strict=True)
    ]
    distance = torch.stack([_kolmogorov(u) for u in law])
    p_value = torch.as_tensor(kstwo.sf(distance.numpy(), number.numpy()))
    return GoodnessOfFit(
        classes=classes,
        queries=number,
        kolmogorov=distance,
        p_value=p_value,
        fitted=state.resultant[classes],
        mean_cosine=torch.stack([rho.mean() for rho in cosines]),
        anisotropy=torch.stack(anisotropy),
        histogram=torch.bincount(
            (torch.cat(law) * BINS).long().clamp_max(BINS - 1), minlength=BINS
        ),
        rejected=float((p_value < SIGNIFICANCE).double().mean()),
    )


def _law(rho: Tensor, kappa: float, p: int) -> Tensor:
    r""":math:`\Pr(\mu^\top Z\le\rho)` [n] for a vMF, to about 1e-5.

    The angle psi of Z with mu has the density :math:`\sin^{p-2}\psi\,e^{\kappa\cos\psi}` but for a
    factor; it is summed over a grid that reaches REACH standard deviations to both sides of its
    peak, where :math:`\kappa\sin^2\psi=(p-2)\cos\psi`.
    """
    m = p - 2.0
    peak = math.acos(2 * kappa / (m + math.hypot(m, 2 * kappa)))
    width = REACH / math.sqrt(kappa * math.cos(peak) + m / math.sin(peak) ** 2)
    ends = max(0.0, peak - width), min(math.pi, peak + width)
    psi = torch.linspace(*ends, NODES, dtype=torch.float64)
    log_density = m * psi.sin().clamp_min(TINY).log() + kappa * psi.cos()
    density = (log_density - log_density.max()).exp()
    below = torch.cumulative_trapezoid(density)
    below = torch.cat([below.new_zeros(1), below / below[-1]])
    return 1 - torch.as_tensor(np.interp(rho.acos().numpy(), psi.numpy(), below.numpy()))


def _kolmogorov(u: Tensor) -> Tensor:
    """The largest distance of the empirical law of ``u`` [n] from the uniform one."""
    u, n = u.sort().values, len(u)
    steps = torch.arange(n + 1, dtype=u.dtype) / n
    return torch.maximum((steps[1:] - u).max(), (u - steps[:-1]).max())


def _histogram(u: Tensor) -> Tensor:
    return torch.bincount((u * BINS).long().clamp_max(BINS - 1), minlength=BINS)


def _anisotropy(across: Tensor) -> Tensor:
    """(p - 1) times the mean squared cosine between two of the vectors [n, p] across mu."""
    n, p = across.shape
    u = across / across.square().sum(1, keepdim=True).sqrt()
    square = (u @ u.T).square().sum()
    return (p - 1) * (square - n) / (n * (n - 1))
