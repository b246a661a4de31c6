"""Checks of features and labels, and normalization of rows."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributions import constraints

from resultant._core import memory, validation
from resultant._core.validation import COMPUTE_DTYPE, Check


class _UnitVector(constraints.Constraint):
    """Norm one, up to the rounding of a normalization in float32 and of the dtype."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (self._squares(value).sqrt() - 1).abs() <= self._tolerance(value)

    def require(self, name: str, x: Tensor) -> None:
        """Raise unless the vectors ``x`` [..., p] are of unit length."""
        tolerance = self._tolerance(x)
        if x.dim() == 2 and 8 * x.numel() > memory.FEATURE_BYTES:
            square = torch.cat([self._squares(x[rows]) for rows in memory.feature_slices(x)])
        else:
            square = self._squares(x)
        if not validation.is_inside(square, (1 - tolerance) ** 2, (1 + tolerance) ** 2):
            # Vectors of unit length in half precision are not of unit length in float32.
            remedy = "normalize after casting to float32; zeros have no direction"
            about, rule, t = f"{name} of length", f"1 within {tolerance:.1e}", tolerance
            validation.require_in_range(
                about, square.sqrt(), 1 - t, 1 + t, rule=rule, remedy=remedy, digits=8
            )

    def _squares(self, x: Tensor) -> Tensor:
        # The rounding of a sum grows less with p than that of torch.linalg.vector_norm.
        return validation.as_dtype(x, COMPUTE_DTYPE[x.dtype]).square().sum(-1)

    def _tolerance(self, x: Tensor) -> float:
        return (8 + math.sqrt(x.shape[-1])) * 2.0**-23 + 2 * torch.finfo(x.dtype).eps


unit_vector = _UnitVector()


def require_features(z: Tensor, dim: int, device: torch.device, validate: Check) -> None:
    """Raise unless ``z`` is [N, dim] on the device; validated values must be unit vectors."""
    if not isinstance(z, Tensor) or z.dim() != 2 or z.shape[1] != dim:
        raise ValueError(f"expected z [N, {dim}], got {shape_of(z)}")
    if z.dtype not in validation.COMPUTE_DTYPE:
        raise ValueError(f"expected z of a floating dtype, got {z.dtype}")
    if z.device != device:
        raise ValueError(f"expected z on {device}, got z on {z.device}")
    if validation.should_validate(validate, z):
        unit_vector.require("z", z)


def require_labels(
    y: Tensor, length: int, number: int, device: torch.device, validate: Check, name: str = "y"
) -> None:
    """Raise unless ``y`` is [length] int64 on the device; validated values are in [0, number)."""
    if isinstance(y, Tensor) and y.is_floating_point() and y.dim() == 2:
        raise ValueError(
            f"expected {name} [N] of class indices, got soft labels ({y.dtype}, {shape_of(y)}): a "
            "mixed sample is a sample of no class, and would move the statistics of several; use "
            "unmixed samples"
        )
    if not isinstance(y, Tensor) or y.dim() != 1 or y.shape[0] != length:
        raise ValueError(f"expected {name} [{length}], one per row of z, got {shape_of(y)}")
    if y.dtype != torch.int64:
        raise ValueError(f"expected {name} of dtype torch.int64, got {y.dtype}")
    if y.device != device:
        raise ValueError(f"expected {name} on {device}, got {name} on {y.device}")
    if not validation.should_validate(validate, y):
        return
    y = validation.values_of(y)
    bad = (y < 0) | (y >= number)
    if bad.any():
        i = int(bad.nonzero()[0, 0])
        raise ValueError(f"expected {name} in [0, {number}), got {int(y[bad][0])} at index {i}")


Weights = Tensor | Sequence[float]


def float64_weights(
    weights: Weights | None, z: Tensor, validate: Check, *, batches: bool = False
) -> Tensor:
    """Return ``weights`` [N] of the vectors z [..., N, p] in float64, by default one: real numbers
    >= 0 of any dtype or a list; [..., N] if there may be ``batches``."""
    number = z.shape[-2]
    if weights is None:
        return z.new_ones(number, dtype=torch.float64)
    given = weights if isinstance(weights, Tensor) else torch.as_tensor(weights, device=z.device)
    if given.is_complex():
        raise ValueError(f"expected weights of real numbers, got {given.dtype}")
    if (given.dim() != 1 and not (batches and given.dim())) or given.shape[-1] != number:
        shape = f"[..., {number}]" if batches else f"[{number}]"
        raise ValueError(f"expected weights {shape}, one per vector, got {shape_of(given)}")
    if given.device != z.device:
        raise ValueError(f"expected weights on {z.device}, got weights on {given.device}")
    given = given.double()
    if validation.should_validate(validate, given):
        validation.require_in_range("weights", given, 0.0, rule=">= 0 and finite")
    return given


def shape_of(a: object) -> str:
    """Describe an argument in an error: the shape of a tensor, or the type of anything else."""
    return f"shape {tuple(a.shape)}" if isinstance(a, Tensor) else type(a).__name__


def normalized(z: Tensor) -> Tensor:
    """Normalize vectors of nearly unit length in float64; a vector of zeros stays as it is."""
    x = z.double()
    length = x.square().sum(-1, keepdim=True).sqrt()
    return x / length.masked_fill(length == 0, 1.0)


def directions(z: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows z [N, p] as float64 unit vectors, and a scaled length [N], zero for zero rows."""
    x = z.double()
    if z.dtype == torch.float64:
        # Divide by the largest entry first: the squares may overflow float64.
        most = x.abs().amax(-1, keepdim=True)
        x = x / torch.where(most == 0, 1.0, most)
    length = x.square().sum(-1, keepdim=True).sqrt()
    return x / torch.where(length == 0, 1.0, length), length.squeeze(-1)
