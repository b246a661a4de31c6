"""The factor of scores with which their softmax has the least cross-entropy, without torch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# Limits of the scale, and the last relative step: the error is about its square.
SCALES = (1e-6, 1e6)
ACCURACY = 1e-2


def solve_scale(moments: Callable[[float], tuple[float, float]], start: float) -> float:
    """Find the minimum of a convex loss of the scale by Newton's method.

    Args:
        moments: Function of the scale that returns slope and curvature of the loss.
        start: First guess.
    """
    s, (low, high) = start, SCALES
    for _ in range(60):
        slope, curvature = moments(s)
        low, high = (s, high) if slope < 0 else (low, s)
        step = s - slope / curvature if curvature > 0 else 0.0
        # Newton's step in s may leave the interval; the middle in log s never does.
        new = step if low < step < high else (low * high) ** 0.5
        if abs(new - s) <= ACCURACY * s:
            return min(max(new, SCALES[0]), SCALES[1])
        s = new
    return s


def scale_of(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """Fit the scale of scores [M, C]; `resultant.classifiers.calibration.fit_scale` for arrays."""
    w, present = weights / weights.sum(), scores > -np.inf
    # Differences to the largest score; exp never overflows, and 0 * -1e30 is no NaN.
    d = np.where(present, scores - scores.max(1, keepdims=True), np.float32(-1e30))
    smooth = 1 / (len(scores) + 1)
    everyone = np.where(present, d, 0).sum(1) / present.sum(1)
    target = float(w @ ((1 - smooth) * d[np.arange(len(d)), labels] + smooth * everyone))
    if target >= 0:
        return 1.0

    def moments(s: float) -> tuple[float, float]:
        e = np.exp(np.float32(s) * d)
        total = e.sum(1)
        e *= d
        mean = e.sum(1) / total
        e *= d
        return float(w @ mean) - target, float(w @ (e.sum(1) / total - np.square(mean)))

    return solve_scale(moments, 1 / max(-float(w @ everyone), SCALES[0]))


def cross_entropies(scores: np.ndarray, labels: np.ndarray, scale: float) -> np.ndarray:
    """Compute cross-entropies [M] of softmax(scale * scores)."""
    s = scale * scores
    top = s.max(1)
    return top + np.log(np.exp(s - top[:, None]).sum(1)) - s[np.arange(len(s)), labels]
