r"""Boundaries between two classes on the short arc between their prototypes, :math:`\theta` apart,
where :math:`D(u)=s_a(\cos u)-s_b(\cos(\theta-u))` vanishes (eq:short-arc-margin, sec:root-solving).
Scores that rise with their cosine make D fall: it has one root if D(0) and -D(theta) are not
negative, and none otherwise. Only an added negative slope can make D rise."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import torch
from torch import Tensor

from resultant._core import memory, validation
from resultant._core.arrays import normalized
from resultant._core.validation import Check
from resultant.classes.scores import ClassScores
from resultant.decisions.margins import require_pairs

LOCATIONS = 2001

# Absolute tolerance of a root in radians, and relative tolerance.
TOLERANCES = {"xatol": 1e-15, "xrtol": 4 * np.finfo(float).eps, "fatol": 0.0, "frtol": 0.0}

# The slope of a score counts as positive above this share of the sum of its terms.
RISING = 1e-9

# (angles u [K, P], indices of arcs [P]) -> margins [K, P]
Margin = Callable[[Tensor, Tensor], Tensor]


class Change(IntEnum):
    """Effect of an intervention on the boundary of a pair (sec:root-solving)."""

    DISPLACED = 0  # one root before and after
    CREATED = 1  # none before, one after
    VANISHED = 2  # one before, none after
    ABSENT = 3  # none before or after
    MULTIPLE = 4  # several before or after


@dataclass(frozen=True, eq=False)
class ArcRoots:
    """Roots on P short arcs."""

    theta: Tensor  # angles [P] of the arcs
    count: Tensor  # numbers of roots [P] int64
    root: Tensor  # angles [P] of the roots from the first class, NaN unless the root is unique

    @property
    def unique(self) -> Tensor:
        """Mask [P] of arcs with one root."""
        return self.count == 1

    @property
    def status(self) -> list[str]:
        """``none``, ``unique`` or ``multiple`` per arc."""
        return [("none", "unique", "multiple")[min(c, 2)] for c in self.count.tolist()]


@dataclass(frozen=True, eq=False)
class Displacement:
    """Changes of P boundaries."""

    shift: Tensor  # displacements [P] of the roots in radians, NaN unless displaced
    change: Tensor  # `Change` [P] as int64

    @property
    def displaced(self) -> Tensor:
        """Mask [P] of pairs with one root before and after."""
        return self.change == Change.DISPLACED

    def tally(self) -> dict[str, int]:
        """Count the pairs per change, by the name of the change in lower case."""
        return {c.name.lower(): int((self.change == c).sum()) for c in Change}


@torch.no_grad()
def short_arc_roots(
    scores: ClassScores,
    pairs: Tensor | None = None,
    *,
    exhaustive: bool = False,
    validate_args: Check = None,
) -> ArcRoots:
    r"""Find the boundaries :math:`s_a(\cos u)=s_b(\cos(\theta-u))` of pairs (eq:short-arc-margin).

    Zeros and sign changes at 2,001 uniform locations are counted, as in the paper, and a single
    root is refined to rounding; if both scores rise on the whole arc, its ends decide.

    Args:
        scores, pairs: Scores in float64, also linear ones; by default all pairs.
        exhaustive: Evaluate the 2,001 locations of every arc.

    Returns:
        Angles, numbers of roots and roots [P].

    Example:
        >>> short_arc_roots(realize(state, Rule(0.5))).root
        tensor([0.5786, 0.5018, 0.6708], dtype=torch.float64)
    """
    pairs = require_pairs(pairs, scores, validate_args)
    validation.require_values("classes", scores.mu)
    theta = arc_angles(scores, pairs)

    def margin(u: Tensor, which: Tensor) -> Tensor:
        a, b = pairs[which].T
        return scores.at(u.cos(), a) - scores.at((theta[which] - u).cos(), b)

    # The exact score is concave in rho, as R(x)/x falls with x: its slope is smallest at rho = 1.
    size = scores.gain().abs()
    size = size if scores.slope is None else size + scores.slope.abs()
    rising = scores.slope_at(torch.ones_like(scores.kappa)) > RISING * size
    falling = rising[pairs].all(-1) & (not exhaustive)
    return ArcRoots(theta, *solve(margin, theta, falling))


def displacement(before: ArcRoots, after: ArcRoots) -> Displacement:
    """Compare boundaries before and after an intervention (sec:root-solving).

    Args:
        before, after: Roots of the same P pairs.

    Returns:
        Shifts and changes [P].

    Example:
        >>> rules = Rule(0.5), Rule(0.5, "cosine")
        >>> displacement(*(short_arc_roots(realize(state, rule)) for rule in rules)).shift
        tensor([0.2068, 0.2836, 0.1145], dtype=torch.float64)
    """
    if before.count.shape != after.count.shape:
        got = f"{len(before.count)} and {len(after.count)}"
        raise ValueError(f"expected boundaries of the same pairs, got {got}")
    # By the numbers of roots before (rows) and after: none, one, several.
    none = [Change.ABSENT, Change.CREATED, Change.MULTIPLE]
    one = [Change.VANISHED, Change.DISPLACED, Change.MULTIPLE]
    table = before.count.new_tensor([none, one, [Change.MULTIPLE] * 3])
    change = table[before.count.clamp_max(2), after.count.clamp_max(2)]
    # NaN unless there is one root on either side.
    return Displacement(after.root - before.root, change)


def arc_angles(scores: ClassScores, pairs: Tensor) -> Tensor:
    """Compute the angles [P] of pairs of prototypes, accurate also near zero and pi."""
    if scores.mu.dtype != torch.float64:
        raise ValueError(f"expected scores in float64, got {scores.mu.dtype}")
    mu, norm = normalized(scores.mu), torch.linalg.vector_norm
    theta = mu.new_empty(len(pairs))
    for part in memory.row_slices(len(pairs), 8 * mu.shape[1], memory.MATRIX_BYTES):
        a, b = (mu[c] for c in pairs[part].T)
        theta[part] = 2 * torch.atan2(norm(a - b, dim=-1), norm(a + b, dim=-1))
    return theta


def solve(margin: Margin, theta: Tensor, falling: Tensor, width: int = 1) -> tuple[Tensor, Tensor]:
    """Count the roots of margins on arcs of angles ``theta`` [P]; refine unique ones, else NaN. Of
    ``falling`` [P] margins the ends suffice; ``width`` is the size of the work per margin."""
    count = torch.zeros_like(theta, dtype=torch.int64)
    root = torch.full_like(theta, math.nan)
    for kind, locations in ((falling, 2), (~falling, LOCATIONS)):
        open_arcs = (kind & (theta > 0)).nonzero().squeeze(-1)
        fractions = torch.linspace(0, 1, locations, dtype=theta.dtype, device=theta.device)
        height = memory.rows_per_chunk(8 * locations * width, memory.MATRIX_BYTES)
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
            root[which[within]] = refine(margin, which[within], u[:-1].T[inside], u[1:].T[inside])
    return count, root


def refine(margin: Margin, which: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Refine the roots of margins ``which`` [P] in brackets, all together (Chandrupatla)."""
    if not len(which):
        return low
    # Imported inside: the import takes half a second.
    from scipy.optimize import elementwise

    def f(u: np.ndarray, i: np.ndarray) -> np.ndarray:
        at = torch.as_tensor(u, device=low.device).unsqueeze(0)
        index = torch.as_tensor(i, device=low.device).long()
        return margin(at, index).squeeze(0).cpu().numpy()

    ends = torch.stack([low, high])
    # The rounding of scores depends on the batch, so that a margin of the size of rounding may
    # change its sign and lose the bracket: the root is then at the nearest end.
    nearest = margin(ends, which).abs().argmin(0, keepdim=True)
    a, b, i = (x.cpu().numpy() for x in (low, high, which))
    found = elementwise.find_root(f, (a, b), args=(i,), tolerances=TOLERANCES)
    kept, root = (torch.as_tensor(x, device=low.device) for x in (found.success, found.x))
    return torch.where(kept, root, ends.gather(0, nearest).squeeze(0))
