"""Boundaries between pairs of classes, and how equal gains move them (fig:main-boundaries)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from resultant.analysis.metrics import Result
from resultant.classes.rule import Rule
from resultant.classes.scores import realize
from resultant.decisions import boundaries, margins
from resultant.theory.softmax import joint_leading
from resultant_reproduction.frozen.space import FrozenSpace
from resultant_reproduction.theory.displacement import displacement_error


@dataclass(frozen=True, eq=False)
class PredictedDisplacement(Result):
    """Displacements by an approximate score; the errors are over the comparable pairs."""

    shift_degrees: Tensor  #: shifts [P], NaN unless displaced
    change: tuple[str, ...]  #: kind of change per pair
    tally: dict[str, int]  #: number of pairs per kind of change
    comparable: int  #: pairs that are displaced in both scores
    mean_absolute_degrees: float  #: mean absolute error
    largest_degrees: float  #: largest absolute error
    same_direction: float  #: fraction of pairs that move the same way; NaN for none


@dataclass(frozen=True, eq=False)
class BoundaryDisplacement(Result):
    r"""Boundaries on the short arc before (native) and after direct temperature equalization, also
    by the approximate scores ``linear_mean`` (:math:`g_c\rho_c`), ``linear_intercept`` (with
    :math:`q_c(0)`) and, for p >= 3, ``joint_leading`` (fig:main-boundaries)."""

    pairs: Tensor  #: pairs [P, 2]
    kind: tuple[str, ...]  #: types of the pairs, HH to TT
    closest: Tensor  #: True [P] for the closest pairs, False for random ones
    cosine: Tensor  #: cosines [P] of the prototypes
    theta_degrees: Tensor  #: lengths [P] of the arcs
    before_degrees: Tensor  #: native boundaries [P] from the first class, NaN unless unique
    after_degrees: Tensor  #: boundaries [P] after equalization, NaN unless unique
    shift_degrees: Tensor  #: shifts [P], NaN unless displaced
    change: tuple[str, ...]  #: displaced, created, vanished, absent or multiple
    tally: dict[str, int]  #: number of pairs per kind of change
    predicted: dict[str, PredictedDisplacement]  #: the same by approximate scores
    undefined: tuple[int, ...] = ()  #: classes without a temperature; nothing is displaced then


def choose_pairs(space: FrozenSpace, per_type: int = 5, seed: int = 0) -> margins.SelectedPairs:
    """Choose the pairs of sec:boundary-selection on the device of the space; all for C <= 20."""
    state = space.state.to(space.device)
    chosen = margins.select_pairs(state, space.groups, per_type, seed)
    return margins.SelectedPairs(*(a.cpu() for a in chosen))


@torch.no_grad()
def boundary_displacement(
    space: FrozenSpace, chosen: margins.SelectedPairs | None = None, *, beta: float = 0.0
) -> BoundaryDisplacement:
    """Move the boundaries of pairs by direct temperature, and predict the move by leading scores.

    Args:
        chosen: The pairs, by default those of `choose_pairs`.
        beta: Strength of the target gain.
    """
    chosen = choose_pairs(space) if chosen is None else chosen
    pairs, state, rules = chosen.pairs, space.state, [Rule(space.tau)]
    undefined = space.untempered(beta)
    if not undefined:
        rules.append(Rule(space.tau, "temperature", beta))
    scores = [realize(state, rule) for rule in rules]
    before, *others = (boundaries.short_arc_roots(score, pairs) for score in scores)
    after = shift = torch.full_like(before.root, torch.nan)
    change, tally, predicted = (), {}, {}
    if others:
        exact = boundaries.displacement(before, others[0])
        after, shift = others[0].root, exact.shift
        change, tally = _changes(exact), exact.tally()
        approximations = {
            "linear_mean": [score.linear(intercept=False) for score in scores],
            "linear_intercept": [score.linear() for score in scores],
        }
        if space.dim >= 3:
            approximations["joint_leading"] = [joint_leading(state, rule) for rule in rules]
        for name, both in approximations.items():
            roots = (boundaries.short_arc_roots(score, pairs) for score in both)
            moved = boundaries.displacement(*roots)
            error = displacement_error(exact, moved)
            predicted[name] = PredictedDisplacement(
                shift_degrees=moved.shift.rad2deg(),
                change=_changes(moved),
                tally=moved.tally(),
                comparable=error.comparable,
                mean_absolute_degrees=error.mean_absolute,
                largest_degrees=error.largest,
                same_direction=error.same_direction,
            )
    a, b = pairs.T
    return BoundaryDisplacement(
        pairs=pairs,
        kind=pair_types(chosen),
        closest=chosen.closest,
        cosine=(state.mu[a] * state.mu[b]).sum(1),
        theta_degrees=before.theta.rad2deg(),
        before_degrees=before.root.rad2deg(),
        after_degrees=after.rad2deg(),
        shift_degrees=shift.rad2deg(),
        change=change,
        tally=tally,
        predicted=predicted,
        undefined=undefined,
    )


def _changes(moved: boundaries.Displacement) -> tuple[str, ...]:
    return tuple(boundaries.Change(c).name.lower() for c in moved.change.tolist())


def pair_types(chosen: margins.SelectedPairs) -> tuple[str, ...]:
    """Return the types of pairs, HH to TT."""
    return tuple(margins.PAIR_TYPES[k] for k in chosen.kind.tolist())
