"""Differences with their intervals and tests: over queries, over seeds, and by resampling."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import binom, norm

from paper_evidence import numbered
from resultant.analysis.metrics import paired_gain
from resultant_reproduction.artefact import Change
from resultant_reproduction.intervals import Interval, over_queries, over_seeds, resampled


def test_interval_over_queries_is_the_paired_one() -> None:
    generator = torch.Generator().manual_seed(0)
    before, after = (torch.rand(200, generator=generator) < p for p in (0.5, 0.6))
    found, known = over_queries(after, before), paired_gain(before, after)
    assert found[:3] == pytest.approx((known.gain, known.low, known.high), rel=1e-12)
    assert over_queries(after, before, 100.0).mean == pytest.approx(100 * known.gain)
    assert over_queries(after, after)[:3] == (0, 0, 0) and over_queries(after, after).sign == 0
    # The binomial test of the queries that one rule alone has right, by its two tails.
    more, less = int((after & ~before).sum()), int((before & ~after).sum())
    assert found.p == pytest.approx(2 * binom.cdf(min(more, less), more + less, 0.5))
    assert over_queries(after, after).p == 1


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
    assert "no effect on accuracy seen" in Interval(0.04, 0.01, 0.08, 10_000, p=0.125).effect(
        "accuracy"
    )


@pytest.mark.parametrize("steps", [(0.3, 0.5, 0.4), (-0.2, -0.3, -0.2), (0.3, -0.2, 0.1), (1, 9)])
def test_interval_over_seeds_is_the_paired_t_test(steps: tuple[float, ...]) -> None:
    found, p = over_seeds(steps), Change("", "", 0.0, numbered(steps)).p_value
    assert found is not None and p is not None
    assert (found.sign != 0) == (p < 0.05)
    # Student's quantiles of one and two degrees of freedom have a closed form.
    t = np.tan(0.475 * np.pi) if len(steps) == 2 else 0.95 * np.sqrt(2 / (1 - 0.95**2))
    reach = t * np.std(steps, ddof=1) / np.sqrt(len(steps))
    assert found.high == pytest.approx(np.mean(steps) + reach, rel=1e-9)


def test_equal_differences_have_no_interval() -> None:
    """Also where rounding tells them apart."""
    found = over_seeds([100 * (0.4148 - 0.4147), 100 * (0.4267 - 0.4266)])
    assert found is not None and found.low is None and found.sign is None


def test_words_follow_the_interval() -> None:
    up, down, flat = Interval(2, 1, 3, 9), Interval(-2, -3, -1, 9), Interval(1, -1, 3, 9)
    assert up.effect("accuracy") == "accuracy rises by +2.00 [+1.00, +3.00]"
    assert down.effect("NLL", 1) == "NLL falls by -2.0 [-3.0, -1.0]"
    assert flat.effect("accuracy") == "no effect on accuracy seen, +1.00 [-1.00, +3.00]"
    one, none = over_seeds([1.5]), over_seeds([])
    assert none is None and one is not None and one.sign is None
    assert one.effect("accuracy") == "accuracy +1.50, one seed: not tested"
    many = over_seeds([1.0, 1.1, 1.2])
    assert many is not None and many.effect("it").endswith("over 3 seeds")


def test_resampled_mean() -> None:
    x = torch.randn(400, generator=torch.Generator().manual_seed(1)).double()
    found = resampled(len(x), lambda at: float(x[at].mean()), draws=2000)
    normal = over_queries(x, torch.zeros_like(x))
    spread = float(x.std(correction=0)) / len(x) ** 0.5
    assert normal.p == pytest.approx(2 * norm.sf(abs(normal.mean) / spread))
    assert found.mean == pytest.approx(normal.mean)
    assert found.low is not None and found.high is not None and normal.low and normal.high
    assert found.high - found.low == pytest.approx(normal.high - normal.low, rel=0.08)
