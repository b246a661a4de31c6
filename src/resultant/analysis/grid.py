r"""Quality of every realization on the same held-out queries (tab:frozen-vmf-realizations,
sec:prior-dependent-frozen, tab:cross-backbone)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from resultant.analysis.decisions import BETAS, GAMMAS, Decisions, Policy, decide, grid_policies
from resultant.analysis.metrics import class_means
from resultant.analysis.plain import Result
from resultant.analysis.space import FrozenSpace
from resultant.classifiers.calibration import calibration_error, confidence_bins


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
    space: FrozenSpace, betas: Sequence[float] = BETAS, gammas: Sequence[float] = GAMMAS
) -> RealizationGrid:
    """Measure all realizations over a grid of beta and gamma.

    Args:
        space: The classes and the queries.
        betas: Strengths of the target gain.
        gammas: Multiples of the log prior.

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
    decisions = decide(space, policies)
    return RealizationGrid(
        betas=tuple(map(float, betas)),
        gammas=tuple(map(float, gammas)),
        queries=torch.bincount(decisions.labels, minlength=space.num_classes),
        points=tuple(_point(space, decisions, policy) for policy in policies),
    )


def _point(space: FrozenSpace, decisions: Decisions, policy: Policy) -> GridPoint:
    if policy in decisions.undefined:
        return GridPoint(*policy, undefined=decisions.undefined[policy])
    right = decisions.right(policy).double()
    per_class = class_means(right, decisions.labels, space.num_classes)
    native, cosine = (Policy(n, gamma=policy.gamma).canonical for n in ("native", "cosine"))
    same = decisions.prediction[policy] == decisions.prediction[cosine]
    bins = confidence_bins(decisions.confidence[policy].double().numpy(), right.numpy())
    return GridPoint(
        *policy,
        accuracy=float(right.mean()),
        balanced=float(per_class.nanmean()),
        groups=space.group_means(per_class),
        per_class=per_class,
        nll=float(decisions.nll[policy].double().mean()),
        ece=calibration_error(*bins),
        change=float(right.mean() - decisions.right(native).double().mean()),
        agreement=float(same.double().mean()),
    )
