"""Gradients of the loss on the sphere against autograd and the paper's identities."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from class_samples import F64
from decisions.overlapping_classes import BETA, OFFSET, classes, queries, tilted
from resultant._core import chunks
from resultant.classes.realization import Realization, class_scores, realize, target_temperature
from resultant.classes.rule import REALIZATIONS, Rule
from resultant.classes.statistics import ClassState
from resultant.decisions.gradients import (
    gradient_coordinates,
    gradient_cosines,
    intercept_gradient_difference,
    loss_gradient,
    mean_relative_error,
    stacked_relative_error,
)
from resultant.score.exact import ambient_gradient, vmf_score
from resultant.special.bessel import log_bessel_i
from small_classes import TAU, C, N, P, close


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_gradient_is_that_of_autograd(
    realization: str, linear: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the normalisation, whose derivative at a unit vector is the projection."""
    state = classes()
    z, y = queries(state)
    rule = realize(state, Rule(TAU, realization, BETA, offset=OFFSET))
    raw = z.clone().requires_grad_()
    x = torch.nn.functional.normalize(raw, dim=-1)
    if linear:
        logits = (
            rule.linear().at(torch.zeros(C, dtype=F64)) + x @ (rule.gain()[:, None] * state.mu).T
        )
        rule = rule.linear()
    else:
        logits = class_scores(x, state, TAU, realization, BETA, offset=OFFSET)
    torch.nn.functional.cross_entropy(logits, y, reduction="sum").backward()
    assert raw.grad is not None
    G = loss_gradient(z, y, rule)
    close(G, raw.grad, 1e-9, 1e-11)
    close((G * z).sum(-1), torch.zeros(N, dtype=F64))
    monkeypatch.setattr(chunks, "SCORE_BYTES", 8 * C * 3)
    close(loss_gradient(z, y, rule), G)
    close(gradient_coordinates(z, y, rule).tangent, G)


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_ambient_gradient_is_that_of_the_score_of_a_vector(realization: str) -> None:
    r"""The score as a function of any v: phi(|kappa mu + t v|) - phi(kappa), eq:main-exact."""
    state = classes()
    z, y = queries(state)
    rule = realize(state, Rule(TAU, realization, BETA, offset=OFFSET))
    v = z.clone().requires_grad_()
    scores = OFFSET.clone().expand(N, C)
    if rule.tau is not None:
        tilted = state.kappa[:, None] * state.mu + v[:, None] / rule.tau.expand(C)[:, None]
        scores = scores + _phi(tilted.norm(dim=-1)) - _phi(state.kappa)
    if rule.slope is not None:
        scores = scores + rule.slope * (v @ state.mu.T)
    if realization == "preserve":
        star = target_temperature(state, TAU, BETA)
        scores = scores + vmf_score(0.0, state.kappa, TAU, P) - vmf_score(0.0, state.kappa, star, P)
    torch.nn.functional.cross_entropy(scores, y, reduction="sum").backward()
    assert v.grad is not None
    parts = gradient_coordinates(z, y, rule)
    close(parts.ambient, v.grad, 1e-8, 1e-9)
    close(parts.ambient, parts.prototype + parts.radial[:, None] * z)
    close(parts.tangent, parts.ambient - (parts.ambient * z).sum(-1, keepdim=True) * z, atol=1e-11)


def _phi(x: Tensor) -> Tensor:
    nu = P / 2 - 1
    return log_bessel_i(nu, x) - nu * x.log()


def test_coordinates_at_zero_concentration() -> None:
    state = classes(torch.tensor([0.0, 3.0, 40.0], dtype=F64))
    z, y = queries(state, 4)
    parts = gradient_coordinates(z, y, realize(state, Rule(TAU)))
    P_ = class_scores(z, state, TAU).softmax(-1) - torch.eye(3, dtype=F64)[y]
    gradients = ambient_gradient(z[:, None], state.mu, state.kappa, TAU)
    close(parts.ambient, (P_[..., None] * gradients).sum(1), 1e-10, 1e-11)


