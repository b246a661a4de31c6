r"""Decisions of every realization on the same held-out queries (tab:frozen-vmf-realizations), and
gradients of Pure Angular and cosine (tab:cosine-gradients)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from resultant.analysis.metrics import Result, UnansweredError, sample_rows
from resultant.classes.rule import REALIZATIONS, TEMPERED, Rule
from resultant.classes.scores import ClassScores, cosines, realize
from resultant.classifiers.search import FIXED_BETA
from resultant.decisions.certificates import gradient_bound, loss_bound
from resultant.decisions.gradients import gradient_cosines, loss_gradient, stacked_relative_error
from resultant.theory.softmax import joint_leading
from resultant_reproduction.frozen.space import FrozenSpace

BETAS = (0.0, 0.5, 1.0, 1.5)

GAMMAS = (-1.0, 0.0, 1.0)


class Policy(NamedTuple):
    r"""A rule for any classes: a realization at beta, with :math:`\gamma\log\pi_c` added."""

    realization: str
    beta: float = 0.0
    gamma: float = 0.0

    @property
    def canonical(self) -> Policy:
        """The same policy with beta = 1 for native and beta = 0 for cosine."""
        return self._replace(beta=float(FIXED_BETA.get(self.realization, self.beta)))


@dataclass(frozen=True, eq=False)
class Decisions:
    """Predicted classes and cross-entropies [N] of the same queries by policy, on the CPU; or the
    classes without a temperature, if the policy cannot decide."""

    labels: Tensor  #: classes [N]
    prediction: dict[Policy, Tensor] = field(default_factory=dict)
    nll: dict[Policy, Tensor] = field(default_factory=dict)
    undefined: dict[Policy, tuple[int, ...]] = field(default_factory=dict)

    def right(self, policy: Policy) -> Tensor:
        """Correct predictions, [N] bool."""
        return self.prediction[policy.canonical] == self.labels


@torch.no_grad()
def decide(space: FrozenSpace, policies: Sequence[Policy], rows: Tensor | None = None) -> Decisions:
    """Decide held-out queries, by default all, by policies."""
    decisions = Decisions(space.test_labels if rows is None else space.test_labels[rows])
    number, by_rule = len(decisions.labels), {}
    for policy in dict.fromkeys(p.canonical for p in policies):
        realization, beta, gamma = policy
        if realization in TEMPERED and (classes := space.untempered(beta)):
            decisions.undefined[policy] = classes
            continue
        decisions.prediction[policy] = torch.empty(number, dtype=torch.int64)
        decisions.nll[policy] = torch.empty(number, dtype=space.dtype)
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
    return decisions


@dataclass(frozen=True, eq=False)
class GridPoint(Result):
    """One policy on all held-out queries; values are None if classes have no temperature."""

    realization: str
    beta: float
    gamma: float
    undefined: tuple[int, ...] = ()  #: classes without a temperature
    accuracy: float | None = None  #: fraction of correct predictions
    nll: float | None = None  #: mean cross-entropy in nats


@dataclass(frozen=True, eq=False)
class RealizationGrid(Result):
    """The realizations at every beta and gamma; native and cosine once per gamma."""

    betas: tuple[float, ...]
    gammas: tuple[float, ...]
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
    """Measure all realizations over a grid of beta and gamma."""
    policies = (Policy(r, b, g).canonical for g in gammas for r in REALIZATIONS for b in betas)
    policies = tuple(dict.fromkeys(policies))
    decisions = decide(space, policies)
    points = []
    for policy in policies:
        if policy in decisions.undefined:
            points.append(GridPoint(*policy, undefined=decisions.undefined[policy]))
            continue
        accuracy = float(decisions.right(policy).double().mean())
        nll = float(decisions.nll[policy].double().mean())
        points.append(GridPoint(*policy, accuracy=accuracy, nll=nll))
    return RealizationGrid(tuple(map(float, betas)), tuple(map(float, gammas)), tuple(points))


# Relative rounding that a bound allows for.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class GradientComparison(Result):
    r"""Losses and tangent gradients of Pure Angular and cosine on the same queries, at beta = 0
    (tab:cosine-gradients, sec:gradient-protocol); errors are in percent."""

    loss_mean: float  #: mean of :math:`|\Delta L|`
    gradient_error: float  #: :math:`100\|G_{angular}-G_{cos}\|_F/\|G_{angular}\|_F`
    median_cosine: float
    bounds_held: bool  #: every loss within :math:`2\epsilon`, gradient within its bound
    linear_error: float  #: error of the linear mean, against native
    joint_error: float | None  #: error of the joint leading score; None for p = 2


@torch.no_grad()
def compare_gradients(
    space: FrozenSpace, queries: int = 1024, *, seed: int = 0
) -> GradientComparison:
    """Compare losses and gradients of Pure Angular and cosine in float64, on random queries of the
    calibration rows if any, or else held-out ones; unanswered if all gradients vanish."""
    tau, state = space.tau, space.state.to(space.device)
    split, labels, pool = "train", space.labels, space.calibration
    if pool is None or not len(pool):
        split, labels, pool = "test", space.test_labels, torch.arange(len(space.test))
    rows = pool[sample_rows(len(pool), queries, seed)]
    z, y = space.units(split, rows), labels[rows].to(space.device)

    def gradient(scores: ClassScores) -> Tensor:
        return loss_gradient(z, y, scores.to(space.device), validate_args=False)

    loss, step = (
        bound(z, y, state, tau, validate_args=False) for bound in (loss_bound, gradient_bound)
    )
    angular, cosine, native = (
        gradient(realize(state, Rule(tau, name))) for name in ("angular", "cosine", "native")
    )
    if not native.any():
        raise UnansweredError("expected gradients that are not all zero, got zeros")
    linear, joint = gradient(realize(space.state, Rule(tau)).linear()), None
    if space.dim >= 3:
        joint = stacked_relative_error(native, gradient(joint_leading(space.state, Rule(tau))))
    held = (b.difference <= b.bound * (1 + ROUNDING) + ROUNDING for b in (loss, step))
    return GradientComparison(
        loss_mean=float(loss.difference.mean()),
        gradient_error=stacked_relative_error(angular, cosine),
        median_cosine=float(gradient_cosines(angular, cosine).nanmedian()),
        bounds_held=all(bool(h.all()) for h in held),
        linear_error=stacked_relative_error(native, linear),
        joint_error=joint,
    )
