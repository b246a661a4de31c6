"""A mean over training runs with its spread."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple


def all_equal(values: Sequence[float]) -> bool:
    """Test whether values are equal up to rounding, so that their spread is unknown."""
    return max(values) - min(values) <= 1e-9 * max(map(abs, values))


class Value(NamedTuple):
    """A mean over ``n`` runs and their sample standard deviation, None where it is unknown."""

    mean: float
    sd: float | None = None
    n: int = 1

    @staticmethod
    def of(values: Sequence[float]) -> Value | None:
        """Summarize values; None without values."""
        if not values:
            return None
        sd = statistics.stdev(values) if len(values) > 1 else None
        return Value(statistics.fmean(values), sd, len(values))

    def text(self, digits: int, sign: bool = False) -> str:
        """Format mean and standard deviation."""
        # z: a mean that rounds to zero has no minus sign.
        mean = f"{self.mean:{'+' if sign else ''}z,.{digits}f}"
        return mean if self.sd is None else f"{mean} ± {self.sd:.{digits}f}"
