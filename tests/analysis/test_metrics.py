"""Calibration and paired differences against direct calculation."""

from __future__ import annotations

import math

import pytest
import torch

from resultant.analysis.metrics import paired_gain, rank_correlation
from resultant.classifiers.calibration import calibration_error, confidence_bins


def test_confidence_bins_and_calibration_error() -> None:
    confidence = torch.tensor([0.0, 0.05, 0.5, 0.52, 1.0, 1.0])
    right = torch.tensor([False, True, True, False, True, False])
    bins = confidence_bins(confidence.numpy(), right.numpy())
    assert bins[0].tolist() == [2, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 2]
    expected = (2 * abs(0.5 - 0.025) + 2 * abs(0.5 - 0.51) + 2 * abs(0.5 - 1)) / 6
    assert calibration_error(*bins) == pytest.approx(expected)


def test_paired_gain_against_definition() -> None:
    before = torch.tensor([True] * 60 + [False] * 40)
    after = torch.tensor([True] * 55 + [False] * 5 + [True] * 14 + [False] * 26)
    result = paired_gain(before, after)
    assert result.gain == pytest.approx(0.09)
    deviation = (after.double() - before.double()).std(correction=0) / 10
    assert result.high - result.gain == pytest.approx(1.959964 * float(deviation), rel=1e-6)
    tail = sum(math.comb(19, k) for k in range(6)) / 2**19
    assert result.p_value == pytest.approx(2 * tail)
    assert paired_gain(before, before).p_value == 1.0

    # Intervals are cut to possible differences: sixteen of eighteen queries better, none worse.
    wrong, right = torch.zeros(18, dtype=torch.bool), torch.arange(18) < 16
    result, turned = paired_gain(wrong, right), paired_gain(right, wrong)
    assert (result.gain, result.high) == (pytest.approx(16 / 18), 1.0)
    assert (turned.gain, turned.low, turned.high) == (-result.gain, -1.0, -result.low)


def test_ranks_of_fewer_than_five_values_say_nothing() -> None:
    """All 24 orders of four values have p of 2/24 or more."""
    assert rank_correlation(torch.arange(4.0), torch.arange(4.0)) is None
    assert rank_correlation(torch.arange(5.0), torch.arange(5.0)) == pytest.approx(1)
