"""All that scores realizations of a target gain scores them alike, also where there is none."""

from __future__ import annotations

import math

import pytest
import torch

from loss_batches import TAU, C, P, batch, cancelling
from loss_batches import seeded as seeded
from resultant._core import validation as _checks
from resultant.classes.gain import Gains, mean_and_targets
from resultant.classes.realization import class_scores, realize, terms
from resultant.classes.rule import REALIZATIONS, TEMPERED, Rule
from resultant.classes.statistics import ClassState
from resultant.classifiers.left_out import Part
from resultant.losses.proco import ProCoLoss
from resultant.vmf.estimators import mean_resultant

F64 = torch.float64


@pytest.fixture
def unlooked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a device, where values are not looked at."""
    monkeypatch.setattr(_checks, "should_validate", lambda validate, *_: bool(validate))


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_all_callers_agree(realization: str, beta: float, unlooked: None) -> None:
    """Of a class without a gain, and at beta = 4 of those whose target is negative: NaN for them,
    and what it is for the others."""
    loss = ProCoLoss(C, P, TAU, realization, beta)
    z, y = cancelling()
    loss.bank.update(z, y)
    state = loss.state()
    assert state.kappa[2] == 0 and (state.kappa > 0).sum() == C - 1
    rho, weight = z @ state.mu.T, torch.ones(1, C, dtype=F64)
    part = Part(rho, y, state.kappa[None], weight, P)
    expected = class_scores(z, state, TAU, realization, beta)
    (left_out,) = part.realized(TAU, [(realization, beta)])
    for found in (loss.scores(z), left_out, realize(state, Rule(TAU, realization, beta)).at(rho)):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12, equal_nan=True)
    lost = expected.isnan()
    assert (lost == lost[0]).all()
    where = lost[0].nonzero().squeeze(1).tolist()
    if realization not in TEMPERED:
        assert where == []
    elif beta < 4:
        assert where == [2]
    else:
        assert 2 in where and 1 < len(where) < C


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_loss_of_a_class_without_a_gain(realization: str) -> None:
    """Refused where it has no temperature, as by class_scores; else the loss of its scores."""
    loss = ProCoLoss(C, P, TAU, realization)
    z, y = cancelling()
    if realization in TEMPERED:
        with pytest.raises(ValueError, match=r"and gains > 0 .*got 1 of 6 not: class 2 \(0\)$"):
            loss(z, y)
        with pytest.raises(ValueError, match=r"A > 0 .*got 1 of 6 not: class 2 \(0\)$"):
            class_scores(z, loss.state(), TAU, realization)
        return
    found = loss(z, y)
    scores = class_scores(z, loss.state(), TAU, realization)
    torch.testing.assert_close(found, torch.nn.functional.cross_entropy(scores, y))
    loss.check()


def test_what_is_not_known_is_not_told_of(unlooked: None) -> None:
    """A batch that is not finite is another matter than a class without a gain."""
    loss = ProCoLoss(C, P, TAU, "temperature", leave_out=True)
    z, y = batch()
    z[5, 2] = math.nan
    assert loss(z, y).isnan()
    loss.check()


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_batches_of_classes(realization: str, dtype: torch.dtype) -> None:
    """Terms of many sets of classes are those of each; at beta = 1 the temperature is native."""
    kappa = 10 ** (3 * torch.rand(4, 3, C, dtype=F64) - 1)
    tau = torch.tensor(TAU, dtype=dtype)
    for beta in (0.3, 1.0):
        g = mean_resultant(P, kappa) / TAU
        gains = Gains(g, *mean_and_targets(g, beta, "linear"))
        found = terms(realization, kappa.to(dtype), tau, gains, P)
        for at in ((0, 0), (3, 1)):
            mu = torch.eye(C, P, dtype=F64)
            state = ClassState(mu, kappa[at], torch.ones(C, dtype=torch.int64))
            rule = realize(state, Rule(TAU, realization, beta), dtype=dtype)
            for mine, theirs in zip(found, (rule.tau, rule.slope, rule.shift), strict=True):
                assert (mine is None) == (theirs is None)
                if mine is not None and theirs is not None:
                    mine = mine.expand_as(kappa)[at].to(dtype)
                    torch.testing.assert_close(mine, theirs.expand_as(mine), rtol=1e-15, atol=0)
    if found.tau is not None:
        assert (found.tau == tau).all()
