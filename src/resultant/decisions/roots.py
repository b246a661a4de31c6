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

# (angles u [K, P], indices of arcs [P]) -> margins [K, P]
Margin = Callable[[Tensor, Tensor], Tensor]


def solve(
    margin: Margin, theta: Tensor, falling: Tensor, *, brent: bool = False, width: int = 1
) -> tuple[Tensor, Tensor]:
    """Count the roots of margins on arcs of angles ``theta`` [P], and refine unique ones.

    Args:
        margin: Margins of arcs at angles.
        theta: Angles [P] of the arcs.
        falling: Mask [P] of margins that fall on their whole arc, which need only its two ends.
        brent: Refine root by root by Brent's method, otherwise together by Chandrupatla's.
        width: Temporary numbers per margin.

    Returns:
        Numbers of roots [P] int64 and roots [P], NaN unless unique.
    """
    count = torch.zeros_like(theta, dtype=torch.int64)
    root = torch.full_like(theta, math.nan)
    for kind, locations in ((falling, 2), (~falling, LOCATIONS)):
        open_arcs = (kind & (theta > 0)).nonzero().squeeze(-1)
        fractions = torch.linspace(0, 1, locations, dtype=theta.dtype, device=theta.device)
        height = chunks.rows_per_chunk(8 * locations * width, chunks.MATRIX_BYTES)
        for which in open_arcs.split(height) if len(open_arcs) else ():
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
            root[which[within]] = refine(margin, which[within], *bracket, brent)
    return count, root


def refine(margin: Margin, which: Tensor, low: Tensor, high: Tensor, brent: bool) -> Tensor:
    """Refine roots [P] in brackets."""
    if not len(which):
        return low
    # Imported inside: the import takes half a second.
    from scipy.optimize import brentq, elementwise

    def f(u: np.ndarray, i: np.ndarray) -> np.ndarray:
        at = torch.as_tensor(u, device=low.device).unsqueeze(0)
        index = torch.as_tensor(i, device=low.device).long()
        return margin(at, index).squeeze(0).cpu().numpy()

    ends = torch.stack([low, high])
    D = margin(ends, which)
    # The rounding of scores depends on the batch, so that a margin of the size of rounding may
    # change its sign and lose the bracket: the root is then at the nearest end.
    root = ends.gather(0, D.abs().argmin(0, keepdim=True)).squeeze(0)
    a, b, i = (x.cpu().numpy() for x in (low, high, which))
    if brent:
        for k in (D.sign().prod(0) < 0).nonzero().squeeze(-1).tolist():
            one = i[k : k + 1]
            at = lambda u, i=one: float(f(np.array([u]), i)[0])  # noqa: E731
            root[k] = float(brentq(at, a[k], b[k], xtol=XTOL, rtol=RTOL))  # type: ignore[arg-type]
        return root
    tolerances = {"xatol": XTOL, "xrtol": RTOL, "fatol": 0.0, "frtol": 0.0}
    found = elementwise.find_root(f, (a, b), args=(i,), tolerances=tolerances)
    kept = torch.as_tensor(found.success, device=low.device)
    return torch.where(kept, torch.as_tensor(found.x, device=low.device), root)
