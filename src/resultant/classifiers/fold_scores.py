"""Scores of the points of a grid on the folds of a cross-validation: means, ranks, comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import bootstrap, rankdata

from resultant._core import chunks

RESAMPLES = 1000

# Groups of folds at most; each group is judged by the choice of the others. With many small groups
# a choice between equals would turn against the group: a row left out tips it against itself.
GROUPS = 10

# Decimals of scores; further ones are rounding of their sums.
DIGITS = 12


@dataclass(frozen=True)
class Fold:
    """Scores [G, M] of M rows at G points, rows [M] without a class, and weights [M]."""

    neg_log_loss: np.ndarray
    accuracy: np.ndarray
    absent: np.ndarray
    weight: np.ndarray

    def with_points(self, other: Fold) -> Fold:
        """Return the scores of these points and those of others on the same rows."""
        losses = np.concatenate([self.neg_log_loss, other.neg_log_loss])
        hits = np.concatenate([self.accuracy, other.accuracy])
        return Fold(losses, hits, self.absent, self.weight)


@dataclass(frozen=True)
class FoldScores:
    """Scores of G points.

    Attributes:
        units: Scores [G, U] in the U units of the mean, folds or rows.
        weight: Weights [U] of the units.
        rows: Scores [G, M] of the rows, with the same means.
        row_weight: Weights [M] of the rows.
    """

    units: np.ndarray
    weight: np.ndarray
    rows: np.ndarray
    row_weight: np.ndarray

    @staticmethod
    def of(folds: list[Fold], scoring: str, loo: bool) -> FoldScores:
        units, weights, rows, row_weights = [], [], [], []
        for fold in folds:
            # A row without a class has no likelihood, and is an error in accuracy.
            out = fold.absent if scoring == "neg_log_loss" else np.zeros_like(fold.absent)
            values = np.where(out, 0.0, getattr(fold, scoring))
            weight = np.where(out, 0.0, fold.weight)
            total = weight.sum()
            share = weight / total if total > 0 else weight
            rows.append(values)
            row_weights.append(share)
            units.append(values @ share)
            weights.append(float(total > 0))
        M, v = np.concatenate(rows, 1), np.concatenate(row_weights)
        if loo:
            return FoldScores(M, v, M, v)
        return FoldScores(np.stack(units, 1), np.array(weights), M, v)

    @property
    def mean(self) -> np.ndarray:
        """Means [G] over the units, rounded so that equal means are equal: the first is best."""
        return np.round(self.units @ self.weight / self.weight.sum(), DIGITS)

    def results(self, name: str, *, splits: bool) -> dict[str, np.ndarray]:
        mean = self.mean
        spread = np.square(self.units - mean[:, None]) @ self.weight / self.weight.sum()
        order = np.where(np.isnan(mean), np.inf, -mean)
        table = {f"split{k}_test_{name}": self.units[:, k] for k in range(self.units.shape[1])}
        return (table if splits else {}) | {
            f"mean_test_{name}": mean,
            f"std_test_{name}": np.sqrt(spread),
            f"rank_test_{name}": rankdata(order, method="min"),
        }

    def compare(self, best: int, pool: list[int]) -> dict[str, Any]:
        """Compare the point ``best`` with the best point of ``pool``, returned as ``index``."""
        mean, weight = self.mean, self.weight
        index = pool[int(np.nanargmax(mean[pool]))]
        difference = self.units[best] - self.units[index]
        gain = float(mean[best] - mean[index])
        number = np.count_nonzero(weight)
        error = np.sqrt(np.sum(np.square(weight * (difference - gain)))) / weight.sum()
        return {
            "gain": gain,
            "standard_error": float(error * np.sqrt(number / (number - 1))) if number > 1 else None,
            "interval": self._interval(best, index),
            "held_out_gain": self._held_out_gain(index) if number > 1 else None,
            "index": index,
        }

    def _interval(self, best: int, index: int) -> tuple[float, float]:
        difference = self.rows[best] - self.rows[index]
        if not difference.any():
            return 0.0, 0.0
        interval = bootstrap(
            (difference, self.row_weight),
            lambda d, v, axis: (d * v).sum(axis) / v.sum(axis),
            paired=True,
            vectorized=True,
            method="percentile",
            n_resamples=RESAMPLES,
            batch=chunks.rows_per_chunk(8 * len(difference), chunks.MATRIX_BYTES),
            rng=0,
        ).confidence_interval
        return float(interval.low), float(interval.high)

    def _held_out_gain(self, index: int) -> float:
        """Return the mean gain over a point, each group of units taking the best of the others."""
        share = self.units * self.weight
        group = np.arange(share.shape[1]) % GROUPS
        groups = np.stack([share[:, group == k].sum(1) for k in np.unique(group)], 1)
        others = np.round(groups.sum(1, keepdims=True) - groups, DIGITS)
        best = np.where(np.isnan(others), -np.inf, others).argmax(0)
        held_out = groups[best, np.arange(groups.shape[1])]
        return float((held_out - groups[index]).sum() / self.weight.sum())
