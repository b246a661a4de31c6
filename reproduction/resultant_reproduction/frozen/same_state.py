r"""The realizations on the same classes and queries (sec:same-state-diagnostic)."""

from dataclasses import dataclass

import torch

from resultant.analysis.metrics import Result
from resultant.classes.gain import target_gain
from resultant.classes.rule import EDITED
from resultant_reproduction.frozen.agreement import defined_rules, intercept_drift
from resultant_reproduction.frozen.decisions import Policy, decide
from resultant_reproduction.frozen.space import FrozenSpace, rank_in_class

NAMES = ("native", *EDITED)


@dataclass(frozen=True, eq=False)
class SameStateRow(Result):
    """One realization on the fixed queries."""

    realization: str
    cross_entropy: float  #: mean cross-entropy
    accuracy: float
    distinct: int  #: number of distinct predicted classes


@dataclass(frozen=True, eq=False)
class FocusClass(Result):
    r"""One class under all realizations."""

    index: int
    count: int
    kappa: float
    resultant: float  #: :math:`A_c`
    target_temperature: float  #: :math:`\tau_c^\star`
    gain: float
    target_gain: float  #: :math:`g_c^\star`
    intercepts: dict[str, float]  #: scores at cosine zero by realization
    slopes: dict[str, float]  #: slopes of the scores at cosine zero by realization


@dataclass(frozen=True, eq=False)
class SameState(Result):
    """The realizations on the same classes and the first queries of each class."""

    beta: float
    gamma: float
    queries: int
    rows: tuple[SameStateRow, ...]
    focus: FocusClass | None  #: class with the largest drift; None if temperatures are undefined
    undefined: tuple[int, ...] = ()  #: classes without a temperature


@torch.no_grad()
def same_state(
    space: FrozenSpace, beta: float = 0.0, *, gamma: float = 0.0, per_class: int = 5
) -> SameState:
    """Compare the realizations on the first held-out queries of each class."""
    rows = (rank_in_class(space.test_labels) < per_class).nonzero().squeeze(1)
    policies = [Policy(name, beta, gamma).canonical for name in NAMES]
    decisions = decide(space, policies, rows)
    answers = []
    for policy, guesses in decisions.prediction.items():
        row = SameStateRow(
            realization=policy.realization,
            cross_entropy=float(decisions.nll[policy].double().mean()),
            accuracy=float(decisions.right(policy).double().mean()),
            distinct=len(guesses.unique()),
        )
        answers.append(row)
    focus = None
    if (c := intercept_drift(space, beta).worst_class) is not None:
        rules, target = defined_rules(space, beta), target_gain(space.gain, beta)
        index, zero = torch.tensor([c]), torch.zeros(1, dtype=torch.float64)
        focus = FocusClass(
            index=c,
            count=int(space.counts[c]),
            kappa=float(space.state.kappa[c]),
            resultant=float(space.state.resultant[c]),
            target_temperature=float(space.state.resultant[c] / target[c]),
            gain=float(space.gain[c]),
            target_gain=float(target[c]),
            intercepts={name: float(rule.at(zero, index)) for name, rule in rules.items()},
            slopes={name: float(rule.slope_at(zero, index)) for name, rule in rules.items()},
        )
    undefined = space.untempered(beta)
    return SameState(float(beta), float(gamma), len(rows), tuple(answers), focus, undefined)
