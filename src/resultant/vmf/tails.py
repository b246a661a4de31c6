"""Tail probabilities of a von Mises-Fisher vector, of a projection and in the plane of two
directions, by one integral in log space."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.validation import Number
from resultant.special.differences import gauss_legendre
from resultant.special.ratio import complement_integral, ratio, ratio_integral

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


def log_projection_tail(xi: Number, beta: Number, kappa: Number, p: int, *, upper: bool) -> Tensor:
    r"""The log probability of a tail of :math:`n^\top X`, :math:`X\sim\mathrm{vMF}_p(\mu,\kappa)`.

    With psi the angle of X to n and V the uniform direction of X across n, the factor
    :math:`e^{\kappa\alpha\sin\psi\,e^\top V}` of the density averages to a Bessel function:

    .. math:: f(\psi) \propto \sin^{p-2}\psi\; e^{\kappa\beta\cos\psi}\;
        \phi^*_{\nu-1/2}(\kappa\alpha\sin\psi), \qquad
        \log\phi^*_m(x) = \int_0^x R_m(s)\,ds.

    The tail is beyond :math:`\xi` if ``upper``, else below, for the cosine :math:`\beta=\mu^\top n`
    and p >= 3. The error of the logarithm is about :math:`10^{-15}(p+\kappa)`. No gradients.
    """
    p = tail_dimension(p)
    (xi, beta, kappa), dtype = validation.tensors(xi=xi, beta=beta, kappa=kappa)
    if validation.should_validate(None, xi, beta, kappa):
        validation.require_in_range("xi", xi, -math.inf, rule="finite", open_low=True)
        validation.require_in_range("beta", beta, -1.0, 1.0, rule="in [-1, 1]")
        validation.require_in_range("kappa", kappa, 0.0, rule=">= 0 and finite")
    shape = validation.broadcast(xi.shape, beta.shape, kappa.shape)
    # The last dimension is that of the nodes.
    xi, beta, kappa = (a.detach().double().expand(shape).unsqueeze(-1) for a in (xi, beta, kappa))
    if not upper:
        xi, beta = -xi, -beta
    along, across = kappa * beta, kappa * ((1 - beta) * (1 + beta)).sqrt()

    def log_density(psi: Tensor) -> Tensor:
        """Compute the log density of the angle psi between X and n, up to its constant."""
        sin, x = psi.sin().clamp_min(0), across * psi.sin().clamp_min(0)
        average = ratio_integral((p - 3) / 2, torch.zeros_like(x), x)
        return (p - 2) * sin.log() + along * psi.cos() + average

    def rises(psi: Tensor) -> Tensor:
        sin, cos = psi.sin().clamp_min(0), psi.cos()
        R = ratio((p - 3) / 2, across * sin)
        return (p - 2) * cos + sin * (across * cos * R - along * sin) > 0

    last = xi.clamp(-1, 1).acos()
    _, peak = enclose(rises, torch.zeros_like(last), last)
    floor = log_density(peak) - DEPTH
    low, _ = enclose(lambda psi: log_density(psi) < floor, torch.zeros_like(last), peak)
    _, high = enclose(lambda psi: log_density(psi) >= floor, peak, last)
    nodes, weights = torch.tensor(gauss_legendre(NODES), dtype=xi.dtype, device=xi.device).T
    psi = torch.cat([low + (peak - low) * nodes, peak + (high - peak) * nodes], -1)
    weight = torch.cat([(peak - low) * weights, (high - peak) * weights], -1)
    total = torch.logsumexp(log_density(psi) + weight.log(), -1, keepdim=True)
    log_beta = math.lgamma(0.5) + math.lgamma((p - 1) / 2) - math.lgamma(p / 2)
    average = ratio_integral(p / 2 - 1, torch.zeros_like(kappa), kappa)
    total = (total - log_beta - average).clamp_max(0)
    total = torch.where(xi <= -1, 0.0, torch.where(xi >= 1, -math.inf, total))
    return total.squeeze(-1).to(dtype)


def log_plane_tail(bound: Callable[[Tensor], Tensor], c: float, kappa: float, p: int) -> float:
    r"""Compute :math:`\log\Pr(m^\top X\ge bound(\mu^\top X))` of a vMF vector X in p >= 3
    dimensions with :math:`m^\top\mu=c`; the bound is continuous in the cosines, or infinite.

    At the angle :math:`\theta` to its mean direction, X has the cosine
    :math:`c\cos\theta+s\sin\theta\,W` to m, with W a coordinate of a uniform direction in p - 1
    dimensions.
    """
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


def enclose(holds: Callable[[Tensor], Tensor], low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Enclose the point at which a condition stops to hold: bounds [..., 1]."""
    cut = torch.linspace(0, 1, SECTIONS + 1, dtype=low.dtype, device=low.device)
    for _ in range(ROUNDS):
        points = torch.lerp(low, high, cut)
        # The ends are not evaluated: a density may be zero there, or the condition just met.
        last = holds(points[..., 1:-1]).cumprod(-1).sum(-1, keepdim=True)
        low, high = points.gather(-1, last), points.gather(-1, last + 1)
    return low, high


def tail_dimension(p: int) -> int:
    """Return ``p`` as an int; raise unless p >= 3, where nu > 0."""
    p = validation.dimension(p)
    if p < 3:
        raise ValueError(f"expected p >= 3 (nu > 0), got {p}")
    return p
