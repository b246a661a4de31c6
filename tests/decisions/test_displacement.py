"""Displacements of boundaries between two rules, and their predictions."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from class_samples import F64
from decisions.arcs import PAIR, classes, close, two
from resultant.classes.realization import realize
from resultant.classes.rule import REALIZATIONS, Rule
from resultant.classes.statistics import ClassState
from resultant.decisions.boundaries import (
    Change,
    Displacement,
    displacement,
    displacement_error,
    short_arc_roots,
)
from resultant.decisions.margins import all_pairs
from resultant.theory.leading import joint_leading
from small_classes import TAU, C


@pytest.mark.slow
@given(st.floats(0.2, 2.5), st.floats(2.0, 12.0), st.floats(2.0, 12.0))
@settings(max_examples=60, deadline=None)
def test_equal_gains_move_the_boundary_to_the_larger(theta: float, g_a: float, g_b: float) -> None:
    mean = (g_a + g_b) / 2
    before = short_arc_roots(two(theta, (g_a, g_b), (0.0, 0.0)), PAIR)
    after = short_arc_roots(two(theta, (mean, mean), (0.0, 0.0)), PAIR)
    assert float(after.root) == pytest.approx(theta / 2, abs=1e-13)
    moved = displacement(before, after)
    if before.unique.item() and abs(g_a - g_b) > 1e-6:
        # The larger a is, the further from it the boundary was.
        assert moved.displaced.item() and math.copysign(1, moved.shift.item()) == math.copysign(
            1, g_b - g_a
        )
    elif not before.unique.item():
        assert moved.change.item() == Change.CREATED and moved.shift.isnan().item()


def test_exact_boundaries_move_as_the_leading_ones_do() -> None:
    """In high dimension; and the leading displacement has its closed form."""
    torch.manual_seed(3)
    p = 1024
    state = classes(torch.linspace(0.6, 1.4, C, dtype=F64) * p / 2, p)
    exact, linear, joint = (
        displacement(short_arc_roots(make("native")), short_arc_roots(make("temperature")))
        for make in (
            lambda r: realize(state, Rule(TAU, r)),
            lambda r: realize(state, Rule(TAU, r)).linear(),
            lambda r: joint_leading(state, Rule(TAU, r)),
        )
    )
    assert exact.displaced.all()
    scale = float(exact.shift.abs().max().rad2deg())
    for predicted in (linear, joint):
        error = displacement_error(exact, predicted)
        assert error.comparable == error.total == 15 and error.same_direction == 1
        assert error.mean_absolute < 0.02 * scale
    a, b = all_pairs(C).T
    g = realize(state, Rule(TAU)).gain()
    theta = short_arc_roots(realize(state, Rule(TAU))).theta
    h = realize(state, Rule(TAU)).linear().shift
    assert h is not None
    before = short_arc_roots(realize(state, Rule(TAU)).linear())
    left = h[a] + g[a] * before.root.cos()
    close(left, h[b] + g[b] * (theta - before.root).cos(), 0.0, 1e-12)


def test_created_and_vanished() -> None:
    extreme = short_arc_roots(two(1.0, (10.0, 1.0), (0.0, 0.0)), PAIR)
    equal = short_arc_roots(two(1.0, (5.5, 5.5), (0.0, 0.0)), PAIR)
    twice = short_arc_roots(two(1.2, (-4.0, 4.0), (6.4, 0.0)), PAIR)
    assert (
        extreme.status == ["none"] and equal.status == ["unique"] and twice.status == ["multiple"]
    )
    for before, after, change in (
        (extreme, equal, Change.CREATED),
        (equal, extreme, Change.VANISHED),
        (extreme, extreme, Change.ABSENT),
        (equal, equal, Change.DISPLACED),
        (twice, equal, Change.MULTIPLE),
        (equal, twice, Change.MULTIPLE),
        (extreme, twice, Change.MULTIPLE),
        (twice, twice, Change.MULTIPLE),
    ):
        moved = displacement(before, after)
        assert moved.change.tolist() == [change]
        assert moved.shift.isnan().item() == (change != Change.DISPLACED)
        assert moved.tally() == {c.name.lower(): int(c == change) for c in Change}


def test_created_by_equal_gains_of_a_fitted_state() -> None:
    """kappa of 30 and 300, prototypes an angle of 60 degrees apart."""
    mu = torch.eye(2, 64, dtype=F64)
    mu[1, :2] = torch.tensor([0.5, math.sqrt(0.75)], dtype=F64)
    state = ClassState(mu, torch.tensor([30.0, 300.0], dtype=F64), torch.ones(2))
    native = short_arc_roots(realize(state, Rule(TAU)))
    for realization in REALIZATIONS[1:]:
        equal = short_arc_roots(realize(state, Rule(TAU, realization)))
        assert displacement(native, equal).tally()["created"] == 1
        assert displacement(equal, native).tally()["vanished"] == 1


def test_displacement_error() -> None:
    nan = math.nan
    kinds = torch.tensor([0, 0, 0, 1, 0])
    exact = Displacement(torch.tensor([0.1, -0.2, 0.3, nan, 0.2], dtype=F64), kinds)
    kinds = torch.tensor([0, 0, 2, 1, 0])
    predicted = Displacement(torch.tensor([0.12, 0.1, nan, nan, 0.2], dtype=F64), kinds)
    error = displacement_error(exact, predicted)
    assert error.mean_absolute == pytest.approx(math.degrees((0.02 + 0.3 + 0) / 3))
    assert error.largest == pytest.approx(math.degrees(0.3))
    assert error.same_direction == pytest.approx(2 / 3)
    assert (error.comparable, error.total) == (3, 5)
    none = Displacement(torch.tensor([nan]), torch.tensor([3]))
    assert displacement_error(none, none)[3:] == (0, 1)
    assert math.isnan(displacement_error(none, none).mean_absolute)
