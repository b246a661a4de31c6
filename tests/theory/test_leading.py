"""Leading scores against their definition and the exact scores."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

import resultant as rs
from class_samples import F64
from decisions.overlapping_classes import BETA, OFFSET, PAIRS, classes, queries, tilted
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


def test_leading_pairwise_logodds() -> None:
    """eq:leading-pairwise-logodds: the normal of the boundary is g_a mu_a - g_b mu_b."""
    state = classes()
    z, _ = queries(state)
    for rule in (
        rs.joint_leading(state, rs.Rule(TAU, offset=OFFSET)),
        rs.realize(state, rs.Rule(TAU)).linear(),
    ):
        assert rule.shift is not None
        g, b, (i, j) = rule.gain(), rule.shift, PAIRS.T
        normal = g[i, None] * state.mu[i] - g[j, None] * state.mu[j]
        close(rs.pairwise_margins(z, rule, PAIRS), b[i] - b[j] + z @ normal.T, atol=1e-11)
        M, c = rs.centre_margins(rule, PAIRS), (state.mu[i] * state.mu[j]).sum(-1)
        close(M.a, b[i] - b[j] + g[i] - g[j] * c)
        close(M.b, b[j] - b[i] + g[j] - g[i] * c)


def test_leading_margins_close_like_one_over_nu() -> None:
    """Doubling nu at fixed lambda and prototypes halves the exact less the leading margin."""
    errors: dict[str, list[float]] = {"joint": [], "linear": []}
    for p in (512, 1024, 2048):
        state = tilted(p)
        z, _ = queries(state)
        exact = rs.realize(state, rs.Rule(TAU))
        truth = rs.pairwise_margins(z, exact, PAIRS)
        for name, rule in (
            ("joint", rs.joint_leading(state, rs.Rule(TAU))),
            ("linear", exact.linear()),
        ):
            errors[name].append(float((truth - rs.pairwise_margins(z, rule, PAIRS)).norm()))
    for sizes in errors.values():
        ratios = [a / b for a, b in pairwise(sizes)]
        assert ratios == pytest.approx([2.0, 2.0], rel=0.15)
