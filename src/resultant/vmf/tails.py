r"""Tail probabilities of a von Mises-Fisher vector X, each by one integral in log space.

`log_projection_tail`: for a unit vector n at cosine :math:`\beta` to the mean direction, the angle
:math:`\psi` between X and n has a density in closed form, so a tail of :math:`n^\top X` is one
integral over :math:`\psi`. Logarithms keep the relative accuracy of the smallest tails.

`log_plane_tail`: with :math:`\theta` the angle of X to its mean direction :math:`\mu`, and another
direction at cosine c to :math:`\mu`, the cosine of X to the other direction is
:math:`c\cos\theta+s\sin\theta\,W`, :math:`s=\sqrt{1-c^2}`, where W is a coordinate of a uniform
direction in p - 1 dimensions. The probability that this cosine reaches a bound that depends on
:math:`\theta` is one integral over :math:`\theta` of a tail of W.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.validation import Number
from resultant.special.ratio import ratio, ratio_integral

# A tail is integrated to where its density has fallen by exp(-DEPTH) from its peak, with NODES
# Gauss-Legendre nodes on either side of the peak.
DEPTH = 45.0
NODES = 80

# Roots are enclosed by cutting an interval into SECTIONS, ROUNDS times.
SECTIONS = 16
ROUNDS = 7

# In the plane of two directions the integrand is evaluated on GRID angles, and ZOOMS times closer
# to where it is within exp(-DEPTH) of its largest value.
GRID = 401
ZOOMS = 4

# The tanh-sinh rule: nodes at multiples of STEP, up to where the weights fall below rounding.
STEP = 1 / 32
REACH = 3.2


def log_projection_tail(xi: Number, beta: Number, kappa: Number, p: int, *, upper: bool) -> Tensor:
    r"""The log probability of a tail of :math:`n^\top X`, :math:`X\sim\mathrm{vMF}_p(\mu,\kappa)`.

    With psi the angle of X to n and V the uniform direction of X across n, the factor
    :math:`e^{\kappa\alpha\sin\psi\,e^\top V}` of the density averages to a Bessel function:

    .. math:: f(\psi) \propto \sin^{p-2}\psi\; e^{\kappa\beta\cos\psi}\;
        \phi^*_{\nu-1/2}(\kappa\alpha\sin\psi), \qquad
        \log\phi^*_m(x) = \int_0^x R_m(s)\,ds.

    The absolute error of the logarithm is about :math:`10^{-15}(p+\kappa)`. No gradients.

    Args:
        xi: Threshold, a number or a tensor.
        beta: Cosine :math:`\mu^\top n` in [-1, 1], a number or a tensor.
        kappa: Concentration >= 0, a number or a tensor.
        p: Dimension >= 3.
        upper: The tail :math:`\Pr(n^\top X\ge\xi)`, else :math:`\Pr(n^\top X\le\xi)`.

    Returns:
        A tensor of the broadcast shape.

    Raises:
        ValueError: If an argument is out of range or has another type.

    Example:
        >>> from resultant.vmf.tails import log_projection_tail
        >>> round(float(log_projection_tail(0.5, 1.0, 0.0, 3, upper=True).exp()), 6)
        0.25
    """
    p = tail_dimension(p)
    (xi, beta, kappa), dtype = validation.tensors(xi=xi, beta=beta, kappa=kappa)
    if validation.should_validate(None, xi, beta, kappa):
        validation.require_in_range("xi", xi, -math.inf, rule="finite", open_low=True)
        validation.require_in_range("beta", beta, -1.0, 1.0, rule="in [-1, 1]")
        validation.require_in_range("kappa", kappa, 0.0, rule=">= 0 and finite")
    shape = validation.broadcast(xi.shape, beta.shape, kappa.shape)
    xi, beta, kappa = (a.detach().double().expand(shape) for a in (xi, beta, kappa))
    if not upper:
        xi, beta = -xi, -beta
    total = _log_upper_tail(xi.unsqueeze(-1), beta.unsqueeze(-1), kappa.unsqueeze(-1), p)
    total = torch.where(xi <= -1, 0.0, torch.where(xi >= 1, -math.inf, total.clamp_max(0)))
    return total.to(dtype)


def _log_upper_tail(xi: Tensor, beta: Tensor, kappa: Tensor, p: int) -> Tensor:
    """Compute the upper tail [...] for arguments [..., 1]; the last dimension holds the nodes."""
    law = _Law(p, kappa * beta, kappa * ((1 - beta) * (1 + beta)).sqrt())
    last = xi.clamp(-1, 1).acos()
    _, peak = enclose(lambda psi: law.slope(psi) > 0, torch.zeros_like(last), last)
    peak = torch.where(law.slope(last) > 0, last, peak)
    floor = law.log_density(peak) - DEPTH
    low, _ = enclose(lambda psi: law.log_density(psi) < floor, torch.zeros_like(last), peak)
    _, high = enclose(lambda psi: law.log_density(psi) >= floor, peak, last)
    nodes, weights = (a.to(xi) for a in gauss_legendre())
    psi = torch.cat([low + (peak - low) * nodes, peak + (high - peak) * nodes], -1)
    weight = torch.cat([(peak - low) * weights, (high - peak) * weights], -1)
    total = torch.logsumexp(law.log_density(psi) + weight.log(), -1)
    log_beta = math.lgamma(0.5) + math.lgamma((p - 1) / 2) - math.lgamma(p / 2)
    return total - log_beta - _log_average(p / 2 - 1, kappa).squeeze(-1)


class _Law:
    """The density of the angle psi between X and n, up to its constant; unimodal."""

    def __init__(self, p: int, along: Tensor, across: Tensor) -> None:
        self.p, self.along, self.across = p, along, across

    def log_density(self, psi: Tensor) -> Tensor:
        sin, cos = psi.sin().clamp_min(0), psi.cos()
        x = self.across * sin
        total = (self.p - 2) * sin.log() + self.along * cos
        return total + _log_average((self.p - 3) / 2, x)

    def slope(self, psi: Tensor) -> Tensor:
        """The derivative of `log_density`, times sin(psi)."""
        sin, cos = psi.sin().clamp_min(0), psi.cos()
        R = ratio((self.p - 3) / 2, self.across * sin, 0)
        return (self.p - 2) * cos + sin * (self.across * cos * R - self.along * sin)


def _log_average(m: float, x: Tensor) -> Tensor:
    r""":math:`\log\phi^*_m(x)=\log\mathbb E e^{x e^\top V}`, V uniform in dimension 2m + 2."""
    return ratio_integral(m, torch.zeros_like(x), x)


def log_plane_tail(bound: Callable[[Tensor], Tensor], c: float, kappa: float, p: int) -> float:
    r"""The logarithm of :math:`\Pr(m^\top X\ge bound(\mu^\top X))`, m a unit vector.

    Args:
        bound: A continuous function of float64 cosines [n]; -inf is always reached, inf never.
        c: Cosine :math:`\mu^\top m`.
        kappa: Concentration of :math:`X\sim\mathrm{vMF}_p(\mu,\kappa)`.
        p: Dimension >= 3.

    Returns:
        The log probability, at most 0.
    """
    s = math.sqrt((1 - c) * (1 + c))

    def above(theta: Tensor) -> Tensor:
        """The distance of the other cosine from the bound at W = 0."""
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
    ends = [low, *_breaks(above, s, low, high), high]
    parts = []
    nodes, weights = _tanh_sinh()
    for a, b in pairwise(ends):
        if b > a:
            theta = a + (b - a) * nodes
            parts.append(log_integrand(theta) + (weights * (b - a)).log())
    log_beta = math.lgamma(0.5) + math.lgamma((p - 1) / 2) - math.lgamma(p / 2)
    zero, at = torch.zeros((), dtype=torch.float64), torch.tensor(kappa, dtype=torch.float64)
    log_mass = float(ratio_integral(p / 2 - 1, zero, at)) - kappa + log_beta
    return min(0.0, float(torch.logsumexp(torch.cat(parts), 0)) - log_mass)


def _log_tail(above: Tensor, width: Tensor, p: int) -> Tensor:
    """The logarithm of the probability that width * W >= above."""
    w = torch.where(width > 0, above / width, torch.where(above > 0, math.inf, -math.inf))
    # The angle of the smaller of the two tails; the density of an angle phi is sin(phi)^(p-3).
    psi = w.abs().clamp_max(1).acos().unsqueeze(-1)
    low = (psi.sin() * math.exp(-DEPTH / (p - 3) if p > 3 else -math.inf)).asin()
    nodes, weights = gauss_legendre()
    phi = low + (psi - low) * nodes
    values = torch.xlogy(torch.tensor(p - 3.0), phi.sin()) + ((psi - low) * weights).log()
    log_beta = math.lgamma(0.5) + math.lgamma((p - 2) / 2) - math.lgamma((p - 1) / 2)
    small = torch.logsumexp(values, -1) - log_beta
    return torch.where(w >= 0, small, torch.log1p(-small.exp().clamp_max(0.5)))


def _breaks(above: Callable[[Tensor], Tensor], s: float, low: float, high: float) -> list[float]:
    """The angles at which W = 1 or W = -1 just reaches the bound, where the tail of W begins or
    ends."""
    breaks = []
    grid = torch.linspace(low, high, GRID, dtype=torch.float64)
    for sign in (1.0, -1.0):

        def within(theta: Tensor, sign: float = sign) -> Tensor:
            return above(theta) < sign * s * theta.sin()

        inside = within(grid)
        at = (inside[1:] != inside[:-1]).nonzero().squeeze(-1)
        if not len(at):
            continue
        first, left, right = (a.unsqueeze(-1) for a in (inside[at], grid[at], grid[at + 1]))
        # Twice, to full precision: if the spread of W vanishes, the integrand jumps at a break.
        for _ in range(2):
            left, right = enclose(lambda x, y=first: within(x) == y, left, right)
        breaks += left.flatten().tolist()
    return sorted(breaks)


def enclose(holds: Callable[[Tensor], Tensor], low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Enclose the point at which a condition stops to hold: bounds [..., 1]."""
    cut = torch.linspace(0, 1, SECTIONS + 1, dtype=low.dtype, device=low.device)
    for _ in range(ROUNDS):
        points = low + (high - low) * cut
        # The ends are not evaluated: a density may be zero there, or the condition just met.
        last = holds(points[..., 1:-1]).cumprod(-1).sum(-1, keepdim=True)
        low, high = points.gather(-1, last), points.gather(-1, last + 1)
    return low, high


@cache
def gauss_legendre() -> tuple[Tensor, Tensor]:
    """Return nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return torch.from_numpy((1 + nodes) / 2), torch.from_numpy(weights / 2)


@cache
def _tanh_sinh() -> tuple[Tensor, Tensor]:
    """Return nodes and weights on [0, 1], dense at the ends, where an integrand may be singular."""
    t = np.arange(-round(REACH / STEP), round(REACH / STEP) + 1) * STEP
    u = math.pi * np.sinh(t)
    nodes = 1 / (1 + np.exp(-u))
    weights = STEP * math.pi * np.cosh(t) * nodes / (1 + np.exp(u))
    return torch.from_numpy(nodes), torch.from_numpy(weights)


def tail_dimension(p: int) -> int:
    """Return ``p`` as an int; raise unless p >= 3, where nu > 0."""
    p = validation.dimension(p)
    if p < 3:
        raise ValueError(f"expected p >= 3 (nu > 0), got {p}")
    return p
