"""Choose a classifier on the validation rows, and say why in sentences of the numbers."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from resultant._core.text import class_name, in_points
from resultant.analysis import metrics
from resultant.analysis.candidate import Candidate
from resultant.analysis.result import Method, Recommendation
from resultant.analysis.split import FeatureSet, Plan

# Standard errors by which a method must beat the largest class: one of a dozen methods does so by
# chance in six cases of a hundred.
BEATS = 2.6


class Choice(NamedTuple):
    """The choice of a classifier on the validation rows."""

    best: str  # key of the best candidate
    used: str  # key of the simplest candidate that ties with the best
    ties: tuple[str, ...]  # keys of all candidates that tie, the simplest first
    able: bool  # True if the used one clearly beats always predicting the largest class


def choose(candidates: Sequence[Candidate], plan: Plan) -> Choice:
    """Choose the simplest of the candidates at most one paired standard error behind the best."""
    weights, *every = metrics.distinct(
        plan.copies, plan.weights, *(c.hits(plan.labels) for c in candidates)
    )
    hits = {c.key: own for c, own in zip(candidates, every, strict=True)}
    others = [c for c in candidates if c.family != "baseline"]
    best = max(others, key=lambda c: (round(float(hits[c.key] @ weights), 12), -c.rank))

    def behind(key: str, first: Tensor) -> bool:
        less, error = metrics.mean_and_error(first - hits[key], weights)
        return less <= error + 1e-12

    ties = sorted((c for c in others if behind(c.key, hits[best.key])), key=lambda c: c.rank)
    used = ties[0].key
    ahead, error = metrics.mean_and_error(hits[used] - hits["majority"], weights)
    return Choice(best.key, used, tuple(c.key for c in ties), ahead > BEATS * error)


def recommend(
    methods: Sequence[Method], choice: Choice, data: FeatureSet, plan: Plan
) -> Recommendation:
    """Put the choice into sentences."""
    named = {m.key: m for m in methods}
    used, best = named[choice.used], named[choice.best]
    if not choice.able:
        words = class_name(data.class_names[int(data.counts.argmax())])
        reason = f"On {plan.words}, no method is clearly ahead of always predicting {words} "
        reason += f"({percent(named['majority'].validation)} {plan.metric}; the best is "
        reason += f"{best.name} with {percent(best.validation)})."
        first = "These features do not carry these labels."
        return Recommendation(None, choice.best, (first, reason), "")
    value = used.metric(plan.metric)
    first = f"Use {used.name}: {percent(value)} {plan.metric} on the test rows "
    first += f"({100 * value.low:.1f} to {100 * value.high:.1f})."
    shown = f"{percent(used.validation)} {plan.metric} on the validation rows"
    if len(choice.ties) == 1:
        reason = f"It is the best of all {len(methods) - 1} methods: {shown}"
        if len(methods) == 2:
            reason = f"It is the only method: {shown}"
    else:
        reason = f"It is the simplest of the {len(choice.ties)} methods within one standard error "
        reason += f"of the best: {shown}"
        if used.validation.value < best.validation.value:
            reason += f"; the best is {best.name} with {percent(best.validation)}"
    if other := compared(methods, used):
        d = other.difference
        assert d is not None
        words = {"tie": "is not clearly different from", "worse": "beats", "better": "is behind"}
        reason += f". On the test rows it {words[d.verdict]} {other.name}: "
        reason += in_points(-d.gain, -d.high, -d.low)
    return Recommendation(used.key, choice.best, (first, f"{reason}."), used.code)


def compared(methods: Sequence[Method], used: Method) -> Method | None:
    """Return the best method of the other family by validation, else the best other one."""
    others = [m for m in methods if m.family != "baseline" and m.difference is not None]
    apart = [m for m in others if m.family != used.family]
    return max(apart or others, key=lambda m: m.validation.value, default=None)


def percent(value: metrics.Estimate) -> str:
    """Return an estimate in percent."""
    return f"{100 * value.value:.1f} %"
