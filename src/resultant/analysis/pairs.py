r"""Boundaries and margins of pairs of classes, chosen from training geometry
(sec:boundary-selection, sec:root-solving, sec:margin-change-protocol, sec:conditional-margin).

There are some dozens of pairs with few queries: only the choice of pairs uses the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from resultant.analysis.metrics import rank_correlation
from resultant.analysis.plain import Result
from resultant.analysis.space import CPU, FrozenSpace
from resultant.classes.realization import Realization, realize
from resultant.classes.rule import TEMPERED, Rule
from resultant.decisions.boundaries import (
    Change,
    Displacement,
    displacement,
    displacement_error,
    short_arc_roots,
)
from resultant.decisions.changes import margin_change
from resultant.decisions.margins import centre_margins, pairwise_margins
from resultant.decisions.pairs import PAIR_TYPES, SelectedPairs, select_pairs
from resultant.theory.binary_model import BinaryModel, projection_variance
from resultant.theory.softmax import joint_leading
from resultant.vmf.tails import log_projection_tail, tail_dimension

# About the number of margin changes that are kept for figures.
DRAWN = 2000


@dataclass(frozen=True, eq=False)
class PredictedDisplacement(Result):
    """Displacements by an approximate score.

    Attributes:
        shift_degrees: Shifts [P], NaN unless displaced.
        change: The kind of change per pair, counted in ``tally``.
        comparable: Pairs that are displaced in both scores; the errors are over these pairs.
        same_direction: Fraction of comparable pairs that move the same way; NaN for none.
    """

    shift_degrees: Tensor
    change: tuple[str, ...]
    tally: dict[str, int]
    comparable: int
    mean_absolute_degrees: float
    largest_degrees: float
    same_direction: float


@dataclass(frozen=True, eq=False)
class BoundaryDisplacement(Result):
    r"""Boundaries on the short arc before (native) and after direct temperature equalization
    (fig:main-boundaries).

    Attributes:
        pairs: Pairs [P, 2].
        kind: Types of the pairs, HH to TT.
        closest: True [P] for the closest pairs, False for random ones.
        cosine: Cosines [P] of the prototypes.
        theta_degrees: Lengths [P] of the arcs.
        before_degrees: Native boundaries [P] from the first class, NaN unless unique.
        after_degrees: Boundaries [P] after equalization, NaN unless unique.
        shift_degrees: Shifts [P], NaN unless displaced.
        change: displaced, created, vanished, absent or multiple; ``tally`` counts them.
        predicted: The same by ``linear_mean`` (:math:`g_c\rho_c`), ``linear_intercept`` (with the
            intercept :math:`q_c(0)`) and, for p >= 3, ``joint_leading``.
        undefined: Classes without a temperature; there is no displacement then.
    """

    pairs: Tensor
    kind: tuple[str, ...]
    closest: Tensor
    cosine: Tensor
    theta_degrees: Tensor
    before_degrees: Tensor
    after_degrees: Tensor
    shift_degrees: Tensor
    change: tuple[str, ...]
    tally: dict[str, int]
    predicted: dict[str, PredictedDisplacement]
    undefined: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class MarginDirections(Result):
    r"""Signs of exact margin changes against their prediction :math:`\Delta m_{lin}`, over the
    queries of both classes of every pair (sec:margin-change-protocol).

    Attributes:
        incidences: Number of pairs and queries.
        agreement: Fraction of incidences with the predicted sign; None without queries.
        coverage: Fraction with the certificate :math:`|\Delta m_{lin}|>|r|`; None without queries.
        certified_wrong: Certified incidences with another sign; zero if the theory holds.
        by_kind: The same per type of pair.
        linear: A sample [S] of predicted changes, for figures.
        exact: The exact changes [S] of the sample.
    """

    pairs: Tensor
    incidences: int
    agreement: float | None
    coverage: float | None
    certified_wrong: int
    by_kind: dict[str, dict[str, float | None]]
    linear: Tensor
    exact: Tensor
    undefined: tuple[int, ...] = ()


def choose_pairs(space: FrozenSpace, per_type: int = 5, seed: int = 0) -> SelectedPairs:
    """Choose the pairs of sec:boundary-selection; all pairs for C <= 20.

    The closest pairs are found among all pairs of classes, on the device of the space.
    """
    state = space.state.to(space.device)
    return SelectedPairs(*(a.cpu() for a in select_pairs(state, space.groups, per_type, seed)))


@torch.no_grad()
def boundary_displacement(
    space: FrozenSpace, chosen: SelectedPairs | None = None, *, beta: float = 0.0
) -> BoundaryDisplacement:
    """Move the boundaries of pairs by direct temperature, and predict the move by leading scores.

    Args:
        chosen: The pairs, by default those of `choose_pairs`.
        beta: Strength of the target gain.

    Example:
        >>> import torch
        >>> from resultant.analysis import FrozenSpace, boundary_displacement
        >>> z, y = torch.eye(4).repeat(9, 1) + 0.1 * torch.rand(36, 4), torch.arange(4).repeat(9)
        >>> boundary_displacement(FrozenSpace.fit(z, y, z, y)).tally["displaced"]
        6
    """
    chosen = choose_pairs(space) if chosen is None else chosen
    pairs, state, tau = chosen.pairs, space.state, space.tau
    native = realize(state, Rule(tau))
    before = short_arc_roots(native, pairs)
    undefined = space.untempered(beta)
    after = before
    if not undefined:
        after = short_arc_roots(realize(state, Rule(tau, "temperature", beta)), pairs)
    exact = displacement(before, after)
    unknown = torch.full_like(before.root, torch.nan)
    a, b = pairs.T
    return BoundaryDisplacement(
        pairs=pairs,
        kind=kinds(chosen),
        closest=chosen.closest,
        cosine=(state.mu[a] * state.mu[b]).sum(1),
        theta_degrees=before.theta.rad2deg(),
        before_degrees=before.root.rad2deg(),
        after_degrees=unknown if undefined else after.root.rad2deg(),
        shift_degrees=unknown if undefined else exact.shift.rad2deg(),
        change=() if undefined else _changes(exact),
        tally={} if undefined else exact.tally(),
        predicted={} if undefined else _predictions(space, beta, pairs, exact),
        undefined=undefined,
    )


def _predictions(
    space: FrozenSpace, beta: float, pairs: Tensor, exact: Displacement
) -> dict[str, PredictedDisplacement]:
    state, tau = space.state, space.tau
    rules = [Rule(tau, "native", 1.0), Rule(tau, "temperature", beta)]
    exact_scores = [realize(state, rule) for rule in rules]
    approximations = {
        "linear_mean": [r.linear(intercept=False) for r in exact_scores],
        "linear_intercept": [r.linear() for r in exact_scores],
    }
    if space.dim >= 3:
        approximations["joint_leading"] = [joint_leading(state, rule) for rule in rules]
    return {
        name: _predicted(before, after, pairs, exact)
        for name, (before, after) in approximations.items()
    }


def _predicted(
    before: Realization, after: Realization, pairs: Tensor, exact: Displacement
) -> PredictedDisplacement:
    moved = displacement(short_arc_roots(before, pairs), short_arc_roots(after, pairs))
    error = displacement_error(exact, moved)
    return PredictedDisplacement(
        shift_degrees=moved.shift.rad2deg(),
        change=_changes(moved),
        tally=moved.tally(),
        comparable=error.comparable,
        mean_absolute_degrees=error.mean_absolute,
        largest_degrees=error.largest,
        same_direction=error.same_direction,
    )


def member_queries(space: FrozenSpace, pairs: Tensor) -> Tensor:
    """The held-out queries of the classes of pairs."""
    return torch.isin(space.test_labels, pairs).nonzero().squeeze(1)


def _changes(moved: Displacement) -> tuple[str, ...]:
    return tuple(Change(c).name.lower() for c in moved.change.tolist())


def kinds(chosen: SelectedPairs) -> tuple[str, ...]:
    return tuple(PAIR_TYPES[k] for k in chosen.kind.tolist())


@torch.no_grad()
def margin_directions(
    space: FrozenSpace,
    chosen: SelectedPairs | None = None,
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
        >>> import torch
        >>> from resultant.analysis import FrozenSpace, margin_directions
        >>> z, y = torch.eye(4).repeat(9, 1) + 0.1 * torch.rand(36, 4), torch.arange(4).repeat(9)
        >>> margin_directions(FrozenSpace.fit(z, y, z, y)).certified_wrong
        0
    """
    chosen = choose_pairs(space) if chosen is None else chosen
    undefined = space.untempered(beta) if realization in TEMPERED else ()
    # Rows: incidences, correct, certified, and certified but wrong.
    tally = torch.zeros(4, len(PAIR_TYPES), dtype=torch.int64)
    drawn: list[Tensor] = []
    rule = Rule(space.tau, realization, beta)
    rows = torch.empty(0, dtype=torch.int64) if undefined else member_queries(space, chosen.pairs)
    for _, z, y in space.queries(rows, dtype=torch.float64, device=CPU):
        change = margin_change(
            z, y, space.state, rule, chosen.pairs, intercept=intercept, validate_args=False
        )
        kind = chosen.kind[change.pair]
        certified, correct = change.certified, change.correct
        for row, members in enumerate(
            (torch.ones_like(correct), correct, certified, certified & ~correct)
        ):
            tally[row] += torch.bincount(kind[members], minlength=len(PAIR_TYPES))
        share = DRAWN * len(y) // len(rows) + 1
        some = torch.linspace(0, len(kind) - 1, min(share, len(kind))).round().long()
        drawn.append(torch.stack([change.linear[some], change.exact[some]]))
    linear, exact = torch.cat([torch.empty(2, 0, dtype=torch.float64), *drawn], 1)
    by_kind = {name: _shares(*tally[:3, k].tolist()) for k, name in enumerate(PAIR_TYPES)}
    incidences, correct, certified, wrong = tally.sum(1).tolist()
    whole = _shares(incidences, correct, certified)
    return MarginDirections(
        pairs=chosen.pairs,
        incidences=incidences,
        agreement=whole["agreement"],
        coverage=whole["coverage"],
        certified_wrong=wrong,
        by_kind=by_kind,
        linear=linear,
        exact=exact,
        undefined=undefined,
    )


