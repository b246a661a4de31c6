"""Bounds of residuals, losses and gradients against the paper's definitions and autograd."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from decisions.certified_cases import F32, F64, Case, cases, close, naive, overlapping
from resultant.classes.gain import angular_gain
from resultant.classes.realization import class_scores
from resultant.classes.statistics import ClassState
from resultant.decisions.certificates import certificate, gradient_bound, loss_bound, residual_bound
from resultant.score.exact import decompose, vmf_score

# Residuals of any query


@pytest.mark.slow
@given(cases(n=40))
@settings(max_examples=50, deadline=None)
def test_residuals_stay_within_their_bound(case: Case) -> None:
    tau, p = case.tau, case.state.dim
    mu, kappa = normalize(case.state.mu.double(), dim=1), case.state.kappa.double()
    state = ClassState(mu, kappa, case.state.count)
    bound = residual_bound(state, tau)
    ends = torch.linspace(-1, 1, 201, dtype=F64).unsqueeze(1)
    _, g, _ = decompose(0.0, state.kappa, tau, p)
    delta = vmf_score(ends, state.kappa, tau, p) - g * ends
    rounding = 1e-13 / tau
    assert (delta <= bound.high + rounding).all() and (delta >= bound.low - rounding).all()
    close(delta.amin(0), bound.low, atol=rounding)
    beyond = 2 * state.kappa * tau >= 1
    expected = (state.resultant / (2 * state.kappa * tau * tau))[beyond]
    close(bound.high[beyond], expected, atol=rounding)
    close(bound.high[~beyond], delta[0, ~beyond], atol=rounding)
    z = normalize(case.z.double(), dim=1)
    c = certificate(z, state, tau)
    assert (c.residual_range <= bound.range + rounding).all()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, F32, F64])
def test_residuals_of_rounded_queries_stay_within_their_bound(dtype: torch.dtype) -> None:
    """Vectors in bfloat16 may be longer than one by 1/256.

    One class is at the query, where its residual is smallest, and the other where it is largest.
    """
    torch.manual_seed(0)
    for z in normalize(torch.randn(20, 8, dtype=F64), dim=1).to(dtype):
        u, other = normalize(z.double(), dim=0), torch.randn(8, dtype=F64)
        across = normalize(other - (other @ u) * u, dim=0)
        mu = torch.stack([u, -0.05 * u + (1 - 0.05**2) ** 0.5 * across])
        state = ClassState(mu, torch.tensor([100.0, 100.0], dtype=F64), torch.ones(2))
        found = certificate(z.unsqueeze(0), state, 0.1).residual_range
        assert float(found) <= float(residual_bound(state, 0.1).range) + 1e-12


def test_residual_slopes() -> None:
    _, _, state = overlapping(5)
    rho = torch.linspace(-1, 1, 101, dtype=F64).unsqueeze(1).expand(-1, 5).clone().requires_grad_()
    delta = vmf_score(rho, state.kappa, 0.1, 128) - angular_gain(state, 0.1) * rho
    (slope,) = torch.autograd.grad(delta.sum(), rho)
    close(residual_bound(state, 0.1).slope, slope.abs().amax(0))


# Losses and gradients


def measured(case: Case) -> tuple[Tensor, Tensor]:
    """Differences of the losses and of the tangent gradients, by autograd."""
    losses, gradients = [], []
    for realization in ("angular", "cosine"):
        z = case.z.double().requires_grad_()
        scores = class_scores(z, case.state, case.tau, realization, 0.0, offset=case.offset)
        loss = cross_entropy(scores, case.y, reduction="none")
        (G,) = torch.autograd.grad(loss.sum(), z)
        x = normalize(z.detach(), dim=1)
        losses.append(loss.detach())
        gradients.append(G - (G * x).sum(1, keepdim=True) * x)
    return (losses[0] - losses[1]).abs(), (gradients[0] - gradients[1]).norm(dim=1)


@pytest.mark.slow
@pytest.mark.parametrize("prior", [False, True])
def test_differences_are_those_of_autograd(prior: bool) -> None:
    z, y, state = overlapping(12, n=60)
    offset = torch.linspace(-3, 0, 12, dtype=F64)
    offset[3] = -math.inf
    y = torch.where(y == 3, 4, y)
    case = Case(z, y, state, 0.1, offset if prior else None)
    loss, gradient = measured(case)
    for chunk in (None, 7):
        options: dict[str, Any] = {"offset": case.offset, "chunk": chunk}
        close(loss_bound(z, y, state, 0.1, **options).difference, loss)
        close(gradient_bound(z, y, state, 0.1, **options).difference, gradient)
    live = torch.ones(12).bool() if not prior else offset.isfinite()
    _, delta = naive(z, state, 0.1, torch.zeros(12))
    epsilon = delta[:, live].abs().max(1).values
    close(loss_bound(z, y, state, 0.1, **options).bound, 2 * epsilon)
    rho = (z @ state.mu.T).requires_grad_()
    (slope,) = torch.autograd.grad(vmf_score(rho, state.kappa, 0.1, 128).sum(), rho)
    g = angular_gain(state, 0.1)
    eta = (slope - g)[:, live].abs().max(1).values
    bound = gradient_bound(z, y, state, 0.1, **options).bound
    close(bound, 2 * g.mean() * epsilon + 2 * eta)


@pytest.mark.slow
@given(cases(), st.booleans())
@settings(max_examples=100, deadline=None)
def test_bounds_hold(case: Case, centered: bool) -> None:
    """Up to the rounding of probabilities and of the lengths of directions."""
    arguments = (case.z, case.y, case.state, case.tau)
    options: dict[str, Any] = {"offset": case.offset, "centered": centered}
    loss, gradient = loss_bound(*arguments, **options), gradient_bound(*arguments, **options)
    gbar = float(angular_gain(case.state, case.tau).mean())
    assert (loss.difference <= loss.bound + 1e-13 * (1 + loss.bound)).all()
    unit = 1e-6 if case.state.mu.dtype == F32 else 1e-12
    assert (gradient.difference <= (1 + unit) * gradient.bound + 1e-13 * (1 + gbar)).all()
    plain = loss_bound(*arguments, offset=case.offset)
    assert (loss.bound <= plain.bound * (1 + 1e-15)).all()


def test_bounds_are_sharp() -> None:
    """Two classes that differ in kappa only, where the sharp loss bound is nearly reached."""
    mu = torch.eye(2, 16, dtype=F64)
    state = ClassState(mu, torch.tensor([1.0, 40.0], dtype=F64), torch.ones(2))
    offset = torch.tensor([-40.0, 0.0], dtype=F64)
    z = normalize(torch.ones(1, 16, dtype=F64), dim=1)
    loss = loss_bound(z, torch.tensor([0]), state, 0.1, offset=offset, centered=True)
    assert float(loss.difference / loss.bound) == pytest.approx(1, abs=1e-9)
