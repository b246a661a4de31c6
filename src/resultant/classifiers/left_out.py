"""Rows scored against classes without them (sec:self-inclusion, sec:cross-fitted-estimator)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from resultant._core.arrays import directions
from resultant.classes.gain import class_gains
from resultant.classes.metric import Metric
from resultant.classes.scores import ScoreTerms, score_terms
from resultant.classes.statistics import ClassStatistics
from resultant.classifiers.calibration import fit_scale
from resultant.classifiers.em import Components
from resultant.classifiers.folds import draw_rows
from resultant.classifiers.inputs import Sample, row_chunks
from resultant.vmf.estimators import ROUNDING, fit_kappa, fit_length, mean_resultant

# Rows times classes that fit the gain of refined classes, and the number of rows per class of which
# one counts for all classes alike. A fit and its folds must have nearly one gain, or else the
# scores of validation rows are not those of new rows: many rows, and a number that is not theirs.
GAIN_CELLS, GAIN_ROWS = 1 << 22, 30
# The estimator of concentrations that nobody reads.
QUICK = "banerjee"


@dataclass(frozen=True, eq=False)
class ValidationFold:
    """Validation rows, and the classes of the training rows of a split."""

    rho: Tensor  # cosines [n, M] of the rows with the components, one per class or several
    y: Tensor  # class indices [n]
    kappa: Tensor  # concentrations [M] in float64, or [n, M] where each row has its own classes
    weight: Tensor  # weights of the classes [C] or [n, C]; zero for a class without training rows
    dim: int
    # Components of the classes that have training rows; None for one per class.
    components: Components | None = None
    # The cosines are scores already: those of refined classes.
    linear: bool = False

    @cached_property
    def present(self) -> Tensor:
        """Classes [C] or [n, C] that have training rows."""
        return self.weight > 0

    @cached_property
    def absent(self) -> Tensor:
        """Rows [n] whose class has no training rows."""
        every = self.present.expand(len(self.y), -1)
        return ~every.gather(1, self.y[:, None])[:, 0]

    @cached_property
    def resultant(self) -> Tensor:
        """Mean resultant lengths of the concentrations."""
        return mean_resultant(self.dim, self.kappa, validate_args=False)

    @cached_property
    def log_prior(self) -> Tensor:
        """Log shares of the classes, zero for classes without training rows."""
        share = self.weight / self.weight.sum(-1, keepdim=True)
        return torch.where(self.present, share, 1.0).log()

    def scores(self, realization: str, tau: float, beta: float, prior: float) -> Tensor:
        """Compute the scores [n, C] of a rule; -inf without training rows, NaN if undefined."""
        return self.of_classes(self._edited(realization, tau, beta), prior)

    def of_classes(self, s: Tensor, prior: float) -> Tensor:
        """Sum the components of scores [n, M], and add the prior."""
        if self.components is not None:
            s = self.components.of_classes(s + self.components.log_weight.to(s.dtype))
            every = s.new_full((len(s), self.weight.shape[-1]), -torch.inf)
            every[:, self.present] = s
            s = every
        if prior:
            s = s + (prior * self.log_prior).to(s.dtype)
        return s if self.present.all() else s.masked_fill(~self.present, -torch.inf)

    def _edited(self, realization: str, tau: float, beta: float) -> Tensor:
        """Compute the scores [n, M] of `class_scores`."""
        if self.linear:
            return self.rho
        kappa, g = self.kappa.to(self.rho.dtype), self.resultant / tau
        counted = self.present if self.components is None else torch.ones_like(g, dtype=torch.bool)
        mean = (g * counted).sum(-1, keepdim=True) / counted.sum(-1, keepdim=True)
        gains = class_gains(g, beta, "linear", mean)
        rule = score_terms(realization, kappa, self.rho.new_full((), tau), gains, self.dim)
        rule = ScoreTerms(*(None if a is None else a.to(kappa) for a in rule))
        return rule.score(self.rho, kappa, self.dim)


class Moved(NamedTuple):
    """Lengths of rows, and means of the classes, in a metric before they are normalized."""

    length: Tensor  # [n]
    means: Tensor  # [C, p]
    metric: Metric

    @staticmethod
    def of(rotated: Tensor, statistics: ClassStatistics, metric: Metric) -> Moved:
        """Scale ``rotated`` rows, and move the means of sums outside the metric."""
        weight = statistics.weight
        means = statistics.total / torch.where(weight > 0, weight, 1.0)[:, None]
        means = metric.rotate(means) * metric.scale
        return Moved((rotated * metric.scale.to(rotated)).norm(dim=-1).double(), means, metric)


def left_out_fold(
    sample: Sample,
    statistics: ClassStatistics,
    estimator: str,
    metric: Metric | None = None,
    plain: ClassStatistics | None = None,
) -> ValidationFold:
    """Score rows of a fit, each against the classes without this row; with ``plain`` sums outside
    the metric, also in the metric without the row."""
    x, moved = directions(sample.rows[:])[0], None
    if metric is not None:
        rotated = metric.rotate(x)
        moved = None if plain is None else Moved.of(rotated, plain, metric)
        x = metric.normalize(x, rotated)
    fold = left_out(x, sample.y, sample.w, statistics, estimator, moved)
    return replace(fold, rho=fold.rho.to(sample.rows.dtype))


def left_out(
    x: Tensor,
    y: Tensor,
    w: Tensor,
    statistics: ClassStatistics,
    estimator: str,
    moved: Moved | None = None,
) -> ValidationFold:
    """Score unit vectors x [n, p] in the metric of the ``statistics``, each against the classes
    without it, from the cosines with the classes. For ``moved`` rows the metric loses the row too:
    the covariance loses the outer product of its residual e (Sherman-Morrison), and the centre
    moves along e."""
    state, index = statistics.state(estimator), y[:, None]
    every, w = (x @ state.mu.to(x).T).double(), w[:, None]
    # A row without a direction is zero, and adds nothing to its class.
    unit = x.any(-1, keepdim=True).to(every)
    total, before = statistics.total.norm(dim=1)[index], statistics.weight[index]
    weight = before - w
    # As in the statistics: the remainder of an empty class is rounding.
    weight = torch.where(weight > ROUNDING * before, weight, 0.0)
    # The sum of the own class loses w x.
    inner = every.gather(1, index) * total
    rest = (total.square() - 2 * w * inner + w.square() * unit).clamp_min(0).sqrt() * (weight > 0)
    R = fit_length(rest, weight)
    kappa = fit_kappa(statistics.dim, R, estimator, weight)

    def without(of_sum: Tensor, of_row: Tensor) -> Tensor:
        return (of_sum - w * of_row) / torch.where(R > 0, rest, torch.inf)

    own = without(inner, unit)
    if moved is not None:
        length, means, metric = moved.length[:, None], moved.means, moved.metric
        # The residual e is the row, of its length, less the mean of its class.
        along = length - (x * means.to(x)[y]).sum(-1, keepdim=True).double()
        square = length * (2 * along - length) + means.square().sum(-1)[index]
        of_classes = length * every - (means @ state.mu.T)[y]
        share, f = w / weight.clamp_min(ROUNDING), torch.zeros_like(square)
        if metric.basis is not None and float(variance := metric.variance.mean()) > 0:
            removed = (1 - metric.shrinkage) * share * before / statistics.weight.sum() / variance
            f = removed / (1 - removed * square).clamp_min(1e-6)
        # The centre is the mean of the class means: all rows move by a part of e, over their
        # length. The length of the row stands for those of the others.
        move = share / (statistics.weight > 0).sum() * float(metric.mean.any())
        move = move / length.clamp_min(1e-12)

        def cosine(dot: Tensor, of_class: Tensor, resultant: Tensor) -> Tensor:
            a = move / resultant.clamp_min(ROUNDING) * (resultant > ROUNDING)
            of_row, of_class_e = along + move * square, of_class + a * square
            inner = dot + a * along + move * of_class + move * a * square + f * of_row * of_class_e
            row = 1 + 2 * move * along + move.square() * square + f * of_row.square()
            of = 1 + 2 * a * of_class + a.square() * square + f * of_class_e.square()
            return inner / (row * of).clamp_min(1e-12).sqrt()

        length_of = statistics.mean_length
        own = cosine(own, without(of_classes.gather(1, index) * total, along), length_of[index])
        every = cosine(every, of_classes, length_of)
    # A row without a direction has none without itself either.
    rho = every.scatter(1, index, own) * unit
    return ValidationFold(
        rho.clamp(-1, 1),
        y,
        state.kappa.expand_as(rho).scatter(1, index, kappa),
        statistics.weight.expand_as(rho).scatter(1, index, weight),
        state.dim,
    )


def left_out_gain(
    sample: Sample,
    statistics: ClassStatistics,
    metric: Metric | None,
    plain: ClassStatistics | None,
) -> float:
    """Return the gain of refined classes before the refinement: the `best_gain` of the rows of a
    fit, each without itself."""
    index, C = draw_rows(sample.y, sample.num_classes, GAIN_CELLS)[0], sample.num_classes
    parts = index.split(next(row_chunks(sample.rows, C)).stop)
    # A row of weight two counts as two rows, one of which is left out.
    some = (replace(one, w=one.w.clamp_max(1.0)) for one in map(sample.at, parts))
    folds = [left_out_fold(one, statistics, QUICK, metric, plain) for one in some]
    return best_gain(folds, sample.w[index])


def best_gain(folds: Sequence[ValidationFold], w: Tensor) -> float:
    """Return the factor of the cosines that scores left-out rows of weights w [n] best, every class
    alike."""
    known = ~torch.cat([fold.absent for fold in folds]) & (w > 0)
    if not known.any():
        return 1.0
    scores = torch.cat([fold.of_classes(fold.rho, 0.0) for fold in folds])[known]
    y, w = torch.cat([fold.y for fold in folds])[known], w[known]
    mass = w.new_zeros(scores.shape[1]).index_add_(0, y, w)
    return fit_scale(scores, y, w / mass[y], number=GAIN_ROWS * scores.shape[1])
