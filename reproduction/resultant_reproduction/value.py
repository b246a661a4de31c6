"""Means over runs with their spread, and contrasts of such means with 95 % intervals.

A contrast is a weighted sum of independent means. Its variance is the sum of the variances of the
weighted means (Welch) and its degrees of freedom are those of Welch and Satterthwaite.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from resultant_reproduction.formats import SIGNIFICANCE as LEVEL

# The paper prints standard deviations of three seeds.
PRINTED_SEEDS = 3


class Value(NamedTuple):
    """A mean over ``n`` runs, 0 for an exact number, and their sample standard deviation, None
    where it is unknown."""

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
    run allows neither; ``n`` counts runs, or queries unless ``seeds``.

    Interval and test agree, except for hits, whose interval is normal and whose test is exact.
    """

    mean: float
    low: float | None = None
    high: float | None = None
    n: int = 0
    seeds: bool = False
    p: float | None = None
    error: float | None = None
    freedom: float = 0.0

    @property
    def sign(self) -> int | None:
        """1 or -1 where the interval excludes zero and the test agrees, else 0; None without an
        interval."""
        if self.low is None or self.high is None:
            return None
        if not self.seeds and self.p is not None and self.p >= LEVEL:
            return 0
        return int(self.low > 0) - int(self.high < 0)

    def contains(self, number: float) -> bool | None:
        """Test whether the interval contains a number, up to rounding; None without an interval."""
        if self.low is None or self.high is None:
            return None
        room = 1e-12 * max(abs(self.low), abs(self.high), abs(number))
        return self.low - room <= number <= self.high + room

    def interval(self, digits: int = 2, sign: bool = True) -> str:
        """Format the ends in brackets, or a dash. Ends keep the sign of a zero: it shows whether
        zero is between them."""
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
        return Estimate(mean, n=n, seeds=True)
    # An exact number has no variance.
    parts = [((w * (own.sd or 0.0)) ** 2 / own.n, own.n - 1) for w, own in terms if own.n]
    total = math.fsum(variance for variance, _ in parts)
    if not total:
        return Estimate(mean, mean, mean, n, True, None, 0.0, math.inf)
    from scipy.stats import t

    freedom = total**2 / math.fsum(variance**2 / free for variance, free in parts)
    error = math.sqrt(total)
    reach = float(t.ppf(1 - LEVEL / 2, freedom)) * error
    p = 2 * float(t.sf(abs(mean) / error, freedom))
    return Estimate(mean, mean - reach, mean + reach, n, True, p, error, freedom)


def over_settings(differences: Sequence[Sequence[float]]) -> Estimate | None:
    """Mean over settings of the means over networks, with its interval; None without networks.

    The settings are fixed, not a sample, so that the variance is that of the means within them.
    There is no interval where a setting has one network, or nothing varies but by rounding.
    """
    if not any(differences):
        return None
    estimate = contrast([(1 / len(differences), Value.over(own)) for own in differences])
    if all(max(own) - min(own) <= 1e-9 * max(map(abs, own)) for own in differences):
        return Estimate(estimate.mean, n=estimate.n, seeds=True)
    return estimate
