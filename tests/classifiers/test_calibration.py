"""Calibration error against a loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from resultant.classifiers.calibration import expected_calibration_error


def naive_error(p: np.ndarray, y: np.ndarray, bins: int) -> float:
    total = 0.0
    for b in range(bins):
        rows = [i for i in range(len(y)) if b / bins < p[i].max() <= (b + 1) / bins]
        if rows:
            hits = sum(p[i].argmax() == y[i] for i in rows) / len(rows)
            total += len(rows) / len(y) * abs(hits - sum(p[i].max() for i in rows) / len(rows))
    return total


@pytest.mark.parametrize("bins", [1, 4, 15])
def test_equals_a_loop(bins: int) -> None:
    rng = np.random.default_rng(6)
    p = rng.dirichlet([0.4] * 5, 300)
    p[:3] = [[0.5, 0.5, 0, 0, 0], [0.25, 0.75, 0, 0, 0], [1, 0, 0, 0, 0]]  # at the edges
    y = np.array([rng.choice(5, p=np.sqrt(row) / np.sqrt(row).sum()) for row in p])
    y[:3] = [1, 1, 0]
    expected = naive_error(p, y, bins)
    assert expected > 0.01
    assert expected_calibration_error(p, y, bins) == pytest.approx(expected, rel=1e-12)
    tensors = torch.from_numpy(p), torch.from_numpy(y)
    assert expected_calibration_error(*tensors, bins) == pytest.approx(expected, rel=1e-12)


def test_half_precision() -> None:
    """A hit at 0.5 is in the lower of two bins, apart from a miss at 0.625."""
    half = torch.tensor([[0.5, 0.5], [0.625, 0.375]], dtype=torch.bfloat16)
    assert expected_calibration_error(half, [0, 1], 2) == 0.5625


def test_arguments_are_checked() -> None:
    p, y = np.full((3, 2), 0.5), np.array([0, 1, 1])
    for arguments, message in [
        ((p[0], y), r"got shapes \(2,\) \(float64\) and \(3,\)"),
        ((p.astype(str), y), r"got shapes \(3, 2\) \(<U"),
        ((p, y + 1), r"integers in \[0, 2\), got int64 from 1"),
        ((2 * p, y), "rows that sum to one, got .* the sum 2"),
        ((p * math.nan, y), "rows that sum to one"),
        ((p, y, 0), "bins to be an integer >= 1, got 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            expected_calibration_error(*arguments)
