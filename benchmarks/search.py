"""Adversarial search: hill climbing from many starts for the arguments of the largest error."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.peers import Array

# The decimal logarithm of the smallest move, as a share of the box: a rounding of float32.
FINEST = -8.0
# Share of the trials that keep one coordinate, and of those that go to an edge of the box.
KEPT, AT_AN_EDGE = 0.4, 0.05


def climb(
    error: Callable[[Array], Array],
    box: Sequence[tuple[float, float]],
    starts: Array,
    steps: int,
    rng: np.random.Generator,
) -> Array:
    """Climb from each start, a column of [coordinates, n], to a larger error.

    A trial moves some coordinates by a random share of the box, of random size; it is kept if its
    error is larger. Errors of rounding are rough, so that no gradient helps.

    Args:
        error: Errors [n] of points [coordinates, n].
        box: Smallest and largest value of each coordinate.
        starts: Points [coordinates, n] in the box.
        steps: Trials from each start.
        rng: Source of random numbers.

    Returns:
        The points [coordinates, n] where the climbs ended.
    """
    low, high = (np.array(ends)[:, None] for ends in zip(*box, strict=True))
    points, largest = starts.copy(), error(starts)
    for _ in range(steps):
        size = 10 ** rng.uniform(FINEST, 0, points.shape[1])
        move = rng.normal(size=points.shape) * size * (high - low)
        move[rng.uniform(size=points.shape) < KEPT] = 0
        trial = np.clip(points + move, low, high)
        edge = rng.uniform(size=points.shape)
        trial = np.where(
            edge < AT_AN_EDGE / 2, low, np.where(edge > 1 - AT_AN_EDGE / 2, high, trial)
        )
        errors = error(trial)
        # Not ">": an error that is not a number is the largest of all.
        better = ~(errors <= largest)
        points[:, better], largest[better] = trial[:, better], errors[better]
    return points
