"""The normalizer of the von Mises-Fisher law and its slope in Arb, and a seed for draws."""

from __future__ import annotations

import pytest
import torch
from flint import arb as ball

from directions import exact
from reference import arb

EPS = torch.finfo(torch.float64).eps

# Dimensions on both sides of the smallest order of the expansion, and concentrations as far as any
# use goes, among them those beside the change of formula at a small order.
WIDE_DIMENSIONS = (2, 3, 5, 17, 128, 4096)
WIDE = (1e-3, 0.1, 1.0, 10.0, 30.0, 44.9, 45.1, 1e2, 1e3, 1e4, 1e6, 1e8, 1e10, 1e12, 1e16, 1e18)


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Before every test of a file that imports it."""
    torch.manual_seed(20240601)


def exact_log_area(p: int) -> ball:
    half = ball(p) / 2
    return ball(2).log() + half * ball.pi().log() - half.lgamma()


def exact_phi(p: int, kappa: float) -> ball:
    """phi(kappa) - phi(0) = log 0F1(p/2; kappa^2/4)."""
    return arb._phi(ball(p) / 2 - 1, ball(kappa) ** 2)


def exact_integral(p: int, kappa: float) -> float:
    return exact(lambda: exact_phi(p, kappa))


def exact_ratio(p: int, kappa: float) -> ball:
    return ball(kappa) * arb._r(ball(p) / 2 - 1, ball(kappa) ** 2)
