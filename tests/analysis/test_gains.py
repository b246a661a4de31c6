"""Gains of classes, and intercepts under direct temperature, against direct calculation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from frozen_data import COUNTS, TAU, C, P, features, ratio, rows, score, scores, small_space
from resultant.analysis import (
    FrozenSpace,
    boundary_displacement,
    gain_distribution,
    intercept_drift,
    margin_directions,
    same_state,
)
from resultant.vmf.estimators import concentration, mean_resultant

F64 = torch.float64


def test_gains_against_definition(small: FrozenSpace) -> None:
    result = gain_distribution(small)
    g = result.gain.numpy()
    assert result.mean == pytest.approx(g.mean()) and result.spread == pytest.approx(
        g.std() / g.mean()
    )
    assert result.ratio == pytest.approx(g.max() / g.min())
    # Spearman's is Pearson's of the mean ranks.
    ranks = [[np.mean((a < v).sum() + (a <= v).sum()) for v in a] for a in (g, COUNTS.numpy())]
    assert result.rank_correlation == pytest.approx(np.corrcoef(ranks)[0, 1])
    assert result.groups["tail"] == pytest.approx(g[16:].mean())


@pytest.mark.parametrize("estimator", ["mle", "proco"])
def test_corrected_gains_against_definition(estimator: str) -> None:
    """U is the mean cosine of two different rows; a class of one row has none."""
    counts = torch.tensor([40, 12, 5, 2, 1, 7, 1])
    (x, y), test = features(counts), features(torch.full((7,), 2), seed=1)
    # Two rows that point apart have a negative U.
    x[y == 3] = torch.stack([x[y == 3][0], -x[y == 3][0] + 0.1])
    result = gain_distribution(FrozenSpace.fit(x, y, *test, estimator=estimator))
    A = np.full(7, np.nan)
    for c in counts.gt(1).nonzero()[:, 0].tolist():
        cosines = rows(x[y == c]) @ rows(x[y == c]).T
        U = cosines[~np.eye(len(cosines), dtype=bool)].mean()
        assert (U < 0) == (c == 3)
        A[c] = math.sqrt(max(U, 0))
    if estimator == "proco":
        A = mean_resultant(P, concentration(P, torch.as_tensor(A).nan_to_num(), "proco")).numpy()
        A[[4, 6]] = np.nan
    g = A / TAU
    np.testing.assert_allclose(result.corrected_gain.numpy(), g, rtol=1e-9, atol=1e-9)
    known = g[~np.isnan(g)]
    assert result.uncorrected == (4, 6)
    assert result.corrected_spread == pytest.approx(known.std() / known.mean())
    kept = counts.numpy()[~np.isnan(g)]
    ranks = [a.argsort().argsort().tolist() for a in (known, kept)]
    assert result.corrected_rank_correlation == pytest.approx(np.corrcoef(ranks)[0, 1])


def test_correction_counts_fitted_rows_only() -> None:
    """With rows kept for calibration the means are of the others, and so is n."""
    space = small_space(fitting_share=0.5)
    assert space.fitting is not None
    x, y = space.train[space.fitting], space.labels[space.fitting]
    cosines = rows(x[y == 0]) @ rows(x[y == 0]).T
    U = cosines[~np.eye(len(cosines), dtype=bool)].mean()
    result = gain_distribution(space)
    assert float(result.corrected_gain[0]) == pytest.approx(math.sqrt(U) / TAU, rel=1e-9)
    assert result.uncorrected == tuple((space.state.count == 1).nonzero()[:, 0].tolist())
    alone = gain_distribution(FrozenSpace.fit(x[:1], y[:1] * 0, x[:1], y[:1] * 0))
    assert alone.uncorrected == (0,) and alone.corrected_spread is None


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
