"""Rules, margins and competitors against loops and the paper's identities."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from class_samples import F64
from decisions.overlapping_classes import BETA, OFFSET, PAIRS, classes, queries, tilted
from resultant._core import chunks
from resultant.classes.gain import target_temperature
from resultant.classes.realization import Realization, class_scores, realize
from resultant.classes.rule import REALIZATIONS, Rule
from resultant.decisions.gradients import (
    gradient_coordinates,
    gradient_cosines,
    loss_gradient,
    stacked_relative_error,
)
from resultant.decisions.margins import (
    all_pairs,
    centre_margins,
    effective_competitors,
    pairwise_margins,
)
from resultant.score.exact import vmf_score
from resultant.theory.leading import joint_leading
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


def test_joint_leading() -> None:
    state = classes()
    rho = torch.linspace(-1, 1, 9, dtype=F64).unsqueeze(1).expand(-1, C)
    lam = state.kappa / (P / 2 - 1)
    r0 = lam / (1 + torch.sqrt(1 + lam**2))
    close(joint_leading(state, Rule(TAU, offset=OFFSET)).at(rho), OFFSET + r0 / TAU * rho)
    star = target_temperature(state, TAU, BETA)
    for realization in ("temperature", "preserve"):
        leading = joint_leading(state, Rule(TAU, realization, BETA, offset=OFFSET))
        close(leading.at(rho), OFFSET + r0 / star * rho)
    g = mean_resultant(P, state.kappa) / TAU
    slope = r0 / TAU + (1 - BETA) * (g.mean() - g)
    close(joint_leading(state, Rule(TAU, "angular", BETA)).at(rho), slope * rho)
    cosine = realize(state, Rule(TAU, "cosine", offset=OFFSET))
    close(joint_leading(state, Rule(TAU, "cosine", offset=OFFSET)).at(rho), cosine.at(rho))


def test_scores_of_intercepts_only() -> None:
    mu, kappa = torch.eye(3, 4, dtype=F64), torch.ones(3, dtype=F64)
    shift = torch.tensor([1.0, 2.0, 3.0], dtype=F64)
    scores = Realization(mu, kappa, None, None, shift)
    assert torch.equal(scores.at(torch.zeros(2, 3, dtype=F64)), shift.expand(2, 3))


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


def test_leading_pairwise_logodds() -> None:
    """eq:leading-pairwise-logodds: the normal of the boundary is g_a mu_a - g_b mu_b."""
    state = classes()
    z, _ = queries(state)
    for rule in (
        joint_leading(state, Rule(TAU, offset=OFFSET)),
        realize(state, Rule(TAU)).linear(),
    ):
        assert rule.shift is not None
        g, b, (i, j) = rule.gain(), rule.shift, PAIRS.T
        normal = g[i, None] * state.mu[i] - g[j, None] * state.mu[j]
        close(pairwise_margins(z, rule, PAIRS), b[i] - b[j] + z @ normal.T, atol=1e-11)


def test_leading_margins_close_like_one_over_nu() -> None:
    """Doubling nu at fixed lambda and prototypes halves the exact less the leading margin."""
    errors: dict[str, list[float]] = {"joint": [], "linear": []}
    for p in (512, 1024, 2048):
        state = tilted(p)
        z, _ = queries(state)
        exact = realize(state, Rule(TAU))
        truth = pairwise_margins(z, exact, PAIRS)
        for name, rule in (("joint", joint_leading(state, Rule(TAU))), ("linear", exact.linear())):
            errors[name].append(float((truth - pairwise_margins(z, rule, PAIRS)).norm()))
    for sizes in errors.values():
        ratios = [a / b for a, b in pairwise(sizes)]
        assert ratios == pytest.approx([2.0, 2.0], rel=0.15)


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


def test_leading_centre_margins() -> None:
    state = classes()
    rule = joint_leading(state, Rule(TAU, offset=OFFSET))
    g = rule.gain()
    M = centre_margins(rule, PAIRS)
    for k, (a, b) in enumerate(PAIRS.tolist()):
        c = float(state.mu[a] @ state.mu[b])
        close(M.a[k], OFFSET[a] - OFFSET[b] + g[a] - g[b] * c)
        close(M.b[k], OFFSET[b] - OFFSET[a] + g[b] - g[a] * c)


def test_all_pairs() -> None:
    assert all_pairs(4).tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    assert all_pairs(1).shape == (0, 2)


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


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (torch.tensor([0, 1]), r"expected pairs \[P, 2\], got shape \(2,\)"),
        ([[0, 1]], r"expected pairs \[P, 2\], got list"),
        (PAIRS.int(), "expected pairs of dtype torch.int64, got torch.int32"),
        (PAIRS.to("meta"), "expected pairs on cpu, got pairs on meta"),
        (
            torch.tensor([[0, 1], [2, 6]]),
            r"expected pairs of two different classes in \[0, 6\), got \[2, 6\] at index 1",
        ),
        (torch.tensor([[3, 3]]), r"two different classes .* got \[3, 3\] at index 0"),
    ],
)
def test_pair_errors(pairs: Any, message: str) -> None:
    for call in (lambda: pairwise_margins(Z, RULE, pairs), lambda: centre_margins(RULE, pairs)):
        with pytest.raises(ValueError, match=message):
            call()


def test_other_errors() -> None:
    with pytest.raises(ValueError, match=r"expected z \[N, 64\], got shape \(7, 3\)"):
        loss_gradient(Z[:, :3], Y, RULE)
    with pytest.raises(ValueError, match=r"expected y in \[0, 6\), got 6 at index 0"):
        gradient_coordinates(Z, Y + 6, RULE)
    with pytest.raises(ValueError, match=r"expected scores \[..., C\] of one class .* shape \(\)"):
        effective_competitors(torch.ones(()))
    with pytest.raises(ValueError, match=r"gradients of one shape, got \(7, 64\) and \(6, 64\)"):
        stacked_relative_error(Z, Z[1:])
    with pytest.raises(ValueError, match="expected G of positive norm, got 0"):
        stacked_relative_error(0 * Z, Z)
    with pytest.raises(ValueError, match=r"expected gradients \[N, p\], got shape \(64,\)"):
        gradient_cosines(Z[0], Z[0])
    with pytest.raises(ValueError, match="expected p >= 3 for an expansion"):
        joint_leading(classes(torch.ones(2, dtype=F64), 2), Rule(TAU))
    with pytest.raises(ValueError, match=r"expected realization to be one of .* got 'hot'"):
        realize(STATE, Rule(TAU, "hot"))


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
