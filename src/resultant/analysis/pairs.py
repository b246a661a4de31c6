r"""Boundaries and margins of pairs of classes, chosen from training geometry on the device, and all
else on the CPU: there are some dozens of pairs with few queries (sec:boundary-selection)."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from resultant.analysis.metrics import Result, rank_correlation
from resultant.analysis.space import FrozenSpace
from resultant.classes.realization import realize
from resultant.classes.rule import TEMPERED, Rule
from resultant.decisions import boundaries, margins
from resultant.decisions.certificates import margin_change
from resultant.theory.binary_model import BinaryModel
from resultant.theory.softmax import joint_leading
from resultant.vmf.tails import log_projection_tail

# About the number of margin changes that are kept for figures.
DRAWN = 2000


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


@dataclass(frozen=True, eq=False)
class MarginDirections(Result):
    r"""Signs of exact margin changes against their prediction :math:`\Delta m_{lin}`, over the
    queries of both classes of every pair; certified if :math:`|\Delta m_{lin}|>|r|`
    (sec:margin-change-protocol). Fractions are None without queries."""

    pairs: Tensor
    incidences: int  #: number of pairs and queries
    agreement: float | None  #: fraction of incidences with the predicted sign
    coverage: float | None  #: fraction of certified incidences
    certified_wrong: int  #: certified incidences with another sign; zero if the theory holds
    by_kind: dict[str, dict[str, float | None]]  #: the same per type of pair
    linear: Tensor  #: a sample [S] of predicted changes, for figures
    exact: Tensor  #: the exact changes [S] of the sample
    undefined: tuple[int, ...] = ()  #: classes without a temperature


@dataclass(frozen=True, eq=False)
class TypicalMargins(Result):
    r"""Margins of pairs against their errors under the native score, [P, 2] for the first class
    against the second and back, and their rank correlations (sec:conditional-margin)."""

    pairs: Tensor
    kind: tuple[str, ...]
    centre: Tensor  #: margins at the prototypes
    typical: Tensor  #: typical margins :math:`R_h, R_t`
    observed: Tensor  #: errors on held-out queries, NaN without queries
    queries: Tensor  #: number of these queries
    gaussian: Tensor  #: Gaussian errors of the matched binary model, NaN for a degenerate model
    model: Tensor  #: exact errors of the matched binary model at this dimension
    centre_correlation: float | None
    typical_correlation: float | None
    model_correlation: float | None


class DisplacementError(NamedTuple):
    """Errors of predicted displacements in degrees, over pairs displaced in both; NaN without."""

    mean_absolute: float
    largest: float
    same_direction: float  # share of pairs whose displacements have the same sign
    comparable: int
    total: int


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

    Example:
        >>> boundary_displacement(space).tally["displaced"]
        6
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
            numbers = error.comparable, error.mean_absolute, error.largest, error.same_direction
            about = moved.shift.rad2deg(), _changes(moved), moved.tally()
            predicted[name] = PredictedDisplacement(*about, *numbers)
    a, b = pairs.T
    return BoundaryDisplacement(
        pairs=pairs,
        kind=_kinds(chosen),
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


def displacement_error(
    exact: boundaries.Displacement, predicted: boundaries.Displacement
) -> DisplacementError:
    """Measure the error of predicted displacements (fig:main-boundaries)."""
    both = exact.displaced & predicted.displaced
    expected, guess = exact.shift[both].rad2deg(), predicted.shift[both].rad2deg()
    error, same = (guess - expected).abs(), (expected.sign() == guess.sign()).double()
    largest = float(error.max()) if len(error) else torch.nan
    means = float(error.mean()), largest, float(same.mean())
    return DisplacementError(*means, len(error), len(both))


def _changes(moved: boundaries.Displacement) -> tuple[str, ...]:
    return tuple(boundaries.Change(c).name.lower() for c in moved.change.tolist())


def _kinds(chosen: margins.SelectedPairs) -> tuple[str, ...]:
    return tuple(margins.PAIR_TYPES[k] for k in chosen.kind.tolist())


@torch.no_grad()
def margin_directions(
    space: FrozenSpace,
    chosen: margins.SelectedPairs | None = None,
    *,
    realization: str = "temperature",
    beta: float = 0.0,
    intercept: bool = False,
) -> MarginDirections:
    """Predict the signs of margin changes from native to a realization.

    Args:
        chosen: The pairs, by default those of `choose_pairs`.
        realization: The realization after the change.
        beta: Strength of the target gain.
        intercept: Predict by gains and intercepts, as the text of the paper defines the linear
            mean; otherwise by gains alone, as its printed numbers.

    Example:
        >>> margin_directions(space).certified_wrong
        0
    """
    chosen = choose_pairs(space) if chosen is None else chosen
    undefined = space.untempered(beta) if realization in TEMPERED else ()
    # Rows: incidences, correct, certified, and certified but wrong.
    tally = torch.zeros(4, len(margins.PAIR_TYPES), dtype=torch.int64)
    drawn = [torch.empty(2, 0, dtype=torch.float64)]
    rule = Rule(space.tau, realization, beta)
    asked = torch.isin(space.test_labels, chosen.pairs)
    rows = asked.nonzero().squeeze(1)[: 0 if undefined else None]
    for _, z, y in space.queries(rows, exact=True):
        change = margin_change(
            z, y, space.state, rule, chosen.pairs, intercept=intercept, validate_args=False
        )
        kind = chosen.kind[change.pair]
        certified, correct = change.certified, change.correct
        for row, members in enumerate(
            (torch.ones_like(correct), correct, certified, certified & ~correct)
        ):
            tally[row] += torch.bincount(kind[members], minlength=len(margins.PAIR_TYPES))
        share = DRAWN * len(y) // len(rows) + 1
        some = torch.linspace(0, len(kind) - 1, min(share, len(kind))).round().long()
        drawn.append(torch.stack([change.linear[some], change.exact[some]]))
    whole, wrong = _shares(tally.sum(1)), int(tally[3].sum())
    by_kind = {name: _shares(tally[:, k]) for k, name in enumerate(margins.PAIR_TYPES)}
    numbers = int(tally[0].sum()), whole["agreement"], whole["coverage"], wrong
    linear, exact = torch.cat(drawn, 1)
    return MarginDirections(chosen.pairs, *numbers, by_kind, linear, exact, undefined)


def _shares(tally: Tensor) -> dict[str, float | None]:
    number, correct, certified, _ = tally.tolist()
    agreement, coverage = (a / number if number else None for a in (correct, certified))
    return {"incidences": number, "agreement": agreement, "coverage": coverage}


@torch.no_grad()
def typical_margins(
    space: FrozenSpace, chosen: margins.SelectedPairs | None = None
) -> TypicalMargins:
    """Compare margins of pairs with the errors between both classes, by the native score.

    Args:
        chosen: The pairs, by default those of `choose_pairs`.

    Example:
        >>> typical_margins(space).observed.shape
        torch.Size([6, 2])
    """
    chosen = choose_pairs(space) if chosen is None else chosen
    pairs, native = chosen.pairs, realize(space.state, Rule(space.tau))
    wrong, number = (torch.zeros(len(pairs), 2, dtype=torch.float64) for _ in range(2))
    rows = torch.isin(space.test_labels, pairs).nonzero().squeeze(1)
    for _, z, y in space.queries(rows, exact=True):
        found = margins.pairwise_margins(z, native, pairs, validate_args=False)
        for side, errors in enumerate((found < 0, found >= 0)):
            own = y.unsqueeze(1) == pairs[:, side]
            wrong[:, side] += (own & errors).sum(0)
            number[:, side] += own.sum(0)
    observed, centre = wrong / number, torch.stack(margins.centre_margins(native, pairs), 1)
    typical, gaussian, model = _binary(space, pairs)
    found = centre, typical, observed, number.long(), gaussian, model
    correlations = (rank_correlation(a, observed) for a in (centre, typical, model))
    return TypicalMargins(pairs, _kinds(chosen), *found, *correlations)


def _binary(space: FrozenSpace, pairs: Tensor) -> Tensor:
    """Return typical margins, Gaussian and exact errors [3, P, 2] of the matched binary models."""
    numbers = torch.full((3, len(pairs), 2), torch.nan, dtype=torch.float64)
    p, mu, kappa = space.dim, space.state.mu, space.state.kappa
    regular, laws = [], []
    for i, (a, b) in enumerate(pairs.tolist()):
        cosine = float((mu[a] @ mu[b]).clamp(-1, 1))
        if p >= 3 and kappa[a] > 0 and kappa[b] > 0 and cosine != 1:
            nu = p / 2 - 1
            binary = BinaryModel(float(kappa[a]) / nu, float(kappa[b]) / nu, cosine, space.tau)
            numbers[:2, i] = torch.tensor([binary.typical_margins, binary.gaussian_errors(p)])
            regular.append(i)
            laws.append((binary.xi_0, *binary.beta))
    if regular:
        # `BinaryModel.errors` of all pairs at once.
        xi, *angles = torch.tensor(laws, dtype=torch.float64).T
        for side, beta in enumerate(angles):
            own = kappa[pairs[regular, side]]
            tail = log_projection_tail(xi, beta, own, p, upper=side == 1)
            numbers[2, regular, side] = tail.exp()
    return numbers
