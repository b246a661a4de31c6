"""The recommended realization."""

from __future__ import annotations

import json

import pytest
import torch

from frozen_data import COUNTS
from resultant.analysis import FrozenSpace, Policy, decide, realization_grid, recommend
from resultant.analysis.decisions import grid_policies


def same(a: object, b: object) -> None:
    assert json.dumps(a) == json.dumps(b)


def test_candidate_and_gain_come_from_different_halves(small: FrozenSpace) -> None:
    decisions = decide(small, grid_policies())
    found = recommend(small, decisions=decisions, seed=3)
    same(found.to_dict(), recommend(small, seed=3).to_dict())
    N = len(small.test)
    order = torch.randperm(N, generator=torch.Generator().manual_seed(3))
    choose, judge = order[: N // 2], order[N // 2 :]
    able = [p for p in decisions.prediction if p.gamma == 0]
    most = max(int(decisions.right(p)[choose].sum()) for p in able)
    best = Policy(found.candidate, found.candidate_beta)
    assert int(decisions.right(best)[choose].sum()) == most
    after, before = (decisions.right(p)[judge].double() for p in (best, Policy("native")))
    assert found.gain == pytest.approx(float((after - before).mean()))
    assert found.queries == len(judge)
    significant = found.p_value < 0.05 and found.gain > 0
    assert found.realization == (found.candidate if significant else "native")
    grid = realization_grid(small, decisions=decisions)
    assert found.accuracy_before == grid.point("native").accuracy
    assert found.nll_after == grid.point(*best).nll and found.ece_after == grid.point(*best).ece
    for effect in (*found.gained, *found.lost):
        per_class = grid.point(*best).per_class
        assert per_class is not None and effect.after == float(per_class[effect.index])
        assert effect.count == int(COUNTS[effect.index])
    assert all(e.after > e.before for e in found.gained)
    assert all(e.after < e.before for e in found.lost)


def test_a_clear_gain_is_recommended() -> None:
    """Two classes of one geometry, but the head's queries are spread: its gain misleads native."""
    torch.manual_seed(0)
    p, n = 16, 400
    a, b = torch.eye(p)[0], torch.eye(p)[1]
    train = torch.cat([a + 0.02 * torch.randn(n, p), b + 0.5 * torch.randn(n, p)])
    test = torch.cat([a + 0.5 * torch.randn(n, p), b + 0.5 * torch.randn(n, p)])
    y = torch.arange(2).repeat_interleave(n)
    found = recommend(FrozenSpace.fit(train, y, test, y))
    assert found.realization != "native" and found.low > 0
    assert found.reason.startswith("Use ")
    assert found.accuracy_after > found.accuracy_before
