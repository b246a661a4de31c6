"""A few classes, from flat to concentrated, and queries near them."""

from __future__ import annotations

import torch
from torch import Tensor

from class_samples import F64, unit
from resultant.classes.statistics import ClassState

N, C, P, TAU = 7, 6, 64, 0.1


def classes(
    kappa: Tensor | None = None, p: int = P, *, shared: float = 0.0, seed: int = 5
) -> ClassState:
    """Directions at random, each moved by ``shared`` towards one that they have in common."""
    torch.manual_seed(seed)
    kappa = torch.logspace(0, 2.5, C, dtype=F64) if kappa is None else kappa
    mu = unit(len(kappa), p)
    if shared:
        mu = torch.nn.functional.normalize(mu + shared * unit(p), dim=-1)
    return ClassState(mu, kappa, torch.ones(len(kappa), dtype=torch.int64))


def queries(state: ClassState, n: int = N, spread: float = 0.3) -> Tensor:
    """Unit vectors [n, p], each near the direction of the next class."""
    torch.manual_seed(6)
    near = state.mu[torch.arange(n) % state.num_classes]
    return torch.nn.functional.normalize(near + spread * unit(n, state.dim), dim=-1)


def close(a: Tensor, b: Tensor, rtol: float = 1e-11, atol: float = 1e-12) -> None:
    torch.testing.assert_close(a.double(), b.double(), rtol=rtol, atol=atol)
