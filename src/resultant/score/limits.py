"""Arguments of a score as tensors, and their limits: the largest kappa, and the temperatures."""

import math
from numbers import Real

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.arrays import shape_of
from resultant._core.limits import SINGLE, limits
from resultant._core.validation import Number, require_in_range, require_within

# The largest kappa of a class, in every dtype: queries in float32 may be scored against any class.
LARGEST_KAPPA = SINGLE.kappa


def temperature_range(dtype: torch.dtype) -> tuple[float, float]:
    """Return the smallest and the largest tau at which scores in ``dtype`` can be compared."""
    own = limits(dtype)
    return own.least_compared_tau, own.most_tau


def require_comparable(name: str, tau: Number, dtype: torch.dtype) -> None:
    """Raise unless scores in ``dtype`` can be compared at ``tau``; reads the values of ``tau``."""
    require_within(name, tau, *temperature_range(dtype), "> 0 and finite", dtype)


def require_temperature(
    tau: Number,
    num_classes: int,
    device: torch.device,
    validate: bool | None,
    *,
    dtype: torch.dtype = torch.float64,
    name: str = "tau",
) -> Tensor:
    """Return tau, a number or [C], as float64 on the device; raise unless `require_comparable`."""
    if isinstance(tau, Real) and not isinstance(tau, bool):
        require_comparable(name, float(tau), dtype)
        # Filled on the device: a copy from the host would synchronise.
        return torch.full((), float(tau), dtype=torch.float64, device=device)
    value = validation.tensors(**{name: tau})[0][0]
    if value.dim() and value.shape != (num_classes,):
        raise ValueError(f"expected {name} to be a number or [{num_classes}], got {shape_of(tau)}")
    if validation.should_validate(validate, tau):
        require_comparable(name, value, dtype)
    return value.to(device=device, dtype=torch.float64)


def validated_arguments(
    rho: Number, kappa: Number, tau: Number, p: int, validate: bool | None
) -> tuple[list[Tensor], int, torch.dtype]:
    """Return rho, kappa and tau as tensors in range, p as an int, and the dtype of the result."""
    values, dtype = validation.tensors(rho=rho, kappa=kappa, tau=tau)
    compute = values[0].dtype
    p = validation.dimension(p, compute)
    if validation.should_validate(validate, *values):
        # Numbers are compared as they are given, without a tensor.
        pairs = zip((rho, kappa, tau), values, strict=True)
        given = [b if isinstance(a, Tensor) else a for a, b in pairs]
        # A product of two unit vectors carries the rounding of its sum, and of its storage.
        limit = 1 + (8 + math.sqrt(p)) * torch.finfo(compute).eps
        limit += 2 * torch.finfo(dtype).eps if dtype != compute else 0.0
        require_in_range("rho", given[0], -limit, limit, rule="in [-1, 1]")
        own = limits(compute)
        require_within("kappa", given[1], 0.0, own.kappa, ">= 0 and finite", compute)
        require_within("tau", given[2], own.least_tau, own.most_tau, "> 0 and finite", compute)
    return values, p, dtype
