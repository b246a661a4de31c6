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
    """Validation rows that are scored against the classes of all other rows; see `left_out_fold`.

    Arguments are those of `Validation`, without splits.
    """

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
                means = sums.total / torch.where(sums.weight > 0, sums.weight, 1.0)[:, None]
                sums = self.sample.sums(metric=metric)
            some = self.sample.at(self.index)
            self._folds[key] = [left_out_fold(some, sums, self.estimator, metric, means)]
        return self._folds[key]


def left_out_fold(
    sample: Sample,
    statistics: ClassStatistics,
    estimator: str,
    metric: Metric | None = None,
    means: Tensor | None = None,
) -> ValidationFold:
    r"""Score rows of a fit, each against the classes without this row.

    The sums of its class without a row are exact. A metric changes without the row as well; see
    `_without_row`.
    """
    state, y, w = statistics.state(estimator), sample.y, sample.w
    z = directions(sample.rows[:])[0]
    x = z if metric is None else metric.transform(z)
    mu, kappa = statistics.left_out(x, y, w, estimator)
    before, index = statistics.weight[y], y[:, None]
    weight = before - w
    # As in the statistics: the remainder of an empty class is rounding.
    weight = torch.where(weight > ZERO_LENGTH * before, weight, 0.0)
    if metric is None or means is None:
        rho = (x @ state.mu.T).scatter(1, index, (x * mu).sum(-1, keepdim=True))
    else:
        factors = w / weight.clamp_min(ZERO_LENGTH), before / statistics.weight.sum()
        rho = _without_row(z, means[y], x, mu, y, metric, statistics, torch.stack(factors, 1))
    return ValidationFold(
        rho.clamp(-1, 1).to(sample.rows.dtype),
        y,
        state.kappa.expand_as(rho).scatter(1, index, kappa[:, None]),
        statistics.weight.expand_as(rho).scatter(1, index, weight[:, None]),
        state.dim,
    )


def _without_row(
    z: Tensor,
    mean: Tensor,
    x: Tensor,
    mu: Tensor,
    y: Tensor,
    metric: Metric,
    statistics: ClassStatistics,
    factors: Tensor,
) -> Tensor:
    r"""Compute cosines of rows with classes in metrics that are fitted without the row.

    Without the row the within-class covariance loses the outer product of its residual e, a
    rank-one change of the inner product (Sherman-Morrison), and the centre moves along e. The
    lengths of the other rows are kept.
    """
    directed, R = statistics.state().mu, statistics.mean_length
    u, e = metric.rotate(z) * metric.scale, (metric.rotate(z) - metric.rotate(mean)) * metric.scale
    share, length = factors[:, :1], u.square().sum(-1, keepdim=True).sqrt().clamp_min(1e-12)
    square = e.square().sum(-1, keepdim=True)
    f = torch.zeros_like(share)
    if metric.basis is not None and float(metric.variance.mean()) > 0:
        removed = (1 - metric.shrinkage) * share * factors[:, 1:] / metric.variance.mean()
        f = removed / (1 - removed * square).clamp_min(1e-6)
    # The centre is the mean of the class means: all rows move by ``step * e``, over their length.
    # The length of the row stands for those of the others.
    step = share / (statistics.weight > 0).sum() if metric.mean.any() else torch.zeros_like(share)
    move = step / length
    along = (x * e).sum(-1, keepdim=True)

    def cosine(dot: Tensor, of_class: Tensor, resultant: Tensor) -> Tensor:
        a = move / resultant.clamp_min(ZERO_LENGTH) * (resultant > ZERO_LENGTH)
        of_row, of_class_e = along + move * square, of_class + a * square
        inner = dot + a * along + move * of_class + move * a * square + f * of_row * of_class_e
        row = 1 + 2 * move * along + move.square() * square + f * of_row.square()
        of = 1 + 2 * a * of_class + a.square() * square + f * of_class_e.square()
        return inner / (row * of).clamp_min(1e-12).sqrt()

    every = cosine(x @ directed.T, e @ directed.T, R)
    own = cosine((x * mu).sum(-1, keepdim=True), (e * mu).sum(-1, keepdim=True), R[y, None])
    # A row without a direction has none without itself either.
    return every.scatter(1, y[:, None], own) * (x != 0).any(-1, keepdim=True)
