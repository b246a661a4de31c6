"""Margins, choice of pairs and loss gradients against loops, autograd and enumerations."""

import math
from collections import Counter
from itertools import combinations, product

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy

import resultant as rs
from class_samples import F64, close, unit
from decisions.arcs import BETA, OFFSET, PAIRS
from resultant._core import memory
from resultant.classes.groups import HEAD, MEDIUM, TAIL, shot_groups
from resultant.classes.rule import REALIZATIONS
from resultant.decisions.margins import PAIR_TYPES
from small_classes import TAU, C, N, P, classes, queries

STATE = classes()
Z, Y = queries(STATE), torch.arange(N) % C
H0 = rs.vmf_score(0.0, STATE.kappa, TAU, P)
H1 = rs.vmf_score(0.0, STATE.kappa, rs.target_temperature(STATE, TAU, BETA), P)


def scores_of(realization: str) -> tuple[rs.ClassScores, Tensor]:
    """The scores as functions of cosines, and the scores of the queries."""
    rule = rs.Rule(TAU, realization, BETA, offset=OFFSET)
    return rs.realize(STATE, rule), rs.class_scores(Z, STATE, TAU, realization, BETA, offset=OFFSET)


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_scores_and_slopes_of_cosines(realization: str) -> None:
    rule, scores = scores_of(realization)
    rho, h, some = Z @ STATE.mu.T, 1e-5, torch.tensor([4, 0, 4])
    close(rule.at(rho), scores)
    close(rule.slope_at(rho), (rule.at(rho + h) - rule.at(rho - h)) / (2 * h), 1e-8, 1e-8)
    for f in (rule.at, rule.slope_at):
        close(f(rho[:, some], some), f(rho)[:, some])


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_linear_mean(realization: str) -> None:
    """q_c(0) + g_c rho, written out for each realization."""
    rho = torch.linspace(-1, 1, 9, dtype=F64).unsqueeze(1).expand(-1, C)
    g = rs.mean_resultant(P, STATE.kappa) / TAU
    target = g.mean() + BETA * (g - g.mean())
    intercept, gain = {
        "native": (H0, g),
        "temperature": (H1, target),
        "preserve": (H0, target),
        "angular": (H0, target),
        "cosine": (torch.zeros(C, dtype=F64), g.mean().expand(C)),
    }[realization]
    rule, _ = scores_of(realization)
    linear, alone = rule.linear(), rule.linear(intercept=False)
    close(linear.at(rho), intercept + OFFSET + gain * rho)
    close(alone.at(rho), OFFSET + gain * rho)
    close(linear.gain(), gain)
    close(linear.linear().at(rho), linear.at(rho))
    close(linear.linear(intercept=False).at(rho), alone.at(rho))


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_margins(realization: str) -> None:
    rule, scores = scores_of(realization)
    a, b = PAIRS.T
    close(rs.pairwise_margins(Z, rule, PAIRS), scores[:, a] - scores[:, b], atol=1e-11)
    centres = rs.class_scores(STATE.mu, STATE, TAU, realization, BETA, offset=OFFSET)
    for pairs in (None, PAIRS, PAIRS[:2]):
        a, b = (torch.combinations(torch.arange(C)) if pairs is None else pairs).T
        M = rs.centre_margins(rule, pairs)
        close(M.a, centres[a, a] - centres[a, b], atol=1e-10)
        close(M.b, centres[b, b] - centres[b, a], atol=1e-10)


