"""Gains, targets and target temperatures against loops and the paper's numbers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from class_samples import F64
from classes.naive_scores import naive_scores, naive_target
from resultant.classes.gain import angular_gain, target_gain
from resultant.classes.realization import class_scores, target_temperature
from resultant.classes.rule import FAMILIES
from resultant.score.exact import vmf_score
from resultant.vmf.estimators import mean_resultant
from small_classes import TAU, C, N, P, classes, close, queries


def test_angular_gain() -> None:
    state = classes()
    close(angular_gain(state, TAU), mean_resultant(P, state.kappa) / TAU)
    tau = torch.linspace(0.05, 0.5, C, dtype=F64)
    close(angular_gain(state, tau), mean_resultant(P, state.kappa) / tau)
    assert angular_gain(state.to(dtype=torch.float32), TAU).dtype == torch.float32
    tau.requires_grad_()
    assert gradcheck(lambda tau: angular_gain(state, tau), tau)
    assert gradcheck(lambda tau: target_temperature(state, tau, 0.4), tau)


def test_paper_example() -> None:
    """The class whose temperature the paper prints: kappa = 5.4415, gbar = 7.4057, p = 128."""
    state = classes(torch.tensor([5.4415], dtype=F64), 128)
    A = state.resultant
    assert float(A) == pytest.approx(0.042436, abs=1e-6)
    star = A / 7.4057
    assert float(star) == pytest.approx(0.0057302, abs=1e-7)
    assert float(vmf_score(0.0, 5.4415, 0.1, 128)) == pytest.approx(0.38878, abs=1e-5)
    assert float(vmf_score(0.0, state.kappa, star, 128)) == pytest.approx(79.146, abs=1e-3)


@pytest.mark.slow
@given(
    st.lists(st.floats(0.01, 20.0), min_size=1, max_size=12),
    st.floats(-1.0, 3.0),
    st.sampled_from(FAMILIES),
)
@settings(max_examples=80, deadline=None)
def test_target_gain(g: list[float], beta: float, family: str) -> None:
    gains = torch.tensor(g, dtype=F64)
    target = target_gain(gains, beta, family)
    close(target, torch.tensor(naive_target(g, beta, family), dtype=F64), atol=1e-11)
    close(target.mean(), gains.mean())
    close(target_gain(gains, 0.0, family), gains.mean().expand(len(g)))
    close(target_gain(gains, 1.0, family), gains)
    assert torch.equal(target_gain(gains, 1.0), gains)
    assert (target_gain(gains, 0.0) == gains.mean()).all()
    if family == "power":
        assert (target > 0).all()


def test_power_targets_of_extreme_gains() -> None:
    g = torch.tensor([1e-200, 2e-200, 4e-200], dtype=F64)
    close(target_gain(g, 3.0, "power") / g.mean(), torch.tensor([3.0, 24.0, 192.0], dtype=F64) / 73)
    assert torch.equal(target_gain(torch.zeros(3), 2.0, "power"), torch.zeros(3))
    with_zero = torch.tensor([0.0, 1.0, 3.0], dtype=F64)
    close(target_gain(with_zero, 2.0, "power"), torch.tensor([0.0, 0.4, 3.6], dtype=F64))


@pytest.mark.parametrize("family", FAMILIES)
def test_target_temperature_realizes_the_target(family: str) -> None:
    state = classes()
    star = target_temperature(state, TAU, 0.4, family=family)
    target = target_gain(angular_gain(state, TAU), 0.4, family)
    close(angular_gain(state, star), target)


def test_target_gains_below_zero_are_named() -> None:
    state = classes()
    z = queries(state)
    target = target_gain(angular_gain(state, TAU), 3.0)
    bad = (target <= 0).nonzero().squeeze(-1).tolist()
    assert bad and len(bad) < C
    named = rf"{len(bad)} of {C} not: class {bad[0]} \({float(target[bad[0]]):.4g}\)"
    for realization in ("temperature", "preserve"):
        with pytest.raises(ValueError, match=r"target gains > 0 .*beta = 3\).*" + named):
            class_scores(z, state, TAU, realization, 3.0)
        unchecked = class_scores(z, state, TAU, realization, 3.0, validate_args=False)
        assert unchecked[:, bad].isnan().all()
        assert unchecked[:, target > 0].isfinite().all()
    close(
        class_scores(z, state, TAU, "angular", 3.0),
        naive_scores(z, state, TAU, "angular", 3.0, "linear"),
    )
    class_scores(z, state, TAU, "temperature", 3.0, family="power")


@pytest.mark.parametrize("realization", ["native", "angular", "cosine"])
def test_flat_classes_are_scored(realization: str) -> None:
    state = classes(torch.tensor([0.0, 5.0], dtype=F64))
    scores = class_scores(queries(state), state, TAU, realization)
    assert scores.isfinite().all()
    if realization == "native":
        close(scores[:, 0], scores[0, 0].expand(N))
