"""Which realization and beta to use, what it gains and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from resultant.analysis.decisions import BETAS, FIXED, Decisions, Policy, decide, grid_policies
from resultant.analysis.metrics import (
    PairedGain,
    calibration_error,
    class_means,
    confidence_bins,
    paired_gain,
)
from resultant.analysis.result import Result, UnansweredError
from resultant.analysis.space import FrozenSpace, Progress
from resultant.classes.groups import GROUPS

SIGNIFICANCE = 0.05

# Where accuracies tie the first is taken: native keeps what is, angular changes least.
PREFERENCE = ("native", "angular", "cosine", "preserve", "temperature")


@dataclass(frozen=True, eq=False)
class ClassEffect(Result):
    """The accuracy of one class before (native) and after (the best candidate); no ``group`` where
    all classes have one size."""

    index: int
    count: int
    group: str | None
    gain: float
    queries: int
    before: float
    after: float


@dataclass(frozen=True, eq=False)
class Recommendation(Result):
    """The candidate of highest accuracy, and whether it is worth leaving native.

    ``candidate`` (a realization at ``beta``) is the best on one random half of the held-out
    queries; ``gain`` over native, its 95 % interval (``low``, ``high``, paired normal) and the
    exact McNemar ``p_value`` are of the other half, with ``better`` and ``worse`` queries there, so
    the choice does not flatter them. ``realization`` is the candidate where p < 0.05 and the gain
    is positive, else native. The rest is over all queries: accuracies, mean NLL and calibration
    error before and after, ``groups`` the changes of accuracy by shot group, and the classes that
    ``gained`` and ``lost`` most. ``reason`` says it in a sentence.
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
    """The realization and beta to use at the prior of ``gamma``, with up to ``classes`` of the
    classes that gain and lose most.

    ``decisions`` on all held-out queries, if there are any yet, must hold the `grid_policies`. A
    policy of which a cross-entropy is not finite is no candidate; of native it leaves no answer.
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
    lost = int((~decisions.nll[native].isfinite()).sum())
    if lost:
        got = f"{lost} of {N} that are not"
        raise UnansweredError(f"expected finite cross-entropies of native scores, got {got}")
    best = _best(decisions, policies, choose)
    before, after = decisions.right(native), decisions.right(best)
    found = paired_gain(before[judge], after[judge])
    taken = best if found.gain > 0 and found.p_value < SIGNIFICANCE else native
    was, now = (class_means(a, decisions.labels, space.num_classes) for a in (before, after))
    gained, lost = _effects(space, decisions, was, now, classes)
    return Recommendation(
        realization=taken.realization,
        beta=taken.beta,
        gamma=float(gamma),
        candidate=best.realization,
        candidate_beta=best.beta,
        **found._asdict(),
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
        reason=_reason(best, taken, found, len(judge)),
    )


def _best(decisions: Decisions, policies: tuple[Policy, ...], rows: Tensor) -> Policy:
    able = [policy for policy in policies if policy in decisions.prediction]
    # At beta = 1 all are native.
    able = [p for p in able if p.realization in FIXED or p.beta != 1]
    able = [p for p in able if decisions.nll[p].isfinite().all()]
    able.sort(key=lambda p: PREFERENCE.index(p.realization))
    return max(able, key=lambda p: int(decisions.right(p)[rows].sum()))


def _calibration(decisions: Decisions, policy: Policy) -> float:
    return calibration_error(
        *confidence_bins(decisions.confidence[policy], decisions.right(policy))
    )


def _effects(
    space: FrozenSpace, decisions: Decisions, before: Tensor, after: Tensor, number: int
) -> tuple[tuple[ClassEffect, ...], tuple[ClassEffect, ...]]:
    """The classes whose accuracy rises and falls most."""
    queries = torch.bincount(decisions.labels, minlength=space.num_classes)
    change, g = (after - before).nan_to_num(), space.host.gain

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


def _reason(best: Policy, taken: Policy, found: PairedGain, queries: int) -> str:
    if best.realization == "native":
        return "Keep native: nothing else was more accurate on the half of the queries that chose."
    name = f"{best.realization} at beta = {best.beta:g}"
    if best.realization == "cosine":
        name = "cosine prototypes"
    gain = f"{100 * found.gain:+.2f} points [{100 * found.low:+.2f}, {100 * found.high:+.2f}]"
    measured = f"{gain} over native on the other {queries:,} (McNemar p = {found.p_value:.2g})"
    if not found.better + found.worse:
        measured = f"the same accuracy as native on the other {queries:,}, row by row"
    if taken == best:
        return f"Use {name}: best on one half of the queries, and {measured}."
    return f"Keep native: {name}, best on one half of the queries, gives {measured}."
