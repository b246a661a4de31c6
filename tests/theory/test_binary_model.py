"""The matched binary model: errors against full draws and Gaussian limits, exponents and rates.
Statistical tests have fixed seeds, and fail beyond five standard errors."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy import integrate, optimize, special
from torch import Tensor

import resultant as rs
from class_samples import F64
from resultant.theory.binary_model import Decision
from resultant.vmf.tails import log_plane_tail, log_projection_tail
from small_classes import classes

DOUBLINGS = (256, 1024, 4096, 16384, 65536)

ORDERED = rs.BinaryModel(2.0, 1.0, 0.3, tau=0.5, b_h=0.1)
# Here the offsets decide which class has the larger exponent.
CLOSE = rs.BinaryModel(1.2, 1.0, -0.2, tau=1.0, b_h=0.05, b_t=-0.05)
CRITICAL = rs.BinaryModel(2.0, 1.0, 0.3, tau=0.5)

models = st.builds(
    rs.BinaryModel,
    lambda_h=st.floats(0.05, 20.0),
    lambda_t=st.floats(0.05, 20.0),
    cosine=st.floats(-1.0, 0.95),
    tau=st.floats(0.05, 2.0),
    b_h=st.floats(-2.0, 2.0),
    b_t=st.floats(-2.0, 2.0),
)


RULES: tuple[Decision, Decision] = ("leading", "exact")
STANDARD_ERRORS = 5.0


def at_margin(R_t: float, model: rs.BinaryModel = CRITICAL) -> rs.BinaryModel:
    """The model with its offsets moved so that the tail class has this typical margin."""
    flat = replace(model, b_h=0.0, b_t=0.0)
    return replace(flat, b_h=(flat.typical_margins.t - R_t) / model.tau)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "model"),
    [
        *((3, model) for model in (ORDERED, at_margin(0.03), at_margin(-0.05))),
        *((16, at_margin(-0.05)), (128, ORDERED)),
    ],
)
def test_errors_against_full_draws(p: int, model: rs.BinaryModel) -> None:
    """Errors of both rules, written out for whole vectors, and of draws in the plane."""
    n, nu, offset = 40_000, p / 2 - 1, model.b_h - model.b_t
    mu = torch.eye(2, p, dtype=F64)
    mu[1] = model.cosine * mu[0] + math.sqrt(1 - model.cosine**2) * mu[1]
    kappa = torch.tensor(model.concentrations(p), dtype=F64)
    r = kappa / (nu + (nu * nu + kappa**2).sqrt())
    drawn = [rs.VonMisesFisher(m, k).sample((n,)) for m, k in zip(mu, kappa, strict=True)]
    cosines = [z @ mu.T for z in drawn]
    margins = {
        "leading": [offset + rho @ (r * torch.tensor([1, -1])) / model.tau for rho in cosines],
        "exact": [offset - rs.vmf_score(rho, kappa, model.tau, p).diff()[:, 0] for rho in cosines],
    }
    for rule in RULES:
        counted = model.monte_carlo(p, n, rule)
        for error, estimate, D, sign in zip(
            model.errors(p, rule), counted, margins[rule], (1, -1), strict=True
        ):
            wrong = float((sign * D < 0).double().mean())
            deviation = math.sqrt(max(error * (1 - error), 1 / n) / n)
            assert abs(error - wrong) < STANDARD_ERRORS * deviation
            assert abs(error - estimate.value) < STANDARD_ERRORS * deviation + 1 / n
            if estimate.value * n > 400:
                assert estimate.standard_error == pytest.approx(deviation, rel=0.2)


def test_nothing_counted_is_not_a_probability_of_zero() -> None:
    head, tail = ORDERED.monte_carlo(4096, 100)
    assert (head.value, head.displayed, head.samples) == (0.0, 0.005, 100)
    assert 0.004 < head.standard_error < 0.02
    assert at_margin(-0.5).monte_carlo(4096, 100).t.displayed == 1.0
    assert tail.samples == 100


@pytest.mark.slow
def test_gaussian_errors_at_the_scale_of_the_transition() -> None:
    worst = []
    for p in DOUBLINGS:
        root = math.sqrt(p / 2 - 1)
        near = [at_margin(R / root) for R in (-0.8, -0.3, 0.0, 0.4, 0.9)]
        worst.append(root * max(abs(m.gaussian_errors(p).t - m.errors(p).t) for m in near))
    assert max(worst) < 0.1
    assert max(worst) < 1.3 * min(worst)


def test_transition_limits() -> None:
    for R, limit in ((0.02, 0.0), (-0.02, 1.0)):
        assert at_margin(R).typical_margins.t == pytest.approx(R, abs=1e-15)
        assert at_margin(R).limiting_errors == (0.0, limit)
        assert at_margin(R).errors(65536).t == pytest.approx(limit, abs=2e-3)
    # A mean direction across the other: R_t = r_t^2 - delta, zero without rounding.
    r = rs.BinaryModel(1.0, 0.75, 0.0).r.t
    critical = rs.BinaryModel(1.0, 0.75, 0.0, tau=1.0, b_h=r * r)
    assert critical.typical_margins.t == 0 == critical.exponents.t
    assert critical.limiting_errors == (0.0, 0.5)
    for estimate in (critical.errors(65536).t, critical.monte_carlo(65536, 20_000).t.value):
        assert estimate == pytest.approx(0.5, abs=0.025)


def test_model_of_exchanged_rounded_and_equal_classes() -> None:
    state = classes(torch.tensor([7.0, 4.0, 2.5], dtype=F64), 8)
    model, other = (rs.BinaryModel.of(state, *pair, 0.5) for pair in ((0, 2), (2, 0)))
    assert (model.lambda_h, model.lambda_t) == (other.lambda_t, other.lambda_h)
    assert list(model.errors(8)) == pytest.approx(list(other.errors(8))[::-1], rel=1e-12)
    rounded = rs.BinaryModel.of(state.to(dtype=torch.float32), 0, 2)
    assert rounded.cosine == pytest.approx(model.cosine, abs=1e-6)
    mu, kappa = state.mu[[0, 0, 0]] * torch.tensor([[1], [1], [-1]]), [3.0, 6.0, 3.0]
    narrow = rs.ClassState(mu, torch.tensor(kappa, dtype=F64), torch.ones(3))
    assert rs.BinaryModel.of(narrow, np.int64(0), torch.tensor(1)) == rs.BinaryModel(1.0, 2.0, 1.0)
    assert rs.BinaryModel.of(narrow, 0, 2).cosine == pytest.approx(-1.0, abs=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("model", [ORDERED, CLOSE, rs.BinaryModel(0.5, 3.0, -1.0, b_t=0.1)])
def test_log_errors_reach_the_exponents(model: rs.BinaryModel) -> None:
    """-log(error) = nu I + log(nu)/2 + C + o(1): Laplace's prefactor of a tail. The exact rule has
    the same exponents: D_nu - D_0 = O(1/nu) changes an error by a factor that has a limit."""
    assert min(model.typical_margins) > 0
    nu = np.array(DOUBLINGS)[:, None] / 2 - 1
    leading, exact = (np.array([model.log_errors(p, rule) for p in DOUBLINGS]) for rule in RULES)
    rests = -leading - nu * np.array(model.exponents) - 0.5 * np.log(nu)
    for values, last, ratio_of_steps in ((rests, 1e-2, 0.6), (exact - leading, 1e-4, 0.5)):
        steps = np.abs(np.diff(values, axis=0))
        assert (steps[-1] < last).all() and (steps[1:] < ratio_of_steps * steps[:-1]).all()
    assert np.abs(rests[-1]).max() < 10
    assert (np.abs(exact - leading)[-1] > 1e-2).any()


def test_errors_far_below_the_smallest_double() -> None:
    model = rs.BinaryModel(8.0, 6.0, -0.9)
    assert max(model.log_errors(65536)) < -1e4
    assert model.errors(65536) == (0.0, 0.0)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(models, st.sampled_from([3, 24, 1000]))
def test_exchanging_the_classes_exchanges_their_errors(model: rs.BinaryModel, p: int) -> None:
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
    assert float(rs.rate_function(xi, lam, beta)) == pytest.approx(-least.fun, rel=1e-9, abs=1e-9)


def test_rate_is_infinite_from_the_sphere_on() -> None:
    xi = torch.tensor([-1.5, -1.0, 1.0, 2.0])
    assert rs.rate_function(xi, 2.0, 0.3).tolist() == [math.inf] * 4
    assert rs.BinaryModel(1.0, 1.0, 0.0, b_h=5.0).exponents == (math.inf, 0.0)


@pytest.mark.parametrize("lam", [1e-3, 0.7, 5.0, 200.0])
def test_projection_variance_is_that_of_the_paper(lam: float) -> None:
    r = lam / (1 + math.sqrt(1 + lam**2))
    slope = (1 - r**2) ** 2 / (2 * (1 + r**2))
    expected = slope * 0.4**2 + (1 - r**2) / 2 * 0.7**2
    assert float(rs.projection_variance(lam, 0.4, 0.7)) == pytest.approx(expected, rel=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("p", [3, 4, 5, 16, 128, 4096, 65536])
@pytest.mark.parametrize("c", [0.99, 0.8, 0.0, -0.7, -0.99])
def test_a_linear_bound_is_a_projection(p: int, c: float) -> None:
    """The tail of m'X - a mu'X >= x in the plane is the tail of a projection of X."""
    for a, x, lam in (
        (0.9, 0.0, 1.0),
        (0.5, 0.3, 2.0),
        (1.5, -0.6, 0.2),
        (0.0, -0.5, 3.0),
        (2.5, 0.8, 18.0),
    ):
        length = math.sqrt(1 - 2 * a * c + a * a)
        along = max(-1.0, min(1.0, (c - a) / length))
        expected = log_projection_tail(x / length, along, lam * p / 2, p, upper=True)
        got = log_plane_tail(lambda rho, a=a, x=x: x + a * rho, c, lam * p / 2, p)
        assert got == pytest.approx(float(expected), abs=1e-10 + 3e-15 * (1 + lam) * p, rel=1e-12)


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

    options: Any = {"epsabs": 0, "epsrel": 1e-11, "limit": 2000}
    above, whole = (integrate.quad(f, 0, math.pi, **options)[0] for f in (integrand, density))
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
