r"""Pairs of classes chosen from training geometry: boundaries, margins and errors
(sec:boundary-selection, sec:root-solving, sec:margin-change-protocol, fig:real-margin-app).

The pairs are some dozens and their queries few: all but the choice is done on the CPU."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from resultant.analysis.metrics import rank_correlation
from resultant.analysis.result import Result
from resultant.analysis.space import FrozenSpace, Progress
from resultant.classes.realization import Realization, realize
from resultant.classes.rule import TEMPERED, Rule
from resultant.decisions.binary_model import BinaryModel
from resultant.decisions.boundaries import (
    Change,
    Displacement,
    displacement,
    displacement_error,
    short_arc_roots,
)
from resultant.decisions.certificates import margin_change
from resultant.decisions.margins import centre_margins, joint_leading, pairwise_margins
from resultant.decisions.pairs import PAIR_TYPES, SelectedPairs, select_pairs
from resultant.vmf.tails import log_projection_tail

# How many margin changes are kept to draw, about.
DRAWN = 2000


@dataclass(frozen=True, eq=False)
class PredictedDisplacement(Result):
    """Displacements by an approximate score: ``shift_degrees`` [P] (NaN unless displaced),
    ``change`` a pair, ``tally`` of them, and the error over ``comparable`` pairs, those displaced
    in both. ``same_direction`` is a share; NaN where none is comparable."""

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

    ``pairs`` [P, 2] with their ``kind`` (HH to TT), ``closest`` [P] or random, prototype ``cosine``
    and arc ``theta_degrees`` [P]. ``before_degrees``, ``after_degrees`` and ``shift_degrees`` [P]
    from the first class, NaN unless unique; ``change`` is displaced, created, vanished, absent or
    multiple, ``tally`` counts them. ``predicted`` has ``linear_mean`` (:math:`g_c\rho_c`),
    ``linear_intercept`` (with the intercept :math:`q_c(0)`) and, for p >= 3, ``joint_leading``.
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
    r"""Whether :math:`\Delta m_{lin}` predicts the sign of exact margin changes, over the queries
    of both classes of every pair (sec:margin-change-protocol).

    ``agreement`` and ``coverage`` (of the certificate :math:`|\Delta m_{lin}|>|r|`) are shares of
    ``incidences``; ``certified_wrong`` is zero if the theory holds. ``by_kind`` has the same by
    pair type. ``linear`` and ``exact`` [S] are a sample of the changes, to draw. None without
    queries.
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


