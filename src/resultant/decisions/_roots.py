"""Roots of margins on arcs: signs at uniform locations, then a refinement (sec:root-solving)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from resultant._core import chunks

LOCATIONS = 2001

# Tolerances of both methods, absolute in radians and relative; scipy accepts no smaller RTOL.
XTOL, RTOL = 1e-15, 4 * np.finfo(float).eps

# Steps of Chandrupatla's method at most; halving takes some fifty.
STEPS = 200

# (angles u [K, P], indices of arcs [P]) -> margins [K, P]
Margin = Callable[[Tensor, Tensor], Tensor]

# (f(u, i), low, high, i) -> roots, success
Find = Callable[[Callable, np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def solve(
    margin: Margin, theta: Tensor, falling: Tensor, find: Find, width: int = 1
) -> tuple[Tensor, Tensor]:
    """Count the roots of margins on arcs of angles ``theta`` [P], and refine unique ones.

    Args:
        margin: Margins of arcs at angles.
        theta: Angles [P] of the arcs.
        falling: Mask [P] of margins that fall on their whole arc, which need only its two ends.
        find: Refinement, `elementwise` or `brent`.
        width: Temporary numbers per margin.

    Returns:
        Numbers of roots [P] int64 and roots [P], NaN unless unique.
    """
    count = torch.zeros_like(theta, dtype=torch.int64)
    root = torch.full_like(theta, math.nan)
    for kind, locations in ((falling, 2), (~falling, LOCATIONS)):
        open_arcs = (kind & (theta > 0)).nonzero().squeeze(-1)
        if not len(open_arcs):
            continue
        fractions = torch.linspace(0, 1, locations, dtype=theta.dtype, device=theta.device)
        height = chunks.rows_per_chunk(8 * locations * width, chunks.MATRIX_BYTES)
        for which in open_arcs.split(height):
            u = fractions.unsqueeze(1) * theta[which]
            D = margin(u, which)
            # Compared, not multiplied: NaN, from two classes of prior zero, is then no root.
            zero = D == 0
            cross = ((D[:-1] < 0) & (D[1:] > 0)) | ((D[:-1] > 0) & (D[1:] < 0))
            count[which] = zero.sum(0) + cross.sum(0)
            single = count[which] == 1
            root[which[single & zero.any(0)]] = u.T[zero.T & single.unsqueeze(1)]
            within = single & cross.any(0)
            inside = cross.T & within.unsqueeze(1)
            bracket = u[:-1].T[inside], u[1:].T[inside]
            root[which[within]] = refine(margin, which[within], *bracket, find)
    return count, root


def refine(margin: Margin, which: Tensor, low: Tensor, high: Tensor, find: Find) -> Tensor:
    """Refine roots [P] in brackets."""
    if not len(which):
        return low

    def f(u: np.ndarray, i: np.ndarray) -> np.ndarray:
        at = torch.as_tensor(u, device=low.device)
        index = torch.as_tensor(i, device=low.device).long()
        return margin(at.unsqueeze(0), index).squeeze(0).cpu().numpy()

    roots, success = find(f, low.cpu().numpy(), high.cpu().numpy(), which.cpu().numpy())
    root = torch.as_tensor(roots, device=low.device)
    # The rounding of scores depends on the batch, so that a margin of the size of rounding may
    # change its sign and lose the bracket: the root is then at the nearest end.
    lost = torch.as_tensor(~success, device=low.device)
    ends = torch.stack([low[lost], high[lost]])
    nearest = margin(ends, which[lost]).abs().argmin(0, keepdim=True)
    root[lost] = ends.gather(0, nearest).squeeze(0)
    return root


# Both find the zeros of f(u, i) for i of ``which`` in brackets, and report success.


def elementwise(
    f: Callable, low: np.ndarray, high: np.ndarray, which: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Find all roots together (Chandrupatla's method), as `scipy.optimize.elementwise` does, which
    takes half a second to load."""
    a, b = low.copy(), high.copy()
    fa, fb = f(a, which), f(b, which)
    success = (fa <= 0) & (fb >= 0) | (fa >= 0) & (fb <= 0)
    best, t = a, np.full_like(a, 0.5)
    with np.errstate(invalid="ignore", divide="ignore"):
        for _ in range(STEPS):
            best = np.where(np.abs(fa) < np.abs(fb), a, b)
            least = np.minimum(1.0, (XTOL + RTOL * np.abs(best)) / np.abs(b - a))
            done = ~success | (least >= 0.5) | (fa == 0) | (fb == 0)
            if done.all():
                break
            x = a + np.clip(t, least, 1 - least) * (b - a)
            x = np.where(done, a, x)
            fx = np.where(done, fa, f(x, which))
            # The root stays between a, the newest point, and b; c is the point before.
            same = np.sign(fx) == np.sign(fa)
            c, fc = np.where(same, a, b), np.where(same, fa, fb)
            b, fb = np.where(done | same, b, a), np.where(done | same, fb, fa)
            a, fa = x, fx
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            curve = fa / (fb - fa) * fc / (fb - fc)
            curve += (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
            t = np.where((phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi), curve, 0.5)
    return best, success


def brent(
    f: Callable, low: np.ndarray, high: np.ndarray, which: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Find the roots one after another (Brent's method)."""
    # Imported inside: the import is slow, and few callers need it.
    from scipy.optimize import brentq

    root, success = low.copy(), np.zeros(len(low), dtype=bool)
    for k, (a, b) in enumerate(zip(low, high, strict=True)):

        def at(u: float, i: np.ndarray = which[k : k + 1]) -> float:
            return float(f(np.array([u]), i)[0])

        if at(a) * at(b) <= 0:
            root[k], success[k] = brentq(at, a, b, xtol=XTOL, rtol=RTOL), True
    return root, success