@given(st.lists(st.floats(-800, 800), min_size=1, max_size=9), st.floats(-800, 800))
@settings(max_examples=80, deadline=None)
def test_effective_competitors(scores: list[float], more: float) -> None:
    s = torch.tensor(scores, dtype=F64)
    n = rs.effective_competitors(s)
    assert 1 <= float(n) <= len(scores)
    close(s.max() + n.log(), s.logsumexp(-1))
    # One more competitor adds its share, which may be below the rounding of the sum.
    added = torch.tensor([min(more, float(s.max()))], dtype=F64)
    close(rs.effective_competitors(torch.cat([s, added])), n + (added[0] - s.max()).exp())
    close(rs.effective_competitors(torch.stack([s, s + 7])), n.expand(2))


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_ambient_gradient_is_that_of_the_score_of_a_vector(realization: str) -> None:
    r"""The score as a function of any v: phi(|kappa mu + t v|) - phi(kappa), eq:main-exact."""
    nu = P / 2 - 1

    def phi(x: Tensor) -> Tensor:
        return rs.log_bessel_i(nu, x) - nu * x.log()

    rule, _ = scores_of(realization)
    v = Z.clone().requires_grad_()
    scores = OFFSET.expand(N, C) + (H0 - H1 if realization == "preserve" else 0.0)
    if rule.tau is not None:
        sums = STATE.kappa[:, None] * STATE.mu + v[:, None] / rule.tau.expand(C)[:, None]
        scores = scores + phi(sums.norm(dim=-1)) - phi(STATE.kappa)
    if rule.slope is not None:
        scores = scores + rule.slope * (v @ STATE.mu.T)
    (expected,) = torch.autograd.grad(cross_entropy(scores, Y, reduction="sum"), v)
    parts = rs.gradient_coordinates(Z, Y, rule)
    close(parts.ambient, expected, 1e-9, 1e-11)
    close(parts.ambient, parts.prototype + parts.radial[:, None] * Z)
    across = parts.ambient - (parts.ambient * Z).sum(-1, keepdim=True) * Z
    for G in (parts.tangent, rs.loss_gradient(Z, Y, rule)):
        close(G, across, atol=1e-11)


def test_coordinates_at_zero_concentration() -> None:
    state = classes(torch.tensor([0.0, 3.0, 40.0], dtype=F64))
    z, y = queries(state, 4), torch.arange(4) % 3
    parts = rs.gradient_coordinates(z, y, rs.realize(state, rs.Rule(TAU)))
    weights = rs.class_scores(z, state, TAU).softmax(-1) - torch.eye(3, dtype=F64)[y]
    gradients = rs.ambient_gradient(z[:, None], state.mu, state.kappa, TAU)
    close(parts.ambient, (weights[..., None] * gradients).sum(1), 1e-10, 1e-11)
    across = gradients - (gradients * z[:, None]).sum(-1, keepdim=True) * z[:, None]
    tangents = rs.tangent_gradient(z[:, None], state.mu, state.kappa, TAU)
    close(tangents, across, 1e-9, 1e-11)


def test_gradient_where_the_label_is_almost_certain() -> None:
    """P_y - 1 is e^-80 here, and not zero."""
    mu, slope = torch.eye(2, 4, dtype=F64), torch.tensor(80.0, dtype=F64)
    rule = rs.ClassScores(mu, torch.ones(2, dtype=F64), None, slope, None)
    G = rs.loss_gradient(mu[:1], torch.tensor([0]), rule)
    small = 80 * math.exp(-80) / (1 + math.exp(-80))
    close(G, torch.tensor([[0.0, small, 0.0, 0.0]], dtype=F64), 1e-12, 0.0)


@pytest.mark.parametrize("beta", [0.0, 0.6, 1.0])
def test_intercept_gradient_difference(beta: float) -> None:
    rule = rs.Rule(TAU, beta=beta, offset=OFFSET)
    difference, predicted = rs.intercept_gradient_difference(Z, Y, STATE, rule)
    close(difference, predicted, 1e-9, 1e-10)
    if beta == 1.0:
        close(difference, torch.zeros_like(difference))
    else:
        assert float(difference.norm()) > 0.1
    other = rs.intercept_gradient_difference(Z, (Y + 1) % C, STATE, rule)
    close(other.predicted, predicted)
    close(other.difference, difference, 1e-9, 1e-10)


