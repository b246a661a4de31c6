"""The verdict of a comparison of two sets of features, and its sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from resultant._core.text import counted
from resultant.analysis import Advice, Analysis, Policy, Result
from resultant.analysis.headline import rule_text
from resultant.analysis.metrics import NORMAL, SIGNIFICANCE, paired_gain
from resultant.classes.groups import GROUPS
from resultant.classifiers.choice import MARGIN
from resultant.report.explorer import Side
from resultant.report.words import features_name, p_value, percent, points, rule_name, settings

SIDES = ("A", "B")


@dataclass(frozen=True, eq=False)
class Verdict(Result):
    """The more accurate side on held-out rows, each side with the rule recommended for it.

    Attributes:
        better: "A" or "B" if p < 0.05 and the gain is half a point or more, else None.
        accuracy: Accuracies of A and B.
        gain: Accuracy of B minus accuracy of A.
        low, high: Normal 95 % interval of the gain.
        p: p-value of McNemar's test on the same rows, else of the normal test.
        same_rows: True if the differences are paired.
        rows: Held-out rows of A and B.
    """

    better: str | None
    accuracy: tuple[float, float]
    gain: float
    low: float
    high: float
    p: float
    same_rows: bool
    rows: tuple[int, int]

    @property
    def tie(self) -> bool:
        """True if the interval of the gain is within half a point."""
        return self.low > -MARGIN and self.high < MARGIN


def recommended(a: Analysis) -> Policy:
    """Return the rule that is advised for a side; native if there is none."""
    if a.advice is not None:
        at = settings(a)
        return Policy(at.realization, at.beta, at.prior).canonical
    return Policy("native").canonical


def verdict(a: Tensor, b: Tensor, *, same_rows: bool) -> Verdict:
    """Compare the accuracies of A and B.

    Args:
        a: True for the rows that A classifies correctly, [N].
        b: The same for B, [M].
        same_rows: Pair the rows of A and B, N = M.
    """
    x, y = float(a.double().mean()), float(b.double().mean())
    if same_rows:
        paired = paired_gain(a, b)
        gain, low, high, p = paired.gain, paired.low, paired.high, paired.p_value
    else:
        gain = y - x
        reach = NORMAL * math.sqrt(x * (1 - x) / len(a) + y * (1 - y) / len(b))
        low, high = max(-1.0, gain - reach), min(1.0, gain + reach)
        pooled = float(a.sum() + b.sum()) / (len(a) + len(b))
        error = math.sqrt(pooled * (1 - pooled) * (1 / len(a) + 1 / len(b)))
        p = math.erfc(abs(gain) / error / math.sqrt(2)) if error else 1.0
    better = None if p >= SIGNIFICANCE or abs(gain) < MARGIN else SIDES[gain > 0]
    return Verdict(better, (x, y), gain, low, high, p, same_rows, (len(a), len(b)))


def headline(name: str, v: Verdict, pair: tuple[Side, Side]) -> list[tuple[str, str]]:
    """Return the three sentences of the page."""
    used = [recommended(side.analysis) for side in pair]
    do = "Take the side that is cheaper to make, or compare on more held-out rows."
    if v.better is not None:
        side = SIDES.index(v.better)
        chosen = rule_name(used[side].realization, used[side].beta)
        if (advice := pair[side].analysis.advice) is not None:
            chosen = rule_text(advice.row(advice.advised))
        do = f"Use the {features_name(name)} of {v.better}, with {chosen}."
    references = [(_reference(side.analysis.advice), side.name) for side in pair]
    better = " and ".join(f"{text} in {side}" for text, side in references if text)
    if better:
        do += f" Better than every vMF rule: {better}."
    return [("found", _found(v)), ("do", do), ("worth", _worth(pair, used))]


def _found(v: Verdict) -> str:
    _, _, rest = answer(v).partition(": ")
    subject = "A tie" if v.tie else "Neither side is shown to be better"
    return f"{f'{v.better} is better' if v.better else subject}: {rest}."


def _worth(pair: tuple[Side, Side], used: Sequence[Policy]) -> str:
    """Return who gains from the difference: groups and classes."""
    at = [
        None if side.analysis.grid is None else side.analysis.grid.point(*policy)
        for side, policy in zip(pair, used, strict=True)
    ]
    if any(p is None or p.per_class is None for p in at):
        return "The classes cannot be compared one by one."
    (a, b) = (p for p in at if p is not None)
    assert a.per_class is not None and b.per_class is not None
    change = b.per_class - a.per_class
    up, down = int((change > 0).sum()), int((change < 0).sum())
    rise = counted(up, "class is", "classes are") if up else "No class is"
    text = f"{rise} more accurate in B, {f'{down:,}' if down else 'none'} in A"
    groups = [
        f"{g} {points(after - before)}"
        for g in GROUPS
        if (before := (a.groups or {}).get(g)) is not None
        and (after := (b.groups or {}).get(g)) is not None
    ]
    return (
        f"{text}; the mean accuracy changes by {', '.join(groups)} points."
        if groups
        else f"{text}."
    )


def answer(v: Verdict) -> str:
    a, b = map(percent, v.accuracy)
    rows = f"the same {counted(v.rows[0], 'held-out row', 'held-out rows')}"
    if not v.same_rows:
        rows = f"{v.rows[0]:,} and {v.rows[1]:,} held-out rows, which are not known to be the same"
    gain = f"B - A is {points(v.gain)} points [{points(v.low)}, {points(v.high)}], {p_value(v.p)}"
    if v.same_rows and v.low == v.high:
        gain = "both are correct on the same rows"
    best = v.better or ("a tie" if v.tie else "neither is shown to be")
    return f"{best}: {a} accuracy in A and {b} in B on {rows}; {gain}"


def advised_rule(a: Analysis) -> str:
    if a.advice is None:
        return "no advice"
    policy, row = recommended(a), a.advice.row(a.advice.advised)
    text = f"{rule_name(policy.realization, policy.beta)}, {percent(row.accuracy)} accurate"
    other = _reference(a.advice)
    return f"{text}; better than every vMF rule: {other}" if other else text


def _reference(advice: Advice | None) -> str:
    """Return the reference that is better than every vMF rule with its accuracy, or ""."""
    if advice is None or advice.verdict != "reference":
        return ""
    return f"{advice.row(advice.best).name} ({percent(advice.row(advice.best).accuracy)})"
