"""Tails of a projection and in the plane of two directions, against direct integration."""

import math

import numpy as np
import pytest
import torch
from scipy import special, stats

from resultant.vmf.tails import log_projection_tail


def split_log_probability(xi: float, beta: float, kappa: float, p: int) -> float:
    """log Pr(n'X <= xi) over the angle of X to mu; the part across mu is a beta variate."""
    theta = np.linspace(0, math.pi, 40002)[1:-1]
    log_f = kappa * np.cos(theta) + (p - 2) * np.log(np.sin(theta))
    alpha = math.sqrt(1 - beta**2)
    x = (xi - beta * np.cos(theta)) / (alpha * np.sin(theta))
    half = 0.5 * special.betainc((p - 2) / 2, 0.5, np.clip(1 - x * x, 0, 1))
    with np.errstate(divide="ignore"):
        log_tail = np.log(np.where(x < 0, half, 1 - half))
    below, whole = (np.logaddexp.reduce(a) for a in (log_f + log_tail, log_f))
    return float(below - whole)


@pytest.mark.slow
@pytest.mark.parametrize("p", [9, 16, 128, 700])
@pytest.mark.parametrize("beta", [-0.5, 0.2, 0.9])
@pytest.mark.parametrize("xi", [-0.55, 0.0, 0.4])
def test_tail_against_incomplete_beta(p: int, beta: float, xi: float) -> None:
    kappa = 1.3 * (p / 2 - 1)
    expected = split_log_probability(xi, beta, kappa, p)
    lower = float(log_projection_tail(xi, beta, kappa, p, upper=False))
    assert lower == pytest.approx(expected, rel=1e-10, abs=1e-11)


@pytest.mark.parametrize("p", [3, 4, 17, 1024, 65536])
def test_tail_of_uniform_vectors(p: int) -> None:
    xi = torch.tensor([-0.9, -0.2, -1e-3, 0.0, 0.5], dtype=torch.float64)
    expected = stats.beta.logcdf((1 + xi.numpy()) / 2, (p - 1) / 2, (p - 1) / 2)
    tail = log_projection_tail(xi, 0.3, 0.0, p, upper=False).numpy()
    # The reference of scipy underflows in the far tail.
    valid = expected > -600
    assert np.allclose(tail[valid], expected[valid], rtol=1e-9, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("p", [3, 128, 65536])
@pytest.mark.parametrize("kappa", [1e-3, 30.0, 1e5])
def test_tails_are_complements(p: int, kappa: float) -> None:
    xi = torch.linspace(-0.99, 0.99, 6, dtype=torch.float64).unsqueeze(-1)
    beta = torch.linspace(-1, 1, 5, dtype=torch.float64)
    both = [log_projection_tail(xi, beta, kappa, p, upper=upper) for upper in (False, True)]
    assert both[0].shape == (6, 5)
    tolerance = 1e-14 * (p + kappa)
    assert float((both[0].exp() + both[1].exp() - 1).abs().max()) < tolerance
    assert (both[0].diff(dim=0) > -tolerance).all()


def test_tail_in_three_dimensions() -> None:
    """Along the mean direction the distribution function is explicit."""
    xi, kappa = torch.linspace(-0.95, 0.95, 9, dtype=torch.float64), 7.0
    expected = ((kappa * (xi + 1)).expm1() / math.expm1(2 * kappa)).log()
    for beta, upper in ((1.0, False), (-1.0, True)):
        tail = log_projection_tail(beta * xi, beta, kappa, 3, upper=upper)
        torch.testing.assert_close(tail, expected, rtol=1e-12, atol=1e-13)


def test_tail_beyond_the_sphere() -> None:
    xi = torch.tensor([-2.0, -1.0, 1.0, 3.0], dtype=torch.float64)
    lower = log_projection_tail(xi, 0.4, 7.0, 10, upper=False)
    upper = log_projection_tail(xi, 0.4, 7.0, 10, upper=True)
    assert lower.tolist() == [-math.inf, -math.inf, 0.0, 0.0]
    assert upper.tolist() == [0.0, 0.0, -math.inf, -math.inf]
    assert log_projection_tail(xi.float(), 0.4, 7.0, 10, upper=True).dtype == torch.float32
