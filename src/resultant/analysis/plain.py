"""Dataclasses of numbers, names and arrays that JSON can represent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from torch import Tensor

# The significance level of the library.
SIGNIFICANCE = 0.05


class Result:
    """A dataclass of numbers, names, arrays and other results; tensors are on the CPU.

    Example:
        >>> gain_distribution(space).to_dict()["capped"]
        []
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
    if isinstance(value, Result):
        return value.to_dict()
    if isinstance(value, (Tensor, np.ndarray)):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
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
    p_value: float  # exact McNemar p-value of correct predictions; NaN if rows are not paired
    verdict: str  # "better" or "worse" if zero is outside the interval, else "tie"

    @staticmethod
    def of(gain: float, error: float, p_value: float, comparisons: int = 1) -> Difference:
        """Return a difference with its normal interval, cut to [-1, 1], and its verdict."""
        from scipy.stats import norm

        reach = error * float(norm.isf(SIGNIFICANCE / 2 / comparisons))
        low, high = max(-1.0, gain - reach), min(1.0, gain + reach)
        verdict = "tie" if low <= 0 <= high else "better" if low > 0 else "worse"
        return Difference(gain, low, high, error, p_value, verdict)


@dataclass(frozen=True, eq=False)
class Caution(Result):
    """A warning about the data."""

    kind: str  # name of the check, such as "duplicates", "few-rows" or "units"
    text: str  # one or two sentences: what was found, and what to do
