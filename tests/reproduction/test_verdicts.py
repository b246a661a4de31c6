"""Statistics of the protocol against naive recomputations, closed forms and SciPy."""

from __future__ import annotations

import math
from itertools import combinations
from random import Random
from statistics import fmean, stdev
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from scipy.stats import binom, norm, ttest_1samp, ttest_ind

from paper_evidence import tail
from resultant.analysis.metrics import paired_gain
from resultant_reproduction.calibration import over_queries
from resultant_reproduction.value import (
    CONFIRMED,
    INCONCLUSIVE,
    NEEDS_DATA,
    NOT_REPRODUCED,
    OTHER_SIZE,
    Value,
    contrast,
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

A, B = [1.0, 2.0, 4.0, 3.5], [0.5, 0.25, 1.5]


def test_one_arm_is_students_interval() -> None:
    """For one arm of n runs the interval is mean ± t sd / sqrt(n), with n - 1 degrees."""
    ours = contrast([(1.0, Value.over(A))])
    error = stdev(A) / 2
    assert ours.mean == fmean(A) and ours.freedom == pytest.approx(3)
    assert ours.error == pytest.approx(error)
    assert ours.low is not None and ours.p is not None
    reach = (ours.mean - ours.low) / error
    assert 2 * tail(reach, 3) == pytest.approx(0.05)
    assert 2 * tail(ours.mean / error, 3) == pytest.approx(ours.p)


def test_two_arms_are_welchs_test() -> None:
    ours = contrast([(1.0, Value.over(A)), (-1.0, Value.over(B))])
    a, b = stdev(A) ** 2 / 4, stdev(B) ** 2 / 3
    freedom = (a + b) ** 2 / (a**2 / 3 + b**2 / 2)
    assert ours.freedom == pytest.approx(freedom)
    assert ours.mean == pytest.approx(fmean(A) - fmean(B)) and ours.n == 7
    assert ours.p == pytest.approx(2 * tail(ours.mean / math.sqrt(a + b), freedom))


@pytest.mark.slow
def test_coverage_of_a_mean_over_settings() -> None:
    """About 95 % of the intervals over settings with unequal spreads contain the truth."""
    random, inside = Random(0), 0
    for _ in range(1000):
        terms = []
        for sd, n in ((0.5, 3), (1.0, 7), (0.2, 4)):
            for sign in (1, -1):
                values = [random.gauss(sign, sd) for _ in range(n)]
                terms.append((sign / 3, Value.over(values)))
        inside += bool(contrast(terms).contains(2.0))
    assert 925 <= inside <= 975


def test_printed_deviations_are_of_three_seeds() -> None:
    own = contrast([(1.0, Value.over(A))])
    three = contrast([(1.0, Value.printed(1.0, 0.3))])
    assert three.error == pytest.approx(math.sqrt(0.03)) and three.freedom == 2
    exact = contrast([(1.0, Value.over(A)), (-1.0, Value.printed(1.0))])
    assert exact.error == own.error and exact.freedom == pytest.approx(own.freedom)


def test_one_run_and_runs_without_spread() -> None:
    single = contrast([(1.0, Value.over([1.0])), (-1.0, Value.over(A))])
    assert single.low is None and single.contains(0.0) is None and single.text(1) == "-1.6"
    same = contrast([(1.0, Value.over([2.0, 2.0]))])
    assert (same.low, same.high) == (2.0, 2.0) and same.contains(2.0)


# An effect whose interval reaches nearly so far on both sides.
def _effect(mean: float, reach: float) -> Value:
    return Value(mean, math.sqrt(1000) * reach / 2.0, 1000)


@pytest.mark.parametrize(
    ("mean", "printed", "verdict"),
    [
        (2.0, 2.5, CONFIRMED),
        (2.0, 9.0, OTHER_SIZE),
        (-2.0, -2.5, CONFIRMED),
        (0.5, 1.0, INCONCLUSIVE),
        (0.5, 3.0, NOT_REPRODUCED),
        (0.5, -1.0, NOT_REPRODUCED),
        (2.0, -2.5, NOT_REPRODUCED),
        (2.0, -0.5, NOT_REPRODUCED),
    ],
)
def test_rows_of_the_protocol(mean: float, printed: float, verdict: str) -> None:
    judged = judge_effect([(1.0, _effect(mean, 1.0))], [(1.0, Value.printed(printed))])
    assert judged.verdict == verdict and judged.printed == printed
    assert (judged.seeds is not None) == (verdict == INCONCLUSIVE)


def test_the_printed_error_decides() -> None:
    """A printed deviation widens the second interval and not the first."""
    ours = [(1.0, _effect(2.0, 1.0))]
    assert judge_effect(ours, [(1.0, Value.printed(4.0))]).verdict == OTHER_SIZE
    wide = judge_effect(ours, [(1.0, Value.printed(4.0, 2.0))])
    assert wide.verdict == CONFIRMED and wide.ours == contrast(ours)
    assert wide.apart == contrast([*ours, (-1.0, Value.printed(4.0, 2.0))])


def test_without_runs_or_spread() -> None:
    paper = [(1.0, Value.printed(1.0))]
    assert judge_effect([], paper).verdict == NEEDS_DATA
    assert judge_effect([(1.0, Value.over([9.0]))], paper).verdict == INCONCLUSIVE
    assert judge_number([], 1.0).verdict == NEEDS_DATA
    assert judge_number([(1.0, Value.over([1.0]))], 1.0, 0.5).verdict == INCONCLUSIVE
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
    judged = judge_number([(1.0, _effect(2.0, 1.0))], printed, threshold, side)
    assert judged.verdict == verdict
    if printed is not None:
        assert judged.apart is not None and judged.apart.mean == 2.0 - printed


def test_seeds_of_textbooks() -> None:
    """Cohen's table: two arms, two-sided 5 %, power 80 %, effects in deviations."""
    terms = [(1.0, Value(0.0, 1.0, 5)), (-1.0, Value(0.0, 1.0, 5))]
    assert [seeds_needed(terms, d) for d in (0.2, 0.5, -0.8)] == [394, 64, 26]
    assert seeds_needed(terms, 0.0) is None and seeds_needed(terms, 1e-6) is None
    assert seeds_needed([(1.0, Value.over([1.0]))], 1.0) is None


def test_power_by_simulation() -> None:
    terms = [(0.5, Value(0.0, 1.0, 4)), (-0.5, Value(0.0, 2.0, 4))]
    random, seen, n = Random(1), 0, 8
    for _ in range(1000):
        arms = [Value.over([random.gauss(m, sd) for _ in range(n)]) for m, sd in ((4, 1), (0, 2))]
        p = contrast([(0.5, arms[0]), (-0.5, arms[1])]).p
        seen += p is not None and p < 0.05
    assert seen / 1000 == pytest.approx(power(terms, 2.0, n), abs=0.03)


def test_ratio_of_variances() -> None:
    """Ends of the F interval are where the ratio would be a 2.5 % quantile."""
    groups = [A, B]
    variance, freedom = pooled_variance(groups)
    assert freedom == 5
    assert variance == pytest.approx((3 * stdev(A) ** 2 + 2 * stdev(B) ** 2) / 5)
    ratio, low, high = variance_ratio((variance, freedom), (0.5, 4))
    assert ratio == pytest.approx(2 * variance)

    def above(x: float) -> float:
        # F > x has the regularized incomplete beta function as its probability.
        z = 4 / (4 + 5 * x)
        return float(mpmath.betainc(2, 2.5, 0, z, regularized=True))

    ends = [above(ratio / end) for end in (low, high)]
    assert ends == pytest.approx([0.025, 0.975])


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
    assert 0 < kept < 1000
    assert holm([]) == []


def test_mean_over_settings_by_welch() -> None:
    """Two settings, one of them turned, are Welch's test of their difference."""
    a, b = [0.3, 0.7, 0.2, 0.9, 0.4, 0.6], [-0.1, 0.25, 0.2]
    actual = over_settings([a, [-v for v in b]])
    assert actual is not None
    expected: Any = ttest_ind(a, b, equal_var=False)
    low, high = expected.confidence_interval(0.95)
    assert actual.mean == pytest.approx((fmean(a) - fmean(b)) / 2)
    assert actual[1:3] == (pytest.approx(low / 2), pytest.approx(high / 2))
    assert actual.p == pytest.approx(expected.pvalue) and actual.n == 9
    # A single setting is the paired t test, and many networks do not make one count for more.
    alone = over_settings([a])
    assert alone is not None
    assert alone.p == pytest.approx(ttest_1samp(a, 0.0).pvalue)  # type: ignore[attr-defined]
    many = over_settings([[1.0, 1.2] * 6, [0.0, 0.2]])
    assert many is not None and many.mean == pytest.approx(0.6)
    assert over_settings([]) is None
    # Equal up to rounding is equal.
    alike = [100 * (0.4148 - 0.4147), 100 * (0.4132 - 0.4131), 100 * (0.4267 - 0.4266)]
    assert len({*alike}) > 1
    for known in ([[1.0], [0.5, 0.6]], [[1.0, 1.0], [2.0, 2.0]], [alike]):
        single = over_settings(known)
        assert single is not None and single.p is None and single.low is None


def test_interval_over_queries_is_the_paired_one() -> None:
    generator = torch.Generator().manual_seed(0)
    before, after = (torch.rand(200, generator=generator) < p for p in (0.5, 0.6))
    result, known = over_queries(after, before), paired_gain(before, after)
    assert result[:3] == pytest.approx((known.gain, known.low, known.high), rel=1e-12)
    assert over_queries(after, before, 100.0).mean == pytest.approx(100 * known.gain)
    assert over_queries(after, after)[:3] == (0, 0, 0) and over_queries(after, after).sign == 0
    # The binomial test of the queries that one rule alone has right, by its two tails.
    more, less = int((after & ~before).sum()), int((before & ~after).sum())
    assert result.p == pytest.approx(2 * binom.cdf(min(more, less), more + less, 0.5))
    assert over_queries(after, after).p == 1
    # Cross-entropies have a normal interval and test.
    x = torch.randn(400, generator=torch.Generator().manual_seed(1)).double()
    result, spread = (
        over_queries(x, torch.zeros_like(x)),
        float(x.std(correction=0)) / len(x) ** 0.5,
    )
    assert result.p == pytest.approx(2 * norm.sf(abs(result.mean) / spread))
    assert result.high == pytest.approx(result.mean + norm.ppf(0.975) * spread)


def test_few_hits_are_tested_exactly() -> None:
    """Four queries of 10,000 that turn one way: the normal interval leaves zero out, the exact test
    does not reject, and counts; six do."""
    before = torch.zeros(10_000, dtype=torch.bool)
    for turned, sign in ((4, 0), (6, 1)):
        after = before.clone()
        after[:turned] = True
        up, down = over_queries(after, before, 100.0), over_queries(before, after, 100.0)
        assert up.p == down.p == pytest.approx(2 * 0.5**turned)
        assert up.low is not None and up.low > 0
        assert (up.sign, down.sign) == (sign, -sign)


@pytest.mark.parametrize("steps", [(0.3, 0.5, 0.4), (-0.2, -0.3, -0.2), (0.3, -0.2, 0.1), (1, 9)])
def test_interval_over_seeds_is_the_paired_t_test(steps: tuple[float, ...]) -> None:
    result = over_settings([steps])
    assert result is not None and result.p is not None
    assert (result.sign != 0) == (result.p < 0.05)
    # Student's quantiles of one and two degrees of freedom have a closed form.
    t = np.tan(0.475 * np.pi) if len(steps) == 2 else 0.95 * np.sqrt(2 / (1 - 0.95**2))
    reach = t * np.std(steps, ddof=1) / np.sqrt(len(steps))
    assert result.high == pytest.approx(np.mean(steps) + reach, rel=1e-9)
