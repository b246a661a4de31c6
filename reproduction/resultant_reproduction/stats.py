"""Statistics of differences: intervals over queries, seeds and settings."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from resultant.analysis.metrics import NORMAL, paired_gain
from resultant_reproduction.formats import p_equation
from resultant_reproduction.spec import Change
from resultant_reproduction.value import all_equal
from resultant_reproduction.verdicts import Arm, Estimate, contrast


def over_queries(after: Tensor, before: Tensor, scale: float = 1.0) -> Estimate:
    """Mean difference [N] of two rules on the same queries, with a normal interval.

    Hits, [N] bool, are tested exactly (McNemar), as by `resultant.analysis.metrics.paired_gain`.
    """
    if after.dtype == before.dtype == torch.bool:
        d = paired_gain(before, after)
        gain, low, high, p = d.gain, d.low, d.high, d.p_value
        return Estimate(scale * gain, scale * low, scale * high, len(after), p=p)
    d = scale * (after.double() - before.double())
    mean, error = float(d.mean()), float(d.std(correction=0)) / math.sqrt(len(d))
    reach, p = NORMAL * error, math.erfc(abs(mean) / error / math.sqrt(2)) if error else None
    return Estimate(mean, mean - reach, mean + reach, len(d), p=p)


def over_seeds(differences: Sequence[float]) -> Estimate | None:
    """Mean of paired differences with Student's interval, which excludes zero where the paired t
    test is significant."""
    return over_settings([differences])


def over_settings(differences: Sequence[Sequence[float]]) -> Estimate | None:
    """Mean over settings of the means over networks, with its interval.

    The settings are fixed, not a sample, so that the variance is that of the means within them.
    There is no interval where a setting has one network, or nothing varies.
    """
    if not any(differences):
        return None
    estimate = contrast([(1 / len(differences), Arm.of(own)) for own in differences])
    if all(map(all_equal, differences)):
        return Estimate(estimate.mean, n=estimate.n, seeds=True)
    return estimate


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
    if pooled is None:
        return "not known"
    return pooled.text() + ("" if pooled.p is None else f", {p_equation(pooled.p)}")


def several_seeds(changes: Sequence[Change]) -> tuple[list[Change], str]:
    """Select the settings whose changes all have several seeds, or all settings where there is no
    such setting, and name the selection."""
    settings = {setting_of(c) for c in changes}
    kept = settings - {setting_of(c) for c in changes if len(c.differences) < 2}
    if not kept or kept == settings:
        return list(changes), "settings"
    where = f"the settings with several seeds ({len(kept)} of {len(settings)})"
    return [c for c in changes if setting_of(c) in kept], where
