"""Classes around a direction that they share, and labelled queries of them."""

from __future__ import annotations

import torch
from torch import Tensor

import small_classes
from class_samples import F64
from resultant.classes.statistics import ClassState
from small_classes import C, N, P

BETA = 0.3
OFFSET = torch.linspace(-2, 1, C, dtype=F64)
PAIRS = torch.tensor([[0, 1], [5, 2], [3, 4], [1, 0]])


def classes(kappa: Tensor | None = None, p: int = P) -> ClassState:
    return small_classes.classes(kappa, p, shared=0.5)


def queries(state: ClassState, n: int = N) -> tuple[Tensor, Tensor]:
    return small_classes.queries(state, n, spread=1.0), torch.arange(n) % state.num_classes
