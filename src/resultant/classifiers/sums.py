"""Sums of labelled rows that add, subtract and merge in any order, with a sample of the rows.

A class is the sum of its unit vectors, and a metric that of their outer products: the sums of any
batches, in any order, are those of all rows. What is no function of these sums (the lengths of rows
in a metric, the scale of the scores, p-values) is computed from *kept* rows: of each class the
distinct rows of the smallest hash. The hash depends on the values of a row alone, so that the kept
rows are the same for any order and size of the batches too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant._core.arrays import directions
from resultant.classes.metric import Metric
from resultant.classes.statistics import ClassStatistics, Device
from resultant.classifiers.folds import mixed
from resultant.classifiers.inputs import Sample

# Numbers that are kept about: this many, over dimension and classes, are rows per class.
KEPT_NUMBERS = 1 << 21

# The limit of a class of which every row is kept, and the largest relative rounding of sums.
EVERY = torch.iinfo(torch.int64).max
ROUNDING = 1e-9

# Kept rows of a class whose correction is half noise.
NOISY = 10.0

# Numbers that are hashed at a time: they stay in the cache.
BLOCK = 1 << 16

# A hash of 64 bits: a sum of odd multiples, one for each coordinate by this seed, which is mixed as
# by splitmix64.
_SEED = 54
_MIX = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)

# Class, hash, count and weight of rows.
Columns = tuple[Tensor, Tensor, Tensor, Tensor]

# Sums of rows as unit vectors, in the fixed metric of a classifier if it has one.
PlainSums = Callable[[Sample], ClassStatistics]


@dataclass(eq=False)
class KeptRows:
    """Distinct rows of the smallest hashes of each class, sorted by class and hash."""

    rows: Tensor  # rows [n, p] of any length, as they were added
    y: Tensor  # class indices [n], sorted
    key: Tensor  # hashes [n] int64, sorted within a class
    count: Tensor  # copies [n] int64
    weight: Tensor  # their weights [n] in float64
    limit: Tensor  # [C]: all rows of a class with a smaller hash are here

    @staticmethod
    def of(sample: Sample, number: int) -> KeptRows:
        """Choose the rows of a sample, up to a ``number`` per class."""
        at = (sample.w > 0).nonzero()[:, 0]
        key = torch.cat([row_keys(sample.rows[part]) for part in sample.chunks()])[at]
        limit = key.new_full((sample.num_classes,), EVERY)
        at, columns = _distinct(at, sample.y[at], key, torch.ones_like(key), sample.w[at])
        chosen = KeptRows(torch.empty(len(at), 0, device=key.device), *columns, limit)
        kept = chosen.trim(number)
        at = at[chosen._ranks() < number]
        return replace(kept, rows=torch.cat([sample.rows[part] for part in sample.chunks(at)]))

    @staticmethod
    def none(num_classes: int, dim: int) -> KeptRows:
        """Return no rows, and no knowledge which rows there were."""
        whole = torch.zeros(0, dtype=torch.int64)
        weight, limit = torch.zeros(0, dtype=torch.float64), torch.zeros(num_classes).long()
        return KeptRows(torch.zeros(0, dim), whole, whole, whole, weight, limit)

    def _ranks(self) -> Tensor:
        """Number the rows of each class by their hashes."""
        number = torch.bincount(self.y, minlength=len(self.limit))
        first = number.cumsum(0) - number
        return torch.arange(len(self.y), device=self.y.device) - first[self.y]

    def trim(self, number: int) -> KeptRows:
        """Drop the rows of the largest hashes of classes with more than a ``number`` of them."""
        over = self._ranks() == number
        if not over.any():
            return self
        limit = self.limit.clone()
        limit[self.y[over]] = self.key[over]
        return self._below(limit)

    def _below(self, limit: Tensor) -> KeptRows:
        """Return the rows with hashes below the limits [C], and these limits."""
        if torch.equal(limit, self.limit):
            return self
        return replace(self._at(self.key < limit[self.y]), limit=limit)

    def _at(self, index: Tensor) -> KeptRows:
        parts = {n: a[index] for n, a in vars(self).items() if n != "limit"}
        return KeptRows(**parts, limit=self.limit)

    def merged(self, other: KeptRows, number: int) -> KeptRows:
        """Add other rows, and return at most a ``number`` per class."""
        limit = torch.minimum(self.limit, other.limit)
        mine, theirs = self._below(limit), other._below(limit)
        if not len(theirs.y):
            return mine.trim(number)
        pairs = [(getattr(mine, n), getattr(theirs, n)) for n in ("y", "key", "count", "weight")]
        index, columns = _distinct(None, *map(torch.cat, pairs))
        dtype = torch.promote_types(mine.rows.dtype, theirs.rows.dtype)
        rows = torch.cat([mine.rows.to(dtype), theirs.rows.to(dtype)])[index]
        return KeptRows(rows, *columns, limit).trim(number)

    def without(self, other: KeptRows) -> tuple[KeptRows, Tensor]:
        """Subtract other rows; return those that remain, and the hashes of rows that are not here
        although they would have been kept, or are here with another weight."""
        theirs = other._below(torch.minimum(self.limit, other.limit))
        pairs = [(self.y, theirs.y), (self.key, theirs.key), (self.count, -theirs.count)]
        pairs.append((self.weight, -theirs.weight))
        index, (y, key, count, weight) = _distinct(None, *map(torch.cat, pairs))
        here = index < len(self.y)
        tolerance = ROUNDING * (self.weight[index.clamp_max(len(self.y) - 1)] if here.any() else 1)
        bad = ~here | (count < 0) | ((count == 0) != (weight.abs() <= tolerance))
        left = (count > 0) & ~bad
        columns = (a[left] for a in (y, key, count, weight))
        return KeptRows(self.rows[index[left]], *columns, self.limit), key[bad]  # type: ignore[call-arg]

    def to(self, device: Device) -> KeptRows:
        """Copy the rows to a device."""
        return KeptRows(**{name: a.to(device) for name, a in vars(self).items()})

    def over(self, index: Tensor, number: int) -> KeptRows:
        """Return the rows with classes [C] renumbered by an ``index`` among a ``number``."""
        limit = self.limit.new_full((number,), EVERY)
        limit[index] = self.limit
        return replace(self, y=index[self.y], limit=limit)

    def sample(self, number: int, weight: Tensor) -> tuple[Sample, Tensor]:
        """Choose about a ``number`` of rows, of each class in proportion to its weight [C]; return
        them, and the weight [n] that each has if it stands for its share of the class."""
        some = self
        if len(self.y) > number:
            share = (number * weight / weight.sum()).ceil()
            some = self._at(self._ranks() < share[self.y])
        C = len(self.limit)
        kept = weight.new_zeros(C).index_add_(0, some.y, some.weight)
        stands = some.weight * (weight / kept)[some.y]
        return Sample(some.rows, some.y, some.weight, C), stands


def _distinct(at: Tensor | None, *columns: Tensor) -> tuple[Tensor, Columns]:
    """Merge entries of equal class and hash (the first two columns), and add up the others; return
    the first entry of each in the order of class and hash, or ``at`` there, and the columns."""
    y, key, *sums = columns
    order = key.argsort(stable=True)
    order = order[y[order].argsort(stable=True)]
    y, key = y[order], key[order]
    new = torch.ones_like(y, dtype=torch.bool)
    new[1:] = (y[1:] != y[:-1]) | (key[1:] != key[:-1])
    group = new.cumsum(0) - 1
    number = int(group[-1]) + 1 if len(group) else 0
    added = [a.new_zeros(number).index_add_(0, group, a[order]) for a in sums]
    first = order[new]
    count, weight = added
    return first if at is None else at[first], (y[new], key[new], count, weight)


def row_keys(rows: Tensor) -> Tensor:
    """Hash the values of rows [n, p], as int64 [n] >= 0: float32 as the float64 of equal value, and
    a negative zero as zero."""
    factors = torch.from_numpy(mixed(np.arange(rows.shape[1]), _SEED).view(np.int64) | 1)
    factors = factors.to(rows.device)
    block = BLOCK if rows.device.type == "cpu" else rows.numel()
    parts = rows.split(max(1, block // rows.shape[1]))
    return torch.cat([_hashed(part, factors) for part in parts])


def _hashed(rows: Tensor, factors: Tensor) -> Tensor:
    bits = (rows.double() + 0.0).view(torch.int64)
    # The low bits of a float32 are zeros.
    folded = (bits >> 32).bitwise_and_((1 << 32) - 1).bitwise_xor_(bits)
    x = folded.mul_(factors).sum(1)
    for shift, factor in zip((30, 27), _MIX, strict=True):
        x = (x ^ _shifted(x, shift)) * factor
    return _shifted(x ^ _shifted(x, 31), 1)


def _shifted(x: Tensor, bits: int) -> Tensor:
    """Shift int64 numbers to the right as if they had no sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


