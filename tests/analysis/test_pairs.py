"""Boundaries and margins of pairs against direct calculation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from frozen_data import PER_CLASS, TAU, C, P, features, ratio, rows, score, scores
from resultant.analysis import (
    FrozenSpace,
    boundary_displacement,
    margin_directions,
    typical_margins,
)
from resultant.analysis.pairs import choose_pairs
from resultant.decisions.margins import select_pairs
from resultant.theory.binary_model import BinaryModel


def arc_root(f, theta: float) -> tuple[int, float]:
    u = np.linspace(0, theta, 2001)
    D = f(u)
    crossings = np.flatnonzero(np.sign(D[:-1]) != np.sign(D[1:]))
    if len(crossings) != 1:
        return len(crossings), math.nan
    root = brentq(f, u[crossings[0]], u[crossings[0] + 1], xtol=1e-14)
    return 1, float(root)  # type: ignore[arg-type]


@pytest.mark.slow
def test_boundaries_against_brent(small: FrozenSpace) -> None:
    result = boundary_displacement(small, choose_pairs(small, 2))
    chosen = select_pairs(small.state, small.groups, 2, 0)
    assert torch.equal(result.pairs, chosen.pairs) and len(result.pairs) == 24
    assert result.kind == tuple(k for k in ("HH", "HM", "HT", "MM", "MT", "TT") for _ in range(4))
    kappa, mu = small.state.kappa.numpy(), small.state.mu.numpy()
    A = np.array([ratio(P, k) for k in kappa])
    g = A / TAU
    names = {(1, 1): "displaced", (0, 1): "created", (1, 0): "vanished", (0, 0): "absent"}

    def exact_root(a: int, b: int, theta: float, tau: np.ndarray) -> tuple[int, float]:
        def margin(u):
            own, other = np.cos(u), np.cos(theta - u)
            return score(own, kappa[a], tau[a]) - score(other, kappa[b], tau[b])

        return arc_root(margin, theta)

    def linear_root(a: int, b: int, theta: float) -> tuple[int, float]:
        return arc_root(lambda u: g[a] * np.cos(u) - g[b] * np.cos(theta - u), theta)

    errors = []
    for i, (a, b) in enumerate(result.pairs.tolist()):
        theta = math.acos(mu[a] @ mu[b])
        assert float(result.cosine[i]) == pytest.approx(math.cos(theta))
        assert float(result.theta_degrees[i]) == pytest.approx(math.degrees(theta))
        before, after = (exact_root(a, b, theta, t) for t in (np.full(C, TAU), A / g.mean()))
        assert result.change[i] == names[before[0], after[0]]
        for degrees, root in ((result.before_degrees, before[1]), (result.after_degrees, after[1])):
            assert float(degrees[i]) == pytest.approx(math.degrees(root), abs=1e-8, nan_ok=True)
        # After equalization the linear mean has its boundary in the middle.
        linear = linear_root(a, b, theta)
        if linear[0] == before[0] == after[0] == 1:
            shift = math.degrees(theta / 2 - linear[1])
            assert float(result.predicted["linear_mean"].shift_degrees[i]) == pytest.approx(shift)
            errors.append(abs(shift - float(result.shift_degrees[i])))
    linear = result.predicted["linear_mean"]
    assert linear.comparable == len(errors) > 5
    assert linear.mean_absolute_degrees == pytest.approx(np.mean(errors))
    assert sum(result.tally.values()) == 24 and result.tally["displaced"] >= len(errors)
    finer = result.predicted["linear_intercept"].mean_absolute_degrees
    assert finer < linear.mean_absolute_degrees
    assert set(result.predicted) == {"linear_mean", "linear_intercept", "joint_leading"}


def test_few_classes_use_all_pairs() -> None:
    counts = torch.tensor([60, 50, 40, 30, 25, 20, 15, 12, 10, 8])
    space = FrozenSpace.fit(*features(counts), *features(torch.full((10,), 4), seed=1))
    assert len(boundary_displacement(space).pairs) == 45
    assert space.summary().groups == {"head": 3, "medium": 4, "tail": 3}


def test_margin_directions_against_definition(small: FrozenSpace) -> None:
    result = margin_directions(small, choose_pairs(small, 2))
    before, after = (scores(small, name, 0, 0, small.test[:]) for name in ("native", "temperature"))
    y, rho = small.test_labels.numpy(), rows(small.test[:]) @ small.state.mu.numpy().T
    g = np.array([ratio(P, k) for k in small.state.kappa.tolist()]) / TAU
    same, covered, total = 0, 0, 0
    for a, b in result.pairs.tolist():
        for i in np.flatnonzero((y == a) | (y == b)):
            exact = (after[i, a] - after[i, b]) - (before[i, a] - before[i, b])
            linear = (g.mean() - g[a]) * rho[i, a] - (g.mean() - g[b]) * rho[i, b]
            same += np.sign(exact) == np.sign(linear)
            covered += abs(linear) > abs(exact - linear)
            total += 1
    assert result.incidences == total == 24 * 2 * PER_CLASS
    assert result.agreement == pytest.approx(same / total)
    assert result.coverage == pytest.approx(covered / total)
    assert 0.5 < covered / total < 1 and result.certified_wrong == 0
    assert sum(kind["incidences"] or 0 for kind in result.by_kind.values()) == total
    assert len(result.linear) == len(result.exact) == total
    whole = margin_directions(small, choose_pairs(small, 2), intercept=True)
    assert torch.equal(whole.exact, result.exact) and not whole.certified_wrong
    assert (whole.exact - whole.linear).abs().mean() < (result.exact - result.linear).abs().mean()


@pytest.mark.slow
def test_typical_margins_against_definition(small: FrozenSpace) -> None:
    result = typical_margins(small, choose_pairs(small, 2))
    native, y = scores(small, "native", 1, 0, small.test[:]), small.test_labels.numpy()
    state, nu = small.state, P / 2 - 1
    for i, (a, b) in enumerate(result.pairs.tolist()):
        margin = native[:, a] - native[:, b]
        wrong = [(margin[y == a] < 0).mean(), (margin[y == b] >= 0).mean()]
        assert result.observed[i].tolist() == pytest.approx(wrong)
        cosine = float(state.mu[a] @ state.mu[b])
        ka, kb = float(state.kappa[a]), float(state.kappa[b])
        model = BinaryModel(ka / nu, kb / nu, cosine, TAU)
        assert result.typical[i].tolist() == pytest.approx(list(model.typical_margins))
        assert result.gaussian[i].tolist() == pytest.approx(list(model.gaussian_errors(P)))
        if i < 6:
            assert result.model[i].tolist() == pytest.approx(list(model.errors(P)), rel=1e-8)
        centre = score(1.0, ka, TAU) - score(cosine, kb, TAU)
        assert float(result.centre[i, 0]) == pytest.approx(centre, rel=1e-9)
    assert result.queries.unique().tolist() == [PER_CLASS]
    assert result.model_correlation is not None and result.model_correlation > 0.3
    assert result.typical_correlation is not None and result.typical_correlation < -0.3
