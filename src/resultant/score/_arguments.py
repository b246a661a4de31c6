"""Arguments of a score as tensors, and the validation of their values."""

from __future__ import annotations

import math
from dataclasses import dataclass

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


@dataclass(frozen=True)
class ScoreSpec:
    """The arguments of a score that are not tensors."""

    p: int
    validate: bool | None
    tolerance: float  # by how much rounding may take |rho| above one


def score_arguments(
    rho: Number, kappa: Number, tau: Number, p: int, validate_args: bool | None
) -> tuple[list[Tensor], ScoreSpec, torch.dtype]:
    """Return rho, kappa and tau as tensors, the rest as `ScoreSpec`, and the result's dtype."""
    (rho, kappa, tau), dtype = tensors(rho=rho, kappa=kappa, tau=tau)
    p = dimension(p, rho.dtype)
    # A product of two unit vectors carries the rounding of its sum and that of its storage.
    tolerance = (8 + math.sqrt(p)) * torch.finfo(rho.dtype).eps
    if dtype != rho.dtype:
        tolerance += 2 * torch.finfo(dtype).eps
    return [rho, kappa, tau], ScoreSpec(p, validate_args, tolerance), dtype


def validate_score(rho: Tensor, kappa: Tensor, tau: Tensor, options: ScoreSpec) -> None:
    """Raise unless the values of a score's arguments are in range, where they are validated."""
    if not should_validate(options.validate, rho, kappa, tau):
        return
    limit = 1 + options.tolerance
    require_in_range("rho", rho, -limit, limit, rule="in [-1, 1]")
    require_in_range("kappa", kappa, 0.0, rule=">= 0 and finite")
    require_in_range("tau", tau, 0.0, rule="> 0 and finite", open_low=True)
    most, least = LIMITS[rho.dtype]
    require_in_range("kappa", kappa, 0.0, most, rule=f"<= {most:g} in {rho.dtype}")
    require_in_range("tau", tau, least, rule=f">= {least:g} in {rho.dtype}")
    most = temperature_range(rho.dtype)[1]
    require_in_range("tau", tau, least, most, rule=f"<= {most:g} in {rho.dtype}")