@dataclass(eq=False)
class RowSums:
    """Sums and kept rows of labelled rows."""

    classes: np.ndarray  # labels of the classes [C], sorted
    statistics: ClassStatistics  # sums of the unit vectors, with scatter where a metric needs it
    kept: KeptRows

    @staticmethod
    def of(sample: Sample, classes: np.ndarray, statistics: ClassStatistics) -> RowSums:
        """Add the kept rows to the ``statistics`` of a sample."""
        kept = KeptRows.of(sample, rows_per_class(len(classes), sample.dim))
        return RowSums(classes, statistics, kept)

    def require(self) -> None:
        """Raise unless the parts fit each other, as parts of a damaged file may not."""
        s, kept, n = self.statistics, self.kept, len(self.kept.y)
        C, p = len(self.classes), s.dim
        if s.total.shape != (C, p):
            raise ValueError(f"{C} labels of {s.num_classes} sums")
        shapes = {"rows": (n, p), "limit": (C,), **dict.fromkeys(("key", "count", "weight"), (n,))}
        for name, shape in shapes.items():
            if (got := tuple(getattr(kept, name).shape)) != shape:
                raise ValueError(f"expected kept.{name} {shape}, got {got}")
        if n and not 0 <= int(kept.y.min()) <= int(kept.y.max()) < C:
            raise ValueError(f"expected kept rows of {C} classes, got {s!r}")

    @property
    def per_class(self) -> int:
        """The most rows that are kept of each class."""
        return rows_per_class(len(self.classes), self.statistics.dim)

    def over(self, classes: np.ndarray) -> RowSums:
        """Return the sums with more classes, sorted labels [C] that include all of these."""
        if np.array_equal(classes, self.classes):
            return RowSums(classes, self.statistics, self.kept)
        s, number = self.statistics, len(classes)
        index = torch.from_numpy(np.searchsorted(classes, self.classes)).to(s.device)
        sums: dict[str, Any] = {
            name: a.new_zeros(number, *a.shape[1:]).index_copy_(0, index, a)
            for name, a in (("count", s.count), ("weight", s.weight), ("total", s.total))
        }
        if s.scatter is not None:
            sums["scatter"] = s.scatter
        return RowSums(classes, ClassStatistics.of(**sums), self.kept.over(index, number))

    def merge(self, other: RowSums) -> RowSums:
        """Return the sums of both, with the classes of both."""
        classes = union(self.classes, other.classes)
        mine, theirs = self.over(classes), other.over(classes)
        device = mine.statistics.device
        statistics = mine.statistics.to(device).merge(theirs.statistics)
        kept = mine.kept.merged(theirs.kept.to(device), mine.per_class)
        return RowSums(classes, statistics, kept)

    def without(self, sample: Sample, plain: PlainSums) -> RowSums:
        """Return the sums without the rows of a sample; ``plain`` sums rows as these were."""
        s, part = self.statistics, plain(sample)
        for c in (part.count > s.count).nonzero()[:1, 0].tolist():
            name, number = self.classes[c : c + 1].tolist()[0], int(s.count[c])
            got = f"{int(part.count[c])} rows of {name!r}, which has {number}"
            raise ValueError(f"expected rows that were added, got {got}")
        kept, unknown = self.kept.without(KeptRows.of(sample, len(sample.y)))
        if len(unknown):
            keys = torch.cat([row_keys(sample.rows[at]) for at in sample.chunks()])
            i = int((torch.isin(keys, unknown) & (sample.w > 0)).nonzero()[0, 0])
            name = self.classes[sample.y[i : i + 1].tolist()].tolist()[0]
            rule = "expected rows that were added, with their weights"
            raise ValueError(f"{rule}, got row {i} of {name!r}, which is another")
        rest = s.without(part)
        length = torch.linalg.vector_norm(rest.total, dim=1)
        for c in (length > rest.weight + ROUNDING * s.weight).nonzero()[:1, 0].tolist():
            got = f"rows of {self.classes[c : c + 1].tolist()[0]!r} with another sum"
            raise ValueError(f"expected rows that were added, got {got}")
        return RowSums(self.classes, rest, kept)._again(plain)

    def drop(self, label: Any, plain: PlainSums) -> RowSums:
        """Return the sums without a class; ``plain`` sums rows as these were."""
        s, kept = self.statistics, self.kept
        found = np.flatnonzero(self.classes == label)
        if len(found) != 1:
            raise ValueError(f"expected a label among {self.classes.tolist()}, got {label!r}")
        (c,) = found.tolist()
        others = torch.arange(s.num_classes, device=s.device) != c
        if not bool(s.weight[others].sum() > 0):
            raise ValueError("expected rows that remain, got none")
        sums = {name: getattr(s, name)[others] for name in ("count", "weight", "total")}
        own = kept._at(kept.y == c)
        if s.scatter is not None:
            if bool(kept.limit[c] != EVERY):
                got = f"{len(own.y):,} kept rows of {int(s.count[c]):,}"
                raise ValueError(f"expected to know all rows of {label!r}, got {got}; use forget")
            sample = Sample(own.rows, own.y, own.weight, s.num_classes)
            sums["scatter"] = s.scatter - plain(sample).scatter  # type: ignore[operator]
        rest = kept._at(kept.y != c)
        rest = replace(rest, y=rest.y - (rest.y > c).long(), limit=kept.limit[others])
        statistics = ClassStatistics.of(**sums)
        return RowSums(np.delete(self.classes, c), statistics, rest)._again(plain)

    def _again(self, plain: PlainSums) -> RowSums:
        """Sum classes of which every row is kept again, without the rounding of a subtraction."""
        s, kept = self.statistics, self.kept
        if not bool(s.weight.sum() > 0):
            raise ValueError("expected rows that remain, got none")
        exact = plain(Sample(kept.rows, kept.y, kept.weight, s.num_classes))
        every = kept.limit == EVERY
        sums = {
            "count": s.count,
            "weight": torch.where(every, exact.weight, s.weight),
            "total": torch.where(every[:, None], exact.total, s.total),
        }
        if s.scatter is not None:
            scatter = exact.scatter if bool(every.all()) else s.scatter
            sums["scatter"] = scatter  # type: ignore[assignment]
        return replace(self, statistics=ClassStatistics.of(**sums))

    def in_metric(self, metric: Metric | None) -> ClassStatistics:
        r"""Return the sums of the unit vectors in a metric.

        With :math:`x=W(z-m)` the sum of :math:`x/|x|` is that of :math:`bx`, which is linear in the
        sums, and of :math:`x/|x|-bx` over the kept rows, in proportion: exact for classes of which
        every row is kept, and a small correction for others, since lengths differ little. Of few
        kept rows it is mostly noise, and counts as much less.
        """
        s, kept = self.statistics, self.kept
        if metric is None:
            return s
        C, none = s.num_classes, torch.zeros_like(s.weight)
        z = directions(kept.rows)[0]
        x, unit = metric.rotate(z) * metric.scale, metric.transform(z)
        length = x.square().sum(1).sqrt()
        w = kept.weight

        def summed(values: Tensor) -> Tensor:
            return s.total.new_zeros(C, *values.shape[1:]).index_add_(0, kept.y, values)

        lengths, squares = summed(w * length), summed(w * length.square())
        pooled = lengths.sum() / squares.sum().clamp_min(1e-300)
        b = torch.where(squares > 0, lengths / squares.clamp_min(1e-300), pooled)[:, None]
        every_row = s.total - s.weight[:, None] * metric.mean
        every_row = every_row if metric.basis is None else every_row @ metric.basis
        share = torch.where(squares > 0, s.weight / summed(w).clamp_min(1e-300), none)[:, None]
        units, linear = summed(w[:, None] * unit), summed(w[:, None] * x)
        number = summed(torch.ones_like(w))[:, None]
        trust = number / (number + NOISY)
        total = b * every_row * metric.scale + trust * share * (units - b * linear)
        size = torch.linalg.vector_norm(total, dim=1).clamp_min(1e-300)
        total = total * (s.weight / size).clamp_max(1.0)[:, None]
        every = (kept.limit == EVERY)[:, None]
        return ClassStatistics.of(
            count=s.count, weight=s.weight, total=torch.where(every, units, total)
        )


def rows_per_class(num_classes: int, dim: int) -> int:
    """Return the number of rows that are kept of each class."""
    return max(1, KEPT_NUMBERS // (num_classes * dim))


def same_metric(one: Metric | None, other: Metric | None) -> bool:
    """Return True for metrics of equal values, or two times None."""
    if one is None or other is None:
        return one is other
    parts = [[m.mean, m.basis, m.variance] for m in (one, other)]
    alike = (
        a is b if a is None or b is None else a.shape == b.shape and bool((a == b.to(a)).all())
        for a, b in zip(*parts, strict=True)
    )
    return all(alike) and one.shrinkage == other.shrinkage


def union(classes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the sorted labels of both; raise unless both are strings, or both are numbers."""
    if len(classes) and len(others):
        kinds = [a.dtype.kind in "OUS" for a in (classes, others)]
        if kinds[0] != kinds[1]:
            rule = f"expected labels of the kind of {classes[:1].tolist()[0]!r}"
            raise ValueError(f"{rule}, got {others[:1].tolist()[0]!r}")
    return np.union1d(classes, others)
