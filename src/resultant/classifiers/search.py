"""The one search of settings, of `VMFClassifierCV`, ``"auto"`` and `resultant analyze`.

The loss of a point is the mean cross-entropy after the scale of the scores is fitted. The search
goes along one axis at a time, from the best point so far, beyond an edge while the edge is best:
for the rows as they are, in the metric, and with several components per class.
"""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from resultant.classes.rule import EDITED, REALIZATIONS, TEMPERED
from resultant.classifiers.calibration import fit_scale, log_losses
from resultant.classifiers.lift import LIFTS
from resultant.classifiers.refine import PRECISIONS
from resultant.classifiers.validation import LADDER, SHRINKAGES, Validation

# Values of each axis. The first value of temperature and prior is the simplest, and the shrinkage
# None leaves the rows as they are.
AXES: dict[str, tuple[Any, ...]] = {
    "realization": REALIZATIONS,
    "temperature": (0.1, 0.2, 0.05, 0.02, 0.01, 0.005),
    "beta": (0.0, 0.5, 1.5),
    "prior": (0.0, 0.5, 1.0),
    "shrinkage": (None, *SHRINKAGES),
    "components": (1,),
    "refine": (None,),
    "lift": (None,),
}
LIMITS = {
    "temperature": (2e-4, 2.0),
    "beta": (-1.0, 3.0),
    "prior": (-2.0, 2.0),
    "shrinkage": (LADDER[0], LADDER[-1]),
    "components": (1, 16),
    "refine": (1e-3, 1e3),
}
STEP = 0.5

# Priors of refined classes for queries of all classes alike. The precision keeps classes of few
# rows nearer to their means than others, so that less than the shares may be right.
BALANCED_PRIORS = (0.0, -STEP)

# Among equally simple points the first is chosen: native changes nothing, angular changes least.
PREFERENCE = ("native", "angular", "cosine", "preserve", "temperature")

# The order of the search: class temperatures start from the choice of angular.
SEARCHED = ("native", "cosine", "angular", *TEMPERED)

# Realizations that ignore beta, with the beta that is written for them.
FIXED_BETA = {"native": 1.0, "cosine": 0.0}

# A point ties with the best if its accuracy is within this fraction, and its loss within as many
# nats (also relative), or both within one standard error of the paired differences.
MARGIN = 0.005
LOSS_MARGIN = 0.01

# Least improvement of the score that moves a point, in nats and relative; smaller ones are noise.
# For separable classes the loss falls for ever, by less and less, as the temperature does.
LEAST = 1e-3

# Dimensions and rows up to which lifts are tried unless they are asked for.
LIFTED_DIM = 128
LIFTED_ROWS = 1 << 12

# The kind of all points of refined classes, beside the realizations.
REFINED = "refined"

SCORINGS = ("neg_log_loss", "accuracy")


class Point(NamedTuple):
    """Settings of a rule; ``shrinkage`` is None outside the metric."""

    realization: str
    temperature: float
    beta: float
    prior: float
    shrinkage: float | None = None
    components: int | str = 1
    refine: float | None = None
    lift: float | None = None


