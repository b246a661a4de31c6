r"""Where two classes meet: boundaries on the short arc between their prototypes.

On the great circle from :math:`\mu_a` to :math:`\mu_b`, an angle :math:`\theta` apart, the cosines
at :math:`u\in[0,\theta]` are :math:`\cos u` and :math:`\cos(\theta-u)`, and the boundary is where
:math:`D(u)=s_a(\cos u)-s_b(\cos(\theta-u))` vanishes (eq:short-arc-margin, sec:root-solving).

A score that rises with its cosine makes D fall along the whole arc. Then there is one root if the
class-centre margins D(0) and -D(theta) are not negative, and none otherwise: the native,
temperature and preserved scores and the cosine rule never have more. Only an added negative slope
can bend D back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from numbers import Real
from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core import chunks
from resultant._core.arrays import normalized
from resultant.classes.realization import Realization
from resultant.decisions import _roots
from resultant.decisions._roots import LOCATIONS as LOCATIONS
from resultant.decisions.margins import all_pairs, require_pairs

# The slope of a score counts as positive from this share of the terms it is the sum of.
RISING = 1e-9

# Prototypes this close to opposite have no short arc to speak of.
OPPOSITE = 1e-6


class Change(IntEnum):
    """What an intervention does to the boundary of a pair (sec:root-solving)."""

    DISPLACED = 0  # one root before and after
    CREATED = 1  # none before, one after
    VANISHED = 2  # one before, none after
    ABSENT = 3  # none before or after
    MULTIPLE = 4  # several before or after


@dataclass(frozen=True, eq=False)
class ArcRoots:
    """Roots on P short arcs: the angles ``theta`` [P] of the arcs, how many roots each has,
    ``count`` [P] int64, and where, as angles ``root`` [P] from the first class, NaN unless it is
    the only one."""

    theta: Tensor
    count: Tensor
    root: Tensor

    @property
    def unique(self) -> Tensor:
        """Which arcs have one root, [P] bool."""
        return self.count == 1

    @property
    def status(self) -> list[str]:
        """``none``, ``unique`` or ``multiple`` for each arc."""
        names = ("none", "unique", "multiple")
        return [names[min(c, 2)] for c in self.count.tolist()]


@dataclass(frozen=True, eq=False)
class Displacement:
    """The way ``shift`` [P] of each root in radians, NaN unless displaced, and the `Change` [P]
    as int64."""

    shift: Tensor
    change: Tensor

    @property
    def displaced(self) -> Tensor:
        """Which pairs have one root before and after, [P] bool."""
        return self.change == Change.DISPLACED

    def tally(self) -> dict[str, int]:
        """How many pairs underwent each change, by its name in lower case."""
        return {c.name.lower(): int((self.change == c).sum()) for c in Change}


class DisplacementError(NamedTuple):
    """Predicted against exact displacements, in degrees, over the pairs displaced in both.

    NaN where there are none.
    """

    mean_absolute: float
    largest: float
    same_direction: float  # share of the pairs whose two displacements have one sign
    comparable: int
    total: int


@torch.no_grad()
def short_arc_roots(
    rule: Realization,
    pairs: Tensor | None = None,
    *,
    exhaustive: bool = False,
    validate_args: bool | None = None,
) -> ArcRoots:
    r"""The roots of :math:`s_a(\cos u)=s_b(\cos(\theta-u))` on the short arcs of ``pairs`` [P, 2],
    or of all pairs (eq:short-arc-margin), for any rule: exact, ``rule.linear()`` or
    `joint_leading`.

    Sign changes between 2,001 uniform locations and zeros at one of them are counted, each once;
    a single one is refined to rounding. Where both scores rise all along, at most one root exists
    and the ends of the arc tell, so the locations are left out there. Prototypes that coincide
    have no arc, and no root.

    ``exhaustive`` is the protocol of the paper to the letter, for some thousands of pairs: every
    arc has its 2,001 locations, and Brent's method (`scipy.optimize.brentq`) refines root by root.
    Otherwise all roots are refined at once by a method like it (`scipy.optimize.elementwise`).
    """
    if pairs is None:
        pairs = all_pairs(len(rule.mu), rule.mu.device)
    _require(rule, pairs, validate_args)
    theta = _angles(normalized(rule.mu), pairs)

    def margin(u: Tensor, which: Tensor) -> Tensor:
        a, b = pairs[which].T
        return rule.at(u.cos(), a) - rule.at((theta[which] - u).cos(), b)

    if exhaustive:
        falling, find = torch.zeros_like(theta, dtype=torch.bool), _roots.brent
    else:
        falling, find = _rising(rule)[pairs].all(-1), _roots.elementwise
    return ArcRoots(theta, *_roots.solve(margin, theta, falling, find))


@torch.no_grad()
def posterior_thresholds(
    rule: Realization,
    pairs: Tensor,
    level: float = 0.5,
    *,
    validate_args: bool | None = None,
) -> ArcRoots:
    r"""Where :math:`P_a` passes ``level`` on the short arc from a to b, given all classes:
    :math:`s_a-\log\sum_{j\ne a}e^{s_j}=\log(level/(1-level))`.

    Unlike the equality of a pair it depends on the competitors (sec:softmax-geometry, "Pairwise
    Boundaries and Class Count"). Prototypes opposite to one another leave the arc undetermined and
    are refused.
    """
    _require(rule, pairs, validate_args)
    if isinstance(level, bool) or not isinstance(level, Real) or not 0 < level < 1:
        raise ValueError(f"expected level in (0, 1), got {level!r}")
    mu = normalized(rule.mu)
    theta = _angles(mu, pairs)
    opposite = theta > math.pi - OPPOSITE
    if opposite.any():
        i = int(opposite.nonzero()[0])
        what = f"an angle below pi - {OPPOSITE:g}"
        raise ValueError(f"expected pairs at {what}, got {float(theta[i]):.9g} at index {i}")
    bar = math.log(level) - math.log1p(-level)

    def margin(u: Tensor, which: Tensor) -> Tensor:
        a, b = pairs[which].T
        angle = theta[which]
        weights = torch.stack([(angle - u).sin(), u.sin()]) / angle.sin()
        # [K, P, C]: the cosines of every class with the location, a and b exactly.
        rho = weights[0, ..., None] * (mu[a] @ mu.T) + weights[1, ..., None] * (mu[b] @ mu.T)
        own, other = (i.expand(u.shape).unsqueeze(-1) for i in (a, b))
        rho.scatter_(-1, other, (angle - u).cos().unsqueeze(-1))
        rho.scatter_(-1, own, u.cos().unsqueeze(-1))
        scores = rule.at(rho)
        mine = scores.gather(-1, own).squeeze(-1)
        return mine - scores.scatter_(-1, own, -math.inf).logsumexp(-1) - bar

    falling = torch.zeros_like(theta, dtype=torch.bool)
    return ArcRoots(
        theta, *_roots.solve(margin, theta, falling, _roots.elementwise, width=len(rule.mu))
    )


def displacement(before: ArcRoots, after: ArcRoots) -> Displacement:
    """What happens to each boundary from one rule to another (sec:root-solving)."""
    if before.count.shape != after.count.shape:
        got = f"{len(before.count)} and {len(after.count)}"
        raise ValueError(f"expected roots of the same pairs before and after, got {got} of them")
    change = torch.full_like(before.count, Change.MULTIPLE)
    for kind, m, n in (
        (Change.DISPLACED, 1, 1),
        (Change.CREATED, 0, 1),
        (Change.VANISHED, 1, 0),
        (Change.ABSENT, 0, 0),
    ):
        change[(before.count == m) & (after.count == n)] = kind
    # NaN unless there is one root on either side.
    return Displacement(after.root - before.root, change)


def displacement_error(exact: Displacement, predicted: Displacement) -> DisplacementError:
    """How far predicted displacements are from exact ones (fig:main-boundaries)."""
    if exact.change.shape != predicted.change.shape:
        got = f"{len(exact.change)} and {len(predicted.change)}"
        raise ValueError(f"expected displacements of the same pairs, got {got} of them")
    both = exact.displaced & predicted.displaced
    true, guess = exact.shift[both].rad2deg(), predicted.shift[both].rad2deg()
    error = (guess - true).abs()
    number = len(error)
    if not number:
        return DisplacementError(math.nan, math.nan, math.nan, 0, len(both))
    same = float((true.sign() == guess.sign()).double().mean())
    return DisplacementError(float(error.mean()), float(error.max()), same, number, len(both))


def _require(rule: Realization, pairs: Tensor, validate: bool | None) -> None:
    if rule.mu.dtype != torch.float64:
        raise ValueError(f"expected a rule in float64, got {rule.mu.dtype}")
    require_pairs(pairs, rule, validate)


def _angles(mu: Tensor, pairs: Tensor) -> Tensor:
    """The angles [P] between float64 unit vectors, right to rounding also near zero and pi."""
    theta = mu.new_empty(len(pairs))
    height = chunks.rows_per_chunk(8 * mu.shape[1], chunks.MATRIX_BYTES)
    for part in torch.arange(len(pairs), device=mu.device).split(height):
        a, b = mu[pairs[part, 0]], mu[pairs[part, 1]]
        norm = torch.linalg.vector_norm
        theta[part] = 2 * torch.atan2(norm(a - b, dim=-1), norm(a + b, dim=-1))
    return theta


def _rising(rule: Realization) -> Tensor:
    """Which scores rise with their cosine on all of [-1, 1], [C] bool.

    The exact score is concave in rho, as R(x)/x falls with x, so its slope is least at rho = 1.
    """
    terms = rule.gain().abs() + (0.0 if rule.slope is None else rule.slope.abs())
    return rule.slope_at(torch.ones_like(rule.kappa)) > RISING * terms
