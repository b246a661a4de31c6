"""Rate function and variance of a projection, and the exponents of the errors."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import optimize

from resultant.special.ratio import ratio
from resultant.theory.binary_model import BinaryModel
from resultant.theory.rates import projection_variance, rate_function
from resultant.vmf.distribution import VonMisesFisher
from theory.binary_models import CLOSE, DOUBLINGS, ORDERED, models

STANDARD_ERRORS = 5.0


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
@settings(max_examples=200, deadline=None)
@given(models)
def test_exponents_are_ordered_under_the_stated_prior(model: BinaryModel) -> None:
    t, h = sorted((model.lambda_h, model.lambda_t))
    low, high = sorted((model.b_h, model.b_t))
    model = replace(model, lambda_h=h, lambda_t=t, b_h=high / 20, b_t=low / 20)
    assume(model.typical_margins.t > 0)
    assert model.typical_margins.h > 0
    assert model.exponents.h >= model.exponents.t - 1e-13


def test_exponents_are_equal_only_in_the_symmetric_case() -> None:
    symmetric = BinaryModel(1.5, 1.5, 0.2)
    assert symmetric.exponents.h == pytest.approx(symmetric.exponents.t, rel=1e-13)
    assert symmetric.errors(40).h == pytest.approx(symmetric.errors(40).t, rel=1e-11)
    for other in (replace(symmetric, lambda_h=1.6), replace(symmetric, b_h=0.05)):
        assert other.exponents.h > other.exponents.t
    # The reversed prior reverses the exponents, and the errors themselves in high dimension.
    back = CLOSE.reversed_prior()
    assert back.delta == -CLOSE.delta
    assert min(*CLOSE.typical_margins, *back.typical_margins) > 0
    assert CLOSE.exponents.h > CLOSE.exponents.t and back.exponents.h < back.exponents.t
    stated, reverse = CLOSE.log_errors(4096), back.log_errors(4096)
    assert stated.h < stated.t and reverse.h > reverse.t


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


@pytest.mark.slow
@pytest.mark.parametrize("p", [128, 2048])
def test_projection_variance_against_draws_and_moments(p: int) -> None:
    torch.manual_seed(20240601)
    nu, n = p / 2 - 1, 20_000
    v = torch.tensor([0.6, -0.5, 0.3], dtype=torch.float64)
    z = VonMisesFisher(torch.eye(p)[0].double(), 1.4 * nu).sample((n,))[:, :3] @ v
    limit = float(projection_variance(1.4, 0.6, math.hypot(0.5, 0.3)))
    kappa = torch.tensor(1.4 * nu, dtype=torch.float64)
    A, dA = (float(ratio(nu, kappa, k)) for k in (0, 1))
    exact = nu * (dA * 0.36 + A / float(kappa) * 0.34)
    assert exact == pytest.approx(limit, rel=3 / nu)
    # The variance of a sample variance of nearly normal draws is 2 sigma^4 / n.
    assert abs(nu * float(z.var()) / exact - 1) < STANDARD_ERRORS * math.sqrt(2 / n)
