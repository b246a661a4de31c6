"""Intervals, corrections and tests of signs against naive recomputation and SciPy."""

from __future__ import annotations

import statistics
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binom, norm, ttest_1samp, ttest_ind

from resultant.analysis.metrics import paired_gain
from resultant_reproduction.calibration import over_queries
from resultant_reproduction.value import holm, over_settings


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
    assert actual.mean == pytest.approx((statistics.fmean(a) - statistics.fmean(b)) / 2)
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
