"""Gains of classes, with and without the bias of few rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from frozen_data import COUNTS, TAU, P, features, rows, small_space
from resultant.analysis import FrozenSpace, gain_distribution
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
