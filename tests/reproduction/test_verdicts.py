"""Statistics of the protocol against naive recomputations, closed forms and SciPy; verdicts."""

import math
from itertools import combinations
from statistics import fmean, stdev
from typing import Any

import mpmath
import pytest
import torch
from scipy.stats import nct, norm, t, ttest_1samp, ttest_ind

from resultant_reproduction.cells.statistics import (
    VERDICTS,
    Judgement,
    Value,
    contrast,
    heterogeneity,
    holm,
    judge_check,
    judge_effect,
    judge_number,
    over_settings,
    pooled_variance,
    power,
    seeds_needed,
    variance_ratio,
)
from resultant_reproduction.frozen.calibration import over_queries
from resultant_reproduction.pages.claims import MIXED, Claim, margin, tally, together

CONFIRMED, OTHER_SIZE, INCONCLUSIVE, NOT_REPRODUCED, NEEDS_DATA = VERDICTS
A, B = [1.0, 2.0, 4.0, 3.5], [0.5, 0.25, 1.5]


def test_contrasts_are_students_interval_and_welchs_test() -> None:
    """For one arm of n runs the interval is mean ± t sd / sqrt(n), with n - 1 degrees."""
    a, b = stdev(A) ** 2 / 4, stdev(B) ** 2 / 3
    arms = [(1.0, Value.over(A)), (-1.0, Value.over(B))]
    welch = (a + b) ** 2 / (a**2 / 3 + b**2 / 2)
    cases = (arms[:1], fmean(A), a, 3), (arms, fmean(A) - fmean(B), a + b, welch)
    for terms, mean, variance, freedom in cases:
        ours, error = contrast(terms), math.sqrt(variance)
        assert ours.mean == mean and ours.n == sum(arm.n for _, arm in terms)
        assert ours.freedom == pytest.approx(freedom) and ours.error == pytest.approx(error)
        assert ours.low is not None
        assert 2 * t.sf((ours.mean - ours.low) / error, freedom) == pytest.approx(0.05)
        assert ours.p == pytest.approx(2 * t.sf(ours.mean / error, freedom))
    # A printed deviation is of three seeds, and a printed mean alone is exact.
    three = contrast([(1.0, Value.printed(1.0, 0.3))])
    assert three.error == pytest.approx(math.sqrt(0.03)) and three.freedom == 2
    own, exact = contrast(arms[:1]), contrast([*arms[:1], (-1.0, Value.printed(1.0))])
    assert exact.error == own.error and exact.freedom == pytest.approx(own.freedom)
    # One run, and runs without a spread.
    single = contrast([(1.0, Value.over([1.0])), (-1.0, Value.over(A))])
    assert single.low is None and single.contains(0.0) is None and single.text(1) == "-1.6"
    same = contrast([(1.0, Value.over([2.0, 2.0]))])
    assert (same.low, same.high) == (2.0, 2.0) and same.contains(2.0)


def _effect(mean: float) -> Value:
    """An effect whose interval reaches nearly 1 to both sides."""
    return Value(mean, math.sqrt(1000) / 2.0, 1000)


@pytest.mark.parametrize(
    ("mean", "size", "sd", "verdict"),
    [
        (2.0, 2.5, None, CONFIRMED),
        (2.0, 9.0, None, OTHER_SIZE),
        (-2.0, -2.5, None, CONFIRMED),
        (0.5, 1.0, None, INCONCLUSIVE),
        (0.5, 3.0, None, NOT_REPRODUCED),
        (0.5, -1.0, None, NOT_REPRODUCED),
        (2.0, -2.5, None, NOT_REPRODUCED),
        (2.0, -0.5, None, NOT_REPRODUCED),
        # A printed deviation widens the second interval and not the first.
        (2.0, 4.0, None, OTHER_SIZE),
        (2.0, 4.0, 2.0, CONFIRMED),
    ],
)
def test_rows_of_the_protocol(mean: float, size: float, sd: float | None, verdict: str) -> None:
    ours, paper = [(1.0, _effect(mean))], Value.printed(size, sd)
    judged = judge_effect(ours, [(1.0, paper)])
    assert judged.verdict == verdict and judged.printed == size
    assert (judged.seeds is not None) == (verdict == INCONCLUSIVE)
    assert judged.ours == contrast(ours) and judged.apart == contrast([*ours, (-1.0, paper)])


def test_without_runs_or_spread() -> None:
    for terms, verdict in (([], NEEDS_DATA), ([(1.0, Value.over([9.0]))], INCONCLUSIVE)):
        assert judge_effect(terms, [(1.0, Value.printed(1.0))]).verdict == verdict
        assert judge_number(terms, 1.0, 0.5).verdict == verdict
    verdicts = [judge_check(passed).verdict for passed in (True, False, None)]
    assert verdicts == [CONFIRMED, NOT_REPRODUCED, INCONCLUSIVE]


