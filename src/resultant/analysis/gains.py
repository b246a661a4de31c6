r"""The distribution of the gains of the classes at a shared temperature (fig:gain-discovery)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from resultant.analysis.metrics import rank_correlation
from resultant.analysis.plain import Result
from resultant.analysis.space import FrozenSpace
from resultant.classes.finite_sample import unbiased_square_resultant
from resultant.classes.gain import gain_at
from resultant.classes.statistics import MAX_KAPPA, capped_concentration
from resultant.vmf.estimators import OF_LENGTH


@dataclass(frozen=True, eq=False)
class GainDistribution(Result):
    r"""The gains :math:`g_c=A_c/\tau_0` ``gain`` [C] of all classes, equally weighted.

    The mean of n rows is too long (eq:finite-resultant-identity), most so in small classes. The
    corrected gain is :math:`\sqrt{\max(U_c,0)}/\tau_0` with the unbiased square :math:`U_c`
    (eq:unbiased-resultant-square), by the estimator of the space.

    Attributes:
        resultant: Mean resultants [C].
        kappa: Concentrations [C].
        count: Training rows [C].
        group: Shot groups [C]; None if all classes are of about one size.
        spread: Standard deviation over mean.
        ratio: Largest over smallest gain; None if the smallest is zero.
        rank_correlation: Spearman's correlation with the counts; None if either is constant.
        groups: Mean gains per shot group, None for an empty group.
        capped: Classes at the largest concentration: of one row, or of equal rows.
        corrected_gain: Corrected gains [C], NaN for classes of one fitted row.
        uncorrected: Classes of one fitted row, which the corrected values leave out.
    """

    gain: Tensor
    resultant: Tensor
    kappa: Tensor
    count: Tensor
    group: Tensor | None
    mean: float
    standard_deviation: float
    minimum: float
    maximum: float
    spread: float
    ratio: float | None
    rank_correlation: float | None
    groups: dict[str, float | None]
    capped: tuple[int, ...]
    corrected_gain: Tensor
    corrected_spread: float | None
    corrected_rank_correlation: float | None
    uncorrected: tuple[int, ...]


def gain_distribution(space: FrozenSpace) -> GainDistribution:
    """Return the gains of all classes at the temperature of the space.

    Example:
        >>> import torch
        >>> from resultant.analysis import FrozenSpace, gain_distribution
        >>> z, y = torch.eye(4).repeat(3, 1) + 0.1, torch.arange(4).repeat(3)
        >>> gain_distribution(FrozenSpace.fit(z, y, z, y, tau=0.5)).spread
        0.0
    """
    g, state, corrected = space.gain, space.state, _corrected(space)
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


def _corrected(space: FrozenSpace) -> Tensor:
    """The gains [C] of the unbiased squares, NaN for a class of one row."""
    count = space.statistics.count
    several = count >= 2
    U = unbiased_square_resultant(space.statistics.mean_length[several], count[several])
    estimator = space.estimator if space.estimator in OF_LENGTH else "mle"
    kappa = capped_concentration(space.dim, U.clamp_min(0).sqrt(), estimator)
    g = torch.full_like(space.gain, torch.nan)
    g[several] = gain_at(space.dim, kappa, space.tau)
    return g


def _spread(g: Tensor) -> float | None:
    """The standard deviation over the mean; None for no gains or zero gains."""
    mean = float(g.mean()) if len(g) else 0.0
    return float(g.std(correction=0)) / mean if mean > 0 else None
