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
from resultant.paper.artefact import Change, judged
from resultant.paper.intervals import over_alike, over_settings
from resultant.paper.records import paired
from resultant.paper.rules import (
    alike,
    borne_out,
    by_network,
    holm,
    of_networks,
    reaching,
    seen,
    turns,
    within,
)


def test_within_and_alike() -> None:
    rule = "means over networks in 0.5 to 2.5, the printed range widened by half its width"
    assert within([1.0, 2.0], 1.0, 2.0) == (True, rule)
    assert within([0.5, 2.5], 1.0, 2.0) == (True, f"{rule} (not all in it as it is)")
    assert not within([0.49], 1.0, 2.0)[0] and not within([2.51], 1.0, 2.0)[0]
    # There is no more than all.
    assert "in 98.5 to 100, " in within([99.5], 99.0, 100.0, 100)[1]
    assert alike(1.0, 2.0) and not alike(0.99, 2.0) and not alike(-2.0, 2.0)


def test_single_networks_are_shown() -> None:
    """A mean may be above what one of its networks is below."""
    said = reaching([[0.999948, 0.999954], [0.999997]], 6)
    assert said == "0.999951 to 0.999997; n = 1 to 2, single networks 0.999948 to 0.999997"


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


def test_mean_of_one_seed_by_the_spread_of_others() -> None:
    """The pooled variance of all, by least squares on the means of the groups."""
    own, others = [-8.0], [[0.1, 0.5, 0.9], [1.0, 2.0]]
    found = over_alike(own, others)
    assert found is not None and (found.mean, found.n, found.seeds) == (-8.0, 1, True)
    # Deviations 0.4, 0, 0.4 and 0.5, 0.5; 2 + 1 degrees of freedom.
    error = math.sqrt((0.32 + 0.5) / 3)
    reach = float(student.ppf(0.975, 3)) * error
    assert found[1:3] == (pytest.approx(-8 - reach), pytest.approx(-8 + reach))
    assert found.p == pytest.approx(2 * student.sf(8 / error, 3)) and found.sign == -1
    twice = over_alike(own, others, times=2.0)
    assert twice is not None and twice.high == pytest.approx(-8 + 2 * reach)
    assert twice.p == pytest.approx(2 * student.sf(4 / error, 3))
    wide = over_alike(own, others, 0.05 / 4)
    assert wide is not None and wide.low is not None and found.low is not None
    assert wide.low < found.low and wide.p == found.p
    assert over_alike([], others) is None
    for known in ([], [[1.0]], [[1.0, 1.0]]):
        one = over_alike(own, known)
        assert one is not None and one.low is one.p is None


@pytest.mark.parametrize("own", [(-8.0, -9.0), (-1.2, -5.8, 0.2)])
def test_seeds_of_its_own_are_judged_by_their_own_spread(own: tuple[float, ...]) -> None:
    """Others that are quiet do not make it so: Student's test, at whichever level."""
    quiet = [[0.1, 0.2, 0.3], [1.0, 1.1, 1.2]]
    found: Any = over_alike(own, quiet)
    wanted: Any = ttest_1samp(own, 0.0)
    low, high = wanted.confidence_interval(0.95)
    assert found[:4] == pytest.approx((statistics.fmean(own), low, high, len(own)))
    assert found.p == pytest.approx(wanted.pvalue) and found.p > 0.03
    wide = over_alike(own, quiet, 0.05 / 4)
    error = statistics.stdev(own) / math.sqrt(len(own))
    reach = float(student.ppf(1 - 0.05 / 8, len(own) - 1)) * error
    assert wide is not None and wide.high == pytest.approx(statistics.fmean(own) + reach)
    same = over_alike([-1.0, -1.0], quiet)
    assert same is not None and same.low is same.p is None


def test_borne_out() -> None:
    """Signs that are printed, whichever they are."""
    near, far = (0.5, 0.52, 0.54), (0.2, -0.1, 0.15)

    def found(*changes: tuple[float, tuple[float, ...]]) -> bool | None:
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


def test_where_a_verdict_turns() -> None:
    assert turns(lambda k: k < 3.7) == pytest.approx(3.7, rel=2e-3)
    assert turns(lambda k: None if k > 1.2 else False) == pytest.approx(1.2, rel=2e-3)
    assert turns(lambda k: True) is None
