r"""Scores of rows against classes without these rows, for a grid of parameters.

The classes without some rows, a fold or one query, are the sums of the whole less those of the rows
(sec:self-inclusion, sec:cross-fitted-estimator): nothing is fitted again from rows. The cosines of
the rows left out are computed once for the whole grid, and the exact scores once for each
temperature and each class temperature; every other point is arithmetic on these.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant._core.arrays import directions
from resultant.classes.cosines import cosines
from resultant.classes.gain import Gains, mean_and_targets
from resultant.classes.realization import Terms, terms
from resultant.classes.rule import TEMPERED
from resultant.classes.statistics import ZERO_LENGTH, ClassStatistics
from resultant.classifiers.calibration import fit_scale
from resultant.classifiers.rows import row_chunks
from resultant.score.exact import vmf_score
from resultant.vmf.estimators import mean_resultant_at

# Matrices of exact scores that a part keeps.
KEPT = 12

# Folds of a choice.
FOLDS = 5
# Rows times classes and points that fit scales at most.
SCALE_CELLS = 1 << 26
# Rows times classes that choose about, and at most, and rows that choose at least.
CHOICE_CELLS = 1 << 17
MOST_CELLS = 1 << 23
CHOICE_ROWS = 1024


def add_rows(statistics: ClassStatistics, X: Tensor, y: Tensor, w: Tensor) -> ClassStatistics:
    """Add rows [N, p] of any length with labels [N] and weights [N]; return the statistics."""
    for part in row_chunks(X, 1):
        statistics.add(directions(X[part])[0], y[part], w[part])
    return statistics


@dataclass(frozen=True)
class Part:
    """Rows left out, and the classes of the remaining rows.

    Attributes:
        rho: Cosines [n, C] of the rows left out.
        y: Class indices [n].
        kappa: Concentrations [K, C] in float64 of K states: one state, one per row, or those that
            ``states`` names.
        weight: Weights of the classes, of the same shape.
        dim: Dimension p.
        states: State [n] of each row, if there are several.
        exact: Exact scores of the last points, by temperature and by beta of class temperatures.
    """

    rho: Tensor
    y: Tensor
    kappa: Tensor
    weight: Tensor
    dim: int
    states: Tensor | None = None
    exact: dict[tuple[float, float | None], Tensor] = field(default_factory=dict, init=False)

    def by_row(self, a: Tensor) -> Tensor:
        """Return values [K, C] of the states as values that broadcast with the rows [n, C]."""
        return a if self.states is None else a[self.states]

    @cached_property
    def present(self) -> Tensor:
        """Classes [n, C] or [1, C] that have remaining rows."""
        return self.by_row(self.weight > 0)

    @cached_property
    def resultant(self) -> Tensor:
        return mean_resultant_at(self.dim, self.kappa)

    @cached_property
    def complete(self) -> bool:
        """True if all classes have remaining rows."""
        return bool((self.weight > 0).all())

    @cached_property
    def log_prior(self) -> Tensor:
        """Log prior [K, C], zero for classes without remaining rows."""
        share = self.weight / self.weight.sum(-1, keepdim=True)
        return torch.where(self.weight > 0, share, 1.0).log()

    def at(self, rows: Tensor) -> Part:
        """Return some of the rows [m]."""
        kappa, weight, states = self.kappa, self.weight, self.states
        if states is not None:
            states = states[rows]
        elif len(kappa) > 1:
            kappa, weight = kappa[rows], weight[rows]
        return Part(self.rho[rows], self.y[rows], kappa, weight, self.dim, states)

    def absent(self) -> Tensor:
        """Return the rows [n] whose class has no remaining rows."""
        return ~self.present.expand_as(self.rho).gather(1, self.y[:, None])[:, 0]

    def realized(self, tau: float, rules: Iterable[tuple[str, float]]) -> Iterator[Tensor]:
        """Yield the scores [n, C] of `class_scores` for each realization and beta.

        Classes without a temperature that realizes the target have NaN.
        """
        present, dtype = self.weight > 0, self.rho.dtype
        g, kappa, base = self.resultant / tau, self.kappa.to(dtype), self.rho.new_full((), tau)
        mean = torch.where(present, g, 0.0).sum(-1, keepdim=True) / present.sum(-1, keepdim=True)
        for realization, beta in rules:
            gains = Gains(g, *mean_and_targets(g, beta, "linear", mean))
            star, *added = terms(realization, kappa, base, gains, self.dim)
            key = tau, beta if realization in TEMPERED else None
            if star is not None and key not in self.exact:
                if len(self.exact) >= KEPT:
                    self.exact.pop(next(iter(self.exact)))
                own = self.by_row(star) if star.dim() else star
                self.exact[key] = vmf_score(
                    self.rho, self.by_row(kappa), own, self.dim, validate_args=False
                )
            scores = Terms(star, *(None if a is None else self.by_row(a.to(dtype)) for a in added))
            yield scores.of(None if star is None else self.exact[key], self.rho)


def fold_parts(
    X: Tensor,
    y: Tensor,
    w: Tensor,
    statistics: ClassStatistics,
    train: np.ndarray,
    test: np.ndarray,
    estimator: str,
) -> Iterator[Part]:
    """Yield the rows ``test``, in chunks, with the classes of the rows ``train``."""
    left_out = torch.ones(len(X), dtype=torch.bool)
    left_out[torch.from_numpy(train)] = False
    if len(train) + int(left_out.sum()) != len(X):
        raise ValueError("expected each row at most once in the training part of a split")
    subtracted = ClassStatistics(statistics.num_classes, statistics.dim, device=X.device)
    for rows in left_out.nonzero().squeeze(-1).to(X.device).split(next(row_chunks(X, 1)).stop):
        add_rows(subtracted, X[rows], y[rows], w[rows])
    rest = statistics.without(subtracted)
    if not (rest.weight > 0).any():
        raise ValueError("expected a training part of positive weight in each split, got none")
    state = rest.state(estimator)
    at = torch.from_numpy(test).to(X.device)
    for rows in at.split(next(row_chunks(X, state.num_classes)).stop):
        rho = cosines(directions(X[rows])[0], state.mu.to(X.dtype))
        yield Part(rho, y[rows], state.kappa[None], rest.weight[None], rest.dim)


def left_out_parts(
    X: Tensor, y: Tensor, w: Tensor, statistics: ClassStatistics, estimator: str
) -> Iterator[Part]:
    """Yield all rows, in chunks, each with the classes without this row."""
    state = statistics.state(estimator)
    # Concentrations per row take more memory.
    for rows in row_chunks(X, 4 * state.num_classes):
        (x, _), own = directions(X[rows]), y[rows, None]
        mu, kappa = statistics.left_out(x, y[rows], w[rows], estimator)
        rho = cosines(x, state.mu.to(X.dtype))
        rho.scatter_(1, own, (x * mu).sum(-1, keepdim=True).to(X.dtype))
        before = statistics.weight[y[rows]]
        weight = before - w[rows]
        # As in the statistics: the remainder of an empty class is rounding.
        weight = torch.where(weight > ZERO_LENGTH * before, weight, 0.0)
        yield Part(
            rho,
            y[rows],
            state.kappa.expand_as(rho).scatter(1, own, kappa[:, None]),
            statistics.weight.expand_as(rho).scatter(1, own, weight[:, None]),
            state.dim,
        )


def draw_rows(y: Tensor, C: int) -> tuple[Tensor, Tensor]:
    """Draw rows that choose from rows of classes y [N], at random in an order that is always the
    same. Each class keeps at least one of its rows unless classes are thousands.

    Returns:
        The rows [M], and the number of rows [C] that each class keeps.
    """
    number, counts = max(CHOICE_ROWS, CHOICE_CELLS // C), torch.bincount(y, minlength=C).double()
    kept = (min(1.0, number / len(y)) * counts).ceil()
    rows = (shuffled_ranks(y) < kept[y]).nonzero().squeeze(-1)
    most = min(2 * number, max(number, MOST_CELLS // C))
    if len(rows) > most:
        drawn = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:most]
        rows = rows[drawn.sort().values.to(rows.device)]
    return rows, kept


def shuffled_ranks(y: Tensor, seed: int = 0) -> Tensor:
    """Number the rows [N] of each class in a random order."""
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed)).to(y.device)
    order = order[y[order].argsort(stable=True)]
    counts, rank = torch.bincount(y), torch.empty_like(y)
    rank[order] = torch.arange(len(y), device=y.device) - (counts.cumsum(0) - counts)[y[order]]
    return rank


def sampled_folds(
    X: Tensor, y: Tensor, w: Tensor, statistics: ClassStatistics, estimator: str
) -> tuple[Part, Tensor]:
    """Score a sample of the rows against the classes without the fold of each row.

    Args:
        X: Rows [N, p] of any length.
        y: Class indices [N].
        w: Weights [N].
        statistics: Sums of all rows.
        estimator: Estimator of kappa.

    Returns:
        The sample in `FOLDS` stratified folds, and the weights [M] of its rows.
    """
    C = statistics.num_classes
    # Small classes start in different folds, so that the folds have about one size.
    fold = (shuffled_ranks(y) + y) % FOLDS
    chosen, kept = draw_rows(y, C)
    rho = X.new_empty(len(chosen), C)
    rest, states = [], []
    for k in range(FOLDS):
        part = ClassStatistics(C, statistics.dim, device=X.device)
        for rows in (fold == k).nonzero().squeeze(-1).split(next(row_chunks(X, 1)).stop):
            add_rows(part, X[rows], y[rows], w[rows])
        rest.append(statistics.without(part))
        states.append(rest[-1].state(estimator))
        at = (fold[chosen] == k).nonzero().squeeze(-1)
        mu = states[-1].mu.to(X.dtype)
        rho[at] = cosines(directions(X[chosen[at]])[0], mu)
    part = Part(
        rho,
        y[chosen],
        torch.stack([state.kappa for state in states]),
        torch.stack([remaining.weight for remaining in rest]),
        statistics.dim,
        fold[chosen],
    )
    return part, w[chosen] * (torch.bincount(y, minlength=C) / kept)[y[chosen]]


def point_scores(
    part: Part, taus: list[float], rules: list[tuple[str, float]], priors: list[float]
) -> Iterator[Tensor]:
    """Yield the scores [n, C] of a part at the points of a grid, -inf for absent classes."""
    for tau in taus:
        for scores in part.realized(tau, rules):
            for prior in priors:
                s = scores
                if prior:
                    s = scores + part.by_row((prior * part.log_prior).to(scores.dtype))
                yield s if part.complete else s.masked_fill(~part.present, -torch.inf)


def point_scales(
    parts: Iterable[Part],
    weight: Tensor,
    number: float,
    *grid: list[Any],
    cells: int = SCALE_CELLS,
) -> list[float]:
    """Fit the scale of each point of a grid to rows left out, every k-th where there are many.

    Args:
        parts: The rows left out.
        weight: Weights [M] of these rows.
        number: Number of rows that the weights stand for.
        *grid: Temperatures, rules and priors.
        cells: The most scores of all points together.

    Returns:
        A scale per point, 1 for a point that cannot be realized or without rows.
    """
    points = math.prod(map(len, grid))
    scores: list[list[Tensor]] = [[] for _ in range(points)]
    labels, weights, top = [], [], 0
    for part in parts:
        C, own = part.rho.shape[1], weight[top : top + len(part.y)].to(part.y.device)
        top += len(part.y)
        known = (~part.absent() & (own > 0)).nonzero().squeeze(1)
        rows = known[:: max(1, len(weight) * C * points // cells)]
        if not len(rows):
            continue
        some = part.at(rows)
        for kept, s in zip(scores, point_scores(some, *grid), strict=True):
            kept.append(s)
        labels.append(some.y)
        weights.append(own[rows])
    if not labels:
        return [1.0] * points
    y, w = torch.cat(labels), torch.cat(weights)
    fitted = []
    for kept in scores:
        s = torch.cat(kept)
        fitted.append(1.0 if s.isnan().any() else fit_scale(s, y, w, number=number))
    return fitted


def measure(
    parts: Iterable[Part], scales: Sequence[float], *grid: list[Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Evaluate M rows left out at the G points of a grid, whose scores have ``scales`` [G].

    Returns:
        Log-likelihoods [G, M], hits [G, M], and rows [M] whose class has no remaining rows.
    """
    results = []
    for part in parts:
        own, columns = part.y[:, None], []
        for scale, s in zip(scales, point_scores(part, *grid), strict=True):
            hit = (s.argmax(-1) == part.y).double()
            s = scale * s
            logp = (s.gather(1, own)[:, 0] - s.logsumexp(-1)).double()
            columns.append(torch.stack([logp, torch.where(logp.isnan(), logp, hit)]))
        results.append((torch.stack(columns, 1).cpu().numpy(), part.absent().cpu().numpy()))
    values = np.concatenate([values for values, _ in results], -1)
    return values[0], values[1], np.concatenate([absent for _, absent in results])
