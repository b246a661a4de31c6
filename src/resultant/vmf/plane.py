r"""A von Mises-Fisher vector in the plane of two directions, by one integral in log space.

For X of mean direction :math:`\mu` at the angle :math:`\theta` to it, and another direction at the
cosine c to :math:`\mu`, the cosine of X to the other is :math:`c\cos\theta+s\sin\theta\,W`, with
:math:`s=\sqrt{1-c^2}` and W a coordinate of a uniform direction in p - 1 dimensions. Whether it
reaches a bound that depends on :math:`\theta` is one integral over :math:`\theta` of a tail of W.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from resultant.special.bessel import bessel_ratio_integral
from resultant.vmf.tails import enclose, gauss_legendre

# The integrand is looked at on GRID angles, ROUNDS times closer to where it is within exp(-DEPTH)
# of its largest value.
GRID = 401
ROUNDS = 4
DEPTH = 45.0

# The rule of tanh and sinh: nodes at steps of STEP, to where the weights fall below rounding.
STEP = 1 / 32
REACH = 3.2


def log_plane_tail(bound: Callable[[Tensor], Tensor], c: float, kappa: float, p: int) -> float:
    r"""The logarithm of :math:`\Pr(m^\top X\ge bound(\mu^\top X))` for
    :math:`X\sim\mathrm{vMF}_p(\mu,\kappa)` and a unit vector m with :math:`c=\mu^\top m`, p >= 3.

    ``bound`` [n] of cosines [n] in float64 is continuous; -inf is always reached, inf never.
    """
    s = math.sqrt((1 - c) * (1 + c))

    def above(theta: Tensor) -> Tensor:
        """What the other cosine lacks at W = 0."""
        return bound(theta.cos()) - c * theta.cos()

    def log_integrand(theta: Tensor) -> Tensor:
        density = (p - 2) * theta.sin().log() + kappa * (theta.cos() - 1)
        return density + _log_tail(above(theta), s * theta.sin(), p)

    low, high = 0.0, math.pi
    for _ in range(ROUNDS):
        theta = torch.linspace(low, high, GRID, dtype=torch.float64)[1:-1]
        values = log_integrand(theta)
        near = (values >= values.max() - DEPTH) & (values > -math.inf)
        if not near.any():
            # The bound is reached between two of these, if at all.
            lack = above(theta) - s * theta.sin()
            near = lack == lack.min()
        near, step = theta[near], (high - low) / (GRID - 1)
        low, high = max(low, float(near[0]) - step), min(high, float(near[-1]) + step)
    ends = [low, *_breaks(above, s, low, high), high]
    parts = []
    nodes, weights = _tanh_sinh()
    for a, b in pairwise(ends):
        if b > a:
            theta = a + (b - a) * nodes
            parts.append(log_integrand(theta) + (weights * (b - a)).log())
    log_beta = math.lgamma(0.5) + math.lgamma((p - 1) / 2) - math.lgamma(p / 2)
    zero, at = torch.zeros((), dtype=torch.float64), torch.tensor(kappa, dtype=torch.float64)
    log_mass = float(bessel_ratio_integral(p / 2 - 1, zero, at)) - kappa + log_beta
    return min(0.0, float(torch.logsumexp(torch.cat(parts), 0)) - log_mass)


def _log_tail(above: Tensor, width: Tensor, p: int) -> Tensor:
    """The logarithm of the probability that width * W >= above."""
    w = torch.where(width > 0, above / width, torch.where(above > 0, math.inf, -math.inf))
    # The angle of the smaller of both tails; the density of an angle phi is sin(phi)^(p-3).
    psi = w.abs().clamp_max(1).acos().unsqueeze(-1)
    low = (psi.sin() * math.exp(-DEPTH / (p - 3) if p > 3 else -math.inf)).asin()
    nodes, weights = gauss_legendre()
    phi = low + (psi - low) * nodes
    values = torch.xlogy(torch.tensor(p - 3.0), phi.sin()) + ((psi - low) * weights).log()
    log_beta = math.lgamma(0.5) + math.lgamma((p - 2) / 2) - math.lgamma((p - 1) / 2)
    small = torch.logsumexp(values, -1) - log_beta
    return torch.where(w >= 0, small, torch.log1p(-small.exp().clamp_max(0.5)))


def _breaks(above: Callable[[Tensor], Tensor], s: float, low: float, high: float) -> list[float]:
    """Where W = 1 or W = -1 just reaches the bound: the tail of W begins or ends there."""
    found = []
    grid = torch.linspace(low, high, GRID, dtype=torch.float64)
    for sign in (1.0, -1.0):

        def within(theta: Tensor, sign: float = sign) -> Tensor:
            return above(theta) < sign * s * theta.sin()

        inside = within(grid)
        at = (inside[1:] != inside[:-1]).nonzero().squeeze(-1)
        if not len(at):
            continue
        first, left, right = (a.unsqueeze(-1) for a in (inside[at], grid[at], grid[at + 1]))
        # Twice, to rounding: where W does not spread, the integrand jumps at a break.
        for _ in range(2):
            left, right = enclose(lambda x, y=first: within(x) == y, left, right)
        found += left.flatten().tolist()
    return sorted(found)


@cache
def _tanh_sinh() -> tuple[Tensor, Tensor]:
    """Nodes and weights on [0, 1], close to both ends, where an integrand may have any power."""
    t = np.arange(-round(REACH / STEP), round(REACH / STEP) + 1) * STEP
    u = math.pi * np.sinh(t)
    nodes = 1 / (1 + np.exp(-u))
    weights = STEP * math.pi * np.cosh(t) * nodes / (1 + np.exp(u))
    return torch.from_numpy(nodes), torch.from_numpy(weights)
