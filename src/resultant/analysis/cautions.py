"""Warnings about the rows of a space, where numbers may mislead."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from resultant._core import chunks
from resultant._core.text import counted
from resultant.analysis.advice import Caution
from resultant.analysis.judging import FEW_ROWS
from resultant.analysis.space import FrozenSpace, Vectors

# Held-out rows of a class below which its accuracy means little.
FEW_PER_CLASS = 3

# Share of one class, and length of the mean direction, above which a warning is due.
DOMINANT = 0.5
UNCENTERED = 0.5

# Fraction by which rows that choose are more accurate than held-out rows, if they were seen before.
SEEN = 0.1


def cautions(
    space: FrozenSpace, hashes: Callable[[Vectors], Tensor] | None = None
) -> tuple[Caution, ...]:
    """Check the rows of a space; ``hashes`` gives those of all rows, such as on a cluster.

    Returns:
        A warning per check that found something: duplicates, few rows, two classes, a dominating
        class, features that are not centred, and sorted labels.
    """
    checks = (_few_rows, _few_classes, _dominant, _uncentered, _sorted)
    found = [*_duplicates(space, hashes or row_hashes)]
    return (*found, *(caution for check in checks for caution in check(space)))


def _duplicates(space: FrozenSpace, hashes: Callable[[Vectors], Tensor]) -> Iterator[Caution]:
    seen = hashes(space.train)
    splits = [("held-out", space.test)]
    if space.val is not None:
        splits.append(("val", space.val))
    for name, vectors in splits:
        number = int(torch.isin(hashes(vectors), seen).sum())
        if number:
            rows = counted(number, "row is", "rows are")
            text = f"{number:,} of {len(vectors):,} {name} {rows.split(' ', 1)[1]}"
            yield Caution(
                "duplicates",
                f"{text} also among the training rows, number for number: accuracies are too high. "
                "Remove the duplicates, or split by image before the features are extracted.",
            )


def row_hashes(vectors: Vectors) -> Tensor:
    """Hash rows [N, p] by their values in float32, as int64 [N]; equal rows have equal hashes."""
    p = vectors.shape[1]
    generator = torch.Generator().manual_seed(0)
    factors = torch.randint(-(2**62), 2**62, (p,), generator=generator) | 1
    hashes = torch.empty(len(vectors), dtype=torch.int64)
    height = chunks.rows_per_chunk(8 * p, chunks.ROW_BYTES)
    for top in range(0, len(vectors), height):
        rows = vectors[top : top + height].to("cpu", torch.float32)
        # Plus zero: -0.0 equals 0.0. Sums of int64 wrap around.
        bits = (rows + 0.0).view(torch.int32).long()
        hashes[top : top + height] = (bits * factors).sum(1)
    return hashes


def _few_rows(space: FrozenSpace) -> Iterator[Caution]:
    M = len(space.test)
    if M < FEW_ROWS:
        rows = counted(M, "held-out row", "held-out rows")
        text = f"Only {rows}: accuracies are rough, and calibration errors are not shown."
        yield Caution("few-rows", f"{text} Hold out {FEW_ROWS} rows or more.")
    counts = torch.bincount(space.test_labels, minlength=space.num_classes)
    few = int((counts < FEW_PER_CLASS).sum())
    if few:
        have = counted(few, "class has", "classes have")
        text = f"{have} fewer than {FEW_PER_CLASS} held-out rows"
        yield Caution("few-per-class", f"{text}: accuracies of single classes mean little there.")


def _few_classes(space: FrozenSpace) -> Iterator[Caution]:
    if space.num_classes == 2:
        yield Caution(
            "two-classes",
            "There are two classes only: ranks and correlations over classes are not shown.",
        )


def _dominant(space: FrozenSpace) -> Iterator[Caution]:
    counts = torch.bincount(space.test_labels, minlength=space.num_classes)
    share = float(counts.max() / counts.sum())
    if share > DOMINANT:
        c, percent = int(counts.argmax()), f"{100 * share:.1f} %"
        text = f"Class {c} has {percent} of the held-out rows: to predict it always is {percent}"
        yield Caution("dominant", f"{text} accurate. Read the balanced accuracy.")


def _uncentered(space: FrozenSpace) -> Iterator[Caution]:
    total = space.statistics.total.sum(0) / space.statistics.weight.sum()
    length = float(total.norm())
    if length > UNCENTERED:
        text = f"The features are not centred: their mean direction has length {length:.2f} of 1"
        yield Caution(
            "uncentered",
            f"{text}, so all cosines are close to one another. Try the features minus their mean "
            "over the training rows.",
        )


def _sorted(space: FrozenSpace) -> Iterator[Caution]:
    labels = space.labels
    if bool((labels[1:] >= labels[:-1]).all()) and len(labels) > space.num_classes:
        yield Caution(
            "sorted",
            "The training rows are sorted by class. Nothing here depends on the order, but a split "
            "or a stream of these rows must shuffle them first.",
        )


def seen_before(choosing: float, held_out: float, split: str) -> tuple[Caution, ...]:
    """Warn if training rows that choose are far more accurate than held-out rows.

    Args:
        choosing: Accuracy of the advised rule on the rows that choose, left out of the fit.
        held_out: Its accuracy on the held-out rows in the same metric.
        split: The split of the rows that choose.
    """
    if split == "val" or choosing - held_out < SEEN:
        return ()
    text = (
        f"Left-out training rows are {100 * choosing:.1f} % accurate, held-out rows "
        f"{100 * held_out:.1f} %: the network has probably seen the training rows"
    )
    advice = "Settings and probabilities are chosen too sharp. Give a split val of unseen rows."
    return (Caution("seen", f"{text}. {advice}"),)
