r"""Posterior thresholds on short arcs: boundaries that depend on all classes."""

from __future__ import annotations

import math
from numbers import Real

import torch
from torch import Tensor

from resultant._core.arrays import normalized
from resultant._core.validation import Check
from resultant.classes.cosines import cosines
from resultant.classes.realization import Realization
from resultant.decisions.boundaries import ArcRoots, arc_angles, solve

# Prototypes whose angle is this close to pi have no defined short arc.
OPPOSITE = 1e-6


@torch.no_grad()
def posterior_thresholds(
    realization: Realization, pairs: Tensor, level: float = 0.5, *, validate_args: Check = None
) -> ArcRoots:
    r"""Find where :math:`P_a` crosses a level on the short arc from a to b, given all classes.

    The equation is :math:`s_a-\log\sum_{j\ne a}e^{s_j}=\log(level/(1-level))`. Unlike the boundary
    of a pair, the threshold depends on the competitors (sec:softmax-geometry).

    Args:
        realization, pairs: Scores in float64, and pairs whose prototypes are not opposite.
        level: Probability in (0, 1).

    Example:
        >>> state = ClassState(torch.eye(3), torch.tensor([1.0, 2.0, 4.0]), torch.ones(3))
        >>> posterior_thresholds(realize(state, Rule(0.5)), torch.tensor([[0, 1]])).status
        ['none']
    """
    theta = arc_angles(realization, pairs, validate_args)
    if isinstance(level, bool) or not isinstance(level, Real) or not 0 < level < 1:
        raise ValueError(f"expected level in (0, 1), got {level!r}")
    mu = normalized(realization.mu)
    for i in (theta > math.pi - OPPOSITE).nonzero().flatten().tolist()[:1]:
        rule = f"expected pairs at an angle below pi - {OPPOSITE:g}"
        raise ValueError(f"{rule}, got {float(theta[i]):.9g} at index {i}")
    bar = math.log(level) - math.log1p(-level)

    def margin(u: Tensor, which: Tensor) -> Tensor:
        a, b = pairs[which].T
        angle = theta[which]
        v, w = (x.sin().unsqueeze(-1) / angle.sin().unsqueeze(-1) for x in (angle - u, u))
        # Cosines [K, P, C] of every class with the location, exact for a and b.
        rho = v * cosines(mu[a], mu) + w * cosines(mu[b], mu)
        own, other = (i.expand(u.shape).unsqueeze(-1) for i in (a, b))
        rho.scatter_(-1, other, (angle - u).cos().unsqueeze(-1))
        rho.scatter_(-1, own, u.cos().unsqueeze(-1))
        scores = realization.at(rho)
        mine = scores.gather(-1, own).squeeze(-1)
        return mine - scores.scatter_(-1, own, -math.inf).logsumexp(-1) - bar

    falling = torch.zeros_like(theta, dtype=torch.bool)
    return ArcRoots(theta, *solve(margin, theta, falling, width=len(mu)))
