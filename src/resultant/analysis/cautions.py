"""Warnings about the rows of a feature set, where numbers may mislead."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from resultant._core.text import class_name, counted
from resultant.analysis.data import FeatureSet, Plan
from resultant.analysis.evaluate import FEW_ROWS
from resultant.analysis.metrics import sample_rows
from resultant.analysis.plain import Caution
from resultant.analysis.result import Method, RowTable

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


def cautions(data: FeatureSet, plan: Plan, copies: RowTable, method: Method) -> Iterator[Caution]:
    """Check the rows of a feature set, and the recommended method or the best one."""
    if copies.total:
        rows = counted(copies.total, "row is", "rows are")
        yield Caution(
            "duplicates",
            f"{rows} in {data.train.name} and in another split, as exact duplicates: accuracies "
            "may be too high. Remove the duplicates from one of the splits.",
        )
    if len(data.test) < FEW_ROWS:
        rows = counted(len(data.test), "test row", "test rows")
        text = f"Only {rows}: accuracies are rough, and calibration errors are not shown."
        yield Caution("few-rows", f"{text} Hold out {FEW_ROWS} rows or more.")
    counts = torch.bincount(data.test.y, minlength=data.num_classes)
    if few := int((counts < FEW_PER_CLASS).sum()):
        have = counted(few, "class has", "classes have")
        text = f"{have} fewer than {FEW_PER_CLASS} test rows"
        yield Caution("few-per-class", f"{text}: accuracies of single classes mean little there.")
    most, total = int(counts.max()), int(counts.sum())
    if most > DOMINANT * total and most * (data.num_classes - 1) >= TIMES * (total - most):
        name, percent = class_name(data.class_names[int(counts.argmax())]), 100 * most / total
        text = f"{percent:.1f} % of the test rows are {name}: always predicting it is"
        text = f"{text} {percent:.1f} % accurate. Read the balanced accuracy."
        yield Caution("dominant", text)
    # Whitening removes units.
    if not method.settings.get("whiten") and method.family != "scikit-learn":
        x = data.train.read(sample_rows(len(data.train), UNIT_ROWS, 0)).double()
        spread = x.std(0, correction=min(1, len(x) - 1))
        spread = spread[spread > 0]
        ratio = float(spread.max() / spread.median()) if len(spread) > 1 else 1.0
        if ratio > UNITS:
            text = f"One column varies {ratio:,.0f} times as much as the median column and decides"
            yield Caution("units", f"{text} all directions. Standardize the columns.")
    value, test = method.validation.value, method.metric(plan.metric).value
    if plan.folds is not None and value - test >= SEEN:
        yield Caution(
            "seen",
            f"Validation rows are {100 * value:.1f} % accurate, test rows {100 * test:.1f} %: the "
            "network has probably seen the training rows. Settings and probabilities are chosen "
            "too sharp. Give a split val of unseen rows.",
        )
    labels = data.train.y
    if bool((labels[1:] >= labels[:-1]).all()) and len(labels) > data.num_classes:
        yield Caution(
            "sorted",
            "The training rows are sorted by class. Nothing here depends on the order, but a split "
            "or a stream of these rows must shuffle them first.",
        )
