r"""Decisions of every realization on the same held-out queries, and their quality
(tab:frozen-vmf-realizations, sec:prior-dependent-frozen, tab:cross-backbone)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core.arrays import exponentials, largest
from resultant.analysis.metrics import class_means
from resultant.analysis.plain import Result
from resultant.analysis.space import FrozenSpace
from resultant.classes.cosines import cosines
from resultant.classes.realization import realize
from resultant.classes.rule import REALIZATIONS, TEMPERED, Rule
from resultant.classifiers.calibration import calibration_error, confidence_bins

BETAS = (0.0, 0.5, 1.0, 1.5)
GAMMAS = (-1.0, 0.0, 1.0)

# The beta of the realizations that ignore beta.
FIXED = {"native": 1.0, "cosine": 0.0}


class Policy(NamedTuple):
    r"""A decision rule for any classes: a realization at beta, with :math:`\gamma\log\pi_c` added.

    Example:
        >>> Policy("native").canonical
        Policy(realization='native', beta=1.0, gamma=0.0)
    """

    realization: str
    beta: float = 0.0
    gamma: float = 0.0

    @property
    def canonical(self) -> Policy:
        """The same policy with beta = 1 for native and beta = 0 for cosine."""
        return self._replace(beta=float(FIXED.get(self.realization, self.beta)))


@dataclass(frozen=True, eq=False)
class Decisions:
    """Decisions of policies on the same queries, on the CPU.

    By policy: predicted classes [N] int64, cross-entropies [N] in the dtype of the space, and
    largest probabilities [N]; or the classes without a temperature, if the policy cannot decide.
    """

    labels: Tensor  #: classes [N]
    prediction: dict[Policy, Tensor] = field(default_factory=dict)
    nll: dict[Policy, Tensor] = field(default_factory=dict)
    confidence: dict[Policy, Tensor] = field(default_factory=dict)
    undefined: dict[Policy, tuple[int, ...]] = field(default_factory=dict)

    def right(self, policy: Policy) -> Tensor:
        """Correct predictions, [N] bool."""
        return self.prediction[policy.canonical] == self.labels


def grid_policies(
    betas: Iterable[float] = BETAS, gammas: Iterable[float] = GAMMAS
) -> tuple[Policy, ...]:
    """Return all realizations at every beta and gamma, each policy once, native first."""
    betas = tuple(betas)
    policies = (Policy(r, b, g).canonical for g in gammas for r in REALIZATIONS for b in betas)
    return tuple(dict.fromkeys(policies))


@torch.no_grad()
def decide(space: FrozenSpace, policies: Sequence[Policy], rows: Tensor | None = None) -> Decisions:
    """Decide held-out queries by policies.

    Args:
        policies: The policies.
        rows: Indices [n] of the queries, by default all.

    Example:
        >>> z, y = torch.eye(4).repeat(3, 1) + 0.1, torch.arange(4).repeat(3)
        >>> space = FrozenSpace.fit(z, y, z[:4], y[:4])
        >>> decide(space, [Policy("angular")]).right(Policy("angular"))
        tensor([True, True, True, True])
    """
    decisions = Decisions(space.test_labels if rows is None else space.test_labels[rows])
    number, by_rule = len(decisions.labels), {}
    for policy in dict.fromkeys(p.canonical for p in policies):
        realization, beta, gamma = policy
        if realization in TEMPERED and (classes := space.untempered(beta)):
            decisions.undefined[policy] = classes
            continue
        decisions.prediction[policy] = torch.empty(number, dtype=torch.int64)
        for column in (decisions.nll, decisions.confidence):
            column[policy] = torch.empty(number, dtype=space.dtype)
        prior = (gamma * space.log_prior).to(space.device, space.dtype) if gamma else 0.0
        # At beta = 1 every realization is native up to rounding.
        name = "native" if beta == 1 else realization
        by_rule.setdefault((name, beta), []).append((policy, prior))
    rules = [
        (realize(space.state, Rule(space.tau, *of), dtype=space.dtype).to(space.device), own)
        for of, own in by_rule.items()
    ]
    mu = space.state.mu.to(space.device, space.dtype)
    for at, z, y in space.queries(rows):
        rho = cosines(z, mu)
        for rule, own in rules:
            score = rule.at(rho)
            for policy, prior in own:
                s = score + prior
                best, index = largest(s)
                total = exponentials(s - best.unsqueeze(1)).sum(1)
                true = s.gather(1, y.unsqueeze(1)).squeeze(1)
                decisions.prediction[policy][at] = index.cpu()
                decisions.nll[policy][at] = ((best - true) + total.log()).cpu()
                decisions.confidence[policy][at] = (1 / total).cpu()
    return decisions


@dataclass(frozen=True, eq=False)
class GridPoint(Result):
    """One policy on all held-out queries, without a fitted scale of the scores.

    All values are None if classes have no temperature (target gain or resultant not positive).
    """

    realization: str
    beta: float
    gamma: float
    undefined: tuple[int, ...] = ()  #: classes without a temperature
    accuracy: float | None = None  #: fraction of correct predictions
    balanced: float | None = None  #: mean of ``per_class``
    groups: dict[str, float | None] | None = None  #: mean of ``per_class`` per shot group
    per_class: Tensor | None = None  #: accuracy per class [C], NaN for a class without queries
    nll: float | None = None  #: mean cross-entropy in nats
    ece: float | None = None  #: expected calibration error of 15 bins
    change: float | None = None  #: accuracy minus that of native at the same gamma
    agreement: float | None = None  #: fraction of predictions equal to those of cosine


@dataclass(frozen=True, eq=False)
class RealizationGrid(Result):
    """The realizations at every beta and gamma; native (beta = 1) and cosine (beta = 0) once per
    gamma."""

    betas: tuple[float, ...]
    gammas: tuple[float, ...]
    queries: Tensor  #: held-out queries per class [C]
    points: tuple[GridPoint, ...]

    def point(self, realization: str, beta: float = 0.0, gamma: float = 0.0) -> GridPoint:
        """Return the point of a policy; native and cosine take any beta."""
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
        betas: Strengths of the target gain.
        gammas: Multiples of the log prior.

    Example:
        >>> z, y = torch.eye(4).repeat(9, 1) + 0.1 * torch.rand(36, 4), torch.arange(4).repeat(9)
        >>> realization_grid(FrozenSpace.fit(z, y, z, y)).point("cosine").accuracy
        1.0
    """
    policies = grid_policies(betas, gammas)
    decisions = decide(space, policies)
    queries = torch.bincount(decisions.labels, minlength=space.num_classes)
    points = tuple(_point(space, decisions, policy) for policy in policies)
    axes = tuple(map(float, betas)), tuple(map(float, gammas))
    return RealizationGrid(*axes, queries, points)


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
