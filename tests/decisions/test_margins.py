"""Rules, margins and competitors against loops and the paper's identities."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from class_samples import F64
from decisions.overlapping_classes import BETA, OFFSET, PAIRS, classes, queries
from resultant._core import chunks
from resultant.classes.realization import class_scores, realize, target_temperature
from resultant.classes.rule import REALIZATIONS, Rule
from resultant.decisions.gradients import (
    gradient_coordinates,
    loss_gradient,
)
from resultant.decisions.margins import (
    all_pairs,
    centre_margins,
    effective_competitors,
    pairwise_margins,
)
from resultant.score.exact import vmf_score
from resultant.vmf.estimators import mean_resultant
from small_classes import TAU, C, N, P, close

# Rules


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_rule_is_class_scores_and_its_slope(realization: str) -> None:
    state = classes()
    z, _ = queries(state)
    rule = realize(state, Rule(TAU, realization, BETA, offset=OFFSET))
    rho = z @ state.mu.T
    close(rule.at(rho), class_scores(z, state, TAU, realization, BETA, offset=OFFSET))
    some = torch.tensor([4, 0, 4])
    close(rule.at(rho[:, some], some), rule.at(rho)[:, some])
    h = 1e-5
    close(rule.slope_at(rho), (rule.at(rho + h) - rule.at(rho - h)) / (2 * h), 1e-8, 1e-8)
    close(rule.slope_at(rho[:, some], some), rule.slope_at(rho)[:, some])


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_linear_mean(realization: str) -> None:
    """q_c(0) + g_c rho, written out for each realization."""
    state = classes()
    rho = torch.linspace(-1, 1, 9, dtype=F64).unsqueeze(1).expand(-1, C)
    A = mean_resultant(P, state.kappa)
    g = A / TAU
    target = g.mean() + BETA * (g - g.mean())
    h0 = vmf_score(0.0, state.kappa, TAU, P)
    h1 = vmf_score(0.0, state.kappa, target_temperature(state, TAU, BETA), P)
    intercept, gain = {
        "native": (h0, g),
        "temperature": (h1, target),
        "preserve": (h0, target),
        "angular": (h0, target),
        "cosine": (torch.zeros(C, dtype=F64), g.mean().expand(C)),
    }[realization]
    rule = realize(state, Rule(TAU, realization, BETA, offset=OFFSET))
    linear, alone = rule.linear(), rule.linear(intercept=False)
    close(linear.at(rho), intercept + OFFSET + gain * rho)
    close(alone.at(rho), OFFSET + gain * rho)
    close(linear.gain(), gain)
    close(linear.linear().at(rho), linear.at(rho))
    close(linear.linear(intercept=False).at(rho), alone.at(rho))


# Margins


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_pairwise_margins(realization: str, monkeypatch: pytest.MonkeyPatch) -> None:
    state = classes()
    z, _ = queries(state)
    rule = realize(state, Rule(TAU, realization, BETA, offset=OFFSET))
    scores = class_scores(z, state, TAU, realization, BETA, offset=OFFSET)
    naive = torch.stack([scores[:, a] - scores[:, b] for a, b in PAIRS.tolist()], 1)
    close(pairwise_margins(z, rule, PAIRS), naive, atol=1e-11)
    close(naive, torch.stack([scores.log_softmax(-1) @ _contrast(*p) for p in PAIRS.tolist()], 1))
    monkeypatch.setattr(chunks, "SCORE_BYTES", 8 * 4 * 3)
    close(pairwise_margins(z, rule, PAIRS), naive, atol=1e-11)
    assert pairwise_margins(z[:0], rule, PAIRS).shape == (0, 4)
    close(pairwise_margins(z, rule, PAIRS, validate_args=False), naive, atol=1e-11)
    assert pairwise_margins(z, rule, PAIRS[:0]).shape == (N, 0)


def _contrast(a: int, b: int) -> Tensor:
    return torch.eye(C, dtype=F64)[a] - torch.eye(C, dtype=F64)[b]


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_centre_margins(realization: str) -> None:
    state = classes()
    rule = realize(state, Rule(TAU, realization, BETA, offset=OFFSET))
    at_centres = class_scores(state.mu, state, TAU, realization, BETA, offset=OFFSET)
    for pairs in (None, PAIRS, PAIRS[:2]):
        a, b = (all_pairs(C) if pairs is None else pairs).T
        M = centre_margins(rule, pairs)
        close(M.a, at_centres[a, a] - at_centres[a, b], atol=1e-10)
        close(M.b, at_centres[b, b] - at_centres[b, a], atol=1e-10)


@given(st.lists(st.floats(-800, 800), min_size=1, max_size=9), st.floats(-800, 800))
@settings(max_examples=80, deadline=None)
def test_effective_competitors(scores: list[float], more: float) -> None:
    s = torch.tensor(scores, dtype=F64)
    n = effective_competitors(s)
    assert 1 <= float(n) <= len(scores)
    close(s.max() + n.log(), s.logsumexp(-1))
    # One more competitor adds its share, which may be below the rounding of the sum.
    added = torch.tensor([min(more, float(s.max()))], dtype=F64)
    close(effective_competitors(torch.cat([s, added])), n + (added[0] - s.max()).exp())
    close(effective_competitors(torch.stack([s, s + 7])), n.expand(2))


# Errors

STATE = classes()
RULE = realize(STATE, Rule(TAU))
Z, Y = queries(STATE)


def test_no_queries() -> None:
    assert loss_gradient(Z[:0], Y[:0], RULE).shape == (0, P)
    assert gradient_coordinates(Z[:0], Y[:0], RULE).radial.shape == (0,)


@pytest.mark.gpu
def test_gpu_agrees() -> None:
    rule = realize(STATE.to("cuda"), Rule(TAU, "angular"))
    here = realize(STATE, Rule(TAU, "angular"))
    close(loss_gradient(Z.cuda(), Y.cuda(), rule).cpu(), loss_gradient(Z, Y, here), 1e-9, 1e-10)
    close(centre_margins(rule).a.cpu(), centre_margins(here).a, 1e-10, 1e-10)
    close(
        pairwise_margins(Z.cuda(), rule, PAIRS.cuda()).cpu(),
        pairwise_margins(Z, here, PAIRS),
        1e-10,
        1e-10,
    )
