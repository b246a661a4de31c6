"""The realizations of a target gain against loops in float64 and the paper's identities."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from class_samples import F64
from classes.naive_scores import naive_scores
from resultant._core import chunks
from resultant.classes import realization as realizations
from resultant.classes.gain import class_gains
from resultant.classes.realization import class_scores, realize, target_temperature, terms
from resultant.classes.rule import FAMILIES, REALIZATIONS, Rule
from resultant.classes.statistics import ClassState
from resultant.score.exact import decompose, vmf_score
from resultant.special import compiled as kernel
from resultant.vmf.estimators import mean_resultant
from small_classes import TAU, C, N, P, classes, close, queries


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_scores_are_the_naive_ones(realization: str, beta: float, family: str) -> None:
    state = classes()
    z = queries(state)
    naive = naive_scores(z, state, TAU, realization, beta, family)
    scores = class_scores(z, state, TAU, realization, beta, family=family)
    assert scores.shape == (N, C) and scores.dtype == F64
    close(scores, naive)
    low = class_scores(z.float(), state, TAU, realization, beta, family=family)
    assert low.dtype == torch.float32
    # An error of the float32 product passes on with the slope, at most about 1/tau.
    star = TAU
    if realization in ("temperature", "preserve"):
        star = float(target_temperature(state, TAU, beta, family=family).min())
    close(low, naive, 4e-7, 1e-6 / star)
    offset = torch.linspace(-2, 0, C, dtype=F64)
    close(
        class_scores(z, state, TAU, realization, beta, family=family, offset=offset), naive + offset
    )


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.05])
def test_realizations_differ_by_intercept_and_remainder(beta: float) -> None:
    """eq:realization-differences and eq:three-realizations."""
    # In a lower dimension the flattest class keeps a positive target beyond beta = 1.
    p = 16
    state = classes(p=p)
    z = queries(state)
    rho = (z @ state.mu.T).clamp(-1, 1)
    star = target_temperature(state, TAU, beta)
    old, new = (decompose(rho, state.kappa, t, p) for t in (torch.tensor(TAU, dtype=F64), star))
    temperature, preserve, angular = (
        class_scores(z, state, TAU, r, beta) for r in ("temperature", "preserve", "angular")
    )
    close(temperature - preserve, (new.intercept - old.intercept).expand(N, C), atol=1e-11)
    close(preserve - angular, new.remainder - old.remainder, atol=1e-11)
    close(preserve, old.intercept + new.gain * rho + new.remainder)
    close(angular, old.intercept + new.gain * rho + old.remainder)


def test_preserved_intercept_survives_float32() -> None:
    """At rho = 0 the preserved score is q(0; tau_0), and q(0; tau*) is a large multiple of it."""
    p = 128
    kappa = torch.tensor([5.4415, 150.0, 400.0], dtype=F64)
    mu = torch.eye(3, p, dtype=F64)
    state = ClassState(mu, kappa, torch.ones(3))
    z = torch.eye(p, dtype=torch.float32)[p - 1 :]
    scores = class_scores(z, state, TAU, "preserve", 0.0)
    native = class_scores(z.double(), state, TAU)
    star = vmf_score(0.0, kappa, target_temperature(state, TAU), p)
    assert float(star[0]) > 100 * float(native[0, 0])
    close(scores, native, 0.0, 2e-7 * float(star.max()))


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_chunks_change_nothing(realization: str, monkeypatch: pytest.MonkeyPatch) -> None:
    state = classes()
    z = queries(state, 50)
    whole = class_scores(z, state, TAU, realization)
    close(class_scores(z, state, TAU, realization, chunk=7), whole)
    rows = []

    def counted(rho: Tensor, *args: Any, **options: Any) -> Tensor:
        if isinstance(rho, Tensor):
            rows.append(rho.shape[0])
        return vmf_score(rho, *args, **options)

    monkeypatch.setattr(realizations, "vmf_score", counted)
    monkeypatch.setattr(chunks, "SCORE_BYTES", 8 * C * 11)
    close(class_scores(z, state, TAU, realization), whole)
    if realization != "cosine":
        assert rows == [11, 11, 11, 11, 6]
    close(class_scores(z.float(), state, TAU, realization), whole, 1e-4, 1e-4)
    close(class_scores(z[:0], state, TAU, realization), whole[:0])


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_gradients(realization: str, family: str) -> None:
    """Gradients reach queries, classes, temperatures and offsets; learnable terms are not cut."""
    state = classes(p=16)
    tau = torch.linspace(0.08, 0.12, C, dtype=F64)
    inputs = (queries(state, 2), state.mu, state.kappa, tau, torch.linspace(-1, 0, C, dtype=F64))

    def scores(z: Tensor, mu: Tensor, kappa: Tensor, tau: Tensor, offset: Tensor) -> Tensor:
        z, mu = (torch.nn.functional.normalize(a, dim=-1) for a in (z, mu))
        now = ClassState(mu, kappa, state.count)
        return class_scores(z, now, tau, realization, 0.3, family=family, offset=offset, chunk=1)

    assert torch.autograd.gradcheck(scores, [a.clone().requires_grad_() for a in inputs])
    shared = torch.tensor(TAU, dtype=F64, requires_grad=True)
    inputs[0].requires_grad_(False)
    assert class_scores(inputs[0], state, shared, realization).requires_grad


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_its_dtype_and_float32_work(dtype: torch.dtype) -> None:
    state = classes()
    z = queries(state).to(dtype)
    for realization in REALIZATIONS:
        scores = class_scores(z, state, TAU, realization)
        assert scores.dtype == dtype
        exact = class_scores(z.float(), state, TAU, realization, validate_args=False)
        assert torch.equal(scores, exact.to(dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        close(
            class_scores(z.float(), state, TAU, validate_args=False),
            class_scores(z, state, TAU),
            1e-2,
        )


@pytest.mark.slow
@pytest.mark.parametrize("realization", ["preserve", "angular"])
def test_compiles_in_one_graph(realization: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Traced are the functions of torch: their rounding is compared, not that of the kernel.
    monkeypatch.setattr(kernel, "_library", None)
    # Expansions are short in this dimension, and quickly traced.
    wide = classes(p=512)
    state, z = wide.to(dtype=torch.float32), queries(wide).float().requires_grad_()

    def scores(z: Tensor, mu: Tensor, kappa: Tensor) -> Tensor:
        now = ClassState(mu, kappa, state.count, validate_args=False)
        return class_scores(z, now, TAU, realization, 0.2)

    torch.compiler.reset()
    compiled = torch.compile(scores, backend="eager", fullgraph=True)
    eager = class_scores(z, state, TAU, realization, 0.2)
    close(compiled(z, state.mu, state.kappa), eager, 1e-5, 1e-5)


def test_class_temperatures() -> None:
    state = classes()
    z = queries(state)
    tau = torch.linspace(0.05, 0.5, C, dtype=F64)
    scores = class_scores(z, state, tau)
    for c in range(C):
        close(scores[:, c], class_scores(z, state, float(tau[c]))[:, c])


def test_a_prior_of_zero_is_minus_infinity() -> None:
    state = classes()
    offset = torch.zeros(C)
    offset[2] = -math.inf
    for realization in REALIZATIONS:
        scores = class_scores(queries(state), state, TAU, realization, offset=offset)
        assert (scores[:, 2] == -math.inf).all() and scores[:, 3].isfinite().all()


STATE = classes()
QUERIES = queries(STATE)


@pytest.mark.gpu
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_gpu_scores_agree_without_synchronising(realization: str) -> None:
    on_gpu, z = STATE.to("cuda"), QUERIES.cuda()
    class_scores(z, on_gpu, TAU, realization)
    torch.cuda.set_sync_debug_mode("error")
    try:
        scores = class_scores(z, on_gpu, TAU, realization)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    close(scores.cpu(), class_scores(QUERIES, STATE, TAU, realization), 1e-10, 1e-11)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_batches_of_classes(realization: str, dtype: torch.dtype) -> None:
    """Terms of many sets of classes equal those of each set; at beta = 1 the temperature is tau."""
    torch.manual_seed(0)
    kappa = 10 ** (3 * torch.rand(4, 3, C, dtype=F64) - 1)
    tau = torch.tensor(TAU, dtype=dtype)
    for beta in (0.3, 1.0):
        g = mean_resultant(P, kappa) / TAU
        gains = class_gains(g, beta, "linear")
        got = terms(realization, kappa.to(dtype), tau, gains, P)
        for at in ((0, 0), (3, 1)):
            mu = torch.eye(C, P, dtype=F64)
            state = ClassState(mu, kappa[at], torch.ones(C, dtype=torch.int64))
            rule = realize(state, Rule(TAU, realization, beta), dtype=dtype)
            for mine, theirs in zip(got, (rule.tau, rule.slope, rule.shift), strict=True):
                assert (mine is None) == (theirs is None)
                if mine is not None and theirs is not None:
                    mine = mine.expand_as(kappa)[at].to(dtype)
                    torch.testing.assert_close(mine, theirs.expand_as(mine), rtol=1e-15, atol=0)
    if got.tau is not None:
        assert (got.tau == tau).all()
