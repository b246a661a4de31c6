"""What claims are judged by: corrections, means over settings, and the verdicts they lead to."""

from __future__ import annotations

import math
import statistics
from itertools import combinations
from typing import Any

import pytest
import torch
from scipy.stats import t as student
from scipy.stats import ttest_1samp, ttest_ind

from paper_evidence import numbered
from resultant_reproduction.artefact import Change, Claim, Value, judged
from resultant_reproduction.intervals import over_settings
from resultant_reproduction.records import paired
from resultant_reproduction.rules import (
    POINT,
    SIZE,
    Tolerance,
    above,
    alike,
    borne_out,
    by_network,
    holm,
    of_guess,
    of_networks,
    reaching,
    said_toward,
    seen,
    several,
    sized,
    span,
    within,
)


def test_within_and_alike() -> None:
    rule = "means over networks in 0.5 to 2.5, the printed range widened by half its width"
    assert within([1.0, 2.0], 1.0, 2.0) == (True, rule)
    assert within([0.5, 2.5], 1.0, 2.0) == (True, f"{rule} (none in it as it is)")
    assert within([1.5, 2.5], 1.0, 2.0) == (True, f"{rule} (not all in it as it is)")
    assert not within([0.49], 1.0, 2.0)[0] and not within([2.51], 1.0, 2.0)[0]
    # There is no more than all.
    assert "in 98.5 to 100, " in within([99.5], 99.0, 100.0, 100)[1]
    assert alike(1.0, 2.0) and not alike(0.99, 2.0) and not alike(-2.0, 2.0)


def test_single_networks_are_shown() -> None:
    """A mean may be above what one of its networks is below."""
    said = reaching([[0.999948, 0.999954], [0.999997]], 6)
    assert said == "0.999951 to 0.999997; n = 1 to 2, single networks 0.999948 to 0.999997"
    assert span([-0.001, 0.001], 2, sign="+") == "+0.00"


def test_holm_is_the_closed_test() -> None:
    """A test is left if Bonferroni rejects every set of tests that it is in."""
    generator = torch.Generator().manual_seed(0)
    kept = 0
    for _ in range(200):
        p = (0.06 * torch.rand(5, generator=generator) ** 2).tolist()
        sets = [s for k in range(1, 6) for s in combinations(range(5), k)]
        rejected = {s: min(p[i] for i in s) < 0.05 / len(s) for s in sets}
        closed = [all(rejected[s] for s in sets if i in s) for i in range(5)]
        assert holm(p) == closed
        kept += sum(closed)
    assert 0 < kept < 1000
    assert holm([]) == []


def test_mean_over_settings_by_welch() -> None:
    """Two settings, one of them turned, are Welch's test of their difference."""
    a, b = [0.3, 0.7, 0.2, 0.9, 0.4, 0.6], [-0.1, 0.25, 0.2]
    found = over_settings([a, [-v for v in b]])
    assert found is not None
    wanted: Any = ttest_ind(a, b, equal_var=False)
    low, high = wanted.confidence_interval(0.95)
    assert found.mean == pytest.approx((statistics.fmean(a) - statistics.fmean(b)) / 2)
    assert found[1:3] == (pytest.approx(low / 2), pytest.approx(high / 2))
    assert found.p == pytest.approx(wanted.pvalue) and found.n == 9
    # A single setting is the paired t test, and many networks do not make one count for more.
    alone = over_settings([a])
    assert alone is not None
    assert alone.p == pytest.approx(ttest_1samp(a, 0.0).pvalue)  # type: ignore[attr-defined]
    many = over_settings([[1.0, 1.2] * 6, [0.0, 0.2]])
    assert many is not None and many.mean == pytest.approx(0.6)
    # Two printed means of three seeds each: their variances and degrees of freedom count too.
    one = over_settings([[v - 0.5 for v in a]], printed=[((0.1**2 + 0.2**2) / 3, 4.0)])
    parts = ((statistics.variance(a) / 6, 5), ((0.1**2 + 0.2**2) / 3, 4))
    whole = sum(v for v, _ in parts)
    free = whole**2 / sum(v * v / n for v, n in parts)
    assert one is not None and one.mean == pytest.approx(statistics.fmean(a) - 0.5)
    assert one.p == pytest.approx(2 * student.sf(abs(one.mean) / math.sqrt(whole), free))
    assert over_settings([]) is None
    for known in ([[1.0], [0.5, 0.6]], [[1.0, 1.0], [2.0, 2.0]]):
        single = over_settings(known)
        assert single is not None and single.p is None and single.low is None


