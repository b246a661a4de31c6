"""Two rules on the same queries, by McNemar's test, with the interval of a normal mean."""

from typing import NamedTuple

import torch
from torch import Tensor

from resultant.analysis.metrics import NORMAL
from resultant.classifiers.search import mean_and_error


class PairedGain(NamedTuple):
    """The accuracy of one rule minus that of another."""

    gain: float
    low: float  # ends of the 95 % interval
    high: float
    p_value: float  # exact, of McNemar's test


def paired_gain(before: Tensor, after: Tensor) -> PairedGain:
    """Compare correct predictions ``after`` and ``before`` [N]."""
    from scipy.stats import binomtest

    better, worse = int((after & ~before).sum()), int((before & ~after).sum())
    weights = torch.full(before.shape, 1 / len(before), dtype=torch.float64)
    gain, error = mean_and_error(after.double() - before.double(), weights)
    p = binomtest(better, better + worse).pvalue if better + worse else 1.0
    low, high = max(-1.0, gain - NORMAL * error), min(1.0, gain + NORMAL * error)
    return PairedGain(gain, low, high, float(p))
