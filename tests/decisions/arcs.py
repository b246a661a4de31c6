"""Rules whose boundaries are looked for on the short arc between two prototypes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

import small_classes
from class_samples import F64
from resultant.classes.realization import Realization
from resultant.classes.statistics import ClassState
from small_classes import P

PAIR = torch.tensor([[0, 1]])


def classes(kappa: Tensor | None = None, p: int = P, seed: int = 5) -> ClassState:
    return small_classes.classes(kappa, p, shared=0.4, seed=seed)


def two(theta: float, slopes: tuple[float, float], shifts: tuple[float, float]) -> Realization:
    """Two linear scores, theta apart in the plane."""
    mu = torch.tensor([[1.0, 0.0], [math.cos(theta), math.sin(theta)]], dtype=F64)
    slope, shift = torch.tensor(slopes, dtype=F64), torch.tensor(shifts, dtype=F64)
    return Realization(mu, torch.ones(2, dtype=F64), None, slope, shift)


def close(a: Tensor, b: Tensor, rtol: float = 1e-11, atol: float = 1e-12) -> None:
    """Also where both have no root, NaN."""
    torch.testing.assert_close(a.double(), b.double(), rtol=rtol, atol=atol, equal_nan=True)
