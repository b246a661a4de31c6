"""Bounds on the rounding errors of scores."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from resultant._core.validation import COMPUTE_DTYPE
from resultant.classes.realization import Realization
from resultant.score.limits import LIMITS

# Roundings of a score and its arguments, without those of the product behind rho: the error of the
# score is at most 45 (float64) or 17 (float32) times max(|q|, |rho q'|); rounded kappa and tau
# add 3.
ROUNDINGS = 64


def score_error(realization: Realization, dtype: torch.dtype) -> Tensor:
    """Bound the errors [C] of scores that are computed for features of a dtype."""
    end = -torch.ones_like(realization.kappa)
    # q is concave in rho: an error of rho counts most at -1; |q| is at most t.
    steep = replace(realization, slope=None).slope_at(end)
    size = torch.zeros_like(end) if realization.tau is None else 1 / realization.tau
    if realization.slope is not None:
        size, steep = size + realization.slope.abs(), steep + realization.slope.abs()
    if realization.shift is not None:
        size = size + realization.shift.abs()
    eps = torch.finfo(COMPUTE_DTYPE[dtype]).eps
    roundings = realization.mu.shape[1] * steep + ROUNDINGS * (steep + size)
    error = eps * roundings + torch.finfo(dtype).eps * size
    # No bound for a score that is not finite.
    finite = (2 * size < torch.finfo(dtype).max) & (
        realization.kappa <= LIMITS[COMPUTE_DTYPE[dtype]][0]
    )
    return torch.where(finite, error, math.inf)