def test_readouts_of_a_network_count_once() -> None:
    changes = [
        Change("A / 1, Encoder", "", 1.0, numbered((1.0, 2.0))),
        Change("A / 1, Projection", "", 1.0, numbered((3.0, 6.0))),
        Change("B", "", 1.0, numbered((5.0,))),
        Change("C, Encoder", "", 1.0, numbered((5.0,))),
        Change("C, Projection", "", 1.0),
    ]
    assert by_network(changes) == [[2.0, 4.0], [5.0]]


def test_readouts_are_paired_by_seed() -> None:
    """Over the seeds in common, in whichever order they come."""
    gaps = paired({0: 2.0, 1: 4.0, 2: 9.0}, {2: 1.0, 1: 1.0, 0: 1.0, 5: 0})
    one, two = (
        Change(f"A, {space}", "", 1.0, found)
        for space, found in (("Encoder", gaps), ("Projection", {2: 6.0, 1: 5.0}))
    )
    assert one.differences == (1.0, 3.0, 8.0)
    found = by_network([one, two])
    assert found == [[4.0, 7.0]] and sorted(by_network([two, one])[0]) == [4.0, 7.0]
    assert by_network([one, Change("A, Projection", "", 1.0, {7: 6.0})]) == []


@pytest.mark.parametrize("own", [(-8.0, -9.0), (-1.2, -5.8, 0.2)])
def test_seeds_at_a_level(own: tuple[float, ...]) -> None:
    """Student's test, at whichever level; equal ones say nothing."""
    found: Any = over_settings([own])
    wanted: Any = ttest_1samp(own, 0.0)
    low, high = wanted.confidence_interval(0.95)
    assert found[:4] == pytest.approx((statistics.fmean(own), low, high, len(own)))
    assert found.p == pytest.approx(wanted.pvalue) and found.p > 0.03
    wide: Any = over_settings([own], 0.05 / 4)
    assert wide[1:3] == pytest.approx(wanted.confidence_interval(1 - 0.05 / 4))
    assert wide.p == found.p
    same = over_settings([[-1.0, -1.0]])
    assert same is not None and same.low is same.p is None


