r"""Reference classifiers of scikit-learn on the same directions as the vMF rules.

The rows of the references are drawn here, and their scores calibrated; scikit-learn fits them
(`resultant.classifiers.references`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant.analysis.choice import ChoosingRows
from resultant.analysis.judging import Batch, FinishedRule
from resultant.analysis.space import FrozenSpace, unit_chunks
from resultant.classifiers.calibration import fit_scale, log_losses
from resultant.classifiers.left_out import shuffled_ranks
from resultant.classifiers.reference_process import ReferenceProcess
from resultant.classifiers.references import NEIGHBOURS, Fit, ReferenceFits, Task

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

# Exponents of tau-normalization that are tried.
EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)

# Rows times classes that choose settings of references.
CHOOSING_CELLS = 1e6


@dataclass(frozen=True)
class Budget:
    """Sizes up to which all rows are fitted; beyond them a stratified sample is.

    Attributes:
        cells: Rows times classes of a logistic regression.
        trial_cells: The same while C is chosen.
        classes: Classes of a logistic regression; it is left out beyond.
        neighbours: Rows of kNN, and products of held-out rows, rows and dimension.
        covariance: Classes times squared dimension of shrinkage LDA; it is left out beyond.
        entries: Rows times dimension of shrinkage LDA and of centroids.
        iterations: Iterations of a logistic regression.
    """

    cells: float
    trial_cells: float
    classes: int
    neighbours: tuple[float, float]
    covariance: float
    entries: float
    iterations: int


BUDGETS = {
    "fast": Budget(1.2e6, 2e5, 2000, (3e3, 2e10), 2e8, 2e7, 100),
    "all": Budget(1e9, 2e6, 20_000, (1e6, 1e14), 4e9, 1e9, 1000),
}


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows of the references.

    Attributes:
        parts: Training rows by ``centroid``, ``lda``, ``knn``, ``logistic`` and
            ``logistic-balanced``: those that are fitted while settings are chosen, and those of the
            final fit.
        index: Rows [m] that choose, of the split of the choosing rows.
        labels: Their classes [m].
        weights: Their weights [m].
    """

    parts: dict[str, tuple[Tensor, Tensor]]
    index: Tensor
    labels: Tensor
    weights: Tensor

    @property
    def train(self) -> Tensor:
        """All training rows [n], ascending."""
        rows = [rows for pair in self.parts.values() for rows in pair]
        return torch.cat(rows).unique()


