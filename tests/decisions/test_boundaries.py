"""Short-arc roots and their displacements against dense grids, Brent's method, closed forms."""

import math

import pytest
import torch
from hypothesis import given, settings, strategies as st

import resultant as rs
from class_samples import F64, close
from decisions.arcs import OFFSET, PAIR, check, two
from resultant.classes.rule import REALIZATIONS
from resultant.decisions.boundaries import Change, refine
from small_classes import TAU, C, classes


@pytest.mark.slow
@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_roots_are_those_of_brent(realization: str, prior: bool) -> None:
    state, pairs = classes(), torch.combinations(torch.arange(C))[::2]
    rule = rs.Rule(TAU, realization, 0.2, offset=OFFSET if prior else None)
    for exhaustive in (False, True):
        roots = rs.short_arc_roots(rs.realize(state, rule), pairs, exhaustive=exhaustive)
        check(roots, state, rule, pairs, lambda s, a, b: s[:, a] - s[:, b])


@pytest.mark.slow
@given(st.floats(0.01, 3.13), st.floats(0.05, 20.0), st.floats(0.05, 20.0), st.booleans())
@settings(max_examples=150, deadline=None)
def test_closed_form_of_linear_scores(
    theta: float, g_a: float, g_b: float, exhaustive: bool
) -> None:
    """g_a cos u = g_b cos(theta - u) is tan u = (g_a - g_b cos theta) / (g_b sin theta), and equal
    gains move the boundary to the middle, towards the class of larger gain."""
    u = math.atan2(g_a - g_b * math.cos(theta), g_b * math.sin(theta))
    roots = rs.short_arc_roots(two(theta, (g_a, g_b)), PAIR, exhaustive=exhaustive)
    if min(abs(u), abs(theta - u)) > 1e-12:
        assert roots.unique.item() == (0 < u < theta)
    equal = rs.short_arc_roots(two(theta, (g_a, g_a)), PAIR, exhaustive=exhaustive)
    assert float(equal.root) == pytest.approx(theta / 2, abs=1e-13)
    moved = rs.displacement(roots, equal)
    if roots.unique.item():
        assert float(roots.root) == pytest.approx(u, abs=1e-13)
        assert moved.displaced.item()
        if abs(g_a - g_b) > 1e-6:
            assert math.copysign(1, moved.shift.item()) == math.copysign(1, g_b - g_a)
    else:
        assert roots.count.item() == 0 and roots.root.isnan().item()
        assert moved.change.item() == Change.CREATED and moved.shift.isnan().item()


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
    state = classes(10 ** (2 * torch.rand(4, dtype=F64)) * p**0.5, p, seed)
    if realization != "angular":
        beta = abs(beta) / 2
    rule = rs.realize(state, rs.Rule(tau, realization, beta, offset=torch.randn(4, dtype=F64)))
    quick, whole = rs.short_arc_roots(rule), rs.short_arc_roots(rule, exhaustive=True)
    assert torch.equal(quick.count, whole.count)
    close(quick.root, whole.root, 0.0, 1e-10, equal_nan=True)
    if realization != "angular":
        # One root exactly where both prototypes keep their own class.
        M = rs.centre_margins(rule)
        assert torch.equal(quick.unique, (M.a >= 0) & (M.b >= 0))


# -g (cos u + cos(theta - u)) + b has an extremum in the middle of the arc.
ENDS, MIDDLE = 4 * (1 + math.cos(1.2)), 8 * math.cos(0.6)


@pytest.mark.parametrize("exhaustive", [False, True])
@pytest.mark.parametrize(
    ("arc", "status", "root"),
    [
        # Zeros at a location count once; at the ends they are exact here.
        (two(1.1, (3.0, 3.0)), "unique", 0.55),
        (two(1e-3, (2.0, 2.0)), "unique", 5e-4),
        (two(math.pi / 2, (1.0, 1.0), (0.0, 1.0)), "unique", 0.0),
        (two(math.pi / 2, (1.0, 1.0), (1.0, 0.0)), "unique", math.pi / 2),
        (two(1.2, (-4.0, 4.0), (ENDS - 0.1, 0.0)), "none", math.nan),
        (two(1.2, (-4.0, 4.0), ((ENDS + MIDDLE) / 2, 0.0)), "multiple", math.nan),
        (two(1.2, (-4.0, 4.0), (MIDDLE + 0.1, 0.0)), "none", math.nan),
        # Prototypes that coincide or oppose.
        (two(0.0, (1.0, 1.0)), "none", math.nan),
        (two(0.0, (1.0, 2.0)), "none", math.nan),
        (two(math.pi, (1.0, 1.0)), "unique", math.pi / 2),
    ],
)
def test_arcs_of_one_pair(arc: object, status: str, root: float, exhaustive: bool) -> None:
    roots = rs.short_arc_roots(arc, PAIR, exhaustive=exhaustive)  # type: ignore[arg-type]
    assert roots.status == [status]
    assert float(roots.root) == pytest.approx(root, abs=1e-14, nan_ok=True)


def test_a_class_of_prior_zero_has_no_boundary() -> None:
    offset = torch.zeros(C, dtype=F64)
    offset[:2] = -math.inf
    roots = rs.short_arc_roots(rs.realize(classes(), rs.Rule(TAU, "angular", offset=offset)))
    gone = (torch.combinations(torch.arange(C)) < 2).any(-1)
    assert (roots.count[gone] == 0).all() and roots.count[~gone].any()


def test_a_bracket_lost_to_rounding_gives_its_nearest_end() -> None:
    low, high = torch.tensor([0.1, 0.1], dtype=F64), torch.tensor([0.2, 0.2], dtype=F64)
    slope = torch.tensor([1.0, -1.0], dtype=F64)
    root = refine(lambda u, i: 1 + slope[i] * u, torch.arange(2), low, high)
    assert root.tolist() == [0.1, 0.2]


def test_changes_by_the_numbers_of_roots() -> None:
    arcs = two(1.0, (10, 1)), two(1.0, (5.5, 5.5)), two(1.2, (-4, 4), (6.4, 0))
    none_one_several = [rs.short_arc_roots(arc, PAIR) for arc in arcs]
    # None, one or several before (rows) and after.
    table = [
        [Change.ABSENT, Change.CREATED, Change.MULTIPLE],
        [Change.VANISHED, Change.DISPLACED, Change.MULTIPLE],
        [Change.MULTIPLE] * 3,
    ]
    for before, row in zip(none_one_several, table, strict=True):
        for after, change in zip(none_one_several, row, strict=True):
            moved = rs.displacement(before, after)
            assert moved.change.tolist() == [change]
            assert moved.shift.isnan().item() == (change != Change.DISPLACED)
            assert moved.tally() == {c.name.lower(): int(c == change) for c in Change}
