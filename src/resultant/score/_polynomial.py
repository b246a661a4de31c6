r"""Scores of many queries for the same classes, as one polynomial in rho per class.

For one class the slope :math:`\partial_\rho q` is analytic in rho up to its first pole, where
:math:`\tilde\kappa^2 = -j_{\nu,1}^2`, that is beyond
:math:`-b = -(\nu^2 + \kappa^2 + t^2)/(2\kappa t)`. The Chebyshev series of the slope on [-1, 1]
therefore decays like :math:`(b + \sqrt{b^2-1})^{-k}`: about eight terms in float64 at p = 1024,
tau = 0.1. The score is the integral of this polynomial from the exact q(0), so that score and slope
keep the relative accuracy of the slope.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from resultant.special.debye import horner

MAX_DEGREE = 20

# (rho, with slope) -> (q, slope)
Scorer = Callable[[Tensor, bool], tuple[Tensor, Tensor]]


def degree_for(kappa: Tensor, tau: Tensor, p: int, dtype: torch.dtype) -> int | None:
    """Return the degree that reaches the precision of ``dtype`` for every class, if small."""
    t, nu = 1 / tau.double(), p / 2 - 1
    kappa = kappa.double()
    b = float(((nu * nu + kappa * kappa + t * t) / (2 * kappa * t)).min())
    if not b > 1:
        return None
    degree = math.ceil(precision(dtype) / math.acosh(b))
    return max(degree, 2) if degree <= MAX_DEGREE else None


def precision(dtype: torch.dtype) -> float:
    """Return the logarithm by which the terms of a series have to fall, with a margin."""
    return -math.log(torch.finfo(dtype).eps / 1024)


class ScorePolynomial:
    """Polynomials built from the exact scores in float64 and evaluated in the dtype of rho."""

    def __init__(self, exact: Scorer, classes: int, degree: int, dtype: torch.dtype) -> None:
        nodes, to_chebyshev, to_powers = transforms(degree)
        q0, _ = exact(torch.zeros(1, classes, dtype=torch.float64), False)
        _, slopes = exact(nodes.unsqueeze(1).expand(-1, classes), True)
        # In two steps: the product of the two matrices is ill-conditioned.
        powers = to_powers @ (to_chebyshev @ slopes)
        self.slope = list(powers.to(dtype))
        counts = torch.arange(1, degree + 2, dtype=torch.float64).unsqueeze(1)
        self.score = [q0[0].to(dtype), *(powers / counts).to(dtype)]

    def __call__(self, rho: Tensor, slope: bool) -> tuple[Tensor, Tensor]:
        rho = rho.clamp(-1, 1)
        return horner(self.score, rho), horner(self.slope, rho) if slope else rho.new_empty(0)


@cache
def transforms(degree: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the Chebyshev nodes and the matrices from values at the nodes to Chebyshev
    coefficients, and from these to powers of rho."""
    n = degree + 1
    k = torch.arange(n)
    odd = 2 * k + 1
    # k times the angle of a node, reduced to one turn before rounding
    turns = (k.unsqueeze(1) * odd % (4 * n)).double() / (2 * n)
    to_chebyshev = torch.cos(turns * math.pi) * (2 / n)
    to_chebyshev[0] /= 2
    to_powers = torch.zeros(degree + 1, degree + 1, dtype=torch.float64)
    to_powers[0, 0] = 1
    to_powers[1, 1] = 1
    for j in range(2, n):
        to_powers[1:, j] = 2 * to_powers[:-1, j - 1]
        to_powers[:, j] -= to_powers[:, j - 2]
    return torch.cos(odd.double() / (2 * n) * math.pi), to_chebyshev, to_powers
