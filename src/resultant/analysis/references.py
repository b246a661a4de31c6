r"""Reference classifiers, as scikit-learn defines them, on the same directions as the vMF rules.

The rows of the references are drawn here; `resultant.classifiers.references` fits them, in a
thread. Nearest centroids and neighbours need no fit: sums of the classes have the former, one
matrix product finds the latter.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from resultant._core import chunks
from resultant._core.background import start
from resultant.analysis.choice import ChoosingRows, Remaining
from resultant.analysis.judging import Batch, FinishedRule
from resultant.analysis.sampling import rank_in_class
from resultant.analysis.space import FrozenSpace, unit_chunks
from resultant.classes.statistics import ClassStatistics
from resultant.classifiers.calibration import fit_scale
from resultant.classifiers.references import Chooser, Reference, Task, fit_references
from resultant.classifiers.softmax import Linear

REFERENCES = ("none", "fast", "all")

NAMES = {
    "logistic": "Logistic regression",
    "logistic-balanced": "Balanced logistic regression",
    "tau-normalized": "Tau-normalized linear probe",
    "lda": "LDA with empirical prior",
    "lda-equal": "LDA with equal prior",
    "knn": "kNN by cosine",
    "centroid": "Nearest centroid",
}

# Values of k that are tried.
NEIGHBOURS = (1, 3, 5, 10, 20, 50)

# Rows times classes that choose settings of references.
CHOOSING_CELLS = 1e6


@dataclass(frozen=True)
class Budget:
    """Sizes up to which all rows are fitted; beyond them a stratified sample is.

    Attributes:
        cells: Rows times classes of a logistic regression.
        trial_cells: The same while C is chosen.
        neighbours: Rows of kNN, and products of held-out rows, rows and dimension.
        covariance: Classes times squared dimension of shrinkage LDA; it is left out beyond.
        entries: Rows times dimension of shrinkage LDA.
        iterations: Iterations of a logistic regression.
    """

    cells: float
    trial_cells: float
    neighbours: tuple[float, float]
    covariance: float
    entries: float
    iterations: int


BUDGETS = {
    "fast": Budget(1.2e6, 2e5, (4e3, 2e10), 2e8, 5e7, 100),
    "all": Budget(1e9, 2e6, (1e6, 1e14), 4e9, 1e9, 1000),
}


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows of the references.

    Attributes:
        parts: Training rows by ``lda``, ``knn``, ``logistic`` and ``logistic-balanced``: those that
            are fitted while settings are chosen, and those of the final fit.
        index: Rows [m] that choose, of the split of the choosing rows.
        labels: Their classes [m].
        weights: Their weights [m].
        judged: Held-out rows [M] that judge.
    """

    parts: dict[str, tuple[Tensor, Tensor]]
    index: Tensor
    labels: Tensor
    weights: Tensor
    judged: Tensor

    @property
    def train(self) -> Tensor:
        """All training rows [n], ascending."""
        rows = [rows for pair in self.parts.values() for rows in pair]
        return torch.cat(rows).unique()

    @property
    def fitted(self) -> Tensor:
        """The training rows [n] that are fitted, ascending."""
        rows = [rows for key, pair in self.parts.items() if key != "knn" for rows in pair]
        return torch.cat(rows).unique()