def test_gradient_where_the_label_is_almost_certain() -> None:
    """P_y - 1 is e^-80 here, and not zero."""
    rule = Realization(
        torch.eye(2, 4, dtype=F64),
        torch.ones(2, dtype=F64),
        None,
        torch.tensor(80.0, dtype=F64),
        None,
    )
    z = torch.tensor([[1.0, 0.0, 0.0, 0.0]], dtype=F64)
    G = loss_gradient(z, torch.tensor([0]), rule)
    small = 80 * math.exp(-80) / (1 + math.exp(-80))
    close(G, torch.tensor([[0.0, small, 0.0, 0.0]], dtype=F64), 1e-12, 0.0)


def test_a_class_of_prior_zero_takes_no_part() -> None:
    state = classes()
    z, y = queries(state, 4)
    offset = OFFSET.clone()
    offset[5] = -math.inf
    without = ClassState(state.mu[:5], state.kappa[:5], state.count[:5])
    G = loss_gradient(z, y, realize(state, Rule(TAU, offset=offset)))
    close(G, loss_gradient(z, y, realize(without, Rule(TAU, offset=OFFSET[:5]))))


@pytest.mark.parametrize("beta", [0.0, 0.6, 1.0])
def test_intercept_gradient_difference(beta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    state = classes()
    z, y = queries(state)
    rule = Rule(TAU, beta=beta, offset=OFFSET)
    difference, predicted = intercept_gradient_difference(z, y, state, rule)
    close(difference, predicted, 1e-9, 1e-10)
    if beta == 1.0:
        close(difference, torch.zeros_like(difference))
    else:
        assert float(difference.norm()) > 0.1
    monkeypatch.setattr(chunks, "SCORE_BYTES", 8 * C * 2)
    other = intercept_gradient_difference(z, (y + 1) % C, state, rule)
    close(other.predicted, predicted)
    close(other.difference, difference, 1e-9, 1e-10)


def test_comparison_of_gradients() -> None:
    torch.manual_seed(2)
    G, H = torch.randn(5, 3, dtype=F64), torch.randn(5, 3, dtype=F64)
    naive = 100 * math.sqrt(
        sum((a - b) ** 2 for a, b in zip(G.flatten().tolist(), H.flatten().tolist(), strict=True))
        / sum(a**2 for a in G.flatten().tolist())
    )
    assert stacked_relative_error(G, H) == pytest.approx(naive, rel=1e-13)
    assert stacked_relative_error(G.float(), G.float()) == 0
    by_row = [100 * float((g - h).norm() / g.norm()) for g, h in zip(G, H, strict=True)]
    assert mean_relative_error(G, H) == pytest.approx(sum(by_row) / len(by_row), rel=1e-13)
    part = G * torch.tensor([0, 1, 1, 1, 1])[:, None]
    assert mean_relative_error(part, H) == pytest.approx(
        sum(by_row[1:]) / len(by_row[1:]), rel=1e-13
    )
    with pytest.raises(ValueError, match="expected a row of G of positive norm, got none"):
        mean_relative_error(0 * G, H)
    close(gradient_cosines(G, H), torch.cosine_similarity(G, H))
    close(gradient_cosines(1e-200 * G, H), torch.cosine_similarity(G, H))
    close(gradient_cosines(G, -2 * G), -torch.ones(5))
    G[2] = 0
    assert gradient_cosines(G, H).isnan().tolist() == [False, False, True, False, False]


def test_leading_gradient_tracks_the_exact_one() -> None:
    """The error falls like 1/nu (eq:leading-sphere-gradient)."""
    errors = []
    for p in (512, 1024, 2048):
        state = tilted(p)
        z, y = queries(state)
        rule = realize(state, Rule(TAU))
        exact, leading = loss_gradient(z, y, rule), loss_gradient(z, y, rule.linear())
        errors.append(stacked_relative_error(exact, leading))
        assert float(gradient_cosines(exact, leading).min()) > 0.999
    assert [a / b for a, b in pairwise(errors)] == pytest.approx([2, 2], rel=0.15)
