"""Samples of classes, and what is fitted to them."""

import math
from typing import Any

import torch
from torch import Tensor

from resultant.classes.statistics import ClassStatistics
from resultant.vmf.estimators import mean_resultant

C, P = 5, 6
F64 = torch.float64

# The cap of the authors' code, and the length of the mean of equal vectors for other estimators.
PROCO_CAP, LARGEST_LENGTH = 1e5, 1 - 2.0**-46


def unit(*shape: int, dtype: torch.dtype = F64) -> Tensor:
    return torch.nn.functional.normalize(torch.randn(*shape, dtype=F64), dim=-1).to(dtype)


def axis(p: int = P, i: int = 0) -> Tensor:
    return torch.eye(p, dtype=F64)[i]


def sample(n: int = 60, c: int = C, p: int = P, spread: float = 0.4) -> tuple[Tensor, Tensor]:
    """Unit vectors around a direction per class, and labels that hold each class twice."""
    y = torch.cat([torch.arange(c).repeat(2), torch.randint(c, (n - 2 * c,))])
    z = unit(c, p)[y] + spread * torch.randn(n, p, dtype=F64)
    return torch.nn.functional.normalize(z, dim=-1), y


def fitted(z: Tensor, y: Tensor, c: int = C) -> ClassStatistics:
    return ClassStatistics(c, z.shape[1]).update(z, y)


def naive_mean(z: Tensor, y: Tensor, c: int) -> tuple[Tensor, float]:
    """Direction and length of a class mean in float64."""
    own = torch.nn.functional.normalize(z[y == c].double(), dim=-1)
    total = own.sum(0)
    length = float(total.norm()) / max(len(own), 1)
    if length < 1e-13:
        return axis(z.shape[1]), 0.0
    return total / total.norm(), min(length, 1.0)


def naive_kappa(R: float, p: int, estimator: str, n: int = 0) -> float:
    if estimator == "corrected":
        R = math.sqrt(max(n * R**2 - 1, 0.0) / (n - 1))
    if estimator == "loo":
        R = max(n * R**2 - 1, 0.0) / math.sqrt(n * (n - 2) * R**2 + 1)
    if R == 0.0:
        return 0.0
    if estimator == "proco":
        return PROCO_CAP if R == 1.0 else min(p * R / (1 - R**2), PROCO_CAP)
    R = min(R, LARGEST_LENGTH)
    if estimator == "banerjee":
        return R * (p - R**2) / (1 - R**2)
    if R > 1 - 1e-9:  # where 1 - R = (p - 1)/(2 kappa), up to terms of order (1 - R)^2
        return (p - 1) / (2 * (1 - R))
    low, high = 0.0, 1e12
    for _ in range(100):
        middle = (low + high) / 2
        below = float(mean_resultant(p, middle)) < R
        low, high = (middle, high) if below else (low, middle)
    return high


def close(
    a: Any, b: Any, rtol: float = 1e-12, atol: float = 1e-13, equal_nan: bool = False
) -> None:
    """Compare tensors or numbers in float64."""
    a, b = (torch.as_tensor(x, dtype=F64) for x in (a, b))
    torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def changed(a: Tensor, i: int, value: float) -> Tensor:
    a = a.clone()
    a[i] = value
    return a
