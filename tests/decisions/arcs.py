"""Rules whose boundaries are looked for on the short arc between two prototypes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor

import small_classes
from class_samples import F64
from resultant.classes.realization import Realization
from resultant.classes.statistics import ClassState
from resultant.decisions.boundaries import ArcRoots
from small_classes import P

PAIR = torch.tensor([[0, 1]])


def classes(kappa: Tensor | None = None, p: int = P, seed: int = 5) -> ClassState:
    return small_classes.classes(kappa, p, shared=0.4, seed=seed)


def two(theta: float, slopes: tuple[float, float], shifts: tuple[float, float]) -> Realization:
    """Two linear scores, theta apart in the plane."""
    mu = torch.tensor([[1.0, 0.0], [math.cos(theta), math.sin(theta)]], dtype=F64)
    slope, shift = torch.tensor(slopes, dtype=F64), torch.tensor(shifts, dtype=F64)
    return Realization(mu, torch.ones(2, dtype=F64), None, slope, shift)


def close(a: Tensor, b: Tensor, rtol: float = 1e-11, atol: float = 1e-12) -> None:
    """Also where both have no root, NaN."""
    torch.testing.assert_close(a.double(), b.double(), rtol=rtol, atol=atol, equal_nan=True)


def on_arc(state: ClassState, a: int, b: int, u: np.ndarray) -> tuple[float, Tensor]:
    """The angle between two prototypes, and the unit vectors at angles u from the first."""
    x, y = state.mu[a], state.mu[b]
    across = y - (x @ y) * x
    theta = math.atan2(float(across.norm()), float(x @ y))
    at = torch.as_tensor(u, dtype=F64)[:, None]
    return theta, at.cos() * x + at.sin() * across / across.norm()


def naive_roots(state: ClassState, pairs: Tensor, scores: Any, value: Any) -> list[list[float]]:
    """Sign changes of value(scores, a, b) on dense grids of vectors, refined by Brent."""
    roots = []
    for a, b in pairs.tolist():
        theta, _ = on_arc(state, a, b, np.zeros(1))

        def D(u: float | np.ndarray, a: int = a, b: int = b) -> Any:
            _, z = on_arc(state, a, b, np.atleast_1d(u))
            out = value(scores(z), a, b)
            return out.numpy() if np.ndim(u) else float(out[0])

        # An even number of locations: equal gains have an exact zero in the middle.
        grid = np.linspace(0, theta, 3000)
        at = np.sign(D(grid))
        crossings = np.flatnonzero(at[:-1] * at[1:] < 0)
        roots.append([brentq(D, grid[i], grid[i + 1], xtol=1e-14) for i in crossings])
    return roots


def check(roots: ArcRoots, naive: list[list[float]]) -> None:
    assert roots.count.tolist() == [len(r) for r in naive]
    expected = [r[0] if len(r) == 1 else math.nan for r in naive]
    close(roots.root, torch.tensor(expected, dtype=F64), 0.0, 1e-10)
