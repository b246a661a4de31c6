r"""Goodness of fit of one vMF per class to held-out features (sec:support-fit-protocol)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from resultant._core import chunks
from resultant.analysis.metrics import SIGNIFICANCE, class_means
from resultant.analysis.plain import Result, UnansweredError
from resultant.analysis.sampling import class_rows
from resultant.analysis.space import CPU, FrozenSpace, Progress
from resultant.classes.statistics import capped_concentration, fit_direction
from resultant.vmf.angle import sample_angle

# Bins of the values of the distribution function.
BINS = 20

# The grid of angles for the integral of a density.
NODES = 257
REACH = 12.0
TINY = 1e-300

# The most held-out queries per class.
MOST_QUERIES = 500

# Simulated classes, and the most rows of one: the error of a fit to more rows is too small for
# MOST_QUERIES to notice.
SIMULATED = 1000
MOST_ROWS = 5000


@dataclass(frozen=True, eq=False)
class GoodnessOfFit(Result):
    r"""Held-out queries under the fitted vMF of their own class.

    The cosine x of a vMF sample to its direction has a density in proportion to
    :math:`e^{\kappa x}(1-x^2)^{(p-3)/2}`; the cosines of the queries are compared with it.

    The p-value takes the fitted vMF as known. The error of a fit to few rows alone rejects classes
    and bends the histogram, which is flat only if all classes have many rows. Compare both with
    their expectation for true vMF classes: 1000 simulated classes have the numbers of rows and
    queries of observed classes, chosen evenly over the class sizes, and are fitted and tested the
    same way, with independent rows.

    Attributes:
        classes: Classes [M] with queries.
        queries: Queries [M] of these classes.
        kolmogorov: Kolmogorov-Smirnov distances [M] between the distribution of
            :math:`\mu_c^\top Z` and the queries.
        p_value: Exact p-values [M].
        fitted: :math:`A_c` [M].
        mean_cosine: Mean cosines [M] of the queries.
        anisotropy: :math:`(p-1)` times the mean squared cosine [M] between the directions of two
            queries across :math:`\mu_c`: one for a vMF, NaN for one query.
        histogram: Counts [20] of the values of the distribution function in equal bins of [0, 1].
        rejected: Fraction of classes with p < 0.05.
        expected: The same fraction of simulated vMF classes; its standard error is at most 0.016.
        expected_histogram: The histogram [20] of simulated vMF classes, with the same sum.
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
    """Compare the first 500 held-out queries of each class with the fitted vMF of the class.

    Args:
        space: The classes and the queries.
        seed: Seed of the simulated classes.
        progress: Called with the name of the step and the fraction that is done.

    Returns:
        Tests per class, and the expectation for true vMF classes.

    Raises:
        UnansweredError: p < 3.

    Example:
        >>> import torch
        >>> from resultant.analysis import FrozenSpace, goodness_of_fit
        >>> z, y = torch.eye(3).repeat(20, 1) + 0.1 * torch.rand(60, 3), torch.arange(3).repeat(20)
        >>> goodness_of_fit(FrozenSpace.fit(z, y, z, y)).queries
        tensor([20, 20, 20])
    """
    if space.dim < 3:
        raise UnansweredError(f"expected p >= 3 for the law of a projection, got {space.dim}")
    state, rows_of = space.state.to(space.device), class_rows(space.test_labels, space.num_classes)
    number = torch.tensor([min(len(rows), MOST_QUERIES) for rows in rows_of])
    classes = number.nonzero().squeeze(1)
    number = number[classes]
    values = torch.empty(3, len(classes), dtype=torch.float64)
    histogram, done = torch.zeros(BINS, dtype=torch.int64), 0
    for some in _by_size(number, space.dim, space.device):
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
        values[:, some] = torch.stack([*columns, _anisotropy(across, own, size)]).cpu()
        histogram += _histogram(law)
        done += len(some)
        if progress is not None:
            progress("fit", done / len(classes))
    distance, mean, anisotropy = values
    p_value = _p_value(distance, number)
    expected, density = _simulated(space, classes, number, seed)
    return GoodnessOfFit(
        classes=classes,
        queries=number,
        kolmogorov=distance,
        p_value=p_value,
        fitted=space.state.resultant[classes],
        mean_cosine=mean,
        anisotropy=anisotropy,
        histogram=histogram,
        rejected=float((p_value < SIGNIFICANCE).double().mean()),
        expected=expected,
        expected_histogram=density * histogram.sum(),
    )


def _by_size(number: Tensor, width: int, device: torch.device) -> Iterator[Tensor]:
    """Yield the indices of classes with similar numbers of rows of a ``width``, in chunks."""
    order, top = number.argsort(descending=True, stable=True), 0
    while top < len(order):
        room = 8 * max(width * int(number[order[top]]), NODES)
        height = chunks.rows_per_chunk(room, chunks.ROW_BYTES, device)
        yield order[top : top + height]
        top += height


