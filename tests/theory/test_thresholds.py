"""Posterior thresholds against dense grids and Brent's method."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import resultant as rs
from class_samples import F64
from decisions.arcs import check, classes
from small_classes import TAU, C


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.5, 0.2])
def test_posterior_thresholds(level: float) -> None:
    state = classes()
    pairs = torch.tensor([[0, 5], [5, 0], [4, 2], [3, 1]])
    offset = torch.linspace(-1.0, 1.0, C, dtype=F64)
    rule = rs.realize(state, rs.Rule(TAU, "angular", 0.5, offset=offset))

    def scores(z: Tensor) -> Tensor:
        return rs.class_scores(z, state, TAU, "angular", 0.5, offset=offset, validate_args=False)

    roots = rs.posterior_thresholds(rule, pairs, level)
    assert 1 in check(roots, state, pairs, scores, lambda s, a, b: s.softmax(-1)[:, a] - level)
