r"""Rows of a fit, each scored against the classes without this row (sec:self-inclusion).

Nothing is fitted again: the sums of a class lose the row, and a metric changes in closed form.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from resultant._core.arrays import directions
from resultant.classes.metric import Metric
from resultant.classes.statistics import ZERO_LENGTH, ClassStatistics
from resultant.classifiers.inputs import Sample
from resultant.classifiers.validation import Validation, ValidationFold


class LeaveOneOut(Validation):
    """Validation rows, each scored against the classes of all other rows; see `Validation`."""

    def __init__(self, sample: Sample, **settings: Any) -> None:
        every = torch.arange(len(sample.y), device=sample.y.device)
        super().__init__(sample, [(every, every)], **settings)

    def folds(
        self, shrinkage: float | None = None, components: int | str = 1
    ) -> list[ValidationFold]:
        """Return all rows as one fold; there is no such fold of several components."""
        if components != 1:
            raise ValueError(f'expected components=1 with cv="loo", got {components!r}')
        key = shrinkage, components
        if key not in self._folds:
            sums = self.sample.sums(scatter=shrinkage is not None and self.whiten)
            metric = means = None
            if shrinkage is not None:
                metric = Metric.fit(sums, shrinkage, center=self.center, whiten=self.whiten)
                means, sums = class_means(sums), self.sample.sums(metric=metric)
            some = self.sample.at(self.index)
            self._folds[key] = [left_out_fold(some, sums, self.estimator, metric, means)]
        return self._folds[key]


def class_means(sums: ClassStatistics) -> Tensor:
    """Return the means [C, p] of the classes, zeros without weight."""
    return sums.total / torch.where(sums.weight > 0, sums.weight, 1.0)[:, None]


def left_out_fold(
    sample: Sample,
    statistics: ClassStatistics,
    estimator: str,
    metric: Metric | None = None,
    means: Tensor | None = None,
) -> ValidationFold:
    """Score rows of a fit, each against the classes without this row, whose sums are exact; with
    ``means`` of the classes outside the metric, also in the metric without the row.

    Without the row the within-class covariance loses the outer product of its residual e, a
    rank-one change of the inner product (Sherman-Morrison), and the centre moves along e. The
    lengths of the other rows are kept.
    """
    state, y, w = statistics.state(estimator), sample.y, sample.w
    z = directions(sample.rows[:])[0]
    x = z if metric is None else metric.transform(z)
    mu, kappa = statistics.left_out(x, y, w, estimator)
    before, index = statistics.weight[y], y[:, None]
    weight = before - w
    # As in the statistics: the remainder of an empty class is rounding.
    weight = torch.where(weight > ZERO_LENGTH * before, weight, 0.0)
    every, own = x @ state.mu.T, (x * mu).sum(-1, keepdim=True)
    if metric is not None and means is not None:
        u = metric.rotate(z) * metric.scale
        e = u - metric.rotate(means[y]) * metric.scale
        square, along = e.square().sum(-1, keepdim=True), (x * e).sum(-1, keepdim=True)
        share, f = (w / weight.clamp_min(ZERO_LENGTH))[:, None], torch.zeros_like(square)
        if metric.basis is not None and float(variance := metric.variance.mean()) > 0:
            part = (before / statistics.weight.sum())[:, None]
            removed = (1 - metric.shrinkage) * share * part / variance
            f = removed / (1 - removed * square).clamp_min(1e-6)
        # The centre is the mean of the class means: all rows move by a part of e, over their
        # length. The length of the row stands for those of the others.
        move = share / (statistics.weight > 0).sum() * float(metric.mean.any())
        move = move / u.square().sum(-1, keepdim=True).sqrt().clamp_min(1e-12)

        def cosine(dot: Tensor, of_class: Tensor, resultant: Tensor) -> Tensor:
            a = move / resultant.clamp_min(ZERO_LENGTH) * (resultant > ZERO_LENGTH)
            of_row, of_class_e = along + move * square, of_class + a * square
            inner = dot + a * along + move * of_class + move * a * square + f * of_row * of_class_e
            row = 1 + 2 * move * along + move.square() * square + f * of_row.square()
            of = 1 + 2 * a * of_class + a.square() * square + f * of_class_e.square()
            return inner / (row * of).clamp_min(1e-12).sqrt()

        R = statistics.mean_length
        every = cosine(every, e @ state.mu.T, R)
        own = cosine(own, (e * mu).sum(-1, keepdim=True), R[index])
    # A row without a direction has none without itself either.
    rho = every.scatter(1, index, own) * (x != 0).any(-1, keepdim=True)
    return ValidationFold(
        rho.clamp(-1, 1).to(sample.rows.dtype),
        y,
        state.kappa.expand_as(rho).scatter(1, index, kappa[:, None]),
        statistics.weight.expand_as(rho).scatter(1, index, weight[:, None]),
        state.dim,
    )
