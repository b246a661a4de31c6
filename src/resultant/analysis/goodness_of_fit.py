r"""Whether held-out features look like one vMF a class (sec:support-fit-protocol)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from resultant._core import chunks
from resultant.analysis.metrics import class_means
from resultant.analysis.result import Result, UnansweredError
from resultant.analysis.sampling import class_rows
from resultant.analysis.space import FrozenSpace, Progress
from resultant.classes.finite_sample import unbiased_square_resultant
from resultant.classes.statistics import capped_concentration, fit_direction
from resultant.vmf.angle import sample_angle

# Bins of the values of the law.
BINS = 20
SIGNIFICANCE = 0.05

# The grid of angles on which a law is summed.
NODES = 2049
REACH = 12.0
TINY = 1e-300

# Held-out queries of a class that are looked at.
MOST_QUERIES = 500

# Simulated classes, and the most rows that one is fitted to: with more, the error of the fit is
# not what MOST_QUERIES would notice.
SIMULATED = 1000
MOST_ROWS = 5000


@dataclass(frozen=True, eq=False)
class GoodnessOfFit(Result):
    r"""Held-out queries under the fitted vMF of their own class; the fit of the score's geometry is
    another matter.

    By class with queries, all [M]: ``classes``, ``queries``, ``kolmogorov`` the distance of
    Kolmogorov and Smirnov between the law of :math:`\mu_c^\top Z` and the queries, its exact
    ``p_value``, ``fitted`` :math:`A_c` and ``mean_cosine`` on the queries, and ``anisotropy``,
    :math:`(p-1)` times the mean squared cosine between directions across :math:`\mu_c` of two
    queries: one for a vMF, NaN for one query. ``histogram`` [20] counts the values of the law at
    all queries in equal bins of [0, 1]; ``rejected`` is the share of classes with p < 0.05.

    The p-value takes the fitted vMF for known. The error of a fit to few rows is reason enough to
    reject, and bends the histogram, which is flat only where all classes have many rows. Both are
    to be read against what they are if every class is a vMF: ``expected`` is the share rejected
    by the same rule, and ``expected_histogram`` [20] the histogram, with the same sum, of 1000
    simulated classes. They have the numbers of rows and queries of observed ones, evenly chosen
    over the class sizes (each several times where these are fewer), and are fitted and tested like
    them; rows are taken for independent. The standard error of ``expected`` is 0.016 at most.
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
    expected: float
    expected_histogram: Tensor


@torch.no_grad()
def goodness_of_fit(
    space: FrozenSpace, *, seed: int = 0, progress: Progress | None = None
) -> GoodnessOfFit:
    """Compare up to 500 held-out queries of each class, the first ones, with its fitted vMF, and
    the same of simulated classes that are vMFs, drawn with the ``seed``."""
    from scipy.stats import kstwo

    if space.dim < 3:
        raise UnansweredError(f"expected p >= 3 for the law of a projection, got {space.dim}")
    state, rows_of = space.state, class_rows(space.test_labels, space.num_classes)
    number = torch.tensor([min(len(rows), MOST_QUERIES) for rows in rows_of])
    classes = number.nonzero().squeeze(1)
    number = number[classes]
    found = torch.empty(3, len(classes), dtype=torch.float64)
    histogram, done = torch.zeros(BINS, dtype=torch.int64), 0
    for some in _alike(number, space.dim, space.device):
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
        histogram += _histogram(law)
        done += len(some)
        if progress is not None:
            progress("fit", done / len(classes))
    distance, mean, anisotropy = found
    p_value = torch.as_tensor(kstwo.sf(distance.numpy(), number.numpy()))
    expected, density = _simulated(space.host, classes, number, seed)
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
        expected=expected,
        expected_histogram=density * histogram.sum(),
    )


def _alike(number: Tensor, width: int, device: torch.device) -> Iterator[Tensor]:
    """The places of classes with about as many rows of a ``width``, as many as are a piece."""
    order, top = number.argsort(descending=True, stable=True), 0
    while top < len(order):
        room = 8 * max(width * int(number[order[top]]), NODES)
        height = chunks.rows_per_chunk(room, chunks.QUANTILE_BYTES, device)
        yield order[top : top + height]
        top += height


