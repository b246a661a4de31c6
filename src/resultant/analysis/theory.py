r"""The theory of the paper on the classes of an analysis: their gains, the boundaries that equal
gains move, scores at cosine zero, and decisions that are provably those of cosine prototypes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from resultant.analysis import goodness
from resultant.analysis.metrics import Result, rank_correlation
from resultant.analysis.space import FrozenSpace, SpaceSummary
from resultant.classes.finite_sample import unbiased_square_resultant
from resultant.classes.gain import gain_at
from resultant.classes.rule import EDITED, Rule
from resultant.classes.scores import ClassScores, realize
from resultant.decisions import boundaries, margins
from resultant.decisions.certificates import certificate
from resultant.theory.softmax import joint_leading
from resultant.vmf.estimators import OF_LENGTH, fit_kappa


@dataclass(frozen=True, eq=False)
class GainDistribution(Result):
    r"""The gains :math:`g_c=A_c/\tau_0` of all classes, and corrected ones with the unbiased square
    :math:`\sqrt{\max(U_c,0)}` (eq:unbiased-resultant-square). Correlations are Spearman's with the
    counts, None if either is constant."""

    gain: Tensor  #: gains [C]
    resultant: Tensor  #: mean resultants [C]
    kappa: Tensor  #: concentrations [C]
    count: Tensor  #: training rows [C]
    group: Tensor | None  #: shot groups [C]; None if all classes are of about one size
    mean: float
    standard_deviation: float
    minimum: float
    maximum: float
    spread: float  #: standard deviation over mean
    ratio: float | None  #: largest over smallest gain; None if the smallest is zero
    rank_correlation: float | None
    groups: dict[str, float | None]  #: mean gains per shot group, None for an empty group
    capped: tuple[int, ...]  #: classes at the largest concentration: of one row, or of equal rows
    corrected_gain: Tensor  #: corrected gains [C], NaN for classes of one fitted row
    corrected_spread: float | None
    corrected_rank_correlation: float | None
    uncorrected: tuple[int, ...]  #: classes of one fitted row, which corrected values leave out


@dataclass(frozen=True, eq=False)
class InterceptDrift(Result):
    r"""The scores at cosine zero, and their drift :math:`|h_c-h_c^0|` by realization."""

    beta: float
    native: Tensor  #: intercepts :math:`h_c^0=q_c(0;\tau_0)` [C]
    temperature: Tensor  #: intercepts :math:`h_c^\star=q_c(0;\tau_c^\star)` [C]
    temperatures: Tensor  #: temperatures :math:`\tau_c^\star` [C]
    largest: dict[str, float]  #: largest drift
    mean: dict[str, float]  #: mean drift
    worst_class: int | None  #: class with the largest drift under temperature
    undefined: tuple[int, ...] = ()  #: classes without a temperature, whose entries are NaN


def gain_distribution(space: FrozenSpace) -> GainDistribution:
    """Return the gains of all classes at the temperature of the space.

    Example:
        >>> gain_distribution(space).capped
        ()
    """
    g, state, count = space.gain, space.state, space.statistics.count
    several, corrected = count >= 2, torch.full_like(g, torch.nan)
    U = unbiased_square_resultant(space.statistics.mean_length[several], count[several])
    estimator = space.estimator if space.estimator in OF_LENGTH else "mle"
    kappa = fit_kappa(space.dim, U.clamp_min(0).sqrt(), estimator)
    corrected[several] = gain_at(space.dim, kappa, space.tau)
    low, high = float(g.min()), float(g.max())
    one = torch.ones((), dtype=torch.float64, device=g.device)
    largest = fit_kappa(space.dim, one, space.estimator, one)
    return GainDistribution(
        gain=g,
        resultant=state.resultant,
        kappa=state.kappa,
        count=space.counts,
        group=space.groups if space.group_names else None,
        mean=float(g.mean()),
        standard_deviation=float(g.std(correction=0)),
        minimum=low,
        maximum=high,
        spread=_spread(g) or 0.0,
        ratio=high / low if low > 0 else None,
        rank_correlation=rank_correlation(g, space.counts),
        groups=space.group_means(g),
        capped=tuple((state.kappa >= largest).nonzero().squeeze(1).tolist()),
        corrected_gain=corrected,
        corrected_spread=_spread(corrected[~corrected.isnan()]),
        corrected_rank_correlation=rank_correlation(corrected, space.counts),
        uncorrected=tuple(corrected.isnan().nonzero().squeeze(1).tolist()),
    )


def _spread(g: Tensor) -> float | None:
    """Return the standard deviation over the mean; None for no gains or zero gains."""
    mean = float(g.mean()) if len(g) else 0.0
    return float(g.std(correction=0)) / mean if mean > 0 else None


def defined_rules(space: FrozenSpace, beta: float) -> dict[str, ClassScores]:
    """Return the realizations that are defined at beta."""
    names = ("native", *EDITED) if not space.untempered(beta) else ("native", "angular")
    return {name: realize(space.state, Rule(space.tau, name, beta)) for name in names}


@torch.no_grad()
def intercept_drift(space: FrozenSpace, beta: float = 0.0) -> InterceptDrift:
    """Measure the change of the scores at cosine zero from the native scores.

    Args:
        beta: Strength of the target gain.

    Example:
        >>> intercept_drift(space).largest["angular"]
        0.0
    """
    rules = defined_rules(space, beta)
    zero = torch.zeros_like(space.state.kappa)
    intercepts = {name: rule.at(zero) for name, rule in rules.items()}
    native = intercepts["native"]
    moved = {name: (h - native).abs() for name, h in intercepts.items()}
    missing = torch.full_like(native, torch.nan)
    rule = rules.get("temperature")
    return InterceptDrift(
        beta=float(beta),
        native=native,
        temperature=intercepts.get("temperature", missing),
        temperatures=missing if rule is None or rule.tau is None else rule.tau.expand_as(native),
        largest={name: float(m.max()) for name, m in moved.items()},
        mean={name: float(m.mean()) for name, m in moved.items()},
        worst_class=None if rule is None else int(moved["temperature"].argmax()),
        undefined=space.untempered(beta),
    )


@dataclass(frozen=True, eq=False)
class CosineAgreement(Result):
    r"""Pure Angular at beta = 0 against the cosine rule on every held-out query, in float64; one is
    certified if :math:`\bar gm_{\cos}>D` for its cosine gap (tab:cosine-diagnostics)."""

    queries: int
    agreement: float
    disagreements: int
    low_margin: int  #: disagreements in the first decile of the cosine gap
    certified: int  #: certified queries
    coverage: float  #: fraction of certified queries
    certified_disagreements: int  #: zero if the theory holds
    mean_gain: float
    margin_quantiles: Tensor  #: quantiles [101] of :math:`\bar gm_{\cos}`
    residual_quantiles: Tensor  #: quantiles [101] of :math:`D`


@torch.no_grad()
def cosine_agreement(space: FrozenSpace) -> CosineAgreement:
    """Compare the predictions of Pure Angular at beta = 0 and of cosine, at zero prior.

    Example:
        >>> cosine_agreement(space).certified_disagreements
        0
    """
    columns, state = [], space.state.to(space.device)
    for _, z, _ in space.queries():
        c = certificate(z, state, space.tau, validate_args=False)
        columns.append((c.margin, c.residual_range, c.certified, c.prediction != c.angular))
    margin, residual, certified, differ = (
        torch.cat(column).cpu() for column in zip(*columns, strict=True)
    )
    # By rank, so that ties leave the deciles even.
    first = margin.argsort(stable=True)[: -(-len(margin) // 10)]
    return CosineAgreement(
        queries=len(margin),
        agreement=float((~differ).double().mean()),
        disagreements=int(differ.sum()),
        low_margin=int(differ[first].sum()),
        certified=int(certified.sum()),
        coverage=float(certified.double().mean()),
        certified_disagreements=int((certified & differ).sum()),
        mean_gain=float(space.gain.mean()),
        margin_quantiles=_quantiles(margin),
        residual_quantiles=_quantiles(residual),
    )


def _quantiles(values: Tensor) -> Tensor:
    """Return evenly spaced quantiles [101] with both extremes, without interpolation."""
    index = torch.linspace(0, len(values) - 1, 101, dtype=torch.float64).round().long()
    return values.sort().values[index]


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


def displacement_error(
    exact: boundaries.Displacement, predicted: boundaries.Displacement
) -> DisplacementError:
    """Measure the error of predicted displacements (fig:main-boundaries)."""
    both = exact.displaced & predicted.displaced
    expected, guess = exact.shift[both].rad2deg(), predicted.shift[both].rad2deg()
    error, same = (guess - expected).abs(), (expected.sign() == guess.sign()).double()
    largest = float(error.max()) if len(error) else torch.nan
    mean, alike = float(error.mean()), float(same.mean())
    return DisplacementError(mean, largest, alike, len(error), len(both))


def _changes(moved: boundaries.Displacement) -> tuple[str, ...]:
    return tuple(boundaries.Change(c).name.lower() for c in moved.change.tolist())


def pair_types(chosen: margins.SelectedPairs) -> tuple[str, ...]:
    """Return the types of pairs, HH to TT."""
    return tuple(margins.PAIR_TYPES[k] for k in chosen.kind.tolist())


@dataclass(frozen=True, eq=False)
class Theory(Result):
    """The theory on one space, None for questions that it cannot answer."""

    space: SpaceSummary
    gains: GainDistribution
    cosine: CosineAgreement
    boundaries: BoundaryDisplacement
    intercepts: InterceptDrift
    fit: goodness.GoodnessOfFit | None = None


def ask_theory(space: FrozenSpace, *, seed: int = 0) -> Theory:
    """Ask the questions that a report shows.

    Args:
        seed: Seed of the pairs and of simulated classes.

    Example:
        >>> ask_theory(space).gains.capped
        ()
    """
    fit = goodness.goodness_of_fit(space, seed=seed) if space.dim >= 3 else None
    return Theory(
        space.summary(),
        gain_distribution(space),
        cosine_agreement(space),
        boundary_displacement(space, choose_pairs(space, seed=seed)),
        intercept_drift(space),
        fit,
    )
