"""Warnings about the rows of a space, where numbers may mislead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from resultant._core import chunks
from resultant._core.text import class_name, counted, one_line, shown
from resultant.analysis.advice import Caution, RuleRow
from resultant.analysis.choice import Evidence
from resultant.analysis.judging import FEW_ROWS
from resultant.analysis.space import FrozenSpace, Vectors

# Held-out rows of a class below which its accuracy means little.
FEW_PER_CLASS = 3

# A class dominates with more than this share of the held-out rows, and this many times the rows of
# the average other class: of two classes one has 80 %, of five or more classes one has half.
DOMINANT = 0.5
TIMES = 4

# Rise of accuracy by centring, and its standard errors, from which a warning is due.
CENTERED = 0.005
ERRORS = 2

# Fraction by which rows that choose are more accurate than held-out rows, if they were seen before.
SEEN = 0.1


def cautions(
    space: FrozenSpace,
    evidence: Evidence,
    weights: Tensor,
    *,
    hashes: Callable[[Vectors], Tensor] | None = None,
    names: Sequence[str] | None = None,
) -> tuple[Caution, ...]:
    """Check the rows of a space.

    Args:
        space: The classes and the held-out rows.
        evidence: The rows that choose, against classes without them.
        weights: Weights [M] of these rows.
        hashes: The function that hashes all rows, such as that of a cluster.
        names: Names of the classes.

    Returns:
        A warning per check that found something: duplicates, few rows, two classes, a dominating
        class, features that are better centred, and sorted labels.
    """
    checks = (
        *(_duplicates(space, hashes or row_hashes), _few_rows(space), _few_classes(space)),
        *(_dominant(space, names), _uncentered(evidence, weights), _sorted(space)),
    )
    return tuple(caution for check in checks for caution in check)


def _duplicates(space: FrozenSpace, hashes: Callable[[Vectors], Tensor]) -> Iterator[Caution]:
    seen = hashes(space.train)
    splits = [("held-out", space.test)]
    if space.val is not None:
        splits.append(("val", space.val))
    for name, vectors in splits:
        number = int(torch.isin(hashes(vectors), seen).sum())
        if number:
            text = f"{number:,} of {len(vectors):,} {name} rows {'is' if number == 1 else 'are'}"
            most = f"{100 * number / len(vectors):.3g} points"
            yield Caution(
                "duplicates",
                f"{text} also among the training rows, number for number: accuracies may be up to "
                f"{most} too high. Remove the duplicates from one of the splits.",
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


def _dominant(space: FrozenSpace, names: Sequence[str] | None) -> Iterator[Caution]:
    counts = torch.bincount(space.test_labels, minlength=space.num_classes)
    most, others = int(counts.max()), int(counts.sum() - counts.max())
    share = most / (most + others)
    if share > DOMINANT and most * (space.num_classes - 1) >= TIMES * others:
        c, percent = int(counts.argmax()), f"{100 * share:.1f} %"
        name = str(c) if names is None else shown(one_line(names[c]))
        text = f"Class {name} has {percent} of the held-out rows: to predict it always is {percent}"
        yield Caution("dominant", f"{text} accurate. Read the balanced accuracy.")


def _uncentered(evidence: Evidence, weights: Tensor) -> Iterator[Caution]:
    """Warn if the nearest class direction is more accurate for rows minus their mean."""
    d = _centered_hits(evidence) - evidence.hits.double()
    gain = float(d @ weights)
    error = float((weights * (d - gain)).square().sum().sqrt())
    if gain >= CENTERED and gain > ERRORS * error:
        yield Caution(
            "uncentered",
            "The features are not centred: on the rows that choose, class directions of rows minus "
            f"their mean are {100 * gain:.1f} points more accurate. Subtract the mean of the "
            "training rows from all features.",
        )


def _centered_hits(evidence: Evidence) -> Tensor:
    """Rows [M] that choose and have the nearest class direction after the mean is subtracted.

    The mean is that of the remaining unit rows, a sum of class means: cosines with the classes are
    enough, and no row is read.
    """
    part = evidence.part
    hit = torch.zeros(len(part.y), dtype=torch.float64)
    for fold, statistics in enumerate(evidence.remaining):
        at = (
            torch.arange(len(hit))
            if part.states is None
            else (part.states.cpu() == fold).nonzero()[:, 0]
        )
        weight = statistics.weight.double()
        means = statistics.total.double() / weight.clamp_min(1e-300)[:, None]
        mean = statistics.total.double().sum(0) / weight.sum()
        length = (means - mean).norm(dim=1)
        # x . mean_c of the rows, from their cosines with the directions of the classes.
        inner = part.rho[at.to(part.rho.device)].cpu().double() * means.norm(dim=1)
        with_mean = inner @ (weight / weight.sum())
        scores = (inner - with_mean[:, None] - means @ mean + mean @ mean) / length
        scores = scores.masked_fill(~((weight > 0) & (length > 0)), -torch.inf)
        hit[at] = (scores.argmax(1) == part.y[at.to(part.y.device)].cpu()).double()
    return hit


def _sorted(space: FrozenSpace) -> Iterator[Caution]:
    labels = space.labels
    if bool((labels[1:] >= labels[:-1]).all()) and len(labels) > space.num_classes:
        yield Caution(
            "sorted",
            "The training rows are sorted by class. Nothing here depends on the order, but a split "
            "or a stream of these rows must shuffle them first.",
        )


def near_chance(best: RuleRow, labels: Tensor, names: Sequence[str] | None) -> tuple[Caution, ...]:
    """Warn if one class, predicted always, may be as accurate as the best vMF rule.

    Args:
        best: The best vMF rule on the held-out rows.
        labels: Classes [N] of these rows.
        names: Names of the classes.
    """
    counts = torch.bincount(labels)
    share, c = float(counts.max()) / len(labels), int(counts.argmax())
    if best.low > share:
        return ()
    name = class_name(str(c) if names is None else one_line(names[c]))
    text = f"No vMF rule is clearly more accurate than to predict {name} always "
    reason = "the features may say nothing about the labels, or the held-out rows are too few"
    return (Caution("chance", f"{text}({100 * share:.1f} %): {reason}."),)


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