@pytest.mark.parametrize(
    ("printed", "threshold", "side", "verdict"),
    [
        (2.5, None, "above", CONFIRMED),
        (4.0, 1.0, "above", OTHER_SIZE),
        (4.0, 3.0, "above", NOT_REPRODUCED),
        (0.5, 3.0, "below", OTHER_SIZE),
        (0.5, 2.5, "within", OTHER_SIZE),
        (0.5, 1.5, "within", NOT_REPRODUCED),
        (4.0, None, "above", NOT_REPRODUCED),
        (None, 0.5, "above", CONFIRMED),
        (None, 1.5, "above", INCONCLUSIVE),
        (None, 3.5, "above", NOT_REPRODUCED),
        (None, 3.5, "below", CONFIRMED),
    ],
)
def test_numbers(printed: float | None, threshold: float | None, side: str, verdict: str) -> None:
    """Ours is 2 within [1, 3]."""
    judged = judge_number([(1.0, _effect(2.0))], printed, threshold, side)
    assert judged.verdict == verdict
    if printed is not None:
        assert judged.apart is not None and judged.apart.mean == 2.0 - printed


def test_seeds_of_textbooks() -> None:
    """Cohen's table: two arms, two-sided 5 %, power 80 %, effects in deviations. Arms of unequal
    deviations by the approximation of Welch and Satterthwaite, whose power SciPy has."""
    terms = [(1.0, Value(0.0, 1.0, 5)), (-1.0, Value(0.0, 1.0, 5))]
    assert [seeds_needed(terms, d) for d in (0.2, 0.5, -0.8)] == [394, 64, 26]
    assert seeds_needed(terms, 0.0) is None and seeds_needed(terms, 1e-6) is None
    assert seeds_needed([(1.0, Value.over([1.0]))], 1.0) is None
    terms = [(0.5, Value(0.0, 1.0, 4)), (-0.5, Value(0.0, 2.0, 4))]
    error, freedom = math.sqrt((1 + 4) / 4 / 8), 25 / (1 / 7 + 16 / 7)
    reach, shift = t.ppf(0.975, freedom), 2.0 / error
    assert power(terms, 2.0, 8) == pytest.approx(nct.sf(reach, freedom, shift), rel=1e-6)


def test_ratio_of_variances() -> None:
    """Ends of the F interval are where the ratio would be a 2.5 % quantile."""
    variance, freedom = pooled_variance([A, B])
    assert freedom == 5
    assert variance == pytest.approx((3 * stdev(A) ** 2 + 2 * stdev(B) ** 2) / 5)
    ratio, *ends = variance_ratio((variance, freedom), (0.5, 4))
    assert ratio == pytest.approx(2 * variance)
    # F > x has the regularized incomplete beta function as its probability.
    above = [mpmath.betainc(2, 2.5, 0, 4 / (4 + 5 * ratio / x), regularized=True) for x in ends]
    assert [*map(float, above)] == pytest.approx([0.025, 0.975])


def test_holm_is_the_closed_test() -> None:
    """A test is left if Bonferroni rejects every set of tests that it is in."""
    generator = torch.Generator().manual_seed(0)
    kept = 0
    for _ in range(200):
        p = (0.06 * torch.rand(5, generator=generator) ** 2).tolist()
        sets = [s for k in range(1, 6) for s in combinations(range(5), k)]
        rejected = {s: min(p[i] for i in s) < 0.05 / len(s) for s in sets}
        closed = [all(rejected[s] for s in sets if i in s) for i in range(5)]
        assert [adjusted < 0.05 for adjusted in holm(p)] == closed
        kept += sum(closed)
    assert 0 < kept < 1000 and holm([]) == []


def test_mean_over_settings() -> None:
    """Two settings, one of them turned, are Welch's test of their difference, and a single one is
    the paired t test."""
    a, b = [0.3, 0.7, 0.2, 0.9, 0.4, 0.6], [-0.1, 0.25, 0.2]
    few = ([0.3, 0.5, 0.4], [-0.2, -0.3, -0.2], [0.3, -0.2, 0.1], [1.0, 9.0])
    expected: list[Any] = [(ttest_ind(a, b, equal_var=False), [a, [-v for v in b]])]
    expected += [(ttest_1samp(own, 0.0), [own]) for own in (a, *few)]
    for test, settings in expected:
        actual, known = over_settings(settings), test.confidence_interval(0.95)
        assert actual is not None and actual.p is not None and actual.n == sum(map(len, settings))
        assert actual.mean == pytest.approx(fmean(map(fmean, settings)))
        ends = [end / len(settings) for end in known]
        assert [actual.low, actual.high] == pytest.approx(ends, rel=1e-9)
        assert actual.p == pytest.approx(test.pvalue)
        assert (actual.sign != 0) == (actual.p < 0.05)
    # Many networks do not make one setting count for more.
    many = over_settings([[1.0, 1.2] * 6, [0.0, 0.2]])
    assert many is not None and many.mean == pytest.approx(0.6) and over_settings([]) is None
    # Equal up to rounding is equal.
    alike = [100 * (0.4148 - 0.4147), 100 * (0.4132 - 0.4131), 100 * (0.4267 - 0.4266)]
    assert len({*alike}) > 1
    for known in ([[1.0], [0.5, 0.6]], [[1.0, 1.0], [2.0, 2.0]], [alike]):
        single = over_settings(known)
        assert single is not None and single.p is None and single.low is None


