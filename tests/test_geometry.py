"""Margins, competitors and gradients against loops, autograd and the paper's identities."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from resultant import geometry
from resultant.bessel import log_bessel_i
from resultant.classes import ClassState
from resultant.gain import REALIZATIONS, Realization, class_scores, realize, target_temperature
from resultant.geometry import (
    all_pairs,
    centre_margins,
    effective_competitors,
    gradient_coordinates,
    gradient_cosines,
    intercept_gradient_difference,
    joint_leading,
    loss_gradient,
    pairwise_margins,
    stacked_relative_error,
)
from resultant.score import ambient_gradient, vmf_score
from resultant.vmf import mean_resultant

F64 = torch.float64
N, C, P, TAU, BETA = 7, 6, 16, 0.1, 0.3


def unit(*shape: int) -> Tensor:
    return torch.nn.functional.normalize(torch.randn(*shape, dtype=F64), dim=-1)


def classes(kappa: Tensor | None = None, p: int = P) -> ClassState:
    torch.manual_seed(5)
    kappa = torch.logspace(0, 2.5, C, dtype=F64) if kappa is None else kappa
    mu = torch.nn.functional.normalize(unit(len(kappa), p) + 0.5 * unit(p), dim=-1)
    return ClassState(mu, kappa, torch.ones(len(kappa), dtype=torch.int64))


def queries(state: ClassState, n: int = N) -> tuple[Tensor, Tensor]:
    torch.manual_seed(6)
    y = torch.arange(n) % state.num_classes
    return torch.nn.functional.normalize(state.mu[y] + unit(n, state.dim), dim=-1), y


def close(a: Tensor, b: Tensor, rtol: float = 1e-11, atol: float = 1e-12) -> None:
    torch.testing.assert_close(a.double(), b.double(), rtol=rtol, atol=atol)


OFFSET = torch.linspace(-2, 1, C, dtype=F64)
PAIRS = torch.tensor([[0, 1], [5, 2], [3, 4], [1, 0]])


# Rules


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_rule_is_class_scores_and_its_slope(realization: str) -> None:
    state = classes()
    z, _ = queries(state)
    rule = realize(state, TAU, realization, BETA, offset=OFFSET)
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
    linear = realize(state, TAU, realization, BETA, offset=OFFSET).linear()
    close(linear.at(rho), intercept + OFFSET + gain * rho)
    close(linear.gain(), gain)
    close(linear.linear().at(rho), linear.at(rho))


def test_joint_leading() -> None:
    state = classes()
    rho = torch.linspace(-1, 1, 9, dtype=F64).unsqueeze(1).expand(-1, C)
    lam = state.kappa / (P / 2 - 1)
    r0 = lam / (1 + torch.sqrt(1 + lam**2))
    close(joint_leading(state, TAU, offset=OFFSET).at(rho), OFFSET + r0 / TAU * rho)
    star = target_temperature(state, TAU, BETA)
    for realization in ("temperature", "preserve"):
        leading = joint_leading(state, TAU, realization, BETA, offset=OFFSET)
        close(leading.at(rho), OFFSET + r0 / star * rho)
    g = mean_resultant(P, state.kappa) / TAU
    slope = r0 / TAU + (1 - BETA) * (g.mean() - g)
    close(joint_leading(state, TAU, "angular", BETA).at(rho), slope * rho)
    cosine = realize(state, TAU, "cosine", offset=OFFSET)
    close(joint_leading(state, TAU, "cosine", offset=OFFSET).at(rho), cosine.at(rho))


# Margins


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_pairwise_margins(realization: str, monkeypatch: pytest.MonkeyPatch) -> None:
    state = classes()
    z, _ = queries(state)
    rule = realize(state, TAU, realization, BETA, offset=OFFSET)
    scores = class_scores(z, state, TAU, realization, BETA, offset=OFFSET)
    naive = torch.stack([scores[:, a] - scores[:, b] for a, b in PAIRS.tolist()], 1)
    close(pairwise_margins(z, rule, PAIRS), naive, atol=1e-11)
    close(naive, torch.stack([scores.log_softmax(-1) @ _contrast(*p) for p in PAIRS.tolist()], 1))
    monkeypatch.setattr(geometry, "CHUNK_BYTES", 8 * 4 * 3)
    close(pairwise_margins(z, rule, PAIRS), naive, atol=1e-11)
    assert pairwise_margins(z[:0], rule, PAIRS).shape == (0, 4)
    assert pairwise_margins(z, rule, PAIRS[:0]).shape == (N, 0)


def _contrast(a: int, b: int) -> Tensor:
    return torch.eye(C, dtype=F64)[a] - torch.eye(C, dtype=F64)[b]


def test_leading_pairwise_logodds() -> None:
    """eq:leading-pairwise-logodds: the normal of the boundary is g_a mu_a - g_b mu_b."""
    state = classes()
    z, _ = queries(state)
    for rule in (joint_leading(state, TAU, offset=OFFSET), realize(state, TAU).linear()):
        assert rule.shift is not None
        g, b, (i, j) = rule.gain(), rule.shift, PAIRS.T
        normal = g[i, None] * state.mu[i] - g[j, None] * state.mu[j]
        close(pairwise_margins(z, rule, PAIRS), b[i] - b[j] + z @ normal.T, atol=1e-11)


def test_leading_margins_close_like_one_over_nu() -> None:
    """Doubling nu at fixed lambda and prototypes halves the exact less the leading margin."""
    base = classes(p=64)
    errors: dict[str, list[float]] = {"joint": [], "linear": []}
    for p in (512, 1024, 2048):
        mu = torch.nn.functional.pad(base.mu, (0, p - 64))
        kappa = torch.linspace(0.3, 3.0, C, dtype=F64) * (p / 2 - 1)
        state = ClassState(mu, kappa, base.count)
        z, _ = queries(state)
        exact = realize(state, TAU)
        truth = pairwise_margins(z, exact, PAIRS)
        for name, rule in (("joint", joint_leading(state, TAU)), ("linear", exact.linear())):
            errors[name].append(float((truth - pairwise_margins(z, rule, PAIRS)).norm()))
    for sizes in errors.values():
        ratios = [a / b for a, b in pairwise(sizes)]
        assert ratios == pytest.approx([2.0, 2.0], rel=0.15)


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_centre_margins(realization: str) -> None:
    state = classes()
    rule = realize(state, TAU, realization, BETA, offset=OFFSET)
    at_centres = class_scores(state.mu, state, TAU, realization, BETA, offset=OFFSET)
    for pairs in (None, PAIRS, PAIRS[:2]):
        a, b = (all_pairs(C) if pairs is None else pairs).T
        M = centre_margins(rule, pairs)
        close(M.a, at_centres[a, a] - at_centres[a, b], atol=1e-10)
        close(M.b, at_centres[b, b] - at_centres[b, a], atol=1e-10)


def test_leading_centre_margins() -> None:
    state = classes()
    rule = joint_leading(state, TAU, offset=OFFSET)
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


# Gradients


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_gradient_is_that_of_autograd(
    realization: str, linear: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the normalisation, whose derivative at a unit vector is the projection."""
    state = classes()
    z, y = queries(state)
    rule = realize(state, TAU, realization, BETA, offset=OFFSET)
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
    monkeypatch.setattr(geometry, "CHUNK_BYTES", 8 * C * 3)
    close(loss_gradient(z, y, rule), G)
    close(gradient_coordinates(z, y, rule).tangent, G)


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_ambient_gradient_is_that_of_the_score_of_a_vector(realization: str) -> None:
    r"""The score as a function of any v: phi(|kappa mu + t v|) - phi(kappa), eq:main-exact."""
    state = classes()
    z, y = queries(state)
    rule = realize(state, TAU, realization, BETA, offset=OFFSET)
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
    parts = gradient_coordinates(z, y, realize(state, TAU))
    P_ = class_scores(z, state, TAU).softmax(-1) - torch.eye(3, dtype=F64)[y]
    each = ambient_gradient(z[:, None], state.mu, state.kappa, TAU)
    close(parts.ambient, (P_[..., None] * each).sum(1), 1e-10, 1e-11)


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
    G = loss_gradient(z, y, realize(state, TAU, offset=offset))
    close(G, loss_gradient(z, y, realize(without, TAU, offset=OFFSET[:5])))


