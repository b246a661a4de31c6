"""Verdicts by the rules of ``protocol.md``: two intervals, power, and corrections."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from resultant_reproduction.formats import SIGNIFICANCE as LEVEL
from resultant_reproduction.value import Estimate, Terms, Value, contrast

POWER = 0.8

CONFIRMED = "confirmed"
OTHER_SIZE = "same direction, other size"
INCONCLUSIVE = "inconclusive"
NOT_REPRODUCED = "not reproduced"
NEEDS_DATA = "needs data"
VERDICTS = (CONFIRMED, OTHER_SIZE, INCONCLUSIVE, NOT_REPRODUCED, NEEDS_DATA)


def power(terms: Terms, effect: float, n: int) -> float:
    """Compute the power of the test of a contrast at an effect, with ``n`` runs per arm, by the
    noncentral t distribution. The deviations of single runs are those of the arms."""
    from scipy.stats import nct, t

    parts = [(weight * (arm.sd or 0.0)) ** 2 / n for weight, arm in terms]
    total = math.fsum(parts)
    if not total:
        return 1.0
    freedom = total**2 / math.fsum(v**2 / (n - 1) for v in parts)
    reach, shift = float(t.ppf(1 - LEVEL / 2, freedom)), effect / math.sqrt(total)
    return float(nct.sf(reach, freedom, shift) + nct.cdf(-reach, freedom, shift))


def seeds_needed(terms: Terms, effect: float) -> int | None:
    """Find the fewest runs per arm with a power of 80 % at an effect; None where a spread is
    unknown, the effect is zero, or more than 2^17 would be needed."""
    if not effect or any(arm.sd is None for _, arm in terms):
        return None

    def enough(n: int) -> bool:
        return power(terms, abs(effect), n) >= POWER

    # The power grows with the runs; at far too many of them its computation may fail.
    high = next((2**k for k in range(1, 18) if enough(2**k)), None)
    return None if high is None else bisect_left(range(high), True, max(2, high // 2), key=enough)


@dataclass(frozen=True)
class Judgement:
    """A verdict with our effect or number, that less the printed one, and the printed one, also
    with its interval (``paper``) where deviations are printed. ``seeds`` are the runs per arm for a
    power of 80 % at the printed size, if inconclusive."""

    verdict: str
    ours: Estimate | None = None
    apart: Estimate | None = None
    printed: float | None = None
    seeds: int | None = None
    paper: Estimate | None = None

    @property
    def text(self) -> str:
        """The verdict, with the seeds that would settle it."""
        return self.verdict + (f" ({self.seeds:,} seeds per arm)" if self.seeds else "")

    @property
    def pair(self) -> tuple[Estimate | None, Estimate | None]:
        """Ours and the printed one, which is exact without an interval."""
        size = self.printed
        return self.ours, self.paper or (None if size is None else Estimate(size, size, size))

    @property
    def n(self) -> int:
        return self.ours.n if self.ours else 0


def judge_effect(terms: Terms, printed: Terms) -> Judgement:
    """Judge an effect with a printed size by two intervals, from our arms, empty without runs, and
    the printed arms, with the same weights or as one number."""
    size = math.fsum(weight * arm.mean for weight, arm in printed)
    if not terms:
        return Judgement(NEEDS_DATA, printed=size)
    ours = contrast(terms)
    apart = contrast([*terms, *((-weight, arm) for weight, arm in printed)])
    zero, same = ours.contains(0.0), apart.contains(0.0)
    if zero is None or (zero and same):
        seeds = seeds_needed(terms, size)
        return Judgement(INCONCLUSIVE, ours, apart, size, seeds, contrast(printed))
    if zero or ours.mean * size <= 0:
        verdict = NOT_REPRODUCED
    else:
        verdict = CONFIRMED if same else OTHER_SIZE
    return Judgement(verdict, ours, apart, size, None, contrast(printed))


def judge_number(
    terms: Terms, printed: float | None, threshold: float | None = None, side: str = "above"
) -> Judgement:
    """Judge a number without a sign, from our arms, empty without runs.

    With a printed value it is confirmed where our interval contains the value, and of another size
    where our mean is on the printed side of the threshold: "above", "below", or "within" for the
    size. Without a printed value the claim is the side alone: the whole interval has to lie there.
    """
    if not terms:
        return Judgement(NEEDS_DATA, printed=printed)
    ours, apart = contrast(terms), None
    if printed is not None:
        less = contrast([*terms, (-1.0, Value.printed(printed))])
        apart = less._replace(p=None)
    if ours.low is None or ours.high is None:
        return Judgement(INCONCLUSIVE, ours, apart, printed)

    def on_side(number: float) -> bool:
        if threshold is None:
            return False
        if side == "within":
            return abs(number) <= threshold
        return number >= threshold if side == "above" else number <= threshold

    if printed is None:
        ends = {on_side(ours.low), on_side(ours.high)}
        if len(ends) == 2:
            return Judgement(INCONCLUSIVE, ours)
        return Judgement(CONFIRMED if True in ends else NOT_REPRODUCED, ours)
    verdict = OTHER_SIZE if on_side(ours.mean) else NOT_REPRODUCED
    return Judgement(CONFIRMED if ours.contains(printed) else verdict, ours, apart, printed)


def judge_check(passed: bool | None) -> Judgement:
    """Judge a mathematical identity; None where the check leaves it open."""
    if passed is None:
        return Judgement(INCONCLUSIVE)
    return Judgement(CONFIRMED if passed else NOT_REPRODUCED)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust the p values of one family by Holm's method, in their order."""
    adjusted, least = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = least
    return adjusted


def adjusted(estimates: Mapping[str, Estimate | None]) -> dict[str, float]:
    """Adjust the p values of the estimates of one family that have one, by name."""
    tested = {name: e.p for name, e in estimates.items() if e is not None and e.p is not None}
    return dict(zip(tested, holm([*tested.values()]), strict=True))


def pooled_variance(groups: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Pool the variances of groups of runs: the variance and its degrees of freedom."""
    freedom = sum(len(values) - 1 for values in groups)
    total = sum(statistics.variance(v) * (len(v) - 1) for v in groups if len(v) > 1)
    return total / freedom, freedom


def variance_ratio(
    ours: tuple[float, float], printed: tuple[float, float]
) -> tuple[float, float, float]:
    """Divide two variances, each with its degrees of freedom: the ratio and its F interval."""
    from scipy.stats import f

    ratio, tail = ours[0] / printed[0], LEVEL / 2
    low, high = (float(f.ppf(q, ours[1], printed[1])) for q in (1 - tail, tail))
    return ratio, ratio / low, ratio / high