def reference_samples(
    space: FrozenSpace, rows: ChoosingRows, level: str, judged: Tensor | None
) -> Samples:
    """Draw the rows of the references; labels decide alone.

    ``fast`` fits logistic regression and kNN to a stratified sample where rows times classes are
    many, and leaves out LDA where its covariances are; ``all`` does so much later, and its final
    fits are made by scikit-learn itself.
    """
    budget, C, p = BUDGETS[level], space.num_classes, space.dim
    fitted = pool = torch.arange(len(space.labels))
    if space.fitting is not None:
        fitted = pool = space.fitting.nonzero().squeeze(1)
    index, own, weights = rows.index, rows.labels, rows.weights
    if rows.folds is not None:
        # One fold chooses, the others are fitted.
        pool, index = ((rows.folds != 0).nonzero()[:, 0], (rows.folds == 0).nonzero()[:, 0])
        index = index[stratified(space.labels[index], CHOOSING_CELLS / C)]
        own = space.labels[index]
        mass = torch.ones(C) if rows.metric == "balanced" else space.counts
        weights = (mass / torch.bincount(own, minlength=C).clamp_min(1)).double()[own]
    judged = torch.arange(len(space.test)) if judged is None else judged

    def drawn(number: float, rows: Tensor) -> Tensor:
        return rows[stratified(space.labels[rows], number)]

    most, products = budget.neighbours
    near = min(most, products / (len(judged) * p))
    parts = {"knn": (drawn(near, pool), drawn(near, fitted))}
    if C * p**2 <= budget.covariance:
        parts["lda"] = (drawn(budget.entries / p, pool), drawn(budget.entries / p, fitted))
    # That of the metric has most of the budget.
    shares = {"logistic": 1.0, "logistic-balanced": 0.125}
    if rows.metric == "balanced":
        shares = {"logistic": 0.125, "logistic-balanced": 1.0}
    trial = drawn(budget.trial_cells / C, pool)
    for key, share in shares.items():
        parts[key] = trial, drawn(share * budget.cells / C, fitted)
    return Samples(parts, index, own, weights, judged)


def reference_task(space: FrozenSpace, rows: ChoosingRows, samples: Samples, level: str) -> Task:
    """Read the rows of the references as unit vectors."""
    index = samples.fitted
    choosing = (space.val, space.val_labels) if rows.split == "val" else (space.train, space.labels)
    places = {
        key: (torch.searchsorted(index, a), torch.searchsorted(index, b))
        for key, (a, b) in samples.parts.items()
        if key != "knn"
    }
    return Task(
        num_classes=space.num_classes,
        metric=rows.metric,
        iterations=BUDGETS[level].iterations,
        x=_units(space.train, space.labels, index),
        y=space.labels[index],
        samples=places,
        query=_units(*choosing, samples.index),
        own=samples.labels,
        weights=samples.weights,
        by_scikit_learn=level == "all",
    )


def _units(vectors: Any, labels: Any, index: Tensor) -> Tensor:
    x = torch.empty(len(index), vectors.shape[1])
    for at, z, _ in unit_chunks(
        vectors, labels, 1 << 13, torch.float32, torch.device("cpu"), rows=index
    ):
        x[at] = z
    return x


