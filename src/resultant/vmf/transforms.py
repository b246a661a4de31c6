"""Transforms from unconstrained vectors to the unit sphere, registered for `unit_vector`.

``torch.distributions.transform_to`` normalizes vectors of R^p; ``biject_to`` is the stereographic
chart of R^(p-1), which misses the point -e_1 alone.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Transform, biject_to, constraints, transform_to

from resultant._core.arrays import unit_vector


class Normalization(Transform):
    """Vectors [..., p] without zero to their directions; the inverse is the direction itself."""

    domain = constraints.real_vector
    codomain = unit_vector  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Normalization)

    def _call(self, x: Tensor) -> Tensor:
        return x / x.square().sum(-1, keepdim=True).sqrt()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class Stereographic(Transform):
    r"""The chart :math:`u \mapsto (1-|u|^2, 2u)/(1+|u|^2)` of vectors [..., p-1] to the sphere.

    The chart keeps angles: areas on the sphere are :math:`(2/(1+|u|^2))^{p-1}` times those of u.
    """

    domain = constraints.real_vector
    codomain = unit_vector  # type: ignore[assignment]
    bijective = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stereographic)

    def _call(self, x: Tensor) -> Tensor:
        square = x.square().sum(-1, keepdim=True)
        return torch.cat([1 - square, 2 * x], -1) / (1 + square)

    def _inverse(self, y: Tensor) -> Tensor:
        return y[..., 1:] / (1 + y[..., :1])

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.shape[-1] * (math.log(2) - x.square().sum(-1).log1p())

    def forward_shape(self, shape: Any) -> Any:
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Any) -> Any:
        return (*shape[:-1], shape[-1] - 1)


transform_to.register(unit_vector, lambda _: Normalization())
biject_to.register(unit_vector, lambda _: Stereographic())
