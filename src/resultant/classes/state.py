"""Fitted classes: one von Mises-Fisher distribution per class."""

from __future__ import annotations

from dataclasses import InitVar, dataclass

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.arrays import unit_vector
from resultant.score.limits import LARGEST_KAPPA
from resultant.vmf.estimators import mean_resultant_at


@dataclass(frozen=True, eq=False)
class ClassState:
    r"""A snapshot of C classes, each a von Mises-Fisher distribution.

    Args:
        mu: Unit directions [C, p], p >= 2.
        kappa: Concentrations [C] from 0 to 2^60 = 1.15e18, in the dtype of mu.
        count: Sample counts [C] >= 0.
        validate_args: Check values, also on a GPU.

    Example:
        >>> ClassState(torch.eye(2), torch.tensor([1.0, 2.0]), torch.ones(2)).resultant
        tensor([0.4464, 0.6978])
    """

    mu: Tensor
    kappa: Tensor
    count: Tensor
    validate_args: InitVar[bool] = True

    def __post_init__(self, validate_args: bool) -> None:
        mu, kappa, count = parts = self.mu, self.kappa, self.count
        for name, a in zip(("mu", "kappa", "count"), parts, strict=True):
            if not isinstance(a, Tensor):
                raise ValueError(f"expected {name} to be a tensor, got {type(a).__name__}")
        shapes = [tuple(a.shape) for a in parts]
        if mu.dim() != 2 or mu.shape[1] < 2 or shapes[1:] != [(len(mu),)] * 2:
            rule = "expected mu [C, p] with p >= 2, kappa [C] and count [C]"
            raise ValueError(f"{rule}, got {shapes[0]}, {shapes[1]} and {shapes[2]}")
        if mu.dtype not in validation.COMPUTE_DTYPE or kappa.dtype != mu.dtype:
            got = f"{mu.dtype} and {kappa.dtype}"
            raise ValueError(f"expected mu and kappa of one floating dtype, got {got}")
        if not mu.device == kappa.device == count.device:
            got = f"{mu.device}, {kappa.device} and {count.device}"
            raise ValueError(f"expected mu, kappa and count on one device, got {got}")
        if validate_args:
            unit_vector.require("mu", mu)
            validation.require_in_range("kappa", kappa, 0.0, rule=">= 0 and finite")
            rule = f"<= {LARGEST_KAPPA:g}, the largest of scores in float32"
            validation.require_in_range("kappa", kappa, 0.0, LARGEST_KAPPA, rule=rule)
            validation.require_in_range("count", count.double(), 0.0, rule=">= 0 and finite")

    @property
    def num_classes(self) -> int:
        """Number of classes C."""
        return self.mu.shape[0]

    @property
    def dim(self) -> int:
        """Dimension p."""
        return self.mu.shape[1]

    @property
    def resultant(self) -> Tensor:
        r"""Mean resultant lengths :math:`A_c = A_p(\kappa_c)` [C] of the fitted kappa."""
        return mean_resultant_at(self.dim, self.kappa)

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> ClassState:
        """Copy the state to a device, mu and kappa to a floating dtype; count keeps its dtype."""
        mu, kappa = (a.to(device=device, dtype=dtype) for a in (self.mu, self.kappa))
        return ClassState(mu, kappa, self.count.to(device=device), validate_args=False)