@pytest.mark.parametrize("beta", [0.0, 0.6, 1.0])
def test_intercept_gradient_difference(beta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    state = classes()
    z, y = queries(state)
    difference, predicted = intercept_gradient_difference(z, y, state, TAU, beta, offset=OFFSET)
    close(difference, predicted, 1e-9, 1e-10)
    if beta == 1.0:
        close(difference, torch.zeros_like(difference))
    else:
        assert float(difference.norm()) > 0.1
    monkeypatch.setattr(geometry, "CHUNK_BYTES", 8 * C * 2)
    other = intercept_gradient_difference(z, (y + 1) % C, state, TAU, beta, offset=OFFSET)
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
    close(gradient_cosines(G, H), torch.cosine_similarity(G, H))
    close(gradient_cosines(1e-200 * G, H), torch.cosine_similarity(G, H))
    close(gradient_cosines(G, -2 * G), -torch.ones(5))
    G[2] = 0
    assert gradient_cosines(G, H).isnan().tolist() == [False, False, True, False, False]


def test_leading_gradient_tracks_the_exact_one() -> None:
    """The error falls like 1/nu (eq:leading-sphere-gradient)."""
    base, errors = classes(p=64), []
    for p in (512, 1024, 2048):
        mu = torch.nn.functional.pad(base.mu, (0, p - 64))
        kappa = torch.linspace(0.3, 3.0, C, dtype=F64) * (p / 2 - 1)
        state = ClassState(mu, kappa, base.count)
        z, y = queries(state)
        rule = realize(state, TAU)
        exact, leading = loss_gradient(z, y, rule), loss_gradient(z, y, rule.linear())
        errors.append(stacked_relative_error(exact, leading))
        assert float(gradient_cosines(exact, leading).min()) > 0.999
    assert [a / b for a, b in pairwise(errors)] == pytest.approx([2, 2], rel=0.15)


# Errors

STATE = classes()
RULE = realize(STATE, TAU)
Z, Y = queries(STATE)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (torch.tensor([0, 1]), r"expected pairs \[P, 2\], got shape \(2,\)"),
        ([[0, 1]], r"expected pairs \[P, 2\], got list"),
        (PAIRS.int(), "expected pairs of dtype torch.int64, got torch.int32"),
        (PAIRS.to("meta"), "expected pairs on cpu, got them on meta"),
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
    with pytest.raises(ValueError, match=r"expected z \[N, 16\], got shape \(7, 3\)"):
        loss_gradient(Z[:, :3], Y, RULE)
    with pytest.raises(ValueError, match=r"expected y in \[0, 6\), got 6 at index 0"):
        gradient_coordinates(Z, Y + 6, RULE)
    with pytest.raises(ValueError, match=r"expected scores \[..., C\] of one class .* shape \(\)"):
        effective_competitors(torch.ones(()))
    with pytest.raises(ValueError, match=r"gradients of one shape, got \(7, 16\) and \(6, 16\)"):
        stacked_relative_error(Z, Z[1:])
    with pytest.raises(ValueError, match="expected G of positive norm, got 0"):
        stacked_relative_error(0 * Z, Z)
    with pytest.raises(ValueError, match=r"expected gradients \[N, p\], got shape \(16,\)"):
        gradient_cosines(Z[0], Z[0])
    with pytest.raises(ValueError, match="expected p >= 3 for an expansion"):
        joint_leading(classes(torch.ones(2, dtype=F64), 2), TAU)
    with pytest.raises(ValueError, match=r"expected realization to be one of .* got 'hot'"):
        realize(STATE, TAU, "hot")


def test_no_queries() -> None:
    assert loss_gradient(Z[:0], Y[:0], RULE).shape == (0, P)
    assert gradient_coordinates(Z[:0], Y[:0], RULE).radial.shape == (0,)


@pytest.mark.gpu
def test_gpu_agrees() -> None:
    rule = realize(STATE.to("cuda"), TAU, "angular")
    here = realize(STATE, TAU, "angular")
    close(loss_gradient(Z.cuda(), Y.cuda(), rule).cpu(), loss_gradient(Z, Y, here), 1e-9, 1e-10)
    close(centre_margins(rule).a.cpu(), centre_margins(here).a, 1e-10, 1e-10)
    close(
        pairwise_margins(Z.cuda(), rule, PAIRS.cuda()).cpu(),
        pairwise_margins(Z, here, PAIRS),
        1e-10,
        1e-10,
    )
