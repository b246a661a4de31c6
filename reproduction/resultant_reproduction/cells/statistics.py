"""Means over runs, contrasts of means with 95 % intervals, and verdicts (``protocol.md``).

A contrast is a weighted sum of independent means. Its variance is the sum of the variances of the
weighted means (Welch) and its degrees of freedom are those of Welch and Satterthwaite.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from resultant_reproduction.cells.text import SIGNIFICANCE as LEVEL

# The paper prints standard deviations of three seeds.
PRINTED_SEEDS = 3
POWER = 0.8

CONFIRMED = "confirmed"
OTHER_SIZE = "same direction, other size"
INCONCLUSIVE = "inconclusive"
NOT_REPRODUCED = "not reproduced"
NEEDS_DATA = "needs data"
VERDICTS = (CONFIRMED, OTHER_SIZE, INCONCLUSIVE, NOT_REPRODUCED, NEEDS_DATA)


class Value(NamedTuple):
    """A mean over ``n`` runs, 0 for an exact number, and their standard deviation, if known."""

    mean: float
    sd: float | None = None
    n: int = 1

    @staticmethod
    def over(values: Sequence[float]) -> Value:
        """Summarize runs."""
        sd = statistics.stdev(values) if len(values) > 1 else None
        return Value(statistics.fmean(values), sd, len(values))

    @staticmethod
    def of(values: Sequence[float]) -> Value | None:
        """Summarize runs; None without runs."""
        return Value.over(values) if values else None

    @staticmethod
    def printed(mean: float, sd: float | None = None) -> Value:
        """Take a printed mean as exact, or as that of three seeds where a deviation is printed."""
        return Value(mean, 0.0, 0) if sd is None else Value(mean, sd, PRINTED_SEEDS)

    def text(self, digits: int, sign: bool = False) -> str:
        """Format mean and standard deviation."""
        # z: a mean that rounds to zero has no minus sign.
        mean = f"{self.mean:{'+' if sign else ''}z,.{digits}f}"
        return mean if self.sd is None else f"{mean} ± {self.sd:.{digits}f}"

    def counted(self, planned: int) -> str:
        """Format the number of runs in brackets, with the planned number where they are fewer."""
        return f" [{self.n} of {planned}]" if self.n < planned else f" [{self.n}]"


Terms = Sequence[tuple[float, Value]]


class Estimate(NamedTuple):
    """A mean with its 95 % interval and the p value of its test against zero, None where a single
    run allows neither; ``n`` counts runs, or queries."""

    mean: float
    low: float | None = None
    high: float | None = None
    n: int = 0
    p: float | None = None
    error: float | None = None
    freedom: float = 0.0

    @property
    def sign(self) -> int | None:
        """1 or -1 where the interval excludes zero, else 0; None without an interval."""
        if self.low is None or self.high is None:
            return None
        return int(self.low > 0) - int(self.high < 0)

    def contains(self, number: float) -> bool | None:
        """Test whether the interval contains a number, up to rounding; None without an interval."""
        if self.low is None or self.high is None:
            return None
        room = 1e-12 * max(abs(self.low), abs(self.high), abs(number))
        return self.low - room <= number <= self.high + room

    def within(self, margin: float) -> bool | None:
        """Test for equivalence to zero: whether the 90 % interval lies within the margin (two
        one-sided tests); None without an interval."""
        from scipy.stats import t

        if self.error is None or not self.freedom:
            return None
        return abs(self.mean) + float(t.isf(LEVEL, self.freedom)) * self.error <= margin

    def interval(self, digits: int = 2, sign: bool = True) -> str:
        """Format the ends in brackets, with the sign of a zero, or a dash."""
        if self.low is None or self.high is None:
            return "–"
        form = f"{'+' if sign else ''},.{digits}f"
        return f"[{self.low:{form}}, {self.high:{form}}]"

    def text(self, digits: int = 2, sign: bool = True) -> str:
        """Format the mean with the interval."""
        mean = f"{self.mean:{'+' if sign else ''}z,.{digits}f}"
        return mean if self.low is None else f"{mean} {self.interval(digits, sign)}"


def contrast(terms: Terms) -> Estimate:
    """Estimate a weighted sum of independent means."""
    mean, n = math.fsum(w * own.mean for w, own in terms), sum(own.n for _, own in terms)
    if any(own.sd is None for _, own in terms):
        return Estimate(mean, n=n)
    # An exact number has no variance.
    parts = [((w * (own.sd or 0.0)) ** 2 / own.n, own.n - 1) for w, own in terms if own.n]
    total = math.fsum(variance for variance, _ in parts)
    if not total:
        return Estimate(mean, mean, mean, n, None, 0.0, math.inf)
    from scipy.stats import t

    freedom = total**2 / math.fsum(variance**2 / free for variance, free in parts)
    error = math.sqrt(total)
    reach = float(t.ppf(1 - LEVEL / 2, freedom)) * error
    p = 2 * float(t.sf(abs(mean) / error, freedom))
    return Estimate(mean, mean - reach, mean + reach, n, p, error, freedom)


def over_settings(differences: Sequence[Sequence[float]]) -> Estimate | None:
    """Mean over fixed settings of the means over networks; None without networks. There is no
    interval where a setting has one network, or nothing varies but by rounding."""
    if not any(differences):
        return None
    estimate = contrast([(1 / len(differences), Value.over(own)) for own in differences])
    if all(max(own) - min(own) <= 1e-9 * max(map(abs, own)) for own in differences):
        return Estimate(estimate.mean, n=estimate.n)
    return estimate


def power(terms: Terms, effect: float, n: int) -> float:
    """Compute the power of the test of a contrast at an effect, with ``n`` runs per arm."""
    from scipy.stats import nct, t

    parts = [(weight * (arm.sd or 0.0)) ** 2 / n for weight, arm in terms]
    if not (total := math.fsum(parts)):
        return 1.0
    freedom = total**2 / math.fsum(v**2 / (n - 1) for v in parts)
    reach, shift = float(t.ppf(1 - LEVEL / 2, freedom)), effect / math.sqrt(total)
    return float(nct.sf(reach, freedom, shift) + nct.cdf(-reach, freedom, shift))


def seeds_needed(terms: Terms, effect: float) -> int | None:
    """Find the fewest runs per arm, up to 2^17, with a power of 80 % at an effect."""
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
    """Judge an effect with a printed size by two intervals, from our arms and the printed ones."""
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
    terms: Terms,
    printed: float | None,
    threshold: float | None = None,
    side: str = "above",
    margin: float = math.inf,
) -> Judgement:
    """Judge a number without a sign, from our arms, empty without runs: by its printed value, which
    an interval that leaves the margin around it cannot confirm, or by the side of the threshold on
    which the interval lies, "above", "below" or "within" its size."""
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
    if ours.contains(printed):
        reach = max(printed - ours.low, ours.high - printed)
        near = reach <= margin + 1e-12 * abs(printed)
        return Judgement(CONFIRMED if near else INCONCLUSIVE, ours, apart, printed)
    verdict = OTHER_SIZE if on_side(ours.mean) else NOT_REPRODUCED
    return Judgement(verdict, ours, apart, printed)


def judge_check(passed: bool | None) -> Judgement:
    """Judge a mathematical identity; None where the check leaves it open."""
    return Judgement({None: INCONCLUSIVE, True: CONFIRMED, False: NOT_REPRODUCED}[passed])


class Heterogeneity(NamedTuple):
    """Whether the effects of several settings are one: Cochran's ``q`` with its degrees of freedom
    and p value, the mean weighted by inverse variances (normal interval), and the mean of settings
    that are taken as a sample of settings (Student's interval)."""

    q: float
    freedom: int
    p: float
    weighted: Estimate
    sampled: Estimate


def heterogeneity(effects: Sequence[Estimate]) -> Heterogeneity | None:
    """Compare the effects of independent settings; None unless two or more have an error."""
    from scipy.stats import chi2, norm

    if len(effects) < 2 or not all(own.error for own in effects):
        return None
    weights = [own.error**-2 for own in effects if own.error]
    error, n = math.fsum(weights) ** -0.5, sum(own.n for own in effects)
    mean = error**2 * math.fsum(w * own.mean for w, own in zip(weights, effects, strict=True))
    q = math.fsum(w * (own.mean - mean) ** 2 for w, own in zip(weights, effects, strict=True))
    reach, p = float(norm.isf(LEVEL / 2)) * error, 2 * float(norm.sf(abs(mean) / error))
    weighted = Estimate(mean, mean - reach, mean + reach, n, p, error, math.inf)
    sampled = contrast([(1.0, Value.over([own.mean for own in effects]))])._replace(n=n)
    return Heterogeneity(
        q, len(effects) - 1, float(chi2.sf(q, len(effects) - 1)), weighted, sampled
    )


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
