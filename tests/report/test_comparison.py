"""The verdict of a comparison."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from resultant.analysis import Advice, Analysis
from resultant.report import comparison
from resultant.report.explorer import Side


def test_verdict_on_the_same_rows() -> None:
    """Only the rows that exactly one side classifies correctly count."""
    a = torch.tensor([True] * 50 + [False] * 20 + [True] * 4 + [False] * 26)
    b = torch.tensor([True] * 50 + [True] * 20 + [False] * 4 + [False] * 26)
    v = comparison.verdict(a, b, same_rows=True)
    assert v.accuracy == (0.54, 0.70) and v.better == "B"
    # McNemar: 4 or fewer of 24 heads, on both sides.
    tail = sum(math.comb(24, k) for k in range(5)) / 2**24
    assert v.p == pytest.approx(2 * tail)
    differences = b.double() - a.double()
    reach = 1.96 * float(differences.std(correction=0)) / 10
    assert (v.low, v.high) == pytest.approx((0.16 - reach, 0.16 + reach), abs=1e-4)
    assert comparison.verdict(b, a, same_rows=True).better == "A"
    assert (same := comparison.verdict(a, a, same_rows=True)).better is None
    # No interval of zero width.
    assert comparison.answer(same).endswith("both are correct on the same rows")


def test_verdict_on_other_rows() -> None:
    """The test of two independent fractions, as in scipy."""
    from scipy.stats import chi2_contingency

    a, b = torch.arange(400) < 200, torch.arange(300) < 180
    v = comparison.verdict(a, b, same_rows=False)
    table = [[200, 200], [180, 120]]
    expected: Any = chi2_contingency(table, correction=False)
    assert v.p == pytest.approx(expected.pvalue, rel=1e-6)
    assert v.better == "B" and v.gain == pytest.approx(0.1)
    reach = 1.959964 * math.sqrt(0.25 / 400 + 0.24 / 300)
    assert v.high - v.gain == pytest.approx(reach, rel=1e-5)
    assert comparison.verdict(a[:200], b[:180], same_rows=False).p == 1


def test_advice(analysis: Analysis) -> None:
    assert comparison.advised_rule(replace(analysis, advice=None)) == "no advice"


def test_the_better_side_has_its_rule_and_a_better_reference(
    analysis: Analysis, advice: Advice
) -> None:
    good, bad = torch.ones(50, dtype=torch.bool), torch.zeros(50, dtype=torch.bool)
    v = comparison.verdict(good, bad, same_rows=True)
    a = replace(analysis, advice=advice)
    _, (_, do), _ = comparison.headline("z", v, (Side(a, "A"), Side(a, "B")))
    assert (
        " of A, with Pure Angular (temperature 0.1, beta 0.5). Better than every vMF rule: " in do
    )
    assert do.count("Logistic regression (") == 2 and do.endswith(" in B.")


def test_a_difference_below_half_a_point_is_a_tie() -> None:
    a, b = torch.arange(10**6) < 600_000, torch.arange(10**6) < 602_000
    v = comparison.verdict(a, b, same_rows=True)
    assert v.p < 1e-9 and v.better is None and v.tie
    assert comparison.answer(v).startswith("a tie: 60.00")
