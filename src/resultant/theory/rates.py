r"""Limits of one projection of a vMF variable in high dimension: rate function and variance."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.validation import Number


def rate_function(xi: Number, lam: Number, beta: Number) -> Tensor:
    r"""Compute the rate of :math:`n^\top Z` for :math:`Z\sim\mathrm{vMF}_p(\mu,\nu\lambda)`.

    .. math:: I(\xi) = J(\lambda) - J(\lambda\alpha\sqrt{1-\xi^2}) - \lambda\beta\xi
        - \log(1-\xi^2), \qquad J(s) = \sqrt{1+s^2} - \log(1+\sqrt{1+s^2})

    (eq:rate-function) with :math:`\alpha^2+\beta^2=1`. The rate is convex, zero at
    :math:`r_0(\lambda)\beta` and infinite for :math:`|\xi|\ge1`.

    Args:
        xi, lam, beta: Projection, concentration over nu, and cosine :math:`\mu^\top n`.

    Returns:
        Rates.

    Example:
        >>> rate_function(0.0, 1.0, 1.0)
        tensor(0.2260, dtype=torch.float64)
    """
    (xi, lam, beta), dtype = validation.tensors(xi=xi, lam=lam, beta=beta)
    if validation.should_validate(None, xi, lam, beta):
        validation.require_in_range("xi", xi, -math.inf, rule="finite", open_low=True)
        validation.require_in_range("lam", lam, 0.0, rule=">= 0 and finite")
        validation.require_in_range("beta", beta, -1.0, 1.0, rule="in [-1, 1]")
    outside = xi.abs() >= 1
    xi = torch.where(outside, 0.0, xi)
    rest = (1 - xi) * (1 + xi)
    # J depends on s^2 only, so that no root has a derivative at zero.
    square = lam * lam * ((1 - beta) * (1 + beta)) * rest
    root, start = (1 + square).sqrt(), (1 + lam * lam).sqrt()
    rise = (lam * lam - square) / (start + root)  # start - root
    rate = rise - torch.log1p(rise / (1 + root)) - lam * beta * xi - rest.log()
    return torch.where(outside, math.inf, rate).to(dtype)


def projection_variance(lam: Number, along: Number, across: Number) -> Tensor:
    r"""Compute the limit of nu times the variance of :math:`v^\top Z` (eq:projection-clt),
    :math:`\sigma^2_\lambda(v)=r_0'(\lambda)\,along^2 + \tfrac12(1-r_0(\lambda)^2)\,across^2`.

    Args:
        lam, along, across: Concentration over nu, :math:`v^\top\mu`, and length of the rest of v.

    Returns:
        Variances.

    Example:
        >>> projection_variance(0.0, 1.0, 0.0)
        tensor(0.5000, dtype=torch.float64)
    """
    (lam, along, across), dtype = validation.tensors(lam=lam, along=along, across=across)
    if validation.should_validate(None, lam, along, across):
        validation.require_in_range("lam", lam, 0.0, rule=">= 0 and finite")
    # 1 - r^2 = 2/(1+S) and r' = 1/(S(1+S)), with S = sqrt(1+lam^2).
    S = (1 + lam * lam).sqrt()
    return ((along * along / S + across * across) / (1 + S)).to(dtype)
