"""The adversarial search on errors whose largest value is known."""

from __future__ import annotations

import numpy as np

from benchmarks.search import climb


def test_finds_a_narrow_peak() -> None:
    """A peak a thousandth of the box wide, which random points miss."""
    rng = np.random.default_rng(0)

    def error(points: np.ndarray) -> np.ndarray:
        x, y = points
        return 1 / (1 + abs(x - 0.3)) + np.exp(-(((x - 0.3) / 1e-3) ** 2)) + 0.1 * y

    starts = rng.uniform(-1, 1, (2, 30))
    before = starts.copy()
    ends = climb(error, [(-1, 1), (-1, 1)], starts, 200, rng)
    assert error(starts).max() < 1.5 < 2.09 < error(ends).max()
    assert (error(ends) >= error(starts)).all() and (starts == before).all()
    assert (abs(ends) <= 1).all()


def test_an_error_that_is_not_a_number_is_the_largest() -> None:
    def error(points: np.ndarray) -> np.ndarray:
        return np.where(points[0] == 1, np.nan, points[0])

    ends = climb(error, [(0, 1)], np.zeros((1, 4)), 200, np.random.default_rng(0))
    assert (ends == 1).any()
