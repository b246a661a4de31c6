"""Decisions of every realization on the same held-out queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core import chunks
from resultant._core.arrays import exponentials, largest
from resultant.analysis.space import FrozenSpace, Progress
from resultant.classes.cosines import cosines
from resultant.classes.realization import Realization, realize
from resultant.classes.rule import REALIZATIONS, TEMPERED, Rule
from resultant.score.exact import vmf_score

BETAS = (0.0, 0.5, 1.0, 1.5)
GAMMAS = (-1.0, 0.0, 1.0)

# The beta of the realizations that ignore beta.
FIXED = {"native": 1.0, "cosine": 0.0}

# The names of the columns of `Decisions`.
COLUMNS = ("prediction", "nll", "confidence")


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

    def rule(self, space: FrozenSpace) -> Rule:
        """The rule of the policy at the temperature and the prior of a space."""
        return Rule(space.tau, self.realization, self.beta, offset=space.offset(self.gamma))


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

    def holds(self, policies: Iterable[Policy]) -> bool:
        """Return True if all policies are decided or undefined."""
        return all(p in self.prediction or p in self.undefined for p in policies)

    def at(self, policies: Iterable[Policy], rows: Tensor) -> Decisions:
        """The decisions of some policies on some queries ``rows`` [n]."""
        part = Decisions(self.labels[rows])
        for policy in policies:
            if policy in self.undefined:
                part.undefined[policy] = self.undefined[policy]
                continue
            for name in COLUMNS:
                getattr(part, name)[policy] = getattr(self, name)[policy][rows]
        return part


def grid_policies(
    betas: Iterable[float] = BETAS, gammas: Iterable[float] = GAMMAS
) -> tuple[Policy, ...]:
    """All realizations at every beta and gamma, each policy once, native first."""
    betas, gammas = tuple(betas), tuple(gammas)
    policies = (Policy(r, b, g).canonical for g in gammas for r in REALIZATIONS for b in betas)
    return tuple(dict.fromkeys(policies))


class Scorer:
    """The scores of policies for the classes of a space, without the rows of the space.

    The cosines of queries are computed once, and so is the score at each temperature: slopes,
    intercepts and priors are added to that score.
    """

    def __init__(self, space: FrozenSpace, policies: Sequence[Policy]) -> None:
        self.undefined: dict[Policy, tuple[int, ...]] = {}
        # The policy whose scores a policy shares: at beta = 1 all are native up to rounding.
        self.computed: dict[Policy, Policy] = {}
        for policy in dict.fromkeys(policy.canonical for policy in policies):
            tempered = policy.realization in TEMPERED
            if tempered and (classes := space.untempered(policy.beta)):
                self.undefined[policy] = classes
            else:
                native = policy._replace(realization="native")
                self.computed[policy] = native if policy.beta == 1 else policy
        self.policies = tuple(dict.fromkeys(self.computed.values()))
        self.dtype, self.device, self.dim = space.dtype, space.device, space.dim
        state = space.state.to(self.device, self.dtype)
        self.mu, self.kappa = state.mu, state.kappa
        self.families = self._families(space)

    def _families(self, space: FrozenSpace) -> list[list[list[tuple[int, Realization]]]]:
        """The numbers of the policies with their realizations, grouped by temperature, and there
        by realizations that differ in the prior alone."""
        families: dict[object, dict[object, list[tuple[int, Realization]]]] = {}
        for number, policy in enumerate(self.policies):
            name, beta, gamma = policy
            tau = beta if name in TEMPERED else name == "cosine"
            priors = families.setdefault((type(tau), tau), {}).setdefault((name, beta), [])
            known = priors[0][1] if priors else None
            if known is not None and name != "preserve":
                # The prior is the only shift.
                offset = space.offset(gamma)
                shift = None if offset is None else offset.to(known.kappa)
                rule = replace(known, shift=shift)
            else:
                rule = realize(space.state, policy.rule(space), dtype=self.dtype)
                # The directions are the largest part and the same in all realizations.
                rule = replace(rule, mu=rule.mu.new_empty(0, self.dim)).to(self.device)
            priors.append((number, rule))
        return [list(family.values()) for family in families.values()]

    def __call__(self, z: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Score unit queries ``z`` [n, p] with classes ``y`` [n]; see `at`."""
        return self.at(cosines(z, self.mu), y)

    @torch.no_grad()
    def at(self, rho: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Decide queries of cosines ``rho`` [n, C] with classes ``y`` [n].

        Returns:
            Predictions, cross-entropies and confidences [P, n] of P policies.
        """
        dtypes = (torch.int64, self.dtype, self.dtype)
        columns = [rho.new_empty(len(self.policies), len(rho), dtype=dtype) for dtype in dtypes]
        width = self.dtype.itemsize * len(self.mu)
        for part in chunks.row_slices(len(rho), width, chunks.ROW_BYTES, self.device):
            for family in self.families:
                tau, q = family[0][0][1].tau, None
                if tau is not None:
                    q = vmf_score(rho[part], self.kappa, tau, self.dim, validate_args=False)
                for priors in family:
                    decided = _decide(q, rho[part], y[part], [rule for _, rule in priors])
                    for (number, _), values in zip(priors, decided, strict=True):
                        for column, value in zip(columns, values, strict=True):
                            column[number, part] = value
        return columns[0], columns[1], columns[2]

    def decisions(self, labels: Tensor, columns: Iterable[Tensor]) -> Decisions:
        """The decisions from columns [P, N] of all queries."""
        decisions = Decisions(labels, undefined=self.undefined)
        for name, values in zip(COLUMNS, columns, strict=True):
            by_policy, column = dict(zip(self.policies, values.cpu(), strict=True)), {}
            column.update(by_policy)
            column.update((policy, by_policy[own]) for policy, own in self.computed.items())
            getattr(decisions, name).update(column)
        return decisions


def _decide(
    q: Tensor | None, rho: Tensor, y: Tensor, rules: Sequence[Realization]
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield predictions, cross-entropies and confidences [n] of rules that differ in their shift.

    The exponentials, the largest part of the cost, are computed for the first rule: a shift d_c
    multiplies the terms of their sum by exp(d_c).
    """
    first, base, terms, top = None, rho, rho, rho
    for rule in rules:
        if first is None:
            base = rule.terms._replace(shift=None).of(q, rho)
        s = base if rule.shift is None else base + rule.shift
        best, index = largest(s)
        own = s.gather(1, y.unsqueeze(1)).squeeze(1)
        if first is None:
            first, top, terms = rule, best, exponentials(s - best.unsqueeze(1))
            total = terms.sum(1)
        else:
            change = _shift(rule).double() - _shift(first).double()
            limit = change.max()
            weight = (change - limit).exp().to(terms.dtype)
            rest = (top - best + limit.to(top)).exp_()
            total = (terms @ weight) * rest
        yield index, (best - own) + total.log(), 1 / total


def _shift(rule: Realization) -> Tensor:
    return torch.zeros_like(rule.kappa) if rule.shift is None else rule.shift


def decide(
    space: FrozenSpace,
    policies: Sequence[Policy],
    rows: Tensor | None = None,
    *,
    chunk: int | None = None,
    progress: Progress | None = None,
) -> Decisions:
    """Decide held-out queries by policies.

    Args:
        space: The classes and the queries.
        policies: The policies.
        rows: Indices [n] of the queries, by default all.
        chunk: Queries per chunk.
        progress: Called with the name of the step and the fraction that is done.

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
    return decide_at([space], policies, rows, chunk=chunk, progress=progress)[0]


@torch.no_grad()
def decide_at(
    spaces: Sequence[FrozenSpace],
    policies: Sequence[Policy],
    rows: Tensor | None = None,
    *,
    chunk: int | None = None,
    progress: Progress | None = None,
) -> list[Decisions]:
    """Decide the same queries at several temperatures: spaces that differ in tau alone share the
    cosines. Other arguments are those of `decide`."""
    space = spaces[0]
    labels = space.test_labels if rows is None else space.test_labels[rows]
    scorers = [Scorer(own, policies) for own in spaces]
    columns = [
        [
            torch.empty(len(scorer.policies), len(labels), dtype=dtype, device=space.device)
            for dtype in (torch.int64, space.dtype, space.dtype)
        ]
        for scorer in scorers
    ]
    for at, z, y in space.queries(rows, chunk=chunk):
        rho = cosines(z, scorers[0].mu)
        for scorer, own in zip(scorers, columns, strict=True):
            for column, values in zip(own, scorer.at(rho, y), strict=True):
                column[:, at] = values
        if progress is not None:
            progress("decisions", at.stop / len(labels))
    return [s.decisions(labels, own) for s, own in zip(scorers, columns, strict=True)]
