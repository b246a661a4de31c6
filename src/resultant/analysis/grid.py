r"""Quality of every realization on the same held-out queries (tab:frozen-vmf-realizations,
sec:prior-dependent-frozen, tab:cross-backbone)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from resultant.analysis.decisions import (
    BETAS,
    COLUMNS,
    FIXED,
    GAMMAS,
    Decisions,
    Policy,
    decide,
    grid_policies,
)
from resultant.analysis.metrics import calibration_error, class_means, confidence_bins
from resultant.analysis.plain import Result
from resultant.analysis.space import FrozenSpace

# Decisions that are measured at a time.
MEASURED = 1 << 21


@dataclass(frozen=True, eq=False)
class GridPoint(Result):
    """One policy on all held-out queries.

    Attributes:
        undefined: Classes without a temperature (target gain or resultant not positive); all
            values are None then.
        accuracy: Fraction of correct predictions.
        balanced: Mean of ``per_class``.
        groups: Mean of ``per_class`` per shot group.
        per_class: Accuracy per class [C], NaN for a class without queries.
        nll: Mean cross-entropy in nats, without a fitted scale.
        ece: Expected calibration error of 15 bins, without a fitted scale.
        change: Accuracy minus that of native at the same gamma.
        agreement: Fraction of predictions equal to those of cosine at the same gamma.
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
    change: float | None = None
    agreement: float | None = None


@dataclass(frozen=True, eq=False)
class RealizationGrid(Result):
    """The realizations at every beta and gamma.

    Native (beta = 1) and cosine (beta = 0) appear once per gamma. ``queries`` [C] are the held-out
    queries per class.
    """

    betas: tuple[float, ...]
    gammas: tuple[float, ...]
    queries: Tensor
    points: tuple[GridPoint, ...]

    def point(self, realization: str, beta: float = 0.0, gamma: float = 0.0) -> GridPoint:
        """The point of a policy; native and cosine take any beta."""
        policy = Policy(realization, beta, gamma).canonical
        for point in self.points:
            if (point.realization, point.beta, point.gamma) == policy:
                return point
        rule = f"expected a point of betas {self.betas} and gammas {self.gammas}"
        raise KeyError(f"{rule}, got {realization!r} at beta = {beta:g}, gamma = {gamma:g}")


def realization_grid(
    space: FrozenSpace,
    betas: Sequence[float] = BETAS,
    gammas: Sequence[float] = GAMMAS,
    *,
    decisions: Decisions | None = None,
) -> RealizationGrid:
    """Measure all realizations over a grid of beta and gamma.

    Args:
        space: The classes and the queries.
        betas: Strengths of the target gain.
        gammas: Multiples of the log prior.
        decisions: Decisions of `grid_policies` on all queries, if already computed.

    Returns:
        Accuracy, calibration and agreement of every policy.

    Example:
        >>> import torch
        >>> from resultant.analysis import FrozenSpace, realization_grid
        >>> z, y = torch.eye(4).repeat(9, 1) + 0.1 * torch.rand(36, 4), torch.arange(4).repeat(9)
        >>> realization_grid(FrozenSpace.fit(z, y, z, y)).point("cosine").accuracy
        1.0
    """
    policies = grid_policies(betas, gammas)
    if decisions is None:
        decisions = decide(space, policies)
    return measure(space, betas, gammas, policies, decisions)


def measure(
    space: FrozenSpace,
    betas: Sequence[float],
    gammas: Sequence[float],
    policies: Iterable[Policy],
    decisions: Decisions,
) -> RealizationGrid:
    """Return the grid of ``policies`` from their decisions, which include native and cosine."""
    policies = tuple(policies)
    undefined = decisions.undefined
    points = {p: GridPoint(*p, undefined=undefined[p]) for p in policies if p in undefined}
    decided = [p for p in policies if p not in undefined]
    height = max(1, MEASURED // max(1, len(decisions.labels)))
    for top in range(0, len(decided), height):
        some = decided[top : top + height]
        points.update(zip(some, _points(space, decisions, some), strict=True))
    return RealizationGrid(
        betas=tuple(map(float, betas)),
        gammas=tuple(map(float, gammas)),
        queries=torch.bincount(decisions.labels, minlength=space.num_classes),
        points=tuple(points[policy] for policy in policies),
    )


def _points(
    space: FrozenSpace, decisions: Decisions, policies: Sequence[Policy]
) -> Iterator[GridPoint]:
    """Measure some policies, all at once."""
    prediction, nll, confidence = (
        torch.stack([getattr(decisions, name)[p] for p in policies]) for name in COLUMNS
    )
    right = prediction == decisions.labels
    accuracy = right.double().mean(1).tolist()
    per_class = class_means(right, decisions.labels, space.num_classes)
    errors = calibration_error(*confidence_bins(confidence, right)).tolist()
    losses = nll.double().mean(1).tolist()
    balanced, groups = per_class.nanmean(1).tolist(), space.group_means(per_class)
    bases = {
        gamma: [Policy(name, gamma=gamma).canonical for name in FIXED]
        for gamma in dict.fromkeys(p.gamma for p in policies)
    }
    native = {g: float(decisions.right(own).double().mean()) for g, (own, _) in bases.items()}
    for k, policy in enumerate(policies):
        same = prediction[k] == decisions.prediction[bases[policy.gamma][1]]
        yield GridPoint(
            *policy,
            accuracy=accuracy[k],
            balanced=balanced[k],
            groups={name: means[k] for name, means in groups.items()},
            per_class=per_class[k],
            nll=losses[k],
            ece=errors[k],
            change=accuracy[k] - native[policy.gamma],
            agreement=float(same.double().mean()),
        )
