r"""Validation rows scored against classes that were fitted without them.

The classes of a split, or of all rows but one, are the sums of all rows less those of the rows left
out (sec:self-inclusion, sec:cross-fitted-estimator). Cosines are computed once for each metric and
number of components; all else is arithmetic on these.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant._core.arrays import directions
from resultant.classes.gain import class_gains
from resultant.classes.metric import Metric
from resultant.classes.scores import ScoreTerms, cosines, score_terms
from resultant.classes.statistics import ClassState, ClassStatistics
from resultant.classifiers.calibration import fit_scale
from resultant.classifiers.em import Components, fit_components
from resultant.classifiers.inputs import Sample, as_numpy
from resultant.classifiers.lift import Lift
from resultant.classifiers.refine import RefinableFold
from resultant.vmf.estimators import ROUNDING, mean_resultant

# Folds of a search by default.
FOLDS = 5
# Validation rows times classes that are scored about, and at most, and the least number of rows.
CELLS = 1 << 18
MOST_CELLS = 1 << 23
LEAST_ROWS = 1024
# The same for the gain of refined classes.
GAIN_CELLS = 1 << 16
# Shrinkages that a search begins with, and those that it may visit: one pass sums their classes.
SHRINKAGES = (0.1, 0.3, 0.5)
LADDER = (0.003, 0.03, *SHRINKAGES, 0.75, 0.9)

# Training rows times dimension of all splits, to which refined classes are fitted in a search.
REFINE_CELLS = 1 << 27

# Shrinkage, number of components and precision of refined classes.
Key = tuple[float | None, int | str, float | None]
# Indices of training rows and of validation rows.
Split = tuple[Tensor, Tensor]


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


class Validation:
    """Validation rows of splits, of many a sample, in any metric and number of components."""

    def __init__(
        self,
        sample: Sample,
        splits: Sequence[Split],
        *,
        estimator: str = "mle",
        balanced: bool = False,
        center: bool = True,
        whiten: bool = True,
        merge: bool = True,
    ) -> None:
        self.sample, self.estimator, self.balanced = sample, estimator, balanced
        self.center, self.whiten = center, whiten
        self.train = [train for train, _ in splits]
        pool = torch.cat([rows for _, rows in splits])
        number = torch.cat([torch.full_like(rows, k) for k, (_, rows) in enumerate(splits)])
        if not float(sample.w[pool].sum()) > 0:
            raise ValueError("expected validation rows of positive weight, got none")
        rows, w = sample.distinct(pool, number)
        C, y = sample.num_classes, sample.y[pool[rows]]
        chosen, kept = draw_rows(y, C)
        self.index, self.split = pool[rows][chosen], number[rows][chosen]
        self.y = sample.y[self.index]
        w = w[chosen] * (torch.bincount(y, minlength=C) / kept)[self.y]
        if balanced:
            mass = w.new_zeros(C).index_add_(0, self.y, w)
            w = torch.where(w > 0, w / mass[self.y], 0.0)
        self.weights = w / w.sum()
        self._folds: dict[Key, list[ValidationFold]] = {}
        self._refinable: dict[int, RefinableFold] = {}
        self._lifted: dict[float, Validation] = {}
        self._gains: dict[tuple[int, float | None], float] = {}
        several = len(splits) > 1 and len(self.index) * len(splits) <= len(pool)
        if merge and several and (torch.bincount(pool, minlength=len(sample.y)) == 1).all():
            rest = torch.ones_like(sample.y, dtype=torch.bool).index_fill_(0, self.index, False)
            self.train, self.split = [rest.nonzero().squeeze(-1)], torch.zeros_like(self.split)

    @classmethod
    def of_folds(
        cls, sample: Sample, folds: int = FOLDS, groups: Any = None, **settings: Any
    ) -> Validation:
        """Return rows of stratified folds; equal rows, or those of ``groups`` [N], share one."""
        sample = sample.merged if groups is None else sample
        splits = stratified_splits(sample.y, folds, groups)
        if len(splits) < 2:
            raise ValueError(f"expected rows in two folds or more, got {len(splits)} fold")
        return cls(sample, splits, **settings, merge=groups is None)

    def folds(
        self, shrinkage: float | None = None, components: int | str = 1, refine: float | None = None
    ) -> list[ValidationFold]:
        """Return the folds in the metric of a shrinkage, None for rows as they are, of several
        components per class, or of classes that are refined with a precision."""
        key = shrinkage, components, refine
        if key not in self._folds:
            every = [self._made(k, *key) for k in range(len(self.train))]
            self._folds |= {name: [made[name] for made in every] for name in every[0]}
        return self._folds[key]

    def lifted(self, k: float | None) -> Validation:
        """Return the same rows lifted to random features, around the centre of all rows."""
        if k is None:
            return self
        if k not in self._lifted:
            other = copy.copy(self)
            other.sample = Lift.fit(self.sample, k).lifted(self.sample)
            other._folds, other._refinable, other._gains = {}, {}, {}
            vars(other).pop("_metrics", None)
            self._lifted[k] = other
        return self._lifted[k]

    def _made(
        self, k: int, shrinkage: float | None, components: int | str, refine: float | None
    ) -> dict[Key, ValidationFold]:
        """Score the rows of a split; in the first metric, those of all shrinkages of `LADDER`."""
        own, key = self.split == k, (shrinkage, components, refine)
        if refine is not None:
            return {key: self._refined_fold(k, shrinkage, refine)}
        if components != 1:
            return {key: self._mixture_fold(k, shrinkage, components)}
        if shrinkage is None:
            return {key: self._fold(k, self._rest(k), self._units(self.index[own]))}
        metric, wanted = self._metrics[k], [shrinkage]
        if self.whiten and all(key[0] is None for key in self._folds):
            wanted = sorted({shrinkage, *LADDER})
        # One rotation serves all shrinkages.
        rows, folds = [(z, metric.rotate(z)) for z in self._units(self.index[own])], {}
        every = self.sample.metric_sums(self.train[k], metric, wanted)
        for value, sums in zip(wanted, every, strict=True):
            shrunk = metric.with_shrinkage(value)
            folds[value, 1, None] = self._fold(k, sums, (shrunk.normalize(z, x) for z, x in rows))
        return folds

    def _rest(self, k: int, scatter: bool = False) -> ClassStatistics:
        """Subtract the rows that a split leaves out from the sums of all rows."""
        rest, train = self.sample.scattered if scatter else self.sample.summed, self.train[k]
        left_out = torch.ones_like(self.sample.y, dtype=torch.bool).index_fill_(0, train, False)
        index = left_out.nonzero().squeeze(-1)
        if len(train) + len(index) != len(left_out):
            raise ValueError("expected each row at most once in the training part of a split")
        if len(index):
            rest = rest.without(self.sample.sums(index, scatter=scatter))
        if not (rest.weight > 0).any():
            rows = "1 sample" if len(left_out) == 1 else f"{len(left_out)} samples"
            rule = "expected a training part of positive weight in each split"
            raise ValueError(f"{rule}, got none of {rows}")
        return rest

    @cached_property
    def _metrics(self) -> list[Metric]:
        """Metrics of the training rows of the splits."""
        settings: dict[str, Any] = {"center": self.center, "whiten": self.whiten}
        sums = (self._rest(k, scatter=self.whiten) for k in range(len(self.train)))
        return [Metric.fit(rest, **settings, dtype=self.sample.rows.dtype) for rest in sums]

    def _units(self, index: Tensor, metric: Metric | None = None) -> Iterator[Tensor]:
        for at in self.sample.chunks(index):
            x = directions(self.sample.rows[at])[0].to(self.sample.rows.dtype)
            yield x if metric is None else metric.transform(x)

    def _fold(self, k: int, sums: ClassStatistics, rows: Iterable[Tensor]) -> ValidationFold:
        """Score the validation rows of a split, unit vectors in chunks, against classes."""
        state, y = sums.state(self.estimator), self.y[self.split == k]
        return ValidationFold(self._cosines(rows, state), y, state.kappa, sums.weight, state.dim)

    def _mixture_fold(self, k: int, shrinkage: float | None, number: int | str) -> ValidationFold:
        """Score the validation rows of a split against ``number`` components per class."""
        metric = None if shrinkage is None else self._metrics[k].with_shrinkage(shrinkage)
        chosen, w = self.sample.distinct(self.train[k])
        train = self.train[k][chosen]
        y, own = self.sample.y[train], self.split == k
        weight = w.new_zeros(self.sample.num_classes).index_add_(0, y, w)
        x = torch.cat(list(self._units(train, metric)))
        parts = fit_components(x, y, w, number, self.estimator)
        rho = self._cosines(self._units(self.index[own], metric), parts.state)
        return ValidationFold(rho, self.y[own], parts.state.kappa, weight, x.shape[1], parts)

    def _refined_fold(self, k: int, shrinkage: float | None, precision: float) -> ValidationFold:
        """Score the validation rows of a split by refined classes."""
        own = self.split == k
        if k not in self._refinable:
            # A precision is a property of the classes, whatever the number of their rows.
            train, cells = self.train[k], REFINE_CELLS // len(self.train)
            number = max(cells // self.sample.dim, 2 * self.sample.num_classes)
            train = train[draw_rows(self.sample.y[train], 1, number)[0]]
            metric = None if shrinkage is None else self._metrics[k]
            rows = torch.cat(list(self._units(self.index[own])))
            self._refinable[k] = RefinableFold(self.sample.at(train), rows, metric)
        scores, sums = self._refinable[k].fit(shrinkage, precision, self._gain(k, shrinkage))
        kappa = sums.state(self.estimator).kappa
        return ValidationFold(scores, self.y[own], kappa, sums.weight, sums.dim, linear=True)

    def _gain(self, k: int, shrinkage: float | None) -> float:
        """Return the gain before the refinement, of the training rows of a split, as in a fit."""
        if (k, shrinkage) not in self._gains:
            sample, metric, plain = self._refinable[k].sample, None, None
            statistics = sample.summed
            if shrinkage is not None:
                metric, plain = self._metrics[k].with_shrinkage(shrinkage), statistics
                statistics = sample.sums(metric=metric)
            about = statistics, self.estimator, metric, plain
            self._gains[k, shrinkage] = left_out_gain(sample.merged, *about)
        return self._gains[k, shrinkage]

    def _cosines(self, rows: Iterable[Tensor], state: ClassState) -> Tensor:
        """Compute the cosines [n, M] of unit vectors in chunks, none of them for no rows."""
        mu = state.mu.to(self.sample.rows.dtype)
        return torch.cat([mu.new_empty(0, len(mu)), *(cosines(x, mu) for x in rows)])


class LeaveOneOut(Validation):
    """Validation rows, each scored against the classes of all other rows."""

    def __init__(self, sample: Sample, **settings: Any) -> None:
        every = torch.arange(len(sample.y), device=sample.y.device)
        super().__init__(sample, [(every, every)], **settings)

    def folds(
        self, shrinkage: float | None = None, components: int | str = 1, refine: float | None = None
    ) -> list[ValidationFold]:
        """Return all rows as one fold; there is no such fold of classes without sums."""
        for name, value, one in (("components", components, 1), ("refine", refine, None)):
            if value != one:
                raise ValueError(f'expected {name}={one} with cv="loo", got {value!r}')
        key = shrinkage, components, refine
        if key not in self._folds:
            sums, metric = self.sample.summed, None
            if shrinkage is not None:
                sums = self.sample.scattered if self.whiten else sums
                metric = Metric.fit(sums, shrinkage, center=self.center, whiten=self.whiten)
            some = self.sample.at(self.index), self.sample.sums(metric=metric)
            self._folds[key] = [left_out_fold(*some, self.estimator, metric, sums)]
        return self._folds[key]


def left_out_fold(
    sample: Sample,
    statistics: ClassStatistics,
    estimator: str,
    metric: Metric | None = None,
    plain: ClassStatistics | None = None,
) -> ValidationFold:
    """Score rows of a fit, each against the classes without this row; with ``plain`` sums outside
    the metric, also in the metric without the row: the covariance loses the outer product of its
    residual e (Sherman-Morrison), and the centre moves along e."""
    state, y, w = statistics.state(estimator), sample.y, sample.w
    z = directions(sample.rows[:])[0]
    x = z if metric is None else metric.transform(z)
    mu, kappa = statistics.left_out(x, y, w, estimator)
    before, index = statistics.weight[y], y[:, None]
    weight = before - w
    # As in the statistics: the remainder of an empty class is rounding.
    weight = torch.where(weight > ROUNDING * before, weight, 0.0)
    every, own = x @ state.mu.T, (x * mu).sum(-1, keepdim=True)
    if metric is not None and plain is not None:
        u = metric.rotate(z) * metric.scale
        means = plain.total[y] / torch.where(before > 0, before, 1.0)[:, None]
        e = u - metric.rotate(means) * metric.scale
        square, along = e.square().sum(-1, keepdim=True), (x * e).sum(-1, keepdim=True)
        share, f = (w / weight.clamp_min(ROUNDING))[:, None], torch.zeros_like(square)
        if metric.basis is not None and float(variance := metric.variance.mean()) > 0:
            part = (before / statistics.weight.sum())[:, None]
            removed = (1 - metric.shrinkage) * share * part / variance
            f = removed / (1 - removed * square).clamp_min(1e-6)
        # The centre is the mean of the class means: all rows move by a part of e, over their
        # length. The length of the row stands for those of the others.
        move = share / (statistics.weight > 0).sum() * float(metric.mean.any())
        move = move / u.square().sum(-1, keepdim=True).sqrt().clamp_min(1e-12)

        def cosine(dot: Tensor, of_class: Tensor, resultant: Tensor) -> Tensor:
            a = move / resultant.clamp_min(ROUNDING) * (resultant > ROUNDING)
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


def left_out_gain(
    sample: Sample,
    statistics: ClassStatistics,
    estimator: str,
    metric: Metric | None,
    plain: ClassStatistics | None,
) -> float:
    """Return the factor of the cosines that scores rows of a fit best, each without itself and
    every class alike: the gain of refined classes before the refinement."""
    index, _ = draw_rows(sample.y, sample.num_classes, GAIN_CELLS)
    some = sample.at(index)
    # A row of weight two counts as two rows, one of which is left out.
    one = replace(some, w=some.w.clamp_max(1.0))
    fold = left_out_fold(one, statistics, estimator, metric, plain)
    known = ~fold.absent & (some.w > 0)
    return gain_of(fold.of_classes(fold.rho, 0.0)[known], fold.y[known], some.w[known])


def gain_of(scores: Tensor, y: Tensor, w: Tensor) -> float:
    """Return the scale of scores [n, C] of left-out rows that is best for every class alike."""
    if not len(y):
        return 1.0
    mass = w.new_zeros(scores.shape[1]).index_add_(0, y, w)
    return fit_scale(scores, y, w / mass[y])


def draw_rows(y: Tensor, C: int, cells: int | None = None) -> tuple[Tensor, Tensor]:
    """Draw about ``cells`` / C rows of classes y [N]; return them, and the number per class."""
    number, counts = max(LEAST_ROWS, (cells or CELLS) // C), torch.bincount(y, minlength=C).double()
    kept = (min(1.0, number / len(y)) * counts).ceil()
    rows = (shuffled_ranks(y) < kept[y]).nonzero().squeeze(-1)
    most = min(2 * number, max(number, MOST_CELLS // C))
    if len(rows) > most:
        drawn = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:most]
        rows = rows[drawn.sort().values.to(rows.device)]
    return rows, kept


def shuffled_ranks(y: Tensor, seed: int = 0) -> Tensor:
    """Number the rows [N] of each class in a random order."""
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
    return ranks(y, order.to(y.device))


def ranks(y: Tensor, order: Tensor) -> Tensor:
    """Number the rows [N] of each class in an order of all rows [N]."""
    order = order[y[order].argsort(stable=True)]
    counts, rank = torch.bincount(y), torch.empty_like(y)
    rank[order] = torch.arange(len(y), device=y.device) - (counts.cumsum(0) - counts)[y[order]]
    return rank


def stratified_splits(y: Tensor, folds: int = FOLDS, groups: Any = None) -> list[Split]:
    """Split rows into stratified folds; rows of one of the ``groups`` [N] share a fold."""
    own, number = y, torch.arange(len(y), device=y.device)
    if groups is not None:
        number = torch.from_numpy(np.unique(as_numpy(groups), return_inverse=True)[1]).to(y.device)
        # A group counts as the class of one of its rows.
        own = y.new_zeros(int(number.max()) + 1).scatter_(0, number, y)
    # Small classes start in different folds, so that the folds have about one size.
    fold = ((shuffled_ranks(own) + own) % folds)[number]
    sides = ((fold != k, fold == k) for k in fold.unique().tolist())
    return [(train.nonzero().squeeze(-1), rows.nonzero().squeeze(-1)) for train, rows in sides]
