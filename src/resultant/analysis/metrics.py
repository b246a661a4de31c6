"""What decisions are measured by: accuracy by class, calibration, paired differences, ranks."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from resultant.classifiers.calibration import inner_edges

# Equal bins of confidence.
BINS = 15

# The normal quantile of a two-sided 95 % interval.
NORMAL = 1.959963984540054


def class_means(values: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """The means [C] in float64 of ``values`` [N] by class, NaN for a class without any."""
    values = values.double()
    total = values.new_zeros(num_classes).index_add_(0, labels, values)
    return total / torch.bincount(labels, minlength=num_classes)


def confidence_bins(confidence: Tensor, right: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """How many predictions fall in each bin of confidence, their mean confidence and the share of
    right ones, [15] each."""
    edges = torch.from_numpy(inner_edges(BINS)).to(confidence.device)
    place = torch.bucketize(confidence.double(), edges)
    count = torch.bincount(place, minlength=BINS)
    return count, class_means(confidence, place, BINS), class_means(right, place, BINS)


def calibration_error(count: Tensor, confidence: Tensor, accuracy: Tensor) -> float:
    """The expected calibration error: the mean of |accuracy - confidence| over predictions."""
    gaps = (accuracy - confidence).abs().nan_to_num()
    return float((gaps * count).sum() / count.sum())


class PairedGain(NamedTuple):
    """A difference of two accuracies on the same queries, its 95 % interval and McNemar's p."""

    gain: float
    low: float
    high: float
    p_value: float
    better: int
    worse: int


def paired_gain(before: Tensor, after: Tensor) -> PairedGain:
    """What ``after`` [N] bool, right or wrong, gains over ``before`` [N].

    The interval is normal, from the variance of the paired differences, as far as differences go,
    in [-1, 1]; the p-value is of the exact two-sided McNemar test on the queries that only one of
    them gets right.
    """
    from scipy.stats import binomtest

    n = len(before)
    better, worse = int((after & ~before).sum()), int((before & ~after).sum())
    gain = (better - worse) / n
    reach = NORMAL * math.sqrt(max(0.0, (better + worse) / n - gain * gain) / n)
    p = binomtest(better, better + worse).pvalue if better + worse else 1.0
    low, high = max(-1.0, gain - reach), min(1.0, gain + reach)
    return PairedGain(gain, low, high, float(p), better, worse)


def rank_correlation(a: Tensor, b: Tensor) -> float | None:
    """Spearman's correlation of values that are defined in both; None where there is none."""
    from scipy.stats import spearmanr

    a, b = a.double().flatten(), b.double().flatten()
    known = ~(a.isnan() | b.isnan())
    a, b = a[known], b[known]
    if len(a) < 2 or bool((a == a[0]).all()) or bool((b == b[0]).all()):
        return None
    return float(spearmanr(a.numpy(), b.numpy())[0])  # type: ignore[arg-type]
