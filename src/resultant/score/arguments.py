"""Arguments of a score as tensors, and the validation of their values."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from resultant._core.validation import (
    Number,
    dimension,
    require_in_range,
    should_validate,
    tensors,
)
from resultant.score.limits import LIMITS, require_within, temperature_range


def validated_arguments(
    rho: Number, kappa: Number, tau: Number, p: int, validate: bool | None
) -> tuple[list[Tensor], int, torch.dtype]:
    """Return rho, kappa and tau as tensors, p as an int, and the dtype of the result; raise unless
    values are in range, where they are checked."""
    values, dtype = tensors(rho=rho, kappa=kappa, tau=tau)
    compute = values[0].dtype
    p = dimension(p, compute)
    if should_validate(validate, *values):
        rho, kappa, tau = (
            b if isinstance(a, Tensor) else a
            for a, b in zip((rho, kappa, tau), values, strict=True)
        )
        # A product of two unit vectors carries the rounding of its sum, and of its storage.
        limit = 1 + (8 + math.sqrt(p)) * torch.finfo(compute).eps
        limit += 2 * torch.finfo(dtype).eps if dtype != compute else 0.0
        require_in_range("rho", rho, -limit, limit, rule="in [-1, 1]")
        largest, least = LIMITS[compute]
        require_within("kappa", kappa, 0.0, largest, ">= 0 and finite", compute)
        most = temperature_range(compute)[1]
        require_within("tau", tau, least, most, "> 0 and finite", compute)
    return values, p, dtype
