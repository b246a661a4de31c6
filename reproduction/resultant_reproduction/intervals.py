"""Differences with their 95 % intervals: over queries, over seeds, and by resampling."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from resultant.analysis.metrics import NORMAL, paired_gain
from resultant_reproduction.artefact import SIGNIFICANCE, equal

DRAWS = 400


class Interval(NamedTuple):
    """A mean over ``n`` queries, classes or ``seeds``, its interval, and the p value of its test;
    neither where a single seed says nothing of it. Interval and test are one, but that of hits the
    interval is normal and the test exact."""

    mean: float
    low: float | None
    high: float | None
    n: int
    seeds: bool = False
    p: float | None = None

    @property
    def sign(self) -> int | None:
        """1 or -1 where the interval leaves zero out, and of queries the test says so too, else 0;
        None without an interval."""
        if self.low is None or self.high is None:
            return None
        if not self.seeds and self.p is not None and self.p >= SIGNIFICANCE:
            return 0
        return int(self.low > 0) - int(self.high < 0)

    def said(self, digits: int = 2, sign: bool = True) -> str:
        """The mean and, in brackets, the ends."""
        form = f",.{digits}f"
        plus = "+" if sign else ""
        mean = f"{self.mean:{plus}z{form}}"
        if self.low is None or self.high is None:
            return mean
        # Ends keep their signs, which say whether zero is between them.
        return f"{mean} [{self.low:{plus}{form}}, {self.high:{plus}{form}}]"

    def effect(self, what: str, digits: int = 2) -> str:
        """In words: that ``what`` rises or falls, or that no effect was seen, and the numbers."""
        said = self.said(digits)
        if self.sign is None:
            seeds = "one seed" if self.n == 1 else f"{self.n} equal differences"
            return f"{what} {said}, {seeds}: not tested"
        if self.seeds:
            said += f" over {self.n} seeds"
        if self.sign:
            return f"{what} {'rises' if self.sign > 0 else 'falls'} by {said}"
        return f"no effect on {what} seen, {said}"


def over_queries(after: Tensor, before: Tensor, scale: float = 1.0) -> Interval:
    """The mean of the differences [N] of two rules on the same queries, with a normal interval; for
    hits, [N] bool, and McNemar's exact p value, as `resultant.analysis.metrics.paired_gain`."""
    if after.dtype == before.dtype == torch.bool:
        gain, low, high, p = paired_gain(before, after)[:4]
        return Interval(scale * gain, scale * low, scale * high, len(after), p=p)
    d = scale * (after.double() - before.double())
    mean, error = float(d.mean()), float(d.std(correction=0)) / math.sqrt(len(d))
    reach, p = NORMAL * error, math.erfc(abs(mean) / error / math.sqrt(2)) if error else None
    return Interval(mean, mean - reach, mean + reach, len(d), p=p)


def over_seeds(differences: Sequence[float]) -> Interval | None:
    """The mean of paired differences over seeds with Student's interval: it has zero in it where
    the paired t test is not significant."""
    return over_settings([differences])


def over_settings(
    differences: Sequence[Sequence[float]],
    level: float = SIGNIFICANCE,
    printed: Sequence[tuple[float, float]] = (),
) -> Interval | None:
    """The mean over settings of the means over networks, or seeds, with its interval.

    The settings are those of the paper, not a sample of others, so that its variance is that of
    the means within them; degrees of freedom by Welch and Satterthwaite, which for one setting are
    Student's. No interval where a setting has one network, or nothing varies. Where the differences
    are from printed means, ``printed`` has the variances of these, a setting each, with their
    degrees of freedom.
    """
    n = sum(map(len, differences))
    if not n:
        return None
    mean = statistics.fmean(map(statistics.fmean, differences))
    if min(map(len, differences)) < 2 or all(map(equal, differences)):
        return Interval(mean, None, None, n, True)
    own = [(statistics.variance(d) / len(d), len(d) - 1) for d in differences]
    parts = [(variance / len(differences) ** 2, free) for variance, free in (*own, *printed)]
    whole = sum(variance for variance, _ in parts)
    freedom = whole**2 / sum(variance**2 / free for variance, free in parts)
    from scipy.stats import t

    error = math.sqrt(whole)
    reach = float(t.ppf(1 - level / 2, freedom)) * error
    p = 2 * float(t.sf(abs(mean) / error, freedom))
    return Interval(mean, mean - reach, mean + reach, n, True, p)


def resampled(
    n: int, statistic: Callable[[Tensor], float], draws: int = DRAWS, seed: int = 0
) -> Interval:
    """A statistic of n things, given by their places [n], with the interval of a bootstrap: its
    2.5 and 97.5 % quantiles."""
    generator = torch.Generator().manual_seed(seed)
    values = [statistic(torch.randint(n, (n,), generator=generator)) for _ in range(draws)]
    low, high = torch.tensor(values, dtype=torch.float64).quantile(
        torch.tensor([0.025, 0.975], dtype=torch.float64)
    )
    return Interval(statistic(torch.arange(n)), float(low), float(high), n)
