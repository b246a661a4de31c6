"""Results as dataclasses of JSON types, measures (means per class, paired differences, intervals,
ranks), and random rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant.classifiers.folds import shuffled_ranks
from resultant.classifiers.search import mean_and_error

# The significance level of the library.
SIGNIFICANCE = 0.05

# Values of a rank correlation at least: the orders of four values are too few for a p below 0.05.
FEWEST_RANKS = 5


class Result:
    """A dataclass of numbers, names, arrays and other results; tensors are on the CPU.

    Example:
        >>> from resultant.analysis.metrics import Estimate
        >>> Estimate(0.5, 0.4, 0.6, float("nan")).to_dict()
        {'value': 0.5, 'low': 0.4, 'high': 0.6, 'error': None}
    """

    def __post_init__(self) -> None:
        for f in fields(self):  # type: ignore[arg-type]
            if isinstance(value := getattr(self, f.name), Tensor):
                object.__setattr__(self, f.name, value.cpu())

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types: arrays as lists, NaN and infinities as None."""
        return {f.name: plain(getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]


class UnansweredError(ValueError):
    """The features have too few rows or dimensions for a question."""


def plain(value: object) -> Any:
    """Convert a value to JSON types."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Result):
        return value.to_dict()
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    raise TypeError(f"expected a result of numbers, names and arrays, got {type(value).__name__}")


@dataclass(frozen=True, eq=False)
class Estimate(Result):
    """A measured number, the ends of its 95 % interval, and its standard error."""

    value: float
    low: float
    high: float
    error: float


@dataclass(frozen=True, eq=False)
class Difference(Result):
    """A metric of one method minus that of another."""

    gain: float
    low: float  # lower end of its 95 % interval; it holds for all comparisons of a table together
    high: float  # upper end
    error: float
    p_value: float  # p-value of the same statistic: below 0.05 if zero is outside of one interval
    verdict: str  # "better" or "worse" if zero is outside the interval, else "tie"

    @property
    def word(self) -> str:
        """The verdict in a word for readers: an interval that contains zero decides nothing."""
        return "unclear" if self.verdict == "tie" else self.verdict

    @staticmethod
    def of(gain: float, low: float, high: float, error: float, p_value: float) -> Difference:
        """Return a difference with its verdict."""
        verdict = "tie" if low <= 0 <= high else "better" if low > 0 else "worse"
        return Difference(gain, max(-1.0, low), min(1.0, high), error, p_value, verdict)


@dataclass(frozen=True, eq=False)
class Caution(Result):
    """A warning about the data."""

    kind: str  # name of the check, such as "duplicates", "few-rows" or "units"
    text: str  # one or two sentences: what was found, and what to do


def class_means(values: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Return means [C] of ``values`` [N] per class of ``labels`` [N], NaN without values."""
    total = torch.bincount(labels, values.double(), minlength=num_classes)
    return total / torch.bincount(labels, minlength=num_classes)


def distinct(copies: Tensor | None, weights: Tensor, *values: Tensor) -> list[Tensor]:
    """Return the weights [M] of distinct rows and the means [M] of values [N] over their copies,
    which are one observation; ``copies`` [N] numbers the distinct rows, None for no copies."""
    if copies is None:
        return [weights, *values]
    total = torch.bincount(copies, weights)
    return [total, *(torch.bincount(copies, weights * v.double()) / total for v in values)]


def share(hits: Tensor, weights: Tensor, copies: Tensor | None = None) -> Estimate:
    """Estimate a weighted share of hits [N] with Wilson's interval for as many distinct rows as the
    weights [N] are worth."""
    weights, hits = distinct(copies, weights, hits)
    mean, error = mean_and_error(hits.double(), weights)
    mean, number = min(max(mean, 0.0), 1.0), 1 / float(weights.square().sum())
    return Estimate(mean, *wilson(mean, number, SIGNIFICANCE), error)


def wilson(mean: float, number: float, level: float) -> tuple[float, float]:
    """Return Wilson's interval of a share of a number of rows."""
    z = quantile(level)
    middle = (mean + z**2 / number / 2) / (1 + z**2 / number)
    reach = z * math.sqrt(mean * (1 - mean) / number + z**2 / (4 * number**2))
    reach /= 1 + z**2 / number
    return max(0.0, middle - reach), min(1.0, middle + reach)


def mean(values: Tensor, weights: Tensor, copies: Tensor | None = None) -> Estimate:
    """Estimate a weighted mean of values [N] with Hall's interval, which knows their skewness:
    losses are small for most rows, and large for few."""
    from scipy.stats import t

    weights, values = distinct(copies, weights, values)
    value, error = mean_and_error(values, weights)
    number = 1 / float(weights.square().sum())
    if not error > 0 or number < 2:
        return Estimate(value, value, value, error)
    apart = values.double() - value
    spread = math.sqrt(float(apart.square() @ weights))
    skew = float((apart / spread).pow(3) @ weights) / math.sqrt(number)
    error *= math.sqrt(number / (number - 1))
    reach = float(t.isf(SIGNIFICANCE / 2, number - 1))

    def end(z: float) -> float:
        if abs(skew) > 1e-6:
            cube = 1 + skew * (z - skew / 6)
            z = 3 / skew * (math.copysign(abs(cube) ** (1 / 3), cube) - 1)
        return value - error * z

    return Estimate(value, end(reach), end(-reach), error)


def quantile(level: float) -> float:
    """Return the normal quantile of a two-sided interval."""
    from scipy.stats import norm

    return float(norm.isf(level / 2))


def paired_gain(
    before: Tensor,
    after: Tensor,
    weights: Tensor | None = None,
    comparisons: int = 1,
    copies: Tensor | None = None,
) -> Difference:
    """Compare correct predictions ``after`` and ``before`` [N] of the same rows, by the interval of
    Bonett and Price: with a row more that one, and a row more that the other predicts correctly."""
    from scipy.stats import norm

    if weights is None:
        weights = torch.full(before.shape, 1 / len(before), dtype=torch.float64)
    weights, difference = distinct(copies, weights, after.double() - before.double())
    gain, number = float(difference @ weights), 1 / float(weights.square().sum())
    better, worse = (
        1 + number * float(one.clamp_min(0) @ weights) for one in (difference, -difference)
    )
    number += 2
    middle = (better - worse) / number
    error = math.sqrt((better + worse) / number - middle**2) / math.sqrt(number)
    reach = error * quantile(SIGNIFICANCE / comparisons)
    p_value = 2 * float(norm.sf(abs(middle) / error))
    return Difference.of(gain, middle - reach, middle + reach, error, p_value)


def unpaired_gain(
    hits: Sequence[Tensor], weights: Sequence[Tensor], copies: Sequence[Tensor | None]
) -> Difference:
    """Compare correct predictions of two samples, by Newcombe's interval: the reaches of both
    shares in the direction of the difference."""
    a, b = map(share, hits, weights, copies)
    every = (distinct(c, w)[0] for w, c in zip(weights, copies, strict=True))
    numbers = [1 / float(w.square().sum()) for w in every]
    gain = b.value - a.value

    def ends(level: float) -> tuple[float, float]:
        (low_a, high_a), (low_b, high_b) = (
            wilson(e.value, n, level) for e, n in zip((a, b), numbers, strict=True)
        )
        below = math.hypot(b.value - low_b, high_a - a.value)
        return gain - below, gain + math.hypot(high_b - b.value, a.value - low_a)

    low, high = ends(SIGNIFICANCE)
    # The level at which the interval begins at zero, by bisection.
    inside, outside = 1e-12, 1.0
    for _ in range(60):
        level = math.sqrt(inside * outside)
        below, above = ends(level)
        inside, outside = (level, outside) if below <= 0 <= above else (inside, level)
    p_value = 1.0 if gain == 0 else outside
    return Difference.of(gain, low, high, math.hypot(a.error, b.error), p_value)


def rank_correlation(a: Tensor, b: Tensor) -> float | None:
    """Return Spearman's correlation without NaN; None for constant or fewer than five values."""
    from scipy.stats import spearmanr

    a, b = a.double().flatten(), b.double().flatten()
    known = ~(a.isnan() | b.isnan())
    a, b = a[known], b[known]
    if len(a) < FEWEST_RANKS or bool((a == a[0]).all()) or bool((b == b[0]).all()):
        return None
    return float(np.asarray(spearmanr(a.numpy(), b.numpy()))[0])


def sample_rows(number: int, size: int, seed: int) -> Tensor:
    """Draw ``size`` of ``number`` rows, or all, in order."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(number, generator=generator)[:size].sort().values


def stratified(labels: Tensor, number: float) -> Tensor:
    """Draw about ``number`` rows, each class in proportion but with two rows or more, in order."""
    if number >= len(labels):
        return torch.arange(len(labels))
    kept = (number / len(labels) * torch.bincount(labels).double()).ceil().clamp_min(2)
    return (shuffled_ranks(labels) < kept[labels]).nonzero().squeeze(1)
