"""Intercepts under direct temperature against direct calculation."""

from __future__ import annotations

import numpy as np
import pytest

from frozen_data import TAU, C, P, ratio, score, scores
from resultant.analysis import (
    FrozenSpace,
    boundary_displacement,
    intercept_drift,
    margin_directions,
    same_state,
)


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


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_same_state_against_definition(small: FrozenSpace, gamma: float) -> None:
    result = same_state(small, gamma=gamma, per_class=3)
    y = small.test_labels.numpy()
    first = np.sort(np.concatenate([np.flatnonzero(y == c)[:3] for c in range(C)]))
    assert result.queries == len(first) == 3 * C
    for row in result.rows:
        s = scores(small, row.realization, 0, gamma, small.test[first])
        guess = s.argmax(1)
        loss = np.log(np.exp(s).sum(1)) - s[np.arange(len(first)), y[first]]
        assert row.cross_entropy == pytest.approx(loss.mean(), rel=1e-9)
        assert row.accuracy == pytest.approx((guess == y[first]).mean())
        counts = np.bincount(guess)
        assert (row.distinct, row.top_class) == ((counts > 0).sum(), counts.argmax())
        assert row.top_share == pytest.approx(counts.max() / len(first), rel=1e-6)
    focus = result.focus
    assert focus is not None and focus.index == intercept_drift(small).worst_class
    step = 1e-5
    for name, tau in (("native", TAU), ("temperature", focus.target_temperature)):
        ends = [score(r, focus.kappa, tau) for r in (-step, 0.0, step)]
        assert focus.intercepts[name] == pytest.approx(ends[1], rel=1e-8)
        assert focus.slopes[name] == pytest.approx((ends[2] - ends[0]) / (2 * step), rel=1e-5)
    raised = focus.target_gain - focus.gain
    assert focus.slopes["angular"] == pytest.approx(focus.slopes["native"] + raised)
    assert focus.intercepts["preserve"] == pytest.approx(focus.intercepts["native"])


def test_a_class_of_noise_collapses_direct_temperature(noisy: FrozenSpace) -> None:
    """A class of noise collapses direct temperature, and preserving the intercept recovers it."""
    rows = {row.realization: row for row in same_state(noisy).rows}
    assert rows["temperature"].top_class == 3
    assert rows["temperature"].cross_entropy > 3 * rows["preserve"].cross_entropy
    focus = same_state(noisy).focus
    assert focus is not None and focus.index == 3
    assert focus.intercepts["temperature"] > 10 * focus.intercepts["native"]


def test_undefined_temperatures_leave_out_answers(noisy: FrozenSpace) -> None:
    state = same_state(noisy, 1.5)
    assert state.undefined == (3,) and state.focus is None
    assert [row.realization for row in state.rows] == ["native", "angular"]
    drift = intercept_drift(noisy, 1.5)
    assert drift.undefined == (3,) and drift.worst_class is None
    assert drift.temperature.isnan().all()
    boundaries = boundary_displacement(noisy, beta=1.5)
    assert boundaries.undefined == (3,) and boundaries.predicted == {} and not boundaries.change
    margins = margin_directions(noisy, beta=1.5)
    assert margins.undefined == (3,) and margins.incidences == 0 and margins.agreement is None
    angular = margin_directions(noisy, beta=1.5, realization="angular")
    assert angular.undefined == () and angular.incidences > 0
