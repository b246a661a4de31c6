"""Measures of decisions: accuracy per class, calibration, paired differences, ranks."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

# Equal bins of confidence.
BINS = 15

# Values of a rank correlation at least: the orders of four values are too few for a p below 0.05.
FEWEST_RANKS = 5

# The significance level of the library, and the normal quantile of a two-sided 95 % interval.
SIGNIFICANCE = 0.05
NORMAL = 1.959963984540054


def class_counts(labels: Tensor, num_classes: int) -> Tensor:
    """Numbers [..., C] of the ``labels`` [..., N] of each class."""
    number = torch.bincount(_cells(labels, num_classes), minlength=_number(labels, num_classes))
    return number.view(*labels.shape[:-1], num_classes)


def class_means(values: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Means [..., C] of ``values`` [..., N] per class of ``labels`` [N] or [..., N] in float64, NaN
    for a class without values."""
    labels, values = labels.expand(values.shape), values.double()
    total = values.new_zeros(_number(labels, num_classes))
    total.index_add_(0, _cells(labels, num_classes), values.flatten())
    count = class_counts(labels, num_classes)
    return total.view_as(count) / count


def _cells(labels: Tensor, num_classes: int) -> Tensor:
    """Number the classes of each row of ``labels`` [..., N] as classes of their own, in one row."""
    rows = labels.reshape(-1, labels.shape[-1])
    return (rows + num_classes * torch.arange(len(rows), device=rows.device)[:, None]).flatten()


def _number(labels: Tensor, num_classes: int) -> int:
    return math.prod(labels.shape[:-1]) * num_classes


def confidence_bins(confidence: Tensor, right: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Counts, mean confidences and accuracies [..., 15] of predictions [..., N] in equal bins of
    confidence."""
    # Those of `resultant.expected_calibration_error`, whose module loads scikit-learn.
    edges = torch.from_numpy(np.linspace(0, 1, BINS + 1)[1:-1]).to(confidence.device)
    bins = torch.bucketize(confidence.double(), edges)
    count = class_counts(bins, BINS)
    return count, class_means(confidence, bins, BINS), class_means(right, bins, BINS)


def calibration_error(count: Tensor, confidence: Tensor, accuracy: Tensor) -> Tensor:
    """The expected calibration error [...]: the mean of |accuracy - confidence| over
    predictions."""
    gaps = (accuracy - confidence).abs().nan_to_num()
    return (gaps * count).sum(-1) / count.sum(-1)


class PairedGain(NamedTuple):
    """A difference of two accuracies on the same queries, its 95 % interval and McNemar's p."""

    gain: float
    low: float
    high: float
    p_value: float
    better: int
    worse: int
    error: float


def paired_gain(
    before: Tensor, after: Tensor, weights: Tensor | None = None, comparisons: int = 1
) -> PairedGain:
    """Compare correct predictions ``after`` [N] bool with those ``before`` [N] bool.

    The interval is normal, from the variance of the paired differences, cut to [-1, 1]. The p-value
    is that of the exact two-sided McNemar test on the queries that only one of the two predicts
    correctly.

    Args:
        before: Correct predictions of one rule.
        after: Correct predictions of another rule on the same queries.
        weights: Weights [N] that sum to one, by default equal.
        comparisons: Comparisons on the same queries; the interval holds for all of them together
            (Bonferroni).

    Example:
        >>> before, after = torch.tensor([True, False, False]), torch.tensor([True, True, False])
        >>> round(paired_gain(before, after).gain, 4)
        0.3333
    """
    from scipy.stats import binomtest, norm

    n = len(before)
    better, worse = int((after & ~before).sum()), int((before & ~after).sum())
    if weights is None:
        gain = (better - worse) / n
        error = math.sqrt(max(0.0, (better + worse) / n - gain * gain) / n)
    else:
        gain, error = mean_and_error(after.double() - before.double(), weights)
    reach = error * (
        NORMAL if comparisons == 1 else float(norm.isf(SIGNIFICANCE / 2 / comparisons))
    )
    p = binomtest(better, better + worse).pvalue if better + worse else 1.0
    low, high = max(-1.0, gain - reach), min(1.0, gain + reach)
    return PairedGain(gain, low, high, float(p), better, worse, error)


def mean_and_error(values: Tensor, weights: Tensor) -> tuple[float, float]:
    """The weighted mean of values [N] and its standard error; weights [N] sum to one."""
    mean = float(values @ weights)
    return mean, float((weights * (values - mean)).square().sum().sqrt())


def wilson(accuracy: float, number: float) -> tuple[float, float]:
    """Return Wilson's 95 % interval of an accuracy of ``number`` rows.

    Example:
        >>> [round(end, 4) for end in wilson(0.5, 100)]
        [0.4038, 0.5962]
    """
    square = NORMAL**2 / number
    middle = (accuracy + square / 2) / (1 + square)
    reach = NORMAL * math.sqrt(accuracy * (1 - accuracy) / number + square / (4 * number))
    reach /= 1 + square
    return max(0.0, middle - reach), min(1.0, middle + reach)


def rank_correlation(a: Tensor, b: Tensor) -> float | None:
    """Spearman's correlation without NaN; None for fewer than five values, of which no order is
    significant, and for constant ones."""
    a, b = a.double().flatten(), b.double().flatten()
    known = ~(a.isnan() | b.isnan())
    a, b = a[known], b[known]
    if len(a) < FEWEST_RANKS or bool((a == a[0]).all()) or bool((b == b[0]).all()):
        return None
    from scipy.stats import spearmanr

    return float(np.asarray(spearmanr(a.numpy(), b.numpy()))[0])