def _shares(incidences: int, correct: int, certified: int) -> dict[str, float | None]:
    return {
        "incidences": incidences,
        "agreement": correct / incidences if incidences else None,
        "coverage": certified / incidences if incidences else None,
    }


@dataclass(frozen=True, eq=False)
class TypicalMargins(Result):
    r"""Margins of pairs against their errors under the native score (sec:conditional-margin).

    Arrays are [P, 2], for the first class against the second and back. Correlations are Spearman's
    rank correlations with the observed error.

    Attributes:
        centre: Margins at the prototypes.
        typical: Typical margins :math:`R_h, R_t`.
        observed: Errors on held-out queries, NaN without queries.
        queries: Number of these queries.
        gaussian: Gaussian errors of the matched binary model, NaN for a degenerate model.
        model: Exact errors of the matched binary model at this dimension.
    """

    pairs: Tensor
    kind: tuple[str, ...]
    centre: Tensor
    typical: Tensor
    observed: Tensor
    queries: Tensor
    gaussian: Tensor
    model: Tensor
    centre_correlation: float | None
    typical_correlation: float | None
    model_correlation: float | None


@torch.no_grad()
def typical_margins(space: FrozenSpace, chosen: SelectedPairs | None = None) -> TypicalMargins:
    """Compare margins of pairs with the errors between both classes, by the native score.

    Args:
        chosen: The pairs, by default those of `choose_pairs`.

    Example:
        >>> import torch
        >>> from resultant.analysis import FrozenSpace, typical_margins
        >>> z, y = torch.eye(4).repeat(9, 1) + 0.1 * torch.rand(36, 4), torch.arange(4).repeat(9)
        >>> typical_margins(FrozenSpace.fit(z, y, z, y)).observed.shape
        torch.Size([6, 2])
    """
    chosen = choose_pairs(space) if chosen is None else chosen
    pairs, native = chosen.pairs, realize(space.state, Rule(space.tau))
    wrong, number = (torch.zeros(len(pairs), 2, dtype=torch.float64) for _ in range(2))
    rows = member_queries(space, pairs)
    for _, z, y in space.queries(rows, dtype=torch.float64, device=CPU):
        margins = pairwise_margins(z, native, pairs, validate_args=False)
        for side, errors in enumerate((margins < 0, margins >= 0)):
            own = y.unsqueeze(1) == pairs[:, side]
            wrong[:, side] += (own & errors).sum(0)
            number[:, side] += own.sum(0)
    observed = wrong / number
    centre = torch.stack(centre_margins(native, pairs), 1)
    typical, gaussian, model = _binary(space, pairs)
    return TypicalMargins(
        pairs=pairs,
        kind=kinds(chosen),
        centre=centre,
        typical=typical,
        observed=observed,
        queries=number.long(),
        gaussian=gaussian,
        model=model,
        centre_correlation=rank_correlation(centre, observed),
        typical_correlation=rank_correlation(typical, observed),
        model_correlation=rank_correlation(model, observed),
    )


