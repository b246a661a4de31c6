"""A few classes around a direction that they share, from flat to concentrated, and queries."""

import torch
from torch import Tensor

from class_samples import F64, unit
from resultant.classes.statistics import ClassState

N, C, P, TAU = 7, 6, 64, 0.1


def classes(kappa: Tensor | None = None, p: int = P, seed: int = 5) -> ClassState:
    torch.manual_seed(seed)
    kappa = torch.logspace(0, 2.5, C, dtype=F64) if kappa is None else kappa
    mu = torch.nn.functional.normalize(unit(len(kappa), p) + 0.4 * unit(p), dim=-1)
    return ClassState(mu, kappa, torch.ones(len(kappa), dtype=torch.int64))


def queries(state: ClassState, n: int = N) -> Tensor:
    """Unit vectors [n, p], each near the direction of the next class."""
    torch.manual_seed(6)
    near = state.mu[torch.arange(n) % state.num_classes]
    return torch.nn.functional.normalize(near + 0.3 * unit(n, state.dim), dim=-1)
