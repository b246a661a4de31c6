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
from itertools import combinations, combinations_with_replacement, product
from numbers import Real
from typing import NamedTuple

import torch
from torch import Tensor

from resultant import _checks as checks
from resultant import _roots
from resultant._features import normalized, shape_of
from resultant._roots import LOCATIONS as LOCATIONS
from resultant.classes import ClassState
from resultant.gain import Realization
from resultant.geometry import all_pairs, require_pairs
from resultant.shots import HEAD, MEDIUM, TAIL

# The slope of a score counts as positive from this share of the terms it is the sum of.
RISING = 1e-9

# Prototypes this close to opposite have no short arc to speak of.
OPPOSITE = 1e-6

PAIR_TYPES = ("HH", "HM", "HT", "MM", "MT", "TT")

# Up to this many classes all pairs are taken.
FEW_CLASSES = 20

Pair = tuple[int, int]


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


class SelectedPairs(NamedTuple):
    """Pairs [P, 2], the type of each as an index [P] of PAIR_TYPES, and whether it is one of the
    closest [P] bool."""

    pairs: Tensor
    kind: Tensor
    closest: Tensor


@torch.no_grad()
def short_arc_roots(
    rule: Realization,
    pairs: Tensor | None = None,
    *,
    exhaustive: bool = False,
    validate_args: bool | None = None,
) -> ArcRoots:
    r"""The roots of :math:`s_a(\cos u)=s_b(\cos(\theta-u))` on the short arcs of ``pairs`` [P, 2],
    or of all pairs, for any rule: exact, ``rule.linear()`` or `joint_leading`.

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


@torch.no_grad()
def select_pairs(
    state: ClassState, groups: Tensor, per_type: int = 5, seed: int = 0
) -> SelectedPairs:
    """The pairs of sec:boundary-selection: in each of the six types of `shot_groups` pairs the
    ``per_type`` closest in prototype cosine, and as many other random ones.

    All of a type where it has fewer, and all pairs where C <= 20. A pair names the more frequent
    group first. Draws depend on ``seed``, the groups and the closest pairs alone.
    """
    C = state.num_classes
    if not isinstance(groups, Tensor) or groups.shape != (C,):
        raise ValueError(f"expected groups [{C}], one a class, got {shape_of(groups)}")
    if isinstance(per_type, bool) or not isinstance(per_type, int) or per_type < 1:
        raise ValueError(f"expected per_type to be an integer >= 1, got {per_type!r}")
    groups = groups.cpu()
    checks.within("groups", groups.double(), HEAD, TAIL, rule="in {0, 1, 2}")
    mu = normalized(state.mu)
    members = [(groups == g).nonzero().squeeze(-1) for g in (HEAD, MEDIUM, TAIL)]
    generator = torch.Generator().manual_seed(seed)
    chosen, kinds, closest = [], [], []
    for kind, (x, y) in enumerate(combinations_with_replacement((HEAD, MEDIUM, TAIL), 2)):
        first, second = members[x], members[y]
        near = _closest(mu, first, second, x == y, per_type)
        rest = _others(first, second, x == y, near, per_type, C <= FEW_CLASSES, generator)
        chosen += near + rest
        kinds += [kind] * (len(near) + len(rest))
        closest += [True] * len(near) + [False] * len(rest)
    device = state.mu.device
    return SelectedPairs(
        torch.tensor(chosen, dtype=torch.int64, device=device).reshape(-1, 2),
        torch.tensor(kinds, dtype=torch.int64, device=device),
        torch.tensor(closest, dtype=torch.bool, device=device),
    )


def _require(rule: Realization, pairs: Tensor, validate: bool | None) -> None:
    if rule.mu.dtype != torch.float64:
        raise ValueError(f"expected a rule in float64, got {rule.mu.dtype}")
    require_pairs(pairs, rule, validate)


def _closest(mu: Tensor, first: Tensor, second: Tensor, same: bool, number: int) -> list[Pair]:
    """The pairs of the largest cosine between two groups, or within one, in falling order."""
    found: list[tuple[float, int, int]] = []
    height = max(1, _roots.CHUNK_BYTES // (8 * max(1, len(second))))
    for top in range(0, len(first), height):
        rows = first[top : top + height]
        rho = mu[rows.to(mu.device)] @ mu[second.to(mu.device)].T
        if same:
            rho.masked_fill_((rows.unsqueeze(1) >= second).to(mu.device), -math.inf)
        values, places = rho.flatten().topk(min(number, rho.numel()))
        for value, place in zip(values.tolist(), places.tolist(), strict=True):
            if value > -math.inf:
                i, j = divmod(place, len(second))
                found.append((-value, int(rows[i]), int(second[j])))
    return [(a, b) for _, a, b in sorted(found)[:number]]


def _others(
    first: Tensor,
    second: Tensor,
    same: bool,
    near: list[Pair],
    number: int,
    every: bool,
    generator: torch.Generator,
) -> list[Pair]:
    """Random pairs beside the near ones, or every other pair where asked for or too few."""
    m, n = len(first), len(second)
    total = m * (m - 1) // 2 if same else m * n
    taken = set(near)
    if every or total <= len(near) + number:
        whole = (
            combinations(first.tolist(), 2) if same else product(first.tolist(), second.tolist())
        )
        return [pair for pair in whole if pair not in taken]
    drawn: list[Pair] = []
    while len(drawn) < number:
        i, j = (int(torch.randint(size, (1,), generator=generator)) for size in (m, n))
        if same:
            i, j = min(i, j), max(i, j)
        pair = int(first[i]), int(second[j])
        if pair[0] != pair[1] and pair not in taken:
            taken.add(pair)
            drawn.append(pair)
    return drawn


def _angles(mu: Tensor, pairs: Tensor) -> Tensor:
    """The angles [P] between float64 unit vectors, right to rounding also near zero and pi."""
    theta = mu.new_empty(len(pairs))
    for part in torch.arange(len(pairs), device=mu.device).split(_roots.height(mu.shape[1])):
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
