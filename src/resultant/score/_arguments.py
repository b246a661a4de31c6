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
from resultant.score.limits import LIMITS, temperature_range


def score_arguments(
    rho: Number, kappa: Number, tau: Number, p: int
) -> tuple[list[Tensor], int, torch.dtype]:
    """Return rho, kappa and tau as tensors, p as an int, and the dtype of the result."""
    arguments, dtype = tensors(rho=rho, kappa=kappa, tau=tau)
    return arguments, dimension(p, arguments[0].dtype), dtype


def validated_arguments(
    rho: Number, kappa: Number, tau: Number, p: int, validate: bool | None
) -> tuple[list[Tensor], int, torch.dtype]:
    """Return `score_arguments`; raise unless values are in range, where they are checked."""
    (rho, kappa, tau), p, dtype = score_arguments(rho, kappa, tau, p)
    if should_validate(validate, rho, kappa, tau):
        # A product of two unit vectors carries the rounding of its sum and that of its storage.
        limit = 1 + (8 + math.sqrt(p)) * torch.finfo(rho.dtype).eps
        if dtype != rho.dtype:
            limit += 2 * torch.finfo(dtype).eps
        require_in_range("rho", rho, -limit, limit, rule="in [-1, 1]")
        require_in_range("kappa", kappa, 0.0, rule=">= 0 and finite")
        require_in_range("tau", tau, 0.0, rule="> 0 and finite", open_low=True)
        most, least = LIMITS[rho.dtype]
        require_in_range("kappa", kappa, 0.0, most, rule=f"<= {most:g} in {rho.dtype}")
        require_in_range("tau", tau, least, rule=f">= {least:g} in {rho.dtype}")
        most = temperature_range(rho.dtype)[1]
        require_in_range("tau", tau, least, most, rule=f"<= {most:g} in {rho.dtype}")
    return [rho, kappa, tau], p, dtype
