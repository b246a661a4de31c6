"""The class prior of a loss."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.arrays import shape_of


def numbers(name: str, values: float | Sequence[float], number: int) -> list[float]:
    """A finite number for each of ``number`` runs; a tensor or array [] is a number."""
    given: Any = values.tolist() if isinstance(values, Tensor | np.ndarray) else values
    rule = f"expected {name} to be a number, or one a run ({number})"
    if isinstance(given, str) or not isinstance(given, Real | Iterable):
        raise ValueError(f"{rule}, got {values!r}")
    each: list[Any] = [given] * number if isinstance(given, Real) else list(given)
    if len(each) != number:
        raise ValueError(f"{rule}, got {len(each)} numbers")
    for i, value in enumerate(each):
        if isinstance(value, Tensor) and value.dim() == 0:
            each[i] = value = value.item()
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise ValueError(f"expected {name} to be finite, got {value!r}")
    return [float(value) for value in each]


def log_prior_of(
    counts: Tensor | Sequence[float], prior: float | Sequence[float], runs: tuple[int, ...]
) -> Tensor:
    r""":math:`\gamma\log\pi_c` [*runs, C] in float64; zero where gamma is, whatever the counts."""
    n = torch.as_tensor(counts, dtype=torch.float64).detach().cpu()
    if n.dim() != 1 or not len(n):
        raise ValueError(f"expected class_counts [C] of one class or more, got {shape_of(n)}")
    validation.require_in_range("class_counts", n, 0.0, rule=">= 0 and finite")
    validation.require_in_range(
        "the sum of class_counts", n.sum(), 0.0, rule="> 0 and finite", open_low=True
    )
    gamma = torch.tensor(numbers("prior", prior, math.prod(runs)), dtype=torch.float64)
    gamma = gamma.view(*runs, 1)
    return torch.where(gamma == 0, 0.0, gamma * (n / n.sum()).log())


def require_counted(y: Tensor, log_prior: Tensor) -> None:
    """Raise if a label is of a class whose count is zero, and its log prior infinite."""
    if validation.should_validate(None, y):
        bad = log_prior.isinf().view(-1, log_prior.shape[-1]).any(0)[y]
        if bad.any():
            got = f"class {int(y[bad][0])}, whose count is zero"
            raise ValueError(f"expected labels of classes that class_counts has, got {got}")