@dataclass(frozen=True, eq=False)
class TypicalMargins(Result):
    r"""Margins of pairs against their errors under the native score (sec:conditional-margin).

    All [P, 2], for the first class against the second and back: ``centre`` margins at prototypes,
    ``typical`` margins :math:`R_h, R_t`, ``observed`` errors among ``queries`` held-out ones (NaN
    without), ``gaussian`` and ``model`` errors of the matched binary model at this dimension (NaN
    where it is degenerate). Rank correlations with the observed error are Spearman's.
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


def selected(space: FrozenSpace, per_type: int, seed: int) -> SelectedPairs:
    """The pairs of sec:boundary-selection on the CPU; all of them where C <= 20."""
    if (per_type, seed) not in space.pairs:
        found = select_pairs(space.state, space.groups, per_type, seed)
        space.pairs[per_type, seed] = SelectedPairs(*(a.cpu() for a in found))
    return space.pairs[per_type, seed]


@torch.no_grad()
def boundary_displacement(
    space: FrozenSpace, per_type: int = 5, *, beta: float = 0.0, seed: int = 0
) -> BoundaryDisplacement:
    """How direct temperature moves the boundaries of the selected pairs, and how well leading
    scores at the same temperatures predict it, at zero prior."""
    chosen, space = selected(space, per_type, seed), space.host
    pairs, state, tau = chosen.pairs, space.state, space.tau
    native = realize(state, Rule(tau))
    before = short_arc_roots(native, pairs)
    lost = space.untempered(beta)
    after = before
    if not lost:
        after = short_arc_roots(realize(state, Rule(tau, "temperature", beta)), pairs)
    exact = displacement(before, after)
    a, b = pairs.T
    return BoundaryDisplacement(
        pairs=pairs,
        kind=_kinds(chosen),
        closest=chosen.closest,
        cosine=(state.mu[a] * state.mu[b]).sum(1),
        theta_degrees=before.theta.rad2deg(),
        before_degrees=before.root.rad2deg(),
        after_degrees=after.root.rad2deg() if not lost else torch.full_like(after.root, torch.nan),
        shift_degrees=exact.shift.rad2deg() if not lost else torch.full_like(after.root, torch.nan),
        change=_changes(exact) if not lost else (),
        tally=exact.tally() if not lost else {},
        predicted={} if lost else _predictions(space, beta, pairs, exact),
        undefined=lost,
    )


def _predictions(
    space: FrozenSpace, beta: float, pairs: Tensor, exact: Displacement
) -> dict[str, PredictedDisplacement]:
    state, tau = space.state, space.tau
    policies = (("native", 1.0), ("temperature", beta))
    rules = [realize(state, Rule(tau, *policy)) for policy in policies]
    found = {
        "linear_mean": [Realization(r.mu, r.kappa, None, r.gain(), None) for r in rules],
        "linear_intercept": [r.linear() for r in rules],
    }
    if space.dim >= 3:
        found["joint_leading"] = [joint_leading(state, Rule(tau, *policy)) for policy in policies]
    return {
        name: _predicted(before, after, pairs, exact) for name, (before, after) in found.items()
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


def _members(space: FrozenSpace, pairs: Tensor) -> Tensor:
    """The held-out rows of the classes of pairs."""
    return torch.isin(space.test_labels, pairs).nonzero().squeeze(1)


def _changes(moved: Displacement) -> tuple[str, ...]:
    return tuple(Change(c).name.lower() for c in moved.change.tolist())


def _kinds(chosen: SelectedPairs) -> tuple[str, ...]:
    return tuple(PAIR_TYPES[k] for k in chosen.kind.tolist())


@torch.no_grad()
def margin_directions(
    space: FrozenSpace,
    per_type: int = 5,
    *,
    realization: str = "temperature",
    beta: float = 0.0,
    seed: int = 0,
    chunk: int | None = None,
    progress: Progress | None = None,
) -> MarginDirections:
    """Signs of margin changes from native to a realization, over the held-out queries of both
    classes of every selected pair."""
    chosen, space = selected(space, per_type, seed), space.host
    lost = space.untempered(beta) if realization in TEMPERED else ()
    # Incidences, correct, certified, and certified but wrong.
    tally = torch.zeros(4, len(PAIR_TYPES), dtype=torch.int64)
    drawn: list[Tensor] = []
    rule = Rule(space.tau, realization, beta)
    rows = _members(space, chosen.pairs) if not lost else torch.empty(0, dtype=torch.int64)
    for at, z, y in space.queries(rows, dtype=torch.float64, chunk=chunk):
        found = margin_change(z, y, space.state, rule, chosen.pairs, validate_args=False)
        kind = chosen.kind[found.pair]
        certified, correct = found.certified, found.correct
        for row, which in enumerate(
            (torch.ones_like(correct), correct, certified, certified & ~correct)
        ):
            tally[row] += torch.bincount(kind[which], minlength=len(PAIR_TYPES))
        share = DRAWN * len(y) // len(rows) + 1
        some = torch.linspace(0, len(kind) - 1, min(share, len(kind))).round().long()
        drawn.append(torch.stack([found.linear[some], found.exact[some]]))
        if progress is not None:
            progress("margins", at.stop / len(rows))
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
        undefined=lost,
    )


def _shares(incidences: int, correct: int, certified: int) -> dict[str, float | None]:
    known = incidences > 0
    return {
        "incidences": incidences,
        "agreement": correct / incidences if known else None,
        "coverage": certified / incidences if known else None,
    }


@torch.no_grad()
def typical_margins(
    space: FrozenSpace, per_type: int = 5, *, seed: int = 0, chunk: int | None = None
) -> TypicalMargins:
    """Centre and typical margins of the selected pairs, and the errors between the two classes
    under the native score at zero prior: on held-out queries, and of the matched binary model."""
    chosen, space = selected(space, per_type, seed), space.host
    pairs, native = chosen.pairs, realize(space.state, Rule(space.tau))
    wrong, number = (torch.zeros(len(pairs), 2, dtype=torch.float64) for _ in range(2))
    for _, z, y in space.queries(_members(space, pairs), dtype=torch.float64, chunk=chunk):
        margins = pairwise_margins(z, native, pairs, validate_args=False)
        for side, lost in enumerate((margins < 0, margins >= 0)):
            own = y.unsqueeze(1) == pairs[:, side]
            wrong[:, side] += (own & lost).sum(0)
            number[:, side] += own.sum(0)
    observed = wrong / number
    centre = torch.stack(centre_margins(native, pairs), 1)
    typical, gaussian, model = _binary(space, pairs)
    return TypicalMargins(
        pairs=pairs,
        kind=_kinds(chosen),
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
    known, laws = [], []
    for i, (a, b) in enumerate(pairs.tolist()):
        cosine = float((mu[a] @ mu[b]).clamp(-1, 1))
        if p < 3 or not (kappa[a] > 0 and kappa[b] > 0) or cosine == 1:
            continue
        nu = p / 2 - 1
        binary = BinaryModel(float(kappa[a]) / nu, float(kappa[b]) / nu, cosine, space.tau)
        typical[i] = torch.tensor(binary.typical_margins)
        gaussian[i] = torch.tensor(binary.gaussian_errors(p))
        known.append(i)
        laws.append((binary.xi_0, *binary.beta))
    if not known:
        return typical, gaussian, model
    # BinaryModel.errors of all pairs in two integrals.
    xi, *betas = torch.tensor(laws, dtype=torch.float64).T
    for side, beta in enumerate(betas):
        own = kappa[pairs[known, side]]
        model[known, side] = log_projection_tail(xi, beta, own, p, upper=side == 1).exp()
    return typical, gaussian, model
