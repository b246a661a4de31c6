r"""Refined classes: the vMF directions, moved by the rows that they get wrong.

Pure Angular classes of equal gain g are a softmax of the scores :math:`g\mu_c^\top x`. The
refinement takes :math:`\theta_c=g\mu_c+\delta_c` and minimizes

.. math:: -\sum_n w_n\log p(y_n\mid x_n)+\tfrac\lambda2\sum_c|\delta_c|^2,\qquad
   p(c\mid x_n)\propto\pi_c\exp(\delta_c^\top x_n+g\,m_{nc}),

where :math:`m_{nc}=\mu_c^\top x_n`, but the row's own class has the direction without the row. A
row alone in its class keeps the direction. The function is strictly convex; its gradient is a sum
over rows, so that a pass over chunks of rows, on any machine, adds up to one matrix [C, p].
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from resultant._core.arrays import directions
from resultant.classes.metric import Metric, have_direction
from resultant.classes.statistics import ClassStatistics
from resultant.classifiers.folds import draw_rows
from resultant.classifiers.inputs import Sample, row_chunks
from resultant.classifiers.left_out import GAIN_CELLS, QUICK, Moved, best_gain, left_out
from resultant.vmf.estimators import ROUNDING

# Rows in the metric are kept up to so many bytes; more are moved there again in every pass.
KEPT_BYTES = 1 << 30

# Precisions that a search begins with.
PRECISIONS = (3.0, 1.0, 0.3, 0.1, 0.03)

# The most passes of a fit.
MOST_PASSES = 300
# Nats per row by which the function of a search may be above its least value.
SEARCH_NATS = 3e-4
# Pairs of steps and gradients that approximate the curvature.
MEMORY = 10


class Batch(NamedTuple):
    """Unit vectors in the metric."""

    x: Tensor  # unit vectors [n, p]
    y: Tensor  # classes [n]
    w: Tensor  # weights [n]


class Batches:
    """Chunks of a sample in a metric, which can be read several times."""

    def __init__(self, sample: Sample, metric: Metric | None) -> None:
        self.sample, self.metric = sample, metric
        number = len(sample.y) * sample.dim * sample.rows.dtype.itemsize
        self._kept = list(self._read()) if number <= KEPT_BYTES else None

    def __iter__(self) -> Iterator[Batch]:
        return self._read() if self._kept is None else iter(self._kept)

    def _read(self) -> Iterator[Batch]:
        s, dtype = self.sample, self.sample.rows.dtype
        for at in row_chunks(s.rows, s.num_classes):
            x = directions(s.rows[at])[0].to(dtype)
            x = x if self.metric is None else self.metric.transform(x)
            yield Batch(x, s.y[at], s.w[at].to(dtype))


@dataclass(frozen=True, eq=False)
class Refined:
    """Refined classes of linear scores ``gain * direction @ x``."""

    direction: Tensor  # unit vectors [C, p]; zeros for a class without rows
    gain: Tensor  # gains [C]

    @staticmethod
    def of(theta: Tensor) -> Refined:
        """Return the classes of vectors theta [C, p]."""
        gain = theta.norm(dim=1)
        return Refined(normalize(theta, dim=1), gain)

    @property
    def theta(self) -> Tensor:
        """Vectors [C, p] of the scores."""
        return self.direction * self.gain[:, None]

    def at(self, classes: Tensor) -> Refined:
        """Return some of the classes."""
        return Refined(self.direction[classes], self.gain[classes])

    def to(self, dtype: torch.dtype) -> Refined:
        """Return the classes in a dtype."""
        return Refined(self.direction.to(dtype), self.gain.to(dtype))


@dataclass(eq=False)
class Refinement:
    """The refinement of classes in a metric.

    Args:
        batches: Chunks of the rows, in the metric.
        statistics: Sums of these rows.
        gain: Gain g of the directions.
    """

    batches: Iterable[Batch]
    statistics: ClassStatistics
    gain: float

    def __post_init__(self) -> None:
        first = next(iter(self.batches))
        total, weight = self.statistics.total, self.statistics.weight
        length = total.norm(dim=1, keepdim=True)
        mu = torch.where(length > ROUNDING, total / length.clamp_min(ROUNDING), 0.0)
        self.prior = (self.gain * mu).to(first.x.dtype)
        self._share = (weight / weight.sum()).log().to(first.x.dtype)
        self._offsets = [self._offset(batch) for batch in self.batches]

    def _offset(self, batch: Batch) -> Tensor:
        """Return g times the change [n] of the cosine of the own class without the row."""
        x, y, w = batch
        one, square = w.double().clamp_max(1.0), x.square().sum(1).double()
        length = self.statistics.total.norm(dim=1)[y]
        inner = (self.statistics.total.to(x.dtype)[y] * x).sum(1).double()
        rest = (length.square() - 2 * one * inner + one.square() * square).clamp_min(0).sqrt()
        # Without the row nothing is left, or nothing that has a direction.
        alone = self.statistics.weight[y] - one <= ROUNDING * self.statistics.weight[y]
        alone |= (rest <= 1e-6) | (length <= ROUNDING)
        without = (inner - one * square) / torch.where(alone, 1.0, rest)
        change = without - inner / length.clamp_min(ROUNDING)
        return (self.gain * torch.where(alone, 0.0, change)).to(x.dtype)

    def evaluate(self, theta: Tensor, precision: float) -> tuple[float, Tensor]:
        """Return the function at theta [C, p], and its gradient [C, p]."""
        delta = theta - self.prior
        value, gradient = precision / 2 * float(delta.double().square().sum()), precision * delta
        for (x, y, w), offset in zip(self.batches, self._offsets, strict=True):
            own = y[:, None]
            s = (x @ theta.T).add_(self._share).scatter_add_(1, own, offset[:, None])
            s.sub_(s.amax(1, keepdim=True))
            score = s.gather(1, own)
            total = s.exp_().sum(1, keepdim=True)
            value += float(w.double() @ (total.log() - score)[:, 0].double())
            # Probabilities less the label, by the weight of the row.
            residual = s.mul_(w[:, None].div(total)).scatter_add_(1, own, -w[:, None])
            gradient.addmm_(residual.T, x)
        return value, gradient

    def fit(
        self, precision: float, start: Tensor | None = None, nats: float | None = None
    ) -> Tensor:
        """Return theta [C, p] for a precision, where the function is above its least value by about
        ``nats`` per row; by default, by little more than its rounding."""
        begin = self.prior if start is None else start
        each = torch.finfo(begin.dtype).eps ** 0.75 if nats is None else nats
        least = each * float(self.statistics.weight.sum())
        return minimize(lambda theta: self.evaluate(theta, precision), begin, least)


class RefinableFold:
    """Training rows and validation rows in metrics that share a rotation. Each fit starts from the
    last one.

    Args:
        sample: Training rows.
        rows: Validation rows [n, p] as unit vectors.
        metric: Metric of the training rows in any shrinkage, or None.
    """

    def __init__(self, sample: Sample, rows: Tensor, metric: Metric | None) -> None:
        self.sample, self.metric, self._rows = sample, metric, sample.merged
        self._sides = [
            self._turned(directions(self._rows.rows[:])[0].to(rows.dtype)),
            self._turned(rows),
        ]
        self._drawn, _ = draw_rows(self._rows.y, sample.num_classes, GAIN_CELLS)
        self.gains: dict[float | None, float] = {}  # before the refinement, by shrinkage
        self._last: tuple[Tensor, Tensor] | None = None
        self._made: tuple[float | None, Refinement, Tensor] | None = None

    def _turned(self, z: Tensor) -> Tensor:
        if self.metric is None:
            return z
        x = self.metric.rotate(z)
        return torch.where(have_direction(z, x), x, 0.0)

    def _gain(self, x: Tensor, sums: ClassStatistics, shrinkage: float | None) -> float:
        """Return `left_out_gain` of the training rows, unit vectors x in the metric."""
        y, w, metric, folds = self._rows.y, self._rows.w, None, []
        if self.metric is not None:
            assert shrinkage is not None
            metric = self.metric.with_shrinkage(shrinkage).to(dtype=torch.float64)
        for at in self._drawn.split(next(row_chunks(x, sums.num_classes)).stop):
            moved = metric and Moved.of(self._sides[0][at], self.sample.summed, metric)
            own = x[at], y[at], w[at].clamp_max(1.0)
            folds.append(left_out(*own, sums, QUICK, moved))
        return best_gain(folds, w[self._drawn])

    def fit(self, shrinkage: float | None, precision: float) -> tuple[Tensor, ClassStatistics]:
        """Return scores [n, C] of the validation rows by refined classes, and the sums."""
        scale = self._sides[0].new_ones(1)
        if self.metric is not None:
            assert shrinkage is not None
            scale = self.metric.with_shrinkage(shrinkage).scale.to(scale)
        if self._made is None or self._made[0] != shrinkage:
            x, rows = (normalize(side * scale, dim=1) for side in self._sides)
            sums = ClassStatistics(self.sample.num_classes, self.sample.dim, device=x.device)
            sums.add(x, self._rows.y, self._rows.w)
            if shrinkage not in self.gains:
                self.gains[shrinkage] = self._gain(x, sums, shrinkage)
            batch = Batch(x, self._rows.y, self._rows.w.to(x.dtype))
            self._made = shrinkage, Refinement([batch], sums, self.gains[shrinkage]), rows
        _, refinement, rows = self._made
        start = None
        if self._last is not None:
            theta, before = self._last
            # The same boundaries in another metric.
            start = theta * before / scale
            start *= theta.norm() / start.norm()
        theta = refinement.fit(precision, start, SEARCH_NATS)
        self._last = theta, scale
        return rows @ theta.T, refinement.statistics


def minimize(
    evaluate: Callable[[Tensor], tuple[float, Tensor]], start: Tensor, least: float
) -> Tensor:
    """Minimize a strictly convex function of a tensor by L-BFGS until the expected decrease is
    below ``least``, or rounding hides it."""
    at, (value, gradient) = start, evaluate(start)
    pairs: deque[tuple[Tensor, Tensor, float]] = deque(maxlen=MEMORY)
    passes = 1
    while passes < MOST_PASSES:
        step = -_inverse(gradient, pairs)
        slope = float((step * gradient).sum())
        # A few pairs know the curvature.
        if not slope < 0 or (len(pairs) > 2 and -slope / 2 <= least):
            break
        size = 1.0 if pairs else min(1.0, 1 / float(gradient.norm()))
        for _ in range(20):
            new = at + size * step
            after, turned = evaluate(new)
            passes += 1
            if after <= value + 1e-4 * size * slope:
                break
            # The least point of the parabola through both values.
            curve = 2 * (after - value - size * slope) / size**2
            size = min(max(-slope / curve if curve > 0 else 0.5 * size, 0.1 * size), 0.5 * size)
        else:
            return at
        moved, changed = new - at, turned - gradient
        inner = float((moved * changed).sum())
        if inner > 0:
            pairs.append((moved, changed, inner))
        if not math.isfinite(after) or not (new != at).any():
            return at
        at, value, gradient = new, after, turned
    return at


def _inverse(gradient: Tensor, pairs: Iterable[tuple[Tensor, Tensor, float]]) -> Tensor:
    """Multiply a gradient by the inverse of the curvature that the pairs show."""
    pairs, direction, parts = list(pairs), gradient.clone(), []
    for moved, changed, inner in reversed(pairs):
        part = float((moved * direction).sum()) / inner
        direction.sub_(changed, alpha=part)
        parts.append(part)
    if pairs:
        _, changed, inner = pairs[-1]
        direction.mul_(inner / float(changed.square().sum()))
    for (moved, changed, inner), part in zip(pairs, reversed(parts), strict=True):
        direction.add_(moved, alpha=part - float((changed * direction).sum()) / inner)
    return direction
