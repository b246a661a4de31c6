"""Tail probabilities of projections of a von Mises-Fisher vector, by one integral in log space."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.validation import Number
from resultant.special.differences import gauss_legendre
from resultant.special.ratio import ratio, ratio_integral

# A tail is integrated to where its density has fallen by exp(-DEPTH) from its peak, with NODES
# Gauss-Legendre nodes on either side of the peak.
DEPTH = 45.0
NODES = 80

# Roots are enclosed by cutting an interval into SECTIONS, ROUNDS times.
SECTIONS = 16
ROUNDS = 7


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
    peak = torch.where(rises(last), last, peak)
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


def enclose(holds: Callable[[Tensor], Tensor], low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Enclose the point at which a condition stops to hold: bounds [..., 1]."""
    cut = torch.linspace(0, 1, SECTIONS + 1, dtype=low.dtype, device=low.device)
    for _ in range(ROUNDS):
        points = low + (high - low) * cut
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
