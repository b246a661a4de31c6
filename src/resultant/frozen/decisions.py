r"""Decisions of every realization on the same held-out queries, and how good they are
(tab:frozen-vmf-realizations, sec:prior-dependent-frozen, tab:cross-backbone)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from resultant.frozen.result import Result


class Policy(NamedTuple):
    r"""A decision rule: a realization at beta, with :math:`\gamma\log\pi_c` added."""

    realization: str
    beta: float = 0.0
    gamma: float = 0.0


@dataclass(frozen=True, eq=False)
class Reliability(Result):
    """How often predictions of a confidence are right: ``count``, mean ``confidence`` and
    ``accuracy`` [15] of equal bins of the largest probability, NaN where a bin is empty."""

    count: Tensor
    confidence: Tensor
    accuracy: Tensor


@dataclass(frozen=True, eq=False)
class GridPoint(Result):
    """What one policy does on all held-out queries.

    ``undefined`` names the classes without a temperature (target gain or resultant not positive);
    all else is None then. ``balanced`` is the mean of ``per_class`` [C] (NaN for a class without
    query) and ``groups`` that by shot group. ``nll`` is the mean cross-entropy in nats, ``ece`` the
    expected calibration error of 15 bins. ``change`` is accuracy beyond native at the same gamma,
    ``agreement`` the share of predictions that the cosine rule makes too, at the same gamma.
    """

    realization: str
    beta: float
    gamma: float
    undefined: tuple[int, ...] = ()
    accuracy: float | None = None
    balanced: float | None = None
    groups: dict[str, float | None] | None = None
    per_class: Tensor | None = None
    nll: float | None = None
    ece: float | None = None
    reliability: Reliability | None = None
    change: float | None = None
    agreement: float | None = None


@dataclass(frozen=True, eq=False)
class RealizationGrid(Result):
    """The realizations at every beta and gamma; native (beta = 1) and cosine (beta = 0) once for
    each gamma. ``queries`` [C] held-out queries a class."""

    betas: tuple[float, ...]
    gammas: tuple[float, ...]
    queries: Tensor
    points: tuple[GridPoint, ...]

    def point(self, realization: str, beta: float = 0.0, gamma: float = 0.0) -> GridPoint:
        """The point of a policy; native and cosine take any beta."""
        fixed = realization in ("native", "cosine")
        for point in self.points:
            at = point.gamma == gamma and (fixed or point.beta == beta)
            if point.realization == realization and at:
                return point
        rule = f"expected a point of betas {self.betas} and gammas {self.gammas}"
        raise KeyError(f"{rule}, got {realization!r} at beta = {beta:g}, gamma = {gamma:g}")
