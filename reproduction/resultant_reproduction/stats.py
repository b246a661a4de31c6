"""Statistics of differences: intervals over queries, seeds and settings, and tests of signs.

Several tests that answer one question are corrected by Holm's method.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from resultant.analysis.metrics import NORMAL, paired_gain
from resultant_reproduction import verdicts
from resultant_reproduction.formats import SIGNIFICANCE, p_equation, span
from resultant_reproduction.spec import Change
from resultant_reproduction.value import all_equal
from resultant_reproduction.verdicts import Arm


class Interval(NamedTuple):
    """A mean with its 95 % interval and the p value of its test, None where a single seed allows
    neither.

    Interval and test agree, except for hits, whose interval is normal and whose test is exact.

    Attributes:
        mean: The mean.
        low: Lower end.
        high: Upper end.
        n: Number of queries, classes, or networks.
        seeds: Whether ``n`` counts seeds.
        p: The p value.
    """

    mean: float
    low: float | None
    high: float | None
    n: int
    seeds: bool = False
    p: float | None = None

    @property
    def sign(self) -> int | None:
        """1 or -1 where the interval excludes zero and a test over queries agrees, else 0; None
        without an interval."""
        if self.low is None or self.high is None:
            return None
        if not self.seeds and self.p is not None and self.p >= SIGNIFICANCE:
            return 0
        return int(self.low > 0) - int(self.high < 0)

    def text(self, digits: int = 2, sign: bool = True) -> str:
        """Format the mean and, in brackets, the ends."""
        form = f",.{digits}f"
        plus = "+" if sign else ""
        mean = f"{self.mean:{plus}z{form}}"
        if self.low is None or self.high is None:
            return mean
        # Ends keep the sign of a zero: it shows whether zero is between them.
        return f"{mean} [{self.low:{plus}{form}}, {self.high:{plus}{form}}]"

    def text_with_p(self) -> str:
        """Format mean, interval and p value."""
        return self.text() + ("" if self.p is None else f", {p_equation(self.p)}")

    def effect(self, name: str, digits: int = 2) -> str:
        """Describe whether a quantity rises or falls, with the numbers."""
        text = self.text(digits)
        if self.sign is None:
            seeds = "one seed" if self.n == 1 else f"{self.n} equal differences"
            return f"{name} {text}, {seeds}: not tested"
        if self.seeds:
            text += f" over {self.n} seeds"
        if self.sign:
            return f"{name} {'rises' if self.sign > 0 else 'falls'} by {text}"
        return f"no effect on {name} seen, {text}"


# Differences by place, such as "CIFAR-10 encoder".
Effects = Mapping[str, Interval]


def over_queries(after: Tensor, before: Tensor, scale: float = 1.0) -> Interval:
    """Mean difference [N] of two rules on the same queries, with a normal interval.

    Hits, [N] bool, are tested exactly (McNemar), as by `resultant.analysis.metrics.paired_gain`.
    """
    if after.dtype == before.dtype == torch.bool:
        gain, low, high, p = paired_gain(before, after)[:4]
        return Interval(scale * gain, scale * low, scale * high, len(after), p=p)
    d = scale * (after.double() - before.double())
    mean, error = float(d.mean()), float(d.std(correction=0)) / math.sqrt(len(d))
    reach, p = NORMAL * error, math.erfc(abs(mean) / error / math.sqrt(2)) if error else None
    return Interval(mean, mean - reach, mean + reach, len(d), p=p)


def over_seeds(differences: Sequence[float]) -> Interval | None:
    """Mean of paired differences with Student's interval, which excludes zero where the paired t
    test is significant."""
    return over_settings([differences])


def over_settings(differences: Sequence[Sequence[float]]) -> Interval | None:
    """Mean over settings of the means over networks, with its interval.

    The settings are fixed, not a sample, so that the variance is that of the means within them.
    Degrees of freedom by Welch and Satterthwaite, which for one setting are Student's. There is no
    interval where a setting has one network, or nothing varies.
    """
    n = sum(map(len, differences))
    if not n:
        return None
    mean = statistics.fmean(map(statistics.fmean, differences))
    if min(map(len, differences)) < 2 or all(map(all_equal, differences)):
        return Interval(mean, None, None, n, True)
    share = 1 / len(differences)
    estimate = verdicts.contrast([(share, Arm.of(d)) for d in differences])
    return Interval(mean, estimate.low, estimate.high, n, True, estimate.p)


def resampled(n: int, statistic: Callable[[Tensor], float], draws: int = 400) -> Interval:
    """Statistic of n items, a function of their indices [n], with its bootstrap interval."""
    generator = torch.Generator().manual_seed(0)
    values = [statistic(torch.randint(n, (n,), generator=generator)) for _ in range(draws)]
    low, high = torch.tensor(values, dtype=torch.float64).quantile(
        torch.tensor([0.025, 0.975], dtype=torch.float64)
    )
    return Interval(statistic(torch.arange(n)), float(low), float(high), n)


def holm(p_values: Sequence[float]) -> list[bool]:
    """Test the p values of one family by Holm's method."""
    return [p < SIGNIFICANCE for p in verdicts.holm(p_values)]


