"""Rules, pairs of classes, and the boundaries between them on short arcs, by Brent."""

import math
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor

import resultant as rs
from class_samples import F64, close
from resultant.classes.scores import ClassScores
from resultant.classes.statistics import ClassState
from resultant.decisions.boundaries import ArcRoots
from small_classes import C

PAIR, BETA = torch.tensor([[0, 1]]), 0.3
OFFSET = torch.linspace(-2, 1, C, dtype=F64)
PAIRS = torch.tensor([[0, 1], [5, 2], [3, 4], [1, 0]])


def two(
    theta: float, slopes: tuple[float, float], shifts: tuple[float, float] = (0.0, 0.0)
) -> ClassScores:
    """Two linear scores, theta apart in the plane."""
    mu = torch.tensor([[1.0, 0.0], [math.cos(theta), math.sin(theta)]], dtype=F64)
    slope, shift = torch.tensor(slopes, dtype=F64), torch.tensor(shifts, dtype=F64)
    return ClassScores(mu, torch.ones(2, dtype=F64), None, slope, shift)


def check(roots: ArcRoots, state: ClassState, rule: rs.Rule, pairs: Tensor, value: Any) -> None:
    """Compare with the sign changes of value(scores, a, b) on dense grids of vectors, refined by
    Brent; some arcs have one root."""
    arguments = state, rule.tau, rule.realization, rule.beta
    counts, expected, angles = [], [], []
    for a, b in pairs.tolist():
        x, y = state.mu[a], state.mu[b]
        across = y - (x @ y) * x
        angles.append(math.atan2(float(across.norm()), float(x @ y)))

        def D(u: Any, a: int = a, b: int = b, x: Tensor = x, across: Tensor = across) -> Any:
            at = torch.as_tensor(np.atleast_1d(u), dtype=F64)[:, None]
            z = at.cos() * x + at.sin() * across / across.norm()
            scores = rs.class_scores(z, *arguments, offset=rule.offset, validate_args=False)
            out = value(scores, a, b)
            return out.numpy() if np.ndim(u) else float(out[0])

        # An even number of locations: equal gains have an exact zero in the middle.
        grid = np.linspace(0, angles[-1], 3000)
        at = np.sign(D(grid))
        crossings = np.flatnonzero(at[:-1] * at[1:] < 0)
        found = [brentq(D, grid[i], grid[i + 1], xtol=1e-14) for i in crossings]
        counts.append(len(found))
        expected.append(found[0] if len(found) == 1 else math.nan)
    assert roots.count.tolist() == counts and 1 in counts
    close(roots.root, expected, 0.0, 1e-10, equal_nan=True)
    close(roots.theta, angles)
