"""Posterior thresholds against dense grids and Brent's method."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import resultant as rs
from class_samples import F64, unit
from decisions.arcs import PAIR, check, classes, close
from small_classes import TAU, C, P


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


@pytest.mark.slow
def test_competitors_move_the_threshold_and_not_the_boundary() -> None:
    state = classes(torch.tensor([30.0, 60.0], dtype=F64))
    alone = rs.realize(state, rs.Rule(TAU))
    boundary = rs.short_arc_roots(alone, PAIR).root
    close(rs.posterior_thresholds(alone, PAIR).root, boundary, 0.0, 1e-12)
    torch.manual_seed(1)
    reached, others = [float(boundary)], unit(30, P)
    for more in (3, 10, 30):
        mu = torch.cat([state.mu, others[:more]])
        kappa = torch.cat([state.kappa, torch.full((more,), 40.0, dtype=F64)])
        rule = rs.realize(rs.ClassState(mu, kappa, torch.ones(len(mu))), rs.Rule(TAU))
        close(rs.short_arc_roots(rule, PAIR).root, boundary)
        reached.append(float(rs.posterior_thresholds(rule, PAIR).root))
    assert reached == sorted(reached, reverse=True) and reached[-1] < reached[0] - 1e-3