def test_borne_out() -> None:
    """Signs that are printed, whichever they are."""
    near, far = (0.5, 0.52, 0.54), (0.2, -0.1, 0.15)

    def found(*changes: tuple[float | None, tuple[float, ...]]) -> bool | None:
        return borne_out([Change(f"{i}", "", p, numbered(d)) for i, (p, d) in enumerate(changes)])

    def turned(d: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(-v for v in d)

    assert found((1.0, near), (1.0, far)) is True
    assert found((1.0, near), (-1.0, turned(far))) is True
    # One mean of the other sign leaves it open, unless it is seen by itself or in the whole.
    assert found((1.0, near), (1.0, turned(far))) is None
    assert found((1.0, near), (1.0, turned(near))) is False
    assert found((1.0, turned(near)), (1.0, far)) is False
    assert found((1.0, far), (1.0, far)) is None
    assert found((1.0, (0.5,)), (1.0, (0.5,))) is None
    assert seen(
        [Change("", "", None, numbered(near)), Change("", "", None, numbered(turned(near)))]
    ) == (1, 1)
    # A change that is printed as zero, or not at all, has no sign to be of, and is left out.
    for none in (0.0, None):
        assert found((1.0, near), (none, turned(near))) is True
        assert found((-1.0, turned(near)), (none, near)) is True
        assert found((none, near)) is found((none, turned(near))) is None
    # Alone it would be seen, of twelve it is not.
    some = Change("", "", None, numbered((0.5, 0.7, 0.9)))
    assert seen([some]) == (1, 0) and seen([some] + [Change("", "", None, numbered(far))] * 11) == (
        0,
        0,
    )


def test_one_network_settles_nothing() -> None:
    """What it meets holds where tested, what it does not is open; two settle both."""
    for n, verdicts in (
        (1, ("holds where tested", "not settled")),
        (2, ("holds", "does not hold")),
    ):
        for met, verdict in zip((True, False), verdicts, strict=True):
            claim = of_networks(judged("", "", "", "", met, "near"), n)
            assert claim.verdict == verdict and claim.why.startswith("near")
            assert ("one network" in claim.why) == (n == 1)
    for open_ in (judged("", "", "", "", None, ""), judged("", "", "", "", True, "", of=2)):
        assert of_networks(open_, 1) == open_


def test_sizes() -> None:
    """Each near by the tolerance, with the p value of the printed one as one more draw."""

    def claim(tolerance: Tolerance, *own: list[float]) -> Claim:
        ours = [Value.of(v) for v in own]
        return sized("", "", ["1.00", "2.00"], ours, tolerance, 2, sign=True, lost="no")

    near = claim(SIZE, [1.3, 1.4, 1.5], [2.0, 2.2])
    p = ttest_ind([1.3, 1.4, 1.5], [1.0]).pvalue  # type: ignore[attr-defined]
    other = ttest_ind([2.0, 2.2], [2.0]).pvalue  # type: ignore[attr-defined]
    assert p > 0.05 and near.verdict == "holds" and near.paper == "1.00 / 2.00"
    assert near.ours == f"+1.40 ± 0.10 (p = {p:.3f}) / +2.10 ± 0.14 (p = {other:.3f}); n = 2 to 3"
    # Near, and yet it differs.
    assert "+1.40 ± 0.01 (differs, p = 0.001)" in claim(SIZE, [1.39, 1.4, 1.41], [2.0]).ours
    assert claim(SIZE, [0.4, 0.5], [2.0, 2.2]).verdict == "does not hold"
    assert claim(POINT, [0.4, 0.5], [2.0, 2.2]).verdict == "holds"
    assert claim(POINT, [2.1, 2.2], [2.0, 2.2]).verdict == "does not hold"
    assert claim(SIZE, [1.4, 1.5], [2.0]).verdict == "holds where tested"
    # A mean over several networks is no draw.
    mean = sized("", "", ["1.00"], [Value.of([1.3, 1.5])], SIZE, 2, single=False)
    assert mean.ours == "1.40 ± 0.14; n = 2" and "draw" in near.why and "draw" not in mean.why
    lost = claim(SIZE, [1.4], [])
    assert (lost.verdict, lost.ours, lost.why) == ("cannot be tested here", "", "no")


def test_above() -> None:
    """A bound is cleared by more than networks vary; of one network the value counts."""
    sure, near = [1.1, 1.11, 1.12], [0.99, 1.0, 1.03]
    assert above([sure, [1.2]], 1.0)[0] is True
    assert above([sure, near], 1.0)[0] is None
    assert "not beyond their spread at 1 of 2" in above([sure, near], 1.0)[1]
    assert above([near, [0.88, 0.89, 0.9]], 1.0)[0] is False
    assert above([[0.9]], 1.0)[0] is False
    # Below with p = 0.04, which of two tests is not enough by Holm's correction.
    faint = [0.81, 0.86, 0.91]
    assert 0.025 < float(ttest_1samp(faint, 1.0).pvalue) < 0.05  # type: ignore[attr-defined]
    assert above([faint], 1.0)[0] is False and above([faint, near], 1.0)[0] is None


def test_settings_with_several_seeds() -> None:
    """Of two readouts that one seed of one of them is of, the setting is left out."""

    def change(row: str, paper: float, *by_seed: float) -> Change:
        return Change(row, "", paper, dict(enumerate(by_seed)))

    both = [change("a, E", -1.0, -0.5, -1.5), change("a, P", 2.0, 1.0, 2.0)]
    lone = [change("b, E", 1.0, 9.0, 9.5), change("b, P", 1.0, 9.0)]
    assert several([*both, *lone]) == (both, "the settings with several seeds (1 of 2)")
    assert several(both) == (both, "settings") and several(lone) == (lone, "settings")
    # Toward the printed signs 0.5 and 1 of a seed, 1.5 and 2 of the other.
    p = ttest_1samp([0.75, 1.75], 0.0).pvalue  # type: ignore[attr-defined]
    said = said_toward([*both, *lone, change("c, E", 0.0, 5.0, 6.0)])
    assert said.startswith("mean over the settings with several seeds (1 of 2) toward the printed ")
    assert "signs: +1.25 [" in said and said.endswith(f"], p = {p:.3f}")
    assert said_toward(both).startswith("mean of the readouts toward the printed signs: +1.25 [")
    # One seed is not spoken for by other settings, which can be against it.
    sure, one = change("a", 1.0, 1.0, 1.1, 1.2), change("b", 1.0, 1.0)
    assert borne_out([sure]) is True and borne_out([sure, one]) is None
    weak = [change(row, -1.0, 0.5, 1.1, 1.7) for row in ("c", "d")]
    assert seen(weak) == (0, 0) and borne_out(weak) is False and borne_out([*weak, one]) is False


def test_guessed_recipes() -> None:
    for size, verdicts in (
        (True, ("holds where tested", "not settled")),
        (False, ("holds where tested", "does not hold")),
    ):
        for met, verdict in zip((True, False), verdicts, strict=True):
            claim = of_guess(judged("", "", "", "", met, "near"), size=size)
            assert claim.verdict == verdict and claim.why.startswith("near; the paper says")
            assert claim.why.endswith("leaves it open") == size
