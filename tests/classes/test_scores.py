"""Gains, targets, temperatures and scores against loops in float64 and the paper's identities;
rules as values, and groups of classes."""

import math
from dataclasses import FrozenInstanceError, replace

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor
from torch.autograd import gradcheck
from torch.nn.functional import normalize

import resultant as rs
from class_samples import F64, close
from resultant.classes.groups import HEAD, MEDIUM, TAIL, group_masks, shot_groups
from resultant.classes.rule import FAMILIES, REALIZATIONS
from small_classes import TAU, C, N, P, classes, queries


def naive_target(g: list[float], beta: float, family: str) -> list[float]:
    mean = math.fsum(g) / len(g)
    if family == "linear":
        return [mean + beta * (x - mean) for x in g]
    scale = math.fsum(x**beta for x in g) / len(g)
    return [mean * x**beta / scale for x in g]


def naive_scores(
    z: Tensor, state: rs.ClassState, tau: float | Tensor, realization: str, beta: float, family: str
) -> Tensor:
    """Every realization as the paper writes it."""
    A = rs.mean_resultant(state.dim, state.kappa)
    g = A / tau
    target = torch.tensor(naive_target(g.tolist(), beta, family), dtype=F64)
    rho, right_angle, star = (z @ state.mu.T).clamp(-1, 1), torch.zeros(len(A)), A / target

    def q(rho: Tensor, tau: float | Tensor) -> Tensor:
        return rs.vmf_score(rho, state.kappa, tau, state.dim)

    return {
        "native": lambda: q(rho, tau),
        "temperature": lambda: q(rho, star),
        "preserve": lambda: q(rho, star) - q(right_angle, star) + q(right_angle, tau),
        "angular": lambda: q(rho, tau) + (target - g) * rho,
        "cosine": lambda: g.mean() * rho,
    }[realization]()


def test_angular_gain() -> None:
    state, tau = classes(), torch.linspace(0.05, 0.5, C, dtype=F64)
    for t in (TAU, tau):
        close(rs.angular_gain(state, t), rs.mean_resultant(P, state.kappa) / t)
    assert rs.angular_gain(state.to(dtype=torch.float32), TAU).dtype == torch.float32


@pytest.mark.slow
@given(
    st.lists(st.floats(0.01, 20.0), min_size=1, max_size=12),
    st.floats(-1.0, 3.0),
    st.sampled_from(FAMILIES),
)
@settings(max_examples=80, deadline=None)
def test_target_gain(g: list[float], beta: float, family: str) -> None:
    gains = torch.tensor(g, dtype=F64)
    target = rs.target_gain(gains, beta, family)
    close(target, torch.tensor(naive_target(g, beta, family), dtype=F64), atol=1e-11)
    close(target.mean(), gains.mean())
    close(rs.target_gain(gains, 0.0, family), gains.mean().expand(len(g)))
    close(rs.target_gain(gains, 1.0, family), gains)
    assert torch.equal(rs.target_gain(gains, 1.0), gains)
    assert (rs.target_gain(gains, 0.0) == gains.mean()).all()
    if family == "power":
        assert (target > 0).all()


def test_power_targets_of_extreme_gains() -> None:
    g = torch.tensor([1e-200, 2e-200, 4e-200], dtype=F64)
    expected = torch.tensor([3.0, 24.0, 192.0], dtype=F64) / 73
    close(rs.target_gain(g, 3.0, "power") / g.mean(), expected)
    assert torch.equal(rs.target_gain(torch.zeros(3), 2.0, "power"), torch.zeros(3))
    with_zero = torch.tensor([0.0, 1.0, 3.0], dtype=F64)
    close(rs.target_gain(with_zero, 2.0, "power"), torch.tensor([0.0, 0.4, 3.6], dtype=F64))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_scores_are_the_naive_ones(realization: str, beta: float, family: str) -> None:
    state = classes()
    z, offset = queries(state), torch.linspace(-2, 0, C, dtype=F64)
    offset[2] = -math.inf
    naive = naive_scores(z, state, TAU, realization, beta, family)
    scores = rs.class_scores(z, state, TAU, realization, beta, family=family)
    assert scores.shape == (N, C) and scores.dtype == F64
    close(scores, naive)
    shifted = rs.class_scores(z, state, TAU, realization, beta, family=family, offset=offset)
    close(shifted, naive + offset)
    by_class = torch.linspace(0.05, 0.5, C, dtype=F64), realization, beta
    expected = naive_scores(z, state, *by_class, family)
    close(rs.class_scores(z, state, *by_class, family=family), expected)
    low = rs.class_scores(z.float(), state, TAU, realization, beta, family=family)
    assert low.dtype == torch.float32
    star = rs.target_temperature(state, TAU, beta, family=family)
    close(rs.angular_gain(state, star), rs.target_gain(rs.angular_gain(state, TAU), beta, family))
    # An error of the float32 product passes on with the slope, at most about 1/tau.
    tempered = realization in ("temperature", "preserve")
    close(low, naive, 4e-7, 1e-6 / (float(star.min()) if tempered else TAU))


