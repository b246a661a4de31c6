"""Settings of the rules of a space, chosen on rows that neither fit nor judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from resultant._core import chunks
from resultant.analysis.sampling import identity_ranks
from resultant.analysis.space import FrozenSpace, Progress, unit, unit_chunks
from resultant.classes.cosines import cosines
from resultant.classes.statistics import ClassStatistics
from resultant.classifiers.choice import Choice, Search, choose, simplified
from resultant.classifiers.left_out import FOLDS, Part, draw_rows

# Features that `resultant extract` takes from the layer that the loss is computed on.
PROJECTION = "projection"

# Difference of two distributions over classes, as a sum of absolute differences, that is a tie.
EVEN = 0.05

# Sums of the training rows without each fold, or of all fitted rows.
Remaining = list[ClassStatistics]

# A function that sums training rows by class and fold: classes times folds are its classes.
FoldSums = Callable[[FrozenSpace, Tensor, int], ClassStatistics]


@dataclass(frozen=True, eq=False)
class ChoosingRows:
    """The rows that choose settings, and the classes that they are scored against.

    Attributes:
        split: "val", "calibration" (training rows that are not fitted) or "train" (folds).
        index: Rows [M] of the split.
        labels: Their classes [M].
        fold: Their folds [M]; a row is scored against the classes of the other folds. All zero
            unless the split is "train".
        folds: Folds [N] of all training rows, or None.
        weights: Weights [M] that sum to one.
        total: Rows of the split.
        metric: "accuracy" or "balanced".
    """

    split: str
    index: Tensor
    labels: Tensor
    fold: Tensor
    folds: Tensor | None
    weights: Tensor
    total: int
    metric: str

    @property
    def described(self) -> str:
        """The rows in a few words."""
        number = len(self.index)
        part = f"{number:,}" if number == self.total else f"{number:,} of the {self.total:,}"
        if self.split == "train":
            return f"{FOLDS}-fold cross-validation on {part} training rows"
        name = "rows of the split val" if self.split == "val" else "training rows kept apart"
        return f"{part} {name}"


def foremost_features(nearest: Mapping[str, float], split: str) -> str:
    """Return the features of the headline: those of the best class directions.

    Training rows have no say about a projection, which the loss has fitted to them: it is chosen
    by a split val alone.

    Args:
        nearest: Accuracies of the nearest class direction on the rows that choose, by features.
        split: The split of these rows.
    """
    names = [name for name in nearest if split == "val" or name != PROJECTION]
    return max(names or nearest, key=lambda name: nearest[name])


def metric_of(space: FrozenSpace) -> str:
    """Return "balanced" if held-out rows are distributed over classes evenly rather than as the
    training rows are, else "accuracy".

    Only counts of classes are compared, by their total variation. Training rows that are even
    themselves, up to `EVEN`, leave the accuracy.
    """
    test = torch.bincount(space.test_labels, minlength=space.num_classes).double()
    train = space.counts.double()
    asked = test > 0
    test, train = test / test.sum(), train / train.sum()
    even = asked / asked.sum()
    nearer = (test - even).abs().sum() + EVEN < (test - train).abs().sum()
    return "balanced" if nearer else "accuracy"


def choosing_rows(space: FrozenSpace, metric: str) -> ChoosingRows:
    """Draw the rows that choose: those of val, else training rows that are not fitted, else
    training rows in folds; see `row_weights`."""
    split, fold_of = "train", None
    if space.val_labels is not None:
        split, labels, pool = "val", space.val_labels, torch.arange(len(space.val_labels))
    elif space.calibration is not None and len(space.calibration):
        split, pool = "calibration", space.calibration
        labels = space.labels[pool]
    else:
        labels, pool = space.labels, torch.arange(len(space.labels))
        fold_of = stratified_folds(space.labels, space.identities)
    all_weights = row_weights(labels, space.num_classes, metric)
    chosen = all_weights.nonzero().squeeze(1)
    own, weights, index = labels[chosen], all_weights[chosen], pool[chosen]
    fold = torch.zeros_like(index) if fold_of is None else fold_of[index]
    return ChoosingRows(split, index, own, fold, fold_of, weights, len(labels), metric)


def row_weights(labels: Tensor, num_classes: int, metric: str) -> Tensor:
    """Draw rows that choose from the rows of a split; return weights [N] that sum to one, zero for
    the rows that are not drawn (`draw_rows`).

    Weights restore the share of each class, which is its share of the split for the metric
    "accuracy" and equal for "balanced".
    """
    chosen, kept = draw_rows(labels, num_classes)
    mass = torch.bincount(labels, minlength=num_classes).double()
    if metric == "balanced":
        mass = (mass > 0).double()
    drawn = (mass / kept)[labels[chosen]]
    weights = torch.zeros(len(labels), dtype=torch.float64)
    weights[chosen] = drawn / drawn.sum()
    return weights


def stratified_folds(labels: Tensor, identities: Tensor | None) -> Tensor:
    """Draw stratified folds [N] of training rows; rows of one identity share a fold."""
    rank, own, number = identity_ranks(labels, identities, 0)
    # Small classes start in different folds, so that the folds have about one size.
    return ((rank + own) % FOLDS)[number]


def remaining_sums(
    space: FrozenSpace,
    rows: ChoosingRows,
    progress: Progress | None = None,
    fold_sums: FoldSums | None = None,
) -> Remaining:
    """Return the sums of the training rows without each fold; of all fitted rows without folds.

    Args:
        space: The classes.
        rows: The rows that choose.
        progress: Called with the name of the step and the fraction that is done.
        fold_sums: The function that sums the rows, such as that of a cluster.
    """
    if rows.folds is None:
        return [space.statistics]
    # One pass: the pairs of class and fold are classes of their own.
    C, K = space.num_classes, FOLDS
    label = space.labels * K + rows.folds
    if fold_sums is None:
        pairs = _sums(space, label, C * K, progress)
    else:
        pairs = fold_sums(space, label, C * K)
    remaining = []
    for fold in range(K):
        part = ClassStatistics(C, space.dim)
        part.count, part.weight = pairs.count[fold::K], pairs.weight[fold::K]
        part.total = pairs.total[fold::K]
        remaining.append(space.statistics.without(part))
    return remaining


def _sums(
    space: FrozenSpace, label: Tensor, number: int, progress: Progress | None
) -> ClassStatistics:
    statistics = ClassStatistics(number, space.dim, device=space.device)
    height = chunks.rows_per_chunk(8 * space.dim, chunks.ROW_BYTES, space.device)
    stream = unit_chunks(space.train, label, height, torch.float64, space.device)
    for at, x, y in stream:
        statistics.add(x, y)
        if progress is not None:
            progress("folds", at.stop / len(label))
    return statistics.to("cpu")


def choosing_part(space: FrozenSpace, rows: ChoosingRows, remaining: Remaining) -> Part:
    """Compute the cosines of the rows that choose with the classes of other rows."""
    source = space.val if rows.split == "val" else space.train
    assert source is not None
    states = [statistics.state(space.estimator) for statistics in remaining]
    rho = torch.empty(len(rows.index), space.num_classes, dtype=space.dtype, device=space.device)
    height = chunks.rows_per_chunk(8 * space.dim, chunks.ROW_BYTES, space.device)
    for fold, state in enumerate(states):
        mu = state.mu.to(space.device, space.dtype)
        for at in (rows.fold == fold).nonzero().squeeze(1).split(height):
            index = rows.index[at]
            rho[at.to(space.device)] = cosines(
                unit(source[index], rows.split, index, space.device), mu
            )
    return Part(
        rho,
        rows.labels.to(space.device),
        torch.stack([state.kappa for state in states]).to(space.device),
        torch.stack([statistics.weight for statistics in remaining]).to(space.device),
        space.dim,
        rows.fold.to(space.device) if len(states) > 1 else None,
    )


@dataclass(frozen=True, eq=False)
class Evidence:
    """The rows that choose, against classes without them.

    Attributes:
        remaining: Sums of `remaining_sums`.
        part: Cosines of `choosing_part`.
        hits: Rows [M] bool whose nearest class direction is that of their class.
        nearest: Their share, weighted by the metric: among several features it chooses those of
            the headline.
    """

    remaining: Remaining
    part: Part
    hits: Tensor
    nearest: float


def gather_evidence(
    space: FrozenSpace,
    rows: ChoosingRows,
    progress: Progress | None = None,
    fold_sums: FoldSums | None = None,
) -> Evidence:
    """Score the rows that choose against classes without them; arguments of `remaining_sums`."""
    remaining = remaining_sums(space, rows, progress, fold_sums)
    part = choosing_part(space, rows, remaining)
    hits = (part.rho.masked_fill(~part.present, -torch.inf).argmax(1) == part.y).cpu()
    return Evidence(remaining, part, hits, float(hits.double() @ rows.weights))


def choose_settings(
    space: FrozenSpace,
    rows: ChoosingRows,
    part: Part,
    *,
    temperature: float | None = None,
    progress: Progress | None = None,
) -> tuple[dict[str, Choice], Choice, Choice, Search]:
    """Choose temperature, beta and prior of each realization, and the realization.

    Args:
        space: The classes.
        rows: The rows that choose.
        part: Cosines of `choosing_part`.
        temperature: A temperature that is given rather than chosen.
        progress: Called with the name of the step and the fraction that is done.

    Returns:
        The plainest choices by realization, the advised one of them, the best choice of all, and
        the search, whose rows are the choosing rows whose class has other rows.
    """
    search = Search(part, rows.weights.to(space.device))
    fixed = {} if temperature is None else {"temperature": temperature}
    report = None if progress is None else partial(progress, "choice")
    return *simplified(search, choose(search, fixed, report)), search
