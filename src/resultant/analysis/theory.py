r"""The gains of the classes of a vMF method."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from resultant.analysis.metrics import Result, rank_correlation
from resultant.classes.finite_sample import unbiased_square_resultant
from resultant.classes.gain import angular_gain, gain_at
from resultant.classes.groups import GROUPS, one_size, shot_groups
from resultant.classes.statistics import ClassStatistics
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


def gain_distribution(
    statistics: ClassStatistics, counts: Tensor, estimator: str, tau: float
) -> GainDistribution:
    """Return the gains of all classes at a temperature.

    Args:
        statistics: Sums of the fitted rows.
        counts: Training rows [C], fitted or not.
        estimator: Estimator of kappa, see `resultant.concentration`.
        tau: Temperature.
    """
    state, count, p = statistics.state(estimator), statistics.count, statistics.dim
    g, names, group = angular_gain(state, tau), named_groups(counts), shot_groups(counts)
    several, corrected = count >= 2, torch.full_like(g, torch.nan)
    U = unbiased_square_resultant(statistics.mean_length[several], count[several])
    kappa = fit_kappa(p, U.clamp_min(0).sqrt(), estimator if estimator in OF_LENGTH else "mle")
    corrected[several] = gain_at(p, kappa, tau)
    low, high = float(g.min()), float(g.max())
    one = torch.ones((), dtype=torch.float64, device=g.device)
    largest = fit_kappa(p, one, estimator, one)
    means = {name: float(g[group == k].nanmean()) for k, name in enumerate(names)}
    return GainDistribution(
        gain=g,
        resultant=state.resultant,
        kappa=state.kappa,
        count=counts,
        group=group if names else None,
        mean=float(g.mean()),
        standard_deviation=float(g.std(correction=0)),
        minimum=low,
        maximum=high,
        spread=_spread(g) or 0.0,
        ratio=high / low if low > 0 else None,
        rank_correlation=rank_correlation(g, counts),
        groups={name: None if math.isnan(v) else v for name, v in means.items()},
        capped=tuple((state.kappa >= largest).nonzero().squeeze(1).tolist()),
        corrected_gain=corrected,
        corrected_spread=_spread(corrected[~corrected.isnan()]),
        corrected_rank_correlation=rank_correlation(corrected, counts),
        uncorrected=tuple(corrected.isnan().nonzero().squeeze(1).tolist()),
    )


def _spread(g: Tensor) -> float | None:
    """Return the standard deviation over the mean; None for no gains or zero gains."""
    mean = float(g.mean()) if len(g) else 0.0
    return float(g.std(correction=0)) / mean if mean > 0 else None


def named_groups(counts: Tensor) -> tuple[str, ...]:
    """Return the names of the shot groups of counts [C]; none for one group or about one size."""
    alone = len(shot_groups(counts).unique()) < 2
    return () if alone or one_size(counts) else GROUPS


@dataclass(frozen=True, eq=False)
class Theory(Result):
    """The theory of the classes of a method."""

    tau: float  #: temperature of the method
    gains: GainDistribution