def test_preserved_intercept_survives_float32() -> None:
    """At rho = 0 the preserved score is q(0; tau_0), and q(0; tau*) is a large multiple of it."""
    p, kappa = 128, torch.tensor([5.4415, 150.0, 400.0], dtype=F64)
    state = rs.ClassState(torch.eye(3, p, dtype=F64), kappa, torch.ones(3))
    z = torch.eye(p, dtype=torch.float32)[p - 1 :]
    native = rs.class_scores(z.double(), state, TAU)
    star = rs.vmf_score(0.0, kappa, rs.target_temperature(state, TAU), p)
    assert float(star[0]) > 100 * float(native[0, 0])
    close(rs.class_scores(z, state, TAU, "preserve", 0.0), native, 0.0, 2e-7 * float(star.max()))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_gradients(realization: str, family: str) -> None:
    """Gradients reach queries, classes, temperatures and offsets; learnable terms are not cut."""
    state = classes(p=16)
    tau = torch.linspace(0.08, 0.12, C, dtype=F64)
    inputs = (queries(state, 2), state.mu, state.kappa, tau, torch.linspace(-1, 0, C, dtype=F64))

    def scores(z: Tensor, mu: Tensor, kappa: Tensor, tau: Tensor, offset: Tensor) -> Tensor:
        now = rs.ClassState(normalize(mu, dim=-1), kappa, state.count)
        x = normalize(z, dim=-1)
        return rs.class_scores(x, now, tau, realization, 0.3, family=family, offset=offset, chunk=1)

    assert gradcheck(scores, [a.clone().requires_grad_() for a in inputs], fast_mode=True)
    shared = torch.tensor(TAU, dtype=F64, requires_grad=True)
    assert rs.class_scores(inputs[0], state, shared, realization).requires_grad


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_its_dtype_and_float32_work(dtype: torch.dtype) -> None:
    state = classes()
    z = queries(state).to(dtype)
    for realization in REALIZATIONS:
        scores = rs.class_scores(z, state, TAU, realization)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            exact = rs.class_scores(z.float(), state, TAU, realization, validate_args=False)
        assert scores.dtype == dtype and torch.equal(scores, exact.to(dtype))


def test_target_gains_below_zero_are_named() -> None:
    state = classes()
    z = queries(state)
    target = rs.target_gain(rs.angular_gain(state, TAU), 3.0)
    bad = (target <= 0).nonzero().squeeze(-1).tolist()
    assert bad and len(bad) < C
    named = rf"{len(bad)} of {C} not: class {bad[0]} \({float(target[bad[0]]):.4g}\)"
    for realization in ("temperature", "preserve"):
        with pytest.raises(ValueError, match=r"target gains > 0 .*beta = 3\).*" + named):
            rs.class_scores(z, state, TAU, realization, 3.0)
        unchecked = rs.class_scores(z, state, TAU, realization, 3.0, validate_args=False)
        assert unchecked[:, bad].isnan().all()
        assert unchecked[:, target > 0].isfinite().all()
    naive = naive_scores(z, state, TAU, "angular", 3.0, "linear")
    close(rs.class_scores(z, state, TAU, "angular", 3.0), naive)
    rs.class_scores(z, state, TAU, "temperature", 3.0, family="power")


@pytest.mark.gpu
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_gpu_scores_agree_without_synchronising(realization: str) -> None:
    state = classes()
    z, on_gpu = queries(state), state.to("cuda")
    there = z.cuda()
    rs.class_scores(there, on_gpu, TAU, realization)
    torch.cuda.set_sync_debug_mode("error")
    try:
        scores = rs.class_scores(there, on_gpu, TAU, realization)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    close(scores.cpu(), rs.class_scores(z, state, TAU, realization), 1e-10, 1e-11)


def test_rules_compare_by_value() -> None:
    rule = rs.Rule(0.1, "angular", 1)
    assert rule == rs.Rule(0.1, "angular", beta=1.0) and isinstance(rule.beta, float)
    assert {rule: 1}[rs.Rule(0.1, "angular", 1.0)] == 1
    assert len({rule, replace(rule, beta=0.5), replace(rule, family="power"), rs.Rule(0.1)}) == 4
    with pytest.raises(FrozenInstanceError):
        rule.beta = 0.0  # type: ignore[misc]
    tau, offset = torch.tensor([0.1, 0.2]), torch.tensor([0.0, -1.0])
    rule = rs.Rule(tau, offset=offset)
    for other in (rs.Rule(tau), rs.Rule(0.1, offset=offset), rs.Rule(tau, offset=2 * offset), 1):
        assert rule != other
    assert {rule: 1}[rs.Rule(tau.clone(), offset=offset.clone())] == 1
    state = rs.ClassState(torch.eye(2), torch.ones(2), torch.ones(2))
    assert rs.realize(state, rule) != rs.realize(state, rule)  # by identity


@pytest.mark.parametrize(
    ("counts", "groups"),
    [
        ([500, 101, 100, 50, 20, 19, 0], [HEAD] * 2 + [MEDIUM] * 3 + [TAIL] * 2),
        ([50, 5000, 83, 2997, 1796, 1077, 645, 387, 232, 139], [2, 0, 2, 0, 0, 1, 1, 1, 1, 2]),
        # Classes of equal count stay together.
        ([30] * 10, [MEDIUM] * 10),
        ([9, 9, 9, 9, 5, 4, 3, 2, 1, 1], [MEDIUM] * 7 + [TAIL] * 3),
    ],
)
def test_shot_groups(counts: list[int], groups: list[int]) -> None:
    assert shot_groups(torch.tensor(counts)).tolist() == groups
    masks = {name: mask.tolist() for name, mask in group_masks(counts).items()}
    expected = {name: [g == k for g in groups] for k, name in enumerate(("head", "medium", "tail"))}
    assert masks == ({} if len(set(counts)) == 1 else expected)
