"""Leading scores, and the propagation of an expansion through softmax."""

# pyright: reportCallIssue=false, reportArgumentType=false
# Arguments are unpacked from lists.

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import resultant as rs
from class_samples import F64
from decisions import arcs
from decisions.overlapping_classes import BETA, OFFSET, classes
from resultant import vmf_score
from resultant.theory.score_expansion import joint_terms
from resultant.theory.softmax import propagate_loss, propagate_probabilities
from small_classes import TAU, C, P, close


def test_joint_leading() -> None:
    state = classes()
    rho = torch.linspace(-1, 1, 9, dtype=F64).unsqueeze(1).expand(-1, C)
    lam = state.kappa / (P / 2 - 1)
    r0 = lam / (1 + torch.sqrt(1 + lam**2))
    close(rs.joint_leading(state, rs.Rule(TAU, offset=OFFSET)).at(rho), OFFSET + r0 / TAU * rho)
    star = rs.target_temperature(state, TAU, BETA)
    for realization in ("temperature", "preserve"):
        leading = rs.joint_leading(state, rs.Rule(TAU, realization, BETA, offset=OFFSET))
        close(leading.at(rho), OFFSET + r0 / star * rho)
    g = rs.mean_resultant(P, state.kappa) / TAU
    slope = r0 / TAU + (1 - BETA) * (g.mean() - g)
    close(rs.joint_leading(state, rs.Rule(TAU, "angular", BETA)).at(rho), slope * rho)
    cosine = rs.realize(state, rs.Rule(TAU, "cosine", offset=OFFSET))
    close(rs.joint_leading(state, rs.Rule(TAU, "cosine", offset=OFFSET)).at(rho), cosine.at(rho))


def expanded(p: int) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Return exact scores [N, C] with offsets, and their expansion."""
    g = torch.Generator().manual_seed(1)
    rho = 2 * torch.rand(8, 6, generator=g, dtype=torch.float64) - 1
    lam = 0.3 + 3 * torch.rand(6, generator=g, dtype=torch.float64)
    b = torch.randn(6, generator=g, dtype=torch.float64)
    kappa, tau = (p / 2 - 1) * lam, torch.tensor(0.25, dtype=torch.float64)
    B0, B1, B2 = joint_terms(rho, kappa, tau, p)
    return b + vmf_score(rho, kappa, tau, p), (b + B0, B1, B2)


def test_propagation_is_the_taylor_series_of_softmax() -> None:
    """The coefficients in eps, from automatic differentiation of log-sum-exp."""
    _, (l0, B1, B2) = expanded(64)
    y, eps = torch.arange(8) % 6, 1 / 31

    def loss(e: Tensor) -> Tensor:
        return torch.nn.functional.cross_entropy(l0 + e * B1 + e * e * B2, y, reduction="none")

    def probabilities(e: Tensor) -> Tensor:
        return (l0 + e * B1 + e * e * B2).softmax(-1)

    zero = torch.zeros((), dtype=torch.float64)
    for f, got in (
        (loss, propagate_loss(l0, B1, B2, 64, y)),
        (probabilities, propagate_probabilities(l0, B1, B2, 64)),
    ):
        first = torch.func.jacrev(f)
        want = f(zero) + eps * first(zero) + eps**2 / 2 * torch.func.jacrev(first)(zero)
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-14)
    P = l0.softmax(-1)
    torch.testing.assert_close(propagate_probabilities(l0, B1, B2, 64).sum(-1), P.sum(-1))
    V1 = (P * B1**2).sum(-1) - (P * B1).sum(-1) ** 2
    gap = propagate_loss(l0, B1, B2, 64, y) - propagate_loss(l0, B1, B2, 64, y, variance=False)
    torch.testing.assert_close(gap, eps**2 * V1 / 2)


def test_propagation_broadcasts_and_masks() -> None:
    _, (l0, B1, B2) = expanded(64)
    y = torch.arange(8) % 6
    unchecked = propagate_loss(l0, B1, B2, 64, y, validate_args=False)
    assert torch.equal(unchecked, propagate_loss(l0, B1, B2, 64, y))
    every = propagate_loss(l0[:, None], B1[:, None], B2[:, None], 64, torch.arange(6))
    assert every.shape == (8, 6)
    torch.testing.assert_close(every[:, 2], propagate_loss(l0, B1, B2, 64, 2))
    l0 = l0.clone()
    l0[:, 3] = -torch.inf
    P = propagate_probabilities(l0, B1, B2, 64)
    assert (P[:, 3] == 0).all() and P.isfinite().all()
    assert propagate_loss(l0, B1, B2, 64, 2).isfinite().all()


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.5, 0.2])
def test_posterior_thresholds(level: float) -> None:
    state = arcs.classes()
    pairs = torch.tensor([[0, 5], [5, 0], [4, 2], [3, 1]])
    offset = torch.linspace(-1.0, 1.0, C, dtype=F64)
    rule = rs.realize(state, rs.Rule(TAU, "angular", 0.5, offset=offset))

    def scores(z: Tensor) -> Tensor:
        return rs.class_scores(z, state, TAU, "angular", 0.5, offset=offset, validate_args=False)

    roots = rs.posterior_thresholds(rule, pairs, level)
    assert 1 in arcs.check(roots, state, pairs, scores, lambda s, a, b: s.softmax(-1)[:, a] - level)
