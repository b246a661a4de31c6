"""Leading scores against their definition and the exact scores."""

from __future__ import annotations

import torch

import resultant as rs
from class_samples import F64
from decisions.overlapping_classes import BETA, OFFSET, classes
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
