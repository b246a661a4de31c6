r"""Tails of a von Mises-Fisher vector X in the plane of two directions, integrals over the angle
:math:`\theta` to its mean direction: X has the cosine :math:`c\cos\theta+s\sin\theta\,W` to a
direction at cosine c, with W a coordinate of a uniform direction in p - 1 dimensions."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from resultant.special.differences import gauss_legendre
from resultant.special.ratio import complement_integral
from resultant.vmf.tails import DEPTH, NODES, enclose

# In the plane of two directions the integrand is evaluated on GRID angles, and ZOOMS times closer
# to where it is within exp(-DEPTH) of its largest value.
GRID = 401
ZOOMS = 4


def log_plane_tail(bound: Callable[[Tensor], Tensor], c: float, kappa: float, p: int) -> float:
    r"""Compute :math:`\log\Pr(m^\top X\ge bound(\mu^\top X))` of a vMF vector X in p >= 3
    dimensions with :math:`m^\top\mu=c`; the bound is continuous in the cosines, or infinite."""
    s = math.sqrt((1 - c) * (1 + c))

    def above(theta: Tensor) -> Tensor:
        """Compute the distance of the other cosine from the bound at W = 0."""
        return bound(theta.cos()) - c * theta.cos()

    def log_integrand(theta: Tensor) -> Tensor:
        density = (p - 2) * theta.sin().log() + kappa * (theta.cos() - 1)
        return density + _log_tail(above(theta), s * theta.sin(), p)

    low, high = 0.0, math.pi
    for _ in range(ZOOMS):
        theta = torch.linspace(low, high, GRID, dtype=torch.float64)[1:-1]
        values = log_integrand(theta)
        near = (values >= values.max() - DEPTH) & (values > -math.inf)
        if not near.any():
            # The bound is reached between two grid angles, if at all.
            distance = above(theta) - s * theta.sin()
            near = distance == distance.min()
        near, step = theta[near], (high - low) / (GRID - 1)
        low, high = max(low, float(near[0]) - step), min(high, float(near[-1]) + step)
    # In sin^2 as the variable, square roots of the distance to an end are smooth.
    nodes, weights = torch.tensor(gauss_legendre(2 * NODES), dtype=torch.float64).T
    weights = weights * math.pi / 2 * (math.pi * nodes).sin()
    nodes = (math.pi / 2 * nodes).sin() ** 2
    ends = torch.tensor([low, *_breaks(above, s, low, high), high], dtype=torch.float64).unique()
    length = ends.diff().unsqueeze(-1)
    values = log_integrand(ends[:-1, None] + length * nodes) + (length * weights).log()
    log_beta = math.lgamma(0.5) + math.lgamma((p - 1) / 2) - math.lgamma(p / 2)
    lag = float(complement_integral(p / 2 - 1, torch.tensor(kappa, dtype=torch.float64)))
    return min(0.0, float(values.flatten().logsumexp(0)) + lag - log_beta)


def _log_tail(above: Tensor, width: Tensor, p: int) -> Tensor:
    """Compute the log probability that width * W >= above."""
    w = torch.where(width > 0, above / width, torch.where(above > 0, math.inf, -math.inf))
    # The angle of the smaller of the two tails; the density of an angle phi is sin(phi)^(p-3).
    psi = w.abs().clamp_max(1).acos().unsqueeze(-1)
    low = (psi.sin() * math.exp(-DEPTH / (p - 3) if p > 3 else -math.inf)).asin()
    nodes, weights = torch.tensor(gauss_legendre(NODES), dtype=torch.float64).T
    phi = low + (psi - low) * nodes
    values = torch.xlogy(torch.tensor(p - 3.0), phi.sin()) + ((psi - low) * weights).log()
    log_beta = math.lgamma(0.5) + math.lgamma((p - 2) / 2) - math.lgamma((p - 1) / 2)
    small = torch.logsumexp(values, -1) - log_beta
    return torch.where(w >= 0, small, torch.log1p(-small.exp().clamp_max(0.5)))


def _breaks(above: Callable[[Tensor], Tensor], s: float, low: float, high: float) -> list[float]:
    """Find the angles at which W = 1 or W = -1 just reaches the bound."""
    grid = torch.linspace(low, high, GRID, dtype=torch.float64)
    widths = torch.tensor([[s], [-s]], dtype=torch.float64)
    inside = above(grid) < widths * grid.sin()
    which, at = (inside[:, 1:] != inside[:, :-1]).nonzero().T
    first, left, right = (a.unsqueeze(-1) for a in (inside[which, at], grid[at], grid[at + 1]))
    # Twice, to full precision: if the spread of W vanishes, the integrand jumps at a break.
    for _ in range(2):
        left, right = enclose(lambda x: (above(x) < widths[which] * x.sin()) == first, left, right)
    return left.flatten().tolist()
