r"""Choice of temperature, beta and prior of each realization on rows that are not fitted.

The loss of a point is the mean cross-entropy after the scale of the scores is fitted
(`resultant.classifiers.calibration.fit_scale`): without a scale of its own, an edit of the gains
and the mean gain would be confounded. The search goes along one axis at a time, from the best point
so far, and extends an axis beyond its edge while the edge is best. The plainest of the points that
tie with the best is taken (`plainest`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from torch import Tensor

from resultant._core.arrays import largest
from resultant.classes.rule import REALIZATIONS, TEMPERED
from resultant.classifiers.calibration import fit_scale, log_losses
from resultant.classifiers.left_out import Part, point_scores

# Start values of each axis, the step beyond an edge, and the limits. Beta = 1 is native.
AXES = {
    "temperature": (0.2, 0.1, 0.05, 0.02, 0.01, 0.005),
    "beta": (0.0, 0.5, 1.5),
    "prior": (0.0, 0.5, 1.0),
}
LIMITS = {"temperature": (2e-4, 2.0), "beta": (-1.0, 3.0), "prior": (-2.0, 2.0)}
STEP = 0.5

# Realizations that ignore beta, with the beta that is written for them.
FIXED_BETA = {"native": 1.0, "cosine": 0.0}

# The order of the search: class temperatures start from the choice of angular.
SEARCHED = ("native", "cosine", "angular", *TEMPERED)

# Among equally plain points the first is taken: native changes nothing, angular changes least.
PREFERENCE = ("native", "angular", "cosine", "preserve", "temperature")

# A point ties with the best if its accuracy is within this fraction, and its loss within as many
# nats (also relative), or both within as many standard errors of the paired differences.
MARGIN = 0.005
LOSS_MARGIN = 0.01
ERRORS = 2

# Least improvement of the loss that moves a point, in nats and relative; smaller ones are noise. Of
# separable classes the loss falls for ever, by less and less, as the temperature does.
LEAST = 1e-3


class Point(NamedTuple):
    """Settings of a rule."""

    realization: str
    temperature: float
    beta: float
    prior: float


@dataclass(frozen=True, eq=False)
class Choice:
    """The best point of a realization.

    Attributes:
        point: Settings.
        scale: Factor of the scores that makes probabilities of them.
        loss: Mean cross-entropy in nats with this scale.
        losses: Cross-entropies [M] of the rows.
        accuracy: Fraction of rows that are predicted correctly, weighted as the loss.
        hits: Rows [M] that are predicted correctly, 1 or 0 in float64.
    """

    point: Point
    scale: float
    loss: float
    losses: Tensor
    accuracy: float
    hits: Tensor


class Search:
    """Losses of points on rows that are not fitted.

    Args:
        part: Rows with the classes of other rows; rows of classes without other rows are left out.
        weights: Weights [M] of the rows; they are scaled to sum to one.

    Raises:
        ValueError: No row has a class with other rows.
    """

    def __init__(self, part: Part, weights: Tensor) -> None:
        present = ~part.absent()
        if not weights[present].sum() > 0:
            raise ValueError("expected a row of a class with other rows, got none")
        states = part.states if part.states is None else part.states[present]
        self.part = replace(part, rho=part.rho[present], y=part.y[present], states=states)
        self.weights = weights[present] / weights[present].sum()
        self._choices: dict[Point, Choice | None] = {}

    def at(self, point: Point, start: float | None = None) -> Choice | None:
        """Evaluate a point; None if a class has no temperature there."""
        if point not in self._choices:
            self._choices[point] = self._evaluate(point, start)
        return self._choices[point]

    def plainest(self, best: Choice, realization: str | None = None) -> Choice:
        """Return the `plainest` of all evaluated points.

        Args:
            best: The best point.
            realization: Realization of the point, by default any.
        """
        evaluated = (choice for choice in self._choices.values() if choice is not None)
        wanted = (c for c in evaluated if realization in (None, c.point.realization))
        return plainest(wanted, best, self.weights)

    def scores(self, point: Point) -> Tensor:
        """Compute the scores [M, C] of the rows at a point, NaN for a class without temperature."""
        rules = [(point.realization, point.beta)]
        return next(point_scores(self.part, [point.temperature], rules, [point.prior]))

    def _evaluate(self, point: Point, start: float | None) -> Choice | None:
        s, y = self.scores(point), self.part.y
        if s.sum().isnan():
            return None
        scale = fit_scale(s, y, self.weights, start=start)
        losses = log_losses(s, y, scale)
        hit = (largest(s)[1] == y).double()
        loss, accuracy = float(losses @ self.weights), float(hit @ self.weights)
        return Choice(point, scale, loss, losses, accuracy, hit)

    def best(
        self,
        realization: str,
        fixed: Mapping[str, float] | None = None,
        near: Point | None = None,
    ) -> Choice | None:
        """Search the best point of a realization.

        Args:
            realization: The realization.
            fixed: Values by name for the axes that are not searched.
            near: A point of a similar realization, about which the search begins.

        Returns:
            The best point; None if no point can be realized.
        """
        fixed = dict(fixed or {})
        if realization in FIXED_BETA:
            fixed["beta"] = FIXED_BETA[realization]
        if realization == "cosine":
            # The temperature is a part of the scale.
            fixed.setdefault("temperature", AXES["temperature"][1])
        axes = {name: (fixed[name],) if name in fixed else values for name, values in AXES.items()}
        first: dict[str, float] = {name: values[len(values) > 3] for name, values in axes.items()}
        if near is not None:
            first = {**near._asdict(), **fixed}
            del first["realization"]
        best = self.at(Point(realization, **first))
        if near is not None and best is not None:
            # The values on either side; the search goes on from there.
            for name in axes.keys() - fixed.keys():
                sides = (beyond(name, first[name], low) for low in (True, False))
                axes[name] = tuple(value for value in sides if value is not None)
        free = [name for name in axes if name not in fixed]
        moved = True
        while moved:
            moved = False
            for name in free:
                better = self._along(name, axes[name], realization, first, best)
                if better is not None and (best is None or better.point != best.point):
                    best, moved = better, True
        return best

    def _along(
        self,
        name: str,
        values: Sequence[float],
        realization: str,
        first: Mapping[str, float],
        best: Choice | None,
    ) -> Choice | None:
        """Return the best point along an axis through the best point so far."""
        origin = Point(realization, **first) if best is None else best.point
        values = sorted({*values, getattr(origin, name)})
        for value in values:
            best = self._better(origin, name, value, best)
        while best is not None:
            value = getattr(best.point, name)
            outside = beyond(name, value, value == values[0])
            at_edge = value in (values[0], values[-1])
            if not at_edge or outside is None:
                break
            values = sorted({*values, outside})
            before, best = best, self._better(origin, name, outside, best)
            if best is before:
                break
        return best

    def _better(self, origin: Point, name: str, value: float, best: Choice | None) -> Choice | None:
        start = None
        if best is not None:
            # The scale is about proportional to the temperature.
            start = best.scale * (value / best.point.temperature if name == "temperature" else 1.0)
        other = self.at(origin._replace(**{name: value}), start)
        if other is None:
            return best
        if best is None or other.loss < best.loss - LEAST * max(1.0, best.loss):
            return other
        return best


def plainest(choices: Iterable[Choice], best: Choice, weights: Tensor) -> Choice:
    """Return the plainest of the choices that tie with the best, by `departures`.

    Args:
        choices: Points on the same rows.
        best: The best point.
        weights: Weights [M] of the rows, which sum to one.
    """

    def within(difference: Tensor, margin: float) -> bool:
        mean = float(difference @ weights)
        error = math.sqrt(float((weights * (difference - mean)).square().sum()))
        return mean <= max(margin, ERRORS * error)

    def ties(choice: Choice) -> bool:
        return within(best.hits - choice.hits, MARGIN) and within(
            choice.losses - best.losses, LOSS_MARGIN * max(1.0, best.loss)
        )

    return min(
        filter(ties, choices),
        key=lambda c: (departures(c.point), PREFERENCE.index(c.point.realization), c.loss),
        default=best,
    )


def beyond(name: str, value: float, low: bool) -> float | None:
    """Return the next value of an axis outside its edge, None at the limit."""
    least, most = LIMITS[name]
    if name == "temperature":
        outside = value / 2 if low else value * 2
    else:
        outside = value - STEP if low else value + STEP
    return outside if least <= outside <= most else None


def choose(
    search: Search,
    fixed: Mapping[str, float] | None = None,
    progress: Callable[[float], object] | None = None,
) -> dict[str, Choice]:
    """Choose settings of each realization; realizations without a point are left out."""
    choices: dict[str, Choice] = {}
    for number, name in enumerate(SEARCHED):
        # Class temperatures change the slopes as angular does, to first order.
        near = None
        if name in TEMPERED and "angular" in choices:
            near = search.plainest(choices["angular"], "angular").point
        choice = search.best(name, fixed, near)
        if choice is not None:
            choices[name] = choice
        if progress is not None:
            progress((number + 1) / len(SEARCHED))
    return {name: choices[name] for name in REALIZATIONS if name in choices}


def departures(point: Point) -> float:
    """Count the steps from the plainest rule: native at temperature .1 without prior.

    Steps are those of the search: a factor of two of the temperature, .5 of beta and prior. Another
    realization is one step, from which beta counts, and so is the empirical prior.

    Example:
        >>> departures(Point("angular", 0.05, 0.0, 1.0))
        3.0
    """
    steps = abs(math.log2(point.temperature / AXES["temperature"][1]))
    steps += min(abs(point.prior) / STEP, 1 + abs(point.prior - 1) / STEP)
    return steps + (0 if point.realization == "native" else 1 + abs(point.beta) / STEP)


def simplified(
    search: Search, choices: Mapping[str, Choice]
) -> tuple[dict[str, Choice], Choice, Choice]:
    """Return the plainest ties with the choice of each realization, the plainest tie with the best
    choice, and the best choice.

    Settings that the rows cannot tell apart are noise; the plainest are easier to follow.
    """
    plain = {name: search.plainest(choice, name) for name, choice in choices.items()}
    best = min(choices.values(), key=lambda choice: choice.loss)
    advised = search.plainest(best)
    return plain | {advised.point.realization: advised}, advised, best
