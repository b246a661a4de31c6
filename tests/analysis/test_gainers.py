"""Groups and classes that gain or lose."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import binomtest

from frozen_data import C
from resultant.analysis import FrozenSpace
from resultant.analysis.gainers import EXACT, _chance, gainers


def test_chance_is_that_of_scipy() -> None:
    for up, down in ((0, 0), (3, 0), (2, 7), (240, 200)):
        expected = binomtest(up, up + down).pvalue if up + down else 1.0
        assert _chance(up, down) == pytest.approx(expected, rel=1e-9)
    up, down = EXACT // 2 + 60, EXACT // 2 - 10
    assert _chance(up, down) == pytest.approx(binomtest(up, up + down).pvalue, rel=0.02)


def test_groups_and_classes_are_named(small: FrozenSpace) -> None:
    """The tail wins, the head loses, and the classes with the largest changes are named."""
    labels = torch.arange(C).repeat_interleave(40)
    rank = torch.arange(len(labels)) % 40
    group = small.groups[labels]
    before = torch.where(group == 2, rank < 20, rank < 30)
    after = torch.where(group == 2, rank < 28, rank < 30)
    after &= (group != 0) | (rank < 22)
    most, least = int(small.groups.argmax()), int(small.groups.argmin())
    after |= labels == most
    after &= labels != least
    names = [f"name {c}" for c in range(C)]
    text = gainers(small, labels, after, before, 0.005, names)
    assert text.startswith("wins ") and "in tail, loses " in text and "ties in medium" in text
    assert f"wins most in name {most} (+50.0 points)" in text
    assert f"loses most in name {least} (-75.0 points)" in text


def test_chance_is_not_a_gain(small: FrozenSpace) -> None:
    """One row of a class of two rows does not make it gain."""
    labels = torch.arange(C).repeat(2)
    before = torch.ones(len(labels), dtype=torch.bool)
    before[0] = False
    text = gainers(small, labels, torch.ones_like(before), before, 0.005)
    assert text == "ties in all shot groups; no single class changes by more than chance"
