r"""Whether held-out features look like one vMF a class (sec:support-fit-protocol)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from resultant.frozen.measures import class_means
from resultant.frozen.result import Result, UnansweredError
from resultant.frozen.rows import class_rows
from resultant.frozen.space import FrozenSpace, Progress, rows_at_once

# Bins of the values of the law.
BINS = 20
SIGNIFICANCE = 0.05

# The grid of angles on which a law is summed.
NODES = 2049
REACH = 12.0
TINY = 1e-300

# Held-out queries of a class that are looked at.
MOST_QUERIES = 500

# Bytes of queries, and of laws, at a time on the CPU.
PIECE_BYTES = 1 << 22


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
        raise UnansweredError(f"expected p >= 3 for the law of a projection, got {space.dim}")
    state, rows_of = space.state, class_rows(space.test_labels, space.num_classes)
    number = torch.tensor([min(len(rows), MOST_QUERIES) for rows in rows_of])
    classes = number.nonzero().squeeze(1)
    number = number[classes]
    found = torch.empty(3, len(classes), dtype=torch.float64)
    histogram, done = torch.zeros(BINS, dtype=torch.int64), 0
    for some in _alike(number, space):
        rows = torch.cat([rows_of[c][:MOST_QUERIES] for c in classes[some].tolist()])
        size, chosen = (a.to(space.device) for a in (number[some], classes[some]))
        own = torch.arange(len(some), device=space.device).repeat_interleave(
            size, output_size=len(rows)
        )
        x, mu = space.units("test", rows), state.mu[chosen[own]]
        rho = (x * mu).sum(1)
        law = _law(rho.clamp(-1, 1), own, state.kappa[chosen], space.dim)
        across = x - rho.unsqueeze(1) * mu
        columns = (_kolmogorov(law, own, size), class_means(rho, own, len(size)))
        found[:, some] = torch.stack([*columns, _anisotropy(across, own, size)]).cpu()
        histogram += torch.bincount((law * BINS).long().clamp_max(BINS - 1), minlength=BINS).cpu()
        done += len(some)
        if progress is not None:
            progress("fit", done / len(classes))
    distance, mean, anisotropy = found
    p_value = torch.as_tensor(kstwo.sf(distance.numpy(), number.numpy()))
    return GoodnessOfFit(
        classes=classes,
        queries=number,
        kolmogorov=distance,
        p_value=p_value,
        fitted=state.resultant.cpu()[classes],
        mean_cosine=mean,
        anisotropy=anisotropy,
        histogram=histogram,
        rejected=float((p_value < SIGNIFICANCE).double().mean()),
    )


def _alike(number: Tensor, space: FrozenSpace) -> Iterator[Tensor]:
    """The places of classes with about as many queries, as many as are a piece."""
    order, top = number.argsort(descending=True, stable=True), 0
    while top < len(order):
        width = 8 * max(space.dim * int(number[order[top]]), NODES)
        height = rows_at_once(width, space.device, PIECE_BYTES)
        yield order[top : top + height]
        top += height


def _law(rho: Tensor, own: Tensor, kappa: Tensor, p: int) -> Tensor:
    r""":math:`\Pr(\mu^\top Z\le\rho)` [n] for the vMFs of classes ``own`` [n], which have the
    concentrations ``kappa`` [B], to about 1e-5.

    The angle psi of Z with mu has the density :math:`\sin^{p-2}\psi\,e^{\kappa\cos\psi}` but for a
    factor; it is summed over a grid that reaches REACH standard deviations to both sides of its
    peak, where :math:`\kappa\sin^2\psi=(p-2)\cos\psi`.
    """
    m, kappa = p - 2.0, kappa.unsqueeze(1)
    peak = (2 * kappa / (m + torch.hypot(torch.full_like(kappa, m), 2 * kappa))).acos()
    width = REACH / (kappa * peak.cos() + m / peak.sin().square()).sqrt()
    low, high = (peak - width).clamp_min(0), (peak + width).clamp_max(math.pi)
    fractions = torch.linspace(0, 1, NODES, dtype=kappa.dtype, device=kappa.device)
    psi = low + (high - low) * fractions
    log_density = m * psi.sin().clamp_min(TINY).log() + kappa * psi.cos()
    density = (log_density - log_density.amax(1, keepdim=True)).exp()
    above = torch.cumulative_trapezoid(density)
    above = torch.cat([torch.zeros_like(kappa), above / above[:, -1:]], 1)
    # Between the two nodes about the angle of rho.
    place = (rho.acos() - low[own, 0]) / (high - low)[own, 0] * (NODES - 1)
    place = place.clamp(0, NODES - 1)
    node = place.long().clamp_max(NODES - 2)
    left, right = above[own, node], above[own, node + 1]
    return 1 - (left + (place - node) * (right - left))


def _kolmogorov(u: Tensor, own: Tensor, size: Tensor) -> Tensor:
    """The largest distances [B] of the empirical laws of values ``u`` [n] from the uniform one,
    for classes ``own`` [n], in order, of ``size`` [B]."""
    order = u.argsort()
    u = u[order[own[order].argsort(stable=True)]]
    # In the dtype of u: a quotient of integers would be float32.
    rank, n = _ranks(own, size).to(u.dtype), size[own]
    gap = torch.maximum((rank + 1) / n - u, u - rank / n)
    return gap.new_zeros(len(size)).scatter_reduce(0, own, gap, "amax")


def _anisotropy(across: Tensor, own: Tensor, size: Tensor) -> Tensor:
    """(p - 1) times the mean squared cosine [B] between two of the vectors [n, p] across mu, for
    classes as in `_kolmogorov`, the largest first."""
    p, most = across.shape[1], int(size[0])
    u = across / across.square().sum(1, keepdim=True).sqrt()
    whole = u.new_zeros(len(size) * most, p).index_copy_(0, own * most + _ranks(own, size), u)
    whole = whole.view(len(size), most, p)
    square = (whole @ whole.mT).square().sum((1, 2))
    mean = (square - size) / (size * (size - 1))
    return torch.where(size > 1, (p - 1) * mean, torch.nan)


def _ranks(own: Tensor, size: Tensor) -> Tensor:
    """How many rows of the same class stand before each, [n]."""
    return torch.arange(len(own), device=own.device) - (size.cumsum(0) - size)[own]
