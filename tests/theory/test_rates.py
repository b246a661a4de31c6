"""Rate function and variance of a projection, and the exponents of the errors."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from resultant.theory.binary_model import BinaryModel, projection_variance, rate_function
from theory.binary_models import CLOSE, DOUBLINGS, ORDERED, models


@pytest.mark.slow
@pytest.mark.parametrize("model", [ORDERED, CLOSE, BinaryModel(0.5, 3.0, -1.0, b_t=0.1)])
def test_log_errors_reach_the_exponents(model: BinaryModel) -> None:
    """-log(error) = nu I + log(nu)/2 + C + o(1): Laplace's prefactor of a tail. The exact rule has
    the same exponents: D_nu - D_0 = O(1/nu) changes an error by a factor that has a limit."""
    assert min(model.typical_margins) > 0
    nu = np.array(DOUBLINGS)[:, None] / 2 - 1
    leading, exact = (
        np.array([model.log_errors(p, rule) for p in DOUBLINGS]) for rule in ("leading", "exact")
    )
    rests = -leading - nu * np.array(model.exponents) - 0.5 * np.log(nu)
    for values, last, ratio_of_steps in ((rests, 1e-2, 0.6), (exact - leading, 1e-4, 0.5)):
        steps = np.abs(np.diff(values, axis=0))
        assert (steps[-1] < last).all() and (steps[1:] < ratio_of_steps * steps[:-1]).all()
    assert np.abs(rests[-1]).max() < 10
    assert (np.abs(exact - leading)[-1] > 1e-2).any()


def test_errors_far_below_the_smallest_double() -> None:
    model = BinaryModel(8.0, 6.0, -0.9)
    assert max(model.log_errors(65536)) < -1e4
    assert model.errors(65536) == (0.0, 0.0)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(models, st.sampled_from([3, 24, 1000]))
def test_exchanging_the_classes_exchanges_their_errors(model: BinaryModel, p: int) -> None:
    lambdas = {"lambda_h": model.lambda_t, "lambda_t": model.lambda_h}
    other = replace(model.reversed_prior(), **lambdas)
    for mine, theirs in (
        (model.typical_margins, other.typical_margins),
        (model.exponents, other.exponents),
        (model.log_errors(p), other.log_errors(p)),
    ):
        assert theirs[::-1] == pytest.approx(tuple(mine), rel=1e-9, abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(st.floats(0.05, 10.0), st.floats(-1.0, 1.0), st.floats(-0.9, 0.9))
def test_rate_is_a_legendre_transform(lam: float, beta: float, xi: float) -> None:
    """sup_s s xi - Lambda(s), where Lambda(s) = J(|lam mu + s n|) - J(lam)."""

    def J(square: float) -> float:
        S = math.sqrt(1 + square)
        return S - math.log(1 + S)

    def negative(s: float) -> float:
        return J(lam**2 + 2 * lam * s * beta + s**2) - J(lam**2) - s * xi

    least: Any = optimize.minimize_scalar(negative, bracket=(-1.0, 1.0), tol=1e-12)
    assert float(rate_function(xi, lam, beta)) == pytest.approx(-least.fun, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("lam", [0.0, 0.3, 4.0, 50.0])
@pytest.mark.parametrize("beta", [-1.0, -0.4, 0.0, 0.8])
def test_rate_is_convex_and_zero_at_the_typical_value(lam: float, beta: float) -> None:
    typical = lam / (1 + math.sqrt(1 + lam**2)) * beta
    at = torch.tensor(typical, dtype=torch.float64, requires_grad=True)
    rate = rate_function(at, lam, beta)
    (slope,) = torch.autograd.grad(rate, at)
    assert abs(float(rate.detach())) < 1e-14 * (1 + lam)
    assert abs(float(slope)) < 1e-12 * (1 + lam)
    grid = torch.linspace(-0.999, 0.999, 501, dtype=torch.float64)
    assert (rate_function(grid, lam, beta).diff().diff() > 0).all()
    # Its curvature at the typical value is one over the variance of the projection.
    step = 1e-4
    bend = rate_function(torch.tensor([typical - step, typical + step]).double(), lam, beta)
    variance = float(projection_variance(lam, beta, math.sqrt(1 - beta**2)))
    assert float(bend.sum()) / step**2 == pytest.approx(1 / variance, rel=1e-3)


def test_rate_is_infinite_from_the_sphere_on_and_differentiable_inside() -> None:
    xi = torch.tensor([-1.5, -1.0, 1.0, 2.0])
    assert rate_function(xi, 2.0, 0.3).tolist() == [math.inf] * 4
    assert BinaryModel(1.0, 1.0, 0.0, b_h=5.0).exponents == (math.inf, 0.0)
    xi = torch.tensor([-0.7, 0.0, 0.4], dtype=torch.float64, requires_grad=True)
    lam = torch.tensor([0.5, 2.0, 7.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: rate_function(a, b, -0.6), (xi, lam))


@pytest.mark.parametrize("lam", [1e-3, 0.7, 5.0, 200.0])
def test_projection_variance_is_that_of_the_paper(lam: float) -> None:
    r = lam / (1 + math.sqrt(1 + lam**2))
    slope = (1 - r**2) ** 2 / (2 * (1 + r**2))
    expected = slope * 0.4**2 + (1 - r**2) / 2 * 0.7**2
    assert float(projection_variance(lam, 0.4, 0.7)) == pytest.approx(expected, rel=1e-11)
