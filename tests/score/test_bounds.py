"""Bounds of the parts of a score and its limits in the temperature, against Arb."""

import math
import random
from typing import Any

import pytest
import torch
from torch import Tensor

import resultant as rs
from reference import arb

F64 = torch.float64


def states() -> list[tuple[float, float, float, int]]:
    """States at the ends of the ranges, and random ones."""
    draw = random.Random(0)
    ends = [
        (rho, kappa, tau, p)
        for rho in (-1.0, -0.5, 0.0, 1.0)
        for kappa, tau, p in ((5.0, 0.2, 3), (1e-3, 10.0, 2), (1e4, 1e-3, 128), (30.0, 0.01, 1024))
    ]
    return ends + [
        (
            draw.uniform(-1, 1),
            10 ** draw.uniform(-3, 4),
            10 ** draw.uniform(-3, 2),
            draw.choice((2, 3, 8, 128, 1024)),
        )
        for _ in range(80)
    ]


@pytest.mark.parametrize("dtype", [F64, torch.float32])
def test_bounds_hold(dtype: torch.dtype) -> None:
    """Of exact values, at arguments that the dtype represents; some are nearly reached."""
    closest = [0.0] * 3
    for state in states():
        rho, kappa, tau, p = (float(torch.tensor(a, dtype=dtype)) for a in state)
        p = int(p)
        intercept, remainder, slope, mean, likelihood = arb.parts(rho, kappa, tau, p)
        x, k, by = (torch.tensor(a, dtype=dtype) for a in (rho, kappa, tau))
        bounds = rs.decomposition_bounds(x, k, by, p)
        t, A = 1 / tau, float(rs.bessel_ratio(p / 2 - 1, kappa))
        coarse = t * t / (2 * p), t * t * A * abs(rho) / p, t * t * A / p
        sizes = intercept, abs(remainder), abs(slope)
        assert intercept >= 0
        for i, (size, bound, most) in enumerate(zip(sizes, bounds, coarse, strict=True)):
            assert size <= float(bound) <= most * (1 + 1e-4), (state, bound)
            closest[i] = max(closest[i], size / float(bound) if bound else 0.0)
        (_, least, most), (_, low, high) = (
            limit(x, k, by, p) for limit in (rs.mean_limit, rs.likelihood_limit)
        )
        assert float(least) <= mean <= float(most), state
        assert float(low) <= likelihood <= float(high), state
        assert float(most) <= (1 + 1e-4) / (2 * p * tau)
        if p >= 3 and t > kappa:
            rate = kappa * (kappa + p - 1) / (2 * (t - kappa))
            assert max(abs(float(low)), abs(float(high))) <= rate * (1 + 1e-4) + 1e-5 * kappa
    assert closest[0] > 0.999 and closest[1] > 0.3 and closest[2] > 0.5


@pytest.mark.parametrize(
    ("limit", "value"),
    [
        (rs.mean_limit, lambda rho, kappa, p: rs.mean_resultant(p, kappa) * rho),
        (
            rs.likelihood_limit,
            lambda rho, kappa, p: kappa * rho - rs.bessel_ratio_integral(p / 2 - 1, 0.0, kappa),
        ),
    ],
)
def test_limits_are_the_mean_and_the_likelihood(limit: Any, value: Any) -> None:
    rho, kappa = torch.tensor([-0.9, 0.1, 1.0], dtype=F64), torch.tensor([0.5, 40.0, 9.0])
    expected = value(rho, kappa.double(), 16)
    assert torch.allclose(limit(rho, kappa, 0.1, 16).value, expected, rtol=1e-13, atol=1e-13)


def test_scores_reach_their_limits() -> None:
    """tau q at a large temperature, and differences of two classes at a small one."""
    torch.manual_seed(0)
    rho, kappa, p = torch.rand(9, 2, dtype=F64) * 2 - 1, torch.tensor([20.0, 60.0], dtype=F64), 32
    mean = rs.mean_limit(rho, kappa, 1e4, p)
    assert torch.allclose(1e4 * rs.vmf_score(rho, kappa, 1e4, p), mean.value, atol=2e-6, rtol=0)
    law = rs.likelihood_limit(rho, kappa, 1e-7, p)
    q = rs.vmf_score(rho, kappa, 1e-7, p)
    difference, expected = q.diff(dim=1), law.value.diff(dim=1)
    room = (law.high - law.low).amax() + (law.high.abs() + law.low.abs()).amax()
    assert ((difference - expected).abs() <= 2 * room).all()
    assert room < 1e-3

    def log_prob(kappa: Tensor, rho: Tensor) -> Tensor:
        mu = torch.eye(p, dtype=F64)[0]
        x = torch.cat([rho[:, None], (1 - rho[:, None] ** 2).sqrt(), torch.zeros(9, p - 2)], 1)
        return rs.VonMisesFisher(mu, kappa).log_prob(x)

    laws = [log_prob(k, rho[:, c]) for c, k in enumerate(kappa)]
    assert torch.allclose(laws[1] - laws[0], expected.squeeze(1), rtol=1e-12, atol=1e-12)


def test_classes_without_concentration() -> None:
    """Nothing remains of the remainder, and q(0) keeps its bound."""
    bounds = rs.decomposition_bounds(0.3, 0.0, 0.5, 8)
    assert bounds.remainder == bounds.slope == 0
    assert math.isclose(float(bounds.intercept), 4 / 16, rel_tol=1e-12)
    assert rs.likelihood_limit(0.3, 0.0, 0.5, 8).value == 0
