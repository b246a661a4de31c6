r"""How different the gains of the classes are at a shared temperature (fig:gain-discovery)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from resultant.classes import MAX_KAPPA
from resultant.frozen.measures import rank_correlation
from resultant.frozen.result import Result
from resultant.frozen.space import FrozenSpace


@dataclass(frozen=True, eq=False)
class GainDistribution(Result):
    r"""The gains :math:`g_c=A_c/\tau_0` ``gain`` [C] of all classes, equally weighted.

    ``resultant``, ``kappa`` and ``count`` [C] beside them, ``group`` [C] an index of head, medium
    and tail. ``spread`` is the standard deviation over the mean, ``ratio`` the largest over the
    smallest gain (None where that is zero), ``rank_correlation`` Spearman's with the counts (None
    where either is constant). ``groups`` are means by shot group, None for an empty one. ``capped``
    are the classes at the largest concentration: of one sample, or of equal ones.
    """

    gain: Tensor
    resultant: Tensor
    kappa: Tensor
    count: Tensor
    group: Tensor
    mean: float
    standard_deviation: float
    minimum: float
    maximum: float
    spread: float
    ratio: float | None
    rank_correlation: float | None
    groups: dict[str, float | None]
    capped: tuple[int, ...]


def gain_distribution(space: FrozenSpace) -> GainDistribution:
    """The gains of all classes at the temperature of the space."""
    space = space.host
    g, state = space.gain, space.state
    low, high = float(g.min()), float(g.max())
    mean, deviation = float(g.mean()), float(g.std(correction=0))
    return GainDistribution(
        gain=g,
        resultant=state.resultant,
        kappa=state.kappa,
        count=space.counts,
        group=space.groups,
        mean=mean,
        standard_deviation=deviation,
        minimum=low,
        maximum=high,
        spread=deviation / mean if mean > 0 else 0.0,
        ratio=high / low if low > 0 else None,
        rank_correlation=rank_correlation(g, space.counts),
        groups=space.group_means(g),
        capped=tuple((state.kappa >= MAX_KAPPA).nonzero().squeeze(1).tolist()),
    )
