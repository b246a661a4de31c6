r"""The questions of the paper that a page asks of the classes of a method: their gains, and whether
they are vMF classes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from resultant.analysis import goodness
from resultant.analysis.metrics import Result, rank_correlation
from resultant.analysis.space import VMFClasses
from resultant.classes.finite_sample import unbiased_square_resultant
from resultant.classes.gain import gain_at
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


def gain_distribution(classes: VMFClasses) -> GainDistribution:
    """Return the gains of all classes at the temperature of the classes."""
    g, state, count = classes.gain, classes.state, classes.statistics.count
    several, corrected = count >= 2, torch.full_like(g, torch.nan)
    U = unbiased_square_resultant(classes.statistics.mean_length[several], count[several])
    estimator = classes.estimator if classes.estimator in OF_LENGTH else "mle"
    kappa = fit_kappa(classes.dim, U.clamp_min(0).sqrt(), estimator)
    corrected[several] = gain_at(classes.dim, kappa, classes.tau)
    low, high = float(g.min()), float(g.max())
    one = torch.ones((), dtype=torch.float64, device=g.device)
    largest = fit_kappa(classes.dim, one, classes.estimator, one)
    return GainDistribution(
        gain=g,
        resultant=state.resultant,
        kappa=state.kappa,
        count=classes.counts,
        group=classes.groups if classes.group_names else None,
        mean=float(g.mean()),
        standard_deviation=float(g.std(correction=0)),
        minimum=low,
        maximum=high,
        spread=_spread(g) or 0.0,
        ratio=high / low if low > 0 else None,
        rank_correlation=rank_correlation(g, classes.counts),
        groups=classes.group_means(g),
        capped=tuple((state.kappa >= largest).nonzero().squeeze(1).tolist()),
        corrected_gain=corrected,
        corrected_spread=_spread(corrected[~corrected.isnan()]),
        corrected_rank_correlation=rank_correlation(corrected, classes.counts),
        uncorrected=tuple(corrected.isnan().nonzero().squeeze(1).tolist()),
    )


def _spread(g: Tensor) -> float | None:
    """Return the standard deviation over the mean; None for no gains or zero gains."""
    mean = float(g.mean()) if len(g) else 0.0
    return float(g.std(correction=0)) / mean if mean > 0 else None


@dataclass(frozen=True, eq=False)
class Theory(Result):
    """The answers for the classes of a method, None for a question that it cannot answer."""

    tau: float  #: temperature of the method
    gains: GainDistribution
    fit: goodness.GoodnessOfFit | None = None


def ask_theory(classes: VMFClasses, *, seed: int = 0) -> Theory:
    """Ask the questions that a report shows.

    Args:
        seed: Seed of simulated classes.
    """
    fit = goodness.goodness_of_fit(classes, seed=seed) if classes.dim >= 3 else None
    return Theory(classes.tau, gain_distribution(classes), fit)
