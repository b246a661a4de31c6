"""The errors of the matched binary model against full draws and their Gaussian limits.

Statistical tests have fixed seeds: a frequency or mean further than five standard errors from its
exact value is a failure.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from resultant.classes.statistics import ClassState, ClassStatistics
from resultant.score.exact import vmf_score
from resultant.theory.binary_model import BinaryModel, Decision
from resultant.vmf.distribution import VonMisesFisher
from theory.binary_models import CRITICAL, DOUBLINGS, ORDERED, models

RULES: tuple[Decision, Decision] = ("leading", "exact")
STANDARD_ERRORS = 5.0


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(20240601)


def at_margin(R_t: float, model: BinaryModel = CRITICAL) -> BinaryModel:
    """The model with its offsets moved so that the tail class has this typical margin."""
    flat = replace(model, b_h=0.0, b_t=0.0)
    return replace(flat, b_h=(flat.typical_margins.t - R_t) / model.tau)


def directions(model: BinaryModel, p: int) -> Tensor:
    """mu_h and mu_t in the first two coordinates."""
    mu = torch.eye(2, p, dtype=torch.float64)
    mu[1] = model.cosine * mu[0] + math.sqrt(1 - model.cosine**2) * mu[1]
    return mu


def differences(model: BinaryModel, mu: Tensor, kappa: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """D_0 and D_nu of whole vectors, with the rules written out."""
    nu = mu.shape[1] / 2 - 1
    r_h, r_t = (k / (nu + math.sqrt(nu * nu + k * k)) for k in kappa.tolist())
    q = vmf_score(z @ mu.T, kappa, model.tau, mu.shape[1])
    offset = model.b_h - model.b_t
    leading = z @ (r_h * mu[0] - r_t * mu[1]) / model.tau
    return offset + leading, offset + q[:, 0] - q[:, 1]


def check_errors(model: BinaryModel, mu: Tensor, kappa: Tensor, n: int = 40_000) -> None:
    """Compare the errors of both rules with whole vectors and with draws in the plane."""
    p = mu.shape[1]
    drawn = [VonMisesFisher(m, k).sample((n,)) for m, k in zip(mu, kappa, strict=True)]
    both = [differences(model, mu, kappa, z) for z in drawn]
    for which, rule in enumerate(RULES):
        counted = model.monte_carlo(p, n, rule)
        for error, estimate, D, sign in zip(
            model.errors(p, rule), counted, (b[which] for b in both), (1, -1), strict=True
        ):
            wrong = float((sign * D < 0).double().mean())
            deviation = math.sqrt(max(error * (1 - error), 1 / n) / n)
            assert abs(error - wrong) < STANDARD_ERRORS * deviation
            assert abs(error - estimate.value) < STANDARD_ERRORS * deviation + 1 / n
            if estimate.value * n > 400:
                assert estimate.standard_error == pytest.approx(deviation, rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("p", [3, 16, 128])
@pytest.mark.parametrize("model", [ORDERED, at_margin(0.03), at_margin(-0.05)])
def test_errors_against_full_draws(p: int, model: BinaryModel) -> None:
    kappa = torch.tensor(model.concentrations(p), dtype=torch.float64)
    check_errors(model, directions(model, p), kappa)


def test_nothing_counted_is_not_a_probability_of_zero() -> None:
    head, tail = ORDERED.monte_carlo(4096, 100)
    assert (head.value, head.displayed, head.samples) == (0.0, 0.005, 100)
    assert 0.004 < head.standard_error < 0.02
    assert at_margin(-0.5).monte_carlo(4096, 100).t.displayed == 1.0
    assert tail.samples == 100


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(models, st.sampled_from([3, 5, 24, 200]))
def test_errors_of_the_exact_rule_against_counts(model: BinaryModel, p: int) -> None:
    torch.manual_seed(7)
    n = 20_000
    for error, estimate in zip(model.errors(p, "exact"), model.monte_carlo(p, n), strict=True):
        deviation = math.sqrt(error * (1 - error) / n)
        assert abs(error - estimate.value) < STANDARD_ERRORS * deviation + 2 / n


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
    r = BinaryModel(1.0, 0.75, 0.0).r.t
    critical = BinaryModel(1.0, 0.75, 0.0, tau=1.0, b_h=r * r)
    assert critical.typical_margins.t == 0 == critical.exponents.t
    assert critical.limiting_errors == (0.0, 0.5)
    for estimate in (critical.errors(65536).t, critical.monte_carlo(65536, 20_000).t.value):
        assert estimate == pytest.approx(0.5, abs=0.025)


@pytest.fixture(scope="module")
def state() -> ClassState:
    """Three classes of different concentrations, in eight dimensions."""
    torch.manual_seed(3)
    mu = torch.nn.functional.normalize(torch.randn(3, 8, dtype=torch.float64) + 0.7, dim=1)
    kappa = torch.tensor([7.0, 4.0, 2.5], dtype=torch.float64)
    z = VonMisesFisher(mu, kappa).sample((200,)).flatten(0, 1)
    return ClassStatistics(3, 8).update(z, torch.arange(3).repeat(200)).state()


def test_model_of_exchanged_rounded_and_equal_classes(state: ClassState) -> None:
    model, other = (BinaryModel.of(state, *pair, 0.5) for pair in ((0, 2), (2, 0)))
    assert (model.lambda_h, model.lambda_t) == (other.lambda_t, other.lambda_h)
    assert list(model.errors(8)) == pytest.approx(list(other.errors(8))[::-1], rel=1e-12)
    rounded = BinaryModel.of(state.to(dtype=torch.float32), 0, 2)
    assert rounded.cosine == pytest.approx(model.cosine, abs=1e-6)
    mu = torch.stack([state.mu[0], state.mu[0], -state.mu[0]])
    kappa = torch.tensor([3.0, 6.0, 3.0], dtype=torch.float64)
    narrow = ClassState(mu, kappa, torch.ones(3))
    assert BinaryModel.of(narrow, np.int64(0), torch.tensor(1)) == BinaryModel(1.0, 2.0, 1.0)
    assert BinaryModel.of(narrow, 0, 2).cosine == pytest.approx(-1.0, abs=1e-15)
