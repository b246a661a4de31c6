"""The theory of classes against its definitions."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import frozen_data
from frozen_data import COUNTS, TAU, P, features, rows
from resultant.vmf.estimators import concentration, mean_resultant
from resultant_reproduction.frozen.space import FrozenSpace


def test_gains_against_definition(small: FrozenSpace) -> None:
    result = small.gains()
    g = result.gain.numpy()
    assert result.mean == pytest.approx(g.mean())
    assert result.spread == pytest.approx(g.std() / g.mean())
    assert result.ratio == pytest.approx(g.max() / g.min())
    ranks: Any = spearmanr(g, COUNTS)
    assert result.rank_correlation == pytest.approx(ranks.statistic)
    assert result.groups["tail"] == pytest.approx(g[16:].mean())
    x, y = small.test[:1], torch.zeros(1, dtype=torch.int64)
    alone = FrozenSpace.fit(x, y, x, y).gains()
    assert alone.uncorrected == (0,) and alone.corrected_spread is None


@pytest.mark.parametrize(("estimator", "share"), [("mle", None), ("proco", None), ("mle", 0.5)])
def test_corrected_gains_against_definition(estimator: str, share: float | None) -> None:
    """U is the mean cosine of two different fitted rows; a class of one row has none."""
    counts = torch.tensor([40, 12, 5, 2, 1, 7, 1])
    (x, y), test = features(counts), features(torch.full((7,), 2), seed=1)
    # Two rows that point apart have a negative U.
    x[y == 3] = torch.stack([x[y == 3][0], -x[y == 3][0] + 0.1])
    space = FrozenSpace.fit(x, y, *test, estimator=estimator, fitting_share=share)
    result, A = space.gains(), np.full(7, np.nan)
    if space.fitting is not None:
        x, y = x[space.fitting], y[space.fitting]
    for c in counts.gt(1).nonzero()[:, 0].tolist():
        A[c], _ = frozen_data.unbiased_length(rows(x[y == c]))
        assert (A[c] == 0) == (c == 3)
    if estimator == "proco":
        A = mean_resultant(P, concentration(P, torch.as_tensor(A).nan_to_num(), "proco")).numpy()
        A[[4, 6]] = np.nan
    g = A / TAU
    np.testing.assert_allclose(result.corrected_gain.numpy(), g, rtol=1e-9, atol=1e-9)
    known = g[~np.isnan(g)]
    assert result.uncorrected == (4, 6)
    assert result.corrected_spread == pytest.approx(known.std() / known.mean())
    ranks: Any = spearmanr(known, counts[counts > 1])
    assert result.corrected_rank_correlation == pytest.approx(ranks.statistic)