def _histogram(law: Tensor) -> Tensor:
    """Counts [20] in equal bins of [0, 1], on the CPU."""
    return torch.bincount((law * BINS).long().clamp_max(BINS - 1), minlength=BINS).cpu()


def _simulated(
    space: FrozenSpace, classes: Tensor, number: Tensor, seed: int
) -> tuple[float, Tensor]:
    """The share of simulated classes that are rejected, and the shares [20] of the bins, for
    ``classes`` [M] with a ``number`` [M] of queries, on the CPU."""
    from scipy.stats import ksone

    by_rows = space.state.count[classes].argsort(stable=True)
    chosen = by_rows[torch.arange(SIMULATED) * len(by_rows) // SIMULATED]
    number, classes = number[chosen], classes[chosen]
    n = space.state.count[classes].clamp_max(MOST_ROWS)
    kappa = _unbiased_kappa(space)[classes]
    distance = torch.empty(SIMULATED, dtype=torch.float64)
    histogram = torch.zeros(BINS, dtype=torch.int64)
    with torch.random.fork_rng(devices=[]):
        # Not torch.manual_seed, which seeds all devices.
        torch.default_generator.manual_seed(seed)
        for some in _alike(torch.maximum(n, number), 1, space.device):
            size = number[some]
            own = torch.arange(len(some)).repeat_interleave(size)
            law = _simulated_law(n[some], kappa[some], own, space.dim, space.estimator)
            distance[some] = _kolmogorov(law, own, size)
            histogram += _histogram(law)
    # Twice the p-value of one side, which takes no time, is that of both to 1e-6 at this level.
    rejected = 2 * ksone.sf(distance.numpy(), number.numpy()) < SIGNIFICANCE
    return float(rejected.mean()), histogram.double() / histogram.sum()


def _unbiased_kappa(space: FrozenSpace) -> Tensor:
    r"""The concentrations [C] of the vMFs that are simulated: those of :math:`\sqrt{\max(U,0)}`.

    The fitted ones are of :math:`R_n`, which few rows make too long; rows that were drawn with
    them would be longer once more. A class of one row has the fitted one.
    """
    R, n = space.statistics.mean_length, space.state.count
    A = unbiased_square_resultant(R, n.clamp_min(2)).clamp_min(0).sqrt()
    return torch.where(n > 1, capped_concentration(space.dim, A, "mle"), space.state.kappa)


def _simulated_law(n: Tensor, kappa: Tensor, own: Tensor, p: int, estimator: str) -> Tensor:
    r"""The values of the fitted laws [N] at new queries of classes ``own`` [N], when the classes
    are vMFs of ``kappa`` [B] and are fitted to ``n`` [B] rows.

    No vector is drawn, so the work does not grow with p. Rows are :math:`\cos\theta\,\mu+
    \sin\theta\,v` with v uniform across :math:`\mu`. Two sums of lengths a and b in uniform
    directions add up to one of :math:`\sqrt{a^2+b^2+2abw}`, w a coordinate of a uniform
    direction: so the rows are added in pairs. In the plane of mu and the sum, the query has the
    cosine :math:`\cos\theta` to mu and :math:`w\sin\theta` across it.
    """
    row = torch.arange(len(n)).repeat_interleave(n)
    theta = sample_angle(p, kappa[row])
    along = torch.zeros_like(kappa).index_add_(0, row, theta.cos())
    across = kappa.new_zeros(len(n), int(n.max()))
    across[row, _ranks(row, n)] = theta.sin()
    while across.shape[1] > 1:
        across = torch.nn.functional.pad(across, (0, across.shape[1] % 2))
        a, b = across[:, ::2], across[:, 1::2]
        w = _coordinate(a.numel(), p).view_as(a)
        across = (a.square() + b.square() + 2 * a * b * w).clamp_min(0).sqrt()
    mu, R = fit_direction(torch.stack([along, across[:, 0]], 1), n.to(kappa.dtype))
    theta = sample_angle(p, kappa[own])
    rho = mu[own, 0] * theta.cos() + mu[own, 1] * theta.sin() * _coordinate(len(own), p)
    return _law(rho.clamp(-1, 1), own, capped_concentration(p, R, estimator), p)


def _coordinate(number: int, p: int) -> Tensor:
    """One coordinate of uniform directions across mu, [number]."""
    return sample_angle(p - 1, torch.zeros(number, dtype=torch.float64)).cos()


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