@dataclass(frozen=True, eq=False)
class Candidate:
    """A point on the validation rows."""

    point: Point
    scale: float  # factor of the scores that makes probabilities of them
    loss: float  # mean cross-entropy in nats with this scale, weighted
    losses: Tensor  # cross-entropies [M]; zero for rows whose class has no training rows
    accuracy: float  # fraction of rows that are predicted correctly, weighted
    hits: Tensor  # rows [M] that are predicted correctly, 1 or 0 in float64

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of a `VMFClassifier` at this point."""
        point = self.point._asdict()
        point = {k: v for k, v in point.items() if k not in ("refine", "lift") or v is not None}
        if point["shrinkage"] is None:
            return {**point, "shrinkage": "auto", "whiten": None}
        return {**point, "whiten": "within"}


def kind_of(point: Point) -> str:
    """Return the realization of a point, or that its classes are refined."""
    return point.realization if point.refine is None else REFINED


def mean_and_error(difference: Tensor, w: Tensor) -> tuple[float, float]:
    """Average paired differences [M] with weights of sum one; return its standard error too."""
    mean = float(difference @ w)
    return mean, math.sqrt(float((w * (difference - mean)).square().sum()))


def simplest(
    candidates: Iterable[Candidate], best: Candidate, weights: Tensor, loss_weights: Tensor
) -> Candidate:
    """Return the simplest of the candidates that tie with the best, by `departures`."""

    def ties(candidate: Candidate) -> bool:
        fewer, error = mean_and_error(best.hits - candidate.hits, weights)
        worse, of_loss = mean_and_error(candidate.losses - best.losses, loss_weights)
        margin = LOSS_MARGIN * max(1.0, best.loss)
        return fewer <= max(MARGIN, error) and worse <= max(margin, of_loss)

    return min(
        filter(ties, candidates),
        key=lambda c: (departures(c.point), PREFERENCE.index(c.point.realization), c.loss),
        default=best,
    )


def beyond(name: str, value: float, low: bool) -> Any:
    """Return the next value of an axis outside its edge, None at the limit."""
    least, most = LIMITS[name]
    if name == "shrinkage":
        sides = [s for s in LADDER if (s < value if low else s > value)]
        outside = (max(sides) if low else min(sides)) if sides else math.inf
    elif name == "refine":
        outside = value / 3 if low else value * 3
    elif name in ("temperature", "components"):
        outside = 2 * value if not low else value // 2 if name == "components" else value / 2
    else:
        outside = value - STEP if low else value + STEP
    return outside if least <= outside <= most else None


def departures(point: Point) -> float:
    """Count the steps of the search from native at temperature .1 without prior or metric."""
    steps = abs(math.log2(point.temperature / AXES["temperature"][0]))
    steps += min(abs(point.prior) / STEP, 1 + abs(point.prior - 1) / STEP)
    steps += 0.0 if isinstance(point.components, str) else math.log2(point.components)
    if point.shrinkage is not None:
        steps += 1 + abs(math.log(max(point.shrinkage, LIMITS["shrinkage"][0]) / 0.3, 3)) / 2
    if point.refine is not None:
        # A large precision stays near the directions.
        steps += 1 + abs(math.log(point.refine / PRECISIONS[0], 3)) / 2 + (point.lift is not None)
    edited = point.realization in EDITED
    return steps + (0 if point.realization == "native" else 1 + edited * abs(point.beta) / STEP)


@dataclass(eq=False)
class Search:
    """The search of the best settings on validation rows, and all that it evaluated."""

    validation: Validation
    axes: Mapping[str, Sequence[Any]]  # values of axes other than those of `AXES`
    scoring: str = "neg_log_loss"
    scaled: bool = True  # fit the scale of the scores of each point
    extend: bool = True  # go beyond an edge while the edge is best
    seconds: float | None = None  # after which no other point is evaluated
    stopped: bool = field(default=False, init=False)  # the time was over before the search
    evaluated: dict[Point, Candidate | None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._started = time.monotonic()
        every, sample = dict(AXES), self.validation.sample
        if self.validation.balanced:
            # Queries of all classes alike have no prior to be found.
            every["prior"] = (0.0,)
        priors = self.axes.get("prior", BALANCED_PRIORS if self.validation.balanced else None)
        if sample.dim <= LIFTED_DIM and len(sample.y) <= LIFTED_ROWS:
            every["lift"] = (None, *LIFTS)
        self.axes = every | dict(self.axes)
        counts, shrinkages = self.axes["components"], self.axes["shrinkage"]
        inside = tuple(s for s in shrinkages if s is not None)
        metrics = [(None,)] * (None in shrinkages) + [inside] * bool(inside)
        # Refined classes alone need no others.
        for metric in metrics if None in self.axes["refine"] else ():
            found: dict[str, Candidate] = {}
            for name in (name for name in SEARCHED if name in self.axes["realization"]):
                # Class temperatures change the slopes as angular does, to first order.
                near = found.get("angular") if name in TEMPERED else None
                candidate = self._family(name, metric, counts[:1], near and near.point)
                if candidate is not None:
                    found[name] = candidate
            if len(counts) > 1 and found:
                point = min(found.values(), key=self._badness).point
                # Components are fitted anew in each metric: that of one component is kept.
                self._family(point.realization, (point.shrinkage,), counts, point)
        if precisions := [value for value in self.axes["refine"] if value is not None]:
            # In the metric, if there is one.
            self._refined(metrics[-1], precisions, priors or self.axes["prior"])

    @cached_property
    def weights(self) -> Tensor:
        """Weights [M] in the loss, zero for rows whose class has no training rows."""
        absent = torch.cat([fold.absent for fold in self.validation.folds()])
        weights = self.validation.weights.masked_fill(absent, 0.0)
        if not weights.sum() > 0:
            raise ValueError(
                "expected a validation row of a class with training rows, got none; "
                "copies of a row are in one fold, so that a class needs two different rows"
            )
        return weights / weights.sum()

    @cached_property
    def candidates(self) -> list[Candidate]:
        """All evaluated points that can be realized."""
        found = [candidate for candidate in self.evaluated.values() if candidate is not None]
        if not found:
            raise ValueError("expected axes with a point that can be realized, got none")
        return found

    @property
    def best(self) -> Candidate:
        """The candidate of the best score."""
        return min(self.candidates, key=self._badness)

    @cached_property
    def chosen(self) -> Candidate:
        """The best refined candidate if it ties with the best, else the simplest that does."""
        return self._simplest(self.candidates)

    @property
    def rules(self) -> dict[str, Candidate]:
        """The chosen candidate, and of each other realization, and of refined classes, the simplest
        that ties with its best."""
        own: dict[str, list[Candidate]] = {name: [] for name in (*REALIZATIONS, REFINED)}
        for candidate in self.candidates:
            own[kind_of(candidate.point)].append(candidate)
        rules = {name: self._simplest(found) for name, found in own.items() if found}
        return rules | {kind_of(self.chosen.point): self.chosen}

    def _badness(self, candidate: Candidate) -> float:
        return candidate.loss if self.scoring == "neg_log_loss" else -candidate.accuracy

    def _simplest(self, candidates: list[Candidate]) -> Candidate:
        best, weights = min(candidates, key=self._badness), self.validation.weights
        # No refined point is simpler to have than another.
        refined = (c for c in candidates if c.point.refine is not None)
        first = min(refined, key=self._badness, default=None)
        if first is not None and simplest([first], best, weights, self.weights) is first:
            return first
        plain = [c for c in candidates if c.point.refine is None]
        return simplest(plain, best, weights, self.weights)

    def _family(
        self,
        realization: str,
        shrinkages: Sequence[float | None],
        components: Sequence[int],
        near: Point | None,
    ) -> Candidate | None:
        """Return the best point of a realization, ``near`` one of a similar family; or None."""
        axes = {name: self.axes[name] for name in ("temperature", "beta", "prior")}
        axes |= {"shrinkage": shrinkages, "components": components}
        if realization in FIXED_BETA:
            axes["beta"] = (FIXED_BETA[realization],)
        if realization == "cosine":
            # The temperature is a part of the scale.
            axes["temperature"] = axes["temperature"][:1]
        first = {name: values[0] for name, values in axes.items()}
        first["shrinkage"] = shrinkages[len(shrinkages) // 2]
        free = [name for name, values in axes.items() if len(values) > 1]
        if near is not None:
            first |= {name: getattr(near, name) for name in free}
            # The values on either side; the search goes on from there.
            for name in free:
                if name != "components":
                    sides = (beyond(name, first[name], low) for low in (True, False))
                    axes[name] = tuple(value for value in sides if value is not None)
            free.reverse()
        origin = Point(realization, **first)
        best, moved = self._at(origin), True
        while moved:
            before = best
            for name in free:
                best = self._along(name, axes[name], best.point if best else origin, best)
            moved = best is not before
        return best

    def _refined(
        self,
        shrinkages: Sequence[float | None],
        precisions: Sequence[float],
        priors: Sequence[float],
    ) -> None:
        """Walk along precision, shrinkage and prior while the score improves, in each lift."""
        axes = {"shrinkage": shrinkages, "refine": precisions, "prior": priors}
        first = {name: values[len(values) // 2] for name, values in axes.items()}
        first |= {"shrinkage": shrinkages[-1], "prior": max(priors)}
        point = Point("angular", self.axes["temperature"][0], 0.0, components=1, **first)
        for lift in self.axes["lift"]:
            own = {name: list(values) for name, values in axes.items()}
            best = before = self._at(point._replace(lift=lift))
            while best is not None:
                for name, values in own.items():
                    best = self._walk(name, values, best)
                if best is before:
                    break
                before = best

    def _walk(self, name: str, values: list[Any], best: Candidate) -> Candidate:
        """Return the best point along an axis from the best one, on both sides until it is worse;
        values outside the edges are added."""
        values.sort()
        for low in (True, False):
            while True:
                at = values.index(getattr(best.point, name)) + (-1 if low else 1)
                if not 0 <= at < len(values):
                    if len(values) == 1 or not self.extend:
                        break
                    value = beyond(name, getattr(best.point, name), low)
                    if value is None:
                        break
                    values.insert(0 if low else len(values), value)
                    at = 0 if low else len(values) - 1
                before, best = best, self._better(best.point, name, values[at], best) or best
                if best is before:
                    break
        return best

    def _along(
        self, name: str, values: Sequence[Any], origin: Point, best: Candidate | None
    ) -> Candidate | None:
        """Return the best point along an axis through a point, the best so far."""
        values = sorted({*values, getattr(origin, name)})
        for value in values:
            best = self._better(origin, name, value, best)
        while self.extend and best is not None:
            value = getattr(best.point, name)
            outside = beyond(name, value, value == values[0])
            if value not in (values[0], values[-1]) or outside is None:
                break
            values = sorted({*values, outside})
            before, best = best, self._better(origin, name, outside, best)
            if best is before:
                break
        return best

    def _better(
        self, origin: Point, name: str, value: Any, best: Candidate | None
    ) -> Candidate | None:
        other = self._at(origin._replace(**{name: value}))
        if other is None or best is None:
            return best if other is None else other
        margin = LEAST * max(1.0, abs(self._badness(best)))
        return other if self._badness(other) < self._badness(best) - margin else best

    def _at(self, point: Point) -> Candidate | None:
        """Evaluate a point once; None if a class has no temperature there, or the time is over."""
        if point not in self.evaluated:
            spent = time.monotonic() - self._started
            if self.seconds is not None and spent > self.seconds and any(self.evaluated.values()):
                self.stopped = True
                return None
            self.evaluated[point] = self._evaluate(point)
        return self.evaluated[point]

    def scores(self, point: Point) -> Tensor:
        """Return the scores [M, C] of the validation rows at a point."""
        validation = self.validation.lifted(point.lift)
        folds = validation.folds(point.shrinkage, point.components, point.refine)
        return torch.cat([fold.scores(*point[:4]) for fold in folds])

    def _evaluate(self, point: Point) -> Candidate | None:
        s, y = self.scores(point), self.validation.y
        most, predicted = s.max(1)
        if most.isnan().any():
            return None
        counted = self.weights > 0
        own, labels, w = s, y, self.weights
        if not counted.all():
            own, labels, w = s[counted], y[counted], w[counted]
        scale = fit_scale(own, labels, w) if self.scaled else 1.0
        losses = torch.zeros_like(self.weights)
        losses[counted] = log_losses(own, labels, scale)
        hits = (predicted == y).double()
        accuracy = float(hits @ self.validation.weights)
        return Candidate(point, scale, float(losses @ self.weights), losses, accuracy, hits)
