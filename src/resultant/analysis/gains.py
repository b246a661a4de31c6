r"""Gains of the classes (fig:gain-discovery), and the effect of direct temperature on the score at
cosine zero (fig:realization, sec:same-state-diagnostic)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from resultant.analysis.decisions import Policy, decide
from resultant.analysis.metrics import Result, rank_correlation, rank_in_class
from resultant.analysis.space import FrozenSpace
from resultant.classes.finite_sample import unbiased_square_resultant
from resultant.classes.gain import gain_at, target_gain
from resultant.classes.realization import Realization, realize
from resultant.classes.rule import EDITED, Rule
from resultant.classes.statistics import MAX_KAPPA, fit_kappa
from resultant.vmf.estimators import OF_LENGTH

NAMES = ("native", *EDITED)


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


@dataclass(frozen=True, eq=False)
class SameStateRow(Result):
    """One realization on the fixed queries."""

    realization: str
    cross_entropy: float  #: mean cross-entropy
    accuracy: float
    distinct: int  #: number of distinct predicted classes
    top_class: int  #: class predicted most
    top_share: float  #: fraction of the queries that are predicted as this class


@dataclass(frozen=True, eq=False)
class FocusClass(Result):
    r"""One class under all realizations."""

    index: int
    count: int
    kappa: float
    resultant: float  #: :math:`A_c`
    target_temperature: float  #: :math:`\tau_c^\star`
    gain: float
    target_gain: float  #: :math:`g_c^\star`
    intercepts: dict[str, float]  #: scores at cosine zero by realization
    slopes: dict[str, float]  #: slopes of the scores at cosine zero by realization


@dataclass(frozen=True, eq=False)
class SameState(Result):
    """The realizations on the same classes and the first queries of each class."""

    beta: float
    gamma: float
    queries: int
    rows: tuple[SameStateRow, ...]
    focus: FocusClass | None  #: class with the largest drift; None if temperatures are undefined
    undefined: tuple[int, ...] = ()  #: classes without a temperature


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
        capped=tuple((state.kappa >= MAX_KAPPA).nonzero().squeeze(1).tolist()),
        corrected_gain=corrected,
        corrected_spread=_spread(corrected[~corrected.isnan()]),
        corrected_rank_correlation=rank_correlation(corrected, space.counts),
        uncorrected=tuple(corrected.isnan().nonzero().squeeze(1).tolist()),
    )


def _spread(g: Tensor) -> float | None:
    """Return the standard deviation over the mean; None for no gains or zero gains."""
    mean = float(g.mean()) if len(g) else 0.0
    return float(g.std(correction=0)) / mean if mean > 0 else None


def _rules(space: FrozenSpace, beta: float) -> dict[str, Realization]:
    """Return the realizations that are defined at beta."""
    names = NAMES if not space.untempered(beta) else ("native", "angular")
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
    rules = _rules(space, beta)
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


@torch.no_grad()
def same_state(
    space: FrozenSpace, beta: float = 0.0, *, gamma: float = 0.0, per_class: int = 5
) -> SameState:
    """Compare the realizations on the first held-out queries of each class.

    Args:
        beta: Strength of the target gain.
        gamma: Multiple of the log prior.
        per_class: Queries per class.

    Example:
        >>> [row.distinct for row in same_state(space).rows]
        [4, 4, 4, 4]
    """
    rows = (rank_in_class(space.test_labels) < per_class).nonzero().squeeze(1)
    policies = [Policy(name, beta, gamma).canonical for name in NAMES]
    decisions = decide(space, policies, rows)
    answers = []
    for policy, guesses in decisions.prediction.items():
        counts = torch.bincount(guesses)
        row = SameStateRow(
            realization=policy.realization,
            cross_entropy=float(decisions.nll[policy].double().mean()),
            accuracy=float(decisions.right(policy).double().mean()),
            distinct=int((counts > 0).sum()),
            top_class=int(counts.argmax()),
            top_share=float(counts.max() / len(guesses)),
        )
        answers.append(row)
    focus = None
    if (c := intercept_drift(space, beta).worst_class) is not None:
        rules, target = _rules(space, beta), target_gain(space.gain, beta)
        index, zero = torch.tensor([c]), torch.zeros(1, dtype=torch.float64)
        focus = FocusClass(
            index=c,
            count=int(space.counts[c]),
            kappa=float(space.state.kappa[c]),
            resultant=float(space.state.resultant[c]),
            target_temperature=float(space.state.resultant[c] / target[c]),
            gain=float(space.gain[c]),
            target_gain=float(target[c]),
            intercepts={name: float(rule.at(zero, index)) for name, rule in rules.items()},
            slopes={name: float(rule.slope_at(zero, index)) for name, rule in rules.items()},
        )
    about = float(beta), float(gamma), len(rows), tuple(answers)
    return SameState(*about, focus, space.untempered(beta))