class References:
    """References of a space, fitted in the background.

    Args:
        space: The classes and their rows.
        rows: The rows that choose settings.
        level: ``fast`` or ``all``.
        judged: Held-out rows [M] that judge, or None for all.

    Raises:
        ValueError: The level is not one of `REFERENCES`.
    """

    def __init__(
        self,
        space: FrozenSpace,
        rows: ChoosingRows,
        level: str,
        judged: Tensor | None = None,
    ) -> None:
        if level not in REFERENCES:
            raise ValueError(f"expected references among {REFERENCES}, got {level!r}")
        self.space, self.rows, self.level, self.judged = space, rows, level, judged
        self.future: Future[list[Reference]] | None = None
        if level != "none":
            self.samples = reference_samples(space, rows, level, judged)
            task = reference_task(space, rows, self.samples, level)
            self.query, self.future = task.query, start(_fit, task)

    @property
    def left_out(self) -> str:
        """A sentence about references that are too large, or ""."""
        if self.level == "none" or "lda" in self.samples.parts:
            return ""
        size = f"{self.space.num_classes:,} classes of {self.space.dim:,} dimensions"
        hint = "; --references all fits it" if self.level == "fast" else ""
        return f"LDA is left out: the covariances of {size} are too large{hint}."

    def ready(self, remaining: Remaining) -> list[FinishedRule]:
        """Return the references that need no fit.

        Args:
            remaining: Sums of the training rows without the rows that choose, by fold.
        """
        if self.future is None:
            return []
        return [self._neighbours(), self._centroid(remaining[0])]

    def fitted(self) -> list[FinishedRule]:
        """Wait for the other references."""
        return [] if self.future is None else [self._finished(r) for r in self.future.result()]

    def _note(self, rows: int) -> str:
        """Return a sentence about a sample of the rows, or ""."""
        total = int(self.space.statistics.count.sum())
        hint = "; --references all fits more" if self.level == "fast" else ""
        text = f"Fitted to a stratified sample of {rows:,} of {total:,} rows{hint}."
        return text if rows < total else ""

    def _finished(self, r: Reference) -> FinishedRule:
        notes = [self._note(r.rows)] if self._note(r.rows) else []
        if r.stopped:
            notes.append(f"The solver was stopped after {r.stopped} iterations.")
        return FinishedRule(
            *(r.key, NAMES[r.key], "reference", r.settings, r.scale, _scores(r.linear)),
            *(r.seconds, r.rows, " ".join(notes)),
        )

    def _neighbours(self) -> FinishedRule:
        """k nearest training rows, k chosen as C of a logistic regression is."""
        space, samples = self.space, self.samples
        trial, final = samples.parts["knn"]
        own = space.labels[trial]
        chooser = Chooser.of(self.query, samples.labels, samples.weights, own)
        ks = [k for k in NEIGHBOURS if k <= len(trial)]
        near = nearest(_units(space.train, space.labels, trial), own, chooser.query, ks[-1])
        k, scale = chooser.best((k, votes(near[:, :k], space.num_classes)) for k in ks)
        x, y = _units(space.train, space.labels, final).to(space.device), space.labels[final]

        def scores(batch: Batch) -> Tensor:
            return votes(nearest(x, y.to(x.device), batch.z.float(), k), space.num_classes)

        return FinishedRule(
            *("knn", NAMES["knn"], "reference", {"k": k}, scale, scores, 0.0, len(x)),
            self._note(len(x)),
        )

    def _centroid(self, remaining: ClassStatistics) -> FinishedRule:
        """Nearest centroids, as scikit-learn's, from the sums of the classes."""
        labels, weights = self.samples.labels, self.samples.weights
        s = _centroids(remaining)(self.query)
        known = s.gather(1, labels[:, None])[:, 0] > -torch.inf
        scale = fit_scale(s[known], labels[known], weights[known])
        statistics = self.space.statistics
        return FinishedRule(
            *("centroid", NAMES["centroid"], "reference", {}, scale),
            *(_scores(_centroids(statistics)), self.space.fit_seconds),
            int(statistics.count.sum()),
        )


def _fit(task: Task) -> list[Reference]:
    # The other half of the cores is for the work that goes on meanwhile.
    torch.set_num_threads(max(1, torch.get_num_threads() // 2))
    return fit_references(task)


def _centroids(statistics: ClassStatistics) -> Linear:
    """Squared distances to the means of the classes, as a linear classifier."""
    mean = statistics.total / statistics.weight.clamp_min(1)[:, None]
    bias = torch.where(statistics.weight > 0, -mean.square().sum(1), -torch.inf)
    return Linear((2 * mean).float(), bias.float())


def _scores(linear: Linear) -> Callable[[Batch], Tensor]:
    return lambda batch: linear(batch.z)


def nearest(x: Tensor, y: Tensor, query: Tensor, k: int) -> Tensor:
    """Return the classes [M, k] of the rows ``x`` [n, p] of largest cosine with unit rows
    ``query`` [M, p], the largest first; ``y`` [n] are the classes of ``x``."""
    near = torch.empty(len(query), k, dtype=y.dtype, device=y.device)
    for rows in chunks.row_slices(len(query), 4 * len(x), chunks.MATRIX_BYTES, x.device):
        near[rows] = y[(query[rows] @ x.T).topk(k, 1).indices]
    return near


def votes(near: Tensor, C: int) -> Tensor:
    """Logarithms of the shares [n, C] of votes of neighbours [n, k], with one vote for all classes.

    Among equal votes the first class wins, as in scikit-learn.
    """
    n, k = near.shape
    cells = torch.arange(n, device=near.device)[:, None] * C + near
    count = torch.bincount(cells.flatten(), minlength=n * C).view(n, C)
    return torch.log((count.float() + 1 / C) / (k + 1))


def stratified(labels: Tensor, number: float, seed: int = 0) -> Tensor:
    """Draw about ``number`` rows, each class in proportion but with two rows or more, in order."""
    if number >= len(labels):
        return torch.arange(len(labels))
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    rank = torch.empty_like(order)
    rank[order] = rank_in_class(labels[order])
    kept = (number / len(labels) * torch.bincount(labels).double()).ceil().clamp_min(2)
    return (rank < kept[labels]).nonzero().squeeze(1)