def _histogram(law: Tensor) -> Tensor:
    """Counts [20] in equal bins of [0, 1], on the CPU."""
    return torch.bincount((law * BINS).long().clamp_max(BINS - 1), minlength=BINS).cpu()


def _simulated(
    space: FrozenSpace, classes: Tensor, number: Tensor, seed: int
) -> tuple[float, Tensor]:
    """Simulate classes as large as ``classes`` [M] with a ``number`` [M] of queries, on the CPU.

    Returns:
        The rejected fraction of the simulated classes, and the fractions [20] of the bins.
    """
    by_rows = space.state.count[classes].argsort(stable=True)
    chosen = by_rows[torch.arange(SIMULATED) * len(by_rows) // SIMULATED]
    number, classes = number[chosen], classes[chosen]
    n = space.state.count[classes].clamp_max(MOST_ROWS)
    # The mean of rows drawn from the MLE would be even longer than that of the rows of the class.
    kappa = space.statistics.state("corrected").kappa[classes]
    distance = torch.empty(SIMULATED, dtype=torch.float64)
    histogram = torch.zeros(BINS, dtype=torch.int64)
    # Of its own: several spaces may be analyzed at a time.
    draws = torch.Generator().manual_seed(seed)
    for some in _by_size(torch.maximum(n, number), 1, CPU):
        size = number[some]
        own = torch.arange(len(some)).repeat_interleave(size)
        law = _simulated_law(n[some], kappa[some], own, space.dim, space.estimator, draws)
        distance[some] = _kolmogorov(law, own, size)
        histogram += _histogram(law)
    rejected = _p_value(distance, number) < SIGNIFICANCE
    return float(rejected.double().mean()), histogram.double() / histogram.sum()


def _p_value(distance: Tensor, number: Tensor) -> Tensor:
    """p-values of distances [M] of ``number`` [M] values: twice the one-sided p-value, at most one.

    At the level 0.05 this is the two-sided p-value to 1e-6; above, it is a little too large.
    """
    return (2 * _smirnov(distance, number)).clamp_max(1.0)


def _smirnov(d: Tensor, n: Tensor) -> Tensor:
    r"""Probabilities [M] that the distribution function of ``n`` [M] uniform values is below the
    true one by more than ``d`` [M] somewhere (Birnbaum and Tingey):
    :math:`d\sum_j\binom nj(d+j/n)^{j-1}(1-d-j/n)^{n-j}` over the positive bases. Scipy takes half a
    second to load.
    """
    d, n = d.double().clamp_min(TINY).unsqueeze(1), n.double().unsqueeze(1)
    j = torch.arange(int(n.max()) + 1, dtype=torch.float64)
    rest = 1 - d - j / n
    ways = (n + 1).lgamma() - (j + 1).lgamma() - (n - j + 1).clamp_min(1).lgamma()
    terms = ways + (j - 1) * (d + j / n).log() + torch.xlogy(n - j, rest.clamp_min(0))
    # The last term, j = n (1 - d), is zero unless d = 0.
    terms = terms.masked_fill((rest < 0) | (j > n), -torch.inf)
    return (d.log() + terms.logsumexp(1, keepdim=True)).squeeze(1).exp()


def _simulated_law(
    n: Tensor, kappa: Tensor, own: Tensor, p: int, estimator: str, draws: torch.Generator
) -> Tensor:
    r"""Values [N] of the fitted distribution functions at new queries of classes ``own`` [N].

    The classes are vMFs of ``kappa`` [B], fitted to ``n`` [B] rows. No vector is drawn, so the cost
    does not grow with p. Rows are :math:`\cos\theta\,\mu+
    \sin\theta\,v` with v uniform across :math:`\mu`. Two sums of lengths a and b in uniform
    directions add up to one of :math:`\sqrt{a^2+b^2+2abw}`, w a coordinate of a uniform
    direction, so the rows are added in pairs. In the plane of mu and the sum, the query has the
    cosine :math:`\cos\theta` to mu and :math:`w\sin\theta` across it.
    """
    row = torch.arange(len(n)).repeat_interleave(n)
    theta = sample_angle(p, kappa[row], draws)
    along = torch.zeros_like(kappa).index_add_(0, row, theta.cos())
    across = kappa.new_zeros(len(n), int(n.max()))
    across[row, _ranks(row, n)] = theta.sin()
    while across.shape[1] > 1:
        across = torch.nn.functional.pad(across, (0, across.shape[1] % 2))
        a, b = across[:, ::2], across[:, 1::2]
        w = _coordinate(a.numel(), p, draws).view_as(a)
        across = (a.square() + b.square() + 2 * a * b * w).clamp_min(0).sqrt()
    mu, R = fit_direction(torch.stack([along, across[:, 0]], 1), n := n.to(kappa.dtype))
    theta = sample_angle(p, kappa[own], draws)
    rho = mu[own, 0] * theta.cos() + mu[own, 1] * theta.sin() * _coordinate(len(own), p, draws)
    return _law(rho.clamp(-1, 1), own, capped_concentration(p, R, estimator, n), p)


def _coordinate(number: int, p: int, draws: torch.Generator) -> Tensor:
    """One coordinate of uniform directions across mu, [number]."""
    along = torch.randn(number, dtype=torch.float64, generator=draws)
    across = 2 * torch._standard_gamma(torch.full_like(along, p / 2 - 1), draws)
    return along / (along.square() + across).sqrt()


def _law(rho: Tensor, own: Tensor, kappa: Tensor, p: int) -> Tensor:
    r""":math:`\Pr(\mu^\top Z\le\rho)` [n] for classes ``own`` [n] with concentrations ``kappa``
    [B], to about 1e-6.

    The angle psi of Z with mu has a density proportional to
    :math:`\sin^{p-2}\psi\,e^{\kappa\cos\psi}`. The density is integrated over a grid of REACH
    standard deviations on both sides of the peak, where :math:`\kappa\sin^2\psi=(p-2)\cos\psi`.
    Between two nodes it is the cubic that has their densities and slopes.
    """
    m, kappa = p - 2.0, kappa.unsqueeze(1)
    peak = (2 * kappa / (m + torch.hypot(torch.full_like(kappa, m), 2 * kappa))).acos()
    width = REACH / (kappa * peak.cos() + m / peak.sin().square()).sqrt()
    low, high = (peak - width).clamp_min(0), (peak + width).clamp_max(math.pi)
    fractions = torch.linspace(0, 1, NODES, dtype=kappa.dtype, device=kappa.device)
    psi, h = low + (high - low) * fractions, (high - low) / (NODES - 1)
    sin, cos = psi.sin().clamp_min(TINY), psi.cos()
    log_density = m * sin.log() + kappa * cos
    density = h * (log_density - log_density.amax(1, keepdim=True)).exp()
    slope = h * density * (m * cos / sin - kappa * sin)
    cells = (density[:, :-1] + density[:, 1:]) / 2 + (slope[:, :-1] - slope[:, 1:]) / 12
    above = torch.cat([torch.zeros_like(kappa), cells.cumsum(1)], 1)
    total = above[:, -1:]
    # The integral of the cubic, from the node below the angle of rho.
    position = (rho.acos() - low[own, 0]) / h[own, 0]
    position = position.clamp(0, NODES - 1)
    node = position.long().clamp_max(NODES - 2)
    t = position - node
    (a, b), (f, g) = ((x[own, node], x[own, node + 1]) for x in (above / total, density / total))
    rest = 1 - t
    return 1 - (a + t * t * (3 - 2 * t) * (b - a) + t * rest * (rest * f - t * g))


def _kolmogorov(u: Tensor, own: Tensor, size: Tensor) -> Tensor:
    """Kolmogorov-Smirnov distances [B] of values ``u`` [n] from the uniform distribution.

    The classes ``own`` [n] are in order and have ``size`` [B] values.
    """
    order = u.argsort()
    u = u[order[own[order].argsort(stable=True)]]
    # In the dtype of u: the quotient of integers would be float32.
    rank, n = _ranks(own, size).to(u.dtype), size[own]
    gap = torch.maximum((rank + 1) / n - u, u - rank / n)
    return gap.new_zeros(len(size)).scatter_reduce(0, own, gap, "amax")


def _anisotropy(across: Tensor, own: Tensor, size: Tensor) -> Tensor:
    """(p - 1) times the mean squared cosine [B] between two vectors [n, p] across mu.

    The classes are given as in `_kolmogorov`, the largest first.
    """
    p, most = across.shape[1], int(size[0])
    u = across / across.square().sum(1, keepdim=True).sqrt()
    whole = u.new_zeros(len(size) * most, p).index_copy_(0, own * most + _ranks(own, size), u)
    whole = whole.view(len(size), most, p)
    square = (whole @ whole.mT).square().sum((1, 2))
    mean = (square - size) / (size * (size - 1))
    return torch.where(size > 1, (p - 1) * mean, torch.nan)


def _ranks(own: Tensor, size: Tensor) -> Tensor:
    """The number of earlier rows of the same class, [n]."""
    return torch.arange(len(own), device=own.device) - (size.cumsum(0) - size)[own]
