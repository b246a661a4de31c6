"""Short-arc roots against dense grids, Brent's method and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from class_samples import F64, unit
from decisions.arcs import PAIR, check, classes, close, naive_roots, on_arc, two
from resultant._core import chunks
from resultant.classes.realization import class_scores, realize
from resultant.classes.rule import REALIZATIONS, Rule
from resultant.classes.statistics import ClassState
from resultant.decisions.boundaries import LOCATIONS, refine, short_arc_roots
from resultant.decisions.margins import all_pairs, centre_margins
from resultant.decisions.pairs import select_pairs
from small_classes import TAU, C

# Roots


@pytest.mark.slow
@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_roots_are_those_of_brent(realization: str, prior: bool) -> None:
    state = classes()
    offset = torch.linspace(-1.5, 1.0, C, dtype=F64) if prior else None
    pairs = all_pairs(C)[::2]
    rule = realize(state, Rule(TAU, realization, 0.2, offset=offset))

    def scores(z: Tensor) -> Tensor:
        return class_scores(z, state, TAU, realization, 0.2, offset=offset, validate_args=False)

    naive = naive_roots(state, pairs, scores, lambda s, a, b: s[:, a] - s[:, b])
    lengths = {len(r) for r in naive}
    assert 1 in lengths
    for exhaustive in (False, True):
        roots = short_arc_roots(rule, pairs, exhaustive=exhaustive)
        check(roots, naive)
    thetas = [on_arc(state, a, b, np.zeros(1))[0] for a, b in pairs.tolist()]
    close(short_arc_roots(rule, pairs).theta, torch.tensor(thetas, dtype=F64), 1e-13)


@pytest.mark.slow
@given(st.floats(0.01, 3.13), st.floats(0.05, 20.0), st.floats(0.05, 20.0))
@settings(max_examples=100, deadline=None)
def test_closed_form_of_linear_scores(theta: float, g_a: float, g_b: float) -> None:
    """g_a cos u = g_b cos(theta - u) is tan u = (g_a - g_b cos theta) / (g_b sin theta)."""
    u = math.atan2(g_a - g_b * math.cos(theta), g_b * math.sin(theta))
    for exhaustive in (False, True):
        roots = short_arc_roots(two(theta, (g_a, g_b), (0.0, 0.0)), PAIR, exhaustive=exhaustive)
        if min(abs(u), abs(theta - u)) > 1e-12:
            assert roots.unique.item() == (0 < u < theta)
        if roots.unique.item():
            assert float(roots.root) == pytest.approx(u, abs=1e-13)
        else:
            assert roots.count.item() == 0 and roots.root.isnan().item()


@pytest.mark.slow
@given(
    st.integers(0, 100),
    st.sampled_from(REALIZATIONS),
    st.sampled_from([3, 8, 64, 1024]),
    st.floats(-1.0, 2.0),
    st.floats(0.02, 1.0),
)
@settings(max_examples=25, deadline=None)
def test_quick_roots_equal_exhaustive_roots(
    seed: int, realization: str, p: int, beta: float, tau: float
) -> None:
    torch.manual_seed(seed)
    kappa = 10 ** (2 * torch.rand(4, dtype=F64)) * p**0.5
    state = classes(kappa, p, seed)
    if realization != "angular":
        beta = abs(beta) / 2
    offset = torch.randn(4, dtype=F64)
    rule = realize(state, Rule(tau, realization, beta, offset=offset))
    quick, whole = short_arc_roots(rule), short_arc_roots(rule, exhaustive=True)
    assert torch.equal(quick.count, whole.count)
    close(quick.root, whole.root, 0.0, 1e-10)
    if realization != "angular":
        # One root exactly where both prototypes keep their own class.
        M = centre_margins(rule)
        assert torch.equal(quick.unique, (M.a >= 0) & (M.b >= 0))


def test_slope_is_smallest_at_one() -> None:
    """The assumption of `_rising`: R(x)/x falls."""
    rho = torch.linspace(-1, 1, 401, dtype=F64).unsqueeze(1)
    for p in (2, 3, 16, 1024):
        kappa = torch.logspace(-2, 4, 13, dtype=F64)
        rule = realize(ClassState(unit(13, p), kappa, torch.ones(13)), Rule(0.05))
        slopes = rule.slope_at(rho)
        assert (slopes.diff(dim=0) <= 1e-13 * slopes[0]).all() and (slopes > 0).all()


@pytest.mark.parametrize("exhaustive", [False, True])
def test_zeros_at_locations_count_once(exhaustive: bool) -> None:
    half = math.pi / 2
    middle = short_arc_roots(two(1.1, (3.0, 3.0), (0.0, 0.0)), PAIR, exhaustive=exhaustive)
    assert middle.status == ["unique"]
    assert float(middle.root) == pytest.approx(0.55, abs=1e-15)
    # The margins at the ends are exact zeros here.
    first = short_arc_roots(two(half, (1.0, 1.0), (0.0, 1.0)), PAIR, exhaustive=exhaustive)
    assert first.status == ["unique"] and float(first.root) == 0
    last = short_arc_roots(two(half, (1.0, 1.0), (1.0, 0.0)), PAIR, exhaustive=exhaustive)
    assert last.status == ["unique"] and torch.equal(last.root, last.theta)


def test_several_roots() -> None:
    """-g (cos u + cos(theta - u)) + b has an extremum in the middle of the arc."""
    theta, g = 1.2, 4.0
    ends, middle = g * (1 + math.cos(theta)), 2 * g * math.cos(theta / 2)
    for b, count, status in (
        (ends - 0.1, 0, "none"),
        ((ends + middle) / 2, 2, "multiple"),
        (middle + 0.1, 0, "none"),
    ):
        roots = short_arc_roots(two(theta, (-g, g), (b, 0.0)), PAIR)
        assert roots.count.tolist() == [count] and roots.status == [status]
        assert roots.root.isnan().all()


@pytest.mark.slow
def test_several_roots_of_a_controlled_score() -> None:
    """Linear targets beyond beta = 1 are negative for the classes of small gain."""
    state = classes(torch.tensor([1.0, 300.0], dtype=F64))
    pairs = all_pairs(2)
    for b in np.linspace(-40, 40, 161):
        offset = torch.tensor([0.0, b], dtype=F64)
        rule = realize(state, Rule(TAU, "angular", 2.5, offset=offset))
        roots = short_arc_roots(rule)
        if roots.count.item() > 1:
            break
    else:
        pytest.fail("no offset gave two roots")

    def scores(z: Tensor) -> Tensor:
        return class_scores(z, state, TAU, "angular", 2.5, offset=offset, validate_args=False)

    check(roots, naive_roots(state, pairs, scores, lambda s, a, b: s[:, a] - s[:, b]))


def test_prototypes_that_coincide_or_oppose() -> None:
    for slopes in ((1.0, 1.0), (1.0, 2.0)):
        roots = short_arc_roots(two(0.0, slopes, (0.0, 0.0)), PAIR)
        assert roots.count.tolist() == [0] and roots.root.isnan().all()
    rule = two(math.pi, (1.0, 1.0), (0.0, 0.0))
    assert float(short_arc_roots(rule, PAIR).root) == pytest.approx(math.pi / 2, abs=1e-14)


def test_close_prototypes_keep_their_angle() -> None:
    theta = 1e-7
    roots = short_arc_roots(two(theta, (2.0, 2.0), (0.0, 0.0)), PAIR)
    assert float(roots.theta) == pytest.approx(theta, rel=1e-8)
    assert float(roots.root) == pytest.approx(theta / 2, rel=1e-8)


def test_a_class_of_prior_zero_has_no_boundary() -> None:
    offset = torch.zeros(C, dtype=F64)
    offset[:2] = -math.inf
    roots = short_arc_roots(realize(classes(), Rule(TAU, "angular", offset=offset)))
    gone = (all_pairs(C) < 2).any(-1)
    assert (roots.count[gone] == 0).all() and roots.count[~gone].any()


@pytest.mark.parametrize("brent", [False, True])
def test_a_bracket_lost_to_rounding_gives_its_nearest_end(brent: bool) -> None:
    low, high = torch.tensor([0.1, 0.1], dtype=F64), torch.tensor([0.2, 0.2], dtype=F64)
    slope = torch.tensor([1.0, -1.0], dtype=F64)
    root = refine(lambda u, i: 1 + slope[i] * u, torch.arange(2), low, high, brent)
    assert root.tolist() == [0.1, 0.2]


@pytest.mark.slow
@pytest.mark.parametrize("exhaustive", [False, True])
def test_chunks_change_nothing(exhaustive: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = realize(classes(), Rule(TAU, "angular", 1.8))
    whole = short_arc_roots(rule, exhaustive=exhaustive)
    monkeypatch.setattr(chunks, "MATRIX_BYTES", 8 * LOCATIONS * 4)
    part = short_arc_roots(rule, exhaustive=exhaustive)
    assert torch.equal(part.count, whole.count)
    close(part.root, whole.root)


def test_no_pairs() -> None:
    roots = short_arc_roots(realize(classes(), Rule(TAU)), all_pairs(1))
    assert roots.root.shape == roots.count.shape == (0,)


# Thresholds


# Errors


@pytest.mark.gpu
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_gpu_agrees(realization: str) -> None:
    state = classes()
    here, there = (realize(s, Rule(TAU, realization, 0.2)) for s in (state, state.to("cuda")))
    for exhaustive in (False, True):
        a = short_arc_roots(here, exhaustive=exhaustive)
        b = short_arc_roots(there, exhaustive=exhaustive)
        assert b.root.is_cuda and torch.equal(a.count, b.count.cpu())
        close(b.root.cpu(), a.root, 0.0, 1e-10)
    assert select_pairs(state.to("cuda"), torch.zeros(C)).pairs.is_cuda
