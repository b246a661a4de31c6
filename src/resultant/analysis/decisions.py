r"""Decisions of every realization on the same held-out queries, and how good they are
(tab:frozen-vmf-realizations, sec:prior-dependent-frozen, tab:cross-backbone)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core import chunks
from resultant.analysis.metrics import calibration_error, class_means, confidence_bins
from resultant.analysis.result import Result
from resultant.analysis.space import FrozenSpace, Progress
from resultant.classes.realization import Realization, realize
from resultant.classes.rule import REALIZATIONS, TEMPERED, Rule
from resultant.score.exact import vmf_score

BETAS = (0.0, 0.5, 1.0, 1.5)
GAMMAS = (-1.0, 0.0, 1.0)

# What beta the realizations have that know none.
FIXED = {"native": 1.0, "cosine": 0.0}


class Policy(NamedTuple):
    r"""A decision rule: a realization at beta, with :math:`\gamma\log\pi_c` added."""

    realization: str
    beta: float = 0.0
    gamma: float = 0.0

    @property
    def canonical(self) -> Policy:
        """Native at beta = 1 and cosine at beta = 0, whatever theirs."""
        return self._replace(beta=float(FIXED.get(self.realization, self.beta)))


@dataclass(frozen=True, eq=False)
class Decisions:
    """What policies say of the same queries, [N] each, on the CPU: ``prediction`` int64, ``nll``
    and ``confidence`` (the largest probability) in the dtype of the space. ``undefined`` policies
    have only the classes without a temperature."""

    labels: Tensor
    prediction: dict[Policy, Tensor] = field(default_factory=dict)
    nll: dict[Policy, Tensor] = field(default_factory=dict)
    confidence: dict[Policy, Tensor] = field(default_factory=dict)
    undefined: dict[Policy, tuple[int, ...]] = field(default_factory=dict)

    def right(self, policy: Policy) -> Tensor:
        """Which predictions are right, [N] bool."""
        return self.prediction[policy.canonical] == self.labels

    def holds(self, policies: Iterable[Policy]) -> bool:
        """Whether all of them were decided, or found to be undefined."""
        return all(p in self.prediction or p in self.undefined for p in policies)

    def at(self, policies: Iterable[Policy], rows: Tensor) -> Decisions:
        """The decisions of some policies on some queries ``rows`` [n]."""
        found = Decisions(self.labels[rows])
        for policy in policies:
            if policy in self.undefined:
                found.undefined[policy] = self.undefined[policy]
                continue
            for name in ("prediction", "nll", "confidence"):
                getattr(found, name)[policy] = getattr(self, name)[policy][rows]
        return found


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
        wanted = Policy(realization, beta, gamma).canonical
        for point in self.points:
            if (point.realization, point.beta, point.gamma) == wanted:
                return point
        rule = f"expected a point of betas {self.betas} and gammas {self.gammas}"
        raise KeyError(f"{rule}, got {realization!r} at beta = {beta:g}, gamma = {gamma:g}")


def grid_policies(
    betas: Iterable[float] = BETAS, gammas: Iterable[float] = GAMMAS
) -> tuple[Policy, ...]:
    """All realizations at every beta and gamma, each policy once, native first."""
    betas, gammas = tuple(betas), tuple(gammas)
    policies = (Policy(r, b, g).canonical for g in gammas for r in REALIZATIONS for b in betas)
    return tuple(dict.fromkeys(policies))


@torch.no_grad()
def decide(
    space: FrozenSpace,
    policies: Sequence[Policy],
    rows: Tensor | None = None,
    *,
    chunk: int | None = None,
    progress: Progress | None = None,
) -> Decisions:
    """The decisions of policies on all held-out queries or the chosen ``rows`` [n].

    The cosines of a chunk of queries are taken once, and so is the score at each temperature: what
    differs by a slope, an intercept or a prior is added to it.
    """
    wanted = tuple(dict.fromkeys(policy.canonical for policy in policies))
    labels = space.test_labels if rows is None else space.test_labels[rows]
    found, live = Decisions(labels), {}
    for policy in wanted:
        lost = ()
        if policy.realization in TEMPERED:
            lost = space.host.untempered(policy.beta)
        if lost:
            found.undefined[policy] = lost
        else:
            live[policy] = policy
            # At beta = 1 all are native but for rounding.
            if policy.beta == 1:
                live[policy] = policy._replace(realization="native")
    computed = tuple(dict.fromkeys(live.values()))
    columns = [
        torch.empty(len(computed), len(labels), dtype=dtype, device=space.device)
        for dtype in (torch.int64, space.dtype, space.dtype)
    ]
    families = _families(space, computed)
    mu, kappa = (a.to(space.dtype) for a in (space.state.mu, space.state.kappa))
    width = space.dtype.itemsize * space.num_classes
    height = chunks.rows_per_chunk(width, chunks.DECISION_BYTES, space.device)
    for at, z, y in space.queries(rows, chunk=chunk):
        whole = z @ mu.T
        for top in range(0, len(z), height):
            rho, own = whole[top : top + height], y[top : top + height]
            to = slice(at.start + top, at.start + top + len(own))
            for rules in families:
                tau, q = rules[0][1].tau, None
                if tau is not None:
                    q = vmf_score(rho, kappa, tau, space.dim, validate_args=False)
                for place, rule in rules:
                    s = rule.terms.of(q, rho)
                    settled = _settle(s.clone() if s is q else s, own)
                    for column, values in zip(columns, settled, strict=True):
                        column[place, to] = values
        if progress is not None:
            progress("decisions", at.stop / len(labels))
    for column, values in zip(
        (found.prediction, found.nll, found.confidence), columns, strict=True
    ):
        decided = dict(zip(computed, values.cpu(), strict=True))
        column.update(decided)
        column.update((policy, decided[by]) for policy, by in live.items())
    return found


def _families(
    space: FrozenSpace, policies: Iterable[Policy]
) -> list[list[tuple[int, Realization]]]:
    """The places of the policies with their rules, those of one temperature together."""
    families: dict[object, list[tuple[int, Realization]]] = {}
    host = space.host
    for place, (name, beta, gamma) in enumerate(policies):
        offset = host.offset(gamma)
        rule = realize(host.state, Rule(space.tau, name, beta, offset=offset), dtype=space.dtype)
        # The directions are the same in all of them, and the largest part: they are not kept.
        rule = replace(rule, mu=rule.mu.new_empty(0, space.dim)).to(space.device)
        own = beta if name in TEMPERED else name == "cosine"
        families.setdefault((type(own), own), []).append((place, rule))
    return list(families.values())


def _settle(s: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The winners [n], cross-entropies and confidences of scores [n, C], which are used up."""
    best = s.max(1)
    own = s.gather(1, y.unsqueeze(1)).squeeze(1)
    total = s.sub_(best.values.unsqueeze(1)).exp_().sum(1)
    return best.indices, (best.values - own) + total.log(), 1 / total


def realization_grid(
    space: FrozenSpace,
    betas: Sequence[float] = BETAS,
    gammas: Sequence[float] = GAMMAS,
    *,
    decisions: Decisions | None = None,
) -> RealizationGrid:
    """Accuracy, calibration and agreement of all realizations over a grid of beta and gamma.

    ``decisions`` on all held-out queries, if there are any yet, must hold the `grid_policies`.
    """
    policies = grid_policies(betas, gammas)
    if decisions is None:
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
    right = decisions.right(policy)
    per_class = class_means(right, decisions.labels, space.num_classes)
    bins = confidence_bins(decisions.confidence[policy], right)
    native, cosine = (Policy(name, gamma=policy.gamma).canonical for name in FIXED)
    same = decisions.prediction[policy] == decisions.prediction[cosine]
    accuracy = float(right.double().mean())
    return GridPoint(
        *policy,
        accuracy=accuracy,
        balanced=float(per_class.nanmean()),
        groups=space.group_means(per_class),
        per_class=per_class,
        nll=float(decisions.nll[policy].double().mean()),
        ece=calibration_error(*bins),
        reliability=Reliability(*bins),
        change=accuracy - float(decisions.right(native).double().mean()),
        agreement=float(same.double().mean()),
    )