def significant(changes: Sequence[Change]) -> list[Change]:
    """Select the changes that pass Holm's correction."""
    tested = [(c, p) for c in changes if (p := c.p_value) is not None]
    kept = holm([p for _, p in tested])
    return [change for (change, _), keep in zip(tested, kept, strict=True) if keep]


def setting_of(change: Change) -> str:
    """Setting of a change, whose row may name a readout too."""
    return change.row.rpartition(", ")[0] or change.row


def by_network(changes: Sequence[Change]) -> list[list[float]]:
    """Differences of each setting, one per network: readouts of a network are averaged, over the
    seeds that all readouts of the setting have. Settings without such a seed are left out."""
    settings: dict[str, list[Mapping[int, float]]] = {}
    for c in changes:
        settings.setdefault(setting_of(c), []).append(c.by_seed)
    networks = [
        [statistics.fmean(d[seed] for d in own) for seed in own[0] if all(seed in d for d in own)]
        for own in settings.values()
    ]
    return [differences for differences in networks if differences]


def pooled_text(changes: Sequence[Change]) -> str:
    """Format the mean over settings with interval and p value."""
    pooled = over_settings(by_network(changes))
    return "not known" if pooled is None else pooled.text_with_p()


def positive(changes: Sequence[Change]) -> int:
    """Number of changes with a positive mean."""
    return sum(c.ours is not None and c.ours.mean > 0 for c in changes)


def toward(changes: Sequence[Change]) -> list[Change]:
    """Multiply changes by their printed sign; changes printed as zero, or not at all, are left
    out."""
    return [
        replace(c, by_seed={s: math.copysign(1.0, c.paper) * d for s, d in c.by_seed.items()})
        for c in changes
        if c.paper
    ]


def several_seeds(changes: Sequence[Change]) -> tuple[list[Change], str]:
    """Select the settings whose changes all have several seeds, or all settings where there is no
    such setting, and name the selection."""
    settings = {setting_of(c) for c in changes}
    kept = settings - {setting_of(c) for c in changes if len(c.differences) < 2}
    if not kept or kept == settings:
        return list(changes), "settings"
    where = f"the settings with several seeds ({len(kept)} of {len(settings)})"
    return [c for c in changes if setting_of(c) in kept], where


def corrected_text(effects: Effects) -> str:
    """Give the smallest and the largest mean in points, and the effects that pass Holm's
    correction."""
    if not effects:
        return "nothing measured"
    tested = {name: i.p for name, i in effects.items() if i.p is not None}
    kept = [name for name, keep in zip(tested, holm([*tested.values()]), strict=True) if keep]
    names = f" ({'; '.join(kept)})" if kept else ""
    return (
        f"{span([i.mean for i in effects.values()], 2, sign='+')} points; Holm's correction leaves "
        f"{len(kept)} of {len(effects)} differences{names}"
    )


def change_effects(changes: Iterable[Change]) -> dict[str, Interval]:
    """Intervals over seeds of changes that have any, by name."""
    effects = {f"{c.what.partition(' - ')[0]}, {c.row}": over_seeds(c.differences) for c in changes}
    return {name: i for name, i in effects.items() if i is not None}
