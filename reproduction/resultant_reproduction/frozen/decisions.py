r"""Decisions of every realization on the same held-out queries (tab:frozen-vmf-realizations), and
gradients of Pure Angular and cosine (tab:cosine-gradients)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from resultant.analysis.metrics import Result, UnansweredError, class_means, sample_rows
from resultant.analysis.space import FrozenSpace
from resultant.classes.rule import REALIZATIONS, TEMPERED, Rule
from resultant.classes.scores import ClassScores, cosines, realize
from resultant.classifiers.calibration import calibration_error, confidence_bins
from resultant.classifiers.search import FIXED_BETA
from resultant.decisions.certificates import gradient_bound, loss_bound
from resultant.decisions.gradients import gradient_cosines, loss_gradient, stacked_relative_error
from resultant.theory.softmax import joint_leading

BETAS = (0.0, 0.5, 1.0, 1.5)

GAMMAS = (-1.0, 0.0, 1.0)


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
        return self._replace(beta=float(FIXED_BETA.get(self.realization, self.beta)))


@dataclass(frozen=True, eq=False)
class Decisions:
    """Predicted classes, cross-entropies and largest probabilities [N] of the same queries by
    policy, on the CPU; or the classes without a temperature, if the policy cannot decide."""

    labels: Tensor  #: classes [N]
    prediction: dict[Policy, Tensor] = field(default_factory=dict)
    nll: dict[Policy, Tensor] = field(default_factory=dict)
    confidence: dict[Policy, Tensor] = field(default_factory=dict)
    undefined: dict[Policy, tuple[int, ...]] = field(default_factory=dict)

    def right(self, policy: Policy) -> Tensor:
        """Correct predictions, [N] bool."""
        return self.prediction[policy.canonical] == self.labels


@torch.no_grad()
def decide(space: FrozenSpace, policies: Sequence[Policy], rows: Tensor | None = None) -> Decisions:
    """Decide held-out queries by policies.

    Args:
        policies: The policies.
        rows: Indices [n] of the queries, by default all.

    Example:
        >>> decide(space, [Policy("angular")]).right(Policy("angular")).all()
        tensor(True)
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
                best, index = s.max(1)
                total = (s - best.unsqueeze(1)).exp_().sum(1)
                true = s.gather(1, y.unsqueeze(1)).squeeze(1)
                decisions.prediction[policy][at] = index.cpu()
                decisions.nll[policy][at] = ((best - true) + total.log()).cpu()
                decisions.confidence[policy][at] = (1 / total).cpu()
    return decisions


@dataclass(frozen=True, eq=False)
class GridPoint(Result):
    """One policy on all held-out queries; values are None if classes have no temperature."""

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
    """The realizations at every beta and gamma; native and cosine once per gamma."""

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
        >>> realization_grid(space).point("cosine").accuracy
        1.0
    """
    policies = (Policy(r, b, g).canonical for g in gammas for r in REALIZATIONS for b in betas)
    policies = tuple(dict.fromkeys(policies))
    decisions = decide(space, policies)
    queries = torch.bincount(decisions.labels, minlength=space.num_classes)
    points = []
    for policy in policies:
        if policy in decisions.undefined:
            points.append(GridPoint(*policy, undefined=decisions.undefined[policy]))
            continue
        right = decisions.right(policy).double()
        per_class = class_means(right, decisions.labels, space.num_classes)
        native, cosine = (Policy(n, gamma=policy.gamma).canonical for n in ("native", "cosine"))
        same = decisions.prediction[policy] == decisions.prediction[cosine]
        bins = confidence_bins(decisions.confidence[policy].double().numpy(), right.numpy())
        point = GridPoint(
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
        points.append(point)
    axes = tuple(map(float, betas)), tuple(map(float, gammas))
    return RealizationGrid(*axes, queries, tuple(points))


# Relative rounding that a bound allows for.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class GradientComparison(Result):
    r"""Losses and tangent gradients of Pure Angular and cosine on the same queries, at beta = 0
    (tab:cosine-gradients, sec:gradient-protocol); errors are in percent."""

    queries: int
    source: str  #: ``held-out`` or ``calibration``
    rows: Tensor  #: indices [n] of the queries in the source
    loss_mean: float  #: mean of :math:`|\Delta L|`
    gradient_error: float  #: :math:`100\|G_{angular}-G_{cos}\|_F/\|G_{angular}\|_F`
    median_cosine: float
    cosines: Tensor  #: cosines [n] of the gradients, NaN if one of them vanishes
    bounds_held: bool  #: every loss within :math:`2\epsilon`, gradient within its bound
    linear_error: float  #: error of the linear mean, against native
    joint_error: float | None  #: error of the joint leading score; None for p = 2


@torch.no_grad()
def compare_gradients(
    space: FrozenSpace, queries: int = 1024, *, gamma: float = 0.0, seed: int = 0
) -> GradientComparison:
    """Compare losses and gradients of Pure Angular and cosine on random queries, in float64.

    Args:
        queries: The number of queries, of the calibration rows if any, or else held-out.
        gamma: Multiple of the log prior that both rules add.
        seed: Seed of the draw.

    Raises:
        UnansweredError: All gradients vanish.

    Example:
        >>> compare_gradients(space).bounds_held
        True
    """
    pool, tau, source = space.calibration, space.tau, "calibration"
    state, offset = space.state.to(space.device), space.offset(gamma)
    if pool is None or not len(pool):
        pool, source = torch.arange(len(space.test)), "held-out"
    rows = pool[sample_rows(len(pool), queries, seed)]
    z = space.units("test" if source == "held-out" else "train", rows)
    y = (space.test_labels if source == "held-out" else space.labels)[rows].to(space.device)
    there = None if offset is None else offset.to(space.device)

    def gradient(scores: ClassScores) -> Tensor:
        return loss_gradient(z, y, scores.to(space.device), validate_args=False)

    loss, step = (
        bound(z, y, state, tau, offset=there, validate_args=False)
        for bound in (loss_bound, gradient_bound)
    )
    angular, cosine, native = (
        gradient(realize(state, Rule(tau, name, offset=there)))
        for name in ("angular", "cosine", "native")
    )
    if not native.any():
        raise UnansweredError("expected gradients that are not all zero, got zeros")
    cosines, rule = gradient_cosines(angular, cosine), Rule(tau, offset=offset)
    linear, joint = gradient(realize(space.state, rule).linear()), None
    if space.dim >= 3:
        leading = gradient(joint_leading(space.state, rule))
        joint = stacked_relative_error(native, leading)
    held = (b.difference <= b.bound * (1 + ROUNDING) + ROUNDING for b in (loss, step))
    return GradientComparison(
        queries=len(rows),
        source=source,
        rows=rows,
        loss_mean=float(loss.difference.mean()),
        gradient_error=stacked_relative_error(angular, cosine),
        median_cosine=float(cosines.nanmedian()),
        cosines=cosines,
        bounds_held=all(bool(h.all()) for h in held),
        linear_error=stacked_relative_error(native, linear),
        joint_error=joint,
    )
