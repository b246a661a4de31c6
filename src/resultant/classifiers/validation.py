r"""Validation rows scored against classes that were fitted without them.

The classes of a split, or of all rows but one, are the sums of all rows less those of the rows left
out (sec:self-inclusion, sec:cross-fitted-estimator). Cosines are computed once for each metric and
number of components; all else is arithmetic on these.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from resultant._core.arrays import directions
from resultant.classes.metric import Metric
from resultant.classes.scores import cosines
from resultant.classes.statistics import ClassState, ClassStatistics
from resultant.classifiers.em import fit_components
from resultant.classifiers.folds import FOLDS, Split, draw_rows, stratified_splits
from resultant.classifiers.inputs import Sample
from resultant.classifiers.left_out import ValidationFold, left_out_fold
from resultant.classifiers.lift import Lift
from resultant.classifiers.refine import RefinableFold

# Shrinkages that a search begins with, and those that it may visit: one pass sums their classes.
SHRINKAGES = (0.1, 0.3, 0.5)
LADDER = (0.003, 0.03, *SHRINKAGES, 0.75, 0.9)

# Training rows times dimension of all splits, to which refined classes are fitted in a search, for
# so many classes; of more classes, as many fewer rows.
REFINE_CELLS, REFINE_CLASSES = 1 << 27, 128

# Shrinkage, number of components and precision of refined classes.
Key = tuple[float | None, int | str, float | None]


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
        self._metrics: dict[int, Metric] = {}
        self.lift: float | None = None
        self._lifted: dict[float, Validation] = {}
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
        """Return the same rows lifted to random features; those of a split are centred by its
        training rows."""
        if k is None:
            return self
        if k not in self._lifted:
            other = self._lifted[k] = copy.copy(self)
            other.lift, other._folds, other._refinable, other._metrics = k, {}, {}, {}
        return self._lifted[k]

    def _made(
        self, k: int, shrinkage: float | None, components: int | str, refine: float | None
    ) -> dict[Key, ValidationFold]:
        """Score the rows of a split; in the first metric, those of all shrinkages of `LADDER`."""
        own, key = self.split == k, (shrinkage, components, refine)
        if self.lift is not None and (refine is None or k not in self._refinable):
            around = Lift.fit(self.sample.at(self.train[k]), self.lift)
            one = copy.copy(self)
            one.lift, one.sample, one._metrics = None, around.lifted(self.sample), {}
            return one._made(k, *key)
        if refine is not None:
            return {key: self._refined_fold(k, shrinkage, refine)}
        if components != 1:
            return {key: self._mixture_fold(k, shrinkage, components)}
        if shrinkage is None:
            return {key: self._fold(k, self._rest(k), self._units(self.index[own]))}
        metric, wanted = self._metric(k), [shrinkage]
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

    def _metric(self, k: int) -> Metric:
        """Return the metric of the training rows of a split."""
        if k not in self._metrics:
            settings: dict[str, Any] = {"center": self.center, "whiten": self.whiten}
            rest = self._rest(k, scatter=self.whiten)
            self._metrics[k] = Metric.fit(rest, **settings, dtype=self.sample.rows.dtype)
        return self._metrics[k]

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
        metric = None if shrinkage is None else self._metric(k).with_shrinkage(shrinkage)
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
            train, C = self.train[k], self.sample.num_classes
            cells = REFINE_CELLS / max(1.0, C / REFINE_CLASSES) / len(self.train)
            number = max(int(cells) // self.sample.dim, 2 * C)
            train = train[draw_rows(self.sample.y[train], 1, number)[0]]
            metric = None if shrinkage is None else self._metric(k)
            rows = torch.cat(list(self._units(self.index[own])))
            self._refinable[k] = RefinableFold(self.sample.at(train), rows, metric)
        scores, sums = self._refinable[k].fit(shrinkage, precision)
        kappa = sums.state(self.estimator).kappa
        return ValidationFold(scores, self.y[own], kappa, sums.weight, sums.dim, linear=True)

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
            some, every = self.sample.at(self.index), self.sample.sums(metric=metric)
            self._folds[key] = [left_out_fold(some, every, self.estimator, metric, sums)]
        return self._folds[key]