def _binary(space: FrozenSpace, pairs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Typical margins, Gaussian and quadrature errors [P, 2] of the matched binary models."""
    typical, gaussian, model = torch.full((3, len(pairs), 2), torch.nan, dtype=torch.float64)
    p, (mu, kappa) = space.dim, (space.state.mu, space.state.kappa)
    regular, laws = [], []
    for i, (a, b) in enumerate(pairs.tolist()):
        cosine = float((mu[a] @ mu[b]).clamp(-1, 1))
        if p < 3 or not (kappa[a] > 0 and kappa[b] > 0) or cosine == 1:
            continue
        nu = p / 2 - 1
        binary = BinaryModel(float(kappa[a]) / nu, float(kappa[b]) / nu, cosine, space.tau)
        typical[i] = torch.tensor(binary.typical_margins)
        regular.append(i)
        laws.append((binary.xi_0, binary.W, *binary.beta, *binary.alpha))
    if not regular:
        return typical, gaussian, model
    # The same as BinaryModel.gaussian_errors and errors, for all pairs at once.
    nu = tail_dimension(p) / 2 - 1
    xi, W, *angles = torch.tensor(laws, dtype=torch.float64).T
    for side, (beta, alpha) in enumerate(zip(angles[:2], angles[2:], strict=True)):
        own = kappa[pairs[regular, side]]
        variance = projection_variance(own / (p / 2 - 1), W * beta, W * alpha)
        scale = (nu / (2 * variance)).sqrt()
        gaussian[regular, side] = torch.erfc(typical[regular, side] * scale) / 2
        model[regular, side] = log_projection_tail(xi, beta, own, p, upper=side == 1).exp()
    return typical, gaussian, model
