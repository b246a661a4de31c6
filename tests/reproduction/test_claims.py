"""Printed numbers of claims that follow from the printed tables."""

from __future__ import annotations

from statistics import fmean

import pytest

from resultant_reproduction.claims import printed
from resultant_reproduction.spec import load, printed_rows

CLAIMS = {entry["name"]: entry for entry in load("claims")["claim"]}


def _changes(prior: str, first: int) -> list[float]:
    """Pure Angular at beta 0 less ProCo at IF 50 and 100, two columns of the control tables."""
    changes = []
    for imbalance in (50, 100):
        rows = {tuple(row[:2]): row[2:] for row in printed_rows(f"c10-if{imbalance}-{prior}")}
        after, before = rows["Pure Angular", "0"], rows["ProCo", "1"]
        changes += [float(after[i]) - float(before[i]) for i in (first, first + 1)]
    return changes


def test_priors_and_objectives() -> None:
    uniform, frequency, joint = _changes("u", 0), _changes("f", 0), _changes("u", 2)
    less = [a - b for a, b in zip(frequency, uniform, strict=True)]
    assert CLAIMS["prior-matters"]["printed"] == pytest.approx(less)
    less = [a - b for a, b in zip(joint, uniform, strict=True)]
    assert CLAIMS["objective-matters"]["printed"] == pytest.approx(less)


def test_joint_classifiers() -> None:
    changes = [float(row[-1]) for row in printed_rows("joint-fc")[:-1]]
    contrast = fmean(v for v in changes if v > 0) - fmean(v for v in changes if v < 0)
    assert CLAIMS["joint-mixed"]["printed"] == pytest.approx(contrast, abs=1e-4)


def test_low_margins_and_powers() -> None:
    rows = [row for row in printed_rows("cosine-diagnostics") if row[0].startswith("CIFAR-100")]
    shares = [100 * float(row[3]) / float(row[2]) for row in rows if row[1] == "Encoder"]
    assert CLAIMS["low-margin"]["printed"] == pytest.approx(shares, abs=1e-4)
    last = load("printed/figures")["training-gain"]["last"]
    for name, key in (("power-applied-gain", "applied_gain_sd"), ("power-native-gain", "gain_sd")):
        _, reduced, increased = map(float, last[key])
        assert CLAIMS[name]["printed"] == pytest.approx(increased - reduced)


def test_columns_of_tables() -> None:
    """The mean of a printed column over the conditions of the claim."""
    assert printed(CLAIMS["frozen-cifar100-encoder"]) == pytest.approx((3.63 + 4.39 + 4.82) / 3)
    assert printed(CLAIMS["frozen-cifar10"]) == pytest.approx(-(0.75 + 0.14 + 0.74 + 0.23) / 4)
