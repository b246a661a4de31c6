"""Arguments of a score as tensors, and the validation of their values."""

from __future__ import annotations

import math
from typing import TypeGuard

import torch
from torch import Tensor

from resultant._core.autograd import is_constant
from resultant._core.validation import (
    Number,
    dimension,
    largest_order,
    require_in_range,
    should_validate,
    tensors,
)
from resultant.score.limits import LIMITS, temperature_range
from resultant.special import compiled


def score_arguments(
    rho: Number, kappa: Number, tau: Number, p: int
) -> tuple[list[Tensor], int, torch.dtype]:
    """Return rho, kappa and tau as tensors, p as an int, and the dtype of the result."""
    arguments, dtype = tensors(rho=rho, kappa=kappa, tau=tau)
    return arguments, dimension(p, arguments[0].dtype), dtype


# Above this size the elements take most of the time of a call.
SMALL = 4096


def small_call(
    rho: Number, kappa: Number, tau: Number, p: int, validate: bool | None, slope: bool
) -> tuple[Tensor, Tensor] | None:
    """Compute the score and its slope of few elements by one call of the compiled kernel.

    Returns:
        The score and, if ``slope``, its slope (else an empty tensor); None if the arguments need a
        conversion, a derivative or an error.
    """
    if type(p) is not int or not compiled.available():
        return None
    if _is_number(rho) and _is_number(kappa) and _is_number(tau):
        rho = torch.full((), rho, dtype=torch.float64, device="cpu")
    if type(rho) is not Tensor or rho.dtype not in LIMITS or not rho.numel() <= SMALL:
        return None
    dtype, shape = rho.dtype, rho.shape
    kappa, tau = (rho.new_full((), a) if _is_number(a) else a for a in (kappa, tau))
    if type(kappa) is not Tensor or type(tau) is not Tensor:
        return None
    if not kappa.dtype == tau.dtype == dtype:
        return None
    for a in (kappa, tau):
        if a.dim() and a.shape != shape:
            return None
    if not (compiled.available(rho, kappa, tau) and is_constant(rho, kappa, tau)):
        return None
    if not 2 <= p <= largest_order(dtype):
        return None
    if validate is not False:
        rho, kappa, tau = rho.contiguous(), kappa.contiguous(), tau.contiguous()
        limit, (most, least) = _largest_cosine(p, dtype), LIMITS[dtype]
        if not (
            compiled.inside(rho, -limit, limit)
            and compiled.inside(kappa, 0.0, most)
            and compiled.inside(tau, least, temperature_range(dtype)[1])
        ):
            return None
    return compiled.score(rho, kappa, tau, p, slope)


def _is_number(a: Number) -> TypeGuard[float]:
    # Not a bool, which is an error.
    return type(a) is float or type(a) is int


def _largest_cosine(p: int, dtype: torch.dtype) -> float:
    # A product of two unit vectors carries the rounding of its sum.
    return 1 + (8 + math.sqrt(p)) * torch.finfo(dtype).eps


def validated_arguments(
    rho: Number, kappa: Number, tau: Number, p: int, validate: bool | None
) -> tuple[list[Tensor], int, torch.dtype]:
    """Return `score_arguments`; raise unless values are in range, where they are checked."""
    (rho, kappa, tau), p, dtype = score_arguments(rho, kappa, tau, p)
    if should_validate(validate, rho, kappa, tau):
        limit = _largest_cosine(p, rho.dtype)
        if dtype != rho.dtype:  # and that of its storage
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
