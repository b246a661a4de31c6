"""Warnings about the rows of a feature set, where numbers may mislead."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from resultant._core.text import class_name, counted
from resultant.analysis.data import FeatureSet, Plan
from resultant.analysis.evaluate import FEW_ROWS
from resultant.analysis.plain import Caution
from resultant.analysis.result import Method, RowTable
from resultant.analysis.sampling import sample_rows

# Test rows of a class below which its accuracy means little.
FEW_PER_CLASS = 3

# A class dominates with more than this share of the test rows, and this many times the rows of the
# average other class: of two classes one has 80 %, of five or more classes one has half.
DOMINANT = 0.5
TIMES = 4

# Ratio of the standard deviations of two columns from which their units differ, and rows that
# show it.
UNITS = 100.0
UNIT_ROWS = 2_000

# Fraction by which validation rows are more accurate than test rows if they were seen in training.
SEEN = 0.1


def cautions(
    data: FeatureSet, plan: Plan, duplicates: RowTable, method: Method
) -> tuple[Caution, ...]:
    """Check the rows of a feature set."""
    return (
        *_duplicates(data, duplicates),
        *_few_rows(data),
        *_dominant(data),
        *_units(data, method),
        *_seen(plan, method),
        *_sorted(data),
    )


def _duplicates(data: FeatureSet, table: RowTable) -> Iterator[Caution]:
    if table.total:
        rows = counted(table.total, "row is", "rows are")
        yield Caution(
            "duplicates",
            f"{rows} in {data.train.name} and in another split, as exact duplicates: accuracies "
            "may be too high. Remove the duplicates from one of the splits.",
        )


def _few_rows(data: FeatureSet) -> Iterator[Caution]:
    M = len(data.test)
    if M < FEW_ROWS:
        rows = counted(M, "test row", "test rows")
        text = f"Only {rows}: accuracies are rough, and calibration errors are not shown."
        yield Caution("few-rows", f"{text} Hold out {FEW_ROWS} rows or more.")
    counts = torch.bincount(data.test.y, minlength=data.num_classes)
    few = int((counts < FEW_PER_CLASS).sum())
    if few:
        have = counted(few, "class has", "classes have")
        text = f"{have} fewer than {FEW_PER_CLASS} test rows"
        yield Caution("few-per-class", f"{text}: accuracies of single classes mean little there.")


def _dominant(data: FeatureSet) -> Iterator[Caution]:
    counts = torch.bincount(data.test.y, minlength=data.num_classes)
    most, others = int(counts.max()), int(counts.sum() - counts.max())
    share = most / (most + others)
    if share > DOMINANT and most * (data.num_classes - 1) >= TIMES * others:
        name = class_name(data.class_names[int(counts.argmax())])
        percent = f"{100 * share:.1f} %"
        yield Caution(
            "dominant",
            f"{percent} of the test rows are {name}: always predicting it is {percent} accurate. "
            "Read the balanced accuracy.",
        )


def _units(data: FeatureSet, method: Method) -> Iterator[Caution]:
    """Warn if columns have different units; whitening removes them."""
    if method.settings.get("whiten") or method.family == "scikit-learn":
        return
    x = data.train.read(sample_rows(len(data.train), UNIT_ROWS, 0)).double()
    spread = x.std(0) if len(x) > 1 else x[0] * 0
    spread = spread[spread > 0]
    if len(spread) > 1 and float(spread.max() / spread.median()) > UNITS:
        yield Caution(
            "units",
            f"One column varies {float(spread.max() / spread.median()):,.0f} times as much as the "
            "median column and decides all directions. Standardize the columns.",
        )


def _seen(plan: Plan, method: Method) -> Iterator[Caution]:
    test = method.metric(plan.metric).value
    if plan.folds is not None and method.validation.value - test >= SEEN:
        yield Caution(
            "seen",
            f"Validation rows are {100 * method.validation.value:.1f} % accurate, test rows "
            f"{100 * test:.1f} %: the network has probably seen the training rows. Settings and "
            "probabilities are chosen too sharp. Give a split val of unseen rows.",
        )


def _sorted(data: FeatureSet) -> Iterator[Caution]:
    labels = data.train.y
    if bool((labels[1:] >= labels[:-1]).all()) and len(labels) > data.num_classes:
        yield Caution(
            "sorted",
            "The training rows are sorted by class. Nothing here depends on the order, but a split "
            "or a stream of these rows must shuffle them first.",
        )
