"""Points of the search: settings of a rule, their axes, and the simplest of points that tie."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from resultant.classes.rule import EDITED, REALIZATIONS
from resultant.classifiers.validation import LADDER, SHRINKAGES

# Values of each axis. The first value of temperature and prior is the simplest; beta = 1 is native,
# and the shrinkage None leaves the rows as they are.
AXES: dict[str, tuple[Any, ...]] = {
    "realization": REALIZATIONS,
    "temperature": (0.1, 0.2, 0.05, 0.02, 0.01, 0.005),
    "beta": (0.0, 0.5, 1.5),
    "prior": (0.0, 0.5, 1.0),
    "shrinkage": (None, *SHRINKAGES),
    "components": (1, 4),
}
LIMITS = {
    "temperature": (2e-4, 2.0),
    "beta": (-1.0, 3.0),
    "prior": (-2.0, 2.0),
    "shrinkage": (LADDER[0], LADDER[-1]),
    "components": (1, 16),
}
STEP = 0.5

# Among equally simple points the first is chosen: native changes nothing, angular changes least.
PREFERENCE = ("native", "angular", "cosine", "preserve", "temperature")

# A point ties with the best if its accuracy is within this fraction, and its loss within as many
# nats (also relative), or both within as many standard errors of the paired differences.
MARGIN = 0.005
LOSS_MARGIN = 0.01
ERRORS = 1


class Point(NamedTuple):
    """Settings of a rule; ``shrinkage`` is None outside the metric."""

    realization: str
    temperature: float
    beta: float
    prior: float
    shrinkage: float | None = None
    components: int | str = 1


@dataclass(frozen=True, eq=False)
class Candidate:
    """A point on the validation rows."""

    point: Point
    scale: float  # factor of the scores that makes probabilities of them
    loss: float  # mean cross-entropy in nats with this scale, weighted
    # Cross-entropies [M] of the rows; zero for rows whose class has no training rows.
    losses: Tensor
    accuracy: float  # fraction of rows that are predicted correctly, weighted
    hits: Tensor  # rows [M] that are predicted correctly, 1 or 0 in float64

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of a `VMFClassifier` at this point."""
        point = self.point._asdict()
        if point["shrinkage"] is None:
            return {**point, "shrinkage": "auto", "whiten": None}
        return {**point, "whiten": "within"}


def simplest(
    candidates: Iterable[Candidate], best: Candidate, weights: Tensor, loss_weights: Tensor
) -> Candidate:
    """Return the simplest of the candidates that tie with the best, by `departures`."""

    def within(difference: Tensor, w: Tensor, margin: float) -> bool:
        mean = float(difference @ w)
        error = math.sqrt(float((w * (difference - mean)).square().sum()))
        return mean <= max(margin, ERRORS * error)

    def ties(candidate: Candidate) -> bool:
        return within(best.hits - candidate.hits, weights, MARGIN) and within(
            candidate.losses - best.losses, loss_weights, LOSS_MARGIN * max(1.0, best.loss)
        )

    return min(
        filter(ties, candidates),
        key=lambda c: (departures(c.point), PREFERENCE.index(c.point.realization), c.loss),
        default=best,
    )


def beyond(name: str, value: float, low: bool) -> Any:
    """Return the next value of an axis outside its edge, None at the limit."""
    least, most = LIMITS[name]
    if name == "temperature":
        outside = value / 2 if low else value * 2
    elif name == "shrinkage":
        sides = [s for s in LADDER if (s < value if low else s > value)]
        outside = (max(sides) if low else min(sides)) if sides else math.inf
    elif name == "components":
        outside = value // 2 if low else value * 2
    else:
        outside = value - STEP if low else value + STEP
    return outside if least <= outside <= most else None


def departures(point: Point) -> float:
    """Count the steps from the simplest rule: native at temperature .1 without prior or metric.

    Steps are those of the search: a factor of two of the temperature or of the components, a factor
    of three of the shrinkage, .5 of beta and prior. Another realization is one step, from which
    beta counts, and so are the empirical prior and the metric at shrinkage .3.
    """
    steps = abs(math.log2(point.temperature / AXES["temperature"][0]))
    steps += min(abs(point.prior) / STEP, 1 + abs(point.prior - 1) / STEP)
    steps += 0.0 if isinstance(point.components, str) else math.log2(point.components)
    if point.shrinkage is not None:
        steps += 1 + abs(math.log(max(point.shrinkage, LIMITS["shrinkage"][0]) / 0.3, 3)) / 2
    edited = point.realization in EDITED
    return steps + (0 if point.realization == "native" else 1 + edited * abs(point.beta) / STEP)
