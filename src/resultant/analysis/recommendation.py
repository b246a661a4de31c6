"""The recommended realization and beta, with gains and losses per class."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from resultant.analysis.decisions import BETAS, FIXED, Decisions, Policy, decide, grid_policies
from resultant.analysis.metrics import (
    SIGNIFICANCE,
    PairedGain,
    calibration_error,
    class_means,
    confidence_bins,
    paired_gain,
)
from resultant.analysis.result import Result, UnansweredError
from resultant.analysis.space import FrozenSpace, Progress
from resultant.classes.groups import GROUPS

# Among equal accuracies the first is taken: native changes nothing, angular changes least.
PREFERENCE = ("native", "angular", "cosine", "preserve", "temperature")


@dataclass(frozen=True, eq=False)
class ClassEffect(Result):
    """The accuracy of one class before (native) and after (the best candidate).

    ``group`` is None if all classes are of about one size.
    """

    index: int
    count: int
    group: str | None
    gain: float
    queries: int
    before: float
    after: float


@dataclass(frozen=True, eq=False)
class Recommendation(Result):
    """The most accurate candidate, and the decision to leave native or not.

    The candidate is the best on one random half of the held-out queries. The gain is measured on
    the other half, so that the choice does not flatter it. All other values are over all queries.

    Attributes:
        realization: The candidate if p < 0.05 and the gain is positive, else native.
        beta: The beta of that realization.
        candidate: The best realization, at ``candidate_beta``.
        gain: Accuracy of the candidate minus that of native, with a paired normal 95 % interval
            (``low``, ``high``) and the exact McNemar ``p_value``.
        better: Queries that only the candidate predicts correctly.
        worse: Queries that only native predicts correctly.
        queries: Queries of the half that measures.
        groups: Changes of accuracy per shot group.
        gained: Classes that gain most.
        lost: Classes that lose most.
        reason: The decision in one sentence.
    """

    realization: str
    beta: float
    gamma: float
    candidate: str
    candidate_beta: float
    gain: float
    low: float
    high: float
    p_value: float
    better: int
    worse: int
    queries: int
    accuracy_before: float
    accuracy_after: float
    nll_before: float
    nll_after: float
    ece_before: float
    ece_after: float
    groups: dict[str, float | None]
    gained: tuple[ClassEffect, ...]
    lost: tuple[ClassEffect, ...]
    reason: str


def recommend(
    space: FrozenSpace,
    betas: tuple[float, ...] = BETAS,
    *,
    gamma: float = 0.0,
    decisions: Decisions | None = None,
    classes: int = 5,
    seed: int = 0,
    progress: Progress | None = None,
) -> Recommendation:
    """Recommend a realization and beta.

    A policy with a cross-entropy that is not finite is no candidate.

    Args:
        space: The classes and the queries.
        betas: Strengths of the target gain to choose from.
        gamma: Multiple of the log prior.
        decisions: Decisions of `grid_policies` on all queries, if already computed.
        classes: The most classes to list that gain, and that lose.
        seed: Seed of the halves.
        progress: Called with the name of the step and the fraction that is done.

    Returns:
        The recommendation.

    Raises:
        UnansweredError: There are fewer than two queries, or native is not finite.
    """
    policies = grid_policies(betas, (gamma,))
    if decisions is None:
        decisions = decide(space, policies, progress=progress)
    N = len(decisions.labels)
    if N < 2:
        raise UnansweredError(f"expected two held-out queries or more, got {N}")
    order = torch.randperm(N, generator=torch.Generator().manual_seed(seed))
    choose, judge = order[: N // 2], order[N // 2 :]
    native = Policy("native", gamma=gamma).canonical
    infinite = int((~decisions.nll[native].isfinite()).sum())
    if infinite:
        got = f"{infinite} of {N} that are not"
        raise UnansweredError(f"expected finite cross-entropies of native scores, got {got}")
    best = _best(decisions, policies, choose)
    before, after = decisions.right(native), decisions.right(best)
    gain = paired_gain(before[judge], after[judge])
    taken = best if gain.gain > 0 and gain.p_value < SIGNIFICANCE else native
    was, now = (class_means(a, decisions.labels, space.num_classes) for a in (before, after))
    gained, lost = _effects(space, decisions, was, now, classes)
    return Recommendation(
        realization=taken.realization,
        beta=taken.beta,
        gamma=float(gamma),
        candidate=best.realization,
        candidate_beta=best.beta,
        **gain._asdict(),
        queries=len(judge),
        accuracy_before=float(before.double().mean()),
        accuracy_after=float(after.double().mean()),
        nll_before=float(decisions.nll[native].double().mean()),
        nll_after=float(decisions.nll[best].double().mean()),
        ece_before=_calibration(decisions, native),
        ece_after=_calibration(decisions, best),
        groups=space.group_means(now - was),
        gained=gained,
        lost=lost,
        reason=_reason(best, taken, gain, len(judge)),
    )


def _best(decisions: Decisions, policies: tuple[Policy, ...], rows: Tensor) -> Policy:
    candidates = [policy for policy in policies if policy in decisions.prediction]
    # At beta = 1 all are native.
    candidates = [p for p in candidates if p.realization in FIXED or p.beta != 1]
    candidates = [p for p in candidates if decisions.nll[p].isfinite().all()]
    candidates.sort(key=lambda p: PREFERENCE.index(p.realization))
    return max(candidates, key=lambda p: int(decisions.right(p)[rows].sum()))


def _calibration(decisions: Decisions, policy: Policy) -> float:
    return calibration_error(
        *confidence_bins(decisions.confidence[policy], decisions.right(policy))
    )


def _effects(
    space: FrozenSpace, decisions: Decisions, before: Tensor, after: Tensor, number: int
) -> tuple[tuple[ClassEffect, ...], tuple[ClassEffect, ...]]:
    """The classes with the largest rise and fall of accuracy."""
    queries = torch.bincount(decisions.labels, minlength=space.num_classes)
    change, g = (after - before).nan_to_num(), space.gain

    def effect(c: int) -> ClassEffect:
        return ClassEffect(
            index=c,
            count=int(space.counts[c]),
            group=GROUPS[int(space.groups[c])] if space.group_names else None,
            gain=float(g[c]),
            queries=int(queries[c]),
            before=float(before[c]),
            after=float(after[c]),
        )

    order = change.argsort(descending=True, stable=True).tolist()
    gained = [effect(c) for c in order[:number] if change[c] > 0]
    lost = [effect(c) for c in order[::-1][:number] if change[c] < 0]
    return tuple(gained), tuple(lost)


def _reason(best: Policy, taken: Policy, gain: PairedGain, queries: int) -> str:
    if best.realization == "native":
        return "Keep native: nothing else was more accurate on the half of the queries that chose."
    name = f"{best.realization} at beta = {best.beta:g}"
    if best.realization == "cosine":
        name = "cosine prototypes"
    interval = f"{100 * gain.gain:+.2f} points [{100 * gain.low:+.2f}, {100 * gain.high:+.2f}]"
    measured = f"{interval} over native on the other {queries:,} (McNemar p = {gain.p_value:.2g})"
    if not gain.better + gain.worse:
        measured = f"the same accuracy as native on the other {queries:,}, row by row"
    if taken == best:
        return f"Use {name}: best on one half of the queries, and {measured}."
    return f"Keep native: {name}, best on one half of the queries, gives {measured}."
