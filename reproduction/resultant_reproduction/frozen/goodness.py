r"""Goodness of fit of one vMF per class to held-out features (sec:support-fit-protocol)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from resultant.analysis.metrics import SIGNIFICANCE, Result, UnansweredError
from resultant.vmf.angle import sample_angle
from resultant.vmf.estimators import fit_direction, fit_kappa
from resultant_reproduction.frozen.space import FrozenSpace, rank_in_class

# Bins of the values of the distribution function.
BINS = 20

# The grid of angles for the integral of a density, and its reach in standard deviations.
NODES, REACH, TINY = 257, 12.0, 1e-300
# The most held-out queries per class, and numbers of a matrix of several classes.
MOST_QUERIES, ENTRIES = 500, 1 << 22
# Simulated classes, those that are simulated together, and the most rows of one: the error of a fit
# to more rows is too small for MOST_QUERIES to notice.
SIMULATED, TOGETHER, MOST_ROWS = 1000, 40, 5000


@dataclass(frozen=True, eq=False)
class GoodnessOfFit(Result):
    r"""Cosines of held-out queries with the direction of their class, against the density of the
    fitted vMF, in proportion to :math:`e^{\kappa x}(1-x^2)^{(p-3)/2}`.

    The error of a fit to few rows alone rejects classes and bends the histogram: both have their
    expectation for 1000 simulated vMF classes of as many rows and queries. The anisotropy is
    :math:`(p-1)` times the mean squared cosine of two queries across :math:`\mu_c`, one for a vMF.
    """

    classes: Tensor  #: classes [M] with queries
    queries: Tensor  #: queries [M] of these classes
    kolmogorov: Tensor  #: Kolmogorov-Smirnov distances [M] of the cosines
    p_value: Tensor  #: exact p-values [M]
    fitted: Tensor  #: :math:`A_c` [M]
    mean_cosine: Tensor  #: mean cosines [M] of the queries
    anisotropy: Tensor  #: anisotropies [M], NaN for one query
    histogram: Tensor  #: values of the distribution function in 20 equal bins of [0, 1]
    rejected: float  #: fraction of classes with p < 0.05
    expected: float  #: the same of simulated vMF classes; its standard error is at most 0.016
    expected_histogram: Tensor  #: histogram of simulated vMF classes, with the same sum


@torch.no_grad()
def goodness_of_fit(space: FrozenSpace, *, seed: int = 0) -> GoodnessOfFit:
    """Compare the first 500 held-out queries of each class with the fitted vMF of the class.

    Args:
        seed: Seed of the simulated space.

    Raises:
        UnansweredError: p < 3.
    """
    if space.dim < 3:
        raise UnansweredError(f"expected p >= 3 for the law of a projection, got {space.dim}")
    first = (rank_in_class(space.test_labels) < MOST_QUERIES).nonzero().squeeze(1)
    first = first[space.test_labels[first].argsort(stable=True)]
    present, number = space.test_labels[first].unique_consecutive(return_counts=True)
    state, laws, start = space.state.to(space.device), [], number.cumsum(0) - number
    distance, mean, anisotropy = torch.full((3, len(present)), torch.nan, dtype=torch.float64)
    for n in number.unique().tolist():
        # Classes of as many queries together.
        most = max(1, ENTRIES // max(n * max(n, space.dim), 2 * NODES))
        for own in (number == n).nonzero().squeeze(1).split(most):
            c, rows = present[own].to(space.device), first[start[own, None] + torch.arange(n)]
            x, mu = space.units("test", rows.flatten()).unflatten(0, (-1, n)), state.mu[c, :, None]
            rho = (x @ mu).clamp(-1, 1)
            laws.append(law(rho[..., 0], state.kappa[c], space.dim).cpu())
            distance[own], mean[own] = _distance(laws[-1]), rho.mean((1, 2)).cpu()
            if n > 1:
                across = torch.nn.functional.normalize(x - rho * mu.mT, dim=2)
                square = (across @ across.mT).square().sum((1, 2)).cpu()
                anisotropy[own] = (space.dim - 1) * (square - n) / (n * (n - 1))
    p_value, u = _p_value(distance, number), torch.cat([u.flatten() for u in laws])
    rejected, histogram = float((p_value < SIGNIFICANCE).double().mean()), _histogram(u)
    A = space.state.resultant[present]
    # Simulated classes of the same sizes, those of similar size together. The mean of rows drawn
    # from the MLE would be even longer than that of the rows of the class.
    sizes = space.state.count[present].clamp_max(MOST_ROWS)
    kappa = space.statistics.state("corrected").kappa[present]
    order, draws = sizes.argsort(stable=True), torch.Generator().manual_seed(seed)
    expected, density = 0, torch.zeros(BINS, dtype=torch.int64)
    for own in order[torch.arange(SIMULATED) * len(order) // SIMULATED].split(TOGETHER):
        n, queries = (int(a[own[len(own) // 2]]) for a in (sizes, number))
        u = simulated_law(n, kappa[own], queries, space.dim, space.estimator, draws)
        expected += int((_p_value(_distance(u), torch.tensor(queries)) < SIGNIFICANCE).sum())
        density += _histogram(u)
    share, density = expected / SIMULATED, density.double() / density.sum() * histogram.sum()
    return GoodnessOfFit(
        present, number, distance, p_value, A, mean, anisotropy, histogram, rejected, share, density
    )


def _histogram(u: Tensor) -> Tensor:
    return torch.bincount((u.flatten() * BINS).long().clamp_max(BINS - 1), minlength=BINS)


def _distance(u: Tensor) -> Tensor:
    """Return Kolmogorov-Smirnov distances [...] of values [..., n] from uniform ones."""
    n, u = u.shape[-1], u.sort(-1).values
    rank = torch.arange(n, dtype=u.dtype)
    return torch.maximum((rank + 1) / n - u, u - rank / n).amax(-1)


def _p_value(distance: Tensor, number: Tensor) -> Tensor:
    """Return twice the one-sided p-values of distances [M], the two-sided ones to 1e-6 at 0.05."""
    from scipy.special import smirnov

    return torch.from_numpy(2 * smirnov(number.numpy(), distance.numpy())).clamp_max(1.0)


def simulated_law(
    n: int, kappa: Tensor, queries: int, p: int, estimator: str, draws: torch.Generator
) -> Tensor:
    r"""Return values [B, queries] of the distribution functions of vMFs of ``kappa`` [B], each
    fitted to ``n`` rows, at new queries. Rows are :math:`\cos\theta\,\mu+\sin\theta\,v` without v:
    sums of lengths a and b across :math:`\mu` add up to one of :math:`\sqrt{a^2+b^2+2abw}`, w a
    coordinate of a uniform direction."""
    theta = sample_angle(p, kappa.repeat_interleave(n), draws).view(-1, n)
    across = theta.sin()
    while across.shape[1] > 1:
        across = torch.nn.functional.pad(across, (0, across.shape[1] % 2))
        a, b = across[:, ::2], across[:, 1::2]
        w = _coordinate(a.numel(), p, draws).view_as(a)
        across = (a.square() + b.square() + 2 * a * b * w).clamp_min(0).sqrt()
    number = torch.full_like(kappa, n)
    mu, R = fit_direction(torch.stack([theta.cos().sum(1), across[:, 0]], 1), number)
    theta = sample_angle(p, kappa.repeat_interleave(queries), draws).view(-1, queries)
    w = _coordinate(theta.numel(), p, draws).view_as(theta)
    rho = mu[:, :1] * theta.cos() + mu[:, 1:] * theta.sin() * w
    return law(rho.clamp(-1, 1), fit_kappa(p, R, estimator, number), p)


def _coordinate(number: int, p: int, draws: torch.Generator) -> Tensor:
    """Draw one coordinate of uniform directions across mu, [number]."""
    along = torch.randn(number, dtype=torch.float64, generator=draws)
    across = 2 * torch._standard_gamma(torch.full_like(along, p / 2 - 1), draws)
    return along / (along.square() + across).sqrt()


def law(rho: Tensor, kappa: Tensor, p: int) -> Tensor:
    r"""Return :math:`\Pr(\mu^\top Z\le\rho)` [B, n] for ``kappa`` [B], to about 1e-5, by Simpson's
    rule for :math:`\sin^{p-2}\psi\,e^{\kappa\cos\psi}` of the angle, around its peak."""
    m, kappa = p - 2.0, kappa.unsqueeze(1)
    peak = (2 * kappa / (m + torch.hypot(torch.full_like(kappa, m), 2 * kappa))).acos()
    width = REACH / (kappa * peak.cos() + m / peak.sin().square()).sqrt()
    low, high = (peak - width).clamp_min(0), (peak + width).clamp_max(math.pi)
    # Nodes, and between two of them the middle.
    fractions = torch.linspace(0, 1, 2 * NODES - 1, dtype=kappa.dtype, device=kappa.device)
    psi = low + (high - low) * fractions
    log_density = m * psi.sin().clamp_min(TINY).log() + kappa * psi.cos()
    f = (log_density - log_density.amax(1, keepdim=True)).exp()
    cells = f[:, :-2:2] + 4 * f[:, 1::2] + f[:, 2::2]
    above = torch.nn.functional.pad(cells.cumsum(1), (1, 0)) / cells.sum(1, keepdim=True)
    place = ((rho.acos() - low) / (high - low)).clamp(0, 1) * (NODES - 1)
    node = place.long().clamp_max(NODES - 2)
    # The integral of the parabola through both nodes and the middle, to a part t of the cell.
    t, start = place - node, above.gather(1, node)
    a, b, c = (f.gather(1, 2 * node + i) for i in range(3))
    part = a * t + (4 * b - 3 * a - c) * t**2 / 2 + (a + c - 2 * b) * 2 * t**3 / 3
    return 1 - (start + part * 6 / cells.sum(1, keepdim=True))
