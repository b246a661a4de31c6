"""Target gains and controlled scores as the paper writes them, number by number."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from class_samples import F64
from resultant.classes.statistics import ClassState
from resultant.score.exact import vmf_score
from resultant.vmf.estimators import mean_resultant


def naive_target(g: list[float], beta: float, family: str) -> list[float]:
    mean = math.fsum(g) / len(g)
    if family == "linear":
        return [mean + beta * (x - mean) for x in g]
    scale = math.fsum(x**beta for x in g) / len(g)
    return [mean * x**beta / scale for x in g]


def naive_scores(
    z: Tensor, state: ClassState, tau: float, realization: str, beta: float, family: str
) -> Tensor:
    """Every realization as the paper writes it, score by score."""
    A = [float(mean_resultant(state.dim, k)) for k in state.kappa.tolist()]
    g = [a / tau for a in A]
    target = naive_target(g, beta, family)

    def score(x: Tensor, c: int) -> float:
        rho, star = float((x * state.mu[c].double()).sum()), A[c] / target[c]

        def q(rho: float, tau: float) -> float:
            return float(vmf_score(max(-1.0, min(1.0, rho)), float(state.kappa[c]), tau, state.dim))

        return {
            "native": lambda: q(rho, tau),
            "temperature": lambda: q(rho, star),
            "preserve": lambda: q(rho, star) - q(0.0, star) + q(0.0, tau),
            "angular": lambda: q(rho, tau) + (target[c] - g[c]) * rho,
            "cosine": lambda: math.fsum(g) / len(g) * rho,
        }[realization]()

    return torch.tensor([[score(x, c) for c in range(len(A))] for x in z.double()], dtype=F64)
