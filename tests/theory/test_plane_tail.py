"""Tails in the plane of two directions against projections and scipy."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import integrate, special
from torch import Tensor

from resultant.theory.plane_tail import log_plane_tail
from resultant.vmf.tails import log_projection_tail


def linear(a: float, x: float, p: int, kappa: float, c: float) -> tuple[float, float]:
    """Return the tail of m'X - a mu'X >= x in the plane, and as the tail of a projection."""
    length = math.sqrt(1 - 2 * a * c + a * a)
    along = max(-1.0, min(1.0, (c - a) / length))
    expected = log_projection_tail(x / length, along, kappa, p, upper=True)
    return log_plane_tail(lambda rho: x + a * rho, c, kappa, p), float(expected)


@pytest.mark.slow
@pytest.mark.parametrize("p", [3, 4, 5, 16, 128, 4096, 65536])
@pytest.mark.parametrize("c", [0.8, 0.0, -0.7])
def test_a_linear_bound_is_a_projection(p: int, c: float) -> None:
    for a, x, lam in ((0.9, 0.0, 1.0), (0.5, 0.3, 2.0), (1.5, -0.6, 0.2), (0.0, -0.5, 3.0)):
        got, expected = linear(a, x, p, lam * p / 2, c)
        assert got == pytest.approx(expected, abs=1e-10 + 3e-15 * (1 + lam) * p, rel=1e-12)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(
    st.integers(3, 200), st.floats(-0.99, 0.99), st.floats(0, 3), st.floats(-1, 1), st.floats(0, 9)
)
def test_any_linear_bound(p: int, c: float, a: float, x: float, lam: float) -> None:
    got, expected = linear(a, x, p, lam * p, c)
    # At the end of the range of a projection, the rounding of a cosine near one dominates.
    assume(expected == -math.inf or expected > -12 * p)
    assert got == pytest.approx(expected, abs=1e-8, rel=1e-9)


@pytest.mark.parametrize(("p", "kappa", "c"), [(3, 2.0, 0.4), (5, 8.0, -0.3), (24, 30.0, 0.1)])
def test_a_curved_bound(p: int, kappa: float, c: float) -> None:
    """By scipy: an adaptive integral over theta, and W by the incomplete beta function."""

    def bound(rho: Tensor) -> Tensor:
        return 0.4 * (2 * rho).exp() - 0.3

    def tail(w: float) -> float:
        if abs(w) >= 1:
            return float(w < 0)
        half = 0.5 * special.betainc((p - 2) / 2, 0.5, 1 - w * w)
        return half if w > 0 else 1 - half

    def density(theta: float) -> float:
        return math.sin(theta) ** (p - 2) * math.exp(kappa * (math.cos(theta) - 1))

    def integrand(theta: float) -> float:
        distance = 0.4 * math.exp(2 * math.cos(theta)) - 0.3 - c * math.cos(theta)
        return density(theta) * tail(distance / (math.sqrt(1 - c * c) * math.sin(theta)))

    above, whole = (
        integrate.quad(f, 0, math.pi, epsabs=0, epsrel=1e-11, limit=2000)[0]
        for f in (integrand, density)
    )
    got = math.exp(log_plane_tail(bound, c, kappa, p))
    assert got == pytest.approx(above / whole, rel=1e-9)


@pytest.mark.parametrize("p", [3, 40])
def test_constant_bounds(p: int) -> None:
    """At c = 1 or -1 the two cosines agree up to the sign; some bounds hold always or never."""
    parallel = [
        (c, 0.4, float(log_projection_tail(0.4, c, 6.0, p, upper=True))) for c in (1.0, -1.0)
    ]
    ends = [(0.3, -math.inf, 0.0), (0.3, -1.5, 0.0), (0.3, math.inf, -math.inf)]
    for c, value, expected in parallel + ends:
        got = log_plane_tail(lambda rho, v=value: torch.full_like(rho, v), c, 6.0, p)
        assert got == pytest.approx(expected, abs=1e-11 if abs(c) == 1 else 1e-12)
