"""Scores of rows left out against the other ways to score classes."""

from __future__ import annotations

import pytest
import torch

from loss_batches import TAU, C, P, cancelling
from loss_batches import seeded as seeded
from resultant._core import validation
from resultant.classes.realization import class_scores, realize
from resultant.classes.rule import REALIZATIONS, TEMPERED, Rule
from resultant.classes.statistics import ClassStatistics
from resultant.classifiers.left_out import Part, fold_parts
from resultant.losses import ProCoLoss


@pytest.mark.slow
@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_loss_rows_and_class_scores_agree(
    realization: str, beta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Classes without a gain, or at beta = 4 with a negative target, are NaN, the others equal."""
    # As on a GPU, where values are not read.
    monkeypatch.setattr(validation, "should_validate", lambda validate, *_: bool(validate))
    loss = ProCoLoss(C, P, TAU, realization, beta)
    z, y = cancelling()
    loss.bank.update(z, y)
    state = loss.state()
    assert state.kappa[2] == 0 and (state.kappa > 0).sum() == C - 1
    rho, weight = z @ state.mu.T, torch.ones(1, C, dtype=torch.float64)
    part = Part(rho, y, state.kappa[None], weight, P)
    expected = class_scores(z, state, TAU, realization, beta)
    (left_out,) = part.realized(TAU, [(realization, beta)])
    for got in (loss.scores(z), left_out, realize(state, Rule(TAU, realization, beta)).at(rho)):
        torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12, equal_nan=True)
    nan = expected.isnan()
    assert (nan == nan[0]).all()
    classes = nan[0].nonzero().squeeze(1).tolist()
    if realization not in TEMPERED:
        assert classes == []
    elif beta < 4:
        assert classes == [2]
    else:
        assert 2 in classes and 1 < len(classes) < C


def test_a_training_part_without_weight_is_an_error() -> None:
    z, y = cancelling()
    w = torch.zeros(len(z), dtype=torch.float64)
    w[:4] = 1
    statistics = ClassStatistics(C, P).update(z, y, w)
    rows = torch.arange(len(z)).numpy()
    with pytest.raises(ValueError, match="a training part of positive weight in each split"):
        next(fold_parts(z, y, w, statistics, rows[4:], rows[:4], "mle"))
