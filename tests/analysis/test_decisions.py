"""Decisions over the grid of policies against scores by definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from frozen_data import COUNTS, C, log_softmax, scores, small_space
from resultant.analysis import FrozenSpace, Policy, decide, realization_grid
from resultant.classes.groups import GROUPS, group_masks
from resultant.classes.rule import REALIZATIONS


@pytest.mark.slow
def test_grid_against_definition(small: FrozenSpace) -> None:
    grid = realization_grid(small)
    y = small.test_labels.numpy()
    masks = {name: m.numpy() for name, m in group_masks(COUNTS).items()}
    for point in grid.points:
        s = scores(small, point.realization, point.beta, point.gamma, small.test[:])
        log_p = log_softmax(s)
        guess = s.argmax(1)
        right = guess == y
        assert point.accuracy == pytest.approx(right.mean())
        assert point.nll == pytest.approx(-log_p[np.arange(len(y)), y].mean(), rel=1e-9)
        per_class = np.array([right[y == c].mean() for c in range(C)])
        assert point.per_class is not None and point.groups is not None
        np.testing.assert_allclose(point.per_class.numpy(), per_class)
        assert point.balanced == pytest.approx(per_class.mean())
        for name in GROUPS:
            assert point.groups[name] == pytest.approx(per_class[masks[name]].mean())
        top, error = np.exp(log_p.max(1)), 0.0
        for k in range(15):
            inside = (np.floor(top * 15) == k) | ((k == 14) & (top == 1))
            if inside.any():
                error += inside.mean() * abs(right[inside].mean() - top[inside].mean())
        assert point.ece == pytest.approx(error, abs=1e-9)
        cosine = scores(small, "cosine", 0, point.gamma, small.test[:]).argmax(1)
        native = scores(small, "native", 1, point.gamma, small.test[:]).argmax(1)
        assert point.agreement == pytest.approx((guess == cosine).mean())
        assert point.change == pytest.approx(right.mean() - (native == y).mean())
    assert len(grid.points) == 3 * (2 + 3 * 4)
    assert grid.point("native", 0.3, 1.0) is grid.point("native", 1.0, 1.0)
    assert {p.accuracy for p in grid.points if p.gamma == 0 and p.beta == 1} == {
        grid.point("native").accuracy
    }
    assert len({p.accuracy for p in grid.points}) > 3, "the policies must differ on this space"


def test_undefined_temperatures(noisy: FrozenSpace) -> None:
    grid = realization_grid(noisy, (0.0, 1.5), (0.0,))
    for name in ("temperature", "preserve"):
        point = grid.point(name, 1.5)
        assert point.undefined == (3,) and point.accuracy is None
        assert grid.point(name, 0.0).undefined == ()
    assert grid.point("angular", 1.5).accuracy is not None
    assert point.to_dict()["undefined"] == [3]


def test_float32_is_close_to_float64(small: FrozenSpace) -> None:
    policies = [Policy(name) for name in REALIZATIONS]
    wide, narrow = decide(small, policies), decide(small_space(torch.float32), policies)
    for policy in (p.canonical for p in policies):
        assert narrow.nll[policy].dtype == torch.float32
        torch.testing.assert_close(narrow.nll[policy].double(), wide.nll[policy], atol=2e-4, rtol=0)
