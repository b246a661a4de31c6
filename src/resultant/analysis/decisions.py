"""Decisions of every realization on the same held-out queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core.arrays import exponentials, largest
from resultant.analysis.space import FrozenSpace
from resultant.classes.cosines import cosines
from resultant.classes.realization import realize
from resultant.classes.rule import REALIZATIONS, TEMPERED, Rule

BETAS = (0.0, 0.5, 1.0, 1.5)
GAMMAS = (-1.0, 0.0, 1.0)

# The beta of the realizations that ignore beta.
FIXED = {"native": 1.0, "cosine": 0.0}


class Policy(NamedTuple):
    r"""A decision rule for any classes: a realization at beta, with :math:`\gamma\log\pi_c` added.

    Example:
        >>> from resultant.analysis import Policy
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

    Attributes:
        labels: Classes [N].
        prediction: Predicted classes [N] int64 by policy.
        nll: Cross-entropies [N] by policy, in the dtype of the space.
        confidence: Largest probabilities [N] by policy.
        undefined: Classes without a temperature, for policies that cannot decide.
    """

    labels: Tensor
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
    """All realizations at every beta and gamma, each policy once, native first."""
    betas, gammas = tuple(betas), tuple(gammas)
    policies = (Policy(r, b, g).canonical for g in gammas for r in REALIZATIONS for b in betas)
    return tuple(dict.fromkeys(policies))


@torch.no_grad()
def decide(space: FrozenSpace, policies: Sequence[Policy], rows: Tensor | None = None) -> Decisions:
    """Decide held-out queries by policies.

    Args:
        space: The classes and the queries.
        policies: The policies.
        rows: Indices [n] of the queries, by default all.

    Returns:
        Predictions, cross-entropies and confidences.

    Example:
        >>> import torch
        >>> from resultant.analysis import FrozenSpace, Policy, decide
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
