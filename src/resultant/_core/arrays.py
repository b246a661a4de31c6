"""What functions of features and labels ask of them, and how they go through them in pieces."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import constraints

from resultant._core import validation
from resultant._core.chunks import feature_slices
from resultant._core.validation import COMPUTE_DTYPE


class _UnitVector(constraints.Constraint):
    """Norm one, up to what normalising in float32 and rounding to the dtype leave."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        excess, tolerance = self.excess(value)
        return excess.abs() <= tolerance

    def excess(self, x: Tensor) -> tuple[Tensor, float]:
        """``|x| - 1``, and how far from zero it may be."""
        # A sum, whose rounding grows less with p than that of torch.linalg.vector_norm.
        norm = x.to(COMPUTE_DTYPE[x.dtype]).square().sum(-1).sqrt()
        rounding = (8 + math.sqrt(x.shape[-1])) * torch.finfo(torch.float32).eps
        return norm - 1, rounding + 2 * torch.finfo(x.dtype).eps

    def require(self, name: str, x: Tensor) -> None:
        self.refuse(name, *self.excess(x))

    def refuse(self, name: str, excess: Tensor, tolerance: float) -> None:
        """Raise unless an `excess` is within its tolerance."""
        rule = f"within {tolerance:.1e} of zero"
        # What was of unit length in half precision no longer is in float32.
        remedy = "normalize after casting to float32"
        validation.require_in_range(
            f"|{name}| - 1", excess, -tolerance, tolerance, rule=rule, remedy=remedy
        )


unit_vector = _UnitVector()


def require_features(z: Tensor, dim: int, device: torch.device, validate: bool | None) -> None:
    """Raise unless ``z`` is [N, dim] on the device, of unit vectors where values are looked at."""
    if not isinstance(z, Tensor) or z.dim() != 2 or z.shape[1] != dim:
        raise ValueError(f"expected z [N, {dim}], got {shape_of(z)}")
    if z.dtype not in validation.COMPUTE_DTYPE:
        raise ValueError(f"expected z of a floating dtype, got {z.dtype}")
    if z.device != device:
        raise ValueError(f"expected z on {device}, got it on {z.device}")
    if len(z) and validation.should_validate(validate, z):
        excess = torch.cat([unit_vector.excess(z[rows].detach())[0] for rows in feature_slices(z)])
        unit_vector.refuse("z", excess, unit_vector.excess(z[:1].detach())[1])


def require_labels(
    y: Tensor,
    length: int,
    number: int,
    device: torch.device,
    validate: bool | None,
    name: str = "y",
) -> None:
    """Raise unless ``y`` is [length] int64 on the device, and in [0, number)."""
    if not isinstance(y, Tensor) or y.dim() != 1 or len(y) != length:
        raise ValueError(f"expected {name} [{length}], one a row of z, got {shape_of(y)}")
    if y.dtype != torch.int64:
        raise ValueError(f"expected {name} of dtype torch.int64, got {y.dtype}")
    if y.device != device:
        raise ValueError(f"expected {name} on {device}, got it on {y.device}")
    if not validation.should_validate(validate, y):
        return
    bad = (y < 0) | (y >= number)
    if bad.any():
        i = int(bad.nonzero()[0])
        raise ValueError(f"expected {name} in [0, {number}), got {int(y[i])} at index {i}")


def shape_of(a: object) -> str:
    return f"shape {tuple(a.shape)}" if isinstance(a, Tensor) else type(a).__name__


def normalized(z: Tensor) -> Tensor:
    """Vectors of about unit length, at unit length in float64."""
    x = z.double()
    return x / _lengths(x)


def directions(z: Tensor) -> tuple[Tensor, Tensor]:
    """Rows ``z`` [N, p] of any length as float64 unit vectors, and their lengths [N] up to factors:
    zero for a row of zeros, which stays as it is, and not finite where the row is not."""
    x = z.double()
    if z.dtype == torch.float64:
        # By the largest entry first: the squares might be beyond float64.
        x = x / _or_one(x.abs().amax(-1, keepdim=True))
    length = _lengths(x)
    return x / _or_one(length), length.squeeze(-1)


def _lengths(x: Tensor) -> Tensor:
    return x.square().sum(-1, keepdim=True).sqrt()


def _or_one(a: Tensor) -> Tensor:
    return torch.where(a == 0, 1.0, a)
