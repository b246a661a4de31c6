"""Statistics of the protocol: contrasts of independent arms, two intervals, and verdicts.

A contrast is a weighted sum of arm means. Its variance is the sum of the variances of the weighted
means (Welch) and its degrees of freedom are those of Welch and Satterthwaite. The rules are those
of ``protocol.md``.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

LEVEL = 0.05
POWER = 0.8
# The paper prints standard deviations of three seeds.
PRINTED_SEEDS = 3

CONFIRMED = "confirmed"
OTHER_SIZE = "same direction, other size"
INCONCLUSIVE = "inconclusive"
NOT_REPRODUCED = "not reproduced"
NEEDS_DATA = "needs data"
VERDICTS = (CONFIRMED, OTHER_SIZE, INCONCLUSIVE, NOT_REPRODUCED, NEEDS_DATA)


class Arm(NamedTuple):
    """The mean of independent runs.

    Attributes:
        mean: The mean.
        variance: Variance of the mean, None if it is unknown.
        freedom: Degrees of freedom of the variance.
        n: Number of runs; 0 for a printed mean.
    """

    mean: float
    variance: float | None
    freedom: float
    n: int

    @staticmethod
    def of(values: Sequence[float]) -> Arm:
        """Summarize runs; one run has no variance."""
        n = len(values)
        variance = statistics.variance(values) / n if n > 1 else None
        return Arm(statistics.fmean(values), variance, n - 1.0, n)

    @staticmethod
    def printed(mean: float, sd: float | None = None) -> Arm:
        """Take a printed mean as exact, or as that of three seeds where a deviation is printed."""
        if sd is None:
            return Arm(mean, 0.0, math.inf, 0)
        return Arm(mean, sd**2 / PRINTED_SEEDS, PRINTED_SEEDS - 1.0, 0)


Terms = Sequence[tuple[float, Arm]]


class Estimate(NamedTuple):
    """A contrast with its 95 % interval and p value; None where an arm of one run allows neither.

    Attributes:
        mean: The contrast.
        error: Standard error.
        freedom: Degrees of freedom.
        low: Lower end of the interval.
        high: Upper end of the interval.
        p: Two-sided p value of the contrast against zero.
        runs: Number of runs of all arms.
    """

    mean: float
    error: float | None = None
    freedom: float = 0.0
    low: float | None = None
    high: float | None = None
    p: float | None = None
    runs: int = 0

    def contains(self, number: float) -> bool | None:
        """Test whether the interval contains a number, up to rounding; None without an interval."""
        if self.low is None or self.high is None:
            return None
        room = 1e-12 * max(abs(self.low), abs(self.high), abs(number))
        return self.low - room <= number <= self.high + room

    def interval(self, digits: int, sign: bool = True) -> str:
        """Format the ends in brackets, or a dash."""
        if self.low is None or self.high is None:
            return "–"
        form = f"{'+' if sign else ''},.{digits}f"
        return f"[{self.low:{form}}, {self.high:{form}}]"

    def text(self, digits: int, sign: bool = True) -> str:
        """Format the mean with the interval."""
        mean = f"{self.mean:{'+' if sign else ''}z,.{digits}f}"
        return mean if self.low is None else f"{mean} {self.interval(digits, sign)}"


def contrast(terms: Terms) -> Estimate:
    """Estimate a weighted sum of independent means."""
    mean = math.fsum(weight * arm.mean for weight, arm in terms)
    runs = sum(arm.n for _, arm in terms)
    parts = [
        (weight**2 * arm.variance, arm.freedom) for weight, arm in terms if arm.variance is not None
    ]
    if len(parts) < len(terms):
        return Estimate(mean, runs=runs)
    total = math.fsum(variance for variance, _ in parts)
    if not total:
        return Estimate(mean, 0.0, math.inf, mean, mean, None, runs)
    freedom = total**2 / math.fsum(v**2 / free for v, free in parts)
    from scipy.stats import t

    error = math.sqrt(total)
    reach = float(t.ppf(1 - LEVEL / 2, freedom)) * error
    p = 2 * float(t.sf(abs(mean) / error, freedom))
    return Estimate(mean, error, freedom, mean - reach, mean + reach, p, runs)


def negative(terms: Terms) -> Terms:
    """Change the signs of all weights."""
    return [(-weight, arm) for weight, arm in terms]


def power(terms: Terms, effect: float, n: int) -> float:
    """Compute the power of the test of a contrast at an effect, with ``n`` runs per arm.

    The deviations of single runs are those of the arms. The power is that of the noncentral t
    distribution with the degrees of freedom of Welch and Satterthwaite.
    """
    from scipy.stats import nct, t

    parts = [weight**2 * (arm.variance or 0.0) * arm.n / n for weight, arm in terms]
    total = math.fsum(parts)
    if not total:
        return 1.0
    freedom = total**2 / math.fsum(v**2 / (n - 1) for v in parts)
    reach, shift = float(t.ppf(1 - LEVEL / 2, freedom)), effect / math.sqrt(total)
    return float(nct.sf(reach, freedom, shift) + nct.cdf(-reach, freedom, shift))


def seeds_needed(terms: Terms, effect: float) -> int | None:
    """Find the fewest runs per arm with a power of 80 % at an effect; None where a spread is
    unknown, the effect is zero, or more than 100,000 would be needed."""
    if not effect or any(arm.variance is None for _, arm in terms):
        return None
    return _least(lambda n: power(terms, abs(effect), n) >= POWER, 100_000)


def _least(enough: Callable[[int], bool], most: int) -> int | None:
    """Find the least number from 2 on that is enough, where more are enough too."""
    high = 2
    while not enough(high):
        if high >= most:
            return None
        high = min(2 * high, most)
    low = max(2, high // 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return high


@dataclass(frozen=True)
class Judgement:
    """A verdict with its two intervals.

    Attributes:
        verdict: One of `VERDICTS`.
        ours: Our effect or number; None without runs.
        apart: Ours less the printed one; None without a printed number.
        printed: The printed effect or number.
        seeds: Runs per arm for a power of 80 % at the printed size, if inconclusive.
        paper: The printed effect with its interval, where the paper prints deviations.
    """

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


def judge_effect(terms: Terms, printed: Terms) -> Judgement:
    """Judge an effect with a printed size by two intervals.

    Args:
        terms: Our arms; empty without runs.
        printed: The printed arms, with the same weights or as one number.
    """
    size = math.fsum(weight * arm.mean for weight, arm in printed)
    if not terms:
        return Judgement(NEEDS_DATA, printed=size)
    ours, apart = contrast(terms), contrast([*terms, *negative(printed)])
    verdict = _of_effect(ours, apart, size)
    seeds = seeds_needed(terms, size) if verdict == INCONCLUSIVE else None
    return Judgement(verdict, ours, apart, size, seeds, contrast(printed))


def _of_effect(ours: Estimate, apart: Estimate, printed: float) -> str:
    zero = ours.contains(0.0)
    if zero is None:
        return INCONCLUSIVE
    if zero:
        return INCONCLUSIVE if apart.contains(0.0) else NOT_REPRODUCED
    if ours.mean * printed <= 0:
        return NOT_REPRODUCED
    return CONFIRMED if apart.contains(0.0) else OTHER_SIZE


def judge_number(
    terms: Terms, printed: float | None, threshold: float | None = None, side: str = "above"
) -> Judgement:
    """Judge a number without a sign.

    With a printed value it is confirmed where our interval contains the value, and of another size
    where our mean is on the printed side of the threshold. Without a printed value the claim is the
    side alone: the whole interval has to lie there.

    Args:
        terms: Our arms; empty without runs.
        printed: The printed value, None where the paper gives none.
        threshold: The threshold that the claim names.
        side: The printed side of the threshold: "above", "below", or "within" for the size.
    """
    if not terms:
        return Judgement(NEEDS_DATA, printed=printed)
    ours = contrast(terms)
    if ours.low is None or ours.high is None:
        return Judgement(INCONCLUSIVE, ours, _less(ours, printed), printed)

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
    if ours.contains(printed):
        verdict = CONFIRMED
    return Judgement(verdict, ours, _less(ours, printed), printed)


def _less(ours: Estimate, printed: float | None) -> Estimate | None:
    if printed is None:
        return None
    low, high = (None if end is None else end - printed for end in (ours.low, ours.high))
    return ours._replace(mean=ours.mean - printed, low=low, high=high, p=None)


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


def pooled_variance(groups: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Pool the variances of groups of runs: the variance and its degrees of freedom."""
    freedom = sum(len(values) - 1 for values in groups)
    total = sum(statistics.variance(v) * (len(v) - 1) for v in groups if len(v) > 1)
    return total / freedom, freedom


def variance_ratio(
    ours: tuple[float, float], printed: tuple[float, float], level: float = LEVEL
) -> tuple[float, float, float]:
    """Divide two variances, each with its degrees of freedom: the ratio and its F interval."""
    from scipy.stats import f

    ratio = ours[0] / printed[0]
    low, high = (float(f.ppf(q, ours[1], printed[1])) for q in (1 - LEVEL / 2, level / 2))
    return ratio, ratio / low, ratio / high
