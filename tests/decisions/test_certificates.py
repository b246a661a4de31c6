"""Certificates of agreement with the cosine rule against the scores as computed."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import normalize

from decisions.certified_cases import F32, F64, Case, cases, close, naive, overlapping, some_pairs
from resultant._core import chunks
from resultant.classes.gain import angular_gain
from resultant.classes.realization import class_scores
from resultant.classes.rule import Rule
from resultant.classes.statistics import ClassState
from resultant.decisions import certificates
from resultant.decisions.certificates import (
    certificate,
    disagreement_bound,
    gradient_bound,
    loss_bound,
)
from resultant.decisions.changes import margin_change
from resultant.score.exact import decompose, vmf_score, vmf_score_and_slope

EQUAL = Rule(0.1, "temperature")


@pytest.mark.slow
@given(cases(), st.sampled_from([None, 11]))
@settings(max_examples=100, deadline=None)
def test_certified_queries_agree_as_computed(case: Case, chunk: int | None) -> None:
    c = certificate(case.z, case.state, case.tau, offset=case.offset, chunk=chunk)
    assert c.slack > 0
    for realization in ("angular", "cosine"):
        scores = class_scores(
            case.z, case.state, case.tau, realization, 0.0, offset=case.offset, chunk=chunk
        )
        top = scores.double().topk(2)
        assert torch.equal(top.indices[c.certified, 0], c.prediction[c.certified])
        assert (top.values[:, 0] > top.values[:, 1])[c.certified].all()
    assert torch.equal(c.angular[c.certified], c.prediction[c.certified])
    d = disagreement_bound(c)
    assert 0 <= d.difference <= d.bound <= 1
    right = [(rule == case.y).double().mean() for rule in (c.prediction, c.angular)]
    assert (right[0] - right[1]).abs() <= d.difference + 1e-15


@pytest.mark.slow
def test_the_slack_is_needed_and_enough() -> None:
    """Near a tie of two equal classes the exact condition holds, but float32 decides otherwise."""
    torch.manual_seed(1)
    p = 512
    mu = normalize(torch.randn(2, p, dtype=F64), dim=1)
    state = ClassState(mu, torch.full((2,), 400.0, dtype=F64), torch.ones(2))
    across = normalize(mu[0] - mu[1], dim=0)
    z = mu.mean(0) + 0.02 * torch.randn(20000, p, dtype=F64)
    z = z - (z @ across).unsqueeze(1) * across + 1e-7 * torch.randn(20000, 1) * across
    z = normalize(z, dim=1).float()
    c = certificate(z, state, 0.1)
    angular, cosine = (class_scores(z, state, 0.1, r).argmax(1) for r in ("angular", "cosine"))
    wrong = (angular != c.prediction) | (cosine != c.prediction)
    assert (wrong & (c.margin > c.residual_range)).sum() > 100
    assert not (wrong & c.certified).any()
    wide = certificate(z.double(), state, 0.1)
    assert wide.coverage > 0.9 and wide.slack < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("prior", [False, True])
def test_margin_and_range_are_the_naive_ones(prior: bool) -> None:
    z, _, state = overlapping(7, n=20)
    offset = torch.linspace(-2, 0, 7, dtype=F64) if prior else torch.zeros(7, dtype=F64)
    cosine, delta = naive(z, state, 0.1, offset)
    c = certificate(z, state, 0.1, offset=offset if prior else None)
    top = cosine.topk(2)
    close(c.margin, top.values[:, 0] - top.values[:, 1])
    close(c.residual_range, delta.max(1).values - delta.min(1).values)
    assert torch.equal(c.prediction, top.indices[:, 0])
    assert torch.equal(c.angular, (cosine + delta).argmax(1))
    assert torch.equal(c.certified, c.margin - c.residual_range > c.slack)
    r = decompose(z @ state.mu.T, state.kappa, 0.1, 128)
    close(delta, r.intercept + r.remainder)


def test_three_dimensions_by_hand() -> None:
    """p = 3, where q = log(sinh(x')/x') - log(sinh(x)/x) and A = coth(x) - 1/x."""

    def phi(x: float) -> float:
        return math.log(math.sinh(x) / x)

    kappas, tau, angles = (2.0, 5.0), 0.5, (0.2, 0.75, 1.3)
    gains = [(1 / math.tanh(k) - 1 / k) / tau for k in kappas]
    gbar = sum(gains) / 2
    state = ClassState(torch.eye(2, 3, dtype=F64), torch.tensor(kappas, dtype=F64), torch.ones(2))
    z = torch.tensor([[math.cos(u), math.sin(u), 0.0] for u in angles], dtype=F64)
    c = certificate(z, state, tau)
    losses = loss_bound(z, torch.tensor([0, 0, 0]), state, tau)
    for i, u in enumerate(angles):
        rho = (math.cos(u), math.sin(u))
        delta = [
            phi(math.sqrt(k * k + 2 * k * r / tau + 1 / tau**2)) - phi(k) - g * r
            for k, r, g in zip(kappas, rho, gains, strict=True)
        ]
        assert float(c.margin[i]) == pytest.approx(gbar * abs(rho[0] - rho[1]), rel=1e-13)
        assert float(c.residual_range[i]) == pytest.approx(abs(delta[0] - delta[1]), rel=1e-12)
        gap = gbar * (rho[1] - rho[0])
        change = math.log1p(math.exp(gap + delta[1] - delta[0])) - math.log1p(math.exp(gap))
        assert float(losses.difference[i]) == pytest.approx(abs(change), rel=1e-12)
        assert float(losses.bound[i]) == pytest.approx(2 * max(map(abs, delta)), rel=1e-13)
    assert c.certified.tolist() == [True, False, True]
    assert c.prediction.tolist() == [0, 0, 1]


@pytest.mark.parametrize(("C", "least"), [(10, 0.8), (100, 0.5)])
@pytest.mark.parametrize("dtype", [F64, F32])
def test_coverage_of_overlapping_classes(C: int, least: float, dtype: torch.dtype) -> None:
    z, _, state = overlapping(C)
    c = certificate(z.to(dtype), state, 0.1)
    d = disagreement_bound(c)
    assert c.coverage > least
    assert d.bound == pytest.approx(1 - c.coverage)
    assert 0 < d.difference < d.bound / 2


@pytest.mark.slow
def test_offsets_of_prior_zero_leave_classes_out() -> None:
    z, _, state = overlapping(6, n=60)
    offset = torch.tensor([0.0, -math.inf, -1.0, -math.inf, 0.5, 0.0], dtype=F64)
    c = certificate(z, state, 0.1, offset=offset)
    live = offset.isfinite()
    cosine, delta = naive(z, state, 0.1, offset)
    top = cosine.topk(2).values
    close(c.margin, top[:, 0] - top[:, 1])
    close(c.residual_range, delta[:, live].max(1).values - delta[:, live].min(1).values)
    assert live[c.prediction].all() and live[c.angular].all()
    alone = torch.full((6,), -math.inf)
    alone[4] = -2.0
    c = certificate(z, state, 0.1, offset=alone)
    assert c.certified.all() and (c.prediction == 4).all() and (c.margin == math.inf).all()


def test_scores_that_overflow_are_not_certified() -> None:
    z, _, state = overlapping(3, n=9)
    for dtype, size in ((torch.float16, 7e4), (F32, 1e39)):
        offset = torch.tensor([size, 0.0, -size], dtype=F64)
        assert certificate(z, state, 0.1, offset=offset).certified.all()
        assert not certificate(z.to(dtype), state, 0.1, offset=offset).certified.any()


@pytest.mark.usefixtures("with_and_without_kernel")
def test_scores_that_are_not_finite_are_not_certified() -> None:
    """A concentration beyond the range of float32 makes scores of float32 queries NaN."""
    # Scores in three dimensions have a closed form, which is finite.
    state = ClassState(
        torch.eye(4, dtype=F64),
        torch.tensor([1.0, 1e20, 4.0, 2.0], dtype=F64),
        torch.ones(4),
        validate_args=False,
    )
    z = torch.eye(4)
    assert class_scores(z, state, 0.5, "angular").isnan().any()
    assert not certificate(z, state, 0.5).certified.any()
    assert certificate(z.double(), state, 0.5).certified.any()


def test_nothing_is_certified_without_gain() -> None:
    state = ClassState(torch.eye(4, dtype=F64), torch.zeros(4, dtype=F64), torch.ones(4))
    c = certificate(torch.eye(4, dtype=F64), state, 0.1)
    assert not c.certified.any() and (c.margin == 0).all()


def test_class_temperatures() -> None:
    z, _, state = overlapping(5, n=50)
    tau = torch.linspace(0.05, 0.2, 5, dtype=F64)
    c = certificate(z, state, tau)
    rho = z @ state.mu.T
    g = angular_gain(state, tau)
    delta = vmf_score(rho, state.kappa, tau, 128) - g * rho
    close(c.residual_range, delta.max(1).values - delta.min(1).values)
    close(c.margin, g.mean() * (rho.topk(2).values @ torch.tensor([1.0, -1.0], dtype=F64)))


# Chunks and errors


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    z, y, state = overlapping(9, n=50)
    whole, heights = certificate(z, state, 0.1), []
    losses, gradients = (f(z, y, state, 0.1) for f in (loss_bound, gradient_bound))

    def counted(rho: Tensor, *arguments: Any, **options: Any) -> Any:
        heights.append(len(rho))
        return vmf_score_and_slope(rho, *arguments, **options)

    monkeypatch.setattr(certificates, "vmf_score_and_slope", counted)
    monkeypatch.setattr(chunks, "SCORE_BYTES", 8 * 9 * 16)
    parts = certificate(z, state, 0.1)
    close(gradient_bound(z, y, state, 0.1).difference, gradients.difference)
    assert heights == [16, 16, 16, 2] * 2
    close(parts.margin, whole.margin)
    close(parts.residual_range, whole.residual_range)
    assert torch.equal(parts.certified, whole.certified)
    close(loss_bound(z, y, state, 0.1, chunk=3).difference, losses.difference)
    empty = certificate(z[:0], state, 0.1)
    assert empty.margin.shape == empty.certified.shape == empty.prediction.shape == (0,)
    none = margin_change(z, y, state, EQUAL, torch.zeros(0, 2, dtype=torch.int64))
    assert len(none.exact) == len(none.row) == 0


Z, Y, STATE = overlapping(4, n=8)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [F64, F32])
def test_gpu(dtype: torch.dtype) -> None:
    z, y, state = overlapping(100)
    z = z.to(dtype)
    ours, there = certificate(z, state, 0.1), certificate(z.cuda(), state.to("cuda"), 0.1)
    close(there.margin.cpu(), ours.margin, 1e-9, 1e-10)
    for realization in ("angular", "cosine"):
        scores = class_scores(z.cuda(), state.to("cuda"), 0.1, realization)
        assert torch.equal(scores.argmax(1)[there.certified], there.prediction[there.certified])
    for bound in (loss_bound, gradient_bound):
        a = bound(z, y, state, 0.1)
        b = bound(z.cuda(), y.cuda(), state.to("cuda"), 0.1)
        close(b.difference.cpu(), a.difference, 1e-8, 1e-10)
    pairs = some_pairs(100)
    before = margin_change(z, y, state, EQUAL, pairs)
    after = margin_change(z.cuda(), y.cuda(), state.to("cuda"), EQUAL, pairs.cuda())
    close(after.exact.cpu(), before.exact, 1e-8, 1e-10)