def test_comparison_of_gradients() -> None:
    torch.manual_seed(2)
    G, H = torch.randn(5, 3, dtype=F64), torch.randn(5, 3, dtype=F64)
    whole = 100 * float((G - H).norm() / G.norm())
    assert rs.stacked_relative_error(G, H) == pytest.approx(whole, rel=1e-13)
    by_row = [100 * float((g - h).norm() / g.norm()) for g, h in zip(G, H, strict=True)]
    assert rs.mean_relative_error(G, H) == pytest.approx(sum(by_row) / 5, rel=1e-13)
    part = G * torch.tensor([0, 1, 1, 1, 1])[:, None]
    assert rs.mean_relative_error(part, H) == pytest.approx(sum(by_row[1:]) / 4, rel=1e-13)
    for scale in (1.0, 1e-200):
        close(rs.gradient_cosines(scale * G, H), torch.cosine_similarity(G, H))
    close(rs.gradient_cosines(G, -2 * G), -torch.ones(5))
    G[2] = 0
    assert rs.gradient_cosines(G, H).isnan().tolist() == [False, False, True, False, False]


def long_tail(C: int = 60) -> tuple[rs.ClassState, Tensor]:
    torch.manual_seed(4)
    counts = (500 * 0.01 ** (torch.arange(C) / (C - 1))).long()[torch.randperm(C)]
    return rs.ClassState(unit(C, 8), torch.ones(C, dtype=F64), counts), shot_groups(counts)


@pytest.mark.parametrize("chunk", [1 << 25, 8 * 50])
def test_selected_pairs(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MATRIX_BYTES", chunk)
    state, groups = long_tail()
    chosen = rs.select_pairs(state, groups, seed=3)
    assert chosen.pairs.shape == (60, 2) and chosen.kind.bincount().tolist() == [10] * 6
    rho, names = state.mu @ state.mu.T, "HMT"
    seen = {frozenset(pair) for pair in chosen.pairs.tolist()}
    assert len(seen) == 60 and all(len(pair) == 2 for pair in seen)
    for kind, name in enumerate(PAIR_TYPES):
        of_kind = chosen.kind == kind
        for a, b in chosen.pairs[of_kind].tolist():
            assert names[groups[a]] + names[groups[b]] == name
        best = sorted(
            (-float(rho[pair]), {*pair})
            for pair in combinations(range(60), 2)
            if sorted(names[groups[c]] for c in pair) == sorted(name)
        )
        near = chosen.pairs[of_kind & chosen.closest].tolist()
        assert [{*pair} for pair in near] == [pair for _, pair in best[:5]]
    again, other = (rs.select_pairs(state, groups, seed=seed) for seed in (3, 4))
    assert torch.equal(again.pairs, chosen.pairs)
    assert torch.equal(other.pairs[chosen.closest], chosen.pairs[chosen.closest])
    assert not torch.equal(other.pairs, chosen.pairs)


@pytest.mark.slow
def test_random_pairs_are_uniform() -> None:
    """Five of the ten pairs within a group that are not the five closest, evenly over seeds."""
    torch.manual_seed(0)
    state = rs.ClassState(unit(24, 4), torch.ones(24, dtype=F64), torch.ones(24))
    groups, tally = torch.tensor([HEAD] * 6 + [TAIL] * 18), Counter()
    for seed in range(300):
        chosen = rs.select_pairs(state, groups, seed=seed)
        tally.update(map(tuple, chosen.pairs[(chosen.kind == 0) & ~chosen.closest].tolist()))
    assert len(tally) == 10 and tally.total() == 1500
    # Each is drawn 150 times, with a standard deviation of 9.
    assert max(abs(n - 150) for n in tally.values()) < 45


def test_small_types_are_taken_whole() -> None:
    for number in (10, 20):
        chosen = rs.select_pairs(*long_tail(number))
        pairs = sorted(sorted(pair) for pair in chosen.pairs.tolist())
        assert pairs == torch.combinations(torch.arange(number)).tolist()
    state, _ = long_tail(40)
    groups = torch.tensor([HEAD] * 2 + [MEDIUM] * 3 + [TAIL] * 35)
    chosen = rs.select_pairs(state, groups)
    assert chosen.kind.bincount().tolist() == [1, 6, 10, 3, 10, 10]
    mixed = chosen.pairs[chosen.kind == 1].tolist()
    assert sorted(map(tuple, mixed)) == list(product((0, 1), (2, 3, 4)))
    assert rs.select_pairs(state, torch.full((40,), TAIL)).kind.tolist() == [5] * 10