def test_interval_over_queries_is_the_paired_one() -> None:
    generator = torch.Generator().manual_seed(0)
    before, after = (torch.rand(200, generator=generator) < p for p in (0.5, 0.6))
    result = over_queries(after, before, 100.0)
    d = 100 * (after.double() - before.double())
    reach = norm.ppf(0.975) * float(d.std(correction=0)) / math.sqrt(200)
    expected = float(d.mean()), float(d.mean()) - reach, float(d.mean()) + reach
    assert result[:3] == pytest.approx(expected, rel=1e-12) and result.n == 200
    same = over_queries(after, after)
    assert same[:3] == (0, 0, 0) and same.sign == 0
    x = torch.randn(400, generator=torch.Generator().manual_seed(1)).double()
    result, spread = over_queries(x, torch.zeros_like(x)), float(x.std(correction=0)) / 20
    assert result.high == pytest.approx(result.mean + norm.ppf(0.975) * spread)


def claim(verdict: str, **entry: object) -> Claim:
    return Claim({"kind": "number", **entry}, Judgement(verdict), "", "", "")


@pytest.mark.parametrize(
    ("verdicts", "row"),
    [
        ([CONFIRMED, CONFIRMED, INCONCLUSIVE], CONFIRMED),
        ([CONFIRMED, OTHER_SIZE, NEEDS_DATA], OTHER_SIZE),
        ([NOT_REPRODUCED, INCONCLUSIVE], NOT_REPRODUCED),
        ([OTHER_SIZE, NOT_REPRODUCED], MIXED),
        ([INCONCLUSIVE, NEEDS_DATA], INCONCLUSIVE),
        ([NEEDS_DATA, NEEDS_DATA], NEEDS_DATA),
    ],
)
def test_the_verdict_of_a_row_follows_from_its_claims(verdicts: list[str], row: str) -> None:
    claims = [claim(verdict) for verdict in verdicts]
    assert together(claims) == row
    # A variant is shown, and counts nowhere.
    variant = claim(NOT_REPRODUCED, variant_of="another")
    assert together([*claims, variant]) == row and "not reproduced" not in tally([variant])


@pytest.mark.parametrize(
    ("entry", "room"),
    [
        ({"printed": 32.0}, 8.0),
        ({"printed": [31.0, 33.0]}, 8.0),
        ({"printed": 98.0, "end": 100.0}, 0.5),
        ({"printed": 0.02, "side": "within", "threshold": 0.17}, 0.17),
        ({"printed": 5.0, "log": True}, math.log(1.25)),
        ({}, math.inf),
    ],
)
def test_an_interval_beyond_the_margin_confirms_nothing(entry: dict[str, Any], room: float) -> None:
    assert margin(entry) == pytest.approx(room)
    if room == math.inf:
        return
    number, (low, _) = 4.0, contrast([(1.0, Value.over([-1.0, 1.0]))])[1:3]
    assert low is not None
    for share, verdict in ((0.99, CONFIRMED), (1.01, INCONCLUSIVE)):
        spread = room * share / -low
        terms = [(1.0, Value.over([number - spread, number + spread]))]
        assert judge_number(terms, number, 1.0, "above", margin(entry)).verdict == verdict


def test_settings_that_differ_are_said_to() -> None:
    """Cochran's Q against its definition."""
    effects = [contrast([(1.0, Value.over(own))]) for own in (A, B, [0.0, 0.1, -0.1])]
    found = heterogeneity(effects)
    assert found is not None and found.freedom == 2
    weights = [1 / own.error**2 for own in effects if own.error]
    mean = sum(w * own.mean for w, own in zip(weights, effects, strict=True)) / sum(weights)
    q = sum(w * (own.mean - mean) ** 2 for w, own in zip(weights, effects, strict=True))
    assert found.q == pytest.approx(q) and found.p == pytest.approx(math.exp(-q / 2))
    assert found.weighted.mean == pytest.approx(mean)
    assert found.sampled.mean == pytest.approx(fmean(own.mean for own in effects))
    assert heterogeneity(effects[:1]) is None
