"""The errors of the matched binary model against full draws and their Gaussian limits.

Statistical tests have fixed seeds: a frequency or mean further than five standard errors from its
exact value is a failure.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats
from torch import Tensor

from resultant.score.exact import vmf_score
from resultant.theory.binary_model import BinaryModel
from resultant.vmf.distribution import VonMisesFisher
from theory.binary_models import CRITICAL, DOUBLINGS, ORDERED, models

STANDARD_ERRORS = 5.0


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(20240601)


def at_margin(R_t: float, model: BinaryModel = CRITICAL) -> BinaryModel:
    """The model with its offsets moved so that the tail class has this typical margin."""
    flat = replace(model, b_h=0.0, b_t=0.0)
    return replace(flat, b_h=(flat.typical_margins.t - R_t) / model.tau)


def directions(model: BinaryModel, p: int) -> tuple[Tensor, Tensor]:
    """mu_h and mu_t in the first two coordinates."""
    mu = torch.eye(2, p, dtype=torch.float64)
    sine = math.sqrt(1 - model.cosine**2)
    return mu[0], model.cosine * mu[0] + sine * mu[1]


def full_errors(model: BinaryModel, p: int, n: int, rule: str) -> list[tuple[float, float]]:
    """Class errors of whole vectors, and their standard errors, with the rules written out."""
    nu = p / 2 - 1
    mu_h, mu_t = directions(model, p)
    r_h, r_t = (x / (1 + math.sqrt(1 + x * x)) for x in (model.lambda_h, model.lambda_t))
    errors = []
    for mu, lam, sign in ((mu_h, model.lambda_h, 1), (mu_t, model.lambda_t, -1)):
        z = VonMisesFisher(mu, nu * lam).sample((n,))
        if rule == "leading":
            D = z @ (r_h * mu_h - r_t * mu_t) / model.tau
        else:
            D = vmf_score(z @ mu_h, nu * model.lambda_h, model.tau, p)
            D = D - vmf_score(z @ mu_t, nu * model.lambda_t, model.tau, p)
        wrong = float((sign * (D + model.b_h - model.b_t) < 0).double().mean())
        errors.append((wrong, math.sqrt(max(wrong * (1 - wrong), 1 / n) / n)))
    return errors


@pytest.mark.slow
@pytest.mark.parametrize("p", [16, 128])
@pytest.mark.parametrize("model", [ORDERED, at_margin(0.03), at_margin(-0.05)])
def test_errors_against_full_draws(p: int, model: BinaryModel) -> None:
    n = 40_000
    full = full_errors(model, p, n, "leading")
    for error, (wrong, deviation) in zip(model.errors(p), full, strict=True):
        assert abs(error - wrong) < STANDARD_ERRORS * deviation
    for error, estimate in zip(model.errors(p), model.monte_carlo(p, n, "leading"), strict=True):
        deviation = math.sqrt(error * (1 - error) / n)
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
@pytest.mark.parametrize("p", [3, 16, 128])
def test_exact_rule_against_full_draws(p: int) -> None:
    model, n = at_margin(0.03), 40_000
    full = full_errors(model, p, n, "exact")
    counted, errors = model.monte_carlo(p, n), model.errors(p, "exact")
    for estimate, error, (wrong, deviation) in zip(counted, errors, full, strict=True):
        spread = math.hypot(deviation, estimate.standard_error)
        assert abs(estimate.value - wrong) < STANDARD_ERRORS * spread
        assert abs(error - wrong) < STANDARD_ERRORS * deviation


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(models, st.sampled_from([3, 5, 24, 200]))
def test_errors_of_the_exact_rule_against_counts(model: BinaryModel, p: int) -> None:
    torch.manual_seed(7)
    n = 20_000
    for error, estimate in zip(model.errors(p, "exact"), model.monte_carlo(p, n), strict=True):
        deviation = math.sqrt(error * (1 - error) / n)
        assert abs(error - estimate.value) < STANDARD_ERRORS * deviation + 2 / n


def test_exact_margin_nears_the_leading_one() -> None:
    gaps = []
    for p in (66, 258, 1026, 4098):
        leading, exact = ORDERED.sample_margins(p, 2000, "h")
        gaps.append((p / 2 - 1) * float((leading - exact).abs().max()))
    assert max(gaps) < 2 * min(gaps)


@pytest.mark.parametrize("label", ["h", "t"])
def test_typical_margin_is_the_limit_of_the_margin(label: Any) -> None:
    margins = ORDERED.sample_margins(65536, 2000, label)
    sign = 1 if label == "h" else -1
    expected = sign * getattr(ORDERED.typical_margins, label) / ORDERED.tau
    for D in margins:
        assert float(D.mean()) == pytest.approx(expected, abs=2e-3)


def test_geometry_in_the_plane() -> None:
    mu_h, mu_t = directions(ORDERED, 3)
    w = ORDERED.r.h * mu_h - ORDERED.r.t * mu_t
    assert pytest.approx(float(w.norm())) == ORDERED.W
    for mu, beta, alpha in zip((mu_h, mu_t), ORDERED.beta, ORDERED.alpha, strict=True):
        assert beta == pytest.approx(float(mu @ w / w.norm()))
        assert beta**2 + alpha**2 == pytest.approx(1)


@pytest.mark.slow
def test_gaussian_errors_at_the_scale_of_the_transition() -> None:
    worst = []
    for p in DOUBLINGS:
        nu = p / 2 - 1
        gap = 0.0
        for R in (-0.8, -0.3, 0.0, 0.4, 0.9):
            model = at_margin(R / math.sqrt(nu))
            gap = max(gap, abs(model.gaussian_errors(p).t - model.errors(p).t))
        worst.append(math.sqrt(nu) * gap)
    assert max(worst) < 0.1
    assert max(worst) < 1.3 * min(worst)


@pytest.mark.slow
def test_transition_narrows_as_the_root_of_nu() -> None:
    def quantile(p: int, level: float) -> float:
        reach = 8 / math.sqrt(p)
        root: Any = optimize.brentq(
            lambda R: at_margin(R).errors(p).t - level, -reach, reach, xtol=1e-6
        )
        return root

    z = stats.norm.ppf(0.9)
    expected = 2 * z * math.sqrt(CRITICAL.variances.t)
    for p in (128, 2048, 32768):
        width = quantile(p, 0.1) - quantile(p, 0.9)
        assert math.sqrt(p / 2 - 1) * width == pytest.approx(expected, rel=2 / math.sqrt(p))


@pytest.mark.slow
@pytest.mark.parametrize(("R", "limit"), [(0.02, 0.0), (-0.02, 1.0), (0.0, 0.5)])
def test_transition_limits(R: float, limit: float) -> None:
    model = at_margin(R)
    assert model.typical_margins.t == pytest.approx(R, abs=1e-15)
    distance = [abs(model.errors(p).t - limit) for p in DOUBLINGS]
    assert distance == sorted(distance, reverse=True)
    assert distance[-1] < 2e-3
    if R:
        assert model.limiting_errors == (0.0, limit)
    if limit == 0.5:
        # The exact rule has the same limit: its offset, O(1/nu), is small against 1/sqrt(nu).
        assert model.monte_carlo(65536, 20_000).t.value == pytest.approx(0.5, abs=0.025)


def test_limit_of_one_half_at_the_critical_margin() -> None:
    # A mean direction across the other: R_t = r_t^2 - delta, zero without rounding.
    r = BinaryModel(1.0, 0.75, 0.0).r.t
    model = BinaryModel(1.0, 0.75, 0.0, tau=1.0, b_h=r * r)
    assert model.typical_margins.t == 0
    assert model.limiting_errors == (0.0, 0.5)
    assert model.exponents.t == 0
