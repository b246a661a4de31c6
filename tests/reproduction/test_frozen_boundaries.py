"""Boundaries that equal gains move, agreement with cosine and intercepts, by their definitions."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from frozen_data import TAU, C, P, features, ratio, score, scores
from resultant.decisions.boundaries import Displacement
from resultant.decisions.margins import select_pairs
from resultant_reproduction.frozen.agreement import cosine_agreement, intercept_drift
from resultant_reproduction.frozen.boundaries import boundary_displacement, choose_pairs
from resultant_reproduction.frozen.space import FrozenSpace
from resultant_reproduction.theory.displacement import displacement_error


def test_intercepts_against_definition(small: FrozenSpace) -> None:
    result = intercept_drift(small)
    kappa = small.state.kappa.numpy()
    A = np.array([ratio(P, k) for k in kappa])
    tau = A / (A / TAU).mean()
    h0, h1 = score(0.0, kappa, TAU), score(0.0, kappa, tau)
    np.testing.assert_allclose(result.native.numpy(), h0, rtol=1e-9)
    np.testing.assert_allclose(result.temperature.numpy(), h1, rtol=1e-9)
    np.testing.assert_allclose(result.temperatures.numpy(), tau, rtol=1e-9)
    assert result.largest["temperature"] == pytest.approx(np.abs(h1 - h0).max())
    assert result.mean["temperature"] == pytest.approx(np.abs(h1 - h0).mean())
    assert result.worst_class == np.abs(h1 - h0).argmax()
    assert result.largest["preserve"] < 1e-12 and result.largest["angular"] == 0.0


def test_agreement_against_definition(small: FrozenSpace) -> None:
    result = cosine_agreement(small)
    cosine, angular = (scores(small, name, 0, 0, small.test[:]) for name in ("cosine", "angular"))
    differ = cosine.argmax(1) != angular.argmax(1)
    assert result.disagreements == differ.sum() > 0
    assert result.agreement == pytest.approx(1 - differ.mean())
    top = np.sort(cosine, axis=1)
    margin, D = top[:, -1] - top[:, -2], np.ptp(angular - cosine, axis=1)
    assert result.certified == (margin > D).sum()
    assert result.certified_disagreements == 0
    place = np.argsort(np.argsort(margin)) * 10 // len(margin)
    assert result.low_margin == differ[place == 0].sum()
    # Quantiles are values; of two as near, that of the even place.
    nearest = np.round((len(margin) - 1) * np.arange(101) / 100).astype(int)
    for ours, values in ((result.margin_quantiles, margin), (result.residual_quantiles, D)):
        np.testing.assert_allclose(ours.numpy(), np.sort(values)[nearest], rtol=1e-9)


def arc_root(theta: float, own: Any, other: Any) -> tuple[int, float]:
    """The number of roots u of own(cos u) = other(cos(theta - u)), and the root of exactly one."""

    def margin(u: Any) -> Any:
        return own(np.cos(u)) - other(np.cos(theta - u))

    u = np.linspace(0, theta, 2001)
    (at,) = np.diff(np.sign(margin(u))).nonzero()
    if len(at) != 1:
        return len(at), math.nan
    return 1, float(brentq(margin, u[at[0]], u[at[0] + 1], xtol=1e-14))  # type: ignore[arg-type]


def test_boundaries_against_brent(small: FrozenSpace) -> None:
    result = boundary_displacement(small, choose_pairs(small, 2))
    chosen = select_pairs(small.state, small.groups, 2, 0)
    assert torch.equal(result.pairs, chosen.pairs) and len(result.pairs) == 24
    assert result.kind == tuple(k for k in ("HH", "HM", "HT", "MM", "MT", "TT") for _ in range(4))
    kappa, mu = small.state.kappa.numpy(), small.state.mu.numpy()
    A = np.array([ratio(P, k) for k in kappa])
    g = A / TAU
    names = {(1, 1): "displaced", (0, 1): "created", (1, 0): "vanished", (0, 0): "absent"}
    errors = []
    for i, (a, b) in enumerate(result.pairs.tolist()):
        theta = math.acos(mu[a] @ mu[b])
        assert float(result.cosine[i]) == pytest.approx(math.cos(theta))
        assert float(result.theta_degrees[i]) == pytest.approx(math.degrees(theta))
        before, after = (
            arc_root(theta, *(partial(score, kappa=kappa[c], tau=tau[c]) for c in (a, b)))
            for tau in (np.full(C, TAU), A / g.mean())
        )
        assert result.change[i] == names[before[0], after[0]]
        for degrees, root in ((result.before_degrees, before[1]), (result.after_degrees, after[1])):
            assert float(degrees[i]) == pytest.approx(math.degrees(root), abs=1e-8, nan_ok=True)
        # After equalization the linear mean has its boundary in the middle.
        linear = arc_root(theta, *(partial(np.multiply, g[c]) for c in (a, b)))
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
    # Few classes use all pairs.
    counts = torch.tensor([60, 50, 40, 30, 25, 20, 15, 12, 10, 8])
    space = FrozenSpace.fit(*features(counts), *features(torch.full((10,), 4), seed=1))
    assert len(boundary_displacement(space).pairs) == 45
    assert space.summary().groups == {"head": 3, "medium": 4, "tail": 3}


def test_displacement_error() -> None:
    nan = math.nan
    shifts = torch.tensor(
        [[0.1, -0.2, 0.3, nan, 0.2], [0.12, 0.1, nan, nan, 0.2]], dtype=torch.float64
    )
    exact, predicted = map(Displacement, shifts, torch.tensor([[0, 0, 0, 1, 0], [0, 0, 2, 1, 0]]))
    expected = (math.degrees((0.02 + 0.3 + 0) / 3), math.degrees(0.3), 2 / 3, 3, 5)
    assert displacement_error(exact, predicted) == pytest.approx(expected)
    none = Displacement(torch.tensor([nan]), torch.tensor([3]))
    assert displacement_error(none, none) == pytest.approx((nan, nan, nan, 0, 1), nan_ok=True)