def reference_samples(
    space: FrozenSpace, rows: ChoosingRows, level: str, judged: Tensor | None
) -> Samples:
    """Draw the rows of the references; labels decide alone.

    ``fast`` fits logistic regression and kNN to a stratified sample where rows times classes are
    many, and leaves out LDA where its covariances are; ``all`` does so much later.
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

    def drawn(number: float, rows: Tensor) -> Tensor:
        return rows[stratified(space.labels[rows], number)]

    most, products = budget.neighbours
    near = min(most, products / (len(space.test if judged is None else judged) * p))
    parts = {"knn": (drawn(near, pool), drawn(near, fitted))}
    parts["centroid"] = drawn(budget.entries / p, pool), drawn(budget.entries / p, fitted)
    if C * p**2 <= budget.covariance:
        parts["lda"] = parts["centroid"]
    # That of the metric has most of the budget.
    shares = {"logistic": 1.0, "logistic-balanced": 0.125}
    if rows.metric == "balanced":
        shares = {"logistic": 0.125, "logistic-balanced": 1.0}
    trial = drawn(budget.trial_cells / C, pool)
    for key, share in shares.items() if budget.classes >= C else ():
        parts[key] = trial, drawn(share * budget.cells / C, fitted)
    return Samples(parts, index, own, weights)


def reference_task(space: FrozenSpace, rows: ChoosingRows, samples: Samples, level: str) -> Task:
    """Read the rows of the references as unit vectors."""
    index = samples.train
    choosing = (space.val, space.val_labels) if rows.split == "val" else (space.train, space.labels)
    return Task(
        num_classes=space.num_classes,
        metric=rows.metric,
        iterations=BUDGETS[level].iterations,
        total=int(space.statistics.count.sum()),
        x=_units(space.train, space.labels, index).numpy(),
        y=space.labels[index].numpy(),
        samples={
            key: (torch.searchsorted(index, a).numpy(), torch.searchsorted(index, b).numpy())
            for key, (a, b) in samples.parts.items()
        },
        query=_units(*choosing, samples.index).numpy(),
        own=samples.labels.numpy(),
        weights=samples.weights.numpy(),
    )


def _units(vectors: Any, labels: Any, index: Tensor) -> Tensor:
    x = torch.empty(len(index), vectors.shape[1])
    for at, z, _ in unit_chunks(
        vectors, labels, 1 << 13, torch.float32, torch.device("cpu"), rows=index
    ):
        x[at] = z
    return x


class References:
    """References of a space, which may be fitted while this process does other work.

    Args:
        space: The classes and their rows.
        rows: The rows that choose settings.
        level: ``fast`` or ``all``.
        judged: Held-out rows [M] that judge, or None for all.
        fits: The process that fits them, by default this one.

    Raises:
        ValueError: The level is not one of `REFERENCES`.
    """

    def __init__(
        self,
        space: FrozenSpace,
        rows: ChoosingRows,
        level: str,
        judged: Tensor | None = None,
        fits: ReferenceFits | ReferenceProcess | None = None,
    ) -> None:
        if level not in REFERENCES:
            raise ValueError(f"expected references among {REFERENCES}, got {level!r}")
        self.space, self.level, self.fits = space, level, fits or ReferenceFits()
        if level != "none":
            self.samples = reference_samples(space, rows, level, judged)
            task = reference_task(space, rows, self.samples, level)
            self.query, self.number = torch.from_numpy(task.query), self.fits.begin(task)
            if "logistic" in task.samples:
                self.center = _mean_of_centroids(*task.rows("logistic", True))

    @property
    def left_out(self) -> str:
        """A sentence about references that are too large, or ""."""
        if self.level == "none":
            return ""
        hint = "; --references all fits it" if self.level == "fast" else ""
        size = f"{self.space.num_classes:,} classes of {self.space.dim:,} dimensions"
        reasons = {
            "lda": f"LDA is left out: the covariances of {size} are too large{hint}.",
            "logistic": f"Logistic regression is left out: {size} take too long{hint}.",
        }
        return " ".join(text for key, text in reasons.items() if key not in self.samples.parts)

    def rules(self) -> list[FinishedRule]:
        """Wait for the fits, and calibrate their scores on the rows that choose."""
        fits = [] if self.level == "none" else self.fits.finish(self.number)
        return [rule for fit in fits for rule in self._rules(fit)]

    def _rules(self, fit: Fit) -> Iterator[FinishedRule]:
        if fit.key == "knn":
            yield self._neighbours(fit)
            return
        trial, final = (Linear.of(fit.arrays[name]) for name in ("trial", "final"))
        scale = 1.0
        # A logistic regression of few rows says nothing about the scale of one of many; the fit has
        # its own.
        if "C" not in fit.settings or 2 * len(self.samples.parts[fit.key][0]) >= fit.rows:
            _, scale = self._best(fit, [(None, trial(self.query))])
        yield self._finished(fit, fit.key, {}, scale, final)
        if fit.key == "logistic":
            tried = ((e, trial.normalized(e, self.center)(self.query)) for e in EXPONENTS)
            exponent, scale = self._best(fit, tried)
            final = final.normalized(exponent, self.center)
            yield self._finished(fit, "tau-normalized", {"tau": exponent}, scale, final)

    def _neighbours(self, fit: Fit) -> FinishedRule:
        """k nearest training rows, k chosen as C of a logistic regression is."""
        near, C = torch.from_numpy(fit.arrays["near"]), self.space.num_classes
        ks = [k for k in NEIGHBOURS if k <= near.shape[1]]
        k, scale = self._best(fit, ((k, votes(near[:, :k], C)) for k in ks))

        def scores(batch: Batch) -> Tensor:
            near = self.fits.neighbours(self.number, batch.z.float().cpu().numpy(), k)
            return votes(torch.from_numpy(near).to(batch.z.device), C)

        return self._finished(fit, "knn", {"k": k}, scale, scores)

    def _best(self, fit: Fit, trials: Iterable[tuple[Any, Tensor]]) -> tuple[Any, float]:
        """Return the setting whose scores [m, C] of the rows that choose have the least
        cross-entropy after their own scale, and the scale."""
        fitted = self.space.labels[self.samples.parts[fit.key.removesuffix("-equal")][0]]
        # Rows whose class is not fitted cannot choose.
        seen = torch.isin(self.samples.labels, fitted)
        own, weights = self.samples.labels[seen], self.samples.weights[seen]
        tried = []
        for setting, scores in trials:
            scale = fit_scale(scores[seen], own, weights)
            tried.append((float(log_losses(scores[seen], own, scale) @ weights), scale, setting))
        _, scale, setting = min(tried, key=lambda trial: trial[0])
        return setting, scale

    def _finished(
        self,
        fit: Fit,
        key: str,
        settings: dict[str, Any],
        scale: float,
        scores: Callable[[Batch], Tensor],
    ) -> FinishedRule:
        notes, total = [], int(self.space.statistics.count.sum())
        if fit.rows < total:
            hint = "; --references all fits more" if self.level == "fast" else ""
            sample = f"{fit.rows:,} of {total:,} rows"
            notes.append(f"Fitted to a stratified sample of {sample}{hint}.")
        if fit.stopped:
            notes.append(f"The solver was stopped after {fit.stopped} iterations.")
        settings = {**fit.settings, **settings}
        return FinishedRule(
            *(key, NAMES[key], "reference", settings, scale, scores),
            *(fit.seconds, fit.rows, " ".join(notes)),
        )


@dataclass(frozen=True)
class Linear:
    """A linear classifier: weights [C, p] and intercepts [C], -inf for a class without rows."""

    weight: Tensor
    bias: Tensor

    @staticmethod
    def of(weights: np.ndarray) -> Linear:
        """Return the classifier of weights [C, p + 1]; the last column are the intercepts."""
        w = torch.from_numpy(weights)
        return Linear(w[:, :-1], w[:, -1])

    def __call__(self, rows: Tensor | Batch) -> Tensor:
        """Score rows [n, p]."""
        x = rows.z if isinstance(rows, Batch) else rows
        return torch.addmm(self.bias.to(x), x, self.weight.T.to(x))

    def normalized(self, exponent: float, center: Tensor) -> Linear:
        """Divide weights by a power of their lengths; all classes score zero at ``center`` [p]."""
        length = self.weight.norm(dim=1, keepdim=True)
        weight = self.weight / torch.where(length > 0, length, 1.0) ** exponent
        bias = torch.where(self.bias > -torch.inf, -weight @ center, -torch.inf)
        return Linear(weight, bias)


def _mean_of_centroids(x: np.ndarray, y: np.ndarray) -> Tensor:
    """Return the mean [p] of the means of the classes."""
    weights = (1 / np.bincount(y)[y]).astype(x.dtype)
    return torch.from_numpy(weights @ x / weights.sum())


def votes(near: Tensor, C: int) -> Tensor:
    """Logarithms of the shares [n, C] of votes of neighbours [n, k], with one vote for all classes.

    Among equal votes the first class wins, as in scikit-learn.
    """
    n, k = near.shape
    cells = torch.arange(n, device=near.device)[:, None] * C + near
    count = torch.bincount(cells.flatten(), minlength=n * C).view(n, C)
    return torch.log((count.float() + 1 / C) / (k + 1))


def stratified(labels: Tensor, number: float) -> Tensor:
    """Draw about ``number`` rows, each class in proportion but with two rows or more, in order."""
    if number >= len(labels):
        return torch.arange(len(labels))
    kept = (number / len(labels) * torch.bincount(labels).double()).ceil().clamp_min(2)
    return (shuffled_ranks(labels) < kept[labels]).nonzero().squeeze(1)
